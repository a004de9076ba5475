//! A bundle's folder as whoever changes it sees it.

use acb_bundle::{Hash, Leaf, Sums, Tree, compress, content_of, decompress, files_below};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

/// What any step here may end with.
pub type Any<T> = Result<T, Box<dyn Error>>;

/// What every file holds, compressed ones unpacked; one that can't be unpacked holds what it is.
pub fn contents(folder: &Path) -> Any<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for path in files_below(folder, 1_000_000)?.into_keys() {
        let bytes = read(folder, &path).or_else(|_| fs::read(folder.join(&path)))?;
        all.insert(path, bytes);
    }
    Ok(all)
}

/// Copies all files.
pub fn copy(from: &Path, to: &Path) -> Any<()> {
    for path in files_below(from, 1_000_000)?.into_keys() {
        let target = to.join(&path);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(from.join(&path), target)?;
    }
    Ok(())
}

/// What a file holds, unpacked.
pub fn read(folder: &Path, path: &str) -> std::io::Result<Vec<u8>> {
    let bytes = fs::read(folder.join(path))?;
    match path.ends_with(".zst") {
        true => zstd::decode_all(&bytes[..]),
        false => Ok(bytes),
    }
}

/// Writes what a file holds, packed where its name says so.
pub fn write(folder: &Path, path: &str, bytes: &[u8]) -> Any<()> {
    let target = folder.join(path);
    if !path.ends_with(".zst") {
        return Ok(fs::write(target, bytes)?);
    }
    let plain = target.with_extension("plain");
    fs::write(&plain, bytes)?;
    if target.exists() {
        fs::remove_file(&target)?;
    }
    compress(&plain, &target)?;
    Ok(fs::remove_file(plain)?)
}

/// Tree, root and sums as they would be if what lies there had always been so: whatever needs no key.
pub fn make_sums(folder: &Path) -> Any<()> {
    let old: Tree = serde_json::from_slice(&fs::read(folder.join("merkle.json"))?)?;
    let mut leaves: Vec<Leaf> = old.leaves.into_iter().filter(|leaf| leaf.withheld).collect();
    let work = tempfile::tempdir()?;
    let files: Vec<String> = files_below(folder, 1_000_000)?.into_keys().collect();
    for stored in files.iter().filter(|path| path.starts_with("results/") || path.starts_with("data/")) {
        let path = stored.strip_suffix(".zst").unwrap_or(stored).to_owned();
        let plain = work.path().join(path.replace('/', "_"));
        fs::write(&plain, read(folder, stored)?)?;
        leaves.push(Leaf { content: content_of(&plain)?, path, withheld: false });
    }
    leaves.sort_by(|a, b| a.path.cmp(&b.path));
    let tree = Tree::new(leaves);
    edit_json(folder, "bundle.json", |bundle| bundle["merkle_root"] = Json::String(tree.root.to_string()))?;
    fs::write(folder.join("merkle.json"), serde_json::to_string_pretty(&tree)? + "\n")?;
    let mut sums = Sums::default();
    for path in files.iter().filter(|path| !path.starts_with("attestations/") && *path != Sums::FILE) {
        sums.0.insert(path.clone(), Hash::of(&fs::read(folder.join(path))?));
    }
    Ok(fs::write(folder.join(Sums::FILE), sums.text())?)
}

/// Changes a JSON document and writes it in the form that all of ours have.
pub fn edit_json(folder: &Path, path: &str, edit: impl FnOnce(&mut Json)) -> Any<()> {
    let mut document: Json = serde_json::from_slice(&fs::read(folder.join(path))?)?;
    edit(&mut document);
    Ok(fs::write(folder.join(path), serde_json::to_string_pretty(&document)? + "\n")?)
}

/// The raw files as a results folder, with rows unpacked.
pub fn results(folder: &Path, to: &Path) -> Any<()> {
    let tree: Tree = serde_json::from_slice(&fs::read(folder.join("merkle.json"))?)?;
    for leaf in tree.leaves {
        let Some(path) = leaf.path.strip_prefix("results/") else { continue };
        let target = to.join(path);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        let packed = folder.join(format!("{}.zst", leaf.path));
        match packed.exists() {
            true => decompress(&packed, &target, leaf.content.bytes)?,
            false => fs::copy(folder.join(&leaf.path), &target).map(|_| ())?,
        }
    }
    Ok(())
}
