//! Laws of whole runs, and the fast engine against a slow one.

mod bed;
mod fast;
mod laws;
mod reference;
mod worked_examples;
