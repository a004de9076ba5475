//! Quality of an answer by task and adapter: a table of expected values, and the draw for one request.

use crate::{AdapterId, Request, Seed, TaskId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Expected quality in [0, 1] for each task (rows) and each of base, adapter 0, adapter 1, ... (columns).
/// Used both as hidden truth (outcome table) and as a router's belief (prior); they are never the same object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualityTable {
    tasks: usize,
    columns: usize,
    values: Vec<f64>,
}

/// Why a table can't be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QualityTableError {
    /// A value is not a number from 0 to 1.
    #[error("quality {value} of task {task}, column {column} is not in 0..=1")]
    OutOfRange {
        /// The value found.
        value: f64,
        /// Its row.
        task: usize,
        /// Its column, 0 for base.
        column: usize,
    },
}

impl QualityTable {
    /// A table from a function of (task, adapter or none for base).
    ///
    /// # Errors
    /// When a value is NaN or outside [0, 1].
    pub fn from_fn(
        tasks: usize,
        adapters: usize,
        mut value: impl FnMut(TaskId, Option<AdapterId>) -> f64,
    ) -> Result<Self, QualityTableError> {
        let columns = adapters + 1;
        let mut values = Vec::with_capacity(tasks * columns);
        for task in 0..tasks {
            for column in 0..columns {
                let adapter = (column > 0).then(|| AdapterId(column as u32 - 1));
                let value = value(TaskId(task as u32), adapter);
                if !(0.0..=1.0).contains(&value) {
                    return Err(QualityTableError::OutOfRange { value, task, column });
                }
                values.push(value);
            }
        }
        Ok(Self { tasks, columns, values })
    }

    /// Expected quality of `adapter` (none: base) on `task`.
    ///
    /// # Panics
    /// When the task or adapter is outside the table, which only our own bug can cause.
    #[must_use]
    pub fn expected(&self, task: TaskId, adapter: Option<AdapterId>) -> f64 {
        let column = adapter.map_or(0, |a| a.index() + 1);
        assert!(
            column < self.columns && task.index() < self.tasks,
            "task {task}, column {column} outside the table"
        );
        self.values[task.index() * self.columns + column]
    }

    /// Rows.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Adapters, base not counted.
    #[must_use]
    pub fn adapters(&self) -> usize {
        self.columns - 1
    }
}

/// What each answer is worth: a hidden table, and one hidden difficulty per request that all adapters face alike,
/// so that arms of a block are paired. The answer of `adapter` is right (1) when the difficulty lies below its
/// expected quality, else wrong (0).
#[derive(Clone, Debug)]
pub struct Outcomes {
    table: Arc<QualityTable>,
    difficulty: Seed,
}

impl Outcomes {
    /// Outcomes under this table; `seed` is the block's, so that every arm meets the same difficulties.
    #[must_use]
    pub fn new(table: impl Into<Arc<QualityTable>>, seed: Seed) -> Self {
        Self { table: table.into(), difficulty: seed.child("difficulty") }
    }

    /// Realised quality of this request's answer by `adapter`: 0 or 1.
    #[must_use]
    pub fn quality(&self, request: &Request, adapter: Option<AdapterId>) -> f64 {
        let difficulty = self.difficulty.unit(request.ask);
        f64::from(u8::from(difficulty < self.table.expected(request.task, adapter)))
    }

    /// The hidden table.
    #[must_use]
    pub fn table(&self) -> &QualityTable {
        &self.table
    }
}
