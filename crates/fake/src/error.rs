//! Why a fake server can't be started.

/// What is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FakeError {
    /// The port can't be had.
    #[error("port {port} of 127.0.0.1 can't be listened on: {source}; choose another, or 0 for any free one")]
    Bind {
        /// The port asked for.
        port: u16,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The system refused a thread or a runtime.
    #[error("the server's threads can't be started: {0}")]
    Thread(#[from] std::io::Error),
    /// The certificate or its key is not usable.
    #[error(
        "the TLS certificate can't be used: {0}; give the chain, the server's own first, and the key of that one"
    )]
    Certificate(rustls::Error),
}
