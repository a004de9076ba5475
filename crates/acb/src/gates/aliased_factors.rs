//! *aliased factors*: properties of the workload that determine each other can't be told apart.

use super::{Verdict, pass, refuse};
use crate::experiment::{Experiment, SetUpError};
use crate::replay::MOST_REQUESTS;
use acb_workload::{Aliasing, Axis, CramersV, RequestSource};

const GATE: &str = "aliased-factors";

/// Bias-corrected Cramer's V from which two properties count as one.
const ALIASED_FROM: f64 = 0.8;

pub(super) fn verdict(experiment: &Experiment) -> Result<Verdict, SetUpError> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut seen = 0;
    for level in &experiment.levels {
        let mut source = level.workload_of(experiment.blocks[0], MOST_REQUESTS)?;
        let mut aliasing = Aliasing::default();
        while let Some(arrival) = source.take() {
            aliasing.add(&arrival.request);
            source.ended(arrival.request.id, arrival.request.due);
            seen += 1;
        }
        found.extend(aliasing.finish().iter().filter_map(sentence));
    }
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    Ok(match found.is_empty() {
        true => pass(
            GATE,
            format!(
                "no two of session, tenant, task, layout and document determine each other ({seen} requests)"
            ),
        ),
        false => refuse(
            GATE,
            format!(
                "can't be told apart: {}",
                found.iter().map(|f| f.1.as_str()).collect::<Vec<_>>().join("; ")
            ),
            "draw them independently (another workload kind, more sessions per tenant), or allow it by --allow aliased-factors",
        ),
    })
}

/// Two aliased axes by name, and the sentence that says so; none for axes that are nested by design.
fn sentence(pair: &CramersV) -> Option<(String, String)> {
    let v = pair.v.filter(|&v| v >= ALIASED_FROM && !pair.nested)?;
    let names = format!("{} and {}", name(pair.a), name(pair.b));
    let sentence = format!("{names} (Cramer's V {v:.2} over {} requests)", pair.n);
    Some((names, sentence))
}

fn name(axis: Axis) -> &'static str {
    match axis {
        Axis::Session => "session",
        Axis::Tenant => "tenant",
        Axis::TrustGroup => "trust group",
        Axis::Task => "task",
        Axis::Layout => "layout",
        Axis::Document => "document",
    }
}
