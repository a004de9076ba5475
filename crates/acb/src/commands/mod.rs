//! One module per command. Each returns an exit status; errors that a user can cause are reports with a remedy.

pub mod bench;
pub mod bundle;
pub mod calibrate;
pub mod claims;
pub mod doctor;
pub mod evidence;
pub mod import;
pub mod key;
pub mod list;
pub mod log;
pub mod memory;
pub mod plan;
pub mod power;
pub mod prereg;
pub mod report;
pub mod run;
pub mod runtime;
pub mod schema;
pub mod selftest;
pub mod serve_fake;
#[cfg(feature = "local")]
pub mod serve_local;
pub mod trace;
pub mod validate;
pub mod verify;

use crate::cli::{
    Cli, Command, EvidenceCommand, ImportCommand, KeyCommand, LogCommand, PreregCommand, TraceCommand,
};
use clap::CommandFactory;
use serde::Serialize;
use std::io::{self, Write};

/// How a command ended: the process's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// A check, a claim or a run failed.
    Failed,
    /// The usage or the environment is at fault, and stdout says how.
    Usage,
}

/// Says something to the person at the terminal. A stderr that can't be written is no reason to stop.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Runs a command.
///
/// # Errors
/// When the usage or the environment is at fault.
pub fn dispatch(cli: Cli) -> miette::Result<Exit> {
    match cli.command {
        Command::Plan(args) => plan::command(&args),
        Command::Run(args) => run::command(&args),
        Command::Report(args) => report::command(&args),
        Command::Prereg(PreregCommand::Lock(args)) => prereg::lock(&args),
        Command::Prereg(PreregCommand::Show(args)) => prereg::show(&args),
        Command::Prereg(PreregCommand::Check(args)) => prereg::check_lock(&args),
        Command::Claims(args) => claims::command(&args),
        Command::Power(args) => power::command(&args),
        Command::Doctor(args) => doctor::command(&args),
        Command::Schema(args) => schema::command(&args),
        Command::List(args) => list::command(&args),
        Command::Validate(args) => validate::command(&args),
        Command::Bench(args) => bench::command(&args),
        Command::Selftest(args) => selftest::command(&args),
        Command::Calibrate(args) => calibrate::command(&args),
        Command::Memory(args) => memory::command(&args),
        Command::ServeFake(args) => serve_fake::command(&args),
        Command::Runtime(args) => runtime::command(&args),
        Command::Trace(TraceCommand::Info(args)) => trace::info(&args),
        Command::Log(LogCommand::Check(args)) => log::check(&args),
        Command::Log(LogCommand::Mend(args)) => log::mend(&args),
        Command::Bundle(args) => bundle::command(&args),
        Command::Verify(args) => verify::command(&args),
        Command::Key(KeyCommand::New(args)) => key::new(&args),
        #[cfg(feature = "local")]
        Command::ServeLocal(args) => serve_local::command(&args),
        Command::Import(ImportCommand::Legacy(args)) => import::legacy(&args),
        Command::Evidence(EvidenceCommand::Review(args)) => evidence::review(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "acb", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Done)
        }
    }
}

/// Prints data to stdout. A reader that went away (a closed pipe) is no fault.
///
/// # Errors
/// When stdout can't be written.
pub fn print(text: &str) -> miette::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(miette::miette!("stdout: {error}")),
        Ok(()) => Ok(()),
    }
}

/// Prints a document as indented JSON.
///
/// # Errors
/// When stdout can't be written.
///
/// # Panics
/// When the document has no form in JSON, which only our own bug can cause.
pub fn print_json(document: &impl Serialize) -> miette::Result<()> {
    print(&json_text(document))
}

/// A document as indented JSON with a final line end.
pub(crate) fn json_text(document: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("the document has a form in JSON");
    text.push('\n');
    text
}
