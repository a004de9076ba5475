//! Bundles as other tools know them: SHA-256 sums, a Merkle tree, Ed25519 keys, DSSE envelopes around in-toto statements,
//! RO-Crate metadata, JUnit, and a packed folder that can be unpacked without trusting it.
//!
//! This crate knows forms and nothing of what is in them: it has no crate of ours below it. It reads no clock, and equal
//! inputs give equal bytes. Whatever is read may come from somebody else: names, sizes and kinds of entries are checked
//! before anything is written.

mod archive;
mod date;
mod dsse;
mod error;
mod hash;
mod junit;
mod key;
mod merkle;
mod names;
mod ro_crate;
mod rows;
mod statement;
mod sums;
mod walk;

pub use archive::{Limits, pack, unpack};
pub use date::iso_8601;
pub use dsse::{Envelope, PAYLOAD_TYPE, Signature};
pub use error::BundleError;
pub use hash::{Hash, NotAHash};
pub use junit::{Case, CaseOutcome, junit_xml};
pub use key::{PublicKey, SecretKey, write_key_pair};
pub use merkle::{Content, Leaf, Tree, content_of, root_of};
pub use names::check_name;
pub use ro_crate::{Action, CrateFile, CrateInfo, ro_crate_metadata};
pub use rows::{compress, decompress};
pub use statement::{
    BuildDefinition, BuildMetadata, Builder, Provenance, ResourceDescriptor, RunDetails, Statement,
    TestResult, TestVerdict,
};
pub use sums::Sums;
pub use walk::files_below;
