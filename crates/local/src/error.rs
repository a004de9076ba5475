//! What can be wrong with a model's folder, or with a question to it.

use std::path::{Path, PathBuf};

/// Why a model can't be loaded or asked.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A file is not there or can't be read.
    #[error("{}: {source}; a model's folder has config.json, model.safetensors and tokenizer.json, an adapter's adapter_config.json and adapter_model.safetensors", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A file is there and says something that this engine can't do.
    #[error("{}: {message}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it says, and what would do.
        message: String,
    },
    /// A tensor that the architecture needs is missing, or has another shape than the configuration says.
    #[error("tensor {name}: {message}")]
    Tensor {
        /// Its name in the file.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// An adapter that nobody loaded.
    #[error("adapter \"{0}\" is not loaded")]
    UnknownAdapter(String),
    /// A prompt with no token, or that leaves no room for an answer.
    #[error("a prompt of {tokens} tokens with {asked} to be generated; the model takes 1 to {most} in all")]
    Length {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens asked for.
        asked: usize,
        /// Positions of the model.
        most: usize,
    },
    /// A token that is not in the vocabulary.
    #[error("token {token} is not in the vocabulary of {vocabulary}")]
    Token {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// The tokenizer failed on a text.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A port or a thread can't be had.
    #[error("port {port}: {source}; choose another port, or 0 for any free one")]
    Serve {
        /// The port asked for.
        port: u16,
        /// The system's words.
        source: std::io::Error,
    },
    /// The tensor library failed.
    #[error("tensor library: {0}")]
    Candle(#[from] candle_core::Error),
}

impl LocalError {
    pub(crate) fn unsupported(path: &Path, message: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_path_buf(), message: message.into() }
    }
}

/// Reads a JSON file of a model's folder.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, LocalError> {
    let text = std::fs::read(path).map_err(|source| LocalError::Read { path: path.to_path_buf(), source })?;
    serde_json::from_slice(&text).map_err(|error| LocalError::unsupported(path, error.to_string()))
}
