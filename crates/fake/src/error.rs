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
    /// The cluster can't be built.
    #[error(transparent)]
    Cluster(#[from] acb_sim::SimError),
    /// The adapters can't be a catalogue.
    #[error("{0}")]
    Adapters(String),
    /// An adapter has the base model's name, or none.
    #[error("an adapter can't be named \"{0}\": give each a name of its own, other than the base model's")]
    AdapterName(String),
    /// The engine's speed is not possible.
    #[error("a time scale of {0} is not possible; give 0.001 (slow motion) to 1000000")]
    TimeScale(f64),
    /// Shares of faults exceed the whole.
    #[error("the shares of faults must each lie between 0 and 1, and be together at most 1")]
    Faults,
    /// More ports than replicas.
    #[error("{ports} ports for {replicas} replicas; give at most one port per replica, or more replicas")]
    Ports {
        /// Ports given.
        ports: usize,
        /// Replicas of the cluster.
        replicas: u32,
    },
}
