//! Development tasks: `cargo xtask tidy` checks the rules of STYLE.md and ARCHITECTURE.md that a program can
//! check, `cargo xtask docs` writes the generated reference pages. Nothing here ships with `acb`.

mod bans;
mod fault;
mod generated;
mod layering;
mod links;
mod numbers;
mod sizes;
mod source;
mod text;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy      check layering, sizes, bans, links, numbers in prose and generated pages
       cargo xtask numbers   check numbers in prose alone, which builds nothing
       cargo xtask docs      write the generated pages";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["tidy"] => tidy::check(&root()).map(|report| report.print()),
        ["numbers"] => tidy::check_numbers(&root()).map(|report| report.print()),
        ["docs"] => generated::write(&root()).map(|()| true),
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// The repository: the folder above this package.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}
