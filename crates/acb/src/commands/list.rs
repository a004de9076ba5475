//! `acb list`: what experiment files can name.

use super::{Exit, print, print_json};
use crate::cli::{ListArgs, Listed};
use crate::presets::PRESETS;
use acb_routing::PolicySpec;
use acb_workload::Kind;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// One thing that can be named.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// What it is.
    pub summary: String,
    /// What a policy may see, a metric's unit, whether a profile is calibrated, where a preset's numbers were published; null
    /// where there is nothing to add.
    pub detail: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When stdout can't be written.
pub fn command(args: &ListArgs) -> miette::Result<Exit> {
    if args.what == Listed::Metrics && args.markdown {
        print(&acb_evidence::metrics_markdown())?;
        return Ok(Exit::Done);
    }
    let items = items(args.what);
    match (args.json, args.markdown) {
        (true, _) => print_json(&items)?,
        (_, true) => print(&markdown(args.what, &items))?,
        _ => print(&text(&items))?,
    }
    Ok(Exit::Done)
}

fn items(what: Listed) -> Vec<Item> {
    match what {
        Listed::Policies => PolicySpec::all().iter().map(policy).collect(),
        Listed::Workloads => Kind::ALL.iter().map(|kind| item(kind.name(), kind.summary(), None)).collect(),
        Listed::Metrics => acb_evidence::metrics()
            .iter()
            .map(|metric| item(metric.name, metric.summary, Some(format!("unit: {}", metric.unit))))
            .collect(),
        Listed::Profiles => acb_sim::profiles()
            .iter()
            .map(|profile| {
                let calibrated = if profile.calibrated { "calibrated" } else { "uncalibrated" };
                item(profile.name, profile.summary, Some(calibrated.to_owned()))
            })
            .collect(),
        Listed::Presets => PRESETS
            .iter()
            .map(|preset| item(preset.name, preset.summary, Some(preset.source.to_owned())))
            .collect(),
    }
}

fn policy(policy: &PolicySpec) -> Item {
    item(policy.name(), policy.summary(), Some(format!("sees {}", policy.information())))
}

fn item(name: &str, summary: &str, detail: Option<String>) -> Item {
    Item { name: name.to_owned(), summary: summary.to_owned(), detail }
}

fn text(items: &[Item]) -> String {
    let width = items.iter().map(|item| item.name.len()).max().unwrap_or(0);
    let line = |item: &Item| {
        let detail = item.detail.as_ref().map(|detail| format!(" [{detail}]")).unwrap_or_default();
        format!("{:width$}  {}{detail}\n", item.name, item.summary)
    };
    items.iter().map(line).collect()
}

fn markdown(what: Listed, items: &[Item]) -> String {
    let title = match what {
        Listed::Policies => "Policies",
        Listed::Workloads => "Workloads",
        Listed::Metrics => "Metrics",
        Listed::Profiles => "Latency profiles",
        Listed::Presets => "Presets",
    };
    let mut out = format!("# {title}\n\n| name | what | |\n|---|---|---|\n");
    for item in items {
        // Writing to a String can't fail.
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            item.name,
            item.summary,
            item.detail.as_deref().unwrap_or("")
        );
    }
    out
}
