//! Share of prompt tokens that a prefix cache held. Named by who says so: a simulated hit is no server counter.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use acb_types::Record;

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "simulated_prefix_hit_ratio",
            "Prompt tokens that the simulated prefix cache held at first admission, over prompt tokens of those \
             requests.",
        ),
        info(
            "server_prefix_hit_ratio",
            "Prompt tokens that a real server says it had cached, over prompt tokens of those requests.",
        ),
    ],
    start: |_| Box::new(PrefixHits::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo {
        name,
        unit: "share of tokens",
        source_rule: SourceRule::Records,
        better: Better::Higher,
        summary,
    }
}

#[derive(Default)]
struct PrefixHits {
    simulated: Ratio,
    server: Ratio,
}

#[derive(Default)]
struct Ratio {
    hit_tokens: u64,
    prompt_tokens: u64,
    requests: u64,
}

impl Ratio {
    fn add(&mut self, hits: Option<u32>, prompt_tokens: u32) {
        if let Some(hits) = hits {
            self.hit_tokens += u64::from(hits);
            self.prompt_tokens += u64::from(prompt_tokens);
            self.requests += 1;
        }
    }

    fn value(&self, none: &str) -> Value {
        if self.prompt_tokens == 0 {
            return Value::absent(none, self.requests);
        }
        Value::of(self.hit_tokens as f64 / self.prompt_tokens as f64, self.requests)
    }
}

impl Fold for PrefixHits {
    fn record(&mut self, record: &Record<'_>) {
        self.simulated.add(record.simulated_prefix_hit_tokens, record.prompt_tokens);
        self.server.add(record.server_prefix_hit_tokens, record.prompt_tokens);
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        vec![
            self.simulated.value("no record has simulated hits"),
            self.server.value("no server reported cached tokens"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{failure, record};
    use acb_types::{Outcome, Record};

    #[test]
    fn tokens_count_and_not_requests() {
        // 40 of 100 and 0 of 300; the failure says nothing.
        let cold = Record { prompt_tokens: 300, simulated_prefix_hit_tokens: Some(0), ..record(1) };
        let records = [record(0), cold, failure(2, Outcome::Failed)];
        check(&records, "simulated_prefix_hit_ratio", 0.1);
        check_absent(&records, "server_prefix_hit_ratio", "no server reported");
        check(&[Record { server_prefix_hit_tokens: Some(25), ..record(0) }], "server_prefix_hit_ratio", 0.25);
    }
}
