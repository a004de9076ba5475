use super::*;
use crate::testing::run;
use acb_types::Source;

/// Treatment, two baselines, an A/A replicate and a bound over `blocks`; the treatment is 1.2 times `plain` with a
/// little noise.
pub(crate) fn toy_runs(blocks: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    for block in 0..blocks {
        let base = 10.0 + block as f64;
        let wobble = 1.0 + 0.001 * block as f64;
        let wiggle = if block % 2 == 0 { 1.01 } else { 0.99 };
        for (arm, role, value) in [
            ("smart", ArmRole::Treatment, 1.2 * base * wobble),
            ("plain", ArmRole::Baseline, base),
            ("other", ArmRole::Baseline, 1.2 * base * wiggle),
            ("plain_again", ArmRole::AaReplicate { of: "plain".into() }, base * wiggle),
            ("oracle", ArmRole::Bound, 2.0 * base),
        ] {
            runs.push(run(arm, role, block, value));
        }
    }
    runs
}

fn of(runs: &[Run]) -> Comparisons {
    compare(runs, &ComparisonRule::of_runs(runs))
}

#[test]
fn the_treatment_is_compared_with_each_baseline_and_adjusted_over_all() {
    let seen = of(&toy_runs(8));
    assert_eq!((seen.family, seen.levels.len(), seen.blocks_needed), (2, 1, 7));
    let [other, plain] = &seen.levels[0].primary[..] else { panic!("{:?}", seen.levels[0].primary) };
    let Effect::Ratio(range) = plain.effect else { panic!("{:?}", plain.effect) };
    // Log ratios ln(1.2) + ln(1 + 0.001 b), b from 0 to 7: symmetric up to 1e-5 about b = 3.5.
    assert!((range.estimate - 1.2042).abs() < 1e-4, "{range:?}");
    assert!(range.low > 1.2 && range.high < 1.2085 && range.level >= 0.95);
    assert_eq!(
        (plain.p, plain.p_adjusted, plain.verdict),
        (Some(2.0 / 256.0), Some(4.0 / 256.0), Some(Verdict::Better))
    );
    assert_eq!(other.verdict, Some(Verdict::Unclear));
}

#[test]
fn a_replicate_is_expected_to_contain_one_and_a_bound_is_no_competitor() {
    let seen = of(&toy_runs(8)).levels.remove(0);
    assert_eq!(seen.replicates[0].excludes_no_difference(), Some(false));
    assert!(seen.primary.iter().all(|c| c.pair.against != "oracle" && c.pair.against != "plain_again"));
    let Effect::Ratio(share) = seen.bounds[0].effect else { panic!("{:?}", seen.bounds[0].effect) };
    assert!((share.estimate - 0.6021).abs() < 1e-4 && seen.bounds[0].better_in.is_empty());
}

#[test]
fn a_bound_that_is_beaten_is_named_with_its_block() {
    let mut runs = toy_runs(8);
    let beaten = runs.iter_mut().find(|r| r.manifest.arm == "smart" && r.manifest.block == 3).unwrap();
    *beaten = run("smart", ArmRole::Treatment, 3, 999.0);
    assert_eq!(of(&runs).levels[0].bounds.last().unwrap().better_in, Vec::<u64>::new());
    let smart = of(&runs).levels.remove(0).bounds.remove(0);
    assert_eq!((smart.pair.arm.as_str(), smart.better_in), ("smart", vec![3]));
}

#[test]
fn five_blocks_are_not_estimable_and_carry_no_claim() {
    let seen = of(&toy_runs(5));
    let contrast = &seen.levels[0].primary[0];
    assert_eq!(contrast.effect, Effect::NotEstimable { why: "5 blocks, at least 6 are needed".into() });
    assert_eq!((contrast.p, contrast.verdict), (None, Some(Verdict::NotEstimable)));
    assert_eq!((seen.rung.level, seen.rung.verb), (0, None));
    assert!(seen.rung.missing[0].starts_with("1 more block (6 complete blocks"), "{:?}", seen.rung);
}

#[test]
fn a_zero_makes_it_a_difference_and_says_why() {
    let mut runs = toy_runs(8);
    let zero = runs.iter_mut().find(|r| r.manifest.arm == "plain" && r.manifest.block == 2).unwrap();
    *zero = run("plain", ArmRole::Baseline, 2, 0.0);
    let contrast = of(&runs).levels.remove(0).primary.remove(1);
    let Effect::Difference { range, why } = contrast.effect else { panic!("{:?}", contrast.effect) };
    assert_eq!(why, "no ratio: \"plain\" is 0 in block 2");
    assert!(range.estimate > 2.0 && contrast.p == Some(2.0 / 256.0));
}

