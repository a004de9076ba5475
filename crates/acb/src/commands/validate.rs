//! `acb validate`: published results against the simulator.

use super::{Exit, print, print_json};
use crate::cli::ValidateArgs;
use crate::validate::{CASES, Case, fit, run};
use miette::miette;

/// Runs the command.
///
/// # Errors
/// When a case is not known.
pub fn command(args: &ValidateArgs) -> miette::Result<Exit> {
    if args.fit {
        let base = acb_sim::profile("llama-3.1-8b-vllm-0.8.5").expect("the profile ships");
        print_json(&fit(&base, |loss| eprintln!("errors over targets, summed: {loss:.3}")))?;
        return Ok(Exit::Done);
    }
    let cases = chosen(&args.cases)?;
    let document = run(&cases);
    match args.json {
        true => print_json(&document)?,
        false => print(&document.markdown())?,
    }
    Ok(if document.failed == 0 { Exit::Done } else { Exit::Failed })
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
