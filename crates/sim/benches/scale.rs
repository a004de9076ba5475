//! CPU time per request and peak memory so far at 10 thousand, 100 thousand and a million requests, 64 replicas, 1,000
//! adapters, under each engine.

mod load;

use load::{Engine, Load};

fn main() {
    println!(
        "{:>7} {:>10} {:>12} {:>14} {:>14} {:>12}",
        "engine", "requests", "CPU seconds", "ns/request", "requests/CPU s", "peak MiB"
    );
    let sizes = [10_000, 100_000, 1_000_000];
    let runs = sizes.into_iter().flat_map(|requests| [(requests, Engine::Sglang), (requests, Engine::Vllm)]);
    for (requests, engine) in runs {
        let load = Load { rate_rps: 1.0, engine, ..Load::new(requests, 64, 1000) };
        let before = cpu_seconds();
        let (totals, seen) = load.run();
        let seconds = cpu_seconds() - before;
        assert_eq!(seen.completions, totals.arrived, "every request is seen once");
        let (each, rate) = (seconds * 1e9 / requests as f64, requests as f64 / seconds);
        let memory = peak_mib().map_or("unknown".to_owned(), |mib| mib.to_string());
        println!(
            "{:>7} {requests:>10} {seconds:>12.3} {each:>14.0} {rate:>14.0} {memory:>12}",
            format!("{engine:?}")
        );
    }
}

/// CPU time of this process so far, to 10 ms; NaN where the kernel does not say.
fn cpu_seconds() -> f64 {
    let read = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
        Some((ticks(11)? + ticks(12)?) / 100.0)
    };
    read().unwrap_or(f64::NAN)
}

/// Peak resident memory of this process, where the kernel says it.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}
