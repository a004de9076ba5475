//! Quality tables of an experiment: the hidden truth that scores answers, and what routers believe.
//!
//! The two are never the same object. Truth is drawn from a hidden stream (or read from a file); a prior is estimated
//! from a calibration sample of the truth, and a control may shuffle, flatten or invert it.

use acb_types::{AdapterId, AdapterRole, Adapters, QualityTable, Seed, TaskId};

/// Mean quality of a synthetic table by what serves a task, each in 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticMeans {
    /// The base model.
    pub base: f64,
    /// The task's own specialist.
    pub specialist: f64,
    /// The multitask adapter.
    pub multitask: f64,
    /// A specialist of another task.
    pub off_task: f64,
    /// Standard deviation of the draw around each mean.
    pub spread: f64,
}

/// How a router's belief relates to the calibration sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorShape {
    /// As estimated.
    Calibrated,
    /// Each task's values permuted at random over base and adapters.
    Shuffled,
    /// Each task's mean everywhere: quality tells nothing.
    Flat,
    /// Each task's best and worst exchanged, and so on inward.
    Adversarial,
}

/// A hidden table drawn around the means; a placebo adapter has the base model's value. `seed` is the experiment's.
#[must_use]
pub fn synthetic_table(means: SyntheticMeans, tasks: usize, adapters: &Adapters, seed: Seed) -> QualityTable {
    let mut stream = seed.stream("outcome-table");
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(tasks);
    for task in (0..tasks).map(|task| TaskId(task as u32)) {
        let mut draw = |mean: f64| (mean + means.spread * stream.normal()).clamp(0.0, 1.0);
        let base = draw(means.base);
        let column = |adapter: &acb_types::Adapter| match adapter.role {
            AdapterRole::Specialist(own) if own == task => draw(means.specialist),
            AdapterRole::Specialist(_) => draw(means.off_task),
            AdapterRole::Multitask => draw(means.multitask),
            AdapterRole::Placebo => base,
        };
        rows.push(std::iter::once(base).chain(adapters.iter().map(column)).collect());
    }
    from_rows(&rows, adapters.len())
}

/// What a router may believe: means of `samples` graded calibration answers per cell of the truth, from a stream that
/// no run uses, then shaped.
#[must_use]
pub fn prior(truth: &QualityTable, samples: u32, shape: PriorShape, seed: Seed) -> QualityTable {
    let mut stream = seed.stream("calibration");
    let mut rows: Vec<Vec<f64>> = columns(truth)
        .map(|row| {
            let grade = |p: f64| f64::from(stream.binomial(samples, p)) / f64::from(samples);
            row.into_iter().map(grade).collect()
        })
        .collect();
    let mut shuffle = seed.stream("prior-shuffle");
    for row in &mut rows {
        match shape {
            PriorShape::Calibrated => {}
            PriorShape::Shuffled => shuffle.shuffle(row),
            PriorShape::Flat => {
                let mean = row.iter().sum::<f64>() / row.len() as f64;
                row.fill(mean);
            }
            PriorShape::Adversarial => invert(row),
        }
    }
    from_rows(&rows, truth.adapters())
}

/// The fixed prior of the original harness, by task and adapter name (seed-system facts, section 3 of its review):
/// own specialist .92 qa, .94 json, .90 summary, .88 code; multitask .82 .80 .82 .76; everything else .46.
#[must_use]
pub fn seed_fixed_prior(tasks: &[String], adapters: &Adapters) -> QualityTable {
    let value = |task: &str, adapter: Option<&str>| match (task, adapter) {
        ("qa", Some("qa")) => 0.92,
        ("json", Some("json")) => 0.94,
        ("summary", Some("summary")) => 0.90,
        ("code", Some("code")) => 0.88,
        ("qa" | "summary", Some("multitask")) => 0.82,
        ("json", Some("multitask")) => 0.80,
        ("code", Some("multitask")) => 0.76,
        (task, Some(adapter)) if task == adapter => 0.86,
        _ => 0.46,
    };
    let rows: Vec<Vec<f64>> = tasks
        .iter()
        .map(|task| {
            std::iter::once(value(task, None))
                .chain(adapters.iter().map(|adapter| value(task, Some(&adapter.name))))
                .collect()
        })
        .collect();
    from_rows(&rows, adapters.len())
}

