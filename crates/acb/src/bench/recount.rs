//! `--tokenizer`: tokens of the answers counted again, after the run, beside what the server counted.
//!
//! Text does not tell the tokens that made it: text that was generated token by token may be written in fewer, and a tokenizer
//! that is not the model's counts anything. So the server's count stays the one that latencies are divided by, and this one
//! only shows how far the two are apart. During the run answers are only copied to a temporary file.

use acb_live::load::{Phase, Served};
use miette::miette;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::path::Path;
use tokenizers::Tokenizer;

/// Answers that wait to be counted.
pub struct Spool(BufWriter<File>);

/// One of them.
#[derive(Serialize, Deserialize)]
struct Answer {
    /// The server's count; absent when it gave none.
    servers: Option<u32>,
    text: String,
}

/// Tokens of the answers by two counts. Only answers that ended well and that the server counted are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recount {
    /// Answers compared.
    pub answers: u64,
    /// Answers of which the two counts differ.
    pub differ: u64,
    /// Tokens by the server's count.
    pub servers: u64,
    /// Tokens by the tokenizer's.
    pub tokenizers: u64,
    /// Answers that the server did not count.
    pub uncounted: u64,
}

/// The tokenizer, and a place for the answers.
///
/// # Errors
/// When the file is no tokenizer, or there is no room for a temporary file.
pub fn prepare(path: &Path) -> miette::Result<(Tokenizer, Spool)> {
    let tokenizer = Tokenizer::from_file(path).map_err(|error| {
        miette!("--tokenizer {}: {error}; give the tokenizer.json of a model's folder", path.display())
    })?;
    let file = tempfile::tempfile()
        .map_err(|error| miette!("--tokenizer: no temporary file: {error}; make room, or set TMPDIR"))?;
    Ok((tokenizer, Spool(BufWriter::new(file))))
}

impl Spool {
    /// Keeps an answer that ended well; those of the warm-up are part of no figure.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn keep(&mut self, served: &Served) -> io::Result<()> {
        let seen = served.last();
        let Some(text) = seen.text.clone().filter(|_| seen.is_ok() && served.phase != Phase::Warmup) else {
            return Ok(());
        };
        serde_json::to_writer(&mut self.0, &Answer { servers: seen.output_tokens(), text })?;
        self.0.write_all(b"\n")
    }

    /// Counts all that was kept.
    ///
    /// # Errors
    /// When the answers can't be read back, or the tokenizer fails on one.
    pub fn recount(self, tokenizer: &Tokenizer) -> miette::Result<Recount> {
        let fault = |error: &dyn fmt::Display| miette!("--tokenizer: the answers can't be counted: {error}");
        let mut file = self.0.into_inner().map_err(|error| fault(&error))?;
        file.rewind().map_err(|error| fault(&error))?;
        let mut sums = Recount::default();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| fault(&error))?;
            let answer: Answer = serde_json::from_str(&line).map_err(|error| fault(&error))?;
            let Some(servers) = answer.servers else {
                sums.uncounted += 1;
                continue;
            };
            let tokens = tokenizer.encode_fast(answer.text, false).map_err(|error| fault(&error))?.len();
            sums.answers += 1;
            sums.differ += u64::from(tokens != servers as usize);
            sums.servers += u64::from(servers);
            sums.tokenizers += tokens as u64;
        }
        Ok(sums)
    }
}

/// `16 by the server, 32 by the tokenizer: DIFFER in 1 of 1 answers; ...`
impl fmt::Display for Recount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, differ, servers, tokenizers, uncounted } = self;
        write!(f, "{servers} by the server, {tokenizers} by the tokenizer")?;
        match differ {
            0 => write!(f, ", alike in all {answers} answers")?,
            _ => {
                write!(f, ": MISMATCH in {differ} of {answers} answers; times per token are by the server's")?
            }
        }
        if *uncounted > 0 {
            write!(f, " ({uncounted} answers that the server did not count)")?;
        }
        Ok(())
    }
}
