//! Plain scalars by the YAML 1.2 core schema: `yes`, `no`, `on` and `off` are words, not truth values.

/// What a plain scalar means.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Empty, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer from -2^63 to 2^64 - 1, in decimal, `0x` or `0o` notation.
    Int(i128),
    /// Any other finite number.
    Float(f64),
    /// `.nan`, `.inf`, or a number too large for 64 bits of floating point.
    NotFinite,
    /// Everything else.
    Text,
}

/// Reads a plain scalar.
#[must_use]
pub fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" => return Scalar::Bool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Scalar::NotFinite;
    }
    integer(text, unsigned).or_else(|| float(text, unsigned)).unwrap_or(Scalar::Text)
}

fn integer(text: &str, unsigned: &str) -> Option<Scalar> {
    let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
    let radix = |digits: &str, radix: u32| {
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            return None;
        }
        let value = i128::from_str_radix(digits, radix).ok().filter(|value| range.contains(value));
        Some(value.map_or(Scalar::Text, Scalar::Int))
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse::<i128>().ok().filter(|value| range.contains(value)).map(Scalar::Int)
}

fn float(text: &str, unsigned: &str) -> Option<Scalar> {
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let some_digit = !whole.is_empty() || !fraction.is_empty();
    let exponent_ok = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    if !(some_digit && digits(whole) && digits(fraction) && exponent_ok) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    Some(if value.is_finite() { Scalar::Float(value) } else { Scalar::NotFinite })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Scalar) {
        assert_eq!(resolve(text), expected, "{text:?}");
    }

    #[test]
    fn numbers_follow_the_core_schema() {
        check("12", Scalar::Int(12));
        check("-3", Scalar::Int(-3));
        check("+3", Scalar::Int(3));
        check("0x1F", Scalar::Int(31));
        check("0o17", Scalar::Int(15));
        check("18446744073709551615", Scalar::Int(i128::from(u64::MAX)));
        check("18446744073709551616", Scalar::Float(18_446_744_073_709_551_616.0));
        check("1.5", Scalar::Float(1.5));
        check(".5", Scalar::Float(0.5));
        check("1.", Scalar::Float(1.0));
        check("1e3", Scalar::Float(1000.0));
        check("-1.5E-3", Scalar::Float(-0.0015));
    }

    #[test]
    fn words_that_only_look_like_numbers_or_truth_are_text() {
        for text in [
            "yes", "no", "on", "off", "nan", "inf", "infinity", "1_000", "1.2.3", "e3", ".", "+", "-", "1e",
            "0x", "0xg", "12 ms", "1e+", "--1",
        ] {
            check(text, Scalar::Text);
        }
    }

    #[test]
    fn what_is_not_finite_is_not_a_number() {
        for text in [".nan", ".NaN", ".inf", "-.inf", "+.INF", "1e999", "-1e999"] {
            check(text, Scalar::NotFinite);
        }
    }
}
