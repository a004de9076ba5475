//! `SHA256SUMS`, as `sha256sum -c` reads it.

use crate::{Hash, check_name};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Hashes of files by their path from the bundle's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub BTreeMap<String, Hash>);

impl Sums {
    /// Name of the file.
    pub const FILE: &'static str = "SHA256SUMS";

    /// One line per file, by path.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (path, hash) in &self.0 {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{hash}  {path}");
        }
        text
    }

    /// Reads what [`Sums::text`] wrote, and nothing else: any other order, space or repetition is a fault.
    ///
    /// # Errors
    /// With the line and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut sums = Self::default();
        let mut before = "";
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let wrong = |what: String| Err(format!("line {number} {what}"));
            let Some((hash, path)) = line.strip_suffix('\n').and_then(|line| line.split_once("  ")) else {
                return wrong("is no sum: expected a hash, two spaces, a path and a line end".to_owned());
            };
            if let Err(what) = check_name(path) {
                return wrong(what);
            }
            if path <= before {
                return wrong(format!("names \"{path}\" after \"{before}\": paths ascend, each once"));
            }
            before = path;
            match Hash::try_from(hash.to_owned()) {
                Ok(hash) => sums.0.insert(path.to_owned(), hash),
                Err(error) => return wrong(format!("has no hash: {error}")),
            };
        }
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_read_back_and_any_other_form_is_refused_with_its_line() {
        let sums = Sums(BTreeMap::from([("a".into(), Hash::of(b"1")), ("b/c".into(), Hash::of(b"2"))]));
        let text = sums.text();
        assert_eq!(Sums::parse(&text).unwrap(), sums);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let [a, b] = lines[..] else { panic!("two lines") };
        let hash = Hash::of(b"1");
        let cases = [
            (format!("{b}{a}"), "line 2 names \"a\" after \"b/c\""),
            (format!("{a}{a}"), "line 2 names \"a\" after \"a\""),
            (text.trim_end().to_owned(), "line 2 is no sum"),
            (format!("{hash} *a\n"), "line 1 is no sum"),
            (format!("{hash}  ../a\n"), "line 1 leads out"),
            (format!("X{}  a\n", &hash.to_string()[1..]), "line 1 has no hash"),
        ];
        for (text, words) in cases {
            let error = Sums::parse(&text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
