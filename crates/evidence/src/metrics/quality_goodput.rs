//! The original harness's headline: quality delivered on time, per second.

use super::{Better, Family, Fold, MetricInfo, QualitySum, SourceRule, Value, on_time};
use crate::Wall;
use acb_types::{Nanos, Record, Slo};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[MetricInfo {
        name: "quality_adjusted_slo_goodput",
        unit: "quality/s",
        source_rule: SourceRule::Records,
        better: Better::Higher,
        summary: "Sum of the qualities (0 to 1) of answers whose TTFT met its bound, over wall time. Equals \
                  `ttft_goodput` times `mean_quality_on_time`.",
    }],
    start: |slo: &Slo| {
        Box::new(QualityGoodput { bound: slo.ttft_ns, sum: QualitySum::default(), unscored: 0, all: 0 })
    },
};

struct QualityGoodput {
    bound: Option<Nanos>,
    sum: QualitySum,
    unscored: u64,
    all: u64,
}

impl Fold for QualityGoodput {
    fn record(&mut self, record: &Record<'_>) {
        self.all += 1;
        if self.bound.is_some_and(|bound| on_time(bound, record)) {
            match record.quality {
                Some(quality) => self.sum.add(quality),
                None => self.unscored += 1,
            }
        }
    }

    fn finish(self: Box<Self>, wall: Option<Wall>) -> Vec<Value> {
        vec![match (self.bound, self.unscored) {
            (None, _) => Value::absent("the SLO has no bound on TTFT", self.all),
            (_, 0) => Value::rate(self.sum.total(), self.all, wall),
            (_, k) => Value::absent(format!("the quality of {k} on-time answers was not measured"), self.all),
        }]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent, of};
    use crate::testing::{failure, ms, record};
    use acb_types::{Outcome, Record};

    #[test]
    fn only_quality_on_time_counts() {
        // Wall 0 to 500 ms. On time: 1.0 and 0.25; late: 1.0; failed: 0.
        let weak = Record { quality: Some(0.25), ..record(2) };
        let late = Record {
            first_token_ns: Some(ms(161)),
            last_token_ns: Some(ms(500)),
            ended_ns: ms(500),
            ..record(1)
        };
        let records = [record(0), late, weak, failure(3, Outcome::TimedOut)];
        check(&records, "quality_adjusted_slo_goodput", 2.5);
        let value = |name| of(&records, name).value.unwrap();
        assert_eq!(value("ttft_goodput") * value("mean_quality_on_time"), 2.5);
    }

    #[test]
    fn an_unscored_answer_makes_it_unknown_and_not_smaller() {
        let unscored = Record { quality: None, ..record(0) };
        check_absent(
            &[unscored, record(1)],
            "quality_adjusted_slo_goodput",
            "1 on-time answers was not measured",
        );
    }
}
