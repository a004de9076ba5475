//! `acb verify`: checks a bundle from nothing but itself.

use super::{Exit, print, print_json};
use crate::bundle::{CheckState, Verification, verify};
use crate::cli::VerifyArgs;
use acb_bundle::{Limits, PublicKey};
use miette::IntoDiagnostic;
use std::fmt::Write;

/// Checks a bundle. Exit status 1 when something does not hold.
///
/// # Errors
/// When there is no such bundle or key, or no room to unpack it.
pub fn command(args: &VerifyArgs) -> miette::Result<Exit> {
    let key = args.public_key.as_ref().map(|path| PublicKey::read(path)).transpose().into_diagnostic()?;
    let limits = Limits { bytes: args.max_unpacked_gib << 30, files: 1_000_000 };
    let verification = verify(&args.bundle, key.as_ref(), limits).into_diagnostic()?;
    match args.json {
        true => print_json(&verification)?,
        false => print(&text(&verification))?,
    }
    Ok(if verification.holds { Exit::Done } else { Exit::Failed })
}

/// Most findings that are shown.
const MOST: usize = 40;

fn text(verification: &Verification) -> String {
    let mut out = String::new();
    // Writing to a String can't fail.
    for row in &verification.checks {
        let state = match row.state {
            CheckState::Holds => "ok",
            CheckState::Remark => "remark",
            CheckState::Fails => "FAILS",
            CheckState::NotReached => "-",
        };
        let _ = writeln!(out, "{state:<7} {:<10} {}", row.check.name(), row.what);
    }
    for note in verification.notes.iter().take(MOST) {
        let _ = writeln!(out, "note: {note}");
    }
    if verification.notes.len() > MOST {
        let _ = writeln!(out, "note: {} more", verification.notes.len() - MOST);
    }
    for finding in verification.faults.iter().take(MOST) {
        let _ = writeln!(out, "{}: {finding}", finding.check.name());
    }
    if verification.faults.len() > MOST {
        let _ = writeln!(out, "and {} more", verification.faults.len() - MOST);
    }
    let verdict = if verification.holds { "The bundle holds." } else { "THE BUNDLE DOES NOT HOLD." };
    out + "\n" + verdict + "\n"
}
