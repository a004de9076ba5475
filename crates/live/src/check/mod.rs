//! Whether the client itself did what was asked of it: a run that it spoiled is marked, with the reason.
//!
//! The facts are measured against the schedule that was drawn, not only against the law: a Poisson draw that happens to be
//! uneven is no fault of the client, sends that are less even than their schedule are.

mod host;
mod sends;

pub use host::{Host, HostFacts, RoomError, make_room};
pub use sends::{GapLaw, Held, Send, SendFacts, Sends};

use acb_types::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a run may deviate by before it is invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// 99th percentile of the time from due to sent.
    pub lag_p99_ns: Nanos,
    /// Share by which the rate sent may differ from the rate due.
    pub rate_share: f64,
    /// By how much the index of dispersion of sends per 100 ms may differ from the schedule's, as a share of it (and
    /// of 1 for schedules more even than Poisson).
    pub dispersion_share: f64,
    /// Least p of the Kolmogorov-Smirnov test of gaps against the law asked for.
    pub gap_p: f64,
    /// Greatest share of the client's threads' time that it may compute.
    pub cpu_share: f64,
}

impl Default for Thresholds {
    /// Those of a client that disturbs nothing: 2 ms, 1 %, 0.3, 0.01, 0.9.
    fn default() -> Self {
        Self {
            lag_p99_ns: Nanos::from_millis(2),
            rate_share: 0.01,
            dispersion_share: 0.3,
            gap_p: 0.01,
            cpu_share: 0.9,
        }
    }
}

/// Why a run is invalid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fault {
    /// Requests left too late.
    LateSends {
        /// 99th percentile of due to sent.
        p99_ns: Nanos,
        /// The most that it may be.
        limit_ns: Nanos,
    },
    /// The rate sent is not the rate due.
    Rate {
        /// Requests due per second.
        due_rps: f64,
        /// Requests sent per second.
        sent_rps: f64,
    },
    /// Sends are more or less bursty than their schedule.
    Dispersion {
        /// Variance over mean of requests due per 100 ms.
        due: f64,
        /// The same of requests sent.
        sent: f64,
    },
    /// Gaps between sends do not follow the law asked for, though those of the schedule do.
    GapLaw {
        /// The test's p for the schedule.
        due_p: f64,
        /// The test's p for the sends.
        sent_p: f64,
    },
    /// Requests had to wait for a place in flight: arrivals depended on answers.
    NotOpenLoop {
        /// Requests that waited.
        held: u64,
        /// Requests in all.
        of: u64,
        /// Places.
        max_in_flight: u32,
        /// Requests that found none before the end, and were never sent.
        never_sent: u64,
    },
    /// The client computed nearly all the time.
    ClientCpu {
        /// Share of its threads' time.
        share: f64,
    },
    /// The client ran out of file descriptors, or nearly did.
    Descriptors {
        /// Greatest number of requests in flight.
        peak_in_flight: u32,
        /// Descriptors that the process may have.
        limit: u64,
        /// Connections refused for want of one.
        refused: u64,
    },
    /// The machine slept during the run.
    Slept {
        /// How long.
        for_ns: Nanos,
    },
    /// Rows came faster than they could be written, and requests waited for it.
    RecorderFull {
        /// Rows that waited.
        waits: u64,
    },
    /// Rows could not be written.
    NotRecorded {
        /// What the system said.
        message: String,
        /// Rows that were lost.
        lost: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LateSends { p99_ns, limit_ns } => write!(
                f,
                "requests were sent late: p99 {p99_ns} after they were due, allowed {limit_ns}; lower the rate or free the machine"
            ),
            Self::Rate { due_rps, sent_rps } => {
                write!(f, "{sent_rps:.1} requests were sent per second and {due_rps:.1} were due")
            }
            Self::Dispersion { due, sent } => write!(
                f,
                "sends were not spread as scheduled: dispersion per 100 ms {sent:.2}, scheduled {due:.2}"
            ),
            Self::GapLaw { due_p, sent_p } => write!(
                f,
                "gaps between sends do not follow the law asked for: p {sent_p:.2e}, scheduled p {due_p:.2e}"
            ),
            Self::NotOpenLoop { held, of, max_in_flight, never_sent } => write!(
                f,
                "not open loop: {held} of {of} requests waited for one of {max_in_flight} places, {never_sent} more were never sent; raise the limit or call the load closed"
            ),
            Self::ClientCpu { share } => write!(
                f,
                "the client computed {:.0} % of the time; give it more threads or lower the rate",
                share * 100.0
            ),
            Self::Descriptors { peak_in_flight, limit, refused } => write!(
                f,
                "{peak_in_flight} requests in flight under a limit of {limit} open files, {refused} connections refused for it; raise it with ulimit -n"
            ),
            Self::Slept { for_ns } => write!(f, "the machine slept for {for_ns} during the run"),
            Self::RecorderFull { waits } => {
                write!(f, "{waits} rows waited to be written and held up requests; record to a faster disk")
            }
            Self::NotRecorded { message, lost } => {
                write!(f, "recording stopped: {message}; {lost} rows are lost; free space and run again")
            }
        }
    }
}

