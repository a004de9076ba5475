//! `acb report`: arms compared from finished run folders alone.

use super::{Exit, json_text, print};
use crate::cli::{ReportArgs, ReportFormat};
use acb_evidence::{
    Claims, ComparisonRule, Comparisons, EvidenceError, Loaded, claims, claims_document, compare, load_runs,
    render_markdown, render_terminal, write_atomically,
};
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the report in a sweep's folder.
pub const REPORT: &str = "report.md";
/// Name of the claims in a sweep's folder.
pub const CLAIMS: &str = "claims.json";

/// Experiments with their comparisons.
pub struct Analysis {
    parts: Vec<(Loaded, Comparisons)>,
}

/// The report as `--json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportDocument {
    /// One entry per experiment.
    pub experiments: Vec<ExperimentReport>,
}

/// What one experiment shows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExperimentReport {
    /// Name of the experiment.
    pub experiment: String,
    /// Names of its sweeps among the paths given.
    pub sweeps: Vec<String>,
    /// The question that it asks; null for runs without their sweep.
    pub question: Option<String>,
    /// Sentences that belong above every table of its runs.
    pub labels: Vec<String>,
    /// Runs that are no evidence, with the reason.
    pub left_out: Vec<String>,
    /// Its arms compared.
    pub comparisons: Comparisons,
    /// What may be said of them.
    pub claims: Claims,
}

impl ExperimentReport {
    fn new((loaded, comparisons): (Loaded, Comparisons)) -> Self {
        let labels: BTreeSet<String> =
            loaded.runs.iter().flat_map(|run| run.manifest.labels.clone()).collect();
        let plan = loaded.sweeps.first().map(|sweep| &sweep.plan);
        Self {
            experiment: loaded.runs.first().map_or_else(String::new, |run| run.manifest.experiment.clone()),
            sweeps: loaded.sweeps.iter().map(|sweep| sweep.plan.sweep.clone()).collect(),
            question: plan.map(|plan| plan.question.clone()),
            labels: labels.into_iter().collect(),
            left_out: loaded.skipped.iter().map(|s| format!("{}: {}", s.folder.display(), s.why)).collect(),
            claims: claims(&loaded, &comparisons),
            comparisons,
        }
    }
}

/// Reads run folders and compares their arms, experiment by experiment.
///
/// # Errors
/// When a path can't be read or holds no complete run.
pub fn analyse(paths: &[PathBuf]) -> miette::Result<Analysis> {
    let mut all = Loaded::default();
    for path in paths {
        let loaded = load_runs(path).into_diagnostic()?;
        all.runs.extend(loaded.runs);
        all.skipped.extend(loaded.skipped);
        all.sweeps.extend(loaded.sweeps);
    }
    // A run named by two of the paths is one run.
    let canonical = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let mut seen = BTreeSet::new();
    all.runs.retain(|run| seen.insert(canonical(&run.folder)));
    all.skipped.retain(|skipped| seen.insert(canonical(&skipped.folder)));
    all.sweeps.retain(|sweep| seen.insert(canonical(&sweep.folder)));
    if all.runs.is_empty() {
        let found = all.skipped.iter().map(|s| format!("\n{}: {}", s.folder.display(), s.why));
        return Err(miette!(
            "no complete run among the paths given; `acb run` makes some{}",
            found.collect::<String>()
        ));
    }
    Ok(Analysis::of(all))
}

impl Analysis {
    /// Compares the arms of what was read, experiment by experiment.
    #[must_use]
    pub fn of(all: Loaded) -> Self {
        let part = |loaded: Loaded| {
            let rule = ComparisonRule::of_loaded(&loaded);
            let comparisons = compare(&loaded.runs, &rule);
            (loaded, comparisons)
        };
        Self { parts: all.by_experiment().into_iter().map(part).collect() }
    }

    /// For a terminal of this many columns.
    #[must_use]
    pub fn terminal(&self, columns: u16) -> String {
        let part =
            |(loaded, comparisons): &(Loaded, Comparisons)| render_terminal(loaded, comparisons, columns);
        self.parts.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// As Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let part = |(loaded, comparisons): &(Loaded, Comparisons)| render_markdown(loaded, comparisons);
        self.parts.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// What each experiment allows to be said.
    #[must_use]
    pub fn claims(&self) -> Vec<Claims> {
        self.parts.iter().map(|(loaded, comparisons)| claims(loaded, comparisons)).collect()
    }

    /// The arms of each experiment compared.
    #[must_use]
    pub fn comparisons(&self) -> Vec<&Comparisons> {
        self.parts.iter().map(|(_, comparisons)| comparisons).collect()
    }

    /// Every file that is derived from the folders read, by name: nothing else goes into it.
    #[must_use]
    pub fn derived(&self) -> Vec<(&'static str, String)> {
        vec![(REPORT, self.markdown()), (CLAIMS, json_text(&claims_document(self.claims())))]
    }

    /// Writes the derived files into a sweep's folder.
    ///
    /// # Errors
    /// When one can't be written.
    pub fn write_derived(&self, folder: &Path) -> Result<(), EvidenceError> {
        self.derived()
            .iter()
            .try_for_each(|(name, text)| write_atomically(&folder.join(name), text.as_bytes()))
    }

    /// As a document.
    #[must_use]
    pub fn document(self) -> ReportDocument {
        ReportDocument { experiments: self.parts.into_iter().map(ExperimentReport::new).collect() }
    }
}

/// Columns of the terminal that stdout is, within reason.
#[must_use]
pub fn columns() -> u16 {
    comfy_table::Table::new().width().unwrap_or(120).clamp(60, 240)
}

/// Runs the command.
///
/// # Errors
/// When a path can't be read, or the output file exists.
pub fn command(args: &ReportArgs) -> miette::Result<Exit> {
    let analysis = analyse(&args.paths)?;
    let format = if args.json { ReportFormat::Json } else { args.format };
    let text = match format {
        ReportFormat::Terminal => analysis.terminal(columns()),
        ReportFormat::Markdown => analysis.markdown(),
        ReportFormat::Json => json_text(&analysis.document()),
    };
    match &args.output {
        None => print(&text)?,
        Some(path) => write_new(path, &text)?,
    }
    Ok(Exit::Done)
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, text: &str) -> miette::Result<()> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            miette!("{}: exists already and is not overwritten; choose another --output", path.display())
        }
        _ => miette!("{}: {error}", path.display()),
    })
}
