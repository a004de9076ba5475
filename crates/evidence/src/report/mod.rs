//! The report: what runs say, as Markdown or for a terminal, from run folders alone.
//!
//! Both renderings come from one [`Document`], so they can't tell different stories. Colour is not used at all.

mod design;
mod document;
mod level;
mod number;

use crate::{Comparisons, Loaded};
use document::Document;

/// The report as Markdown.
#[must_use]
pub fn render_markdown(loaded: &Loaded, comparisons: &Comparisons) -> String {
    document(loaded, comparisons).markdown()
}

/// The report for a terminal of this many columns.
#[must_use]
pub fn render_terminal(loaded: &Loaded, comparisons: &Comparisons, columns: u16) -> String {
    document(loaded, comparisons).terminal(columns)
}

fn document(loaded: &Loaded, comparisons: &Comparisons) -> Document {
    let mut document = Document::default();
    design::head(&mut document, loaded, comparisons);
    design::divergence(&mut document, loaded);
    for level in &comparisons.levels {
        level::level(&mut document, loaded, comparisons, level);
    }
    design::notes(&mut document, loaded, comparisons);
    document
}

#[cfg(test)]
mod tests;
