//! Published cases as experiment files that ship with the program: `acb run --preset NAME`.
//!
//! A preset is one file of `experiments/published` and one line here. `acb validate` prints the errors of the same cases
//! by name; a preset is what a reader runs, changes and looks into. Its head says in what it differs from the case.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// An experiment file that ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What `--preset` takes: the name of the experiment and, where there is one, of the case of `acb validate`.
    pub name: &'static str,
    /// What it shows, in a line.
    pub summary: &'static str,
    /// Where the numbers were published.
    pub source: &'static str,
    /// The experiment file.
    pub text: &'static str,
}

macro_rules! preset {
    ($name:literal, $summary:literal, $source:literal) => {
        Preset {
            name: $name,
            summary: $summary,
            source: $source,
            text: include_str!(concat!("../../../experiments/published/", $name, ".yaml")),
        }
    };
}

/// Every preset, in the order of the list.
pub const PRESETS: &[Preset] = &[
    preset!(
        "multi_lora_runs",
        "slots and adapters at one offered load, an hour each: 4 of these 8 points were measured",
        "logs published with arXiv 2508.08343, vLLM 0.8.5"
    ),
    preset!(
        "multi_lora_shape",
        "192 adapters: too few slots make requests wait, too many collapse the throughput",
        "logs published with arXiv 2508.08343, vLLM 0.8.5"
    ),
    preset!(
        "agullo_overhead",
        "throughput under 1 to 64 adapters over that of the base model, 1,500 requests at once",
        "logs published with arXiv 2508.08343"
    ),
    preset!(
        "vllm_pr_11267",
        "what LoRA costs with 1 and with 4 slots, 1,000 requests at once",
        "vLLM PR 11267"
    ),
    preset!("sglang_residency_cliff", "8 slots under 8 adapters and under 16", "SGLang PR 13349"),
    preset!(
        "s_lora_table_3",
        "5 to 2,000 adapters of rank 8 on one card",
        "S-LoRA (arXiv 2311.03285), table 3"
    ),
    preset!(
        "mooncake_cache_ratios",
        "prefix hits over cache size on a recorded trace, which must be downloaded",
        "Mooncake (FAST'25), table 2 and figure 9"
    ),
    preset!(
        "itl_over_adapters",
        "time between tokens under 1 to 300 adapters, 300 slots of rank 8",
        "logs published with arXiv 2508.08343, vLLM 0.8.5"
    ),
    preset!(
        "s_lora_merge_crossover",
        "an adapter in the weights against adapters beside them, 1 to 5 adapters",
        "S-LoRA (arXiv 2311.03285), figure 9"
    ),
    preset!(
        "sglang_draining",
        "3 slots for 6 adapters, resident ones drained after 1 s, 5 s or never",
        "SGLang PR 17913"
    ),
    preset!(
        "adapter_residency",
        "LRU hit rates of adapter slots under Zipf's law",
        "Che, Tung and Wang's approximation"
    ),
    preset!(
        "queues",
        "waiting time of a single server over the spread of its work",
        "Pollaczek and Khinchine"
    ),
];

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// What was published and how this differs from it: the comment at the head of the file, and its source.
    #[must_use]
    pub fn head(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix('#'));
        let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        format!("{}: {}\n{}\n", self.name, self.source, lines.join("\n"))
    }

    /// Reads a name from the command line; an unknown one is refused with the nearest.
    #[must_use]
    pub fn parser() -> impl TypedValueParser<Value = &'static Self> {
        let names = PRESETS.iter().map(|preset| PossibleValue::new(preset.name).help(preset.summary));
        PossibleValuesParser::new(names).map(|name| Self::named(&name).expect("the parser knows the names"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ExperimentSpec;
    use crate::validate::{CASES, halved};

    /// Cases of `acb validate` without a preset, and why.
    const WITHOUT: [(&str, &str); 3] = [
        ("d_lora_fig_9", "skipped there too: its arrivals are a trace that is not part of the program"),
        ("memory_pools", "no request is served: `acb memory` divides a card"),
        ("memory_starts", "no request is served: `acb memory` divides a card"),
    ];

    #[test]
    fn every_case_of_validate_has_a_preset_or_a_reason() {
        for case in CASES {
            let reason = WITHOUT.iter().any(|(name, _)| *name == case.name);
            assert_ne!(Preset::named(case.name).is_some(), reason, "{}", case.name);
        }
    }

    #[test]
    fn what_is_spelled_out_of_a_profile_is_that_profile_without_the_disk() {
        let shipped = |name| {
            let shipped = acb_sim::profile(name).unwrap();
            acb_sim::Profile { load_cpu_ms: 0.0, load_cpu_ms_per_mb: 0.0, ..shipped }
        };
        let check = |preset: &str, expected: acb_sim::Profile| {
            let preset = Preset::named(preset).unwrap();
            let (spec, _) = ExperimentSpec::from_text(preset.name, preset.text).unwrap();
            assert_eq!(spec.cluster.latency_profile(), Some(expected), "{}", preset.name);
        };
        check("s_lora_table_3", shipped("llama-2-7b-a100-80"));
        check("sglang_draining", shipped("llama-3.1-8b-a100-80"));
        check("sglang_residency_cliff", halved(&shipped("llama-3.1-8b-h100")));
        check("itl_over_adapters", shipped("llama-3.1-8b-vllm-0.8.5"));
    }

    #[test]
    fn a_published_case_that_ships_is_not_cut_short() {
        for preset in PRESETS {
            let (spec, _) = ExperimentSpec::from_text(preset.name, preset.text).unwrap();
            let unlimited = acb_sim::ClusterSpec::new(1, 1, "").limits.max_sim_seconds;
            assert!(spec.cluster.limits.max_sim_seconds >= unlimited, "{}", preset.name);
        }
    }

    #[test]
    fn every_preset_says_what_was_published() {
        for preset in PRESETS {
            let head = preset.head();
            assert!(head.lines().count() > 3 && head.contains(preset.source), "{head}");
            assert!(!head.contains("\nname:"), "{head}");
        }
    }

    #[test]
    fn a_preset_is_an_experiment_of_its_name() {
        for preset in PRESETS {
            let (spec, _) = ExperimentSpec::from_text(preset.name, preset.text).unwrap();
            assert_eq!(spec.name, preset.name);
        }
    }
}
