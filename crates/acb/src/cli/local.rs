//! Arguments of `acb serve-local`.

use clap::Args;
use std::path::PathBuf;

/// Arguments of `acb serve-local`.
#[derive(Clone, Debug, Args)]
pub struct ServeLocalArgs {
    /// Folder with `config.json`, `model.safetensors` and `tokenizer.json`.
    #[arg(value_name = "FOLDER")]
    pub model: PathBuf,
    /// Adapters: a name, and a folder with `adapter_config.json` and `adapter_model.safetensors`.
    #[arg(long, value_name = "NAME=FOLDER,...", value_delimiter = ',', value_parser = named_folder)]
    pub adapters: Vec<(String, PathBuf)>,
    /// Name of the base model.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub name: String,
    /// Ports, one server with a model of its own each; 0 is any free one.
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', default_value = "0")]
    pub ports: Vec<u16>,
}

fn named_folder(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, folder)) if !name.is_empty() && !folder.is_empty() => {
            Ok((name.to_owned(), folder.into()))
        }
        _ => Err("write NAME=FOLDER".to_owned()),
    }
}
