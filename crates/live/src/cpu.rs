//! Processor time, as the system counts it.

use acb_types::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Processor time of the calling thread, user and system.
#[must_use]
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of this process, user and system.
#[must_use]
pub fn process_cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

pub(crate) fn read(of: ClockId) -> Nanos {
    let time = clock_gettime(of);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
