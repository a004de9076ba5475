//! Reference pages that the binary prints about itself. They are committed so that they can be read without a
//! build, and compared so that they can't go stale.

use crate::fault::Fault;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A committed page and what prints it.
struct Page {
    path: &'static str,
    printed_by: PrintedBy,
}

/// What prints a page.
enum PrintedBy {
    /// The output of `acb` with these arguments.
    Output(&'static [&'static str]),
    /// The help of these commands, one section each.
    Help(&'static [&'static [&'static str]]),
}

/// Every generated page: a new one is one line here.
const PAGES: &[Page] = &[
    Page { path: "docs/metrics.md", printed_by: PrintedBy::Output(&["list", "metrics", "--markdown"]) },
    Page { path: "docs/presets.md", printed_by: PrintedBy::Output(&["list", "presets", "--markdown"]) },
    Page { path: "docs/schema/experiment.schema.json", printed_by: PrintedBy::Output(&["schema"]) },
    Page {
        path: "docs/fidelity.md",
        printed_by: PrintedBy::Output(&["validate", "--recorded", "--markdown"]),
    },
    Page { path: "docs/cli.md", printed_by: PrintedBy::Help(COMMANDS) },
];

/// Every command, in the order of the page.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["plan"],
    &["run"],
    &["report"],
    &["claims"],
    &["power"],
    &["prereg", "lock"],
    &["prereg", "show"],
    &["prereg", "check"],
    &["doctor"],
    &["schema"],
    &["list"],
    &["trace", "info"],
    &["memory"],
    &["validate"],
    &["bench"],
    &["selftest"],
    &["calibrate"],
    &["import", "legacy"],
    &["evidence", "review"],
    &["completions"],
];

/// Whether a path is that of a generated page.
pub fn is_page(path: &str) -> bool {
    PAGES.iter().any(|page| page.path == path)
}

/// Writes every page.
///
/// # Errors
/// When `acb` doesn't build, a command fails, or a file can't be written; the message names it.
pub fn write(root: &Path) -> Result<(), String> {
    for (page, printed) in print_all(root, PAGES)? {
        let path = root.join(page.path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        std::fs::write(&path, printed).map_err(|error| format!("{}: {error}", page.path))?;
        eprintln!("wrote {}", page.path);
    }
    Ok(())
}

/// Compares every page with what the binary prints now.
///
/// # Errors
/// When `acb` doesn't build or a command fails.
pub fn check(root: &Path) -> Result<Vec<Fault>, String> {
    let printed = print_all(root, PAGES)?;
    Ok(printed
        .into_iter()
        .filter_map(|(page, printed)| compare(page.path, committed(root, page.path).as_deref(), &printed))
        .collect())
}

fn committed(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(root.join(path)).ok()
}

fn compare(path: &str, committed: Option<&str>, printed: &str) -> Option<Fault> {
    let Some(committed) = committed else {
        return Some(Fault::of(path, "generated page is missing: run `cargo xtask docs`"));
    };
    let line = first_difference(committed, printed)?;
    Some(Fault::at(path, line, "differs from what acb prints: run `cargo xtask docs` and commit the page"))
}

/// The first line, from 1, in which two texts differ.
fn first_difference(a: &str, b: &str) -> Option<usize> {
    let same = a.lines().zip(b.lines()).take_while(|(a, b)| a == b).count();
    (a != b).then_some(same + 1)
}

fn print_all<'a>(root: &Path, pages: &'a [Page]) -> Result<Vec<(&'a Page, String)>, String> {
    if pages.is_empty() {
        return Ok(Vec::new());
    }
    let binary = build(root)?;
    pages.iter().map(|page| print(root, &binary, page).map(|printed| (page, printed))).collect()
}

/// Builds `acb` with the workspace's features, as the tests do, so that nothing is compiled twice.
fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--workspace", "--bin", "acb"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo build: {error}"))?;
    if !status.success() {
        return Err("acb does not build, so the generated pages can't be checked".into());
    }
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(metadata.target_directory.join("debug").join("acb").into_std_path_buf())
}

fn print(root: &Path, binary: &Path, page: &Page) -> Result<String, String> {
    match &page.printed_by {
        PrintedBy::Output(arguments) => output(root, binary, arguments),
        PrintedBy::Help(commands) => {
            let mut text =
                String::from("# Commands\n\nThe help of every command, as `acb COMMAND --help` prints it.\n");
            for command in *commands {
                let name = ["acb"].iter().chain(*command).copied().collect::<Vec<_>>().join(" ");
                let help =
                    output(root, binary, &command.iter().copied().chain(["--help"]).collect::<Vec<_>>())?;
                text += &format!("\n## {name}\n\n```text\n{}\n```\n", help.trim_end());
            }
            Ok(text)
        }
    }
}

/// What `acb` prints, at a width of its own, so that help text is the same in every terminal.
fn output(root: &Path, binary: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(binary)
        .args(arguments)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .current_dir(root)
        .output()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let command = format!("acb {}", arguments.join(" "));
    if !output.status.success() {
        return Err(format!("`{command}` failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{command}` printed something that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_equals_what_is_printed_is_current() {
        assert_eq!(compare("docs/a.md", Some("a\nb\n"), "a\nb\n"), None);
    }

    #[test]
    fn a_stale_page_is_a_fault_at_the_first_line_that_differs() {
        let fault = compare("docs/a.md", Some("a\nb\n"), "a\nc\n").expect("it differs");
        assert_eq!((fault.line, fault.message.contains("cargo xtask docs")), (2, true));
        assert_eq!(compare("docs/a.md", Some("a\n"), "a\nb\n").map(|fault| fault.line), Some(2));
    }

    #[test]
    fn a_missing_page_is_a_fault() {
        assert!(compare("docs/a.md", None, "a\n").is_some_and(|fault| fault.message.contains("missing")));
    }

    #[test]
    fn a_command_that_fails_is_an_error_that_names_it() {
        let page = Page { path: "docs/a.md", printed_by: PrintedBy::Output(&["--no-such-option"]) };
        let error = print(&crate::root(), Path::new("cargo"), &page).expect_err("cargo refuses it");
        assert!(error.contains("acb --no-such-option"), "{error}");
    }
}
