//! `acb bundle`: a results folder with all that is needed to check it.

use super::{Exit, print, say};
use crate::bundle::{Asked, BuildError, Built, Gaps, Withhold, build};
use crate::cli::{BundleArgs, WithholdArg};
use acb_bundle::SecretKey;
use miette::{IntoDiagnostic, miette};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Makes a bundle. Exit status 1 when the results are refused.
///
/// # Errors
/// When a file can't be read or written.
pub fn command(args: &BundleArgs) -> miette::Result<Exit> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => beside(&args.results)?,
    };
    let key = args.key.as_ref().map(|path| SecretKey::read(path)).transpose().into_diagnostic()?;
    let asked = Asked {
        results: &args.results,
        out: &out,
        key: key.as_ref(),
        gaps: if args.strict { Gaps::Refuse } else { Gaps::Declare },
        withhold: match args.withhold {
            Some(WithholdArg::Prompts) => Withhold::Prompts,
            None => Withhold::Nothing,
        },
    };
    match build(&asked) {
        Ok(built) => {
            print(&text(&built))?;
            Ok(Exit::Done)
        }
        Err(refused @ (BuildError::Faults { .. } | BuildError::Incomplete { .. })) => {
            say(&refused.to_string());
            Ok(Exit::Failed)
        }
        Err(error) => Err(error).into_diagnostic(),
    }
}

/// The default target: beside the results, by their name.
fn beside(results: &Path) -> miette::Result<PathBuf> {
    let whole = results.canonicalize().map_err(|error| miette!("{}: {error}", results.display()))?;
    let mut name = whole.file_name().unwrap_or_default().to_owned();
    name.push("-bundle");
    Ok(match results.file_name() {
        Some(_) => results.with_file_name(name),
        None => whole.with_file_name(name),
    })
}

fn text(built: &Built) -> String {
    let mut out = String::new();
    for (check, words) in &built.seen {
        // Writing to a String can't fail.
        let _ = writeln!(out, "{:<10} {words}", check.name());
    }
    let _ = writeln!(out, "\nbundle: {} ({} files)", built.folder.display(), built.files);
    let _ = writeln!(out, "archive: {}", built.archive.display());
    let _ = writeln!(out, "merkle root: {}", built.root);
    let _ = match &built.signed_by {
        Some(key) => writeln!(out, "signed by: {key}"),
        None => writeln!(out, "not signed: `acb key new`, then --key"),
    };
    let lists = [("missing", &built.gaps), ("withheld", &built.withheld), ("left out", &built.left_out)];
    for (what, items) in lists {
        for item in items.iter().take(MOST) {
            let _ = writeln!(out, "{what}: {item}");
        }
        if items.len() > MOST {
            let _ = writeln!(out, "{what}: {} more", items.len() - MOST);
        }
    }
    out
}

/// Most lines of a list.
const MOST: usize = 10;
