use super::*;
use crate::compare::tests::toy_runs;
use crate::preregistration::{FalsificationRule, PromotionRule};
use crate::{ComparisonRule, Run, compare};
use acb_types::Source;

fn of(runs: Vec<Run>, rule: &ComparisonRule) -> Claims {
    let comparisons = compare(&runs, rule);
    claims(&Loaded { runs, ..Loaded::default() }, &comparisons)
}

fn with_margin(runs: &[Run], min_effect_ratio: f64) -> ComparisonRule {
    ComparisonRule { min_effect_ratio, ..ComparisonRule::of_runs(runs) }
}

#[test]
fn every_primary_contrast_makes_a_claim_with_its_scope_and_its_runs() {
    let runs = toy_runs(8);
    let rule = with_margin(&runs, 1.05);
    let seen = of(runs, &rule);
    let [other, plain] = &seen.claims[..] else { panic!("{:?}", seen.claims) };
    assert_eq!(
        (plain.verdict, plain.rung, plain.scope.blocks, plain.evidence.len()),
        (FourWay::Superior, 1, 8, 16)
    );
    let start =
        "in this model, smart would be better than plain in quality_adjusted_slo_goodput: ratio 1.204";
    assert!(plain.statement.starts_with(start), "{}", plain.statement);
    assert_eq!(other.verdict, FourWay::Equivalent, "1.004 with an interval of 0.99 to 1.02");
    assert!(
        other.statement.contains("as good as other") && other.statement.contains("1.05"),
        "{}",
        other.statement
    );
}

#[test]
fn without_a_margin_nothing_is_equivalent_and_it_stays_open() {
    let runs = toy_runs(8);
    let rule = with_margin(&runs, 1.0);
    let seen = of(runs, &rule);
    assert_eq!(
        (seen.claims[0].verdict, seen.claims[0].p_equivalence_adjusted),
        (FourWay::Inconclusive, None)
    );
    assert!(seen.claims[0].statement.contains("it is open whether"), "{}", seen.claims[0].statement);
}

#[test]
fn the_verb_follows_the_rung_and_the_ground_says_nothing_of_arms() {
    let statement = |runs: Vec<Run>, gaps: &[&str]| {
        let registration_gaps = gaps.iter().map(|gap| (*gap).to_owned()).collect();
        let rule = ComparisonRule { registration_gaps, ..with_margin(&runs, 1.05) };
        of(runs, &rule).claims.pop().map(|claim| (claim.rung, claim.statement)).unwrap()
    };
    assert!(statement(toy_runs(3), &["x"]).1.starts_with("no claim about smart and plain"));
    assert!(statement(toy_runs(8), &[]).1.starts_with("in this model, smart would be better"));
    let mut measured = toy_runs(8);
    measured
        .iter_mut()
        .for_each(|run| (run.manifest.source, run.manifest.latency_profile) = (Source::Client, None));
    assert!(statement(measured.clone(), &["a lock"]).1.starts_with("in these runs, smart was better"));
    let (rung, said) = statement(measured, &[]);
    assert!(rung == 4 && said.starts_with("on this server, smart is better"), "{rung} {said}");
}

fn judged(rules: (&[PromotionRule], &[FalsificationRule]), runs: Vec<Run>) -> (Vec<Finding>, Vec<Finding>) {
    let comparisons = compare(&runs, &with_margin(&runs, 1.05));
    let loaded = Loaded { runs, ..Loaded::default() };
    let section = PreregistrationSection {
        promotion: rules.0.to_vec(),
        falsification: rules.1.to_vec(),
        ..PreregistrationSection::default()
    };
    let (promotion, falsification) = judge(&section, &loaded, &comparisons);
    let of = |judged: Vec<Judged>| judged.into_iter().map(|judged| judged.finding).collect();
    (of(promotion), of(falsification))
}

#[test]
fn conditions_are_judged_by_their_verdicts_and_intervals() {
    let not_worse =
        |metric: &str, margin_ratio| PromotionRule::NotWorse { metric: metric.into(), margin_ratio };
    let rules = [
        PromotionRule::Superior,
        PromotionRule::SuperiorAtLevels { at_least: 1 },
        // The treatment is 1.2 times plain in quality and takes 0.84 of its time, and equals the other.
        not_worse("mean_quality_on_time", 1.05),
        not_worse("p50_ttft_ms", 1.05),
        // Its goodput is 0.985 of plain's: within 1.05, and beyond 1.005.
        not_worse("ttft_goodput", 1.05),
        not_worse("ttft_goodput", 1.005),
        not_worse("p99_ttft_ms", 1.05),
    ];
    let (seen, _) = judged((&rules, &[]), toy_runs(8));
    use Finding::{Fails, Holds, Open};
    assert_eq!(seen, [Fails, Fails, Holds, Holds, Holds, Fails, Open]);
}

#[test]
fn refutations_stay_open_where_the_runs_can_not_tell() {
    let vanishes =
        |rate: f64| FalsificationRule::VanishesAt { factor: "rate_rps".into(), value: rate.into() };
    let rules = [
        FalsificationRule::OnlySimulated,
        FalsificationRule::QualityNotMeasured,
        vanishes(9.0),
        vanishes(4.0),
        FalsificationRule::CountersContradict { metric: "server_prefix_hit_ratio".into() },
    ];
    use Finding::{Fails, Holds, Open};
    // At the only level it is equivalent to one of the baselines, so there it has vanished.
    assert_eq!(judged((&[], &rules), toy_runs(8)).1, [Open, Open, Open, Holds, Open]);
    let mut measured = toy_runs(8);
    measured.retain(|run| run.manifest.arm != "other");
    for run in &mut measured {
        (run.manifest.source, run.manifest.latency_profile) = (Source::Client, None);
        run.manifest.quality_source = "scored".into();
    }
    assert_eq!(judged((&[], &rules), measured).1, [Fails, Fails, Open, Fails, Open]);
}

#[test]
fn the_outcome_needs_every_condition_and_no_open_refutation() {
    let rule = |finding| Judged { rule: String::new(), finding, because: String::new() };
    let (holds, fails, open) = (rule(Finding::Holds), rule(Finding::Fails), rule(Finding::Open));
    let of = |promotion: &Judged, falsification: &Judged| {
        let all = rules::outcome(std::slice::from_ref(promotion), std::slice::from_ref(falsification));
        all.split(':').next().unwrap()
    };
    assert_eq!(of(&holds, &fails), "promoted");
    assert_eq!(of(&holds, &open), "undecided");
    assert_eq!(of(&open, &fails), "undecided");
    assert_eq!(of(&fails, &open), "not promoted");
    assert_eq!(of(&holds, &holds), "falsified");
}
