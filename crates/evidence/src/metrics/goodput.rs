//! Goodput: on-time requests per second. The variant is named, because variants flip verdicts.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value, meets, on_time};
use crate::Wall;
use acb_types::{Record, Slo};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "goodput",
            "Requests that met every given bound over wall time (first due to last end); the variant of DistServe and \
             of vLLM's `--goodput`.",
        ),
        info(
            "ttft_goodput",
            "Answered requests whose TTFT met its bound over wall time; other bounds are ignored.",
        ),
    ],
    start: |slo| Box::new(Goodput { slo: *slo, good: 0, on_time: 0, all: 0 }),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "requests/s", source_rule: SourceRule::Records, better: Better::Higher, summary }
}

struct Goodput {
    slo: Slo,
    good: u64,
    on_time: u64,
    all: u64,
}

impl Fold for Goodput {
    fn record(&mut self, record: &Record<'_>) {
        self.all += 1;
        self.good += u64::from(meets(&self.slo, record));
        self.on_time += u64::from(self.slo.ttft_ns.is_some_and(|bound| on_time(bound, record)));
    }

    fn finish(self: Box<Self>, wall: Option<Wall>) -> Vec<Value> {
        let ttft = match self.slo.ttft_ns {
            Some(_) => Value::rate(self.on_time as f64, self.all, wall),
            None => Value::absent("the SLO has no bound on TTFT", self.all),
        };
        vec![Value::rate(self.good as f64, self.all, wall), ttft]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{failure, manifest, ms, record};
    use crate::{ArmRole, Summariser};
    use acb_types::{Outcome, Record, Slo};

    #[test]
    fn on_time_requests_count_over_the_wall_time() {
        // Bound 60 ms; wall from 0 to 500 ms. Two of four are on time.
        let late = Record {
            first_token_ns: Some(ms(161)),
            last_token_ns: Some(ms(500)),
            ended_ns: ms(500),
            ..record(1)
        };
        let records = [record(0), late, record(2), failure(3, Outcome::TimedOut)];
        check(&records, "goodput", 4.0);
        check(&records, "ttft_goodput", 4.0);
    }

    #[test]
    fn only_goodput_looks_at_the_other_bounds() {
        let slo = Slo { ttft_ns: Some(ms(60)), tpot_ns: None, e2e_ns: Some(ms(89)) };
        let mut summariser =
            Summariser::new(&crate::Manifest { slo, ..manifest("a", ArmRole::Treatment, 0) });
        summariser.record(&record(0));
        let metrics = summariser.finish().metrics;
        assert_eq!(metrics["goodput"].value, Some(0.0));
        assert!((metrics["ttft_goodput"].value.unwrap() - 1.0 / 0.09).abs() < 1e-9);
        check_absent(&[], "goodput", "no records");
    }
}
