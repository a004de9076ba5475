//! From records to the summary of a run, in one pass.

use crate::error::EvidenceError;
use crate::groups::Groups;
use crate::metrics::{FAMILIES, Fold, Value};
use crate::rows::{Records, ServerRows};
use crate::{FILE_VERSION, LineFault, Manifest, Metric, Summary, Wall};
use acb_types::{Digest, Nanos, Outcome, Record, ServerRow, TenantId};
use std::collections::BTreeMap;
use std::path::Path;

impl Wall {
    /// From the first due time to the last end.
    #[must_use]
    pub fn length(self) -> Nanos {
        self.last_end_ns.since(self.first_due_ns)
    }

    /// The wall time after one more record.
    fn with(wall: Option<Self>, record: &Record<'_>) -> Self {
        let end = record.ended_ns;
        let wall = wall.unwrap_or(Self { first_due_ns: record.due_ns, last_end_ns: end });
        Self { first_due_ns: wall.first_due_ns.min(record.due_ns), last_end_ns: wall.last_end_ns.max(end) }
    }
}

/// Takes in the records and server rows of one run, in any order of records, and gives its [`Summary`].
///
/// Memory grows with the number of records (some 40 bytes each, for quantiles) and with the number of adapters and
/// tenants; no record is kept.
pub struct Summariser {
    manifest: Manifest,
    folds: Vec<Box<dyn Fold>>,
    outcomes: BTreeMap<Outcome, u64>,
    wall: Option<Wall>,
    adapters: Groups<String>,
    tenants: Groups<TenantId>,
}

impl Summariser {
    /// A summary of no records yet.
    #[must_use]
    pub fn new(manifest: &Manifest) -> Self {
        Self {
            manifest: manifest.clone(),
            folds: FAMILIES.iter().map(|family| (family.start)(&manifest.slo)).collect(),
            outcomes: BTreeMap::new(),
            wall: None,
            adapters: Groups::new(manifest.slo),
            tenants: Groups::new(manifest.slo),
        }
    }

    /// Takes in a record. Its ids are not checked for repetition: [`Records`] does that for files.
    pub fn record(&mut self, record: &Record<'_>) {
        *self.outcomes.entry(record.outcome).or_default() += 1;
        self.wall = Some(Wall::with(self.wall, record));
        self.folds.iter_mut().for_each(|fold| fold.record(record));
        self.adapters.add(&*record.adapter, record);
        self.tenants.add(&record.tenant, record);
    }

    /// Takes in a server row; rows of one replica come in order of time.
    pub fn server(&mut self, row: &ServerRow) {
        self.folds.iter_mut().for_each(|fold| fold.server(row));
    }

    /// All metrics.
    #[must_use]
    pub fn finish(self) -> Summary {
        let Self { manifest, folds, outcomes, wall, adapters, tenants } = self;
        let mut metrics = BTreeMap::new();
        for (family, fold) in FAMILIES.iter().zip(folds) {
            for (info, value) in family.metrics.iter().zip(fold.finish(wall)) {
                metrics.insert(info.name.to_owned(), metric(info.unit, value, &manifest));
            }
        }
        Summary {
            v: FILE_VERSION,
            run_id: manifest.run_id,
            requests: outcomes.values().sum(),
            outcomes,
            wall,
            metrics,
            per_adapter: adapters.rows(),
            per_tenant: tenants.rows(),
            preregistration: manifest.preregistration.map(|registered| registered.sha256),
        }
    }
}

fn metric(unit: &str, value: Value, manifest: &Manifest) -> Metric {
    let Value { number, n, low, high, source } = value;
    let (value, reason) = match number {
        Ok(number) => (Some(number), None),
        Err(reason) => (None, Some(reason)),
    };
    Metric { value, unit: unit.to_owned(), source: source.unwrap_or(manifest.source), n, low, high, reason }
}

/// The summary of records and server rows that are at hand.
///
/// # Errors
/// The first error among the records.
pub fn summarise<'a>(
    manifest: &Manifest,
    records: impl IntoIterator<Item = Result<Record<'a>, EvidenceError>>,
    rows: impl IntoIterator<Item = ServerRow>,
) -> Result<Summary, EvidenceError> {
    let mut summariser = Summariser::new(manifest);
    for record in records {
        summariser.record(&record?);
    }
    rows.into_iter().for_each(|row| summariser.server(&row));
    Ok(summariser.finish())
}

/// The summary of a run folder, computed from `requests.jsonl` and, where there is one, `server.jsonl`.
///
/// # Errors
/// When a row can't be read, or comes from another source than the manifest says.
pub fn summarise_folder(folder: &Path, manifest: &Manifest) -> Result<Summary, EvidenceError> {
    summarise_hashed(folder, manifest)?.summary
}

