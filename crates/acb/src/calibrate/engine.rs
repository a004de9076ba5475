//! What of an engine's flags a calibration has to know: how a step is put together and where adapters are kept.

use super::CalibrateError;
use acb_sim::EngineSpec;

/// An engine as the scenes see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineShape {
    /// Whether prompts are computed in the steps in which others decode (vLLM), or in steps of their own (SGLang).
    pub mixes: bool,
    /// Most tokens that a step computes.
    pub budget: u32,
    /// Most prompt tokens of one request in a step while others exist.
    pub long_prefill: Option<u32>,
    /// Whether the scheduler looks in every step at each waiting request whose adapter can have no slot (vLLM).
    pub passes_over: bool,
    /// Adapter slots.
    pub slots: u32,
    /// Rank that each is sized for.
    pub max_rank: u32,
    /// Whether the base model takes a slot.
    pub base_takes_slot: bool,
    /// Adapters in host memory; `None`: all of them.
    pub host_adapters: Option<u32>,
    /// Whether an adapter is read from disk when it is first asked for, and not when the server starts.
    pub reads_late: bool,
    /// Most requests that run.
    pub max_running: u32,
    /// Longest prompt and answer.
    pub context_tokens: u32,
}

impl EngineShape {
    /// Of these flags.
    ///
    /// # Errors
    /// When a flag makes steps that can't be told apart from outside.
    pub fn of(engine: &EngineSpec) -> Result<Self, CalibrateError> {
        let refused =
            |flag: &str, why: &str| Err(CalibrateError::Flag { flag: flag.to_owned(), why: why.to_owned() });
        match engine {
            EngineSpec::Vllm(vllm) if !vllm.enable_chunked_prefill => {
                refused("enable_chunked_prefill: false", "a prompt then waits until it fits a step whole")
            }
            EngineSpec::Vllm(vllm) => Ok(Self {
                mixes: true,
                budget: vllm.max_num_batched_tokens,
                long_prefill: Some(vllm.long_prefill_token_threshold).filter(|&cap| cap > 0),
                passes_over: true,
                slots: vllm.max_loras,
                max_rank: vllm.max_lora_rank,
                base_takes_slot: false,
                host_adapters: Some(vllm.cpu_loras()),
                reads_late: true,
                max_running: vllm.max_num_seqs,
                context_tokens: vllm.context_tokens,
            }),
            EngineSpec::Sglang(sglang) if sglang.enable_mixed_chunk => {
                refused("enable_mixed_chunk: true", "prompts and answers then share steps in changing parts")
            }
            EngineSpec::Sglang(sglang) if sglang.enable_lora_overlap_loading => {
                refused("enable_lora_overlap_loading: true", "loads then hide behind steps")
            }
            EngineSpec::Sglang(sglang) => Ok(Self {
                mixes: false,
                budget: sglang.chunked_prefill_size.unwrap_or(u32::MAX).min(sglang.max_prefill_tokens),
                long_prefill: None,
                passes_over: false,
                slots: if sglang.enable_lora { sglang.max_loras_per_batch } else { 0 },
                max_rank: sglang.max_lora_rank,
                base_takes_slot: true,
                host_adapters: sglang.max_loaded_loras,
                reads_late: false,
                max_running: sglang.max_running_requests,
                context_tokens: sglang.context_tokens,
            }),
        }
    }

    /// The pieces in which a prompt is computed while `rows` others decode.
    pub fn chunks(&self, prompt_tokens: u32, rows: u32) -> Vec<u32> {
        let mut most = self.budget;
        if self.mixes {
            most = most.saturating_sub(rows).max(1);
        }
        if let Some(cap) = self.long_prefill.filter(|_| rows > 0) {
            most = most.min(cap);
        }
        let whole = prompt_tokens / most;
        let rest = prompt_tokens % most;
        std::iter::repeat_n(most, whole as usize).chain((rest > 0).then_some(rest)).collect()
    }

    /// Most prompt tokens that requests sent together may have so that one step computes them all.
    pub fn one_step_tokens(&self, rows: u32) -> u32 {
        self.chunks(self.budget, rows)[0]
    }

    /// Adapters that can be in one batch beside requests of the base model, or without them.
    pub fn adapters_at_once(&self, with_base: BaseRows) -> u32 {
        let taken = u32::from(self.base_takes_slot && with_base == BaseRows::Some);
        self.slots.saturating_sub(taken)
    }
}

/// Whether requests of the base model are in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseRows {
    /// Some are.
    Some,
    /// None is.
    None,
}
