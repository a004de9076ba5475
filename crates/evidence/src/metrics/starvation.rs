//! Who waits longest, and who is overtaken.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use acb_types::{AbsentReason, Nanos, Outcome, Record};

/// The absence whose reason tells a server that doesn't say when it admits.
pub(super) const ADMISSION: &str = "admitted_ns";

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "max_wait_ms",
            "ms",
            "The longest time from due to first scheduled. A request that was accepted and never scheduled has waited \
             to the end of the run. Absent where servers don't say when they admit.",
        ),
        info(
            "max_overtakes",
            "requests",
            "Most later arrivals on its replica that were admitted before one request.",
        ),
        info("mean_overtakes", "requests", "Later arrivals that were admitted earlier, per request."),
    ],
    start: |_| Box::new(Starvation::default()),
};

const fn info(name: &'static str, unit: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit, source_rule: SourceRule::Records, better: Better::Lower, summary }
}

#[derive(Default)]
struct Starvation {
    longest_wait: Option<Nanos>,
    first_never_scheduled: Option<Nanos>,
    most_overtakes: u32,
    overtakes: u64,
    requests: u64,
    /// Requests of which nobody says when they were scheduled, nor who came before.
    untold: u64,
}

impl Fold for Starvation {
    fn record(&mut self, record: &Record<'_>) {
        self.untold += u64::from(record.absent.get(ADMISSION) == Some(&AbsentReason::NotReported));
        self.requests += 1;
        self.overtakes += u64::from(record.overtaken);
        self.most_overtakes = self.most_overtakes.max(record.overtaken);
        let turned_away = matches!(record.outcome, Outcome::Rejected | Outcome::Shed);
        match record.admitted_ns.or(record.first_token_ns) {
            Some(at) => self.longest_wait = self.longest_wait.max(Some(at.since(record.due_ns))),
            None if turned_away => {}
            None => {
                let first = self.first_never_scheduled.unwrap_or(Nanos::MAX);
                self.first_never_scheduled = Some(first.min(record.due_ns));
            }
        }
    }

    fn finish(self: Box<Self>, wall: Option<Wall>) -> Vec<Value> {
        let n = self.requests;
        if self.untold > 0 {
            let absent = || Value::absent("servers don't report when they admit", n);
            return vec![absent(), absent(), absent()];
        }
        let never = wall.zip(self.first_never_scheduled).map(|(wall, due)| wall.last_end_ns.since(due));
        let wait = match self.longest_wait.max(never) {
            Some(longest) => Value::of(longest.as_millis_f64(), n),
            None => Value::absent("no request was accepted", n),
        };
        let most = if n == 0 {
            Value::absent("there are no records", 0)
        } else {
            Value::of(f64::from(self.most_overtakes), n)
        };
        vec![wait, most, Value::ratio(self.overtakes as f64, n, "there are no records")]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{failure, record};
    use acb_types::{AbsentReason, Outcome, Record};

    #[test]
    fn a_request_that_was_never_scheduled_waited_to_the_end() {
        // Scheduled 11 ms after due; request 1, due at 100 ms, never; the run ends at 990 ms.
        let passed = Record { overtaken: 5, ..record(0) };
        check(std::slice::from_ref(&passed), "max_wait_ms", 11.0);
        let records = [passed, failure(1, Outcome::TimedOut), record(9), failure(2, Outcome::Shed)];
        check(&records, "max_wait_ms", 890.0);
        check(&records, "max_overtakes", 5.0);
        check(&records, "mean_overtakes", 1.25);
        check_absent(&[failure(2, Outcome::Shed)], "max_wait_ms", "no request was accepted");
    }

    #[test]
    fn where_servers_do_not_say_when_they_admit_nobody_is_said_to_be_overtaken() {
        let mut untold = Record { admitted_ns: None, ..record(0) };
        untold.absent.insert("admitted_ns".into(), AbsentReason::NotReported);
        for metric in ["max_wait_ms", "max_overtakes", "mean_overtakes"] {
            check_absent(&[record(1), untold.clone()], metric, "don't report when they admit");
        }
    }
}
