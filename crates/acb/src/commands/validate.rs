//! `acb validate`: published results against the simulator.

use super::{Exit, print, print_json};
use crate::cli::ValidateArgs;
use crate::clock::Stopwatch;
use crate::validate::{AgainstRecord, CASES, Case, Origin, ValidationDocument, fit, recorded};
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
        show(args, &recorded(), Origin::Recorded)?;
        return Ok(Exit::Done);
    }
    let document = run(&chosen(&args.cases)?);
    show(args, &document, Origin::Computed)?;
    eprintln!("{}", AgainstRecord::of(&document, &recorded()));
    Ok(if document.failed == 0 { Exit::Done } else { Exit::Failed })
}

/// One case after the other; each uses all processors.
fn run(cases: &[&Case]) -> ValidationDocument {
    let (watch, mut results) = (Stopwatch::start(), Vec::new());
    for case in cases {
        eprintln!("{}: running", case.name);
        results.push(case.result());
        eprintln!("{}: done after {:.1} s", case.name, watch.elapsed().as_secs_f64());
    }
    ValidationDocument::of(results)
}

fn show(args: &ValidateArgs, document: &ValidationDocument, origin: Origin) -> miette::Result<()> {
    match args.json {
        true => print_json(document),
        false => print(&document.markdown(origin)),
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
