//! Names of files within a bundle.

/// Longest name, bytes.
const LONGEST: usize = 1024;

/// Refuses a name that does not stay below the folder that it is joined to, on any system, or that a list of sums could
/// not hold.
///
/// # Errors
/// With what is wrong, as the end of a sentence about the entry.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > LONGEST {
        return Err(format!("has a name of {} bytes: 1 to {LONGEST} are allowed", name.len()));
    }
    if name.chars().any(char::is_control) || name.contains('\\') {
        return Err("has a control character or a backslash in its name".to_owned());
    }
    if name.starts_with('/') || name.as_bytes().get(1) == Some(&b':') {
        return Err("has an absolute path".to_owned());
    }
    match name.split('/').find(|part| part.is_empty() || *part == "." || *part == "..") {
        Some("..") => Err("leads out of its folder".to_owned()),
        Some(_) => Err("has an empty part in its path".to_owned()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_path_below_is_a_name() {
        for good in ["a", "results/run-1/requests.jsonl.zst", "a..b/...", "ä b"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(1025);
        for bad in ["", "/etc/x", "../x", "a/../../x", "a//b", "a/", "./a", "a\\b", "a\nb", "C:/x", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
