//! The servers of a sweep: those that stand, those that `acb runtime up` started, or those that are started for it.

use super::LiveError;
use super::managed::{Life, Managed, is_alive};
use super::servers::{Servers, live_of};
use super::state::{self, UpState};
use crate::interrupt::Interrupt;
use crate::spec::ExperimentSpec;
use std::path::Path;

/// Servers, and the processes behind them if they end with this.
pub struct Fleet {
    /// The servers.
    pub servers: Servers,
    _managed: Option<Managed>,
}

impl Fleet {
    /// Finds or starts the servers of an experiment, and waits until they answer. Logs go to `folder`.
    ///
    /// # Errors
    /// When one doesn't answer, has another model or can't be started; what was started is ended.
    pub fn open(
        spec: &ExperimentSpec,
        output_dir: &Path,
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, LiveError> {
        let (kind, live) = live_of(&spec.runtime)?;
        if !live.is_managed() {
            return Ok(Self { servers: Servers::at(&spec.runtime, &live.replicas)?, _managed: None });
        }
        let replicas = spec.cluster.replicas;
        let up = UpState::read(output_dir)?.filter(|up| up.servers.iter().any(|one| is_alive(one.group)));
        if let Some(up) = up {
            if up.settings != state::settings(live, replicas) || !up.all_alive() {
                return Err(LiveError::Up { path: state::path(output_dir) });
            }
            let urls: Vec<String> = up.servers.into_iter().map(|server| server.url).collect();
            return Ok(Self { servers: Servers::at(&spec.runtime, &urls)?, _managed: None });
        }
        let mut managed = Managed::start(live, replicas, folder, Life::WithStarter)?;
        managed.await_ready(kind, live, interrupt)?;
        let servers = Servers::at(&spec.runtime, &managed.urls())?;
        Ok(Self { servers, _managed: Some(managed) })
    }
}
