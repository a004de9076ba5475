//! Arguments of `acb claims` and `acb power`.

use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Arguments of `acb claims`.
#[derive(Clone, Debug, Args)]
pub struct ClaimsArgs {
    /// Output folders or sweep folders.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Rung that the claims are wanted on. Exit status 1, with what is missing, when the runs don't reach it.
    #[arg(long, value_name = "L1..L5", value_parser = rung)]
    pub want: Option<u8>,
    /// Print JSON (`acb schema claims`).
    #[arg(long)]
    pub json: bool,
}

/// A rung as `L4` or `4`.
fn rung(text: &str) -> Result<u8, String> {
    let digits = text.strip_prefix(['L', 'l']).unwrap_or(text);
    match digits.parse::<u8>() {
        Ok(level @ 1..=5) => Ok(level),
        _ => Err("give a rung from L1 to L5".to_owned()),
    }
}

/// Arguments of `acb power`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("asked").args(["effect_ratio", "blocks"]).required(true))]
#[command(group = ArgGroup::new("spread").args(["pilot", "log_ratio_sd"]).required(true))]
pub struct PowerArgs {
    /// Output folder or sweep folder of a pilot, whose spread over blocks is taken for each primary contrast.
    #[arg(value_name = "PILOT")]
    pub pilot: Option<PathBuf>,
    /// Standard deviation over blocks of the log ratio, in place of a pilot.
    #[arg(long, value_name = "SD", value_parser = super::positive)]
    pub log_ratio_sd: Option<f64>,
    /// Effect that must not be missed, as a ratio of the better to the worse, such as 1.05: how many blocks?
    #[arg(long, value_name = "RATIO", value_parser = above_one)]
    pub effect_ratio: Option<f64>,
    /// Blocks: which is the smallest effect that they show?
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub blocks: Option<u32>,
    /// Probability of showing the effect when it is there.
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, value_parser = share)]
    pub power: f64,
    /// Level of the whole family of tests; the pilot's plan gives it when absent, else 0.05.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub alpha: Option<f64>,
    /// Tests in the family, which share the level as Holm's first step does; the pilot's plan gives it when absent, else 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tests: Option<u32>,
    /// Print JSON (`acb schema power`).
    #[arg(long)]
    pub json: bool,
}

fn above_one(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 1.0 && value <= 1e6 => Ok(value),
        _ => Err("give a ratio above 1, such as 1.05".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("give a number between 0 and 1".to_owned()),
    }
}
