//! The stages of the fit: base model, front end, adapters, loads; each takes the constants of those before it as known.

use super::base_fit::{self, BaseFit, fit_base};
use super::engine::EngineShape;
use super::equation::{Counts, Equation, Stage};
use super::linear::{self, Column, Right, solve, value_of};
use super::load_fit::{self, LoadFit, fit_loads};
use super::lora_fit::{self, LoraFit, fit_lora};
use super::{CalibrateError, Constant, Known};
use acb_sim::Profile;
use schemars::JsonSchema;
use serde::Serialize;

/// Fewer equations than this say nothing of the base model's eight constants.
const FEWEST: usize = 12;

/// What network, client and front end add to a time to first token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FrontEndFit {
    /// To every request, ms.
    pub request_ms: f64,
    /// For every prompt token, us.
    pub token_us: f64,
}

/// How well the constants explain a stage.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageResidual {
    /// The stage.
    pub stage: Stage,
    /// Its equations: like times are one.
    pub equations: usize,
    /// Times in them.
    pub times: u64,
    /// Root of the mean square of their relative errors.
    pub rms_error: f64,
    /// Largest relative error.
    pub max_error: f64,
}

/// The whole fit.
#[derive(Clone, Debug)]
pub struct Fit {
    base: BaseFit,
    front_end: FrontEndFit,
    lora: LoraFit,
    loads: LoadFit,
}

impl Fit {
    /// Fits to the equations of all starts.
    ///
    /// # Errors
    /// When there are too few of the base model.
    pub fn new(equations: &[Equation]) -> Result<Self, CalibrateError> {
        let of =
            |wanted: &dyn Fn(&Equation) -> bool| equations.iter().filter(|e| wanted(e)).collect::<Vec<_>>();
        let base = of(&|e| e.load.is_none() && !e.has_adapter() && e.stage != Stage::FrontEnd);
        if base.len() < FEWEST {
            return Err(CalibrateError::TooFew { benchmark: "base model", found: base.len() });
        }
        let base = fit_base(&base);
        let front_end = fit_front_end(&of(&|e| e.stage == Stage::FrontEnd), &base);
        let lora = fit_lora(&of(&|e| e.load.is_none() && e.has_adapter()), &base);
        let steps = |e: &Equation| base.predict_ns(&e.steps) + lora.predict_ns(&e.steps, e.slots);
        let loads = fit_loads(&of(&|e| e.load.is_some()), steps);
        Ok(Self { base, front_end, lora, loads })
    }

    /// Network and front end.
    pub fn front_end(&self) -> FrontEndFit {
        self.front_end
    }

    fn predict_ns(&self, equation: &Equation) -> f64 {
        let steps = self.base.predict_ns(&equation.steps)
            + self.lora.predict_ns(&equation.steps, equation.slots)
            + self.loads.predict_ns(equation.load);
        match equation.stage {
            Stage::FrontEnd => {
                let tokens: f64 = equation.steps.iter().map(|step| step.prefill_tokens).sum();
                steps + self.front_end.request_ms * 1e6 + self.front_end.token_us * 1e3 * tokens
            }
            _ => steps,
        }
    }

    /// Errors of each stage that was measured.
    pub fn residuals(&self, equations: &[Equation]) -> Vec<StageResidual> {
        let mut stages: Vec<Stage> = equations.iter().map(|e| e.stage).collect();
        stages.sort_unstable();
        stages.dedup();
        let residual = |stage| {
            let of: Vec<&Equation> = equations.iter().filter(|e| e.stage == stage).collect();
            let errors: Vec<f64> =
                of.iter().map(|e| (self.predict_ns(e) / e.measured_ns - 1.0).abs()).collect();
            let squares: f64 = errors.iter().map(|error| error * error).sum();
            StageResidual {
                stage,
                equations: of.len(),
                times: of.iter().map(|e| e.times as u64).sum(),
                rms_error: (squares / errors.len() as f64).sqrt(),
                max_error: errors.into_iter().fold(0.0, f64::max),
            }
        };
        stages.into_iter().map(residual).collect()
    }