/// What one reading of a run's rows gives.
pub(crate) struct Hashed {
    /// Hash of `requests.jsonl`.
    pub digest: Option<Digest>,
    /// The summary, or what is wrong with a row.
    pub summary: Result<Summary, EvidenceError>,
}

/// As [`summarise_folder`], with the hash of the records, which is there also when a row is bad.
///
/// # Errors
/// When `requests.jsonl` can't be read.
pub(crate) fn summarise_hashed(folder: &Path, manifest: &Manifest) -> Result<Hashed, EvidenceError> {
    let mut summariser = Summariser::new(manifest);
    let mut records = Records::hashed(&folder.join("requests.jsonl"))?;
    let taken = take_records(&mut records, &mut summariser);
    let digest = records.digest()?;
    let taken = taken.and_then(|()| take_server_rows(&folder.join("server.jsonl"), &mut summariser));
    Ok(Hashed { digest, summary: taken.map(|()| summariser.finish()) })
}

fn take_records(records: &mut Records, summariser: &mut Summariser) -> Result<(), EvidenceError> {
    let source = summariser.manifest.source;
    while let Some(record) = records.read_for_metrics()? {
        if record.source != source {
            let rule = format!("the row's source is {:?}, that of the run {source:?}", record.source);
            return Err(records.fault(LineFault::Inconsistent { rule }));
        }
        summariser.record(&record);
    }
    Ok(())
}

fn take_server_rows(path: &Path, summariser: &mut Summariser) -> Result<(), EvidenceError> {
    if path.exists() {
        let mut rows = ServerRows::open(path)?;
        while let Some(row) = rows.read()? {
            summariser.server(&row);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArmRole;
    use crate::testing::{failure, manifest, ms, record};
    use proptest::prelude::*;

    #[test]
    fn wall_time_runs_from_the_first_due_time_to_the_last_end() {
        let records = [record(5), record(3), failure(9, Outcome::TimedOut)];
        let seen = summarise(&manifest("a", ArmRole::Baseline, 0), records.map(Ok), []).unwrap();
        assert_eq!(seen.wall, Some(Wall { first_due_ns: ms(300), last_end_ns: ms(901) }));
        assert_eq!(seen.outcomes, BTreeMap::from([(Outcome::Ok, 2), (Outcome::TimedOut, 1)]));
    }

    #[test]
    fn groups_have_their_own_tails() {
        let records: Vec<_> = (0..60).map(|id| Record { adapter: "qa".into(), ..record(id) }).collect();
        let failed = failure(60, Outcome::Shed);
        let all = records.into_iter().chain([failed]).map(Ok);
        let seen = summarise(&manifest("a", ArmRole::Baseline, 0), all, []).unwrap();
        let [base, qa] = &seen.per_adapter[..] else { panic!("{:?}", seen.per_adapter) };
        assert_eq!((base.name.as_str(), base.requests, base.ok, base.slo_attainment), ("base", 1, 0, 0.0));
        assert_eq!((base.p50_ttft_ms, base.max_ttft_ms), (None, None));
        assert_eq!(
            (qa.requests, qa.p95_ttft_ms, qa.p99_ttft_ms, qa.slo_attainment),
            (60, Some(50.0), None, 1.0)
        );
        assert_eq!(seen.per_tenant.iter().map(|row| row.requests).collect::<Vec<_>>(), [31, 30]);
    }

    fn any_record() -> impl Strategy<Value = Record<'static>> {
        (any::<bool>(), 0u64..200, 2u64..90, 1u32..6, 0.0..=1.0f64, 0u32..4).prop_map(
            |(ok, shift, decode, tokens, quality, adapter)| {
                if !ok {
                    return failure(0, Outcome::Failed);
                }
                let mut r = record(0);
                r.first_token_ns = Some(ms(20 + shift) + Nanos(shift * 77));
                r.last_token_ns = Some(ms(20 + shift + decode) + Nanos(shift * 77));
                (r.output_tokens, r.quality, r.adapter) =
                    (tokens, Some(quality), format!("a{adapter}").into());
                r
            },
        )
    }

    proptest! {
        #[test]
        fn a_summary_does_not_depend_on_the_order_of_records(
            (ordered, shuffled) in prop::collection::vec(any_record(), 0..80)
                .prop_map(|mut records| {
                    records.iter_mut().zip(0..).for_each(|(r, id)| r.request = acb_types::RequestId(id));
                    records
                })
                .prop_flat_map(|records| (Just(records.clone()), Just(records).prop_shuffle())),
        ) {
            let manifest = manifest("a", ArmRole::Baseline, 0);
            let of = |records: Vec<Record<'static>>| summarise(&manifest, records.into_iter().map(Ok), []).unwrap();
            prop_assert_eq!(of(ordered), of(shuffled));
        }
    }
}
