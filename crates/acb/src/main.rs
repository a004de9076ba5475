//! The `acb` program: reads the command line, runs the command, and turns its end into an exit status.

use acb::cli::Cli;
use acb::commands::{Exit, dispatch};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::from(1),
        Err(report) => {
            eprintln!("{report:?}");
            ExitCode::from(2)
        }
    }
}
