//! Values and lines in committed result files.

use crate::tree::TextFile;
use std::collections::BTreeMap;

/// The files of the repository by path.
pub struct Results<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Results<'a> {
    pub fn new(files: &'a [TextFile]) -> Self {
        Self(files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect())
    }

    fn text(&self, path: &str) -> Result<&'a str, String> {
        self.0
            .get(path)
            .copied()
            .ok_or_else(|| format!("{path} is no committed file: commit the result, or fix the reference"))
    }

    /// The number at `FILE#PLACE`.
    pub fn value(&self, from: &str) -> Result<f64, String> {
        let (path, place) = from.split_once('#').ok_or_else(|| {
            format!("{from} names no place in the file: FILE#POINTER or FILE#ROW|CELLS;COLUMN")
        })?;
        let text = self.text(path)?;
        if path.ends_with(".json") {
            let document: serde_json::Value =
                serde_json::from_str(text).map_err(|error| format!("{path} is no JSON: {error}"))?;
            let value = document
                .pointer(place)
                .ok_or_else(|| format!("{path} has nothing at {place}: fix the pointer"))?;
            return value.as_f64().ok_or_else(|| format!("{path}{place} is no number: fix the pointer"));
        }
        let cell = cell(text, place).map_err(|what| {
            format!("{path} {what}: {place} is ROW|CELLS;COLUMN, or TITLE: ROW|CELLS;COLUMN")
        })?;
        let number = cell.trim_end_matches('%').trim().replace(',', "");
        number.parse().map_err(|_| format!("{from} is no number but \"{cell}\": fix the place"))
    }

    /// The number of the first line that the file doesn't have behind the lines before it; `None` when it has all.
    pub fn lines_missing<'b>(
        &self,
        path: &str,
        wanted: impl Iterator<Item = &'b (usize, &'b str)>,
    ) -> Result<Option<usize>, String> {
        let mut rest = self.text(path)?.lines().map(str::trim);
        for (number, line) in wanted {
            if !rest.any(|found| found == line.trim()) {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    }
}

/// The one cell in the tables of a text that lies in a row beginning with these cells, under this column; where a title is
/// given, in a table under a line that has it.
fn cell<'a>(text: &'a str, place: &str) -> Result<&'a str, String> {
    let (title, place) = place.split_once(": ").unwrap_or(("", place));
    let (row, column) = place.split_once(';').ok_or("has no such cell")?;
    let wanted: Vec<&str> = row.split('|').map(str::trim).collect();
    let (mut header, mut above, mut found) = (None, "", Vec::new());
    for line in text.lines() {
        let Some(cells) = cells(line) else {
            header = None;
            above = if line.trim().is_empty() { above } else { line };
            continue;
        };
        match &header {
            None => header = Some(cells),
            Some(names) if cells.starts_with(&wanted) && above.contains(title) => {
                let at = names.iter().position(|name| *name == column);
                found.extend(at.and_then(|at| cells.get(at).copied()));
            }
            Some(_) => {}
        }
    }
    match found[..] {
        [one] => Ok(one),
        [] => Err("has no such cell".to_owned()),
        _ => Err(format!("has {} such cells", found.len())),
    }
}

/// The cells of a table's line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}
