//! Where a bench's rows go: into files when asked, and into the summary.

use super::recount::Spool;
use super::summary::Summary;
use crate::rows::RowFile;
use acb_live::load::{Names, Served, Sink};
use acb_routing::RoutingRow;
use acb_types::Adapters;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Keeps rows and sums.
pub struct BenchSink {
    /// Task names by id.
    pub tasks: Vec<String>,
    /// Adapter names by id.
    pub adapters: Arc<Adapters>,
    /// Runtime, as said by the user.
    pub engine: String,
    /// The sums.
    pub summary: Summary,
    /// The answers that wait for `--tokenizer`; absent without it.
    pub spool: Option<Spool>,
    /// The files; absent: nothing is recorded.
    pub files: Option<BenchFiles>,
}

/// The row files of a bench.
pub struct BenchFiles {
    requests: RowFile,
    observations: RowFile,
    routing: RowFile,
}

impl BenchFiles {
    /// Starts the files in a folder that exists.
    ///
    /// # Errors
    /// When one can't be created.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let file = |name| RowFile::create(&folder.join(name));
        Ok(Self {
            requests: file("requests.jsonl")?,
            observations: file("observations.jsonl")?,
            routing: file("routing.jsonl")?,
        })
    }

    /// Gives the files their names.
    ///
    /// # Errors
    /// When they can't be written: what is on disk stays under its partial name.
    pub fn finish(self) -> io::Result<()> {
        self.requests.finish()?;
        self.observations.finish()?;
        self.routing.finish()?;
        Ok(())
    }
}

impl Sink for BenchSink {
    fn served(&mut self, served: &Served) -> io::Result<()> {
        self.summary.add(served, &self.adapters);
        if let Some(spool) = &mut self.spool {
            spool.keep(served)?;
        }
        let Some(files) = &mut self.files else { return Ok(()) };
        let names = Names { tasks: &self.tasks, adapters: &self.adapters, engine: &self.engine };
        files.requests.push(&served.record(&names))?;
        for row in served.observations(&names) {
            files.observations.push(&row)?;
        }
        Ok(())
    }

    fn routed(&mut self, row: &RoutingRow) -> io::Result<()> {
        match &mut self.files {
            Some(files) => files.routing.push(row),
            None => Ok(()),
        }
    }
}
