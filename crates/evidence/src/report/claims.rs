//! What may be said, on which rung, under which registration.

use super::document::Document;
use crate::claims::{Claims, Finding, FourWay, Judged};
use crate::{Change, Deviation};

/// Changes of a deviation that are shown.
const SHOWN: usize = 10;

/// Whether the runs are preregistered, and every departure from the registration.
pub(super) fn registration(document: &mut Document, claims: &Claims) {
    match &claims.preregistration {
        Some(sha256) => document.text(format!("Preregistered: sha256 {sha256}.")),
        None => document.text("Not preregistered: these runs explore and can't confirm."),
    }
    document.bullets(claims.remarks.clone());
    if claims.preregistration.is_some() {
        match claims.deviations.len() {
            0 => document.text("Deviations from the registration: none."),
            _ => deviations(document, &claims.deviations),
        }
    }
}

fn deviations(document: &mut Document, deviations: &[Deviation]) {
    document.text("Deviations from the registration:");
    let one = |(at, deviation): (usize, &Deviation)| {
        let mut changes: Vec<String> = deviation.changes.iter().take(SHOWN).map(Change::to_string).collect();
        if deviation.changes.len() > SHOWN {
            changes.push(format!("{} more", deviation.changes.len() - SHOWN));
        }
        format!("DEVIATION {}: {} ({})", at + 1, deviation.reason, changes.join("; "))
    };
    document.bullets(deviations.iter().enumerate().map(one).collect());
}

/// The claims of the primary family, the ladder, and the registered rules.
pub(super) fn claims(document: &mut Document, claims: &Claims) {
    if !claims.claims.is_empty() {
        document.heading(2, "Claims");
        let line = |claim: &crate::claims::Claim| {
            let why = claim.why_inconclusive.map(|why| format!(" ({why})")).unwrap_or_default();
            format!("L{} {}: {}{why}", claim.rung, word(claim.verdict), claim.statement)
        };
        document.bullets(claims.claims.iter().map(line).collect());
    }
    ladder(document, claims);
    judged(document, "Promotion: every condition must hold", &claims.promotion);
    judged(document, "Falsification: any one refutes", &claims.falsification);
    if let Some(outcome) = &claims.outcome {
        document.text(format!("Hypothesis {outcome}."));
    }
}

/// The word of a verdict.
pub(super) fn word(verdict: FourWay) -> &'static str {
    match verdict {
        FourWay::Superior => "superior",
        FourWay::Equivalent => "equivalent",
        FourWay::Inferior => "inferior",
        FourWay::Inconclusive => "inconclusive",
    }
}

fn ladder(document: &mut Document, claims: &Claims) {
    document.heading(2, "What each rung asks for and these runs lack");
    let row = |step: &crate::Step| {
        let missing = if step.missing.is_empty() { "nothing".to_owned() } else { step.missing.join("; ") };
        vec![format!("L{}", step.level), step.what.to_owned(), missing]
    };
    document.table(["rung", "is", "missing"], claims.rung.steps.iter().map(row).collect());
}

fn judged(document: &mut Document, title: &str, rules: &[Judged]) {
    if rules.is_empty() {
        return;
    }
    document.heading(2, title);
    let row = |rule: &Judged| {
        let finding = match rule.finding {
            Finding::Holds => "holds",
            Finding::Fails => "does not hold",
            Finding::Open => "open",
        };
        vec![rule.rule.clone(), finding.to_owned(), rule.because.clone()]
    };
    document.table(["rule", "finding", "because"], rules.iter().map(row).collect());
}
