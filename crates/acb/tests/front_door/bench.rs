//! A folder of its own for each test, with the small experiment in it, and the program to run there.

use acb::clock::Stopwatch;
use acb_types::Digest;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// 5 arms (one is the A/A replicate) in 6 blocks of 60 requests.
pub const SMALL: &str = include_str!("small.yaml");
/// Cells of the small experiment.
pub const CELLS: usize = 30;
/// The longest that any test waits for a process, s.
const PATIENCE_S: u64 = 120;

/// A working folder with `small.yaml` in it.
pub struct Bench(TempDir);

/// How a command ended.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Bench {
    pub fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.write("small.yaml", SMALL);
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Runs `acb` with these words here.
    pub fn acb(&self, words: &str, more: &[&str]) -> Ended {
        self.command(words, more).output().unwrap().into()
    }

    /// The same, which must succeed.
    pub fn done(&self, words: &str, more: &[&str]) -> Ended {
        let ended = self.acb(words, more);
        assert_eq!(ended.code, Some(0), "acb {words} {more:?}\n{}{}", ended.out, ended.err);
        ended
    }

    /// Starts `acb` and goes on at once; what it prints is thrown away.
    pub fn start(&self, words: &str, more: &[&str]) -> Child {
        self.command(words, more).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn command(&self, words: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acb"));
        command.current_dir(self.0.path()).args(words.split_whitespace()).args(more);
        command
    }

    /// Every file below a folder, by its path from there.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let (root, mut found) = (self.path(folder), BTreeMap::new());
        collect(&root, &root, &mut found);
        found
    }

    /// The row files of all runs, by their path from the output folder.
    pub fn rows(&self, output: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.files(output);
        // The log of runs has the times of its lines, which no two sweeps share.
        files.retain(|path, _| path.ends_with(".jsonl") && path != "run_log.jsonl");
        files
    }

    pub fn json(&self, name: &str) -> Json {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Run folders by the state in their status.
    pub fn states(&self, output: &str) -> BTreeMap<String, String> {
        let runs = fs::read_dir(self.path(output)).into_iter().flatten().map(|run| run.unwrap().path());
        let state = |run: PathBuf| {
            let status: Json = serde_json::from_slice(&fs::read(run.join("status.json")).ok()?).unwrap();
            let name = run.file_name().unwrap().to_string_lossy().into_owned();
            Some((name, status["state"].as_str().unwrap().to_owned()))
        };
        runs.filter_map(state).collect()
    }

    /// Number of runs in a state.
    pub fn count(&self, output: &str, state: &str) -> usize {
        self.states(output).values().filter(|found| *found == state).count()
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ended {
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// Ended with this status, and said all of these words.
    pub fn says(&self, code: i32, words: &[&str]) {
        let all = format!("{}{}", self.out, self.err);
        assert_eq!(self.code, Some(code), "{all}");
        // A cell of a table may have been broken over several lines.
        let flat = all.split(|c: char| c.is_whitespace() || c == '|').filter(|word| !word.is_empty());
        let flat = flat.collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(flat.contains(word), "{word:?} is not in:\n{all}");
        }
    }
}

fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
}

/// Looks again and again until something is so; fails when that takes too long.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !so() {
        assert!(watch.elapsed().as_secs() < PATIENCE_S, "waited {PATIENCE_S} s in vain: {what}");
        // Whatever is waited for needs the processor more than this loop does.
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Waits for the end of a process; its exit status.
pub fn wait(mut child: Child) -> Option<i32> {
    let mut code = None;
    until("the end of a process", || {
        let ended = child.try_wait().unwrap();
        code = ended.and_then(|status| status.code());
        ended.is_some()
    });
    code
}

/// The first difference between two sets of files, by hash.
pub fn assert_same_files(expected: &BTreeMap<String, Vec<u8>>, found: &BTreeMap<String, Vec<u8>>) {
    let hashes = |files: &BTreeMap<String, Vec<u8>>| -> BTreeMap<String, String> {
        files.iter().map(|(name, bytes)| (name.clone(), Digest::of(bytes).short().to_owned())).collect()
    };
    assert_eq!(hashes(expected), hashes(found));
}
