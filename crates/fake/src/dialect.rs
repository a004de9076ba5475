//! Which server is spoken for.

use acb_sim::{ClusterSpec, EngineSpec};

/// A server's dialect of the OpenAI API; it follows from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// vLLM: an adapter is a model of its own.
    Vllm,
    /// SGLang: an adapter is `base:adapter` or `lora_path`; any other model name is served by base, without a word.
    Sglang,
}

impl Dialect {
    /// The dialect of a cluster's engine.
    #[must_use]
    pub fn of(spec: &ClusterSpec) -> Self {
        match spec.engine {
            EngineSpec::Vllm(_) => Self::Vllm,
            EngineSpec::Sglang(_) => Self::Sglang,
        }
    }
}
