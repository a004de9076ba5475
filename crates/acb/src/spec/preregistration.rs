//! Checks of the `preregistration` section: names that exist while it is being written, and, before a lock, everything
//! that is still blank.

use super::ExperimentSpec;
use super::check::unknown;
use super::resolve::Finding;
use super::rule::AaSpec;
use acb_evidence::{FalsificationRule, PreregistrationSection, PromotionRule, SampleSize};
use acb_stats::minimal_effect;
use serde_json::Value;

/// How far the registered minimal effect may be from the computed one, as a share of it: two decimals' rounding.
const ROUNDING: f64 = 0.006;

/// Names in the rules that mean nothing.
pub(super) fn check(spec: &ExperimentSpec, metrics: &[&str]) -> Vec<Finding> {
    let Some(section) = &spec.preregistration else { return Vec::new() };
    let mut found = Vec::new();
    for (at, rule) in section.promotion.iter().enumerate() {
        if let PromotionRule::NotWorse { metric, .. } = rule {
            found.extend(unknown(&format!("{ROOT}/promotion/{at}/metric"), "metric", metric, metrics));
        }
    }
    for (at, rule) in section.falsification.iter().enumerate() {
        let pointer = |field: &str| format!("{ROOT}/falsification/{at}/{field}");
        match rule {
            FalsificationRule::CountersContradict { metric } => {
                found.extend(unknown(&pointer("metric"), "metric", metric, metrics));
            }
            FalsificationRule::VanishesAt { factor, value } => {
                found.extend(check_factor(spec, (factor, value), &pointer));
            }
            FalsificationRule::OnlySimulated | FalsificationRule::QualityNotMeasured => {}
        }
    }
    found
}

/// A control that this experiment leaves to another is registered all the same, so it need not be among the factors.
fn check_factor(
    spec: &ExperimentSpec,
    (factor, value): (&str, &Value),
    pointer: &impl Fn(&str) -> String,
) -> Option<Finding> {
    if let Some(values) = spec.factors.get(factor) {
        let listed: Vec<String> = values.iter().map(ToString::to_string).collect();
        let message = || format!("{factor} never has the value {value}: it has {}", listed.join(", "));
        return (!values.contains(value)).then(|| (pointer("value"), message()));
    }
    let fault = spec.with_factor(factor, value).err()?.into_iter().next()?;
    Some((pointer("factor"), format!("`{factor}` can't have the value {value}: {}", fault.1)))
}

const ROOT: &str = "/preregistration";

/// What must be filled in before the lock, each with its place and what to write there.
#[must_use]
pub fn blanks(spec: &ExperimentSpec) -> Vec<Finding> {
    let Some(section) = &spec.preregistration else {
        let message = "the experiment has no `preregistration` section: write one (`acb schema`, docs/preregistration.md)";
        return vec![(String::new(), message.to_owned())];
    };
    let mut found = blanks_of_experiment(spec);
    found.extend(blank_texts(section));
    found.extend(blank_rules(section));
    found.extend(match &section.sample_size {
        None => Some(blank(
            "/preregistration/sample_size",
            "say how many blocks and why (`acb power` computes it)",
        )),
        Some(size) => check_size(spec, size),
    });
    found
}

fn blank(pointer: &str, remedy: &str) -> Finding {
    let field = pointer.trim_start_matches('/').replace('/', ".");
    (pointer.to_owned(), format!("`{field}` is blank: {remedy}"))
}

/// Fields that an experiment can do without and a preregistration can't.
fn blanks_of_experiment(spec: &ExperimentSpec) -> Vec<Finding> {
    let mut found = Vec::new();
    if spec.question.trim().is_empty() {
        found.push(blank("/question", "say what is asked"));
    }
    if spec.hypothesis.as_deref().unwrap_or_default().trim().is_empty() {
        found.push(blank("/hypothesis", "say what is expected, and why"));
    }
    if spec.secondary_metrics.is_empty() {
        found.push(blank("/secondary_metrics", "name the metrics that are reported beside the primary one"));
    }
    if spec.decision_rule.contrasts.is_empty() {
        found.push(blank("/decision_rule/contrasts", "name what is compared with what"));
    }
    if spec.decision_rule.min_effect_ratio <= 1.0 {
        let remedy = "it is the margin within which arms count as equal; give a ratio above 1, such as 1.02";
        found.push(blank("/decision_rule/min_effect_ratio", remedy));
    }
    if matches!(spec.aa, AaSpec::Off) {
        found.push(blank("/aa", "an arm is run twice so that noise is seen; write `auto`, or name the arm"));
    }
    found
}

fn blank_texts(section: &PreregistrationSection) -> Vec<Finding> {
    let texts = [
        (&section.existing_data, "existing_data", "say which data were seen before, or \"none\""),
        (&section.exclusions, "exclusions", "say what is left out and by which rule, or \"none\""),
        (&section.stopping_rule, "stopping_rule", "say when the runs end and who may look before"),
        (&section.analyses, "analyses", "say which tests and intervals, and what is exploratory"),
        (&section.deviations, "deviations", "say what is done about departures from this plan"),
    ];
    let missing =
        texts.into_iter().filter(|(text, ..)| text.as_deref().unwrap_or_default().trim().is_empty());
    missing.map(|(_, field, remedy)| blank(&format!("{ROOT}/{field}"), remedy)).collect()
}

