//! What to write instead of a value of the wrong type.

use super::schema::accepts;
use super::tree::Value;
use serde_json::Value as Json;

/// The habit behind a value of the wrong type, and what to write instead.
pub(super) fn type_remedy(branches: &[&Json], value: &Value) -> Option<String> {
    let takes = |kind: &str| branches.iter().any(|branch| accepts(branch, kind));
    match value {
        Value::Float(value) if takes("integer") && value.fract() == 0.0 => {
            Some(format!("write `{value}` without a fraction"))
        }
        Value::String(text) if takes("number") || takes("integer") => number_remedy(text),
        Value::String(text) if takes("boolean") => {
            let word = text.to_lowercase();
            match word.as_str() {
                "yes" | "on" | "y" => {
                    Some("write `true`: in YAML 1.2 only true and false are truth values".to_string())
                }
                "no" | "off" | "n" => {
                    Some("write `false`: in YAML 1.2 only true and false are truth values".to_string())
                }
                _ => None,
            }
        }
        Value::Int(_) | Value::Float(_) | Value::Bool(_) if takes("string") => {
            Some("quote it if it is meant as text".to_string())
        }
        Value::Null => Some("give a value; a key with a default may be left out".to_string()),
        _ => None,
    }
}

fn number_remedy(text: &str) -> Option<String> {
    let bare = text.trim().replace('_', "");
    if matches!(bare.to_lowercase().as_str(), "nan" | "inf" | "+inf" | "-inf" | "infinity" | "-infinity") {
        return Some("only finite numbers are valid".to_string());
    }
    if bare.parse::<f64>().is_ok() {
        return Some(format!("write `{bare}` without quotes or underscores"));
    }
    let digits = bare.trim_end_matches(|c: char| c.is_alphabetic() || c == '%' || c == '/').trim_end();
    (digits != bare && digits.parse::<f64>().is_ok())
        .then(|| format!("write `{digits}` alone: the unit is part of the key's name"))
}
