//! Laws of whole runs, and the fast engine against a slow one.

mod bed;
mod laws;
