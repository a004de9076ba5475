//! The report: what runs say, as Markdown or for a terminal, from run folders alone.
//!
//! Both renderings come from one [`Document`], so they can't tell different stories. Colour is not used at all.

mod claims;
mod design;
mod document;
mod level;
mod number;
mod summary;

use crate::{Claims, Comparisons, Divergence, Loaded};
use document::Document;

/// The report as Markdown.
#[must_use]
pub fn render_markdown(loaded: &Loaded, comparisons: &Comparisons) -> String {
    document(loaded, comparisons).markdown()
}

/// The report for a terminal of this many columns: the answer on a few screens. Everything by level is in Markdown.
#[must_use]
pub fn render_terminal(loaded: &Loaded, comparisons: &Comparisons, columns: u16) -> String {
    let mut document = Document::default();
    let claimed = crate::claims::claims(loaded, comparisons);
    design::head(&mut document, loaded, comparisons);
    claims::registration(&mut document, &claimed);
    summary::overall(&mut document, comparisons);
    summary::gatekept(&mut document, comparisons);
    summary::levels(&mut document, comparisons);
    summary::values(&mut document, comparisons);
    summary::replicates(&mut document, comparisons);
    summary::bounds(&mut document, comparisons);
    claims::claims(&mut document, &claimed);
    for divergence in design::divergences(loaded) {
        design::divergence(&mut document, divergence);
    }
    design::left_out(&mut document, loaded);
    document.terminal(columns)
}

/// How often arms decide differently, for a terminal of this many columns.
#[must_use]
pub fn render_divergence(divergence: &Divergence, columns: u16) -> String {
    let mut document = Document::default();
    design::divergence(&mut document, divergence);
    document.terminal(columns)
}

/// Claims alone, for a terminal of this many columns.
#[must_use]
pub fn render_claims(claimed: &Claims, columns: u16) -> String {
    let mut document = Document::default();
    let sweeps = claimed.sweeps.join(", ");
    document.heading(
        1,
        format!(
            "Claims of {}{}",
            claimed.experiment,
            if sweeps.is_empty() { sweeps } else { format!(" ({sweeps})") }
        ),
    );
    document.text(format!("Evidence {}.", claimed.rung.label));
    claims::registration(&mut document, claimed);
    claims::claims(&mut document, claimed);
    document.terminal(columns)
}

fn document(loaded: &Loaded, comparisons: &Comparisons) -> Document {
    let mut document = Document::default();
    let claimed = crate::claims::claims(loaded, comparisons);
    design::head(&mut document, loaded, comparisons);
    claims::registration(&mut document, &claimed);
    summary::overall(&mut document, comparisons);
    summary::gatekept(&mut document, comparisons);
    claims::claims(&mut document, &claimed);
    for divergence in design::divergences(loaded) {
        design::divergence(&mut document, divergence);
    }
    for level in &comparisons.levels {
        level::level(&mut document, loaded, comparisons, level);
    }
    design::notes(&mut document, loaded, comparisons);
    design::left_out(&mut document, loaded);
    document
}

#[cfg(test)]
mod tests;
