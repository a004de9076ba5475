//! A real model on the CPU, in this process: a Hugging Face folder of the Qwen2 or Llama architecture with LoRA adapters of
//! PEFT, in f32 on candle. For small models whose answers matter and whose speed does not: one sequence at a time.
//!
//! Everything is behind the feature `candle`, so that a build without it needs no tensor library.
#![cfg(feature = "candle")]

mod adapter;
mod config;
mod error;
mod generate;
mod layer;
mod model;
mod server;
mod weights;
mod wire;

pub use config::Architecture;
pub use error::LocalError;
pub use generate::{Answer, Ends, LocalModel, Stop};
pub use server::LocalServer;
