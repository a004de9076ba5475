//! The hold-out: a run that no constant was fitted on, as it was and as the simulator says with the fitted constants.

use super::server::{Ask, Reply, Start};
use acb_stats::{mean, quantile_inverted, samples_needed};
use acb_types::{Nanos, Seed};
use schemars::JsonSchema;
use serde::Serialize;

/// Mean error of the time from sent to last token from which a profile is not called calibrated.
pub const MOST_ERROR: f64 = 0.15;
/// Seed of arrivals, lengths and adapters.
const SEED: Seed = Seed(1509);
/// Mean tokens and standard deviation of their logarithm.
const PROMPT: (f64, f64) = (300.0, 0.9);
const ANSWER: (f64, f64) = (80.0, 0.6);
/// Longest prompt and answer.
const LONGEST: f64 = 2000.0;
/// Share of requests that name an adapter.
const WITH_ADAPTER: f64 = 0.7;

/// One statistic of one time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Statistic {
    /// `mean`, `p50`, `p90` or `p99`.
    pub name: String,
    /// As measured, ms; null when there are too few requests.
    pub measured_ms: Option<f64>,
    /// As simulated with the fitted constants, ms.
    pub simulated_ms: Option<f64>,
    /// Relative error.
    pub error: Option<f64>,
}

/// One time of a request over the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// `ttft`, `itl` (mean of a request) or `e2e`.
    pub time: String,
    /// Its statistics.
    pub statistics: Vec<Statistic>,
    /// Mean of the errors of the statistics.
    pub mape: f64,
    /// Mean over requests of the relative error of each request's own time.
    pub request_mape: f64,
    /// Largest distance between the two distributions (Kolmogorov and Smirnov).
    pub ks_distance: f64,
}

/// The run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HoldOut {
    /// Requests.
    pub requests: u32,
    /// Requests a second, Poisson.
    pub rate_rps: f64,
    /// TTFT, ITL, E2E.
    pub times: Vec<Compared>,
    /// Relative error of the mean time from sent to last token.
    pub mean_e2e_error: f64,
}

/// Poisson arrivals at `rate_rps`; lengths lognormal; adapters evenly.
pub fn plan(requests: u32, rate_rps: f64, adapters: u32, texts: u64) -> Vec<Ask> {
    let [mut gaps, mut lengths, mut choice] = ["gaps", "lengths", "adapters"].map(|name| SEED.stream(name));
    let mut now_s = 0.0;
    let mut length = |(mean, spread): (f64, f64)| {
        let log = mean.ln() - spread * spread / 2.0 + spread * lengths.normal();
        log.exp().round().clamp(2.0, LONGEST) as u32
    };
    (0..u64::from(requests))
        .map(|request| {
            now_s += gaps.exp1() / rate_rps;
            let (named, which) = (choice.unit() < WITH_ADAPTER, choice.unit());
            Ask {
                start: Start::At(Nanos::from_secs_f64(now_s)),
                text: texts + request,
                prompt_tokens: length(PROMPT),
                output_tokens: length(ANSWER),
                adapter: (named && adapters > 0).then_some((which * f64::from(adapters)) as u32),
            }
        })
        .collect()
}

/// Mean answer and prompt of the plan, tokens.
pub const MEAN_TOKENS: (f64, f64) = (PROMPT.0, ANSWER.0);

