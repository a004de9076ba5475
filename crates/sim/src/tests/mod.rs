//! Laws of whole runs, and the fast engine against a slow one.

mod bed;
mod fast;
mod laws;
mod reference;
mod sglang_laws;
mod sglang_worked_examples;
mod worked_examples;
