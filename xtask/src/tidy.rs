//! Runs every rule over the repository.

use crate::fault::Fault;
use crate::numbers::Numbers;
use crate::sizes::Long;
use crate::source::Source;
use crate::tree::TextFile;
use crate::{bans, generated, layering, links, numbers, sizes, text, tree};
use std::collections::BTreeSet;
use std::path::Path;

/// What was found.
#[derive(Debug)]
pub struct Report {
    faults: Vec<Fault>,
    files: usize,
    long: Long,
    numbers: (usize, usize),
}

impl Report {
    /// Prints the faults to stdout and a count to stderr; true when there are no faults.
    pub fn print(&self) -> bool {
        for fault in &self.faults {
            println!("{fault}");
        }
        let (held, without) = self.numbers;
        eprintln!(
            "numbers: {held} references hold, {without} paragraphs or tables say why they have no record"
        );
        eprintln!(
            "tidy: {} files, {} faults; {} files over 400 lines, {} functions over 40 lines",
            self.files,
            self.faults.len(),
            self.long.files,
            self.long.functions
        );
        self.faults.is_empty()
    }
}

/// Checks the repository at `root`.
///
/// # Errors
/// When a file can't be read, cargo fails, or `acb` doesn't build.
pub fn check(root: &Path) -> Result<Report, String> {
    let files = tree::text_files(root).map_err(|error| format!("reading the repository: {error}"))?;
    let (mut faults, long) = check_files(&files);
    let Numbers { faults: of_numbers, held, without } = numbers::check(&files);
    faults.extend(of_numbers);
    faults.extend(layering::check(&layering::crates(root)?));
    faults.extend(generated::check(root)?);
    faults.sort();
    Ok(Report { faults, files: files.len(), long, numbers: (held, without) })
}

/// Checks numbers in prose alone.
///
/// # Errors
/// When a file can't be read.
pub fn check_numbers(root: &Path) -> Result<Report, String> {
    let files = tree::text_files(root).map_err(|error| format!("reading the repository: {error}"))?;
    let Numbers { faults, held, without } = numbers::check(&files);
    Ok(Report { faults, files: files.len(), long: Long::default(), numbers: (held, without) })
}

fn check_files(files: &[TextFile]) -> (Vec<Fault>, Long) {
    let paths: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
    let (mut faults, mut long) = (Vec::new(), Long::default());
    for file in files {
        faults.extend(text::check(file));
        if file.has_extension("md") {
            faults.extend(links::check(file, &paths));
        }
    }
    for source in rust_sources(files, &mut faults) {
        faults.extend(sizes::check(&source, &mut long));
        faults.extend(bans::check(&source));
    }
    (faults, long)
}

/// Every Rust file, with those marked as tests that another file declares so.
fn rust_sources(files: &[TextFile], faults: &mut Vec<Fault>) -> Vec<Source> {
    let mut sources = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        match Source::parse(&file.path, &file.text) {
            Ok(source) => sources.push(source),
            Err(error) => faults.push(Fault::of(&file.path, error)),
        }
    }
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    let is_test = |path: &str| {
        let below = |rest: &str| rest == ".rs" || rest.starts_with('/');
        modules.iter().any(|module| path.strip_prefix(module.as_str()).is_some_and(below))
    };
    sources.iter_mut().filter(|source| is_test(&source.path)).for_each(Source::mark_as_test);
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let report = check(&crate::root()).expect("the rules can be checked");
        assert!(report.print(), "the faults are listed above; `cargo xtask tidy` prints them too");
    }

    #[test]
    fn every_kind_of_rule_reaches_the_report() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files = [
            file("crates/sim/src/lib.rs", "mod a;\n#[cfg(test)]\nmod testing;\n"),
            file("crates/sim/src/testing.rs", "fn a() { b.unwrap(); }\n"),
            file("crates/sim/src/a.rs", "fn a() { b.unwrap(); }\n// }\n"),
            file("crates/sim/src/b.rs", "fn a() { \"\n"),
            file("crates/sim/src/c.rs", &"const A: u8 = 0;\n".repeat(601)),
            file("README.md", "[a](gone.md)\n"),
        ];
        let (faults, _) = check_files(&files);
        let found: Vec<(&str, usize)> =
            faults.iter().map(|fault| (fault.path.as_str(), fault.line)).collect();
        let expected = [
            ("crates/sim/src/a.rs", 2),
            ("README.md", 1),
            ("crates/sim/src/b.rs", 0),
            ("crates/sim/src/a.rs", 1),
            ("crates/sim/src/c.rs", 0),
        ];
        assert_eq!(found, expected);
    }
}
