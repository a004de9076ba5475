//! `acb key new`: a key pair to sign bundles with.

use super::{Exit, print};
use crate::cli::KeyNewArgs;
use acb_bundle::write_key_pair;
use miette::IntoDiagnostic;

/// Makes a key pair.
///
/// # Errors
/// When a file exists or can't be written.
pub fn new(args: &KeyNewArgs) -> miette::Result<Exit> {
    let (public, key) = write_key_pair(&args.out).into_diagnostic()?;
    print(&format!(
        "private key: {} (keep it to yourself: whoever has it can sign as you)\npublic key: {} (give it away)\nkey id: {}\n",
        args.out.display(),
        public.display(),
        key.id()
    ))?;
    Ok(Exit::Done)
}
