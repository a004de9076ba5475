//! The servers of an experiment: where they are, and what is asked of each before a run.

use super::LiveError;
use crate::experiment::Level;
use crate::spec::runtime::{CacheBeforeRun, LiveSpec, RuntimeSpec};
use acb_evidence::{ResetFacts, ServerFacts};
use acb_live::Target;
use acb_live::drivers::{Driver, DriverError, Models, RuntimeKind};
use acb_types::AdapterRole;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Longest wait for servers that stand.
const STANDING: Duration = Duration::from_secs(10);

/// Servers that answer, one for each replica, in order.
pub struct Servers {
    /// How they are spoken to.
    pub spec: LiveSpec,
    /// Which runtime.
    pub kind: RuntimeKind,
    /// Where they are.
    pub targets: Vec<Target>,
    /// Name of the base model.
    pub model: String,
    /// Who speaks to each, in order.
    pub drivers: Vec<Arc<Driver>>,
    runtime: Runtime,
}

/// The runtime and its settings.
///
/// # Errors
/// When the experiment is of the simulator.
pub fn live_of(runtime: &RuntimeSpec) -> Result<(RuntimeKind, &LiveSpec), LiveError> {
    match runtime {
        RuntimeSpec::Simulated | RuntimeSpec::Server(_) => Err(LiveError::NoServers),
        RuntimeSpec::Vllm(live) => Ok((RuntimeKind::Vllm, live)),
        RuntimeSpec::Sglang(live) => Ok((RuntimeKind::Sglang, live)),
        RuntimeSpec::Llamacpp(live) => Ok((RuntimeKind::Llamacpp, live)),
        RuntimeSpec::Openai(live) => Ok((RuntimeKind::Openai, live)),
    }
}

impl Servers {
    /// Servers at these URLs, which answer within `patience` and have the model.
    ///
    /// # Errors
    /// When one doesn't answer, has another model, or the key is missing.
    pub fn at(runtime: &RuntimeSpec, urls: &[String]) -> Result<Self, LiveError> {
        let (kind, spec) = live_of(runtime)?;
        let targets = targets(spec, urls)?;
        let runtime = async_runtime()?;
        let mut model = spec.model.clone();
        let mut drivers = Vec::new();
        for target in &targets {
            let driver = Driver::new(kind, target.clone(), model.as_deref().unwrap_or_default())?;
            let models = runtime.block_on(answering(&driver, STANDING))?;
            let name = base_model(&driver, &models, model.as_deref())?;
            drivers.push(Arc::new(Driver::new(kind, target.clone(), &name)?));
            model = Some(name);
        }
        let model = model.unwrap_or_default();
        Ok(Self { spec: spec.clone(), kind, targets, model, drivers, runtime })
    }

    /// Asks every server what it is, whether it has the adapters, and to empty its cache.
    ///
    /// # Errors
    /// When one doesn't answer, lacks an adapter, or its reset can't be proved.
    pub fn prepare(&self, level: &Level) -> Result<Vec<ServerFacts>, LiveError> {
        self.drivers.iter().map(|driver| self.runtime.block_on(self.prepare_one(driver, level))).collect()
    }

    async fn prepare_one(&self, driver: &Driver, level: &Level) -> Result<ServerFacts, LiveError> {
        let models = answering(driver, STANDING).await?;
        base_model(driver, &models, Some(&self.model))?;
        // Before the reset, which takes what these answers leave in the cache.
        let asked = canary_adapters(level);
        if self.names_adapters() {
            driver.canary(&asked).await?;
        }
        let reset = match self.spec.cache_before_run {
            CacheBeforeRun::Reset => Some(driver.reset_cache().await?),
            CacheBeforeRun::OtherPrompts => None,
        };
        let fingerprint = driver.fingerprint().await?;
        Ok(ServerFacts {
            url: driver.target().to_string(),
            runtime: word(fingerprint.runtime),
            version: fingerprint.version,
            simulated: fingerprint.simulated,
            flags: fingerprint.flags,
            canary_adapters: asked.into_iter().filter(|_| self.names_adapters()).map(str::to_owned).collect(),
            reset: reset.map(|proof| ResetFacts { before: proof.before, after: proof.after }),
        })
    }

    /// llama.cpp knows adapters by their place, under names of its own.
    fn names_adapters(&self) -> bool {
        self.kind != RuntimeKind::Llamacpp
    }

    /// The servers that don't answer any more, in words; `None` when all do.
    #[must_use]
    pub fn gone(&self) -> Option<String> {
        let gone = |(replica, driver): (usize, &Arc<Driver>)| {
            let error = self.runtime.block_on(driver.models()).err()?;
            Some(format!("replica {replica} does not answer after the run: {error}"))
        };
        let gone: Vec<String> = self.drivers.iter().enumerate().filter_map(gone).collect();
        (!gone.is_empty()).then(|| gone.join("; "))
    }
}

/// The name that experiment files have for it.
#[must_use]
pub fn word(kind: RuntimeKind) -> String {
    match kind {
        RuntimeKind::Vllm => "vllm",
        RuntimeKind::Sglang => "sglang",
        RuntimeKind::Llamacpp => "llamacpp",
        RuntimeKind::Openai => "openai",
    }
    .to_owned()
}

/// The servers' URLs with the key, which is read here and shown nowhere.
///
/// # Errors
/// When a URL can't be used, or the variable with the key is not there.
pub fn targets(spec: &LiveSpec, urls: &[String]) -> Result<Vec<Target>, LiveError> {
    let key = match &spec.api_key_env {
        None => None,
        Some(name) => Some(std::env::var(name).map_err(|_| LiveError::Key { name: name.clone() })?),
    };
    let target = |url: &String| {
        let target = Target::parse(url)?;
        Ok(match &key {
            None => target,
            Some(key) => target.with_api_key(key)?,
        })
    };
    urls.iter().map(target).collect()
}

/// An event loop for the questions between runs.
///
/// # Errors
/// When the system gives none.
pub fn async_runtime() -> Result<Runtime, LiveError> {
    let made = Builder::new_current_thread().enable_all().build();
    made.map_err(LiveError::system("no event loop can be had; free some threads and files"))
}

async fn answering(driver: &Driver, patience: Duration) -> Result<Models, LiveError> {
    let asked = tokio::time::timeout(patience, driver.models()).await;
    asked
        .unwrap_or_else(|_| {
            Err(DriverError::NotReady {
                server: driver.target().to_string(),
                waited_s: patience.as_secs(),
                last: "it accepts connections and does not answer".to_owned(),
            })
        })
        .map_err(LiveError::from)
}

/// The base model: the one named, or the only one listed.
fn base_model(driver: &Driver, models: &Models, named: Option<&str>) -> Result<String, LiveError> {
    let server = driver.target().to_string();
    let listed = || models.base.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (named, models.base.as_slice()) {
        (Some(name), base) if base.iter().any(|own| own == name) => Ok(name.to_owned()),
        (Some(name), _) => {
            let model = name.to_owned();
            Err(DriverError::NoSuchModel { server, model, listed: listed() }.into())
        }
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(LiveError::WhichModel { server, listed: listed() }),
    }
}

/// Adapters that have to answer otherwise than base and each other: a placebo has not.
fn canary_adapters(level: &Level) -> Vec<&str> {
    let real = level.names.adapters.iter().filter(|adapter| adapter.role != AdapterRole::Placebo);
    real.map(|adapter| adapter.name.as_str()).collect()
}
