//! From answers to rows on disk.

use crate::rows::RowFile;
use crate::sink::RecordNames;
use acb_live::load::{Names, Served, Sink};
use acb_routing::RoutingRow;
use acb_types::{Outcome, Outcomes, Record};
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
    /// Requests whose answer says that a simulator made it.
    pub simulated: u64,
}

/// What the records of a live cell are made of besides what was seen.
pub struct Words {
    /// Words of the records.
    pub names: RecordNames,
    /// Runtime and version, as the servers say.
    pub engine: String,
    /// What answers are worth.
    pub outcomes: Outcomes,
}

impl Words {
    fn names(&self) -> Names<'_> {
        Names { tasks: &self.names.tasks, adapters: &self.names.adapters, engine: &self.engine }
    }

    /// The record, with what the answer is worth by the experiment's table.
    fn record<'a>(&'a self, served: &'a Served) -> Record<'a> {
        let mut record = served.record(&self.names());
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
        self.simulated += u64::from(served.last().simulated);
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
