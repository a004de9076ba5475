//! All checks of raw evidence: the same for whoever makes a bundle and for whoever is given one.

use super::evidence::Evidence;
use super::finding::{Check, Finding};
use super::layout::RESULTS;
use super::logged::{chain, order, runs};
use super::planned::planned;
use super::replayed::replayed;
use super::suite::cases;
use super::tables::{loaded, summaries, tables};
use crate::spec::rule::RoutingRecords;
use acb_bundle::Case;
use acb_evidence::{LogEntry, RunState, Status, read_json};

/// What raw evidence is found to be.
#[derive(Default)]
pub struct Examined {
    /// What contradicts itself.
    pub faults: Vec<Finding>,
    /// What is missing or unfinished.
    pub gaps: Vec<String>,
    /// What was looked at, in words, by check.
    pub seen: Vec<(Check, String)>,
    /// The log of runs.
    pub log: Vec<LogEntry>,
    /// The tables, by their path in the bundle.
    pub tables: Vec<(String, Vec<u8>)>,
    /// The checks as test cases.
    pub cases: Vec<Case>,
}

/// Looks at everything.
#[must_use]
pub fn examine(evidence: &Evidence) -> Examined {
    let mut examined = Examined::default();
    match chain(evidence) {
        Ok(log) => examined.log = log,
        Err(finding) => {
            examined.faults.push(finding);
            return examined;
        }
    }
    let Examined { faults, gaps, seen, log, .. } = &mut examined;
    runs(evidence, log, faults, gaps);
    order(evidence, log, faults, gaps);
    planned(evidence, faults, gaps);
    let numbers = summaries(evidence, faults);
    let decisions = routing(evidence, faults);
    let folders = evidence.runs().len();
    seen.extend([
        (
            Check::Chain,
            format!("{} lines of the log of runs, each with the hash of the one before", log.len()),
        ),
        (Check::Runs, format!("{folders} run folders, held against the log")),
        (Check::Order, "no run was begun under a lock that was written later".to_owned()),
        (Check::Plan, format!("{} sweeps set up again from their configuration", evidence.sweeps.len())),
        (Check::Summaries, format!("{numbers} numbers computed again from rows")),
        (Check::Routing, decisions),
    ]);
    match loaded(evidence) {
        Err(error) => {
            faults.push(Finding::of(
                Check::Documents,
                RESULTS,
                "documents that can be read",
                error.to_string(),
            ));
        }
        Ok(loaded) => {
            let skipped = loaded.skipped.iter();
            gaps.extend(skipped.map(|skipped| format!("{}: {}", skipped.folder.display(), skipped.why)));
            examined.tables = tables(loaded);
        }
    }
    examined.cases = cases(evidence, &examined);
    examined
}

/// Replays every complete run that has a log of its routing. Returns what was done in words.
fn routing(evidence: &Evidence, faults: &mut Vec<Finding>) -> String {
    let (mut replays, mut decisions, mut unlogged, mut withheld) = (0u64, 0, 0u64, 0u64);
    for rebuilt in evidence.sweeps.values().flatten() {
        for cell in &rebuilt.cells {
            let folder = evidence.results.join(&cell.run_id);
            let logged = folder.join("routing.jsonl").is_file();
            let file = format!("{RESULTS}/{}/routing.jsonl", cell.run_id);
            let complete =
                read_json::<Status>(&folder).is_ok_and(|status| status.state == RunState::Complete);
            let asked = rebuilt.experiment.levels[cell.level].spec.records.routing == RoutingRecords::All;
            match (complete, logged) {
                (false, _) => {}
                (true, false) if asked => {
                    faults.push(Finding::of(
                        Check::Routing,
                        file,
                        "a log, as its configuration says",
                        "none",
                    ));
                }
                (true, false) => unlogged += 1,
                (true, true) if rebuilt.gated.is_err() => withheld += 1,
                (true, true) => match replayed(rebuilt, cell, &folder) {
                    Ok(count) => (replays, decisions) = (replays + 1, decisions + count),
                    Err((place, found)) => {
                        let expected = "the decisions that the policy makes";
                        faults.push(Finding::of(Check::Routing, file, expected, found).at(place));
                    }
                },
            }
        }
    }
    let mut words = format!("{decisions} decisions of {replays} runs made again alike");
    if unlogged > 0 {
        words += &format!("; {unlogged} runs kept no log of their routing");
    }
    if withheld > 0 {
        words += &format!("; {withheld} runs not replayed, since their data is not here");
    }
    words
}
