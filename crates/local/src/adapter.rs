//! LoRA adapters in PEFT's layout: `adapter_config.json` and `adapter_model.safetensors`.

use crate::config::Config;
use crate::error::{LocalError, read_json};
use crate::layer::{Delta, PROJECTIONS, projection_shape};
use crate::weights::Weights;
use serde::Deserialize;
use serde_json::Value as Json;
use std::path::Path;

#[derive(Deserialize)]
struct Raw {
    peft_type: String,
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    modules_to_save: Option<Json>,
    #[serde(default)]
    rank_pattern: Option<Json>,
    #[serde(default)]
    alpha_pattern: Option<Json>,
}

/// The low-rank part of each projection of each layer, where the adapter has one.
pub(crate) struct Adapter {
    /// By layer, then in the order of [`PROJECTIONS`].
    pub(crate) layers: Vec<[Option<Delta>; PROJECTIONS.len()]>,
}

impl Adapter {
    pub(crate) fn read(folder: &Path, config: &Config) -> Result<Self, LocalError> {
        let path = folder.join("adapter_config.json");
        let raw: Raw = read_json(&path)?;
        raw.check().map_err(|message| LocalError::unsupported(&path, message))?;
        let mut weights = Weights::read(folder, "adapter_model.safetensors")?;
        let rank = raw.r as f64;
        let scale = raw.lora_alpha / if raw.use_rslora { rank.sqrt() } else { rank };
        let layer = |number| layer(&mut weights, number, config, (raw.r, scale));
        let layers = (0..config.layers).map(layer).collect::<Result<_, LocalError>>()?;
        match weights.left().first() {
            None => Ok(Self { layers }),
            Some(name) => Err(LocalError::Tensor {
                name: (*name).to_owned(),
                message: "belongs to no projection of this model".to_owned(),
            }),
        }
    }
}

fn layer(
    weights: &mut Weights,
    number: usize,
    config: &Config,
    (rank, scale): (usize, f64),
) -> Result<[Option<Delta>; PROJECTIONS.len()], LocalError> {
    let mut parts = [const { None }; PROJECTIONS.len()];
    for (part, (block, name)) in parts.iter_mut().zip(PROJECTIONS) {
        let [out, input] = projection_shape(name, config);
        let key = |side| format!("base_model.model.model.layers.{number}.{block}.{name}.lora_{side}.weight");
        let down = weights.take_if_there(&key("A"), &[rank, input])?;
        let up = weights.take_if_there(&key("B"), &[out, rank])?;
        *part = match (down, up) {
            (Some(down), Some(up)) => Some(Delta::new(&down, &up, scale)?),
            (None, None) => None,
            _ => {
                let message = "has its other half missing".to_owned();
                return Err(LocalError::Tensor { name: key("A"), message });
            }
        };
    }
    Ok(parts)
}

impl Raw {
    fn check(&self) -> Result<(), String> {
        let set = |value: &Option<Json>| match value {
            None | Some(Json::Null) => false,
            Some(Json::Object(map)) => !map.is_empty(),
            Some(Json::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if self.peft_type != "LORA" || self.r == 0 {
            return Err(format!(
                "peft_type {} of rank {}; LORA of rank 1 or more is known",
                self.peft_type, self.r
            ));
        }
        if self.bias.as_deref().is_some_and(|bias| bias != "none") || self.use_dora || self.fan_in_fan_out {
            return Err("bias, use_dora or fan_in_fan_out is set; none is built here".to_owned());
        }
        if set(&self.modules_to_save) || set(&self.rank_pattern) || set(&self.alpha_pattern) {
            return Err(
                "modules_to_save, rank_pattern or alpha_pattern is set; none is built here".to_owned()
            );
        }
        Ok(())
    }
}
