//! From answers to rows on disk.

use crate::rows::RowFile;
use crate::sink::RecordNames;
use acb_live::load::{Names, Served, Sink};
use acb_routing::RoutingRow;
use acb_types::{Outcome, Outcomes, Record, Source};
use std::borrow::Cow;
use std::io;

/// Writes the rows of one live cell.
pub struct LiveSink {
    /// What records repeat, and what answers are worth.
    pub words: Words,
    /// `requests.jsonl`.
    pub requests: RowFile,
    /// `observations.jsonl`.
    pub observations: RowFile,
    /// `routing.jsonl`, when asked for.
    pub routing: Option<RowFile>,
}

/// What the records of a live cell are made of besides what was seen.
pub struct Words {
    /// Words of the records.
    pub names: RecordNames,
    /// Runtime and version, as the servers say.
    pub engine: String,
    /// What answers are worth.
    pub outcomes: Outcomes,
    /// What the servers said of themselves before the run: a request that never reached one is of the same source.
    pub source: Source,
}

impl Words {
    fn names(&self) -> Names<'_> {
        Names { tasks: &self.names.tasks, adapters: &self.names.adapters, engine: &self.engine }
    }

    /// The record, with what the answer is worth by the experiment's table.
    fn record<'a>(&'a self, served: &'a Served) -> Record<'a> {
        let mut record = served.record(&self.names());
        // An answer that calls itself simulated stays that, and a run that didn't expect it is refused when it is read.
        if self.source == Source::Simulated {
            record.source = Source::Simulated;
        }
        record.absent.remove("quality");
        record.quality = Some(match record.outcome {
            Outcome::Ok => self.outcomes.quality(&served.request, served.decision.adapter),
            _ => 0.0,
        });
        record.quality_source = Cow::Borrowed(self.names.quality_source);
        record
    }
}

impl Sink for LiveSink {
    fn served(&mut self, served: &Served) -> io::Result<()> {
        self.requests.push(&self.words.record(served))?;
        for row in served.observations(&self.words.names()) {
            self.observations.push(&row)?;
        }
        Ok(())
    }

    fn routed(&mut self, row: &RoutingRow) -> io::Result<()> {
        match &mut self.routing {
            Some(file) => file.push(row),
            None => Ok(()),
        }
    }
}
