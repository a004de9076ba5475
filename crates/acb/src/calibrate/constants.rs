//! What a calibration says of each constant of a profile: its value, how sure it is, or why it can't be known.

use super::linear::Known;
use schemars::JsonSchema;
use serde::Serialize;

/// Half-width of an interval, over the value, up to which a constant is called identified.
const MOST_HALF_WIDTH: f64 = 0.05;

/// Share of every measured time below which a constant makes no difference.
pub const LEAST_SHARE: f64 = 0.005;

/// How much is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its 99 % interval is within 5 % of the value.
    Identified,
    /// It makes up less than 0.5 % of every measured time, and so may be anything as small.
    Negligible,
    /// Its 99 % interval is wider.
    Uncertain,
    /// Nothing outside the server depends on it alone; `why` says what hides it.
    NotIdentifiable,
    /// Taken from the model's configuration.
    Given,
}

/// One constant.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Constant {
    /// Its name in the profile, with its unit.
    pub name: String,
    /// Its value in the profile.
    pub value: f64,
    /// Half of the width of its 99 % interval; null when it was not measured.
    pub half_width: Option<f64>,
    /// How much is known.
    pub status: Status,
    /// Why no more is known; null when it is identified.
    pub why: Option<String>,
}

impl Constant {
    /// One that was not measured.
    pub fn given(name: &str, value: f64, why: &str) -> Self {
        Self {
            name: name.to_owned(),
            value,
            half_width: None,
            status: Status::Given,
            why: Some(why.to_owned()),
        }
    }

    /// One that can't be known; `value` goes with what is put into others.
    pub fn hidden(name: &str, value: f64, why: String) -> Self {
        Self {
            name: name.to_owned(),
            value,
            half_width: None,
            status: Status::NotIdentifiable,
            why: Some(why),
        }
    }

    /// One that equations were solved for, in ns.
    pub fn solved(name: &'static str, known: &Known) -> Self {
        let unit = unit_ns(name);
        match known {
            Known::Value { value, half_width, share } => {
                Self::measured(name, (value / unit, half_width / unit), *share)
            }
            Known::NoEffect => Self::hidden(name, 0.0, no_effect(name).to_owned()),
            Known::OneWith(others) => {
                let why = format!("only its sum with {} shows: {}", others.join(" and "), one_with(name));
                Self::hidden(name, 0.0, why)
            }
        }
    }

    fn measured(name: &str, (value, half_width): (f64, f64), share: f64) -> Self {
        let (status, why) = match () {
            () if half_width <= MOST_HALF_WIDTH * value => (Status::Identified, None),
            () if share < LEAST_SHARE => {
                (Status::Negligible, Some("below 0.5 % of every measured time".to_owned()))
            }
            () => {
                let percent = 100.0 * half_width / value;
                let why = format!("+- {percent:.1} % (99 %) is more than 5 %: raise --repeats");
                (Status::Uncertain, Some(why))
            }
        };
        Self { name: name.to_owned(), value, half_width: Some(half_width), status, why }
    }
}

/// Nanoseconds in one unit of a constant.
fn unit_ns(name: &str) -> f64 {
    match name {
        _ if name.ends_with("_exponent") => 1.0,
        _ if name.ends_with("_us") => 1e3,
        _ if name.ends_with("_ns") => 1.0,
        _ => 1e6,
    }
}

/// What hides a constant on which nothing depended.
fn no_effect(name: &str) -> &'static str {
    match name {
        "weight_read_ms" => {
            "arithmetic was the longer part of every step, so that reading weights never showed"
        }
        "prefill_token_us" | "prefill_pair_ns" => {
            "the arithmetic of every prompt hid behind the reading of weights; allow longer prompts in a step"
        }
        "decode_compute_us" => {
            "the arithmetic of decoding requests hid behind the reading of weights in every step that the engine makes"
        }
        "load_cpu_ms" | "load_cpu_ms_per_mb" => {
            "no adapter was read from disk: the server holds all of them in host memory; give it more adapters than that"
        }
        "load_gpu_ms" | "load_gpu_ms_per_mb" => "no adapter was copied into a slot; give the server adapters",
        "lora_adapter_exponent" => {
            "no step had more than one adapter; give the server two slots and adapters, or more"
        }
        "lora_rank_exponent" => {
            "max_lora_rank was the same in every start; measure a second server with another"
        }
        "skipped_request_us" => {
            "no request waited for a slot while others ran: only vLLM's scheduler passes such over, and it takes more \
             adapters, and more running requests, than slots"
        }
        _ => "no request had an adapter; give the server slots and adapters",
    }
}

/// Why a constant shows in a sum only.
fn one_with(name: &str) -> &'static str {
    match name {
        "weight_read_ms" => "reading weights was the longer part of every step",
        "decode_compute_us" => "arithmetic was the longer part of every step",
        "lora_slot_ms" | "lora_row_slot_us" => {
            "the number of slots was the same in every start; measure a second server with another"
        }
        "lora_rank_exponent" => {
            "max_lora_rank was the same in every start; measure a second server with another"
        }
        "load_cpu_ms" => {
            "every load came from disk, as host memory holds no adapter that has no slot; raise max_cpu_loras or max_loaded_loras"
        }
        "load_gpu_ms_per_mb" | "load_cpu_ms_per_mb" => {
            "adapters of one size; give the server adapters of several"
        }
        _ => "the steps that could be made always had both",
    }
}
