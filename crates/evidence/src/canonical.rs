//! One text for one JSON value (RFC 8785), and the hash that other tools check.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::fmt::Write;

/// The canonical text of a document: keys in order of their UTF-16 units, numbers as ECMAScript writes them, no space.
/// Numbers are those of JavaScript: an integer above 2^53 loses its last digits, so whoever needs them all refuses it.
///
/// # Panics
/// When the document has no form in JSON, as with keys that are no text or numbers that are not finite.
#[must_use]
pub fn canonical_json(document: &impl Serialize) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(document).expect("the document has text keys and finite numbers")
}

/// SHA-256 in lower-case hex, as `sha256sum` prints it.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn text(json: &str) -> String {
        let value: Value = serde_json::from_str(json).unwrap();
        String::from_utf8(canonical_json(&value)).unwrap()
    }

    #[test]
    fn keys_literals_and_strings_are_written_as_the_standard_shows() {
        // RFC 8785, 3.2.2 and 3.2.4.
        let given = r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#;
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                        \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(text(given), expected);
    }

    #[test]
    fn keys_are_ordered_by_their_utf_16_units() {
        // RFC 8785, 3.2.3.
        let given = r#"{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}"#;
        let seen = text(given);
        let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let at: Vec<usize> = order.iter().map(|word| seen.find(word).unwrap()).collect();
        assert!(at.is_sorted(), "{seen}");
    }

    #[test]
    fn numbers_are_written_as_the_standard_lists_them() {
        // RFC 8785, appendix B: bits of a double and its text.
        for (bits, expected) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let seen = String::from_utf8(canonical_json(&f64::from_bits(bits))).unwrap();
            assert_eq!(seen, expected, "{bits:016x}");
        }
    }

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