/// Something that a reader should know and that spoils nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Remark {
    /// The wall clock was set during the run. Times here are monotonic; logs of servers are not.
    ClockStepped {
        /// By how much in all, in ns; negative is back.
        by_ns: i64,
    },
    /// The schedule's own draw has another rate than asked for, by more than four standard errors of a Poisson count.
    UnlikelySchedule {
        /// Requests asked for per second.
        asked_rps: f64,
        /// Requests due per second.
        due_rps: f64,
    },
    /// Too few requests to test rate, spread or gaps.
    FewRequests {
        /// Requests sent.
        sent: u64,
    },
    /// The run was stopped before its end.
    Stopped,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClockStepped { by_ns } => write!(
                f,
                "the wall clock stepped by {:.1} ms; times here are monotonic, but servers' logs may not match",
                *by_ns as f64 * 1e-6
            ),
            Self::UnlikelySchedule { asked_rps, due_rps } => write!(
                f,
                "the schedule that was drawn has {due_rps:.1} requests per second where {asked_rps:.1} were asked for"
            ),
            Self::FewRequests { sent } => {
                write!(f, "{sent} requests are too few to test rate, spread and gaps of the sends")
            }
            Self::Stopped => write!(f, "the run was stopped before its end"),
        }
    }
}

/// Whether a run can support a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// The client did what was asked.
    Valid,
    /// It did not: the figures are the client's as much as the server's.
    Invalid,
}

/// The client's check of its own run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunCheck {
    /// The verdict.
    pub validity: Validity,
    /// Why it is invalid; empty when valid.
    pub faults: Vec<Fault>,
    /// What else a reader should know.
    pub remarks: Vec<Remark>,
    /// How requests were sent.
    pub sends: SendFacts,
    /// How the client and its machine did.
    pub host: HostFacts,
}

impl RunCheck {
    /// Judges the facts of a run.
    #[must_use]
    pub fn judge(sends: SendFacts, host: HostFacts, limits: &Thresholds) -> Self {
        let mut faults = Vec::new();
        faults.extend(late(&sends, limits));
        faults.extend(rate(&sends, limits));
        faults.extend(dispersion(&sends, limits));
        faults.extend(gap_law(&sends, limits));
        faults.extend(held(&sends, &host));
        host.faults(limits, &mut faults);
        let mut remarks = Vec::new();
        remarks.extend(unlikely(&sends));
        if sends.open_loop && sends.sent_dispersion.is_none() {
            remarks.push(Remark::FewRequests { sent: sends.sends });
        }
        host.remarks(&mut remarks);
        let validity = if faults.is_empty() { Validity::Valid } else { Validity::Invalid };
        Self { validity, faults, remarks, sends, host }
    }

    /// Whether the run can support a claim.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.validity == Validity::Valid
    }
}

fn late(sends: &SendFacts, limits: &Thresholds) -> Option<Fault> {
    let p99_ns = sends.lag_p99_ns?;
    let limit_ns = limits.lag_p99_ns;
    (p99_ns >= limit_ns).then_some(Fault::LateSends { p99_ns, limit_ns })
}

fn rate(sends: &SendFacts, limits: &Thresholds) -> Option<Fault> {
    let (due_rps, sent_rps) = (sends.due_rps?, sends.sent_rps?);
    let off = (sent_rps / due_rps - 1.0).abs();
    (sends.open_loop && off > limits.rate_share).then_some(Fault::Rate { due_rps, sent_rps })
}

fn dispersion(sends: &SendFacts, limits: &Thresholds) -> Option<Fault> {
    let (due, sent) = (sends.due_dispersion?, sends.sent_dispersion?);
    let allowed = limits.dispersion_share * due.max(1.0);
    (sends.open_loop && (sent - due).abs() > allowed).then_some(Fault::Dispersion { due, sent })
}

/// A draw that is itself unusual is no fault of the client: its sends must fit clearly worse than its schedule.
fn gap_law(sends: &SendFacts, limits: &Thresholds) -> Option<Fault> {
    let (due_p, sent_p) = (sends.due_gap_p?, sends.sent_gap_p?);
    (sent_p <= limits.gap_p && sent_p < due_p / 5.0).then_some(Fault::GapLaw { due_p, sent_p })
}

fn held(sends: &SendFacts, host: &HostFacts) -> Option<Fault> {
    let max_in_flight = host.max_in_flight?;
    let (held, of, never_sent) = (sends.held, sends.sends, host.never_sent);
    let fault = Fault::NotOpenLoop { held, of, max_in_flight, never_sent };
    (sends.open_loop && held + never_sent > 0).then_some(fault)
}

/// More than four standard errors of a Poisson count away from the rate asked for.
fn unlikely(sends: &SendFacts) -> Option<Remark> {
    let (asked_rps, due_rps) = (sends.asked_rps?, sends.due_rps?);
    let off = (due_rps / asked_rps - 1.0).abs() * (sends.sends as f64).sqrt();
    (off > 4.0 * sends.gap_cv?.max(0.01)).then_some(Remark::UnlikelySchedule { asked_rps, due_rps })
}

#[cfg(test)]
mod tests;
