//! What a trace holds: rate, burstiness, lengths, reuse of prefix blocks.

use super::lru::Lru;
use super::{TraceFormat, TraceReader, TraceRow, TraceSpec};
use crate::WorkloadError;
use acb_types::Nanos;
use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Cache sizes, in blocks, at which the hit curve is computed.
const CAPACITIES: [usize; 8] = [1_000, 2_000, 5_000, 6_000, 10_000, 30_000, 50_000, 100_000];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// Facts about a trace. Absent values are those that it is too short for, or that its format does not have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceInfo {
    /// Requests.
    pub rows: u64,
    /// Rows left out because they have no tokens.
    pub skipped_zero_rows: u64,
    /// Seconds from the first to the last request.
    pub span_s: f64,
    /// Requests over span, per second.
    pub rate_rps: Option<f64>,
    /// Coefficient of variation of the times between requests (sample standard deviation over mean).
    pub interarrival_cv: Option<f64>,
    /// Index of dispersion (sample variance over mean) of counts in windows of 1 s, the last one cut short.
    pub idc_1s: Option<f64>,
    /// The same for windows of 60 s.
    pub idc_60s: Option<f64>,
    /// Requests of the busiest 60 s window over the mean of such windows.
    pub peak_minute_over_mean: Option<f64>,
    /// Different arrival times.
    pub distinct_times: u64,
    /// Prompt tokens.
    pub input_tokens: Lengths,
    /// Answer tokens.
    pub output_tokens: Lengths,
    /// Reuse of prefix blocks, where the format has them.
    pub blocks: Option<BlockReuse>,
}

/// A distribution of lengths in tokens. Quantiles are inverted-CDF: the least length that so large a share of the
/// requests does not exceed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lengths {
    /// Sum.
    pub sum: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u32>,
    /// 90 % quantile.
    pub p90: Option<u32>,
    /// 95 % quantile.
    pub p95: Option<u32>,
    /// 99 % quantile.
    pub p99: Option<u32>,
    /// Greatest.
    pub max: Option<u32>,
}

/// Reuse of prefix blocks. A hit is a block of the longest leading run of a prompt whose blocks are cached.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BlockReuse {
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Blocks of all prompts.
    pub total: u64,
    /// Different blocks.
    pub unique: u64,
    /// Hits with a cache that never evicts.
    pub unlimited_hits: u64,
    /// Prompt tokens in those hits, partial last blocks counted as they are.
    pub unlimited_hit_tokens: u64,
    /// Hits with least-recently-used caches: a prompt's leading run counts, then its blocks are used in order, then
    /// the cache evicts down to its size.
    pub lru: Vec<LruPoint>,
}

/// One point of the hit curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LruPoint {
    /// Blocks that the cache holds.
    pub capacity_blocks: u64,
    /// Hits.
    pub hits: u64,
}

/// Facts about a trace file, read strictly (any oddity is an error with its line) except as the spec allows.
///
/// # Errors
/// When the file can't be read, a line is faulty, or there is no row.
pub fn info(spec: &TraceSpec) -> Result<TraceInfo, WorkloadError> {
    let mut reader = TraceReader::open(spec)?;
    let mut counts = Counts::default();
    let mut reuse = (spec.format == TraceFormat::Mooncake).then(|| Reuse::new(spec.block_tokens));
    for row in reader.by_ref() {
        let row = row?;
        counts.add(&row);
        if let Some(reuse) = &mut reuse {
            reuse.add(&row);
        }
    }
    if counts.rows == 0 {
        return Err(no_rows(&spec.path));
    }
    Ok(counts.finish(reader.skipped(), reuse.map(Reuse::finish)))
}

fn no_rows(path: &Path) -> WorkloadError {
    let message = "the file has no requests; is it the right one?".to_owned();
    WorkloadError::Line { path: path.to_owned(), line: 1, message }
}

#[derive(Default)]
struct Counts {
    rows: u64,
    first: Nanos,
    last: Option<Nanos>,
    distinct: u64,
    gaps: Moments,
    seconds: Windows,
    minutes: Windows,
    input: BTreeMap<u32, u64>,
    output: BTreeMap<u32, u64>,
}

impl Counts {
    fn add(&mut self, row: &TraceRow) {
        self.rows += 1;
        match self.last {
            None => self.first = row.at,
            Some(last) => self.gaps.add(row.at.since(last).as_secs_f64()),
        }
        self.distinct += u64::from(self.last != Some(row.at));
        self.last = Some(row.at);
        let since = row.at.since(self.first);
        self.seconds.add(since.0 / 1_000_000_000);
        self.minutes.add(since.0 / 60_000_000_000);
        *self.input.entry(row.input_tokens).or_default() += 1;
        *self.output.entry(row.output_tokens).or_default() += 1;
    }

    fn finish(self, skipped_zero_rows: u64, blocks: Option<BlockReuse>) -> TraceInfo {
        let span_s = self.last.unwrap_or(self.first).since(self.first).as_secs_f64();
        let positive = |value: f64| (value > 0.0).then_some(value);
        TraceInfo {
            rows: self.rows,
            skipped_zero_rows,
            span_s,
            rate_rps: positive(span_s).map(|span| self.rows as f64 / span),
            interarrival_cv: self.gaps.cv(),
            idc_1s: self.seconds.dispersion(),
            idc_60s: self.minutes.dispersion(),
            peak_minute_over_mean: self.minutes.peak_over_mean(),
            distinct_times: self.distinct,
            input_tokens: Lengths::of(&self.input),
            output_tokens: Lengths::of(&self.output),
            blocks,
        }
    }
}

