//! From a target to a connection, and a name for each way to fail.

use super::connection::Connection;
use super::wire::{Socket, Stamped, Wire};
use crate::clock::Clock;
use crate::observation::ConnectFault;
use crate::target::{Authorities, Protocol, Route, Target, Transport};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// A client could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The text given as certificates is none.
    #[error("the authorities given are no PEM certificates: {0}")]
    NotPem(String),
    /// No authority at all.
    #[error("no certificate authority is known{0}: install the system's certificates or give some as PEM")]
    NoAuthorities(String),
    /// The host's name cannot stand in a certificate.
    #[error("`{0}` is no name that a certificate can be for")]
    ServerName(String),
    /// TLS could not be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct NoConnection {
    pub fault: ConnectFault,
    pub message: String,
}

/// A maker of connections to one target.
pub(super) struct Connector {
    route: Route,
    protocol: Protocol,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    clock: Clock,
    /// Looked up once: a run must not wait for a resolver in its middle.
    addresses: OnceCell<Vec<SocketAddr>>,
}

impl Connector {
    pub fn new(target: &Target, clock: Clock) -> Result<Self, ClientError> {
        let tls = match &target.route {
            Route::Tcp { host, transport: Transport::Tls, .. } => Some((
                tls_connector(&target.authorities, target.protocol)?,
                ServerName::try_from(host.to_string())
                    .map_err(|_| ClientError::ServerName(host.to_string()))?,
            )),
            _ => None,
        };
        let (route, protocol) = (target.route.clone(), target.protocol);
        Ok(Self { route, protocol, tls, clock, addresses: OnceCell::new() })
    }

    /// A new connection, ready for a request.
    pub async fn connect(&self) -> Result<Connection, NoConnection> {
        let socket = Stamped::new(self.socket().await?, self.clock);
        let stamps = socket.stamps();
        let wire = match &self.tls {
            None => Wire::Plain(socket),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), socket).await;
                Wire::Tls(Box::new(stream.map_err(|error| self.no_tls(&error))?))
            }
        };
        let connection = match self.protocol {
            Protocol::Http1 => Connection::http1(wire, stamps).await,
            Protocol::Http2 => Connection::http2(wire, stamps).await,
        };
        connection.map_err(|error| self.failed(ConnectFault::Http, &error))
    }

    async fn socket(&self) -> Result<Socket, NoConnection> {
        match &self.route {
            Route::Unix { path } => {
                UnixStream::connect(path).await.map(Socket::Unix).map_err(|error| self.no_socket(&error))
            }
            Route::Tcp { host, port, .. } => {
                let addresses = self.addresses.get_or_try_init(|| self.look_up(host, *port)).await?;
                let tcp = TcpStream::connect(addresses.as_slice()).await;
                let tcp = tcp.and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp));
                tcp.map(Socket::Tcp).map_err(|error| self.no_socket(&error))
            }
        }
    }

    async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NoConnection> {
        let found = lookup_host((host, port)).await;
        let addresses: Vec<SocketAddr> =
            found.map_err(|error| self.failed(dns_fault(&error), &error))?.collect();
        if addresses.is_empty() {
            return Err(self.failed(ConnectFault::Dns, &"the name has no address"));
        }
        Ok(addresses)
    }

    fn no_socket(&self, error: &io::Error) -> NoConnection {
        let fault = match error.kind() {
            _ if out_of_files(error) => ConnectFault::TooManyFiles,
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ConnectFault::Refused,
            _ => ConnectFault::Unreachable,
        };
        self.failed(fault, error)
    }

    fn no_tls(&self, error: &io::Error) -> NoConnection {
        let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let fault = match cause {
            Some(rustls::Error::InvalidCertificate(fault)) => certificate_fault(fault),
            _ => ConnectFault::Tls,
        };
        self.failed(fault, error)
    }

    fn failed(&self, fault: ConnectFault, error: &dyn Display) -> NoConnection {
        let place = match &self.route {
            Route::Tcp { host, port, .. } => format!("{host}:{port}"),
            Route::Unix { path } => path.display().to_string(),
        };
        NoConnection { fault, message: format!("{place}: {error}: {}", remedy(fault)) }
    }
}

/// What a person can do about a failed connection.
pub(super) const fn remedy(fault: ConnectFault) -> &'static str {
    match fault {
        ConnectFault::Dns => "check the host's name and the resolver",
        ConnectFault::Refused => "is the server up, and listening there?",
        ConnectFault::Unreachable => "check the address and the network",
        ConnectFault::TooManyFiles => {
            "raise the limit of open files (ulimit -n) or lower the requests in flight"
        }
        ConnectFault::TlsExpired => "renew the server's certificate, or set the clock right",
        ConnectFault::TlsUntrusted => {
            "use the name that the certificate is for, or give its authority as PEM"
        }
        ConnectFault::Tls => "does the server speak TLS at this port?",
        ConnectFault::Http => "does the server speak this version of HTTP at this port?",
        ConnectFault::ClosedBeforeAnswer => "look into the server's log",
    }
}

fn dns_fault(error: &io::Error) -> ConnectFault {
    if out_of_files(error) { ConnectFault::TooManyFiles } else { ConnectFault::Dns }
}

fn out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let limits = [Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()];
    error.raw_os_error().is_some_and(|code| limits.contains(&code))
}

fn certificate_fault(error: &CertificateError) -> ConnectFault {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => ConnectFault::TlsExpired,
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::NotValidForName
        | CertificateError::NotValidForNameContext { .. } => ConnectFault::TlsUntrusted,
        _ => ConnectFault::Tls,
    }
}

fn tls_connector(authorities: &Authorities, protocol: Protocol) -> Result<TlsConnector, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ClientError::Tls(error.to_string()))?;
    let mut config = builder.with_root_certificates(roots(authorities)?).with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(authorities: &Authorities) -> Result<RootCertStore, ClientError> {
    let (certificates, errors) = match authorities {
        Authorities::Native => {
            let found = rustls_native_certs::load_native_certs();
            let errors: String = found.errors.iter().map(|error| format!(" ({error})")).collect();
            (found.certs, errors)
        }
        Authorities::Pem(pem) => {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            (read.map_err(|error| ClientError::NotPem(error.to_string()))?, String::new())
        }
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() { Err(ClientError::NoAuthorities(errors)) } else { Ok(roots) }
}
