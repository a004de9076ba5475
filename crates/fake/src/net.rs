//! Listening, accepting, TLS, and HTTP/1.1 or HTTP/2 on one port.

use crate::clock::Alarm;
use crate::error::FakeError;
use acb_types::Nanos;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A certificate with its chain, and its key.
#[derive(Debug)]
pub struct TlsIdentity {
    /// The server's certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

impl Clone for TlsIdentity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

impl TlsIdentity {
    pub(crate) fn acceptor(self) -> Result<TlsAcceptor, FakeError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(self.chain, self.key));
        let mut config = config.map_err(FakeError::Certificate)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Why a body ends before its end: on purpose.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the body is cut short on purpose")]
pub(crate) struct Cut;

/// What is sent as an answer.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Cut>>;

/// The header that every answer carries.
pub const SIMULATED_HEADER: &str = "x-acb-simulated";

/// An answer that is there at once.
pub(crate) fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    mark(answer)
}

/// A JSON answer that is there at once.
pub(crate) fn json(status: StatusCode, body: &serde_json::Value) -> Answer {
    whole(status, "application/json", body.to_string())
}

/// Says on the answer that nothing real served it.
pub(crate) fn mark(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(SIMULATED_HEADER, HeaderValue::from_static("true"));
    answer
}

/// What answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// A connection was accepted.
    fn connected(&self);
    /// Answers one request.
    fn handle(self: Arc<Self>, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// How connections are accepted.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    /// How long each connection waits before it is accepted.
    pub(crate) delay: Nanos,
    pub(crate) alarm: Arc<Alarm>,
}

/// A port of this machine (0: any free one) that listens but does not accept yet.
pub(crate) fn bind(port: u16) -> Result<(std::net::TcpListener, SocketAddr), FakeError> {
    let fault = |source| FakeError::Bind { port, source };
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).map_err(fault)?;
    listener.set_nonblocking(true).map_err(fault)?;
    let addr = listener.local_addr().map_err(fault)?;
    Ok((listener, addr))
}

/// How long a server waits that could not accept.
const ACCEPT_AGAIN: Nanos = Nanos(10_000_000);

/// Accepts for ever.
pub(crate) async fn serve<H: Handler>(door: Door, handler: Arc<H>) {
    loop {
        if door.delay > Nanos::ZERO {
            door.alarm.sleep_until(door.alarm.clock().now() + door.delay).await;
        }
        let Ok((stream, _)) = door.listener.accept().await else {
            // Out of descriptors: the next connection that closes frees one.
            door.alarm.sleep_until(door.alarm.clock().now() + ACCEPT_AGAIN).await;
            continue;
        };
        handler.connected();
        // Without it the kernel holds back small writes, and stamps would not say when bytes left.
        if stream.set_nodelay(true).is_ok() {
            tokio::spawn(connection(stream, door.tls.clone(), handler.clone()));
        }
    }
}

async fn connection<H: Handler>(stream: TcpStream, tls: Option<TlsAcceptor>, handler: Arc<H>) {
    let Some(tls) = tls else {
        let mut start = [0; 3];
        let speaks_h2 = matches!(stream.peek(&mut start).await, Ok(3) if start == *b"PRI");
        return speak(stream, speaks_h2.into(), handler).await;
    };
    if let Ok(stream) = tls.accept(stream).await {
        let speaks_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        speak(stream, speaks_h2.into(), handler).await;
    }
}

enum Version {
    Http1,
    Http2,
}

impl From<bool> for Version {
    fn from(speaks_h2: bool) -> Self {
        if speaks_h2 { Self::Http2 } else { Self::Http1 }
    }
}

async fn speak<S, H>(stream: S, version: Version, handler: Arc<H>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Handler,
{
    let service = service_fn(move |request| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
    });
    let io = TokioIo::new(stream);
    // How a connection ends is in the trace of its requests; a cut body is an error here, and meant.
    let _ = match version {
        Version::Http1 => http1::Builder::new().serve_connection(io, service).await,
        Version::Http2 => http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await,
    };
}