fn blank_rules(section: &PreregistrationSection) -> Vec<Finding> {
    let mut found = Vec::new();
    if section.promotion.is_empty() {
        found.push(blank(
            "/preregistration/promotion",
            "say what must hold for the hypothesis to be promoted",
        ));
    }
    if section.falsification.is_empty() {
        found.push(blank("/preregistration/falsification", "say what would refute the hypothesis"));
    }
    found
}

/// The registered sample is the planned one, and shows what it is said to show.
fn check_size(spec: &ExperimentSpec, size: &SampleSize) -> Option<Finding> {
    let planned = spec.seeds.list().len();
    if size.blocks as usize != planned {
        let message =
            format!("{} blocks are registered and {planned} seeds are planned: make them agree", size.blocks);
        return Some(("/preregistration/sample_size/blocks".to_owned(), message));
    }
    let tests = spec.contrasts().len().max(1);
    let computed = minimal_effect_ratio(size, spec.decision_rule.alpha / tests as f64);
    let message = match computed {
        Err(why) => format!("the minimal detectable effect can't be computed: {why}"),
        Ok(computed) if (size.minimal_effect_ratio / computed).ln().abs() <= ROUNDING => return None,
        Ok(computed) => format!(
            "{} blocks with a deviation of {} show a ratio of {computed:.4} with power {} (alpha {} over {tests} tests), \
             not {}: write {computed:.3}",
            size.blocks, size.log_ratio_sd, size.power, spec.decision_rule.alpha, size.minimal_effect_ratio
        ),
    };
    Some(("/preregistration/sample_size/minimal_effect_ratio".to_owned(), message))
}

/// The smallest ratio that a two-sided paired test at level `alpha` shows with the registered power.
fn minimal_effect_ratio(size: &SampleSize, alpha: f64) -> Result<f64, String> {
    let effect =
        minimal_effect(f64::from(size.blocks), alpha, size.power).map_err(|error| error.to_string())?;
    Ok((effect * size.log_ratio_sd).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn section(json: serde_json::Value) -> ExperimentSpec {
        let text = include_str!("../../tests/front_door/small.yaml");
        let (mut spec, _) = ExperimentSpec::from_text("small.yaml", text).unwrap();
        spec.preregistration = Some(serde_json::from_value(json).unwrap());
        spec
    }

    fn pointers(found: &[Finding]) -> Vec<&str> {
        found.iter().map(|(pointer, _)| pointer.as_str()).collect()
    }

    #[test]
    fn every_blank_field_is_named() {
        let found = blanks(&section(json!({"exclusions": "  "})));
        let expected = [
            "/hypothesis",
            "/secondary_metrics",
            "/preregistration/existing_data",
            "/preregistration/exclusions",
            "/preregistration/stopping_rule",
            "/preregistration/analyses",
            "/preregistration/deviations",
            "/preregistration/promotion",
            "/preregistration/falsification",
            "/preregistration/sample_size",
        ];
        assert_eq!(pointers(&found), expected);
    }

    #[test]
    fn a_sample_that_is_not_the_planned_one_or_shows_less_than_it_says_is_refused() {
        let size = |blocks: u32, ratio: f64| {
            json!({"sample_size": {"blocks": blocks, "log_ratio_sd": 0.1, "pilot": "p", "power": 0.8,
                "minimal_effect_ratio": ratio}})
        };
        let of = |blocks, ratio| blanks(&section(size(blocks, ratio))).pop().unwrap();
        assert!(of(7, 1.2).1.contains("7 blocks are registered and 6 seeds are planned"));
        let told = of(6, 1.05).1;
        let computed = told.split("write ").nth(1).unwrap().parse::<f64>().unwrap();
        assert_eq!(
            pointers(&blanks(&section(size(6, computed)))).last(),
            Some(&"/preregistration/falsification")
        );
        // Cohen's effect for six pairs at 0.025 and power 0.8, times the deviation of 0.1.
        assert!((computed.ln() / 0.1 - minimal_effect(6.0, 0.025, 0.8).unwrap()).abs() < 0.01, "{computed}");
    }

    #[test]
    fn a_rule_about_a_metric_or_a_factor_that_is_not_there_is_a_fault() {
        let spec = section(json!({
            "promotion": [{"kind": "not_worse", "metric": "qualty", "margin_ratio": 1.1}],
            "falsification": [
                {"kind": "counters_contradict", "metric": "hits"},
                {"kind": "vanishes_at", "factor": "clutser.replicas", "value": 2},
                {"kind": "vanishes_at", "factor": "cluster.replicas", "value": 2},
            ],
        }));
        let expected = [
            "/preregistration/promotion/0/metric",
            "/preregistration/falsification/0/metric",
            "/preregistration/falsification/1/factor",
        ];
        assert_eq!(pointers(&check(&spec, &["quality"])), expected);
    }
}
