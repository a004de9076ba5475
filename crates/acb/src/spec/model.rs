//! The base model's shape, from which bytes follow: weights, KV cache per token, a LoRA adapter per rank.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A base model: one whose shape is known here, or a shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelSpec {
    /// By name.
    Known(KnownModel),
    /// By shape.
    Shape(ModelShape),
}

/// Models whose shape is known (from the `config.json` that each is published with).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KnownModel {
    /// Qwen2.5-7B.
    #[serde(rename = "qwen2.5-7b")]
    Qwen25B7,
    /// Qwen2.5-1.5B.
    #[serde(rename = "qwen2.5-1.5b")]
    Qwen25B1_5,
    /// Llama-3.1-8B.
    #[serde(rename = "llama-3.1-8b")]
    Llama31B8,
    /// Llama-2-7B.
    #[serde(rename = "llama-2-7b")]
    Llama2B7,
}

/// The numbers of a decoder-only transformer with gated feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// Transformer layers.
    #[schemars(range(min = 1, max = 1000))]
    pub layers: u32,
    /// Width of the residual stream.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub hidden: u32,
    /// Query heads.
    #[schemars(range(min = 1, max = 4096))]
    pub q_heads: u32,
    /// Key and value heads.
    #[schemars(range(min = 1, max = 4096))]
    pub kv_heads: u32,
    /// Width of one head.
    #[schemars(range(min = 1, max = 4096))]
    pub head_dim: u32,
    /// Width of the feed-forward layers.
    #[schemars(range(min = 1, max = 4_194_304))]
    pub ffn: u32,
    /// Tokens in the vocabulary.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub vocab: u32,
    /// Bytes per number: 2 for bf16 and fp16.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 8))]
    pub dtype_bytes: u32,
    /// Whether query, key and value projections have a bias.
    #[serde(default)]
    pub qkv_bias: bool,
    /// Whether the output layer shares the embedding's weights.
    #[serde(default)]
    pub tied_embeddings: bool,
}

/// The linear layers that an adapter changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoraTargets {
    /// Query, key, value, output, gate, up and down projections.
    #[default]
    AllLinear,
    /// Query, key, value and output projections.
    Attention,
}

impl ModelSpec {
    /// The numbers.
    #[must_use]
    pub fn shape(&self) -> ModelShape {
        match self {
            Self::Shape(shape) => *shape,
            Self::Known(known) => known.shape(),
        }
    }
}

impl KnownModel {
    fn shape(self) -> ModelShape {
        let qwen = ModelShape {
            layers: 28,
            hidden: 3584,
            q_heads: 28,
            kv_heads: 4,
            head_dim: 128,
            ffn: 18_944,
            vocab: 152_064,
            dtype_bytes: 2,
            qkv_bias: true,
            tied_embeddings: false,
        };
        let llama = ModelShape {
            layers: 32,
            hidden: 4096,
            q_heads: 32,
            kv_heads: 8,
            head_dim: 128,
            ffn: 14_336,
            vocab: 128_256,
            dtype_bytes: 2,
            qkv_bias: false,
            tied_embeddings: false,
        };
        match self {
            Self::Qwen25B7 => qwen,
            Self::Qwen25B1_5 => ModelShape {
                hidden: 1536,
                q_heads: 12,
                kv_heads: 2,
                ffn: 8960,
                vocab: 151_936,
                tied_embeddings: true,
                ..qwen
            },
            Self::Llama31B8 => llama,
            Self::Llama2B7 => ModelShape { kv_heads: 32, ffn: 11_008, vocab: 32_000, ..llama },
        }
    }
}

impl ModelShape {
    /// Bytes of all weights.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let [hidden, ffn, vocab] = [self.hidden, self.ffn, self.vocab].map(u64::from);
        let (q, kv) = self.widths();
        let attention = 2 * hidden * q + 2 * hidden * kv;
        let bias = if self.qkv_bias { q + 2 * kv } else { 0 };
        let layer = attention + bias + 3 * hidden * ffn + 2 * hidden;
        let embeddings = vocab * hidden * if self.tied_embeddings { 1 } else { 2 };
        (embeddings + u64::from(self.layers) * layer + hidden) * u64::from(self.dtype_bytes)
    }

    /// Bytes of keys and values of one token.
    #[must_use]
    pub fn kv_bytes_per_token(&self) -> u64 {
        2 * u64::from(self.layers) * self.widths().1 * u64::from(self.dtype_bytes)
    }

    /// Bytes of both matrices of an adapter, per rank.
    #[must_use]
    pub fn lora_bytes_per_rank(&self, targets: LoraTargets) -> u64 {
        let [hidden, ffn] = [self.hidden, self.ffn].map(u64::from);
        let (q, kv) = self.widths();
        let attention = 2 * (hidden + q) + 2 * (hidden + kv);
        let layer = match targets {
            LoraTargets::Attention => attention,
            LoraTargets::AllLinear => attention + 3 * (hidden + ffn),
        };
        u64::from(self.layers) * layer * u64::from(self.dtype_bytes)
    }

    /// Bytes per rank of the matrices for embedding and output layer, which vLLM sets aside in every slot although hardly
    /// any adapter has them.
    #[must_use]
    pub fn vocabulary_lora_bytes_per_rank(&self) -> u64 {
        2 * (u64::from(self.vocab) + u64::from(self.hidden)) * u64::from(self.dtype_bytes)
    }

    /// Widths of the query and of the key projection.
    fn widths(&self) -> (u64, u64) {
        let head_dim = u64::from(self.head_dim);
        (u64::from(self.q_heads) * head_dim, u64::from(self.kv_heads) * head_dim)
    }
}

fn two() -> u32 {
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: LoraTargets = LoraTargets::AllLinear;

    #[test]
    fn weights_and_kv_bytes_are_those_of_the_published_models() {
        let check = |model: KnownModel, weights: u64, kv: u64| {
            assert_eq!(
                (model.shape().weight_bytes(), model.shape().kv_bytes_per_token()),
                (weights, kv),
                "{model:?}"
            );
        };
        check(KnownModel::Qwen25B7, 2 * 7_615_616_512, 57_344);
        check(KnownModel::Qwen25B1_5, 2 * 1_543_714_304, 28_672);
        check(KnownModel::Llama31B8, 2 * 8_030_261_248, 131_072);
        check(KnownModel::Llama2B7, 2 * 6_738_415_616, 524_288);
    }

    #[test]
    fn adapter_bytes_are_those_measured_from_published_adapters() {
        let check = |model: KnownModel, rank: u64, targets: LoraTargets, bytes: u64| {
            assert_eq!(rank * model.shape().lora_bytes_per_rank(targets), bytes, "{model:?} r{rank}");
        };
        check(KnownModel::Llama2B7, 8, ALL, 39_976_960);
        check(KnownModel::Llama2B7, 16, ALL, 79_953_920);
        check(KnownModel::Llama2B7, 64, ALL, 319_815_680);
        check(KnownModel::Llama2B7, 16, LoraTargets::Attention, 33_554_432);
        check(KnownModel::Llama31B8, 8, ALL, 41_943_040);
        check(KnownModel::Llama31B8, 16, ALL, 83_886_080);
        check(KnownModel::Llama31B8, 64, ALL, 335_544_320);
        check(KnownModel::Llama31B8, 1, LoraTargets::Attention, 1_703_936);
        check(KnownModel::Qwen25B7, 1, ALL, 5_046_272);
        check(KnownModel::Qwen25B7, 1, LoraTargets::Attention, 1_261_568);
    }
}
