//! Published results of the original harness that ship with the program: the files of `evidence/historical`.

use acb_evidence::{EvidenceError, HistoricalSet};
use std::path::Path;

macro_rules! sets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../evidence/historical/", $name, ".json")))),*]
    };
}

/// Name and text of every set, in the order of the list: the headline and what it is from, then by model.
const SETS: &[(&str, &str)] = sets![
    "readme_headline",
    "overlap_7b_l4_15_june",
    "overlap_7b_l4_16_june",
    "streamed_totals_1_5b",
    "heldout_1_5b_l4",
    "frontier_1_5b_l4",
    "controlled_overlap_1_5b_l4",
    "five_seeds_1_5b_l4",
    "heldout_7b_l4",
    "training_seeds_7b_l4",
    "sources_240_7b",
    "two_families",
    "capacity_7b",
    "adapter_count_memory",
    "benchmark_v0_mock",
];

/// Every set.
///
/// # Errors
/// When a file that ships is no such set, which only our own bug can cause; a test reads them all.
pub fn sets() -> Result<Vec<HistoricalSet>, EvidenceError> {
    let path = |name: &str| format!("evidence/historical/{name}.json");
    SETS.iter().map(|(name, text)| HistoricalSet::parse(Path::new(&path(name)), text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_evidence::Reason;
    use std::collections::BTreeSet;

    fn set(id: &str) -> HistoricalSet {
        sets().unwrap().into_iter().find(|set| set.id == id).unwrap()
    }

    fn cell(set: &HistoricalSet, row: usize, column: &str) -> f64 {
        let at = set.columns.iter().position(|c| c.name == column).unwrap();
        set.rows[row][at].as_f64().unwrap()
    }

    #[test]
    fn every_file_of_the_folder_ships_under_its_own_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../evidence/historical");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let names = files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned());
        let shipped: BTreeSet<String> = sets().unwrap().into_iter().map(|set| set.id).collect();
        assert_eq!(names.collect::<BTreeSet<_>>(), shipped);
        assert!(sets().unwrap().iter().zip(SETS).all(|(set, (name, _))| set.id == *name));
    }

    #[test]
    fn no_historical_result_stands_above_a_systems_check() {
        for set in sets().unwrap() {
            let reasons: Vec<Reason> = set.obstacles().iter().map(|obstacle| obstacle.reason).collect();
            assert_eq!(set.rung(), 0, "{}", set.id);
            assert!(
                reasons.contains(&Reason::NoStatus) && reasons.contains(&Reason::NotBlocked),
                "{}",
                set.id
            );
        }
        let of = |id| set(id).obstacles().into_iter().map(|obstacle| obstacle.reason).collect::<Vec<_>>();
        let headline = of("readme_headline");
        assert!(headline.contains(&Reason::OldMetric) && headline.contains(&Reason::Unanswerable));
        assert!(!headline.contains(&Reason::NoReset), "each of its runs had a reset");
        assert!(of("controlled_overlap_1_5b_l4").contains(&Reason::NoReset));
        assert!(of("benchmark_v0_mock").contains(&Reason::Mock));
    }

    #[test]
    fn the_headline_follows_from_its_table_and_the_day_before_differs_by_more() {
        let (headline, before, after) =
            (set("readme_headline"), set("overlap_7b_l4_15_june"), set("overlap_7b_l4_16_june"));
        let fall = cell(&after, 0, "p95_ttft_ms") - cell(&after, 1, "p95_ttft_ms");
        assert!((fall - cell(&headline, 0, "p95_ttft_reduction_ms")).abs() < 0.05);
        let lift = 100.0 * (cell(&after, 1, "slo_attainment_rate") - cell(&after, 0, "slo_attainment_rate"));
        assert!((lift - cell(&headline, 0, "slo_attainment_lift")).abs() < 0.05);
        // Both figures of quality-adjusted goodput have two digits, so their ratio is known to half a percent at best.
        let ratio = cell(&after, 1, "quality_adjusted_goodput") / cell(&after, 0, "quality_adjusted_goodput");
        assert!((100.0 * (ratio - 1.0) - cell(&headline, 0, "quality_adjusted_goodput_lift")).abs() < 1.5);
        assert!(cell(&before, 0, "p95_ttft_ms") - cell(&after, 0, "p95_ttft_ms") > fall);
    }
}
