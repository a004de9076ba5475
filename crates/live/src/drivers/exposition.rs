//! Prometheus' text format, version 0.0.4: series with their labels and types.
//!
//! Read here and by no library, which was tried on the recorded `/metrics` of vLLM 0.32.0 (463 series) and SGLang 0.5.23
//! (575): `prometheus-parse` 0.2.5 drops every series whose name has a colon without a word (all of SGLang's),
//! `openmetrics-parser` 0.4.4 refuses such names in comments, `prom_text_format_parser` 0.1.0 refuses empty braces and a
//! comma after the last label, and `prometheus-exposition-format-rs` 0.1.2 stands on a release of `nom` that is no longer kept.

use std::collections::BTreeMap;

/// What the server says a family is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeriesType {
    /// Only grows, but for a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count: each a counter.
    Histogram,
    /// Quantiles, a sum and a count.
    Summary,
    /// Not said.
    #[default]
    Untyped,
}

/// One line: a name, its labels by name, and a value (`NaN` is one).
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name with its suffix.
    pub name: String,
    /// Label values by label.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

/// A text that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}: {text}")]
pub struct ExpositionError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong.
    pub fault: &'static str,
    /// The begin of the line.
    pub text: String,
}

/// All series of one scrape, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition {
    types: BTreeMap<String, SeriesType>,
    series: Vec<Series>,
}

impl Exposition {
    /// Reads a text. One bad line makes all of it suspect.
    ///
    /// # Errors
    /// At the first line that is neither a comment nor a series.
    pub fn parse(text: &str) -> Result<Self, ExpositionError> {
        let mut all = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            let at = |fault| ExpositionError { line, fault, text: text.chars().take(120).collect() };
            if let Some(comment) = text.strip_prefix('#') {
                all.comment(comment);
            } else if !text.is_empty() {
                all.series.push(series(text).map_err(at)?);
            }
        }
        Ok(all)
    }

    /// Every series.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The series of this very name that carry these labels, whatever else they carry.
    pub fn named<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Series> {
        let fits = move |series: &&Series| {
            series.name == name
                && labels
                    .iter()
                    .all(|(label, value)| series.labels.get(*label).is_some_and(|own| own == value))
        };
        self.series.iter().filter(fits)
    }

    /// What the server says that this series is. The parts of a histogram are told by their suffix.
    #[must_use]
    pub fn type_of(&self, name: &str) -> SeriesType {
        if let Some(own) = self.types.get(name) {
            return *own;
        }
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        family.and_then(|family| self.types.get(family)).copied().unwrap_or_default()
    }

    fn comment(&mut self, comment: &str) {
        let mut words = comment.split_whitespace();
        if words.next() != Some("TYPE") {
            return;
        }
        let (Some(name), Some(kind)) = (words.next(), words.next()) else { return };
        let kind = match kind {
            "counter" => SeriesType::Counter,
            "gauge" => SeriesType::Gauge,
            "histogram" => SeriesType::Histogram,
            "summary" => SeriesType::Summary,
            _ => SeriesType::Untyped,
        };
        self.types.insert(name.to_owned(), kind);
    }
}

fn series(text: &str) -> Result<Series, &'static str> {
    let end = text.find(|c: char| c == '{' || c.is_whitespace()).ok_or("a name without a value")?;
    let (name, rest) = text.split_at(end);
    if !is_name(name) {
        return Err("no name of a series");
    }
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (BTreeMap::new(), rest),
    };
    let mut words = rest.split_whitespace();
    let value = words.next().and_then(|word| word.parse().ok()).ok_or("no number for a value")?;
    let stamped = words.next().is_none_or(|word| word.parse::<i64>().is_ok());
    if !stamped || words.next().is_some() {
        return Err("more than a value and a time");
    }
    Ok(Series { name: name.to_owned(), labels, value })
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Result<(BTreeMap<String, String>, &str), &'static str> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        let (label, after) = rest.split_once('=').ok_or("a label without a value")?;
        let after = after.trim_start().strip_prefix('"').ok_or("a label's value without its quotes")?;
        let (value, after) = quoted(after).ok_or("a label's value without its end")?;
        if !is_name(label.trim()) || labels.insert(label.trim().to_owned(), value).is_some() {
            return Err("no name of a label, or one that is there twice");
        }
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err("no comma between labels"),
        }
    }
}

/// A value up to its closing quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Series {
        let read = Exposition::parse(text).unwrap();
        assert_eq!(read.series().len(), 1);
        read.series()[0].clone()
    }

    #[test]
    fn a_label_holds_commas_braces_quotes_and_line_ends() {
        let series = one(r#"a:b{x="p,q}",y="\"\\\n",z=""} 1e3"#);
        assert_eq!((series.name.as_str(), series.value), ("a:b", 1000.0));
        let values: Vec<&str> = series.labels.values().map(String::as_str).collect();
        assert_eq!(values, ["p,q}", "\"\\\n", ""]);
    }

    #[test]
    fn empty_braces_a_last_comma_and_a_time_are_allowed() {
        assert!(one("a{} 3").labels.is_empty());
        assert_eq!(one("a{x=\"1\",} 5").labels.len(), 1);
        assert_eq!(one("a 4 1600000000000").value, 4.0);
        assert!(one("a NaN").value.is_nan());
        assert_eq!(one("a +Inf").value, f64::INFINITY);
    }

    #[test]
    fn a_bad_line_is_named_and_spoils_the_text() {
        let fault = |text: &str| Exposition::parse(text).unwrap_err();
        assert_eq!(fault("# c\na 1\nbad line here").line, 3);
        for text in
            ["a", "a{x=1} 1", "a{x=\"1\" 1", "a{x=\"1\"y=\"2\"} 1", "1a 1", "a 1 2 3", "a{x=\"1\",x=\"1\"} 1"]
        {
            assert_eq!(fault(text).line, 1, "{text}");
        }
    }

    #[test]
    fn the_parts_of_a_histogram_are_of_its_type_and_a_counter_named_count_is_not() {
        let text =
            "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 3\nh_count 2\n# TYPE x_count gauge\nx_count 1\n";
        let read = Exposition::parse(text).unwrap();
        let types: Vec<SeriesType> = read.series().iter().map(|series| read.type_of(&series.name)).collect();
        let part = SeriesType::Histogram;
        assert_eq!(types, [part, part, part, SeriesType::Gauge]);
        assert_eq!(read.type_of("unheard"), SeriesType::Untyped);
    }

    proptest! {
        #[test]
        fn what_is_written_by_the_rules_is_read_again(value in ".*", number in any::<f64>()) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            // Other ends of lines can't be written in this format.
            prop_assume!(!value.contains(['\r']));
            let series = one(&format!("n{{l=\"{escaped}\"}} {number}"));
            prop_assert_eq!(&series.labels["l"], &value);
            prop_assert!(series.value == number || number.is_nan());
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = Exposition::parse(&text);
        }
    }
}
