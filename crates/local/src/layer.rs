//! One decoder layer: attention with rotary positions and grouped keys, then the gated MLP, each after a norm.

use crate::config::{Architecture, Config};
use crate::error::LocalError;
use crate::weights::Weights;
use candle_core::{D, Result, Tensor};

/// The seven projections of a layer, each with the block it stands in.
pub(crate) const PROJECTIONS: [(&str, &str); 7] = [
    ("self_attn", "q_proj"),
    ("self_attn", "k_proj"),
    ("self_attn", "v_proj"),
    ("self_attn", "o_proj"),
    ("mlp", "gate_proj"),
    ("mlp", "up_proj"),
    ("mlp", "down_proj"),
];

/// Outputs and inputs of a projection.
pub(crate) fn projection_shape(name: &str, config: &Config) -> [usize; 2] {
    let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    match name {
        "q_proj" => [queries, config.hidden],
        "k_proj" | "v_proj" => [keys, config.hidden],
        "o_proj" => [config.hidden, queries],
        "down_proj" => [config.hidden, config.intermediate],
        _ => [config.intermediate, config.hidden],
    }
}

/// The low-rank part of a projection: `scale * B A x`.
pub(crate) struct Delta {
    down: Tensor,
    up: Tensor,
}

impl Delta {
    /// From `A` (rank, inputs) and `B` (outputs, rank).
    pub(crate) fn new(down: &Tensor, up: &Tensor, scale: f64) -> Result<Self> {
        Ok(Self { down: down.t()?.contiguous()?, up: (up.t()? * scale)?.contiguous()? })
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.down)?.matmul(&self.up)
    }
}

/// `y = W x + b`.
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    fn apply(&self, x: &Tensor, delta: Option<&Delta>) -> Result<Tensor> {
        let mut y = x.matmul(&self.weight)?;
        if let Some(bias) = &self.bias {
            y = y.broadcast_add(bias)?;
        }
        match delta {
            None => Ok(y),
            Some(delta) => y + delta.apply(x)?,
        }
    }
}

/// Divides by the root of the mean square, and scales.
pub(crate) struct Norm {
    pub(crate) weight: Tensor,
    pub(crate) epsilon: f64,
}

impl Norm {
    pub(crate) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
        x.broadcast_div(&(mean + self.epsilon)?.sqrt()?)?.broadcast_mul(&self.weight)
    }
}

/// Cosines and sines of the positions of a pass, each (tokens, head dimension).
pub(crate) struct Rotation {
    pub(crate) cos: Tensor,
    pub(crate) sin: Tensor,
}

impl Rotation {
    /// Turns (heads, tokens, head dimension), the first half of a head against its second.
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let half = x.dim(D::Minus1)? / 2;
        let (first, second) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
        let turned = Tensor::cat(&[&second.neg()?, &first], D::Minus1)?;
        x.broadcast_mul(&self.cos)? + turned.broadcast_mul(&self.sin)?
    }
}

/// Keys and values of the tokens so far, each (key heads, tokens, head dimension).
pub(crate) type Past = Option<(Tensor, Tensor)>;

/// What a pass brings to every layer.
pub(crate) struct Pass<'a> {
    pub(crate) rotation: &'a Rotation,
    /// 0 where a token may look, minus infinity where not: (tokens, tokens so far); absent for one token.
    pub(crate) mask: Option<&'a Tensor>,
}

/// One layer.
pub(crate) struct Layer {
    projections: Vec<Linear>,
    before_attention: Norm,
    before_mlp: Norm,
    heads: [usize; 2],
    head_dim: usize,
}

impl Layer {
    pub(crate) fn read(
        weights: &mut Weights,
        number: usize,
        config: &Config,
    ) -> std::result::Result<Self, LocalError> {
        let mut projections = Vec::with_capacity(PROJECTIONS.len());
        for (at, (block, name)) in PROJECTIONS.into_iter().enumerate() {
            let key = format!("model.layers.{number}.{block}.{name}");
            let [out, input] = projection_shape(name, config);
            let weight = weights.take(&format!("{key}.weight"), &[out, input])?.t()?.contiguous()?;
            let biased = config.architecture == Architecture::Qwen2 && at < 3;
            let bias = if biased { Some(weights.take(&format!("{key}.bias"), &[out])?) } else { None };
            projections.push(Linear { weight, bias });
        }
        let mut norm = |name: &str| -> std::result::Result<Norm, LocalError> {
            let key = format!("model.layers.{number}.{name}.weight");
            Ok(Norm { weight: weights.take(&key, &[config.hidden])?, epsilon: config.epsilon })
        };
        Ok(Self {
            before_attention: norm("input_layernorm")?,
            before_mlp: norm("post_attention_layernorm")?,
            projections,
            heads: [config.heads, config.kv_heads],
            head_dim: config.head_dim,
        })
    }

    /// States (tokens, width) after this layer; `past` grows by the tokens.
    pub(crate) fn apply(
        &self,
        x: &Tensor,
        pass: &Pass<'_>,
        past: &mut Past,
        deltas: Option<&[Option<Delta>; PROJECTIONS.len()]>,
    ) -> Result<Tensor> {
        let project = |at: usize, x: &Tensor| {
            self.projections[at].apply(x, deltas.and_then(|deltas| deltas[at].as_ref()))
        };
        let normed = self.before_attention.apply(x)?;
        let [q, k, v] = [project(0, &normed)?, project(1, &normed)?, project(2, &normed)?];
        let x = (x + project(3, &self.attend(pass, past, [q, k, v])?)?)?;
        let normed = self.before_mlp.apply(&x)?;
        let gated = (project(4, &normed)?.silu()? * project(5, &normed)?)?;
        &x + project(6, &gated)?
    }

    fn attend(&self, pass: &Pass<'_>, past: &mut Past, [q, k, v]: [Tensor; 3]) -> Result<Tensor> {
        let tokens = q.dim(0)?;
        let [heads, kv_heads] = self.heads;
        let split = |x: &Tensor, heads: usize| {
            x.reshape((tokens, heads, self.head_dim))?.transpose(0, 1)?.contiguous()
        };
        let q = pass.rotation.apply(&split(&q, heads)?)?;
        let (mut k, mut v) = (pass.rotation.apply(&split(&k, kv_heads)?)?, split(&v, kv_heads)?);
        if let Some((old_k, old_v)) = past.take() {
            (k, v) = (Tensor::cat(&[&old_k, &k], 1)?, Tensor::cat(&[&old_v, &v], 1)?);
        }
        *past = Some((k.clone(), v.clone()));
        let (k, v) = (spread(&k, heads / kv_heads)?, spread(&v, heads / kv_heads)?);
        let mut scores = (q.matmul(&k.transpose(1, 2)?.contiguous()?)? / (self.head_dim as f64).sqrt())?;
        if let Some(mask) = pass.mask {
            scores = scores.broadcast_add(mask)?;
        }
        let seen = softmax(&scores)?.matmul(&v)?;
        seen.transpose(0, 1)?.reshape((tokens, heads * self.head_dim))
    }
}

/// Each key head as often as it has query heads.
fn spread(x: &Tensor, times: usize) -> Result<Tensor> {
    if times == 1 {
        return Ok(x.clone());
    }
    let (heads, tokens, dim) = x.dims3()?;
    x.unsqueeze(1)?.expand((heads, times, tokens, dim))?.reshape((heads * times, tokens, dim))
}

fn softmax(x: &Tensor) -> Result<Tensor> {
    let powers = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
    powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
}
