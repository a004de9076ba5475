//! Changes a bundle in many ways and asks `verify` each time: every change must be found. Run by `scripts/fuzz_bundle.sh`.
//!
//!   fuzz_bundle BUNDLE PUBLIC_KEY [MUTATIONS [SEED]]
//!
//! BUNDLE is a signed bundle's folder with its archive beside it. A change that leaves the content of every file as it was
//! (zstd can say the same in several ways) is not counted and drawn again. Each changed bundle is checked twice: with the
//! public key, which must find all, and without, which shows what the contradictions alone give away.

mod bundle;
mod forge;
mod mutate;

use acb::bundle::verify;
use acb_bundle::{BundleError, Limits, PublicKey};
use acb_types::Seed;
use bundle::{contents, copy};
use mutate::{KINDS, Kind};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

const LIMITS: Limits = Limits { bytes: 1 << 30, files: 100_000 };

/// What became of the changes of one kind.
#[derive(Default)]
struct Count {
    tried: u64,
    found: u64,
    without_key: u64,
    checks: BTreeMap<&'static str, u64>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| words.get(n).map_or(Some(default), |word| word.parse().ok());
    let (Some(bundle), Some(key), Some(mutations), Some(seed)) =
        (words.first(), words.get(1), number(2, 500), number(3, 1))
    else {
        eprintln!("usage: fuzz_bundle BUNDLE PUBLIC_KEY [MUTATIONS [SEED]]");
        return ExitCode::from(2);
    };
    match run(Path::new(bundle), Path::new(key), mutations, seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz_bundle: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether every change was found.
fn run(bundle: &Path, key: &Path, mutations: u64, seed: u64) -> Result<bool, Box<dyn std::error::Error>> {
    let key = PublicKey::read(key)?;
    let untouched = verify(bundle, Some(&key), LIMITS)?;
    if !untouched.holds {
        return Err(format!("the untouched bundle does not hold: {:?}", untouched.faults).into());
    }
    let whole = contents(bundle)?;
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let mut draw = Seed(seed).stream("bundle-mutations");
    let (mut done, mut missed) = (0, Vec::new());
    while done < mutations {
        let kind: &Kind = &KINDS[(done % KINDS.len() as u64) as usize];
        let work = tempfile::tempdir()?;
        let target = work.path().join("changed");
        copy(bundle, &target)?;
        let Some((what, changed)) = (kind.change)(&target, bundle, &mut draw)? else { continue };
        // An archive that no longer opens is no longer the same.
        if changed.is_dir() && contents(&changed).is_ok_and(|contents| contents == whole) {
            continue;
        }
        if changed.is_file() && same_archive(&changed, bundle)? {
            continue;
        }
        done += 1;
        let count = counts.entry(kind.name).or_default();
        count.tried += 1;
        let check = found(&changed, Some(&key))?;
        count.without_key += u64::from(found(&changed, None)?.is_some());
        match check {
            Some(check) => {
                count.found += 1;
                *count.checks.entry(check).or_default() += 1;
            }
            None => missed.push(format!("{}: {what}", kind.name)),
        }
    }
    print(&counts, mutations);
    missed.iter().for_each(|missed| println!("NOT FOUND {missed}"));
    Ok(missed.is_empty())
}

/// The first check that a bundle fails; `None` when it holds.
fn found(bundle: &Path, key: Option<&PublicKey>) -> Result<Option<&'static str>, BundleError> {
    let verification = verify(bundle, key, LIMITS)?;
    Ok(verification.faults.first().map(|finding| finding.check.name()))
}

/// Whether an archive unpacks to what a folder holds.
fn same_archive(archive: &Path, folder: &Path) -> Result<bool, Box<dyn std::error::Error>> {
    let work = tempfile::tempdir()?;
    let unpacked = acb_bundle::unpack(archive, work.path(), LIMITS);
    Ok(unpacked.is_ok() && contents(work.path())? == contents(folder)?)
}

fn print(counts: &BTreeMap<&str, Count>, mutations: u64) {
    println!("| change | tried | found with the key | found without | first check that fails (times) |");
    println!("| --- | ---: | ---: | ---: | --- |");
    let mut all = Count::default();
    for (name, count) in counts {
        let checks: Vec<String> = count.checks.iter().map(|(check, n)| format!("{check} {n}")).collect();
        let Count { tried, found, without_key, .. } = count;
        println!("| {name} | {tried} | {found} | {without_key} | {} |", checks.join(", "));
        all.found += found;
        all.without_key += without_key;
    }
    println!("\n{} found of {mutations} ({} without the public key)", all.found, all.without_key);
}
