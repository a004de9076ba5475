//! Arguments of `acb key`, `acb bundle` and `acb verify`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make an Ed25519 key pair: the private key, which only its owner can read, and the public key beside it.
    New(KeyNewArgs),
}

/// Arguments of `acb key new`.
#[derive(Clone, Debug, Args)]
pub struct KeyNewArgs {
    /// File of the private key (PKCS#8, PEM); the public key gets the same name with `.pub`. Existing files are not
    /// overwritten.
    #[arg(long, value_name = "FILE", default_value = "acb.key")]
    pub out: PathBuf,
}

/// Arguments of `acb bundle`.
#[derive(Clone, Debug, Args)]
pub struct BundleArgs {
    /// The output folder of `acb run`.
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// Sign with this private key (`acb key new`).
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder to make, with `.tar.zst` beside it; `RESULTS-bundle` when absent. Existing ones are not overwritten.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Refuse what is incomplete: unfinished or missing runs, no preregistration, overruled gates, missing data.
    #[arg(long)]
    pub strict: bool,
    /// Leave files out whose hashes stay in the tree.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub withhold: Option<WithholdArg>,
}

/// What can be withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WithholdArg {
    /// Traces and datasets that requests were made from.
    Prompts,
}

/// Arguments of `acb verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// The bundle: a folder, or its `.tar.zst`.
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// The public key that it must be signed with. Without it a signature shows only that nothing changed since.
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
    /// Most that may be unpacked, GiB (2^30 bytes).
    #[arg(long, value_name = "GIB", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub max_unpacked_gib: u64,
    /// Print JSON (`acb schema verify`).
    #[arg(long)]
    pub json: bool,
}