/// Running mean and sum of squared deviations (Welford).
#[derive(Clone, Copy, Default)]
struct Moments {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, x: f64) {
        self.n += 1.0;
        let before = x - self.mean;
        self.mean += before / self.n;
        self.squares += before * (x - self.mean);
    }

    fn variance(&self) -> Option<f64> {
        (self.n > 1.0).then(|| self.squares / (self.n - 1.0))
    }

    fn cv(&self) -> Option<f64> {
        self.variance().filter(|_| self.mean > 0.0).map(|variance| variance.sqrt() / self.mean)
    }
}

/// Counts in consecutive windows; empty windows count.
#[derive(Default)]
struct Windows {
    closed: Moments,
    current: u64,
    count: u64,
    peak: u64,
}

impl Windows {
    fn add(&mut self, window: u64) {
        while self.current < window {
            self.closed.add(self.count as f64);
            self.count = 0;
            self.current += 1;
        }
        self.count += 1;
        self.peak = self.peak.max(self.count);
    }

    /// With the window in which the trace ends, although it is cut short.
    fn all(&self) -> Moments {
        let mut all = self.closed;
        all.add(self.count as f64);
        all
    }

    fn dispersion(&self) -> Option<f64> {
        let all = self.all();
        all.variance().filter(|_| all.mean > 0.0).map(|variance| variance / all.mean)
    }

    fn peak_over_mean(&self) -> Option<f64> {
        let mean = self.all().mean;
        (self.current > 0 && mean > 0.0).then(|| self.peak as f64 / mean)
    }
}

impl Lengths {
    fn of(counts: &BTreeMap<u32, u64>) -> Self {
        let n: u64 = counts.values().sum();
        let sum = counts.iter().map(|(&length, &count)| u64::from(length) * count).sum();
        let [p50, p90, p95, p99] = QUANTILES.map(|q| {
            let needed = (q * n as f64).ceil().max(1.0) as u64;
            let mut below = 0;
            counts.iter().find_map(|(&length, &count)| {
                below += count;
                (below >= needed).then_some(length)
            })
        });
        let mean = (n > 0).then(|| sum as f64 / n as f64);
        Self { sum, mean, p50, p90, p95, p99, max: counts.last_key_value().map(|(&length, _)| length) }
    }
}

struct Reuse {
    block_tokens: u32,
    total: u64,
    seen: FxHashSet<u64>,
    hits: u64,
    hit_tokens: u64,
    caches: Vec<(Lru, LruPoint)>,
}

impl Reuse {
    fn new(block_tokens: u32) -> Self {
        let cache = |capacity| (Lru::new(capacity), LruPoint { capacity_blocks: capacity as u64, hits: 0 });
        let caches = CAPACITIES.map(cache).into_iter().collect();
        Self { block_tokens, total: 0, seen: FxHashSet::default(), hits: 0, hit_tokens: 0, caches }
    }

    fn add(&mut self, row: &TraceRow) {
        self.total += row.blocks.len() as u64;
        let hits = row.blocks.iter().take_while(|id| self.seen.contains(id)).count() as u64;
        self.hits += hits;
        self.hit_tokens += (hits * u64::from(self.block_tokens)).min(u64::from(row.input_tokens));
        self.seen.extend(&row.blocks);
        for (cache, point) in &mut self.caches {
            point.hits += cache.visit(&row.blocks) as u64;
        }
    }

    fn finish(self) -> BlockReuse {
        BlockReuse {
            block_tokens: self.block_tokens,
            total: self.total,
            unique: self.seen.len() as u64,
            unlimited_hits: self.hits,
            unlimited_hit_tokens: self.hit_tokens,
            lru: self.caches.into_iter().map(|(_, point)| point).collect(),
        }
    }
}

impl fmt::Display for TraceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            |value: Option<f64>| value.map_or("not estimable".to_owned(), |value| format!("{value:.4}"));
        writeln!(
            f,
            "rows                    {} ({} without tokens left out)",
            self.rows, self.skipped_zero_rows
        )?;
        writeln!(f, "span                    {:.3} s, {} distinct times", self.span_s, self.distinct_times)?;
        writeln!(f, "rate                    {} /s", text(self.rate_rps))?;
        writeln!(f, "interarrival CV         {}", text(self.interarrival_cv))?;
        writeln!(f, "index of dispersion     {} at 1 s, {} at 60 s", text(self.idc_1s), text(self.idc_60s))?;
        writeln!(f, "peak minute over mean   {}", text(self.peak_minute_over_mean))?;
        writeln!(f, "prompt tokens           {}", self.input_tokens)?;
        writeln!(f, "answer tokens           {}", self.output_tokens)?;
        match &self.blocks {
            Some(blocks) => blocks.fmt(f),
            None => writeln!(f, "prefix blocks           not in this format"),
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
        let mean = self.mean.map_or("-".to_owned(), |mean| format!("{mean:.3}"));
        let [p50, p90, p95, p99, max] = [self.p50, self.p90, self.p95, self.p99, self.max].map(text);
        write!(f, "mean {mean}, p50 {p50}, p90 {p90}, p95 {p95}, p99 {p99}, max {max}, sum {}", self.sum)
    }
}

impl fmt::Display for BlockReuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |hits: u64| hits as f64 / self.total.max(1) as f64;
        writeln!(
            f,
            "prefix blocks           {} of {} tokens, {} unique",
            self.total, self.block_tokens, self.unique
        )?;
        let hits = self.unlimited_hits;
        writeln!(
            f,
            "hits, unlimited cache   {hits} ({:.4}), {} tokens",
            share(hits),
            self.unlimited_hit_tokens
        )?;
        for point in &self.lru {
            let LruPoint { capacity_blocks, hits } = *point;
            writeln!(f, "hits, LRU {capacity_blocks:>9}     {hits} ({:.4})", share(hits))?;
        }
        Ok(())
    }
}
