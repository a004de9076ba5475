//! `acb power`: blocks needed for an effect, or the smallest effect that blocks can show, from a pilot's spread.

use super::plan::table;
use super::report::analyse;
use super::{Exit, print, print_json};
use crate::cli::PowerArgs;
use acb_evidence::Comparisons;
use acb_stats::{minimal_effect, paired_power, pairs_needed};
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;

/// The answer as `--json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerDocument {
    /// Level of the whole family.
    pub alpha: f64,
    /// Tests in the family.
    pub tests: u32,
    /// Level of each test: Holm's first step.
    pub alpha_each: f64,
    /// Probability of showing the effect.
    pub power: f64,
    /// One row per contrast of the pilot, or one for a spread that was given.
    pub rows: Vec<PowerRow>,
    /// Blocks that do for every row; null when the smallest effect was asked for.
    pub blocks_needed: Option<u32>,
}

/// What one contrast needs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerRow {
    /// The contrast, or where the spread comes from.
    pub contrast: String,
    /// Blocks that the spread was taken from; null for one that was given.
    pub pilot_blocks: Option<usize>,
    /// Standard deviation over blocks of the log ratio.
    pub log_ratio_sd: f64,
    /// Blocks.
    pub blocks: u32,
    /// Effect that they show with the power asked for, as a ratio.
    pub effect_ratio: f64,
    /// Power that they have for that effect.
    pub power: f64,
}

/// Runs the command.
///
/// # Errors
/// When the pilot can't be read, gives no spread, or the answer lies beyond what can be computed.
pub fn command(args: &PowerArgs) -> miette::Result<Exit> {
    let spread = spread(args)?;
    let alpha_each = spread.alpha / f64::from(spread.tests);
    if args.power <= alpha_each {
        return Err(miette!(
            "--power {} is not above the level {alpha_each} of a test: ask for more",
            args.power
        ));
    }
    let row = |(contrast, pilot_blocks, sd): &(String, Option<usize>, f64)| {
        let (blocks, effect) = match (args.effect_ratio, args.blocks) {
            (Some(ratio), _) => (needed(ratio.ln() / sd, alpha_each, args.power)?, ratio.ln() / sd),
            (None, Some(blocks)) => {
                (blocks, minimal_effect(f64::from(blocks), alpha_each, args.power).into_diagnostic()?)
            }
            (None, None) => return Err(miette!("give --effect-ratio or --blocks")),
        };
        Ok(PowerRow {
            contrast: contrast.clone(),
            pilot_blocks: *pilot_blocks,
            log_ratio_sd: *sd,
            blocks,
            effect_ratio: (effect * sd).exp(),
            power: paired_power(f64::from(blocks), effect, alpha_each).into_diagnostic()?,
        })
    };
    let rows = spread.rows.iter().map(row).collect::<miette::Result<Vec<_>>>()?;
    let blocks_needed = args.effect_ratio.and_then(|_| rows.iter().map(|row| row.blocks).max());
    let Spread { alpha, tests, .. } = spread;
    let document = PowerDocument { alpha, tests, alpha_each, power: args.power, rows, blocks_needed };
    match args.json {
        true => print_json(&document)?,
        false => print(&render(&document))?,
    }
    Ok(Exit::Done)
}

/// Whole blocks for an effect in standard deviations: what the t test needs, and never fewer than an exact sign test,
/// which the report uses, could use.
fn needed(effect: f64, alpha: f64, power: f64) -> miette::Result<u32> {
    // A large effect needs fewer pairs than a t distribution has sense for.
    let by_t = match paired_power(2.0, effect, alpha).into_diagnostic()? >= power {
        true => 2.0,
        false => pairs_needed(effect, alpha, power).into_diagnostic()?,
    };
    let by_signs = acb_stats::blocks_needed(alpha, 1).into_diagnostic()?;
    Ok((by_t.ceil() as u32).max(by_signs as u32))
}

struct Spread {
    rows: Vec<(String, Option<usize>, f64)>,
    alpha: f64,
    tests: u32,
}

fn spread(args: &PowerArgs) -> miette::Result<Spread> {
    if let Some(sd) = args.log_ratio_sd {
        let rows = vec![("as given".to_owned(), None, sd)];
        return Ok(Spread { rows, alpha: args.alpha.unwrap_or(0.05), tests: args.tests.unwrap_or(1) });
    }
    let Some(pilot) = &args.pilot else {
        return Err(miette!("name a pilot's folder, or give --log-ratio-sd"));
    };
    let analysis = analyse(std::slice::from_ref(pilot))?;
    let [comparisons] = &analysis.comparisons()[..] else {
        let found = analysis.comparisons().len();
        return Err(miette!("{}: holds {found} experiments; name one sweep's folder", pilot.display()));
    };
    let rows = rows(comparisons);
    if rows.is_empty() {
        return Err(miette!(
            "{}: no contrast has a ratio in two blocks or more, so there is no spread; run a larger pilot",
            pilot.display()
        ));
    }
    let tests = u32::try_from(comparisons.family).unwrap_or(u32::MAX).max(1);
    let (alpha, tests) = (args.alpha.unwrap_or(comparisons.alpha), args.tests.unwrap_or(tests));
    Ok(Spread { rows, alpha, tests })
}

/// The primary family's spreads: over all levels where there are several.
fn rows(comparisons: &Comparisons) -> Vec<(String, Option<usize>, f64)> {
    let single = comparisons.levels.iter().filter(|_| comparisons.overall.is_empty());
    let family = comparisons.overall.iter().chain(single.flat_map(|level| &level.primary));
    let row = |contrast: &acb_evidence::Contrast| {
        let sd = contrast.log_ratio_sd.filter(|sd| *sd > 0.0)?;
        Some((format!("{} / {}", contrast.pair.arm, contrast.pair.against), Some(contrast.blocks), sd))
    };
    family.filter_map(row).collect()
}

fn render(document: &PowerDocument) -> String {
    let PowerDocument { alpha, tests, alpha_each, power, rows, blocks_needed } = document;
    let header = ["contrast", "pilot blocks", "sd of log ratio", "blocks", "effect shown (ratio)", "power"];
    let mut table = table(&header);
    for row in rows {
        table.add_row([
            row.contrast.clone(),
            row.pilot_blocks.map_or_else(|| "-".to_owned(), |blocks| blocks.to_string()),
            format!("{:.4}", row.log_ratio_sd),
            row.blocks.to_string(),
            format!("{:.4}", row.effect_ratio),
            format!("{:.3}", row.power),
        ]);
    }
    let last =
        blocks_needed.map(|blocks| format!("blocks needed for all of them: {blocks}\n")).unwrap_or_default();
    format!(
        "two-sided paired t test of log ratios at level {alpha_each:.4} ({alpha} over {tests} tests), power {power}\n{table}\n{last}"
    )
}
