//! Relative links in Markdown lead to files that exist.

use crate::fault::Fault;
use crate::tree::TextFile;
use std::collections::BTreeSet;

/// Checks one Markdown file against the paths of all files.
pub fn check(file: &TextFile, paths: &BTreeSet<String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for target in targets(line) {
            let resolved = resolve(&file.path, target);
            let folder = format!("{resolved}/");
            if !paths.contains(&resolved) && !paths.iter().any(|path| path.starts_with(&folder)) {
                let message = format!("the link to {target} leads nowhere: fix it or add the file");
                faults.push(Fault::at(&file.path, index + 1, message));
            }
        }
    }
    faults
}

/// Relative targets of `[text](target)` in a line, fragments cut off.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0;
        let path = target.split('#').next()?;
        (!path.is_empty() && !target.contains("://") && !target.starts_with("mailto:")).then_some(path)
    })
}

/// The target as a path from the repository's root.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str) -> Vec<Fault> {
        let paths = ["README.md", "docs/records.md", "docs/decisions/0001-a.md"].map(str::to_owned);
        check(&TextFile { path: path.into(), text: text.into() }, &BTreeSet::from(paths))
    }

    #[test]
    fn a_link_to_a_file_or_a_folder_that_exists_is_fine() {
        let text = "[a](../README.md#top) [b](records.md) [c](decisions) [d](https://x.example/y) [e](#here)";
        assert!(check_text("docs/a.md", text).is_empty());
    }

    #[test]
    fn a_link_to_a_missing_file_is_a_fault_with_its_line() {
        let faults = check_text("README.md", "ok\n[a](docs/gone.md)\n");
        assert_eq!(faults.len(), 1);
        assert_eq!((faults[0].line, faults[0].message.contains("docs/gone.md")), (2, true));
    }

    #[test]
    fn code_blocks_hold_no_links() {
        assert!(check_text("README.md", "```\n[a](gone.md)\n```\n").is_empty());
    }
}
