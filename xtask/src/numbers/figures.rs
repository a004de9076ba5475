//! Numbers in a paragraph.

/// A number as it is written.
#[derive(Debug)]
pub struct Figure<'a> {
    /// Where it begins in the text.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Its characters.
    pub text: &'a str,
    value: f64,
    decimals: i32,
    percent: bool,
}

impl Figure<'_> {
    /// Whether it has the look of a result: a decimal point, a thousands comma, or a percent sign behind it.
    pub fn is_a_result(&self) -> bool {
        self.percent || self.text.contains(['.', ','])
    }

    /// Whether a value rounds to it. A share may be written in percent.
    pub fn is(&self, value: f64) -> bool {
        let half = 0.5 * 10f64.powi(-self.decimals) * (1.0 + 1e-9);
        let near = |value: f64| (value - self.value).abs() <= half;
        near(value) || (self.percent && near(100.0 * value))
    }
}

/// The numbers of a text: not those in code, in comments or in link targets, nor parts of names, dates and versions.
pub fn figures(text: &str) -> Vec<Figure<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if let Some(end) = passed_over(&text[at..]) {
            at += end;
        } else if bytes[at].is_ascii_digit() {
            let end = at + number_length(&bytes[at..]);
            found.extend(figure(text, at, end));
            at = end;
        } else {
            at += 1;
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
    }
    found
}

/// Length of the comment, the code span or the link target that begins here.
fn passed_over(rest: &str) -> Option<usize> {
    let until = |open: &str, close: &str| {
        let inside = rest.strip_prefix(open)?;
        inside.find(close).map(|at| open.len() + at + close.len())
    };
    until("<!--", "-->").or_else(|| until("`", "`")).or_else(|| until("](", ")"))
}

/// Digits with points and commas between digits.
fn number_length(bytes: &[u8]) -> usize {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut length = 1;
    while digit(length) || (matches!(bytes.get(length), Some(b'.' | b',')) && digit(length + 1)) {
        length += 1;
    }
    length
}

fn figure(text: &str, start: usize, end: usize) -> Option<Figure<'_>> {
    let written = &text[start..end];
    let joined = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/');
    let before = text[..start].chars().next_back().is_some_and(|c| joined(c) || c == '.');
    let after = text[end..].chars().next().is_some_and(joined);
    if before || after || written.matches('.').count() > 1 {
        return None;
    }
    let value = written.replace(',', "").parse().ok()?;
    let decimals = written.split_once('.').map_or(0, |(_, digits)| digits.len() as i32);
    let percent = text[end..].trim_start_matches([' ', '\n']).starts_with('%');
    Some(Figure { start, end, text: written, value, decimals, percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_names_dates_versions_and_code() {
        let text = "It took 1,234.5 ms (12 %), p95 of Llama-3.1-8B on 0.33.0, 2026-12-01, `7.5`, [a](b/1.5.md) <!-- 9.9 --> 3.";
        let found: Vec<&str> = figures(text).iter().map(|figure| figure.text).collect();
        assert_eq!(found, ["1,234.5", "12", "3"]);
    }

    #[test]
    fn a_value_is_held_to_the_digits_that_are_written() {
        let is = |text: &str, value: f64| figures(text)[0].is(value);
        assert!(is("75 %", 74.8) && is("75 %", 0.748) && !is("75 %", 75.6) && !is("75", 0.75));
        assert!(is("2.137", 2.1374) && !is("2.137", 2.1376));
        assert!(is("1,000,000", 1_000_000.4));
    }
}
