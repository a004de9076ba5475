//! Inter-token latency: the gaps between tokens of one answer.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use crate::sample::Sample;
use acb_types::{Outcome, Record};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "mean_itl_ms",
            "Mean gap between two tokens, over all gaps of all answers; long answers weigh more.",
        ),
        info("p99_max_itl_ms", "99th percentile over answers of the longest gap between two tokens."),
        info("max_itl_ms", "The longest gap between two tokens of any answer."),
    ],
    start: |_| Box::new(Itl::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "ms", source_rule: SourceRule::Records, better: Better::Lower, summary }
}

/// Integer sums, and the longest gap of each answer.
#[derive(Default)]
struct Itl {
    decode_ns: u128,
    gaps: u64,
    longest: Sample,
}

impl Fold for Itl {
    fn record(&mut self, record: &Record<'_>) {
        if record.outcome != Outcome::Ok {
            return;
        }
        if let (Some(first), Some(last)) = (record.first_token_ns, record.last_token_ns) {
            self.decode_ns += u128::from(last.since(first).0);
            self.gaps += u64::from(record.output_tokens.saturating_sub(1));
        }
        record.itl_max_ns.into_iter().for_each(|gap| self.longest.push(gap));
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let sorted = self.longest.sorted();
        let n = sorted.len() as u64;
        let longest = match sorted.longest() {
            Some(longest) => Value::of(longest, n),
            None => Value::absent("no answer has a measured gap", 0),
        };
        let mean = Value::ratio(self.decode_ns as f64 * 1e-6, self.gaps, "no answer has two tokens");
        vec![mean, sorted.quantile(0.99), longest]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{ms, record};
    use acb_types::Record;

    #[test]
    fn the_mean_is_over_gaps_and_the_longest_is_of_any_answer() {
        // 40 ms over 4 gaps, and 40 ms over 1 gap: 80 / 5.
        let slow = Record { output_tokens: 2, itl_max_ns: Some(ms(40)), ..record(1) };
        let records = [record(0), slow];
        check(&records, "mean_itl_ms", 16.0);
        check(&records, "max_itl_ms", 40.0);
        check_absent(&records, "p99_max_itl_ms", "needs 299");
        check_absent(&[], "max_itl_ms", "no answer");
    }
}
