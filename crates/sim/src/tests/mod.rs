//! Laws of whole runs, and the fast engine against a slow one.

pub(crate) mod bed;
pub(crate) mod fast;
mod laws;
mod pool;
mod reference;
pub(crate) mod sglang_laws;
mod sglang_worked_examples;
mod starvation;
mod stepped;
mod steps;
mod tiers;
mod vllm_rules;
mod what_ifs;
mod worked_examples;