#[test]
fn an_absent_value_is_named_and_its_block_is_not_dropped() {
    let mut runs = toy_runs(8);
    let absent = runs.iter_mut().find(|r| r.manifest.arm == "plain" && r.manifest.block == 2).unwrap();
    let metric = absent.summary.metrics.get_mut("quality_adjusted_slo_goodput").unwrap();
    (metric.value, metric.reason) = (None, Some("the quality of 3 answers was not measured".into()));
    let contrast = of(&runs).levels.remove(0).primary.remove(1);
    let why = "\"plain\", block 2: the quality of 3 answers was not measured".to_owned();
    assert_eq!(contrast.effect, Effect::NotEstimable { why });
}

#[test]
fn missing_and_doubled_runs_are_named() {
    let mut runs = toy_runs(8);
    runs.retain(|r| !(r.manifest.arm == "plain" && r.manifest.block == 7));
    let twin = runs.iter().find(|r| r.manifest.arm == "smart" && r.manifest.block == 1).unwrap().clone();
    runs.push(Run { folder: "again".into(), ..twin });
    let level = of(&runs).levels.remove(0);
    let named: Vec<_> = level.missing.iter().map(|m| (m.arm.as_str(), m.block)).collect();
    assert_eq!(named, [("plain", 7), ("smart", 1)]);
    assert!(level.missing[1].why.contains("recorded 2 times"), "{:?}", level.missing);
    assert_eq!(level.primary[1].blocks, 6);
}

#[test]
fn planned_runs_that_nobody_started_are_missing_too() {
    let runs = toy_runs(6);
    let mut rule = ComparisonRule::of_runs(&runs);
    rule.planned =
        crate::testing::sweep_plan(&[crate::testing::manifest("smart", ArmRole::Treatment, 77)]).runs;
    let level = compare(&runs, &rule).levels.remove(0);
    assert!(level.missing.iter().any(|m| m.arm == "smart" && m.block == 77));
}

#[test]
fn simulated_and_measured_runs_never_meet() {
    let mut runs = toy_runs(8);
    let mut measured = toy_runs(8);
    measured
        .iter_mut()
        .for_each(|r| (r.manifest.source, r.manifest.latency_profile) = (Source::Client, None));
    runs.extend(measured);
    let seen = of(&runs);
    let sources: Vec<_> = seen.levels.iter().map(|level| level.source).collect();
    assert_eq!(sources, [Source::Simulated, Source::Client]);
    assert!(seen.rung.level == 0 && seen.rung.missing[0].contains("mixed"), "{:?}", seen.rung);
}

#[test]
fn the_rung_follows_from_what_the_runs_are() {
    let mut runs = toy_runs(8);
    let first = of(&runs).rung;
    assert_eq!(
        (first.level, first.label.as_str(), first.verb),
        (1, "L1: simulated, uncalibrated", Some("would be"))
    );
    runs.iter_mut().for_each(|r| r.manifest.latency_profile.as_mut().unwrap().calibrated = true);
    assert_eq!(of(&runs).rung.label, "L2: simulated, calibrated");
    runs.iter_mut().for_each(|r| r.manifest.source = Source::Client);
    assert_eq!((of(&runs).rung.level, of(&runs).rung.verb), (3, Some("was")));
    runs.retain(|r| r.manifest.arm != "plain_again");
    assert_eq!(of(&runs).rung.missing, ["an A/A arm at every level"]);
}

#[test]
fn levels_ascend_as_numbers_and_the_family_spans_them() {
    let mut runs = Vec::new();
    for rate in [10.0, 9.0, 100.0] {
        let mut at_rate = toy_runs(6);
        at_rate.iter_mut().for_each(|r| r.manifest.levels = [("rate_rps".into(), rate.into())].into());
        runs.extend(at_rate);
    }
    let seen = of(&runs);
    let rates: Vec<_> = seen.levels.iter().map(|level| level.levels["rate_rps"].as_f64().unwrap()).collect();
    assert_eq!(rates, [9.0, 10.0, 100.0]);
    let by_level: usize = seen.levels.iter().map(|level| level.primary.len()).sum();
    assert_eq!((seen.family, seen.overall.len(), by_level), (2, 2, 6));
}

