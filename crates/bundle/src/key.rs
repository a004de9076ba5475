//! Ed25519 keys (RFC 8032) in the PEM files that other tools read (RFC 8410).

use crate::{BundleError, Hash};
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes,
};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A key that signs.
pub struct SecretKey(SigningKey);

/// A key that checks signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl SecretKey {
    /// A new key from the system's random bytes.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn generate() -> Result<Self, std::io::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// The key of these 32 bytes: for tests and for whoever keeps keys elsewhere.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads a private key file (PKCS#8, PEM).
    ///
    /// # Errors
    /// When it can't be read or holds no Ed25519 private key.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        let text = fs::read_to_string(path).map_err(BundleError::io(path))?;
        let wrong = |_| BundleError::form(path, "is no Ed25519 private key in PEM; `acb key new` makes one");
        SigningKey::from_pkcs8_pem(&text).map(Self).map_err(wrong)
    }

    /// The key that checks what this one signs.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs bytes. The same bytes always get the same signature.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }

    fn pem(&self) -> String {
        // Version 1 of PKCS#8, without the public half: every tool reads it.
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = pair.to_pkcs8_pem(LineEnding::LF).expect("32 bytes have a form in PEM");
        pem.to_string()
    }
}

impl PublicKey {
    /// Reads a public key file (SubjectPublicKeyInfo, PEM).
    ///
    /// # Errors
    /// When it can't be read or holds no Ed25519 public key.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        let text = fs::read_to_string(path).map_err(BundleError::io(path))?;
        Self::from_pem(&text).ok_or_else(|| {
            BundleError::form(
                path,
                "is no Ed25519 public key in PEM; give the .pub file that `acb key new` wrote",
            )
        })
    }

    /// The key in a PEM text; `None` when there is none.
    #[must_use]
    pub fn from_pem(text: &str) -> Option<Self> {
        VerifyingKey::from_public_key_pem(text).map(Self).ok()
    }

    /// The key as PEM.
    ///
    /// # Panics
    /// Never: 32 bytes always have a form in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).expect("32 bytes have a form in PEM")
    }

    /// Name of the key: SHA-256 of its 32 bytes, hex.
    #[must_use]
    pub fn id(&self) -> String {
        Hash::of(self.0.as_bytes()).to_string()
    }

    /// Whether a signature over bytes is by this key. Signatures of more than one form and weak keys are refused.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify_strict(bytes, &signature).is_ok())
    }
}

/// Writes a new key pair: the private key to `path`, readable by its owner alone, and the public key beside it as
/// `path.pub`. Existing files are never overwritten.
///
/// # Errors
/// When a file exists or can't be written.
pub fn write_key_pair(path: &Path) -> Result<(PathBuf, PublicKey), BundleError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".pub");
    let public_path = path.with_file_name(name);
    if let Some(taken) = [path, &public_path].into_iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(BundleError::form(taken, "exists already and is not overwritten; choose another --out"));
    }
    let key = SecretKey::generate().map_err(BundleError::io(path))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = |mut file: fs::File| file.write_all(key.pem().as_bytes()).and_then(|()| file.sync_all());
    options.open(path).and_then(write).map_err(BundleError::io(path))?;
    let public = fs::File::create_new(&public_path);
    let written = public.and_then(|mut file| file.write_all(key.public().pem().as_bytes()));
    written.map_err(BundleError::io(&public_path))?;
    Ok((public_path, key.public()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // RFC 8032, section 7.1, test 1: an empty message.
        let seed =
            Hash::try_from("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60".to_owned());
        let key = SecretKey::from_seed(&seed.unwrap().0);
        let hex: String = key.sign(b"").iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(hex.starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"), "{hex}");
        assert!(key.public().verifies(b"", &key.sign(b"")));
    }

    #[test]
    fn a_pair_is_written_once_with_the_private_half_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("me.key");
        let (public_path, public) = write_key_pair(&path).unwrap();
        assert_eq!(PublicKey::read(&public_path).unwrap(), public);
        let secret = SecretKey::read(&path).unwrap();
        assert_eq!(secret.public(), public);
        assert!(public.verifies(b"x", &secret.sign(b"x")));
        assert!(!public.verifies(b"y", &secret.sign(b"x")) && !public.verifies(b"x", b"short"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let again = write_key_pair(&path).unwrap_err().to_string();
        assert!(again.contains("me.key: exists already"), "{again}");
        let error = PublicKey::read(&path).unwrap_err().to_string();
        assert!(error.contains("no Ed25519 public key"), "{error}");
    }
}