    /// The rate at which about `rows` requests of this mean (prompt, answer) are in the engine: Little's law.
    pub fn rate_for(&self, rows: f64, (prompt, answer): (f64, f64)) -> f64 {
        let decode = Counts { rows, context_tokens: rows * (prompt + answer / 2.0), ..Counts::default() };
        let mut prefill = Counts::default();
        prefill.add_prefill(1, 0, prompt as u32);
        let step_ns = self.base.predict_ns(&[decode]);
        // Each request of the others brings a prompt that this one waits for.
        let stay_ns = answer * step_ns + rows * self.base.predict_ns(&[prefill]);
        rows / (stay_ns * 1e-9)
    }

    /// Every constant of a profile.
    pub fn constants(&self, known: &Known, pools: &[(EngineShape, u64)]) -> Vec<Constant> {
        let solved = |names: &[&'static str], values: &[linear::Known]| -> Vec<Constant> {
            names.iter().zip(values).map(|(name, value)| Constant::solved(name, value)).collect()
        };
        let mut all = solved(&base_fit::NAMES, &self.base.known);
        all.extend(solved(&lora_fit::NAMES, &self.lora.known));
        for (constant, value) in all.iter_mut().rev().zip(self.lora.exponents().into_iter().rev()) {
            constant.value = value;
        }
        all.extend(solved(&load_fit::NAMES, &self.loads.known));
        let configured = "from the model's configuration: no server shows it over HTTP";
        all.push(Constant::given("weight_bytes", known.weight_bytes as f64, configured));
        all.push(Constant::given("kv_bytes_per_token", known.kv_bytes_per_token as f64, configured));
        all.push(slot_bytes(known, pools));
        all
    }
}

/// Bytes of one rank of a slot: by how much the KV memory shrinks from one start to another that sets more ranks aside.
fn slot_bytes(known: &Known, pools: &[(EngineShape, u64)]) -> Constant {
    const NAME: &str = "lora_bytes_per_rank";
    let ranks = |shape: &EngineShape| u64::from(shape.slots) * u64::from(shape.max_rank);
    let least = pools.iter().min_by_key(|(shape, _)| ranks(shape));
    let most = pools.iter().max_by_key(|(shape, _)| ranks(shape));
    if let (Some((few, large)), Some((many, small))) = (least, most)
        && ranks(many) > ranks(few)
        && large > small
    {
        let per_token = known.kv_bytes_per_token as f64 / (ranks(many) - ranks(few)) as f64;
        let found = linear::Known::Value {
            value: (large - small) as f64 * per_token,
            half_width: 32.0 * per_token,
            share: 1.0,
        };
        let constant = Constant::solved(NAME, &found);
        // Bytes, not a time.
        return Constant {
            value: constant.value * 1e6,
            half_width: constant.half_width.map(|h| h * 1e6),
            ..constant
        };
    }
    let why = "from the model's shape: every start reserved the same, so that the KV memory did not change";
    Constant::given(NAME, known.lora_bytes_per_rank as f64, why)
}

fn fit_front_end(alone: &[&Equation], base: &BaseFit) -> FrontEndFit {
    let tokens = |e: &&Equation| e.steps.iter().map(|step| step.prefill_tokens).sum();
    let columns = [
        Column { name: "request_ms", factors: vec![1.0; alone.len()] },
        Column { name: "token_us", factors: alone.iter().map(tokens).collect() },
    ];
    let known = solve(&columns, &Right::of(alone, |e| e.measured_ns - base.predict_ns(&e.steps)));
    FrontEndFit { request_ms: value_of(&known[0]) * 1e-6, token_us: value_of(&known[1]) * 1e-3 }
}

/// A profile of these constants.
///
/// # Panics
/// When one is missing: our bug.
pub fn profile(constants: &[Constant]) -> Profile {
    let number = |constant: &Constant| match constant.name.as_str() {
        "weight_bytes" | "kv_bytes_per_token" | "lora_bytes_per_rank" => {
            serde_json::Value::from(constant.value.round() as u64)
        }
        _ => serde_json::Value::from(constant.value),
    };
    let map: serde_json::Map<String, serde_json::Value> =
        constants.iter().map(|constant| (constant.name.clone(), number(constant))).collect();
    serde_json::from_value(serde_json::Value::Object(map)).expect("the constants are those of a profile")
}