#[test]
fn over_levels_the_effect_is_the_mean_of_log_ratios_block_by_block() {
    let mut runs = Vec::new();
    for (rate, factor) in [(1.0, 2.0), (2.0, 8.0)] {
        let mut at_rate = toy_runs(6);
        for run in &mut at_rate {
            run.manifest.levels = [("rate_rps".into(), rate.into())].into();
            let value = if run.manifest.arm == "smart" { factor } else { 1.0 };
            let metric = run.summary.metrics.get_mut("quality_adjusted_slo_goodput").unwrap();
            metric.value = Some(value);
        }
        runs.extend(at_rate);
    }
    let seen = of(&runs);
    let Effect::Ratio(range) = &seen.overall[0].effect else { panic!("{:?}", seen.overall[0]) };
    assert!((range.estimate - 4.0).abs() < 1e-9, "the geometric mean of 2 and 8, not {}", range.estimate);
    assert_eq!((seen.overall[0].blocks, seen.overall[0].p), (6, Some(2.0 / 64.0)));
}

#[test]
fn over_levels_a_zero_or_a_missing_level_gives_no_number() {
    let mut runs = toy_runs(6);
    let mut other = toy_runs(6);
    other.iter_mut().for_each(|r| r.manifest.levels = [("rate_rps".into(), 2.0.into())].into());
    other[0].summary.metrics.get_mut("quality_adjusted_slo_goodput").unwrap().value = Some(0.0);
    runs.extend(other);
    let seen = of(&runs);
    assert!(seen.overall.iter().any(|c| matches!(&c.effect, Effect::NotEstimable { .. })));
}

#[test]
fn nothing_compares_to_nothing() {
    let seen = of(&[]);
    assert_eq!((seen.levels.len(), seen.family, seen.rung.level), (0, 0, 0));
}

#[test]
fn an_unknown_metric_is_not_estimable() {
    let runs = toy_runs(6);
    let seen = compare(&runs, &ComparisonRule::on("speed"));
    let Effect::NotEstimable { why } = &seen.levels[0].primary[0].effect else { panic!() };
    assert!(why.contains("the summary does not hold it"), "{why}");
}

#[test]
fn the_schema_names_every_field_of_the_json() {
    let schema = serde_json::to_string(&schemars::schema_for!(Comparisons)).unwrap();
    let json = serde_json::to_value(of(&toy_runs(8))).unwrap();
    let level = &json["levels"][0];
    for object in [&json, level, &level["primary"][0], &level["primary"][0]["effect"]] {
        for field in object.as_object().unwrap().keys() {
            assert!(schema.contains(&format!("\"{field}\"")), "{field} is not in {schema}");
        }
    }
}

#[test]
fn a_difference_smaller_than_what_matters_is_equality_where_that_is_shown() {
    let verdict = |min_effect_ratio| {
        let rule = ComparisonRule { min_effect_ratio, ..ComparisonRule::on("quality_adjusted_slo_goodput") };
        let mut seen = compare(&toy_runs(8), &rule);
        seen.levels.remove(0).primary.into_iter().find(|c| c.pair.against == "plain").unwrap().verdict
    };
    // The ratio is 1.2042, with an interval from 1.201 to 1.207.
    assert_eq!(verdict(1.2), Some(Verdict::Better));
    assert_eq!(verdict(1.205), Some(Verdict::TooSmall), "it may be as large as 1.207");
    assert_eq!(verdict(1.5), Some(Verdict::Equivalent));
}

/// Runs measured on a server that proved its reset, planned in another order in every block, under a lock.
fn confirming_runs() -> (Vec<Run>, ComparisonRule) {
    let mut runs = toy_runs(8);
    for run in &mut runs {
        (run.manifest.source, run.manifest.latency_profile) = (Source::Client, None);
        let reset = Some(crate::ResetFacts { before: 96, after: 0 });
        let server = crate::ServerFacts {
            url: "http://server".into(),
            runtime: "vllm".into(),
            version: None,
            simulated: false,
            flags: std::collections::BTreeMap::new(),
            canary_adapters: vec![],
            reset,
        };
        run.manifest.live = Some(crate::LiveFacts { servers: vec![server], ..crate::LiveFacts::default() });
    }
    let manifests: Vec<_> = runs.iter().map(|run| run.manifest.clone()).collect();
    let mut planned = crate::testing::sweep_plan(&manifests).runs;
    planned.swap(0, 1);
    let rule = ComparisonRule { planned, registration_gaps: vec![], ..ComparisonRule::of_runs(&runs) };
    (runs, rule)
}

