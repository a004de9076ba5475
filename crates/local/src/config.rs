//! `config.json` of a Hugging Face folder, as far as the two architectures need it.

use crate::error::{LocalError, read_json};
use serde::Deserialize;
use serde_json::Value as Json;
use std::path::Path;

/// The architectures that are known here. They differ in the biases of the attention's projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `Qwen2ForCausalLM`: biases at query, key and value.
    Qwen2,
    /// `LlamaForCausalLM`: no biases.
    Llama,
}

/// The file as it is written; what is not named here does not change the result, or is refused by [`Raw::check`].
#[derive(Deserialize)]
struct Raw {
    architectures: Vec<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    hidden_act: String,
    rope_theta: Option<f64>,
    rope_scaling: Option<Json>,
    /// Newer versions of transformers write both of the above here.
    rope_parameters: Option<RopeParameters>,
    eos_token_id: Option<Json>,
}

#[derive(Deserialize)]
struct RopeParameters {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
}

/// What the model is built from.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) architecture: Architecture,
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) vocabulary: usize,
    pub(crate) positions: usize,
    pub(crate) epsilon: f64,
    pub(crate) tied: bool,
    pub(crate) theta: f64,
    /// Tokens that end an answer.
    pub(crate) ends: Vec<u32>,
}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self, LocalError> {
        let raw: Raw = read_json(path)?;
        let architecture = raw.check().map_err(|message| LocalError::unsupported(path, message))?;
        let parameters = raw.rope_parameters.as_ref();
        Ok(Self {
            architecture,
            hidden: raw.hidden_size,
            intermediate: raw.intermediate_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            kv_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
            head_dim: raw.head_dim.unwrap_or(raw.hidden_size / raw.num_attention_heads),
            vocabulary: raw.vocab_size,
            positions: raw.max_position_embeddings,
            epsilon: raw.rms_norm_eps,
            tied: raw.tie_word_embeddings,
            theta: raw.rope_theta.or(parameters.and_then(|p| p.rope_theta)).unwrap_or(10_000.0),
            ends: ends(raw.eos_token_id.as_ref()),
        })
    }
}

impl Raw {
    /// The architecture, if nothing asks for what is not built here.
    fn check(&self) -> Result<Architecture, String> {
        let architecture = match self.architectures.first().map(String::as_str) {
            Some("Qwen2ForCausalLM") => Architecture::Qwen2,
            Some("LlamaForCausalLM") => Architecture::Llama,
            other => {
                let named = other.unwrap_or("none");
                return Err(format!("architecture {named}; Qwen2ForCausalLM and LlamaForCausalLM are known"));
            }
        };
        if self.num_attention_heads == 0 || !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "{} heads do not divide a width of {}",
                self.num_attention_heads, self.hidden_size
            ));
        }
        if self.num_key_value_heads.is_some_and(|n| n == 0 || !self.num_attention_heads.is_multiple_of(n)) {
            return Err("num_key_value_heads does not divide num_attention_heads".to_owned());
        }
        if self.hidden_act != "silu" {
            return Err(format!("hidden_act {}; silu is known", self.hidden_act));
        }
        if self.attention_bias || self.mlp_bias || self.use_sliding_window {
            return Err("attention_bias, mlp_bias or use_sliding_window is on; none is built here".to_owned());
        }
        let named = self.rope_parameters.as_ref().and_then(|p| p.rope_type.as_deref());
        let scaled = self.rope_scaling.as_ref().is_some_and(|scaling| !scaling.is_null());
        if scaled || named.is_some_and(|name| name != "default") {
            return Err("rotary positions are scaled; only the default is built here".to_owned());
        }
        Ok(architecture)
    }
}

/// One token or a list of them.
fn ends(value: Option<&Json>) -> Vec<u32> {
    let one = |value: &Json| value.as_u64().and_then(|token| u32::try_from(token).ok());
    match value {
        Some(Json::Array(list)) => list.iter().filter_map(one).collect(),
        Some(value) => one(value).into_iter().collect(),
        None => Vec::new(),
    }
}
