//! From readings to what happened in a window: counters are differenced, restarts noticed, gauges left as they are.

use super::exposition::{Exposition, SeriesType};
use acb_types::{RECORD_VERSION, ReplicaId, ServerCounters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The counters of one server over a window that begins with the first reading.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    last: ServerCounters,
    since: ServerCounters,
}

/// One reading, taken in.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// Counts since the first reading; `None` where this reading has none.
    pub since: ServerCounters,
    /// Whether a counter went back: the server was restarted, and what it counted between its last reading and its end is lost.
    pub restarted: bool,
}

impl Ledger {
    /// Takes in a reading of counters since the server's start.
    pub fn take(&mut self, mut now: ServerCounters) -> Taken {
        let mut restarted = false;
        let (last, since) = (told(&mut self.last), told(&mut self.since));
        let mut shown = now.clone();
        for (((last, since), now), shown) in
            last.into_iter().zip(since).zip(told(&mut now)).zip(told(&mut shown))
        {
            if let Some(reading) = *now {
                let (grown, back) = growth(*last, reading);
                restarted |= back;
                *since = Some(since.unwrap_or(0) + grown);
                *last = Some(reading);
                *shown = *since;
            }
        }
        Taken { since: shown, restarted }
    }
}

/// How much a counter grew, and whether it went back. A counter that went back started again at zero.
fn growth(last: Option<u64>, now: u64) -> (u64, bool) {
    match last {
        None => (0, false),
        Some(last) if now >= last => (now - last, false),
        Some(_) => (now, true),
    }
}

/// The counters that some runtime tells.
fn told(counters: &mut ServerCounters) -> [&mut Option<u64>; 7] {
    [
        &mut counters.steps,
        &mut counters.prefix_query_tokens,
        &mut counters.prefix_hit_tokens,
        &mut counters.prefill_tokens,
        &mut counters.decode_tokens,
        &mut counters.preemptions,
        &mut counters.kv_evictions,
    ]
}

/// All series of one server over a window, labels kept.
#[derive(Clone, Debug, Default)]
pub struct SeriesLedger {
    tallies: BTreeMap<(String, BTreeMap<String, String>), Tally>,
    readings: u64,
}

#[derive(Clone, Debug)]
struct Tally {
    last: f64,
    least: f64,
    most: f64,
    increase: Option<f64>,
    restarts: u32,
}

/// One series over a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesRow {
    /// Version of the row's fields.
    pub v: u32,
    /// Which server.
    pub replica: ReplicaId,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// By how much it grew, restarts bridged. `None`: it is no counter, and differences of it mean nothing.
    pub increase: Option<f64>,
    /// How often it went back to zero, if it is a counter.
    pub restarts: u32,
    /// The last reading; `None`: not a number.
    pub last: Option<f64>,
    /// The least reading; `None`: none was a number.
    pub least: Option<f64>,
    /// The greatest reading; `None`: none was a number.
    pub most: Option<f64>,
}

impl SeriesLedger {
    /// Takes in a reading.
    pub fn take(&mut self, told: &Exposition) {
        let first = self.readings == 0;
        for series in told.series() {
            let key = (series.name.clone(), series.labels.clone());
            let kind = kind_of(told.type_of(&series.name), &series.name);
            // A counter that is first seen in the midst has begun at zero since the reading before.
            let begun = if first { series.value } else { 0.0 };
            self.tallies.entry(key).or_insert_with(|| Tally::new(kind, begun)).take(series.value);
        }
        self.readings += 1;
    }

    /// The series by name and labels.
    #[must_use]
    pub fn rows(&self, replica: ReplicaId) -> Vec<SeriesRow> {
        let number = |value: f64| value.is_finite().then_some(value);
        let row = |((name, labels), tally): (&(String, BTreeMap<String, String>), &Tally)| SeriesRow {
            v: RECORD_VERSION,
            replica,
            name: name.clone(),
            labels: labels.clone(),
            increase: tally.increase,
            restarts: tally.restarts,
            last: number(tally.last),
            least: number(tally.least),
            most: number(tally.most),
        };
        self.tallies.iter().map(row).collect()
    }
}

/// Names decide where the server says nothing.
fn kind_of(said: SeriesType, name: &str) -> SeriesType {
    match said {
        SeriesType::Untyped if name.ends_with("_total") => SeriesType::Counter,
        said => said,
    }
}

impl Tally {
    fn new(kind: SeriesType, begun: f64) -> Self {
        let counts = match kind {
            SeriesType::Counter | SeriesType::Histogram | SeriesType::Summary => Some(0.0),
            SeriesType::Gauge | SeriesType::Untyped => None,
        };
        Self { last: begun, least: f64::INFINITY, most: f64::NEG_INFINITY, increase: counts, restarts: 0 }
    }

    fn take(&mut self, value: f64) {
        if let Some(increase) = self.increase.as_mut().filter(|_| value.is_finite()) {
            if value >= self.last {
                *increase += value - self.last;
            } else {
                *increase += value;
                self.restarts += 1;
            }
        }
        self.last = value;
        (self.least, self.most) = (self.least.min(value), self.most.max(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(hits: Option<u64>, decoded: Option<u64>) -> ServerCounters {
        ServerCounters { prefix_hit_tokens: hits, decode_tokens: decoded, ..ServerCounters::default() }
    }

    #[test]
    fn counts_are_since_the_first_reading_and_a_restart_is_bridged_and_told() {
        let mut ledger = Ledger::default();
        let mut taken = |hits, decoded| {
            let Taken { since, restarted } = ledger.take(counters(hits, decoded));
            (since.prefix_hit_tokens, since.decode_tokens, restarted)
        };
        assert_eq!(taken(Some(100), None), (Some(0), None, false));
        assert_eq!(taken(Some(130), Some(5)), (Some(30), Some(0), false));
        assert_eq!(taken(None, Some(9)), (None, Some(4), false));
        assert_eq!(taken(Some(7), Some(9)), (Some(37), Some(4), true));
        assert_eq!(taken(Some(8), Some(9)), (Some(38), Some(4), false));
    }

    #[test]
    fn series_keep_their_labels_counters_grow_and_gauges_are_not_differenced() {
        let mut ledger = SeriesLedger::default();
        let text = |hits: u64, running: u64, more: &str| {
            let head = "# TYPE c_total counter\n# TYPE g gauge\n# TYPE h histogram\n";
            let text = format!("{head}c_total{{k=\"a\"}} {hits}\ng {running}\n{more}");
            Exposition::parse(&text).unwrap()
        };
        ledger.take(&text(10, 4, ""));
        ledger.take(&text(16, 1, "c_total{k=\"b\"} 3\nh_bucket{le=\"+Inf\"} 2\n"));
        ledger.take(&text(2, 3, "c_total{k=\"b\"} 3\nn NaN\n"));
        let rows = ledger.rows(ReplicaId(1));
        let of = |name: &str, label: Option<&str>| {
            let fits =
                |row: &&SeriesRow| row.name == name && row.labels.get("k").map(String::as_str) == label;
            rows.iter().find(fits).unwrap()
        };
        assert_eq!((of("c_total", Some("a")).increase, of("c_total", Some("a")).restarts), (Some(8.0), 1));
        assert_eq!(of("c_total", Some("b")).increase, Some(3.0));
        assert_eq!(of("h_bucket", None).increase, Some(2.0));
        let gauge = of("g", None);
        assert_eq!(
            (gauge.increase, gauge.last, gauge.least, gauge.most),
            (None, Some(3.0), Some(1.0), Some(4.0))
        );
        assert_eq!((of("n", None).last, of("n", None).most), (None, None));
    }
}