fn columns(table: &QualityTable) -> impl Iterator<Item = Vec<f64>> + '_ {
    (0..table.tasks() as u32).map(|task| {
        let adapters =
            (0..table.adapters() as u32).map(|id| table.expected(TaskId(task), Some(AdapterId(id))));
        std::iter::once(table.expected(TaskId(task), None)).chain(adapters).collect()
    })
}

/// Exchanges the largest with the smallest, the second largest with the second smallest, and so on.
fn invert(row: &mut [f64]) {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[a].total_cmp(&row[b]).then(a.cmp(&b)));
    let old = row.to_vec();
    for (rank, &place) in order.iter().enumerate() {
        row[place] = old[order[order.len() - 1 - rank]];
    }
}

fn from_rows(rows: &[Vec<f64>], adapters: usize) -> QualityTable {
    let table = QualityTable::from_fn(rows.len(), adapters, |task, adapter| {
        rows[task.index()][adapter.map_or(0, |id| id.index() + 1)]
    });
    table.expect("draws and means of values in 0..=1 are in 0..=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapters() -> Adapters {
        Adapters::new([
            ("qa".to_owned(), 8, 1, AdapterRole::Specialist(TaskId(0))),
            ("json".to_owned(), 8, 1, AdapterRole::Specialist(TaskId(1))),
            ("multitask".to_owned(), 8, 1, AdapterRole::Multitask),
        ])
        .unwrap()
    }

    fn truth() -> QualityTable {
        let means = SyntheticMeans { base: 0.4, specialist: 0.9, multitask: 0.7, off_task: 0.3, spread: 0.0 };
        synthetic_table(means, 2, &adapters(), Seed(1))
    }

    #[test]
    fn a_specialist_has_its_mean_on_its_own_task_only() {
        let table = truth();
        assert_eq!(table.expected(TaskId(0), Some(AdapterId(0))), 0.9);
        assert_eq!(table.expected(TaskId(1), Some(AdapterId(0))), 0.3);
        assert_eq!(table.expected(TaskId(1), Some(AdapterId(2))), 0.7);
        assert_eq!(table.expected(TaskId(0), None), 0.4);
    }

    #[test]
    fn a_calibrated_prior_is_near_the_truth_but_not_the_truth() {
        let (truth, believed) = (truth(), prior(&truth(), 200, PriorShape::Calibrated, Seed(1)));
        assert_ne!(truth, believed);
        for (a, b) in columns(&truth).flatten().zip(columns(&believed).flatten()) {
            assert!((a - b).abs() < 0.15, "{a} {b}");
        }
    }

    #[test]
    fn controls_permute_flatten_or_invert_the_same_estimates() {
        let calibrated: Vec<Vec<f64>> =
            columns(&prior(&truth(), 500, PriorShape::Calibrated, Seed(2))).collect();
        let of = |shape| columns(&prior(&truth(), 500, shape, Seed(2))).collect::<Vec<_>>();
        let sorted = |row: &Vec<f64>| {
            let mut row = row.clone();
            row.sort_by(f64::total_cmp);
            row
        };
        for (row, shuffled) in calibrated.iter().zip(of(PriorShape::Shuffled)) {
            assert_eq!(sorted(row), sorted(&shuffled));
        }
        assert!(of(PriorShape::Flat).iter().all(|row| row.iter().all(|v| v == &row[0])));
        let adversarial = of(PriorShape::Adversarial);
        assert_eq!(
            adversarial[0][1],
            calibrated[0].iter().copied().fold(1.0, f64::min),
            "the best looks worst"
        );
    }
}
