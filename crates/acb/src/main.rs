//! The `acb` program: reads the command line, runs the command, and turns its end into an exit status.

use acb::cli::Cli;
use acb::commands::{Exit, dispatch};
use clap::Parser;
use miette::MietteHandlerOpts;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Every error names its cause itself, and paths and options must survive to be copied: no chain, no wrapping.
    let handler =
        |_: &_| Box::new(MietteHandlerOpts::new().without_cause_chain().wrap_lines(false).build()) as Box<_>;
    miette::set_hook(Box::new(handler)).expect("nothing has printed a report yet");
    match dispatch(Cli::parse()) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::from(1),
        Ok(Exit::Usage) => ExitCode::from(2),
        Err(report) => {
            acb::commands::say(&format!("{report:?}"));
            ExitCode::from(2)
        }
    }
}
