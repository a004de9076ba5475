//! One run folder of the original harness, read and judged.

use super::compat::{Inputs, compat};
use super::files::{OldManifest, OldStatus, OldSummary, OurManifest};
use super::lifecycle::lifecycle;
use super::obstacle::{MOCK, NOT_BLOCKED, OLD_METRIC, rung};
use super::qag::Qag;
use super::rows::Rows;
use super::{
    Duration, Ended, Form, Kind, LegacyFolder, LegacyRun, Obstacle, QagDefinition, Reason, ServerCount,
};
use crate::{EvidenceError, FILE_VERSION};
use acb_types::Source;
use std::collections::BTreeMap;

/// Numbers of a summary that come from the harness's own cache model, whatever answered.
const SIMULATED: [&str; 7] = [
    "cache_hit_rate",
    "cached_prompt_token_ratio",
    "fragmentation_index",
    "memory_token_footprint",
    "eviction_count",
    "evicted_tokens",
    "quality_adjusted_goodput_per_memory_token",
];
/// Counters of vLLM that the harness used.
const COUNTERS: [&str; 3] =
    ["vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:prompt_tokens_cached_total"];

/// What is known of a run beside its folder's JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunReading {
    /// Bound on TTFT in milliseconds, from the resolved configuration.
    pub slo_ttft_ms: Option<f64>,
    /// Whether to compute the old metrics beside ours.
    pub compat: Compat,
}

/// Whether the old metrics are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// They are not.
    #[default]
    Off,
    /// They are.
    On,
}

/// The documents of a run.
struct Documents {
    status: Option<OldStatus>,
    manifest: OldManifest,
    /// Empty where there is none.
    summary: OldSummary,
    has_summary: bool,
    rows: Rows,
}

/// Reads a run of the original harness. Nothing but plain files that lie in the folder is opened, and nothing is written.
///
/// # Errors
/// When a file is a link, too large, no JSON, or contradicts another; when a row is bad; when the folder is a run of this
/// program. The error names file, line and remedy.
pub fn read_legacy_run(folder: &LegacyFolder, reading: RunReading) -> Result<LegacyRun, EvidenceError> {
    let documents = documents(folder)?;
    let mut run = identity(folder, &documents);
    let Documents { manifest, summary, rows, .. } = &documents;
    run.duration = duration(manifest, summary, rows);
    run.slo_ttft_ms = reading.slo_ttft_ms;
    let seconds = run.duration.as_ref().map(|duration| duration.seconds);
    let published = summary.number("quality_adjusted_goodput");
    run.qag_definition = match (Qag::of(rows, reading.slo_ttft_ms, seconds), published) {
        (Some(qag), Some(published)) => qag.definition(published),
        _ => QagDefinition::Unknown,
    };
    if reading.compat == Compat::On {
        let source = if is_mock(run.backend.as_deref()) { Source::Simulated } else { Source::Client };
        let slo_ttft_ms = reading.slo_ttft_ms;
        run.compat =
            Some(compat(&Inputs { rows, summary, slo_ttft_ms, duration: run.duration.as_ref(), source }));
    }
    run.obstacles = obstacles(&run, folder.plain("server_reset.log")?.is_some());
    run.rung = rung(&run.obstacles);
    Ok(run)
}

/// What the documents say of a run, before anything is computed from it.
fn identity(folder: &LegacyFolder, documents: &Documents) -> LegacyRun {
    let Documents { status, manifest, summary, has_summary, rows } = documents;
    let first = |a: &Option<String>, b: &Option<String>| a.clone().or_else(|| b.clone());
    let planned = status.as_ref().and_then(|status| status.planned_request_count);
    let simulated = SIMULATED.iter().filter_map(|name| Some(((*name).to_owned(), summary.number(name)?)));
    LegacyRun {
        v: FILE_VERSION,
        kind: Kind::LegacyRun,
        run_id: folder.name().to_owned(),
        form: form(summary, rows),
        lifecycle: lifecycle(status.as_ref(), rows, *has_summary),
        backend: first(&manifest.backend, &summary.backend_kind),
        model: first(&manifest.backend_model, &summary.backend_model).or_else(|| manifest.model.clone()),
        workload: first(&manifest.workload, &summary.workload),
        policy: first(&manifest.router_policy, &summary.router_policy),
        cache_condition: first(&manifest.cache_condition, &summary.cache_condition),
        git_commit: manifest.git_commit.clone(),
        created_unix_ms: manifest.created_at_unix_ms,
        rows_digest: rows.digest.clone(),
        planned_requests: planned.or(manifest.request_count),
        answers: rows.answers(),
        failures: rows.failures,
        answers_in_prompt: (rows.askable > 0).then_some((rows.askable, rows.answerable)),
        slo_ttft_ms: None,
        duration: None,
        qag_definition: QagDefinition::Unknown,
        simulated: simulated.collect(),
        server: server(summary),
        compat: None,
        rung: 0,
        obstacles: Vec::new(),
    }
}

