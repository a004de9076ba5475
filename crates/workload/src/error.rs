//! What can be wrong with a workload and the files that it reads.

use std::path::PathBuf;

/// Why a workload can't be made, or why it ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The spec asks for something impossible.
    #[error("workload{pointer}: {message}")]
    Spec {
        /// JSON pointer below the workload.
        pointer: String,
        /// What is wrong, with the remedy.
        message: String,
    },
    /// The experiment has no task to ask for.
    #[error("the workload asks for the adapters' tasks and there are none; give the adapters a task each")]
    NoTasks,
    /// The experiment lacks a task that the workload asks for.
    #[error("the workload asks for task \"{0}\", which the experiment does not have; it has {1}")]
    UnknownTask(String, String),
    /// The client names an adapter for a task that has none.
    #[error(
        "adapter_named_by is client and no adapter is a specialist for task \"{0}\"; add one or let the router decide"
    )]
    NoSpecialist(String),
    /// No request could be served.
    #[error(
        "the shortest prompt has {prompt_tokens} tokens and an answer needs one more, which the context of \
         {context_tokens} tokens can't hold; shorten the prompts or raise the context"
    )]
    ContextTooShort {
        /// Tokens of the shortest prompt.
        prompt_tokens: u64,
        /// Tokens that the model can hold.
        context_tokens: u32,
    },
    /// A file can't be opened or read.
    #[error("{}: {source}; check the path (relative paths start from the working directory)", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line of a file is not what its format says.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong, with the remedy.
        message: String,
    },
    /// A file has too few usable rows.
    #[error("{} has {rows} usable rows and {wanted} requests are planned; set requests to at most {rows}", path.display())]
    TooFewRows {
        /// Which file.
        path: PathBuf,
        /// Rows that can be used.
        rows: u64,
        /// Requests planned.
        wanted: u64,
    },
}
