//! Series and their values in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A value.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Scalar(f64),
    Histogram { bounds: Vec<f64>, counts: Vec<u64>, sum: f64 },
}

#[derive(Clone, Debug, PartialEq)]
struct Series {
    kind: &'static str,
    name: &'static str,
    labels: BTreeMap<&'static str, String>,
    value: Value,
}

impl Series {
    fn parse(line: &'static str, words: &[(&str, String)]) -> Option<Self> {
        let mut parts = line.split(' ');
        let (kind, name) = (parts.next()?, parts.next()?);
        let mut labels = BTreeMap::new();
        let mut bounds = Vec::new();
        for part in parts {
            let (label, value) = part.split_once('=')?;
            if kind == "histogram" && label == "le" {
                bounds = value.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
                continue;
            }
            let word = words.iter().find(|(word, _)| *word == value);
            labels.insert(label, word.map_or_else(|| value.to_owned(), |(_, text)| text.clone()));
        }
        let value = match kind {
            "histogram" => Value::Histogram { counts: vec![0; bounds.len() + 1], bounds, sum: 0.0 },
            _ => Value::Scalar(0.0),
        };
        Some(Self { kind, name, labels, value })
    }

    fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(label, value)| self.labels.get(label).is_some_and(|own| own == value))
    }
}

/// All series of one server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exposition {
    series: Vec<Series>,
    /// Seconds since 1970 that `_created` gauges show; `None`: there are none.
    created_s: Option<f64>,
}

impl Exposition {
    /// The series of a table, one a line: `type name label=value ...`, for histograms with `le=bound,bound`. Words such as
    /// `$model` stand for what `words` says.
    ///
    /// # Panics
    /// When a line of the table is none: our bug.
    pub(crate) fn new(table: &'static str, words: &[(&str, String)], created_s: Option<f64>) -> Self {
        let series = |line| Series::parse(line, words).expect("each line of the table is a series");
        Self { series: table.lines().map(series).collect(), created_s }
    }

    fn find(&mut self, name: &str, labels: &[(&str, &str)]) -> &mut Value {
        let found = self.series.iter_mut().find(|series| series.name == name && series.has(labels));
        &mut found.expect("only series of the table are fed").value
    }

    /// Sets a gauge, or a counter that is kept elsewhere.
    pub(crate) fn set(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        *self.find(name, labels) = Value::Scalar(value);
    }

    /// Adds to a counter.
    pub(crate) fn add(&mut self, name: &str, labels: &[(&str, &str)], amount: f64) {
        if let Value::Scalar(value) = self.find(name, labels) {
            *value += amount;
        }
    }

    /// Counts one observation of a histogram.
    pub(crate) fn observe(&mut self, name: &str, labels: &[(&str, &str)], observed: f64) {
        if let Value::Histogram { bounds, counts, sum } = self.find(name, labels) {
            let at = bounds.iter().position(|&bound| observed <= bound).unwrap_or(bounds.len());
            counts[at] += 1;
            *sum += observed;
        }
    }

    /// Prometheus' text format 0.0.4.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        let mut last = "";
        for (at, series) in self.series.iter().enumerate() {
            if series.name != last {
                self.created(&mut text, last, at);
                last = series.name;
                let _ = writeln!(text, "# HELP {last} Simulated.\n# TYPE {last} {}", series.kind);
            }
            render_one(&mut text, series);
        }
        self.created(&mut text, last, self.series.len());
        text
    }

    /// What the Python client adds for each counter and histogram: when it began to count.
    fn created(&self, text: &mut String, name: &str, before: usize) {
        let Some(created_s) = self.created_s else { return };
        let family = self.series[..before].iter().filter(|series| series.name == name);
        let family: Vec<&Series> = family.filter(|series| series.kind != "gauge").collect();
        let Some(first) = family.first() else { return };
        let base = if first.kind == "counter" { name.trim_end_matches("_total") } else { name };
        let _ = writeln!(text, "# HELP {base}_created Simulated.\n# TYPE {base}_created gauge");
        for series in family {
            let _ = writeln!(text, "{base}_created{} {created_s}", labels_of(series, None));
        }
    }
}

fn render_one(text: &mut String, series: &Series) {
    let name = series.name;
    match &series.value {
        Value::Scalar(value) => {
            let _ = writeln!(text, "{name}{} {}", labels_of(series, None), number(*value));
        }
        Value::Histogram { bounds, counts, sum } => {
            let mut total = 0;
            let infinite = bounds.iter().map(|bound| number(*bound)).chain(["+Inf".to_owned()]);
            for (bound, count) in infinite.zip(counts) {
                total += count;
                let _ = writeln!(text, "{name}_bucket{} {total}.0", labels_of(series, Some(&bound)));
            }
            let labels = labels_of(series, None);
            let _ = writeln!(text, "{name}_count{labels} {total}.0\n{name}_sum{labels} {}", number(*sum));
        }
    }
}

/// As Python prints a float: whole numbers keep a `.0`.
fn number(value: f64) -> String {
    format!("{value:?}")
}

fn labels_of(series: &Series, bound: Option<&str>) -> String {
    let own = series.labels.iter().map(|(label, value)| (*label, value.as_str()));
    braced(own.chain(bound.map(|bound| ("le", bound))))
}

/// Labels as they stand behind a name; nothing when there are none.
pub(crate) fn braced<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_with_type_labels_and_cumulative_buckets() {
        let table = "gauge a\ncounter b_total model=$m kind=x\ncounter b_total model=$m kind=y\nhistogram h le=1.0,2.5";
        let mut shown = Exposition::new(table, &[("$m", "q\"1".to_owned())], Some(7.5));
        shown.set("a", &[], 3.0);
        shown.add("b_total", &[("kind", "y")], 2.0);
        [0.5, 2.5, 9.0].into_iter().for_each(|value| shown.observe("h", &[], value));
        let text = shown.render();
        let expected = [
            "# TYPE a gauge",
            "a 3.0",
            "b_total{kind=\"x\",model=\"q\\\"1\"} 0.0",
            "b_total{kind=\"y\",model=\"q\\\"1\"} 2.0",
            "b_created{kind=\"y\",model=\"q\\\"1\"} 7.5",
            "h_bucket{le=\"1.0\"} 1.0",
            "h_bucket{le=\"2.5\"} 2.0",
            "h_bucket{le=\"+Inf\"} 3.0",
            "h_count 3.0",
            "h_sum 12.0",
            "# TYPE h_created gauge",
        ];
        for line in expected {
            assert!(text.lines().any(|seen| seen == line), "{line} in {text}");
        }
        assert_eq!(text.matches("# TYPE b_total").count(), 1);
    }
}
