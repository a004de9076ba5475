//! Where requests go, and the headers that every one of them carries.

use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, InvalidHeaderName, InvalidHeaderValue};
use std::fmt;
use std::path::PathBuf;

/// The version of HTTP that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2; without TLS by prior knowledge.
    Http2,
}

/// Which certificate authorities are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authorities {
    /// The machine's.
    #[default]
    Native,
    /// These alone: certificates in PEM.
    Pem(Vec<u8>),
}

/// A way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Tcp { host: Box<str>, port: u16, transport: Transport },
    Unix { path: PathBuf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// A header's value that is never shown: its `Debug` prints dots, it has no `Display` and no serial form.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(HeaderValue);

impl Secret {
    pub(crate) fn value(&self) -> &HeaderValue {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

/// A server, how to speak to it, and what to tell it with each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(crate) route: Route,
    pub(crate) base_path: Box<str>,
    pub(crate) authority: HeaderValue,
    pub(crate) protocol: Protocol,
    pub(crate) authorities: Authorities,
    pub(crate) headers: Vec<(HeaderName, Secret)>,
}

/// Why a target cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is no URL.
    #[error("`{0}` is no URL: write http://HOST:PORT, https://HOST or unix:PATH")]
    NotAUrl(String),
    /// The URL's scheme is not served.
    #[error("`{0}` has a scheme that is not spoken: use http, https or unix")]
    Scheme(String),
    /// The URL carries a password, a query or a fragment.
    #[error("the URL has {0}, which would stand in records: leave it out, and give a key as a header")]
    Extra(&'static str),
    /// The name of a header is malformed.
    #[error("`{name}` is no name of a header: {reason}")]
    HeaderName {
        /// The name given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The value of a header is malformed; it is not repeated here, it may be secret.
    #[error(
        "the value of header `{name}` holds a character that HTTP forbids: is there a line break at its end?"
    )]
    HeaderValue {
        /// The header.
        name: String,
    },
}

impl Target {
    /// Reads `http://HOST[:PORT][/PATH]`, `https://...` or `unix:PATH`.
    ///
    /// # Errors
    /// When the text is none of these, or carries a password, a query or a fragment.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        if let Some(path) = url.strip_prefix("unix:") {
            return Self::unix(url, path);
        }
        let refused = || TargetError::NotAUrl(without_user(url));
        if url.contains('#') {
            return Err(TargetError::Extra("a fragment"));
        }
        let uri: Uri = url.parse().map_err(|_| refused())?;
        let (scheme, authority) =
            (uri.scheme_str().ok_or_else(refused)?, uri.authority().ok_or_else(refused)?);
        if authority.as_str().contains('@') {
            return Err(TargetError::Extra("a user or a password"));
        }
        if uri.query().is_some() {
            return Err(TargetError::Extra("a query"));
        }
        let (transport, default_port) = match scheme {
            "http" => (Transport::Plain, 80),
            "https" => (Transport::Tls, 443),
            _ => return Err(TargetError::Scheme(url.to_owned())),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => default_port,
            _ => authority.port_u16().ok_or_else(refused)?,
        };
        if host.is_empty() {
            return Err(refused());
        }
        Self::new(Route::Tcp { host: host.into(), port, transport }, authority.as_str(), uri.path())
            .ok_or_else(refused)
    }

    fn unix(url: &str, path: &str) -> Result<Self, TargetError> {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(TargetError::NotAUrl(url.to_owned()));
        }
        let route = Route::Unix { path: path.into() };
        Self::new(route, "localhost", "").ok_or_else(|| TargetError::NotAUrl(url.to_owned()))
    }

    fn new(route: Route, authority: &str, base_path: &str) -> Option<Self> {
        Some(Self {
            route,
            base_path: base_path.trim_end_matches('/').into(),
            authority: HeaderValue::from_str(authority).ok()?,
            protocol: Protocol::default(),
            authorities: Authorities::default(),
            headers: Vec::new(),
        })
    }

    /// The same target by another version of HTTP.
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// The same target, believing other authorities.
    #[must_use]
    pub fn with_authorities(mut self, authorities: Authorities) -> Self {
        self.authorities = authorities;
        self
    }

    /// The same target with `authorization: Bearer KEY` on every request.
    ///
    /// # Errors
    /// When the key holds a character that no header may have.
    pub fn with_api_key(self, key: &str) -> Result<Self, TargetError> {
        self.with_header(AUTHORIZATION.as_str(), &format!("Bearer {key}"))
    }

    /// The same target with a header on every request. Its value is never shown.
    ///
    /// # Errors
    /// When name or value hold a character that no header may have.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, TargetError> {
        let name: HeaderName = name.parse().map_err(|error: InvalidHeaderName| TargetError::HeaderName {
            name: name.to_owned(),
            reason: error.to_string(),
        })?;
        let value = HeaderValue::from_str(value);
        let mut value = value
            .map_err(|_: InvalidHeaderValue| TargetError::HeaderValue { name: name.as_str().to_owned() })?;
        value.set_sensitive(true);
        self.headers.push((name, Secret(value)));
        Ok(self)
    }

    /// The text with every secret of this target taken out: a server may repeat a key in its error.
    pub(crate) fn redact(&self, text: &str) -> Box<str> {
        let values = self.headers.iter().filter_map(|(_, secret)| secret.value().to_str().ok());
        let redacted = values.fold(text.to_owned(), |text, value| {
            let bare = value.strip_prefix("Bearer ").unwrap_or(value);
            if bare.is_empty() { text } else { text.replace(bare, "[redacted]") }
        });
        redacted.into()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority.to_str().unwrap_or_default();
        match &self.route {
            Route::Tcp { transport: Transport::Plain, .. } => {
                write!(f, "http://{authority}{}", self.base_path)
            }
            Route::Tcp { transport: Transport::Tls, .. } => {
                write!(f, "https://{authority}{}", self.base_path)
            }
            Route::Unix { path } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A URL for an error message, without what stands before an `@`.
fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("...@{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, shown: &str) {
        assert_eq!(Target::parse(url).map(|target| target.to_string()).as_deref(), Ok(shown));
    }

    #[test]
    fn a_url_is_shown_as_it_was_meant() {
        check("http://127.0.0.1:8000", "http://127.0.0.1:8000");
        check("https://host.example/openai/", "https://host.example/openai");
        check("http://[::1]:9/", "http://[::1]:9");
        check("unix:/run/server.sock", "unix:/run/server.sock");
        check("unix:///run/server.sock", "unix:/run/server.sock");
    }

    #[test]
    fn ports_default_by_scheme_and_addresses_lose_their_brackets() {
        let route = |url: &str| Target::parse(url).expect("a URL").route;
        let tcp = |host: &str, port, transport| Route::Tcp { host: host.into(), port, transport };
        assert_eq!(route("http://a"), tcp("a", 80, Transport::Plain));
        assert_eq!(route("https://a"), tcp("a", 443, Transport::Tls));
        assert_eq!(route("https://[::1]:8443/v"), tcp("::1", 8443, Transport::Tls));
    }

    #[test]
    fn what_is_no_target_is_refused_by_name() {
        for url in ["", "host", "host:80", "http://", "http:///x", "unix:", "http://h:port", "http://h:99999"]
        {
            assert!(
                matches!(Target::parse(url), Err(TargetError::NotAUrl(_))),
                "{url}: {:?}",
                Target::parse(url)
            );
        }
        assert_eq!(Target::parse("ftp://a"), Err(TargetError::Scheme("ftp://a".to_owned())));
        for url in ["http://u:p@host", "http://host/?key=1", "http://host/#x"] {
            assert!(matches!(Target::parse(url), Err(TargetError::Extra(_))), "{url}");
        }
    }

    #[test]
    fn a_password_in_a_malformed_url_is_not_repeated() {
        let error = Target::parse("http://user:hunter2@ho st/").expect_err("a space is no part of a URL");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn a_key_is_shown_neither_by_debug_nor_by_an_error_nor_by_a_servers_message() {
        let target = Target::parse("http://a").expect("a URL").with_api_key("sk-hunter2").expect("a key");
        assert!(!format!("{target:?}").contains("hunter2"), "{target:?}");
        assert_eq!(&*target.redact("Incorrect API key sk-hunter2."), "Incorrect API key [redacted].");
        let error = target.with_api_key("sk-hunter2\n").expect_err("a line break is refused");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
