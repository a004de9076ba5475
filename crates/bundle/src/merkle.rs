//! A Merkle tree (RFC 6962, section 2.1) over the files of a bundle; the content of a file of rows is itself a tree over
//! its rows. Who has the root can check every file that he is shown, whatever else is withheld.

use crate::{BundleError, Hash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Longest row that is hashed, bytes: a row file has none like it.
const LONGEST_ROW: u64 = 1 << 26;

/// One file as a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leaf {
    /// Path of the file, before compression.
    pub path: String,
    /// What the file holds.
    #[serde(flatten)]
    pub content: Content,
    /// Whether the file itself is not in this bundle. No part of the leaf's hash: the root is the same with and without.
    pub withheld: bool,
}

/// Hash and size of what a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Content {
    /// Length, bytes.
    pub bytes: u64,
    /// Rows of a file of rows; null for any other.
    pub rows: Option<u64>,
    /// Root of the tree over its rows, or over the whole file as the one leaf.
    pub root: Hash,
}

/// A tree with its leaves: `merkle.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// Version of this document.
    pub v: u32,
    /// Root over all leaves in their order.
    pub root: Hash,
    /// The leaves, by path.
    pub leaves: Vec<Leaf>,
}

impl Tree {
    /// The tree over leaves in their order.
    #[must_use]
    pub fn new(leaves: Vec<Leaf>) -> Self {
        Self { v: 1, root: root_of(leaves.iter().map(Leaf::hash)), leaves }
    }
}

impl Leaf {
    /// The leaf's hash: over path, size, rows and root of the content.
    #[must_use]
    pub fn hash(&self) -> Hash {
        let Content { bytes, rows, root } = &self.content;
        let rows = rows.map_or("-".to_owned(), |rows| rows.to_string());
        leaf_hash(format!("{}\0{bytes}\0{rows}\0{root}", self.path).as_bytes())
    }
}

/// Hashes a file: row by row where its name ends in `.jsonl`, whole otherwise.
///
/// # Errors
/// When it can't be read.
pub fn content_of(path: &Path) -> Result<Content, BundleError> {
    let rows = path.extension().is_some_and(|extension| extension == "jsonl");
    let open = || File::open(path);
    let content = if rows { open().and_then(of_rows) } else { open().and_then(of_whole) };
    content.map_err(BundleError::io(path))
}

fn of_whole(file: File) -> io::Result<Content> {
    let bytes = file.metadata()?.len();
    let root = Hash::of_reader(io::Read::chain(&[0u8][..], BufReader::new(file)))?;
    Ok(Content { bytes, rows: None, root })
}

/// A row ends with its line end, so that the rows together are exactly the file.
fn of_rows(file: File) -> io::Result<Content> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut nodes, mut row, mut bytes, mut rows) = (Nodes::default(), Vec::new(), 0, 0);
    loop {
        row.clear();
        let read = io::Read::take(&mut reader, LONGEST_ROW + 1).read_until(b'\n', &mut row)? as u64;
        match read {
            0 => return Ok(Content { bytes, rows: Some(rows), root: nodes.root() }),
            read if read > LONGEST_ROW => {
                return Err(io::Error::other(format!("row {} has more than {LONGEST_ROW} bytes", rows + 1)));
            }
            _ => nodes.push(leaf_hash(&row)),
        }
        (bytes, rows) = (bytes + read, rows + 1);
    }
}

/// Root of a tree over leaf hashes; of no leaves, the hash of nothing.
#[must_use]
pub fn root_of(leaves: impl Iterator<Item = Hash>) -> Hash {
    let mut nodes = Nodes::default();
    leaves.for_each(|leaf| nodes.push(leaf));
    nodes.root()
}

fn leaf_hash(bytes: &[u8]) -> Hash {
    Hash::of_parts(&[&[0], bytes])
}

fn node_hash(left: Hash, right: Hash) -> Hash {
    Hash::of_parts(&[&[1], &left.0, &right.0])
}

/// Whole subtrees so far, the largest first, each with its number of leaves: as many as the count has binary ones.
#[derive(Default)]
struct Nodes(Vec<(u64, Hash)>);

impl Nodes {
    fn push(&mut self, leaf: Hash) {
        let mut node = (1, leaf);
        while let Some(left) = self.0.pop_if(|left| left.0 == node.0) {
            node = (2 * node.0, node_hash(left.1, node.1));
        }
        self.0.push(node);
    }

    fn root(self) -> Hash {
        let hashes = self.0.into_iter().rev().map(|node| node.1);
        hashes.reduce(|right, left| node_hash(left, right)).unwrap_or_else(|| Hash::of(b""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of RFC 6962, section 2.1, to the letter.
    fn by_definition(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Hash::of(b""),
            [leaf] => *leaf,
            _ => {
                let left = leaves.len().next_power_of_two() / 2;
                node_hash(by_definition(&leaves[..left]), by_definition(&leaves[left..]))
            }
        }
    }

    #[test]
    fn the_root_is_that_of_the_definition_for_every_count() {
        let leaves: Vec<Hash> = (0u8..70).map(|n| leaf_hash(&[n])).collect();
        for count in 0..leaves.len() {
            assert_eq!(root_of(leaves[..count].iter().copied()), by_definition(&leaves[..count]), "{count}");
        }
        // The empty leaf and the empty tree are told apart.
        assert_eq!(
            root_of([leaf_hash(b"")].into_iter()).to_string(),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
        );
    }

    #[test]
    fn a_withheld_file_leaves_the_root_as_it_was_and_any_change_of_a_leaf_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "one\ntwo\nthree").unwrap();
        let content = content_of(&path).unwrap();
        assert_eq!((content.bytes, content.rows), (13, Some(3)));
        let rows: Vec<Hash> =
            ["one\n", "two\n", "three"].iter().map(|row| leaf_hash(row.as_bytes())).collect();
        assert_eq!(content.root, by_definition(&rows));
        let leaf = Leaf { path: "a.jsonl".into(), content, withheld: false };
        let root = Tree::new(vec![leaf.clone()]).root;
        assert_eq!(Tree::new(vec![Leaf { withheld: true, ..leaf.clone() }]).root, root);
        let moved = Leaf { path: "b.jsonl".into(), ..leaf.clone() };
        let longer = Leaf { content: Content { bytes: 14, ..content }, ..leaf };
        assert!([moved, longer].into_iter().all(|leaf| Tree::new(vec![leaf]).root != root));
    }
}
