//! JUnit XML, as build servers read it.

use std::fmt::Write;

/// One test case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What it belongs to, such as `gates`.
    pub class: String,
    /// Its name.
    pub name: String,
    /// How it ended.
    pub outcome: CaseOutcome,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    /// It holds; what was found.
    Passed(String),
    /// It holds or was passed over, with a remark.
    Warned(String),
    /// It does not hold, and why.
    Failed(String),
}

/// A suite of cases as XML.
#[must_use]
pub fn junit_xml(suite: &str, cases: &[Case]) -> String {
    let count = |wanted: fn(&CaseOutcome) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    let failures = count(|outcome| matches!(outcome, CaseOutcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, CaseOutcome::Warned(_)));
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    // Writing to a String can't fail.
    let _ = writeln!(
        xml,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">",
        escaped(suite),
        cases.len()
    );
    for Case { class, name, outcome } in cases {
        let _ = writeln!(xml, "    <testcase classname=\"{}\" name=\"{}\">", escaped(class), escaped(name));
        let _ = match outcome {
            CaseOutcome::Passed(found) => writeln!(xml, "      <system-out>{}</system-out>", escaped(found)),
            CaseOutcome::Warned(why) => writeln!(xml, "      <skipped message=\"{}\"/>", escaped(why)),
            CaseOutcome::Failed(why) => writeln!(xml, "      <failure message=\"{}\"/>", escaped(why)),
        };
        xml += "    </testcase>\n";
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

/// Text for an attribute or an element. Characters that XML 1.0 can't hold become spaces.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_and_text_can_not_break_out() {
        let case = |name: &str, outcome| Case { class: "gates".into(), name: name.into(), outcome };
        let cases = [
            case("a", CaseOutcome::Passed("1 < 2".into())),
            case("b", CaseOutcome::Warned("x".into())),
            case("\"/><evil", CaseOutcome::Failed("a & b\u{1}".into())),
        ];
        let xml = junit_xml("small", &cases);
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
        assert!(
            xml.contains("1 &lt; 2") && xml.contains("&quot;/&gt;&lt;evil") && xml.contains("a &amp; b ")
        );
        assert!(!xml.contains("<evil"));
    }
}
