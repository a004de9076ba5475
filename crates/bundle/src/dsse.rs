//! DSSE: a signed envelope whose signature covers payload and type together (protocol DSSEv1).

use crate::{PublicKey, SecretKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Type of a payload that is an in-toto statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// An envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The statement, base64.
    pub payload: String,
    /// [`PAYLOAD_TYPE`].
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// One signature.
    pub signatures: Vec<Signature>,
}

/// A signature of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Name of the key: SHA-256 of the public key's bytes.
    pub keyid: String,
    /// The signature, base64.
    pub sig: String,
}

impl Envelope {
    /// Signs a statement.
    #[must_use]
    pub fn sign(statement: &[u8], key: &SecretKey) -> Self {
        let sig = STANDARD.encode(key.sign(&pre_authentication_encoding(PAYLOAD_TYPE, statement)));
        Self {
            payload: STANDARD.encode(statement),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![Signature { keyid: key.public().id(), sig }],
        }
    }

    /// The envelope as its file holds it.
    ///
    /// # Panics
    /// Never: an envelope has only text keys.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("an envelope has a form in JSON") + "\n"
    }

    /// The statement in an envelope file that this key signed and that is in the one form in which such files are written.
    ///
    /// # Errors
    /// With what does not hold, as the end of a sentence about the envelope.
    pub fn open(text: &str, key: &PublicKey) -> Result<Vec<u8>, String> {
        let envelope: Self =
            serde_json::from_str(text).map_err(|error| format!("is no envelope: {error}"))?;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(format!("has payloadType \"{}\", expected {PAYLOAD_TYPE}", envelope.payload_type));
        }
        let [Signature { keyid, sig }] = &envelope.signatures[..] else {
            return Err(format!("has {} signatures, expected 1", envelope.signatures.len()));
        };
        if *keyid != key.id() {
            return Err(format!("names key {keyid}, expected {}", key.id()));
        }
        let decode =
            |what, text: &str| STANDARD.decode(text).map_err(|_| format!("has a {what} that is no base64"));
        let statement = decode("payload", &envelope.payload)?;
        let signed = pre_authentication_encoding(&envelope.payload_type, &statement);
        if !key.verifies(&signed, &decode("signature", sig)?) {
            return Err(format!("has a signature that is not by key {keyid}"));
        }
        match envelope.text() == text {
            true => Ok(statement),
            false => Err("is not in the form in which it was written (spaces or order of fields)".to_owned()),
        }
    }
}

/// PAE of the DSSE protocol, version 1.
fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_that_of_the_protocol() {
        // The example of the protocol's text.
        let encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn an_envelope_opens_with_its_key_and_any_change_is_said() {
        let (key, other) = (SecretKey::from_seed(&[1; 32]), SecretKey::from_seed(&[2; 32]));
        let text = Envelope::sign(b"{}", &key).text();
        assert_eq!(Envelope::open(&text, &key.public()).unwrap(), b"{}");
        let foreign = Envelope::sign(b"{}", &other);
        let swapped = Envelope {
            signatures: vec![Signature { keyid: key.public().id(), ..foreign.signatures[0].clone() }],
            ..foreign.clone()
        };
        let cases = [
            (text.replace("e30=", "e30"), "payload that is no base64"),
            (text.replace("e30=", "W10="), "not by key"),
            (text.replace("vnd", "vnx"), "has payloadType"),
            (text.replacen(' ', "", 1), "not in the form"),
            (foreign.text(), "names key"),
            (swapped.text(), "not by key"),
            ("[]".to_owned(), "is no envelope"),
        ];
        for (text, words) in cases {
            let error = Envelope::open(&text, &key.public()).unwrap_err();
            assert!(error.contains(words), "{error} does not say {words}");
        }
    }
}
