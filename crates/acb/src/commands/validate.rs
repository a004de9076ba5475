//! `acb validate`: published results against the simulator.

use super::{Exit, print, print_json};
use crate::cli::ValidateArgs;
use crate::clock::Stopwatch;
use crate::validate::{CASES, Case, ValidationDocument, fit, recorded, run};
use miette::miette;

/// Runs the command.
///
/// # Errors
/// When a case is not known.
pub fn command(args: &ValidateArgs) -> miette::Result<Exit> {
    if args.fit {
        print_json(&fit())?;
        return Ok(Exit::Done);
    }
    if args.recorded {
        show(args, &recorded())?;
        return Ok(Exit::Done);
    }
    let (cases, watch) = (chosen(&args.cases)?, Stopwatch::start());
    let document = run(&cases, |case| eprintln!("{case}: done after {:.1} s", watch.elapsed().as_secs_f64()));
    show(args, &document)?;
    Ok(if document.failed == 0 { Exit::Done } else { Exit::Failed })
}

fn show(args: &ValidateArgs, document: &ValidationDocument) -> miette::Result<()> {
    match args.json {
        true => print_json(document),
        false => print(&document.markdown()),
    }
}

fn chosen(names: &[String]) -> miette::Result<Vec<&'static Case>> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| {
        CASES.iter().find(|case| case.name == name).ok_or_else(|| {
            let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            miette!("no case \"{name}\"; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
