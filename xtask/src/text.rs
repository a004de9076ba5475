//! Words that may not stand in any file: names of registries, paths of one machine, unfinished places.

use crate::fault::Fault;
use crate::tree::TextFile;

/// Host names of package registries: builds name packages, never where they come from.
const HOSTS: [&str; 5] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted.org"),
    concat!("registry.npm", "js.org"),
    concat!("proxy.golang", ".org"),
];
/// Starts of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
/// Marks of an unfinished place in code.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Where prose waits for what a program really printed.
const PLACEHOLDER: &str = concat!("<<REAL ", "OUTPUT>>");
/// Extensions of files that hold code or configuration.
const CODE: [&str; 6] = ["rs", "toml", "sh", "yaml", "yml", "py"];

/// Checks one file.
pub fn check(file: &TextFile) -> Vec<Fault> {
    // The lock file is cargo's: every entry names the registry.
    if file.path == "Cargo.lock" || file.path.ends_with("/Cargo.lock") {
        return Vec::new();
    }
    let code = CODE.iter().any(|extension| file.has_extension(extension)) || file.text.starts_with("#!");
    let mut faults = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut fault = |message: String| faults.push(Fault::at(&file.path, index + 1, message));
        if let Some(host) = HOSTS.iter().find(|host| line.contains(*host)) {
            fault(format!("names the registry host {host}: name the package, the client knows where it is"));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| names_root_path(line, path)) {
            fault(format!("names a path below {path}: use one relative to the repository"));
        }
        if line.contains(PLACEHOLDER) {
            fault("a placeholder for real output is left: run the command and paste what it prints".into());
        }
        if let Some(word) = UNFINISHED.iter().find(|word| code && has_word(line, word)) {
            fault(format!("{word}: do it, or file an issue and remove the mark"));
        }
        if file.has_extension("rs") && is_commented_code(line) {
            fault("code in a comment: remove it, the history keeps it".into());
        }
    }
    faults
}

/// Whether the line holds this path at the start of a path, rather than inside a longer one.
fn names_root_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '/' | '>'))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].chars().next_back().is_some_and(inside)
            && !line[at + word.len()..].chars().next().is_some_and(inside)
    })
}

/// A modest guess: a comment line of its own that ends like a statement and looks like one.
fn is_commented_code(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("//") else { return false };
    if rest.starts_with(['/', '!']) {
        return false;
    }
    let text = rest.trim();
    let opens =
        ["let ", "use ", "pub ", "fn ", "if ", "for ", "while ", "match ", "impl ", "struct ", "enum "];
    let starts = opens.iter().any(|word| text.starts_with(word));
    let called = text.ends_with(");") || text.ends_with("?;");
    called || (starts && text.ends_with([';', '{'])) || text == "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: String, expected: usize) {
        let found = check(&TextFile { path: path.into(), text });
        assert_eq!(found.len(), expected, "{found:?}");
    }

    #[test]
    fn a_registry_host_is_found_everywhere_but_in_the_lock_file() {
        for host in HOSTS {
            check_text("docs/a.md", format!("from https://{host}/x"), 1);
        }
        check_text("Cargo.lock", format!("source = \"{}\"", HOSTS[0]), 0);
        check_text("benches/peers/aisimulate/Cargo.lock", format!("source = \"{}\"", HOSTS[0]), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_found_and_a_longer_path_is_none() {
        for path in MACHINE_PATHS {
            check_text("scripts/a.sh", format!("cd {path}x"), 1);
            check_text("docs/a.md", format!("`{path}x`"), 1);
            check_text("docs/a.md", format!("see docs{path}x and ${{BASE}}{path}x"), 0);
        }
    }

    #[test]
    fn a_placeholder_is_found() {
        check_text("README.md", format!("$ acb plan\n{PLACEHOLDER}\n"), 1);
    }

    #[test]
    fn an_unfinished_mark_is_found_in_code_and_is_a_word_like_any_other_in_prose() {
        for word in UNFINISHED {
            check_text("crates/a/src/a.rs", format!("// {word}: later"), 1);
            check_text("scripts/a", format!("#!/bin/sh\n# {word}"), 1);
            check_text("STYLE.md", format!("No {word}."), 0);
        }
        check_text("crates/a/src/a.rs", "const TODOS: u8 = 0;".into(), 0);
    }

    #[test]
    fn code_in_a_comment_is_found_and_a_sentence_is_not() {
        for line in ["// let a = b(c);", "    // }", "// if a {", "// self.queue.push(request);"] {
            check_text("crates/a/src/a.rs", line.into(), 1);
        }
        for line in [
            "/// let a = b(c);",
            "// Ties go to the lowest id; see `route`.",
            "let a = 1; // why",
            "// (see 2)",
        ] {
            check_text("crates/a/src/a.rs", line.into(), 0);
        }
    }
}
