//! `/metrics`: the series of the real servers, with their names, types, labels and buckets, and with their real faults.
//!
//! Which series there are is data (`vllm.series`, `sglang.series`): names, labels and bounds as vllm 0.32.0 and sglang
//! 0.5.23 expose them on an idle server. What only a real machine has (processes, start-up, graphs) is left out. A series
//! that nothing here feeds is 0, as on a real server that does not use the feature.

mod exposition;
mod meters;
mod sglang;
mod vllm;

pub(crate) use meters::{Ended, Meters, Shown, Track};
