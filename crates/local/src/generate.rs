//! A model that is asked: text in, greedy text out, under base or an adapter.

use crate::adapter::Adapter;
use crate::error::LocalError;
use crate::model::{Cache, Network};
use candle_core::{D, IndexOp};
use std::collections::BTreeMap;
use std::path::Path;
use tokenizers::Tokenizer;

/// A model with its tokenizer and its adapters.
pub struct LocalModel {
    network: Network,
    tokenizer: Tokenizer,
    adapters: BTreeMap<String, Adapter>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model said its end token, which is not part of the answer.
    End,
    /// It has as many tokens as were asked for.
    Length,
}

/// What the model's end token does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It ends the answer.
    Obeyed,
    /// It is a token like any other.
    Ignored,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub stop: Stop,
}

impl LocalModel {
    /// Loads `config.json`, `model.safetensors` (or what `model.safetensors.index.json` lists) and `tokenizer.json` of a folder.
    ///
    /// # Errors
    /// When a file is missing or malformed, or asks for what is not built here, by name.
    pub fn load(folder: &Path) -> Result<Self, LocalError> {
        let path = folder.join("tokenizer.json");
        std::fs::File::open(&path).map_err(|source| LocalError::Read { path: path.clone(), source })?;
        let tokenizer =
            Tokenizer::from_file(&path).map_err(|error| LocalError::unsupported(&path, error.to_string()))?;
        Ok(Self { network: Network::read(folder)?, tokenizer, adapters: BTreeMap::new() })
    }

    /// Loads an adapter in PEFT's layout under a name.
    ///
    /// # Errors
    /// As for the model; also when a tensor belongs to no projection of it.
    pub fn load_adapter(&mut self, name: &str, folder: &Path) -> Result<(), LocalError> {
        let adapter = Adapter::read(folder, &self.network.config)?;
        self.adapters.insert(name.to_owned(), adapter);
        Ok(())
    }

    /// Names of the adapters, in order.
    pub fn adapters(&self) -> impl Iterator<Item = &str> {
        self.adapters.keys().map(String::as_str)
    }

    /// Most tokens of a prompt with its answer.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.network.config.positions
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Tokens of a text, with what the tokenizer adds by itself.
    ///
    /// # Errors
    /// When the tokenizer fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, LocalError> {
        let encoded = self.tokenizer.encode(text, true);
        Ok(encoded.map_err(|error| LocalError::Tokenizer(error.to_string()))?.get_ids().to_vec())
    }

    /// The text of tokens, special ones left out.
    ///
    /// # Errors
    /// When the tokenizer fails.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, LocalError> {
        self.tokenizer.decode(tokens, true).map_err(|error| LocalError::Tokenizer(error.to_string()))
    }

    /// Logits after each token of a sequence, one row of the size of the vocabulary per token; `adapter` `None` is base.
    ///
    /// # Errors
    /// For an unknown adapter or token, or a sequence that is empty or too long.
    pub fn logits(&self, tokens: &[u32], adapter: Option<&str>) -> Result<Vec<Vec<f32>>, LocalError> {
        self.check(tokens, 0)?;
        let logits = self.network.forward(tokens, &mut self.network.start(), self.adapter(adapter)?)?;
        Ok(logits.to_vec2()?)
    }

    /// The most likely continuation of a prompt by so many tokens at most, token by token; `told` hears each as it comes and says whether to go on.
    ///
    /// # Errors
    /// For an unknown adapter or token, or a prompt that is empty or leaves no room.
    pub fn generate(
        &self,
        prompt: &[u32],
        adapter: Option<&str>,
        (most, ends): (usize, Ends),
        mut told: impl FnMut(u32) -> bool,
    ) -> Result<Answer, LocalError> {
        self.check(prompt, most)?;
        let adapter = self.adapter(adapter)?;
        let (mut cache, mut next, mut tokens) = (self.network.start(), prompt.to_vec(), Vec::new());
        while tokens.len() < most {
            let token = self.likeliest(&next, &mut cache, adapter)?;
            if ends == Ends::Obeyed && self.network.config.ends.contains(&token) {
                return Ok(Answer { tokens, stop: Stop::End });
            }
            tokens.push(token);
            if !told(token) {
                break;
            }
            next = vec![token];
        }
        Ok(Answer { tokens, stop: Stop::Length })
    }

    fn likeliest(
        &self,
        tokens: &[u32],
        cache: &mut Cache,
        adapter: Option<&Adapter>,
    ) -> Result<u32, LocalError> {
        let logits = self.network.forward(tokens, cache, adapter)?;
        Ok(logits.i(tokens.len() - 1)?.argmax(D::Minus1)?.to_scalar()?)
    }

    fn adapter(&self, name: Option<&str>) -> Result<Option<&Adapter>, LocalError> {
        let Some(name) = name else { return Ok(None) };
        self.adapters.get(name).map(Some).ok_or_else(|| LocalError::UnknownAdapter(name.to_owned()))
    }

    fn check(&self, tokens: &[u32], asked: usize) -> Result<(), LocalError> {
        let most = self.positions();
        match tokens.is_empty() || tokens.len() + asked > most {
            true => Err(LocalError::Length { tokens: tokens.len(), asked, most }),
            false => Ok(()),
        }
    }
}
