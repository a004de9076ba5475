//! Changes of a bundle: by accident, and by somebody who also makes every sum again but has no key.

use crate::bundle::{Any, make_sums, read, write};
use crate::forge;
use acb_bundle::files_below;
use acb_types::Stream;
use std::fs;
use std::path::{Path, PathBuf};

/// Changes the copy at the first path (the original is at the second) and says what it did and what to check; `None` when
/// the draw gave nothing to change.
type Change = fn(&Path, &Path, &mut Stream) -> Any<Option<(String, PathBuf)>>;

/// A kind of change.
pub struct Kind {
    /// Its name in the table.
    pub name: &'static str,
    /// The change.
    pub change: Change,
}

/// All kinds, in turn.
pub const KINDS: [Kind; 16] = [
    Kind { name: "byte flipped in a file", change: flip_byte },
    Kind { name: "byte flipped in the archive", change: flip_archived },
    Kind { name: "lines swapped", change: |at, _, draw| swap_lines(at, draw, &Files::All) },
    Kind {
        name: "lines swapped, sums made again",
        change: |at, _, draw| again(at, swap_lines(at, draw, &Files::Raw)),
    },
    Kind { name: "line removed, sums made again", change: |at, _, draw| again(at, remove_line(at, draw)) },
    Kind { name: "file removed", change: remove_file },
    Kind {
        name: "file removed, sums made again",
        change: |at, from, draw| again(at, remove_file(at, from, draw)),
    },
    Kind { name: "file renamed", change: rename_file },
    Kind { name: "file added", change: add_file },
    Kind { name: "number edited in a table", change: |at, _, draw| edit_number(at, draw, &Files::Tables) },
    Kind {
        name: "number edited in a table, sums made again",
        change: |at, _, draw| again(at, edit_number(at, draw, &Files::Tables)),
    },
    Kind {
        name: "number edited in raw files, sums made again",
        change: |at, _, draw| again(at, edit_number(at, draw, &Files::Raw)),
    },
    Kind { name: "record edited, its hash in status too, sums made again", change: forge::edit_record },
    Kind { name: "run dropped from folders, log and plan, sums made again", change: forge::drop_run },
    Kind { name: "signature swapped", change: forge::swap_signature },
    Kind { name: "bundle made again without a run, under another key", change: forge::remake },
];

/// Which files.
enum Files {
    All,
    Raw,
    Tables,
}

impl Files {
    fn of(&self, folder: &Path) -> Any<Vec<String>> {
        let wanted = |path: &String| match self {
            Self::All => true,
            Self::Raw => path.starts_with("results/"),
            Self::Tables => path.starts_with("tables/") || path.ends_with("/summary.json"),
        };
        Ok(files_below(folder, 1_000_000)?.into_keys().filter(wanted).collect())
    }

    fn draw(&self, folder: &Path, draw: &mut Stream) -> Any<String> {
        let files = self.of(folder)?;
        Ok(files[draw.below(files.len() as u64) as usize].clone())
    }
}

/// The same change with the sums made again.
fn again(folder: &Path, change: Any<Option<(String, PathBuf)>>) -> Any<Option<(String, PathBuf)>> {
    let change = change?;
    if change.is_some() {
        make_sums(folder)?;
    }
    Ok(change)
}

fn flip_byte(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let path = Files::All.draw(folder, draw)?;
    let mut bytes = fs::read(folder.join(&path))?;
    let at = draw.below(bytes.len().max(1) as u64) as usize;
    let Some(byte) = bytes.get_mut(at) else { return Ok(None) };
    *byte ^= 1 << draw.below(8);
    fs::write(folder.join(&path), bytes)?;
    Ok(Some((format!("{path} byte {at}"), folder.to_path_buf())))
}

fn flip_archived(folder: &Path, original: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let name = format!("{}.tar.zst", original.file_name().unwrap_or_default().to_string_lossy());
    let mut bytes = fs::read(original.with_file_name(name))?;
    let at = draw.below(bytes.len() as u64) as usize;
    bytes[at] ^= 1 << draw.below(8);
    let archive = folder.with_file_name("changed.tar.zst");
    fs::write(&archive, bytes)?;
    Ok(Some((format!("byte {at} of the archive"), archive)))
}

fn swap_lines(folder: &Path, draw: &mut Stream, files: &Files) -> Any<Option<(String, PathBuf)>> {
    let path = files.draw(folder, draw)?;
    let text = read(folder, &path)?;
    let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    if lines.len() < 2 {
        return Ok(None);
    }
    let (a, b) = (draw.below(lines.len() as u64) as usize, draw.below(lines.len() as u64) as usize);
    lines.swap(a, b);
    write(folder, &path, &lines.concat())?;
    Ok(Some((format!("{path} lines {a} and {b}"), folder.to_path_buf())))
}

fn remove_line(folder: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let path = Files::Raw.draw(folder, draw)?;
    let text = read(folder, &path)?;
    let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let at = draw.below(lines.len().max(1) as u64) as usize;
    if lines.is_empty() {
        return Ok(None);
    }
    lines.remove(at);
    write(folder, &path, &lines.concat())?;
    Ok(Some((format!("{path} line {at}"), folder.to_path_buf())))
}

/// Any file but those without which nobody would take the folder for a bundle's is a candidate.
fn remove_file(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let path = Files::All.draw(folder, draw)?;
    if path == "merkle.json" || path == "bundle.json" {
        return Ok(None);
    }
    fs::remove_file(folder.join(&path))?;
    Ok(Some((path, folder.to_path_buf())))
}

fn rename_file(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let path = Files::All.draw(folder, draw)?;
    fs::rename(folder.join(&path), folder.join(format!("{path}x")))?;
    Ok(Some((path, folder.to_path_buf())))
}

fn add_file(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let beside = Files::All.draw(folder, draw)?;
    let path = format!("{beside}.{}", draw.below(1000));
    fs::write(folder.join(&path), "added")?;
    Ok(Some((path, folder.to_path_buf())))
}

/// Another digit in place of one.
fn edit_number(folder: &Path, draw: &mut Stream, files: &Files) -> Any<Option<(String, PathBuf)>> {
    let path = files.draw(folder, draw)?;
    let mut text = read(folder, &path)?;
    let digits: Vec<usize> = (0..text.len()).filter(|&at| text[at].is_ascii_digit()).collect();
    if digits.is_empty() {
        return Ok(None);
    }
    let at = digits[draw.below(digits.len() as u64) as usize];
    text[at] = b'0' + ((text[at] - b'0') + 1 + draw.below(9) as u8) % 10;
    write(folder, &path, &text)?;
    Ok(Some((format!("{path} byte {at}"), folder.to_path_buf())))
}
