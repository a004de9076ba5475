//! The files that the rules look at: what git tracks or would track; without git, everything but build output.

use std::io;
use std::path::Path;
use std::process::Command;

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Path relative to the repository, with `/` between the parts.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl TextFile {
    /// Whether the name ends with `.extension`.
    pub fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, e)| e == extension)
    }
}

/// All text files below `root`, sorted by path. Files that are not UTF-8 are data and are left out.
///
/// # Errors
/// When a file can't be read.
pub fn text_files(root: &Path) -> io::Result<Vec<TextFile>> {
    let mut paths = listed_by_git(root).map_or_else(|| walked(root), Ok)?;
    paths.sort();
    paths.dedup();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        match std::fs::read_to_string(root.join(&path)) {
            Ok(text) => files.push(TextFile { path, text }),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            // Deleted in the work tree, not yet in the index.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| listed.split_terminator('\0').map(str::to_owned).collect())
}

fn walked(root: &Path) -> io::Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match (entry.file_type()?.is_dir(), name.as_str()) {
                (true, ".git" | "target" | "artifacts") => {}
                (true, _) => folders.push(path),
                (false, _) => found.push(path),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_the_files_are_walked_and_build_output_is_left_out() {
        let found = walked(&crate::root()).expect("the repository can be read");
        assert!(found.iter().any(|path| path == "xtask/src/tree.rs"));
        assert!(found.iter().all(|path| !path.starts_with("target/") && !path.starts_with(".git/")));
    }

    #[test]
    fn paths_are_relative_sorted_and_name_this_file() {
        let files = text_files(&crate::root()).expect("the repository can be read");
        assert!(files.iter().any(|file| file.path == "xtask/src/tree.rs"));
        assert!(files.windows(2).all(|pair| pair[0].path < pair[1].path));
    }
}
