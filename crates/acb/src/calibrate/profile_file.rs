//! The profile as a file, in the form of those that ship with the simulator.

use super::Calibration;
use acb_sim::Profile;
use acb_types::Source;
use serde::Serialize;

/// A profile with where it is from and how well it fits.
#[derive(Debug, Serialize)]
pub struct ProfileFile<'a> {
    name: &'a str,
    summary: String,
    source: String,
    fit: &'a Calibration,
    calibrated: bool,
    constants: &'a Profile,
}

impl<'a> ProfileFile<'a> {
    /// The file of a calibration under this name.
    #[must_use]
    pub fn new(name: &'a str, calibration: &'a Calibration) -> Self {
        let seen = match calibration.source {
            Source::Simulated => "a simulated server",
            Source::Client | Source::Server => "a server over HTTP",
        };
        let hold_out = &calibration.hold_out;
        Self {
            name,
            summary: format!(
                "fitted by `acb calibrate` to {} on {seen}; mean E2E error {:.2} % on {} held-out requests at {:.2}/s",
                calibration.engine,
                hold_out.mean_e2e_error * 100.0,
                hold_out.requests,
                hold_out.rate_rps
            ),
            source: format!(
                "times seen by the client of {seen} with the flags in `fit`; byte sizes from the model's configuration"
            ),
            fit: calibration,
            calibrated: calibration.calibrated,
            constants: &calibration.profile,
        }
    }
}