#[test]
fn preregistered_runs_confirm_and_each_thing_that_lacks_is_named() {
    let (runs, rule) = confirming_runs();
    let rung = compare(&runs, &rule).rung;
    assert_eq!((rung.level, rung.verb, rung.label.as_str()), (4, Some("is"), "L4: measured, preregistered"));
    assert!(rung.missing_for(4).is_empty() && rung.missing_for(5)[0].contains("second host"));
    let missing = |runs: &[Run], rule: &ComparisonRule| {
        let rung = compare(runs, rule).rung;
        assert!(rung.level < 4, "{rung:?}");
        rung.missing_for(4).join("; ")
    };
    let mut unproved = runs.clone();
    unproved[3].manifest.live.as_mut().unwrap().servers[0].reset = None;
    assert_eq!(missing(&unproved, &rule), "a prefix reset that is verified (1 of 40 runs are not)");
    unproved[3].manifest.live.as_mut().unwrap().own_prompts = true;
    assert_eq!(compare(&unproved, &rule).rung.level, 4);
    let unlocked = ComparisonRule { registration_gaps: vec!["a lock".into()], ..rule.clone() };
    assert_eq!(missing(&runs, &unlocked), "a lock");
    let mut in_order = rule.clone();
    in_order.planned.swap(0, 1);
    assert_eq!(missing(&runs, &in_order), "arms in shuffled order within blocks");
    assert_eq!(missing(&runs[5..], &rule), "every planned run (5 are missing)");
}

#[test]
fn an_a_a_arm_that_differs_or_is_absent_and_too_few_blocks_carry_no_confirmation() {
    let (mut runs, rule) = confirming_runs();
    for run in runs.iter_mut().filter(|run| run.manifest.arm == "plain_again") {
        let metric = run.summary.metrics.get_mut("quality_adjusted_slo_goodput").unwrap();
        metric.value = metric.value.map(|value| 2.0 * value);
    }
    let seen = compare(&runs, &rule).rung;
    assert_eq!(
        (seen.level, seen.missing_for(4)),
        (3, &["an A/A arm that passes (plain_again differs from plain)".to_owned()][..])
    );
    let small = toy_runs(2);
    let seen = of(&small).rung;
    let missing = seen.missing_for(2);
    assert!(
        missing[0].starts_with("4 more blocks") && missing[1].starts_with("a latency profile calibrated"),
        "{missing:?}"
    );
}

#[test]
fn secondary_metrics_are_tested_behind_the_primary_one_and_only_when_it_is_won() {
    let gatekept = |runs: Vec<Run>| {
        let named = vec!["mean_quality_on_time".to_owned(), "p50_ttft_ms".to_owned()];
        let multiplicity = crate::Multiplicity::Gatekeeping;
        let rule = ComparisonRule { named, multiplicity, ..ComparisonRule::of_runs(&runs) };
        compare(&runs, &rule).gatekept
    };
    let mut won = toy_runs(8);
    won.retain(|run| run.manifest.arm != "other");
    let seen = gatekept(won);
    let told: Vec<_> = seen.iter().map(|c| (c.metric.as_str(), c.verdict, c.p_adjusted)).collect();
    let least = Some(2.0 / 256.0);
    assert_eq!(
        told,
        [
            ("mean_quality_on_time", Some(Verdict::Better), least),
            ("p50_ttft_ms", Some(Verdict::Better), least)
        ]
    );
    // Against the other baseline nothing is shown, so no gate opens.
    let lost = gatekept(toy_runs(8));
    assert!(
        lost.iter().all(|c| c.verdict == Some(Verdict::Unclear) && c.p_adjusted >= Some(0.39)),
        "{lost:?}"
    );
    assert_eq!(of(&toy_runs(8)).gatekept, []);
}

#[test]
fn an_arm_above_its_bound_carries_no_claim() {
    let mut runs = toy_runs(8);
    for run in runs.iter_mut().filter(|run| run.manifest.arm == "smart") {
        let metric = run.summary.metrics.get_mut("quality_adjusted_slo_goodput").unwrap();
        metric.value = metric.value.map(|value| 2.0 * value);
    }
    let rung = of(&runs).rung;
    assert_eq!(
        (rung.level, rung.missing),
        (0, vec!["a bound that bounds every arm (smart is above oracle)".into()])
    );
}
