//! How often an adapter is in its slot: LRU in the simulator against Che's approximation.

use super::bench::{Ask, serve, side_by_side};
use super::{Case, Row};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, VllmSpec};
use acb_types::Seed;

/// Hit rates of slots under Zipf popularity.
pub const CASE: Case = Case {
    name: "adapter_residency",
    source: "Che, Tung and Wang's approximation of LRU hit rates for independent requests; adapters, Zipf exponent, slots. Requests come \
             one at a time to one replica.",
    run,
};

const REQUESTS: u32 = 200_000;

struct Point {
    adapters: u32,
    zipf: f64,
    slots: u32,
}

fn run() -> Vec<Row> {
    let points = [(100, 1.0, 8), (100, 1.0, 32), (16, 0.0, 8), (16, 1.0, 8), (200, 0.8, 8)]
        .map(|(adapters, zipf, slots)| Point { adapters, zipf, slots });
    side_by_side(&points, |point| {
        let what =
            format!("hit rate: {} adapters, Zipf {}, {} slots", point.adapters, point.zipf, point.slots);
        Row::compare(what, simulated(point), che(point), 0.015)
    })
}

fn shares(point: &Point) -> Vec<f64> {
    let weights: Vec<f64> = (1..=point.adapters).map(|k| f64::from(k).powf(-point.zipf)).collect();
    let all: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / all).collect()
}

/// The characteristic time at which the expected residents fill the slots, by bisection, and the hit rate at it.
fn che(point: &Point) -> f64 {
    let shares = shares(point);
    let residents = |time: f64| shares.iter().map(|p| 1.0 - (-p * time).exp()).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if residents(middle) < f64::from(point.slots) { low = middle } else { high = middle }
    }
    shares.iter().map(|p| p * (1.0 - (-p * low).exp())).sum()
}

fn simulated(point: &Point) -> f64 {
    let mut spec = ClusterSpec::new(1, 1000, "llama-3.1-8b-vllm-0.8.5");
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_loras: point.slots,
        max_cpu_loras: Some(point.adapters),
        ..VllmSpec::default()
    });
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.server_interval_ms = 1_000_000_000;
    let cumulative: Vec<f64> = shares(point)
        .iter()
        .scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        })
        .collect();
    let mut draws =
        Seed(8).child(&format!("{}/{}/{}", point.adapters, point.zipf, point.slots)).stream("adapters");
    let asks = (0..REQUESTS).map(|i| {
        let draw = draws.unit();
        let adapter = cumulative.partition_point(|&sum| sum <= draw).min(cumulative.len() - 1);
        // A load from disk and a step are over within a second.
        Ask { due_s: f64::from(i), prompt: 16, answer: 1, adapter: Some(adapter as u32) }
    });
    let tally = serve(&spec, point.adapters, asks);
    1.0 - tally.loads as f64 / tally.completed as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_approximation_gives_the_published_hit_rates() {
        let check = |adapters, zipf, slots, rate: f64| {
            let found = che(&Point { adapters, zipf, slots });
            assert!((found - rate).abs() < 5e-4, "{adapters} {zipf} {slots}: {found}");
        };
        check(100, 1.0, 8, 0.3453);
        check(100, 1.0, 32, 0.6895);
        check(16, 0.0, 8, 0.5);
        check(16, 1.0, 8, 0.7192);
        check(200, 0.8, 8, 0.1514);
    }
}
