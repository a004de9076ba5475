//! The servers of one process: a port for each replica of a cluster.

use crate::clock::{Alarm, Clock};
use crate::dialect::Dialect;
use crate::engine::{Engine, spare_name};
use crate::error::FakeError;
use crate::faults::Faults;
use crate::handler::Replica;
use crate::host::Hosted;
use crate::net::{self, Door};
use crate::roster::{Lora, Roster, SPARE_PLACES};
use crate::trace::{Trace, TraceLog};
use acb_sim::{Cluster, ClusterSpec, EngineSpec};
use acb_types::{AdapterRole, Adapters, Nanos, ReplicaId, Seed};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::net::TcpListener;

/// An adapter that a server has from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeAdapter {
    /// Its name; its path is the same.
    pub name: String,
    /// LoRA rank.
    pub rank: u32,
    /// Weight bytes.
    pub bytes: u64,
}

/// What is served and how.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeOptions {
    /// Engine, memory, speed and number of replicas. Its limits of time and events are not looked at.
    pub cluster: ClusterSpec,
    /// Name of the base model.
    pub model: String,
    /// Adapters that are there from the start, in order.
    pub adapters: Vec<FakeAdapter>,
    /// Ports on 127.0.0.1, one per replica in order; those that are missing, and 0, are any free ones.
    pub ports: Vec<u16>,
    /// How many times faster than real time the engine runs.
    pub time_scale: f64,
    /// What goes wrong.
    pub faults: Faults,
    /// Seed of what goes wrong.
    pub seed: Seed,
    /// How long each connection waits to be accepted.
    pub accept_delay_ns: Nanos,
}

impl FakeOptions {
    /// A cluster that serves the model `base` without adapters, on any free ports, in real time.
    #[must_use]
    pub fn new(cluster: ClusterSpec) -> Self {
        Self {
            cluster,
            model: "base".to_owned(),
            adapters: Vec::new(),
            ports: Vec::new(),
            time_scale: 1.0,
            faults: Faults::default(),
            seed: Seed(0),
            accept_delay_ns: Nanos::ZERO,
        }
    }

    fn check(&self) -> Result<(), FakeError> {
        if !(1e-3..=1e6).contains(&self.time_scale) {
            return Err(FakeError::TimeScale(self.time_scale));
        }
        if !self.faults.are_possible() {
            return Err(FakeError::Faults);
        }
        if self.ports.len() > self.cluster.replicas as usize {
            return Err(FakeError::Ports { ports: self.ports.len(), replicas: self.cluster.replicas });
        }
        match self.adapters.iter().find(|adapter| adapter.name == self.model || adapter.name.is_empty()) {
            Some(adapter) => Err(FakeError::AdapterName(adapter.name.clone())),
            None => Ok(()),
        }
    }

    /// The catalogue: places for adapters that come later, then those that are there. (In this order, since SGLang's host
    /// memory is filled in the order of the catalogue, and what comes later must not push out what is there.)
    fn catalogue(&self) -> Result<Adapters, FakeError> {
        let rank = match &self.cluster.engine {
            EngineSpec::Vllm(vllm) => vllm.max_lora_rank,
            EngineSpec::Sglang(sglang) => sglang.max_lora_rank,
        };
        let per_rank = self.cluster.latency_profile().map_or(0, |profile| profile.lora_bytes_per_rank);
        let largest = self.adapters.iter().map(|adapter| adapter.bytes).max();
        let bytes = largest.unwrap_or(u64::from(rank) * per_rank).max(1);
        let spare = (0..SPARE_PLACES).map(|place| (spare_name(place), rank, bytes, AdapterRole::Placebo));
        let there = self.adapters.iter().map(|a| (a.name.clone(), a.rank, a.bytes, AdapterRole::Placebo));
        let spare = spare.filter(|_| self.lora() == Lora::On);
        Adapters::new(spare.chain(there)).map_err(|fault| FakeError::Adapters(fault.to_string()))
    }

    fn lora(&self) -> Lora {
        let on = match &self.cluster.engine {
            EngineSpec::Vllm(vllm) => vllm.max_loras > 0,
            EngineSpec::Sglang(sglang) => sglang.enable_lora,
        };
        if on { Lora::On } else { Lora::Off }
    }
}

/// Running servers; they stop when this is dropped.
#[derive(Debug)]
pub struct FakeServer {
    replicas: Vec<(SocketAddr, Arc<TraceLog>)>,
    clock: Clock,
    _hosted: Vec<Hosted>,
}

impl FakeServer {
    /// Starts one server per replica; when this returns, connections are accepted.
    ///
    /// # Errors
    /// When the options are not possible or a port can't be had.
    pub fn launch(options: FakeOptions) -> Result<Self, FakeError> {
        options.check()?;
        let adapters = Arc::new(options.catalogue()?);
        let cluster = Cluster::new(&options.cluster, adapters)?;
        let options = Arc::new(options);
        let clock = Clock::start();
        let mut server = Self { replicas: Vec::new(), clock, _hosted: Vec::new() };
        for replica in 0..options.cluster.replicas {
            let alarm = Arc::new(Alarm::start(clock)?);
            server.launch_replica((&options, &cluster), ReplicaId(replica), alarm)?;
        }
        Ok(server)
    }

    fn launch_replica(
        &mut self,
        (options, cluster): (&Arc<FakeOptions>, &Cluster),
        id: ReplicaId,
        alarm: Arc<Alarm>,
    ) -> Result<(), FakeError> {
        let dialect = Dialect::of(&options.cluster);
        let names: Vec<String> = options.adapters.iter().map(|adapter| adapter.name.clone()).collect();
        let roster = Roster::new(dialect, (&options.model, &names), options.lora());
        let speed = (options.model.as_str(), options.time_scale);
        let engine = Arc::new(Engine::new((cluster, &options.cluster), id, roster, speed, alarm.clone()));
        let log = Arc::new(TraceLog::new(alarm.clock()));
        let port = options.ports.get(id.index()).copied().unwrap_or(0);
        let (listener, addr) = net::bind(port)?;
        let (engine_log, options) = (log.clone(), options.clone());
        let delay = options.accept_delay_ns;
        let hosted = Hosted::start("fake", async move {
            let handler = Replica {
                engine: engine.clone(),
                log: engine_log,
                options,
                dialect,
                numbers: AtomicU64::new(0),
            };
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    tokio::spawn(engine.run());
                    net::serve(Door { listener, tls: None, delay, alarm }, Arc::new(handler)).await;
                }
                Err(fault) => eprintln!("port {port} can't be served: {fault}"),
            }
        })?;
        self.replicas.push((addr, log));
        self._hosted.push(hosted);
        Ok(())
    }

    /// Where each replica listens, in order.
    #[must_use]
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(|(addr, _)| *addr).collect()
    }

    /// What a replica knows of its requests so far; `None`: there is no such replica.
    #[must_use]
    pub fn trace(&self, replica: ReplicaId) -> Option<Trace> {
        self.replicas.get(replica.index()).map(|(_, log)| log.trace())
    }

    /// The clock of the traces.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }
}
