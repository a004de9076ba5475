//! Quality of answers, beside the rates that it enters.

use super::{Better, Family, Fold, MetricInfo, QualitySum, SourceRule, Value, on_time};
use crate::Wall;
use acb_types::{Nanos, Outcome, Record};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info("mean_quality_on_time", "Mean quality (0 to 1) of answers whose TTFT met its bound."),
        info(
            "mean_quality_all",
            "Mean quality over all requests, failures at 0, late answers at what they are worth.",
        ),
    ],
    start: |slo| Box::new(Quality { bound: slo.ttft_ns, on_time: Mean::default(), all: Mean::default() }),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "quality", source_rule: SourceRule::Records, better: Better::Higher, summary }
}

struct Quality {
    bound: Option<Nanos>,
    on_time: Mean,
    all: Mean,
}

/// A mean that is unknown as soon as one of its terms is.
#[derive(Default)]
struct Mean {
    sum: QualitySum,
    n: u64,
    unscored: u64,
}

impl Mean {
    fn add(&mut self, quality: Option<f64>) {
        self.n += 1;
        match quality {
            Some(quality) => self.sum.add(quality),
            None => self.unscored += 1,
        }
    }

    fn value(&self, none: &str) -> Value {
        match self.unscored {
            0 => Value::ratio(self.sum.total(), self.n, none),
            k => Value::absent(format!("the quality of {k} answers was not measured"), self.n),
        }
    }
}

impl Fold for Quality {
    fn record(&mut self, record: &Record<'_>) {
        let answered = record.outcome == Outcome::Ok;
        self.all.add(if answered { record.quality } else { Some(0.0) });
        if self.bound.is_some_and(|bound| on_time(bound, record)) {
            self.on_time.add(record.quality);
        }
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let on_time = match self.bound {
            Some(_) => self.on_time.value("no answer was on time"),
            None => Value::absent("the SLO has no bound on TTFT", self.all.n),
        };
        vec![on_time, self.all.value("there are no records")]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{failure, ms, record};
    use acb_types::{Outcome, Record};

    #[test]
    fn late_answers_count_among_all_and_failures_count_as_nothing() {
        let weak = Record { quality: Some(0.25), ..record(2) };
        let late = Record { first_token_ns: Some(ms(161)), quality: Some(0.75), ..record(1) };
        let records = [record(0), late, weak, failure(3, Outcome::TimedOut)];
        check(&records, "mean_quality_on_time", 0.625);
        check(&records, "mean_quality_all", 0.5);
    }

    #[test]
    fn what_nobody_scored_has_no_mean() {
        check_absent(
            &[Record { quality: None, ..record(0) }],
            "mean_quality_all",
            "1 answers was not measured",
        );
        check_absent(&[failure(0, Outcome::Shed)], "mean_quality_on_time", "no answer was on time");
    }
}
