//! Which crate may use which: the picture in ARCHITECTURE.md as a table.

use crate::fault::Fault;
use cargo_metadata::{Metadata, MetadataCommand};
use std::path::Path;

/// Each crate of the workspace and the workspace crates that it may use, in any kind of dependency.
const ALLOWED: &[(&str, &[&str])] = &[
    ("acb-types", &[]),
    ("acb-stats", &[]),
    ("acb-local", &[]),
    ("acb-tasks", &["acb-types"]),
    ("acb-routing", &["acb-types"]),
    ("acb-workload", &["acb-types", "acb-tasks"]),
    ("acb-sim", &["acb-types", "acb-tasks", "acb-routing", "acb-workload"]),
    ("acb-fake", &["acb-types", "acb-tasks", "acb-routing", "acb-workload", "acb-sim"]),
    // The fake server is there for its tests only.
    ("acb-live", &["acb-types", "acb-tasks", "acb-routing", "acb-workload", "acb-stats", "acb-fake"]),
    ("acb-evidence", &["acb-types", "acb-stats"]),
    ("acb-bundle", &[]),
    (
        "acb",
        &[
            "acb-types",
            "acb-stats",
            "acb-tasks",
            "acb-routing",
            "acb-workload",
            "acb-sim",
            "acb-fake",
            "acb-live",
            "acb-evidence",
            "acb-local",
            "acb-bundle",
        ],
    ),
    ("xtask", &[]),
];
/// Crates that are told time and do no I/O: no asynchronous runtime below them.
const CORE: [&str; 6] = ["acb-types", "acb-stats", "acb-tasks", "acb-routing", "acb-workload", "acb-sim"];

/// One crate of the workspace and what its manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Names of its direct dependencies of every kind.
    pub uses: Vec<String>,
}

/// The crates of the workspace at `root`.
///
/// # Errors
/// When `cargo metadata` fails; the message is cargo's.
pub fn crates(root: &Path) -> Result<Vec<Crate>, String> {
    let metadata: Metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata.packages.iter();
    Ok(packages
        .map(|package| Crate {
            name: package.name.to_string(),
            uses: package.dependencies.iter().map(|dependency| dependency.name.clone()).collect(),
        })
        .collect())
}

/// Checks every edge between crates of the workspace.
pub fn check(crates: &[Crate]) -> Vec<Fault> {
    crates.iter().flat_map(|of| check_one(of, crates)).collect()
}

fn check_one(of: &Crate, crates: &[Crate]) -> Vec<Fault> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == of.name) else {
        let message = format!(
            "crate {} has no row in the layering table: give it one in xtask/src/layering.rs and draw it in ARCHITECTURE.md",
            of.name
        );
        return vec![Fault::of("Cargo.toml", message)];
    };
    let within = of.uses.iter().filter(|used| crates.iter().any(|other| other.name == **used));
    let wrong = within.filter(|used| !allowed.contains(&used.as_str())).map(|used| {
        let choice = if allowed.is_empty() { "no crate of ours".to_owned() } else { allowed.join(", ") };
        format!(
            "{} must not use {used} (it may use {choice}): move the shared type down, or the code that needs both up into acb",
            of.name
        )
    });
    let runtime = of.uses.iter().filter(|used| CORE.contains(&of.name.as_str()) && *used == "tokio");
    let runtime = runtime
        .map(|used| format!("core crate {} must not use {used}: the caller owns time and I/O", of.name));
    wrong.chain(runtime).map(|message| Fault::of(&manifest(&of.name), message)).collect()
}

fn manifest(name: &str) -> String {
    match name {
        "xtask" => "xtask/Cargo.toml".to_owned(),
        _ => format!("crates/{}/Cargo.toml", name.strip_prefix("acb-").unwrap_or(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_edges(edges: &[(&str, &[&str])], expected: &[&str]) {
        let of = |(name, uses): &(&str, &[&str])| Crate {
            name: (*name).to_owned(),
            uses: uses.iter().map(|used| (*used).to_owned()).collect(),
        };
        let crates: Vec<Crate> = edges.iter().map(of).collect();
        let found: Vec<String> = check(&crates).iter().map(Fault::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (fault, words) in found.iter().zip(expected) {
            assert!(fault.contains(words), "{fault} does not say {words}");
        }
    }

    #[test]
    fn edges_that_lead_down_pass() {
        check_edges(
            &[
                ("acb-types", &["serde"]),
                ("acb-sim", &["acb-types", "acb-routing"]),
                ("acb-routing", &["acb-types"]),
            ],
            &[],
        );
    }

    #[test]
    fn the_simulator_and_the_evidence_never_meet() {
        check_edges(
            &[("acb-sim", &["acb-evidence"]), ("acb-evidence", &[])],
            &["acb-sim must not use acb-evidence"],
        );
        check_edges(&[("acb-evidence", &["acb-sim"]), ("acb-sim", &[])], &["crates/evidence/Cargo.toml"]);
    }

    #[test]
    fn the_bottom_crates_use_none_of_ours_and_nobody_uses_xtask() {
        check_edges(
            &[("acb-stats", &["acb-types"]), ("acb-types", &["acb-stats"])],
            &["acb-stats must", "acb-types must"],
        );
        check_edges(&[("acb", &["xtask"]), ("xtask", &[])], &["acb must not use xtask"]);
    }

    #[test]
    fn a_crate_without_a_row_is_a_fault_that_names_the_table() {
        check_edges(&[("acb-new", &[])], &["xtask/src/layering.rs"]);
    }

    #[test]
    fn a_core_crate_has_no_asynchronous_runtime() {
        check_edges(&[("acb-sim", &["tokio"])], &["must not use tokio"]);
    }

    #[test]
    fn every_crate_of_this_workspace_is_seen_with_its_edges() {
        let crates = crates(&crate::root()).expect("cargo metadata runs");
        let sim = crates.iter().find(|of| of.name == "acb-sim").expect("acb-sim is a member");
        assert!(sim.uses.iter().any(|used| used == "acb-types"));
    }
}
