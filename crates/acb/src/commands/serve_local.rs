//! `acb serve-local`: a real model on the CPU behind the OpenAI dialect.

use super::Exit;
use super::serve_fake::until_told;
use crate::cli::ServeLocalArgs;
use acb_local::{LocalModel, LocalServer};
use miette::miette;

const BANNER: &str = "a real model, one request at a time, in f32 on the CPU: its answers are its own, its times are this machine's";

/// Runs the command: prints one URL per server, and serves until it is told to stop.
///
/// # Errors
/// When a folder holds no model or adapter that is known here, or a port can't be had.
pub fn command(args: &ServeLocalArgs) -> miette::Result<Exit> {
    let load = || {
        let mut model = LocalModel::load(&args.model)?;
        for (name, folder) in &args.adapters {
            model.load_adapter(name, folder)?;
        }
        Ok(model)
    };
    let server = LocalServer::launch(load, &args.name, &args.ports).map_err(|fault| miette!("{fault}"))?;
    until_told(
        server.addrs(),
        BANNER,
        &format!("{} with {} adapters", args.model.display(), args.adapters.len()),
    )
}
