//! Bundles: a results folder with all that is needed to check it, and the check.
//!
//! A bundle holds raw evidence (`results/`, `data/`) and documents that follow from it. One function makes the documents:
//! `acb bundle` writes what it gives, `acb verify` compares what it gives, byte by byte. So whatever is in a table was
//! computed from the rows beside it, or the check says where it was not.

mod attest;
mod build;
mod difference;
mod documents;
mod evidence;
mod examine;
mod finding;
mod layout;
mod logged;
mod planned;
mod rebuilt;
mod replayed;
mod suite;
mod tables;
mod unpacked;
mod verify;

pub use build::{Asked, BuildError, Built, Gaps, build};
pub use documents::BundleDocument;
pub use evidence::{DataFile, Withhold};
pub use finding::{Check, Finding};
pub use verify::{CheckRow, CheckState, Verification, verify};
