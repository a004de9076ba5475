//! `acb claims`: what finished runs allow to be said, and what they lack to say more.

use super::report::{analyse, columns};
use super::{Exit, print, print_json, say};
use crate::cli::ClaimsArgs;
use acb_evidence::{Claims, claims_document, render_claims};

/// Runs the command.
///
/// # Errors
/// When a path can't be read or holds no complete run.
pub fn command(args: &ClaimsArgs) -> miette::Result<Exit> {
    let claims = analyse(&args.paths)?.claims();
    let refused = args.want.map(|want| refusals(&claims, want)).unwrap_or_default();
    if args.json {
        print_json(&claims_document(claims))?;
    } else {
        let pages: Vec<String> = claims.iter().map(|claims| render_claims(claims, columns())).collect();
        print(&pages.join("\n"))?;
    }
    for refusal in &refused {
        say(refusal);
    }
    Ok(if refused.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Experiments whose runs don't carry a claim on this rung, each with what is missing.
fn refusals(claims: &[Claims], want: u8) -> Vec<String> {
    let below = claims.iter().filter(|claims| claims.rung.level < want);
    let refusal = |claims: &Claims| {
        let missing: Vec<String> =
            claims.rung.missing_for(want).iter().map(|what| format!("  - {what}")).collect();
        format!(
            "{}: a claim on L{want} is refused: the runs stand on {}; missing:\n{}",
            claims.experiment,
            claims.rung.label,
            missing.join("\n")
        )
    };
    below.map(refusal).collect()
}
