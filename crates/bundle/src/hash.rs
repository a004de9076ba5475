//! SHA-256, the hash that tools outside this project check.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Read};

/// A SHA-256 hash; as text 64 lower-case hex characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Hash(pub(crate) [u8; 32]);

/// Text that is not 64 lower-case hex characters.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is no SHA-256: 64 lower-case hex characters")]
pub struct NotAHash(String);

impl Hash {
    /// Hash of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_parts(&[bytes])
    }

    /// Hash of parts, one after the other.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        parts.iter().for_each(|part| hasher.update(part));
        Self(hasher.finalize().into())
    }

    /// Hash of everything that a reader gives, in bounded memory.
    ///
    /// # Errors
    /// When reading fails.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self(hasher.finalize().into())),
                read => hasher.update(&buffer[..read]),
            }
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = NotAHash;

    fn try_from(text: String) -> Result<Self, NotAHash> {
        let digit = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text
            .as_bytes()
            .chunks(2)
            .map(|pair| Some(16 * digit(pair[0])? + digit(*pair.get(1)?)?))
            .collect();
        match bytes.and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => Ok(Self(bytes)),
            None => Err(NotAHash(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard_and_reads_back() {
        // FIPS 180-2, example of one block.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Hash::of(b"abc").to_string(), abc);
        assert_eq!(Hash::of_reader(&b"abc"[..]).unwrap(), Hash::of_parts(&[b"a", b"bc"]));
        assert_eq!(Hash::try_from(abc.to_owned()).unwrap(), Hash::of(b"abc"));
        for bad in ["", "ab", &abc.to_uppercase(), &abc[1..], "ä"] {
            assert!(Hash::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
