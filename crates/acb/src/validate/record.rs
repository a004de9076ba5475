//! The last recorded run of all cases: what `docs/fidelity.md` is rendered from, so that the page can be checked without
//! the minutes that the cases take. Its digest says when the data that the numbers come from have changed since;
//! a change of the program is not seen by it.

use super::ValidationDocument;

const RECORD: &str = include_str!("../../data/validation.json");

/// The recorded run.
///
/// # Panics
/// When the file that is part of the program is malformed.
#[must_use]
pub fn recorded() -> ValidationDocument {
    serde_json::from_str(RECORD).expect("data/validation.json is what `acb validate --json` printed")
}

/// Profiles that the cases use.
const PROFILES: [&str; 5] = [
    "llama-2-7b-a100-80",
    "llama-3.1-8b-a100-80",
    "llama-3.1-8b-h100",
    "llama-3.1-8b-vllm-0.8.5",
    "qwen2.5-7b-vllm-0.8.5",
];

/// Digest of the profiles' costs that are not zero (a new kind of cost that a profile doesn't have changes nothing) and
/// of the measured runs.
pub(super) fn inputs() -> String {
    let mut hasher = blake3::Hasher::new();
    for name in PROFILES {
        let profile = acb_sim::profile(name).expect("the profile ships");
        let costs = serde_json::to_value(profile).expect("a profile is plain data");
        for (cost, value) in
            costs.as_object().into_iter().flatten().filter(|(_, value)| value.as_f64() != Some(0.0))
        {
            hasher.update(format!("{name} {cost} {value}\n").as_bytes());
        }
    }
    hasher.update(super::runs::CSV.as_bytes());
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::CASES;

    #[test]
    fn the_record_is_of_these_cases_and_of_these_profiles() {
        let recorded = recorded();
        assert_eq!(
            recorded.inputs,
            inputs(),
            "profiles or runs changed: `acb validate --json > crates/acb/data/validation.json`, then `cargo xtask docs`"
        );
        let of = |name: &str, source: &str| (name.to_owned(), source.to_owned());
        let cases: Vec<_> = CASES.iter().map(|case| of(case.name, case.source)).collect();
        let found: Vec<_> = recorded.cases.iter().map(|case| of(&case.name, &case.source)).collect();
        assert_eq!(found, cases);
    }
}
