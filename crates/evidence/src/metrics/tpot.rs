//! Time per output token.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value, quantile, sort};
use crate::Wall;
use acb_types::{Outcome, Record};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "mean_tpot_ms",
            "Mean over answers of (last token - first token) / (tokens - 1); every answer weighs the same.",
        ),
        info("p50_tpot_ms", "Median over answers of the mean time per output token after the first."),
        info(
            "p95_tpot_ms",
            "95th percentile over answers of the mean time per output token after the first.",
        ),
        info(
            "p99_tpot_ms",
            "99th percentile over answers of the mean time per output token after the first.",
        ),
    ],
    start: |_| Box::new(Tpot::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "ms", source_rule: SourceRule::Records, better: Better::Lower, summary }
}

/// One sample per answer of two tokens or more.
#[derive(Default)]
struct Tpot {
    millis: Vec<f64>,
}

impl Fold for Tpot {
    fn record(&mut self, record: &Record<'_>) {
        if record.outcome == Outcome::Ok {
            self.millis.extend(record.tpot_ns().map(|ns| ns * 1e-6));
        }
    }

    fn finish(mut self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        sort(&mut self.millis);
        let n = self.millis.len() as u64;
        let mean = Value::ratio(self.millis.iter().sum(), n, "no answer has two tokens");
        [mean].into_iter().chain([0.5, 0.95, 0.99].map(|q| quantile(&self.millis, q))).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{ms, record};
    use acb_types::Record;

    #[test]
    fn every_answer_of_two_tokens_or_more_weighs_the_same() {
        // 40 ms over 4 gaps is 10 ms; 40 ms over 1 gap is 40 ms; one token has no gap.
        let two_tokens = Record { output_tokens: 2, ..record(1) };
        let one_token = Record { output_tokens: 1, last_token_ns: record(2).first_token_ns, ..record(2) };
        let records = [record(0), two_tokens, one_token.clone()];
        check(&records, "mean_tpot_ms", 25.0);
        check_absent(&records, "p50_tpot_ms", "needs 5 answers, there are 2");
        check_absent(&[one_token], "mean_tpot_ms", "no answer has two tokens");
        let many: Vec<_> = (1..=59)
            .map(|id| Record { last_token_ns: Some(record(id).due_ns + ms(50 + 4 * id)), ..record(id) })
            .collect();
        check(&many, "p95_tpot_ms", 57.0);
    }
}