/// What was measured against what was simulated, request by request.
///
/// # Panics
/// When there are no requests.
pub fn compare(rate_rps: f64, measured: &[Reply], simulated: &[Reply], plan: &[Ask]) -> HoldOut {
    type Time = fn(&Reply, &Ask) -> f64;
    let times: [(&str, Time); 3] = [
        ("ttft", |reply, _| (reply.first - reply.sent).as_millis_f64()),
        ("itl", |reply, ask| (reply.last - reply.first).as_millis_f64() / f64::from(ask.output_tokens - 1)),
        ("e2e", |reply, _| (reply.last - reply.sent).as_millis_f64()),
    ];
    let of = |replies: &[Reply], time: Time| -> Vec<f64> {
        replies.iter().zip(plan).map(|(reply, ask)| time(reply, ask)).collect()
    };
    let times: Vec<Compared> =
        times.iter().map(|&(name, time)| compared(name, of(measured, time), of(simulated, time))).collect();
    let mean_e2e_error = times[2].statistics[0].error.expect("there are requests");
    HoldOut { requests: plan.len() as u32, rate_rps, times, mean_e2e_error }
}

fn compared(time: &str, mut measured: Vec<f64>, mut simulated: Vec<f64>) -> Compared {
    let own = measured.iter().zip(&simulated).map(|(m, s)| (s / m - 1.0).abs());
    let request_mape = own.sum::<f64>() / measured.len() as f64;
    measured.sort_by(f64::total_cmp);
    simulated.sort_by(f64::total_cmp);
    let quantile = |sorted: &[f64], q: f64| {
        let needed = samples_needed(q, 0.95).expect("the quantile and the level are shares");
        quantile_inverted(sorted, q).filter(|_| sorted.len() >= needed)
    };
    let statistics: Vec<Statistic> = [("mean", 0.0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]
        .into_iter()
        .map(|(name, q)| {
            let of = |sorted: &[f64]| if q == 0.0 { mean(sorted).ok() } else { quantile(sorted, q) };
            let (measured_ms, simulated_ms) = (of(&measured), of(&simulated));
            let error = measured_ms.zip(simulated_ms).map(|(m, s)| (s / m - 1.0).abs());
            Statistic { name: name.to_owned(), measured_ms, simulated_ms, error }
        })
        .collect();
    let errors: Vec<f64> = statistics.iter().filter_map(|statistic| statistic.error).collect();
    Compared {
        time: time.to_owned(),
        mape: errors.iter().sum::<f64>() / errors.len() as f64,
        request_mape,
        ks_distance: ks_distance(&measured, &simulated),
        statistics,
    }
}

/// Largest difference between the shares of two sorted samples that are at or below any value.
fn ks_distance(a: &[f64], b: &[f64]) -> f64 {
    let share = |sorted: &[f64], at: f64| sorted.partition_point(|&x| x <= at) as f64 / sorted.len() as f64;
    a.iter().chain(b).map(|&at| (share(a, at) - share(b, at)).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_between_samples_is_that_of_the_textbook() {
        assert_eq!(ks_distance(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]), 0.0);
        assert_eq!(ks_distance(&[1.0, 2.0, 3.0, 4.0], &[3.0, 4.0, 5.0, 6.0]), 0.5);
        assert_eq!(ks_distance(&[1.0], &[2.0, 3.0]), 1.0);
    }

    #[test]
    fn errors_are_those_of_each_statistic_and_a_p99_of_few_requests_is_absent() {
        let plan = plan(40, 5.0, 2, 100);
        let replies = |scale: u64| -> Vec<Reply> {
            let reply = |at: u64| Reply {
                sent: Nanos(0),
                first: Nanos(at * scale),
                last: Nanos(10 * at * scale),
                tokens: None,
                cached_tokens: None,
            };
            (1..=40).map(reply).collect()
        };
        let found = compare(5.0, &replies(100), &replies(110), &plan);
        assert!((found.mean_e2e_error - 0.1).abs() < 1e-9);
        let ttft = &found.times[0];
        assert!((ttft.mape - 0.1).abs() < 1e-9 && (ttft.request_mape - 0.1).abs() < 1e-9);
        assert_eq!((ttft.statistics[3].name.as_str(), ttft.statistics[3].measured_ms), ("p99", None));
        assert!(
            plan.iter().any(|ask| ask.adapter.is_none()) && plan.iter().any(|ask| ask.adapter == Some(1))
        );
    }
}
