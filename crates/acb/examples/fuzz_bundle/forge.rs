//! Changes by somebody who knows how a bundle is made, and has everything but the key.

use crate::bundle::{Any, edit_json, make_sums, read, results, write};
use acb::bundle::{Asked, Gaps, Withhold, build};
use acb_bundle::SecretKey;
use acb_evidence::{LogEntry, LogEvent, RunLog};
use acb_types::{Digest, Stream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of the run folders of results.
fn runs(results: &Path) -> Any<Vec<String>> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(results)? {
        let entry = entry?;
        if entry.path().join("status.json").is_file() {
            runs.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    runs.sort();
    Ok(runs)
}

fn draw_run(results: &Path, draw: &mut Stream) -> Any<String> {
    let runs = runs(results)?;
    Ok(runs[draw.below(runs.len() as u64) as usize].clone())
}

/// A record's first token comes a little earlier, and the status has the hash of the new rows.
pub fn edit_record(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let run = draw_run(&folder.join("results"), draw)?;
    let path = format!("results/{run}/requests.jsonl.zst");
    let text = String::from_utf8(read(folder, &path)?)?;
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = draw.below(rows.len() as u64) as usize;
    let mut row: Json = serde_json::from_str(&rows[at])?;
    let Some(first) = row["first_token_ns"].as_u64() else { return Ok(None) };
    let due = row["sent_ns"].as_u64().unwrap_or(0).max(row["admitted_ns"].as_u64().unwrap_or(0));
    if first <= due + 1 {
        return Ok(None);
    }
    row["first_token_ns"] = Json::from(due + (first - due) / 2);
    rows[at] = serde_json::to_string(&row)?;
    let text = rows.join("\n") + "\n";
    write(folder, &path, text.as_bytes())?;
    let digest = Digest::of(text.as_bytes());
    edit_json(folder, &format!("results/{run}/status.json"), |status| {
        status["record_digest"] = Json::from(digest.as_str());
    })?;
    make_sums(folder)?;
    Ok(Some((format!("{run} record {at}"), folder.to_path_buf())))
}

/// The log without a run, with its chain made again.
fn forget(log: &RunLog, run: &str) -> Any<()> {
    let entries = log.read()?;
    fs::remove_file(log.path())?;
    let about = |entry: &LogEntry| match &entry.event {
        LogEvent::Started { run_id, .. } | LogEvent::Ended { run_id, .. } => run_id == run,
        _ => false,
    };
    for entry in entries.into_iter().filter(|entry| !about(entry)) {
        log.append(entry.unix_ms, entry.event)?;
    }
    Ok(())
}

/// A run that nobody is to know of: gone from folders, log and plan.
pub fn drop_run(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let results = folder.join("results");
    let run = draw_run(&results, draw)?;
    fs::remove_dir_all(results.join(&run))?;
    forget(&RunLog::of(&results), &run)?;
    for sweep in fs::read_dir(results.join("_sweeps"))? {
        let path = format!("results/_sweeps/{}/sweep_plan.json", sweep?.file_name().to_string_lossy());
        edit_json(folder, &path, |plan| {
            if let Some(runs) = plan["runs"].as_array_mut() {
                runs.retain(|planned| planned["run_id"] != run.as_str());
            }
        })?;
    }
    make_sums(folder)?;
    Ok(Some((run, folder.to_path_buf())))
}

/// Signatures of the two statements exchanged, made by another key, or taken away.
pub fn swap_signature(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    const PATHS: [&str; 2] = ["attestations/test-result.dsse.json", "attestations/provenance.dsse.json"];
    let envelope = |path: &str| -> Any<Json> { Ok(serde_json::from_slice(&fs::read(folder.join(path))?)?) };
    let envelopes = [envelope(PATHS[0])?, envelope(PATHS[1])?];
    let other = SecretKey::from_seed(&std::array::from_fn(|_| draw.below(256) as u8));
    let n = draw.below(2) as usize;
    let how = draw.below(4);
    match how {
        0 => edit_json(folder, PATHS[n], |to| to["signatures"] = envelopes[1 - n]["signatures"].clone())?,
        1 | 2 => {
            let payload = STANDARD.decode(envelopes[n]["payload"].as_str().unwrap_or_default())?;
            let signed = acb_bundle::Envelope::sign(&payload, &other);
            let mut forged = serde_json::to_value(&signed)?;
            if how == 1 {
                forged["signatures"][0]["keyid"] = envelopes[n]["signatures"][0]["keyid"].clone();
            }
            edit_json(folder, PATHS[n], |to| to["signatures"] = forged["signatures"].clone())?;
        }
        _ => {
            fs::remove_dir_all(folder.join("attestations"))?;
            fs::remove_file(folder.join("public_key.pem"))?;
            edit_json(folder, "bundle.json", |bundle| bundle["signed_by"] = Json::Null)?;
            make_sums(folder)?;
        }
    }
    let words = ["exchanged", "by another key under this name", "by another key", "taken away"];
    Ok(Some((format!("{} of {}", words[how as usize], PATHS[n]), folder.to_path_buf())))
}

/// All of it made again by the program itself, as if the run had never been, and signed by another key.
pub fn remake(folder: &Path, _: &Path, draw: &mut Stream) -> Any<Option<(String, PathBuf)>> {
    let forged = folder.with_file_name("results");
    results(folder, &forged)?;
    let run = draw_run(&forged, draw)?;
    fs::remove_dir_all(forged.join(&run))?;
    forget(&RunLog::of(&forged), &run)?;
    let key = SecretKey::from_seed(&std::array::from_fn(|_| draw.below(256) as u8));
    let out = folder.with_file_name("remade");
    let asked = Asked {
        results: &forged,
        out: &out,
        key: Some(&key),
        gaps: Gaps::Declare,
        withhold: Withhold::Nothing,
    };
    build(&asked)?;
    Ok(Some((run, out)))
}
