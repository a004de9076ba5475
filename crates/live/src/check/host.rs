//! The client's machine during a run: processor, descriptors, clocks.

use super::{Fault, Remark, Thresholds};
use crate::Clock;
use crate::cpu::read;
use acb_types::Nanos;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::ClockId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Descriptors that a process needs besides its connections: files, pipes, the runtime's own.
const SPARE: u64 = 64;
/// A difference between two clocks that is no step: the time between two reads, and slewing.
const NO_STEP: Nanos = Nanos(50_000_000);

/// The clocks at the begin of a run.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    wall: Nanos,
    boot: Nanos,
    monotonic: Nanos,
    began: Nanos,
}

/// How the client and its machine did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// Length of the run.
    pub wall_ns: Nanos,
    /// Threads that send and receive.
    pub threads: u32,
    /// Processor time of those threads, user and system.
    pub cpu_ns: Nanos,
    /// Processor time of the thread that keeps the schedule.
    pub pacer_cpu_ns: Nanos,
    /// Processor time of the thread that writes rows.
    pub recorder_cpu_ns: Nanos,
    /// Greatest number of requests in flight.
    pub peak_in_flight: u32,
    /// The most that were allowed; absent: no limit.
    pub max_in_flight: Option<u32>,
    /// Requests that were due and never sent, because there was no place for them before the end.
    pub never_sent: u64,
    /// Descriptors that the process may have; absent: no limit.
    pub descriptors: Option<u64>,
    /// Connections that found no descriptor.
    pub descriptors_refused: u64,
    /// How far the wall clock moved against the monotonic one.
    pub clock_step_ns: i64,
    /// How long the machine slept.
    pub slept_ns: Nanos,
    /// Rows that had to wait for the writer.
    pub recorder_waits: u64,
    /// Rows that could not be written.
    pub rows_lost: u64,
    /// Why rows could not be written.
    pub record_error: Option<String>,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
}

impl Host {
    /// Reads the clocks.
    #[must_use]
    pub fn start(clock: &Clock) -> Self {
        Self {
            wall: read(ClockId::Realtime),
            boot: read(ClockId::Boottime),
            monotonic: read(ClockId::Monotonic),
            began: clock.now(),
        }
    }

    /// Reads them again and writes what changed into the facts.
    pub fn finish(&self, clock: &Clock, facts: &mut HostFacts) {
        let passed = read(ClockId::Monotonic).since(self.monotonic).0 as i64;
        let moved = |from: Nanos, of| read(of).0 as i64 - from.0 as i64 - passed;
        facts.wall_ns = clock.now().since(self.began);
        facts.slept_ns = Nanos(moved(self.boot, ClockId::Boottime).max(0) as u64);
        facts.clock_step_ns = moved(self.wall, ClockId::Realtime) - facts.slept_ns.0 as i64;
        facts.descriptors = getrlimit(Resource::Nofile).current;
    }
}

impl HostFacts {
    /// Share of the threads' time that they computed.
    #[must_use]
    pub fn cpu_share(&self) -> Option<f64> {
        let time = self.wall_ns.as_secs_f64() * f64::from(self.threads);
        (time > 0.0).then(|| self.cpu_ns.as_secs_f64() / time)
    }

    pub(super) fn faults(&self, limits: &Thresholds, faults: &mut Vec<Fault>) {
        if let Some(share) = self.cpu_share().filter(|share| *share > limits.cpu_share) {
            faults.push(Fault::ClientCpu { share });
        }
        let (peak_in_flight, refused) = (self.peak_in_flight, self.descriptors_refused);
        if let Some(limit) = self.descriptors
            && (refused > 0 || u64::from(peak_in_flight) + SPARE > limit)
        {
            faults.push(Fault::Descriptors { peak_in_flight, limit, refused });
        }
        if self.slept_ns > NO_STEP {
            faults.push(Fault::Slept { for_ns: self.slept_ns });
        }
        if self.recorder_waits > 0 {
            faults.push(Fault::RecorderFull { waits: self.recorder_waits });
        }
        if let Some(message) = self.record_error.clone() {
            faults.push(Fault::NotRecorded { message, lost: self.rows_lost });
        }
    }

    pub(super) fn remarks(&self, remarks: &mut Vec<Remark>) {
        if self.clock_step_ns.unsigned_abs() > NO_STEP.0 {
            remarks.push(Remark::ClockStepped { by_ns: self.clock_step_ns });
        }
        if self.stopped {
            remarks.push(Remark::Stopped);
        }
    }
}

/// The system does not allow so many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} requests in flight need {} open files and this process may have {limit}; raise the hard limit (ulimit -Hn) or lower the number in flight", wanted + SPARE
)]
pub struct RoomError {
    /// Connections wanted.
    pub wanted: u64,
    /// Descriptors allowed.
    pub limit: u64,
}

/// Raises this process's own limit of open files, as far as the system lets it, so that so many connections fit.
///
/// # Errors
/// When they don't fit under the hard limit.
pub fn make_room(connections: u32) -> Result<(), RoomError> {
    let wanted = u64::from(connections);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(soft) = current.filter(|soft| *soft < wanted + SPARE) else { return Ok(()) };
    let raised = Rlimit { current: Some(maximum.unwrap_or(u64::MAX).min(wanted + SPARE)), maximum };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current.unwrap_or(u64::MAX),
        Err(_) => soft,
    };
    if limit < wanted + SPARE { Err(RoomError { wanted, limit }) } else { Ok(()) }
}
