//! `acb schema`: JSON schemas of what the program reads and prints.

use super::{Exit, print_json};
use crate::cli::{SchemaArgs, SchemaOf};
use crate::spec::{ExperimentSpec, FaultRow};
use schemars::schema_for;

/// Runs the command.
///
/// # Errors
/// When stdout can't be written.
pub fn command(args: &SchemaArgs) -> miette::Result<Exit> {
    let schema = match args.of {
        SchemaOf::Experiment => ExperimentSpec::schema(),
        SchemaOf::Plan => schema_for!(super::plan::PlanDocument).to_value(),
        SchemaOf::Run => schema_for!(super::run::RunDocument).to_value(),
        SchemaOf::Report => schema_for!(super::report::ReportDocument).to_value(),
        SchemaOf::Claims => schema_for!(acb_evidence::ClaimsDocument).to_value(),
        SchemaOf::Power => schema_for!(super::power::PowerDocument).to_value(),
        SchemaOf::Preregistration => schema_for!(acb_evidence::Preregistration).to_value(),
        SchemaOf::Doctor => schema_for!(super::doctor::DoctorDocument).to_value(),
        SchemaOf::List => schema_for!(Vec<super::list::Item>).to_value(),
        SchemaOf::Trace => schema_for!(acb_workload::trace::TraceInfo).to_value(),
        SchemaOf::Memory => schema_for!(super::memory::MemoryDocument).to_value(),
        SchemaOf::Bench => schema_for!(crate::bench::plan::BenchDocument).to_value(),
        SchemaOf::Selftest => schema_for!(super::selftest::SelftestDocument).to_value(),
        SchemaOf::Runtime => schema_for!(super::runtime::RuntimeDocument).to_value(),
        SchemaOf::Validate => schema_for!(crate::validate::ValidationDocument).to_value(),
        SchemaOf::Calibrate => schema_for!(super::calibrate::CalibrateDocument).to_value(),
        SchemaOf::Bundle => schema_for!(crate::bundle::BundleDocument).to_value(),
        SchemaOf::Merkle => schema_for!(acb_bundle::Tree).to_value(),
        SchemaOf::Verify => schema_for!(crate::bundle::Verification).to_value(),
        SchemaOf::Import => schema_for!(super::import::ImportDocument).to_value(),
        SchemaOf::Review => schema_for!(super::evidence::ReviewDocument).to_value(),
        SchemaOf::Faults => schema_for!(Vec<FaultRow>).to_value(),
    };
    print_json(&schema)?;
    Ok(Exit::Done)
}
