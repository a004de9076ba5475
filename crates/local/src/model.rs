//! The whole network: embedding, layers, norm, logits.

use crate::adapter::Adapter;
use crate::config::Config;
use crate::error::LocalError;
use crate::layer::{Layer, Norm, Pass, Past, Rotation};
use crate::weights::Weights;
use candle_core::{Device, Tensor};
use std::path::Path;

/// The network without its tokenizer.
pub(crate) struct Network {
    pub(crate) config: Config,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Norm,
    /// (width, vocabulary).
    head: Tensor,
}

/// Keys and values of one sequence, by layer.
pub(crate) struct Cache {
    layers: Vec<Past>,
    /// Tokens so far.
    pub(crate) tokens: usize,
}

impl Network {
    pub(crate) fn read(folder: &Path) -> Result<Self, LocalError> {
        let config = Config::read(&folder.join("config.json"))?;
        let mut weights = Weights::read(folder, "model.safetensors")?;
        let shape = [config.vocabulary, config.hidden];
        let embedding = weights.take("model.embed_tokens.weight", &shape)?;
        let layer = |number| Layer::read(&mut weights, number, &config);
        let layers = (0..config.layers).map(layer).collect::<Result<_, LocalError>>()?;
        let norm =
            Norm { weight: weights.take("model.norm.weight", &[config.hidden])?, epsilon: config.epsilon };
        let own = weights.take_if_there("lm_head.weight", &shape)?;
        let head = match (config.tied, own) {
            (true, _) => embedding.clone(),
            (false, Some(own)) => own,
            (false, None) => {
                let message = "is missing, and tie_word_embeddings is false".to_owned();
                return Err(LocalError::Tensor { name: "lm_head.weight".to_owned(), message });
            }
        };
        Ok(Self { embedding, layers, norm, head: head.t()?.contiguous()?, config })
    }

    /// An empty sequence.
    pub(crate) fn start(&self) -> Cache {
        Cache { layers: self.layers.iter().map(|_| None).collect(), tokens: 0 }
    }

    /// Logits (tokens, vocabulary) after each of these tokens, which follow what the cache holds.
    pub(crate) fn forward(
        &self,
        tokens: &[u32],
        cache: &mut Cache,
        adapter: Option<&Adapter>,
    ) -> Result<Tensor, LocalError> {
        let vocabulary = self.config.vocabulary;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(LocalError::Token { token, vocabulary });
        }
        let rotation = self.rotation(cache.tokens, tokens.len())?;
        let mask = if tokens.len() > 1 { Some(mask(cache.tokens, tokens.len())?) } else { None };
        let pass = Pass { rotation: &rotation, mask: mask.as_ref() };
        let mut x = self.embedding.index_select(&Tensor::new(tokens, &Device::Cpu)?, 0)?;
        for (number, (layer, past)) in self.layers.iter().zip(&mut cache.layers).enumerate() {
            x = layer.apply(&x, &pass, past, adapter.map(|adapter| &adapter.layers[number]))?;
        }
        cache.tokens += tokens.len();
        Ok(self.norm.apply(&x)?.matmul(&self.head)?)
    }

    /// Angles are made in f32, as transformers makes them.
    fn rotation(&self, from: usize, tokens: usize) -> Result<Rotation, LocalError> {
        let dim = self.config.head_dim;
        let frequency = |at: usize| 1.0 / (self.config.theta as f32).powf((2 * at) as f32 / dim as f32);
        let angles: Vec<f32> = (from..from + tokens)
            .flat_map(|position| (0..dim).map(move |at| position as f32 * frequency(at % (dim / 2))))
            .collect();
        let angles = Tensor::from_vec(angles, (tokens, dim), &Device::Cpu)?;
        Ok(Rotation { cos: angles.cos()?, sin: angles.sin()? })
    }
}

/// What each of `tokens` after `past` may see: all before it and itself.
fn mask(past: usize, tokens: usize) -> Result<Tensor, LocalError> {
    let all = past + tokens;
    let open = |row: usize, column: usize| if column <= past + row { 0.0 } else { f32::NEG_INFINITY };
    let cells: Vec<f32> = (0..tokens).flat_map(|row| (0..all).map(move |column| open(row, column))).collect();
    Ok(Tensor::from_vec(cells, (tokens, all), &Device::Cpu)?)
}
