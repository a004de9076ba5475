//! What `acb runtime up` leaves for `down`, `status` and `run`: one file in the experiment's output folder.

use super::LiveError;
use super::managed::{Managed, is_alive};
use acb_evidence::write_atomically;
use acb_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Version of the file.
const VERSION: u32 = 1;

/// Servers that are up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpState {
    /// Version of this document.
    pub v: u32,
    /// Hash of the settings that they were started with.
    pub settings: Digest,
    /// When the machine was started, as the system names it: process numbers are of one boot.
    pub boot: String,
    /// The servers, in order of replicas.
    pub servers: Vec<UpServer>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpServer {
    /// Its URL.
    pub url: String,
    /// Its process group.
    pub group: i32,
    /// What it prints.
    pub log: PathBuf,
}

/// The folder of state and logs.
#[must_use]
pub fn folder(output_dir: &Path) -> PathBuf {
    output_dir.join("_runtime")
}

/// The state file.
#[must_use]
pub fn path(output_dir: &Path) -> PathBuf {
    folder(output_dir).join("state.json")
}

/// What makes two sets of servers the same.
#[must_use]
pub fn settings(live: &crate::spec::runtime::LiveSpec, replicas: u32) -> Digest {
    let (command, env, ports) = (&live.command, &live.env, &live.ports);
    Digest::of(format!("{command:?}\n{env:?}\n{ports:?}\n{replicas}").as_bytes())
}

impl UpState {
    /// The state of started servers.
    #[must_use]
    pub fn of(managed: &Managed, settings: Digest) -> Self {
        let servers = managed.started.iter().map(|started| UpServer {
            url: started.url.clone(),
            group: started.group,
            log: started.log.clone(),
        });
        Self { v: VERSION, settings, boot: boot(), servers: servers.collect() }
    }

    /// What an earlier `up` left; `None`: nothing, or it is of before the machine's last start.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn read(output_dir: &Path) -> Result<Option<Self>, LiveError> {
        let path = path(output_dir);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LiveError::State { path, reason: error.to_string() }),
        };
        match serde_json::from_slice::<Self>(&text) {
            Ok(state) if state.v == VERSION => Ok(Some(state).filter(|state| state.boot == boot())),
            Ok(state) => {
                let reason = format!("version {} is not known", state.v);
                Err(LiveError::State { path, reason })
            }
            Err(error) => Err(LiveError::State { path, reason: error.to_string() }),
        }
    }

    /// Whether every server's processes are there.
    #[must_use]
    pub fn all_alive(&self) -> bool {
        self.servers.iter().all(|server| is_alive(server.group))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, output_dir: &Path) -> Result<(), LiveError> {
        let path = path(output_dir);
        let text = serde_json::to_vec_pretty(self).expect("a state has a form in JSON");
        let written = write_atomically(&path, &text);
        written.map_err(|error| LiveError::State { path, reason: error.to_string() })
    }

    /// Removes the file.
    ///
    /// # Errors
    /// When it is there and can't be removed.
    pub fn remove(output_dir: &Path) -> Result<(), LiveError> {
        let path = path(output_dir);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(LiveError::State { path, reason: error.to_string() })
            }
            _ => Ok(()),
        }
    }
}

/// The system's name for this boot; empty where it has none.
fn boot() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}