fn documents(folder: &LegacyFolder) -> Result<Documents, EvidenceError> {
    if folder.json::<OurManifest>("manifest.json")?.is_some_and(|ours| ours.experiment_digest.is_some()) {
        let message = "is a run of this program; read it with `acb report`".to_owned();
        return Err(EvidenceError::Document { path: folder.path().join("manifest.json"), message });
    }
    let manifest: OldManifest = folder.json("manifest.json")?.unwrap_or_default();
    let summary: Option<OldSummary> = folder.json("summary.json")?;
    let said = [
        ("manifest.json", &manifest.run_id),
        ("summary.json", &summary.as_ref().and_then(|s| s.run_id.clone())),
    ];
    for (file, id) in said {
        if let Some(id) = id.as_ref().filter(|id| *id != folder.name()) {
            let message = format!(
                "is of run \"{id}\", but lies in a folder named \"{}\"; give the folder the name of its run",
                folder.name()
            );
            return Err(EvidenceError::Document { path: folder.path().join(file), message });
        }
    }
    let (status, rows) = (folder.json("status.json")?, Rows::read(folder)?);
    let has_summary = summary.is_some();
    Ok(Documents { status, manifest, summary: summary.unwrap_or_default(), has_summary, rows })
}

fn is_mock(backend: Option<&str>) -> bool {
    backend == Some("mock")
}

fn form(summary: &OldSummary, rows: &Rows) -> Form {
    let newer =
        rows.named_simulated || summary.cache_condition.is_some() || summary.workload_structure.is_some();
    if newer { Form::Newer } else { Form::Older }
}

/// The time that the harness's rates are over: wall time for the concurrent runner, the sum of E2E for the sequential one.
fn duration(manifest: &OldManifest, summary: &OldSummary, rows: &Rows) -> Option<Duration> {
    let of = |seconds, from: &str| Some(Duration { seconds, from: from.to_owned() });
    if let Some(seconds) = manifest.wall_duration_s {
        return of(seconds, "wall_duration_s of the manifest");
    }
    if manifest.max_concurrency.is_some_and(|n| n <= 1) {
        return of(rows.e2e_ms.iter().sum::<f64>() * 1e-3, "sum of E2E: the sequential runner's duration");
    }
    let rate = summary.number("request_throughput").filter(|rate| *rate > 0.0)?;
    of(rows.answers() as f64 / rate, "answers over the published request throughput, which is then no check")
}

fn server(summary: &OldSummary) -> BTreeMap<String, ServerCount> {
    let count = |name: &&str| {
        let value = summary.backend_metrics.get(*name)?.as_f64()?;
        let count = match value == 0.0 {
            true => {
                let reason = "the harness writes 0 for a counter that the server doesn't have";
                ServerCount { value: None, reason: Some(reason.to_owned()) }
            }
            false => ServerCount { value: Some(value), reason: None },
        };
        Some(((*name).to_owned(), count))
    };
    COUNTERS.iter().filter_map(count).collect()
}

fn obstacles(run: &LegacyRun, was_reset: bool) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if run.rows_digest.is_none() {
        found.push(Reason::NoRows.because("there is no requests.jsonl: no number can be computed again"));
    }
    if run.lifecycle.claimed.is_none() {
        found.push(Reason::NoStatus.because("there is no status.json: nobody can say that the run is whole"));
    } else if run.lifecycle.found != Ended::Whole {
        found.push(Reason::NotWhole.because(run.lifecycle.why.clone().unwrap_or_default()));
    }
    if is_mock(run.backend.as_deref()) {
        found.push(Reason::Mock.because(MOCK));
    } else if !was_reset {
        found.push(
            Reason::NoReset
                .because("there is no server_reset.log: the server may have been warm from another run"),
        );
    }
    found.extend(old_metric(run));
    found.extend(unanswerable(run));
    found.push(Reason::NotBlocked.because(NOT_BLOCKED));
    found
}

fn old_metric(run: &LegacyRun) -> Option<Obstacle> {
    let why = match run.qag_definition {
        QagDefinition::SumOnTime | QagDefinition::Either => return None,
        QagDefinition::GoodputTimesMeanQuality => OLD_METRIC,
        QagDefinition::Neither => {
            "quality-adjusted goodput follows neither of the harness's definitions from these rows"
        }
        QagDefinition::Unknown => "it can't be told which definition quality-adjusted goodput follows",
    };
    Some(Reason::OldMetric.because(why))
}

fn unanswerable(run: &LegacyRun) -> Option<Obstacle> {
    let (asked, answerable) = run.answers_in_prompt.unwrap_or_default();
    if run.workload.as_deref() == Some("controlled_overlap") {
        let why =
            "controlled_overlap asks for facts that stand in no prompt: its quality is noise of the scorer";
        return Some(Reason::Unanswerable.because(why));
    }
    let why = format!("{} of {asked} answers don't stand in their prompts", asked - answerable);
    (answerable < asked).then(|| Reason::Unanswerable.because(why))
}
