//! The checks as test cases, for build servers and for the signed test result.

use super::evidence::Evidence;
use super::examine::Examined;
use super::finding::Check;
use super::rebuilt::{NotRebuilt, Rebuilt};
use crate::gates::GateStatus;
use acb_bundle::{Case, CaseOutcome};
use acb_evidence::{RunState, Status, read_json};

/// One case per gate, per run and per check of the evidence.
#[must_use]
pub fn cases(evidence: &Evidence, examined: &Examined) -> Vec<Case> {
    let mut cases = Vec::new();
    for (sweep, rebuilt) in &evidence.sweeps {
        cases.extend(gates(sweep, rebuilt));
    }
    cases.extend(evidence.runs().into_iter().map(|run| of_run(evidence, run)));
    let checks = [Check::Chain, Check::Runs, Check::Order, Check::Plan, Check::Summaries, Check::Routing];
    cases.extend(checks.into_iter().map(|check| of_check(examined, check)));
    let gaps = examined.gaps.len();
    let outcome = match examined.gaps.first() {
        None => CaseOutcome::Passed("nothing is missing".to_owned()),
        Some(first) => CaseOutcome::Warned(format!("{gaps} gaps; the first: {first}")),
    };
    cases.push(Case { class: "evidence".to_owned(), name: "complete".to_owned(), outcome });
    cases
}

fn gates(sweep: &str, rebuilt: &Result<Rebuilt, NotRebuilt>) -> Vec<Case> {
    let class = format!("gates.{sweep}");
    let gated = match rebuilt {
        Ok(rebuilt) => rebuilt.gated.as_ref().map_err(String::as_str),
        Err(why) => Err(why.words()),
    };
    let verdicts = match gated {
        Ok((_, verdicts)) => verdicts,
        Err(why) => {
            let outcome = CaseOutcome::Warned(format!("not asked: {why}"));
            return vec![Case { class, name: "all".to_owned(), outcome }];
        }
    };
    let case = |verdict: &crate::gates::Verdict| {
        let finding = verdict.finding.clone();
        let outcome = match verdict.status {
            GateStatus::Pass => CaseOutcome::Passed(finding),
            GateStatus::Note | GateStatus::Allowed => CaseOutcome::Warned(finding),
            GateStatus::Refuse => CaseOutcome::Failed(finding),
        };
        Case { class: class.clone(), name: verdict.gate.to_owned(), outcome }
    };
    verdicts.iter().map(case).collect()
}

fn of_run(evidence: &Evidence, run: &str) -> Case {
    let outcome = match read_json::<Status>(&evidence.results.join(run)) {
        Ok(status) if status.state == RunState::Complete => {
            CaseOutcome::Passed(format!("{} requests", status.recorded_requests))
        }
        Ok(Status { state: RunState::Failed, message, .. }) => {
            CaseOutcome::Failed(message.unwrap_or_else(|| "failed".to_owned()))
        }
        Ok(status) => CaseOutcome::Warned(format!("{:?}", status.state).to_lowercase()),
        Err(_) => CaseOutcome::Warned("has no status that can be read".to_owned()),
    };
    Case { class: "runs".to_owned(), name: run.to_owned(), outcome }
}

fn of_check(examined: &Examined, check: Check) -> Case {
    let faults: Vec<_> = examined.faults.iter().filter(|finding| finding.check == check).collect();
    let seen = examined.seen.iter().find(|(of, _)| *of == check).map(|(_, words)| words.clone());
    let outcome = match faults.first() {
        None => CaseOutcome::Passed(seen.unwrap_or_default()),
        Some(first) => CaseOutcome::Failed(first.to_string()),
    };
    Case { class: "evidence".to_owned(), name: check.name().to_owned(), outcome }
}
