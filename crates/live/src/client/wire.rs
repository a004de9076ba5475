//! The socket under HTTP and TLS: it stamps each read as the bytes arrive, before anyone parses them, and each request's first write.

use crate::clock::Clock;
use acb_types::Nanos;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// Never stamped.
const UNSET: u64 = u64::MAX;

/// When a socket was last read from, and first written to since the last request began.
///
/// One task drives connection and answer, so the order of loads and stores is its own.
#[derive(Debug)]
pub(super) struct Stamps {
    read_ns: AtomicU64,
    written_ns: AtomicU64,
}

impl Stamps {
    /// The last read that brought bytes, or the end of the stream.
    pub fn read(&self) -> Option<Nanos> {
        stamp(&self.read_ns)
    }

    /// The first write since [`Stamps::begin_request`].
    pub fn written(&self) -> Option<Nanos> {
        stamp(&self.written_ns)
    }

    /// The next write belongs to another request.
    pub fn begin_request(&self) {
        self.written_ns.store(UNSET, Relaxed);
    }
}

fn stamp(cell: &AtomicU64) -> Option<Nanos> {
    Some(cell.load(Relaxed)).filter(|ns| *ns != UNSET).map(Nanos)
}

/// A socket of either kind.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket whose reads and writes are stamped.
#[derive(Debug)]
pub(super) struct Stamped {
    socket: Socket,
    clock: Clock,
    stamps: Arc<Stamps>,
}

impl Stamped {
    pub fn new(socket: Socket, clock: Clock) -> Self {
        let stamps = Stamps { read_ns: AtomicU64::new(UNSET), written_ns: AtomicU64::new(UNSET) };
        Self { socket, clock, stamps: Arc::new(stamps) }
    }

    pub fn stamps(&self) -> Arc<Stamps> {
        Arc::clone(&self.stamps)
    }

    fn before_write(&self) {
        if self.stamps.written_ns.load(Relaxed) == UNSET {
            self.stamps.written_ns.store(self.clock.now().0, Relaxed);
        }
    }
}

impl AsyncRead for Stamped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.remaining();
        ready!(match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Socket::Unix(unix) => Pin::new(unix).poll_read(cx, buf),
        })?;
        // No byte in a buffer with room is the end of the stream, which is news too.
        if room > 0 {
            self.stamps.read_ns.store(self.clock.now().0, Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.before_write();
        match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Socket::Unix(unix) => Pin::new(unix).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Socket::Unix(unix) => Pin::new(unix).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Socket::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.before_write();
        match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Socket::Unix(unix) => Pin::new(unix).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Tcp(tcp) => tcp.is_write_vectored(),
            Socket::Unix(unix) => unix.is_write_vectored(),
        }
    }
}

/// What HTTP is spoken over.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(Stamped),
    Tls(Box<TlsStream<Stamped>>),
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(plain).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(plain).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(plain).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(plain).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(plain).poll_write_vectored(cx, slices),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }
}
