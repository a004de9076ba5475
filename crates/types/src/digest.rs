//! Content hashes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A BLAKE3 hash in lower-case hex (64 characters).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// Text that is not 64 lower-case hex characters.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is not a digest: 64 lower-case hex characters")]
pub struct NotADigest(String);

impl TryFrom<String> for Digest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if text.len() == 64 && text.bytes().all(hex) { Ok(Self(text)) } else { Err(NotADigest(text)) }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl Digest {
    /// Hash of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex().to_string())
    }

    /// Hash of everything that a reader gives, in bounded memory.
    ///
    /// # Errors
    /// When reading fails.
    pub fn of_reader(reader: impl std::io::Read) -> std::io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(reader)?;
        Ok(hasher.finalize().into())
    }

    /// The 64 hex characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 16 hex characters: enough for a folder name.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..16]
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.to_hex().to_string())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_digest_is_read_as_one() {
        let digest = Digest::of(b"x");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"abc\"").is_err());
        assert!(serde_json::from_str::<Digest>(&text.to_uppercase()).is_err());
    }
}
