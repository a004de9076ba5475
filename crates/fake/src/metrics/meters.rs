//! What is counted of every request, whatever the dialect.

use super::exposition::Exposition;
use super::{sglang, vllm};
use crate::dialect::Dialect;
use acb_sim::{ClusterSpec, Served, StepEvent};
use acb_types::{AdapterId, Nanos, RequestId, ServerRow};
use std::collections::BTreeMap;

/// A request in flight, as its meters see it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Track {
    pub(crate) adapter: Option<AdapterId>,
    pub(crate) prompt_tokens: u32,
    pub(crate) max_tokens: u32,
    pub(crate) streamed: &'static str,
    pub(crate) submitted: Nanos,
    pub(crate) admitted: Option<Nanos>,
    pub(crate) hit_tokens: u32,
    pub(crate) last_token: Option<Nanos>,
}

/// How a request ended, for the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Length,
    Stop,
    Abort,
}

/// A finished request in real seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) ttft_s: f64,
    pub(crate) e2e_s: f64,
    pub(crate) queue_s: f64,
    pub(crate) prefill_s: f64,
    pub(crate) decode_s: f64,
    /// Time per output token after the first; `None` with fewer than two.
    pub(crate) tpot_s: Option<f64>,
}

/// What the last steps did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// Prompts of the last admission: when, tokens found, tokens in all.
    pub(crate) prefill: (Nanos, u64, u64),
    /// Instants with tokens since the last throughput was noted, tokens, and when that was.
    pub(crate) decodes: (u32, u64, Nanos),
    pub(crate) last_decode: Nanos,
    /// Tokens a second, in engine time.
    pub(crate) throughput: f64,
}

/// Decode steps between two looks at the throughput (`decode_log_interval`).
const DECODES: u32 = 40;

/// The meters of one server.
#[derive(Debug)]
pub(crate) struct Meters {
    dialect: Dialect,
    pub(crate) shown: Exposition,
    /// Engine nanoseconds in a real second.
    per_second: f64,
    pub(crate) tracks: BTreeMap<RequestId, Track>,
    pub(crate) recent: Recent,
    /// vLLM's `lora_requests_info`: label sets are never taken back, and the value is when they were last true.
    activity: BTreeMap<String, f64>,
    max_loras: u32,
}

/// What a scrape shows besides the meters.
pub(crate) struct Shown<'a> {
    pub(crate) row: &'a ServerRow,
    pub(crate) running: f64,
    pub(crate) waiting: f64,
    /// Share of the KV memory that requests hold.
    pub(crate) usage: f64,
    pub(crate) total_tokens: f64,
}

impl Meters {
    pub(crate) fn new(
        dialect: Dialect,
        (model, spec): (&str, &ClusterSpec),
        scale: f64,
        created_s: f64,
    ) -> Self {
        let shown = match dialect {
            Dialect::Vllm => vllm::exposition(model, spec, created_s),
            Dialect::Sglang => sglang::exposition(model, spec),
        };
        let max_loras = match &spec.engine {
            acb_sim::EngineSpec::Vllm(vllm) => vllm.max_loras,
            acb_sim::EngineSpec::Sglang(sglang) => sglang.max_loras_per_batch,
        };
        Self {
            dialect,
            shown,
            per_second: 1e9 * scale,
            tracks: BTreeMap::new(),
            recent: Recent::default(),
            activity: BTreeMap::new(),
            max_loras,
        }
    }

    fn seconds(&self, from: Nanos, to: Nanos) -> f64 {
        to.since(from).0 as f64 / self.per_second
    }

    /// Takes in what happened; how an answer ends is `ended`.
    pub(crate) fn note(&mut self, event: &StepEvent, ended: Ended) {
        match *event {
            StepEvent::Admitted { at, request, hit_tokens } => self.admitted(at, request, hit_tokens),
            StepEvent::Token { at, request, index } => self.token(at, request, index),
            StepEvent::Finished { request, served } => self.finished(request, &served, ended),
        }
    }

    fn admitted(&mut self, at: Nanos, request: RequestId, hit_tokens: Option<u32>) {
        let Some(track) = self.tracks.get_mut(&request) else { return };
        (track.admitted, track.hit_tokens) = (Some(at), hit_tokens.unwrap_or(0));
        let (when, hits, tokens) = &mut self.recent.prefill;
        if *when != at {
            (*when, *hits, *tokens) = (at, 0, 0);
        }
        *hits += u64::from(track.hit_tokens);
        *tokens += u64::from(track.prompt_tokens);
    }

    fn token(&mut self, at: Nanos, request: RequestId, index: u32) {
        let recent = &mut self.recent;
        let (steps, tokens, since) = &mut recent.decodes;
        *tokens += 1;
        if recent.last_decode != at {
            recent.last_decode = at;
            *steps += 1;
            if *steps == DECODES {
                recent.throughput = *tokens as f64 / at.since(*since).as_secs_f64().max(1e-9);
                recent.decodes = (0, 0, at);
            }
        }
        let Some(track) = self.tracks.get_mut(&request) else { return };
        let before = track.last_token.replace(at);
        let track = track.clone();
        let gap_s = before.map(|before| self.seconds(before, at));
        match self.dialect {
            Dialect::Vllm => vllm::token(&mut self.shown, &track, index, gap_s),
            Dialect::Sglang => sglang::token(&mut self.shown, &track, gap_s),
        }
    }

    /// A request ended: answered, or given up.
    pub(crate) fn finished(&mut self, request: RequestId, served: &Served, ended: Ended) {
        let Some(track) = self.tracks.remove(&request) else { return };
        let timed = self.timed(served);
        match self.dialect {
            Dialect::Vllm => vllm::finished(&mut self.shown, (&track, served), timed, ended),
            Dialect::Sglang => sglang::finished(&mut self.shown, (&track, served), timed),
        }
    }

    /// `None`: it had no token, and so no times.
    fn timed(&self, served: &Served) -> Option<Timed> {
        let (admitted, first, last) = (served.admitted?, served.first_token?, served.last_token?);
        let decode_s = self.seconds(first, last);
        let more = served.output_tokens.saturating_sub(1);
        Some(Timed {
            ttft_s: self.seconds(served.sent, first),
            e2e_s: self.seconds(served.sent, served.ended_at),
            queue_s: self.seconds(served.sent, admitted),
            prefill_s: self.seconds(admitted, first),
            decode_s,
            tpot_s: (more > 0).then(|| decode_s / f64::from(more)),
        })
    }

    /// Notes which adapters have requests in flight, as vLLM does after each step: waiting and running alike.
    pub(crate) fn note_activity(&mut self, names: &[&str], unix_s: f64) {
        if self.dialect == Dialect::Vllm {
            let names = names.join(",");
            let most = self.max_loras.to_string();
            let labels = [
                ("max_lora", most.as_str()),
                ("running_lora_adapters", names.as_str()),
                ("waiting_lora_adapters", names.as_str()),
            ];
            self.activity.insert(super::exposition::braced(labels.into_iter()), unix_s);
        }
    }

    /// The text of `/metrics`.
    pub(crate) fn render(&mut self, state: &Shown<'_>) -> String {
        match self.dialect {
            Dialect::Vllm => vllm::scraped(&mut self.shown, state),
            Dialect::Sglang => {
                let lora = self.lora_slots();
                sglang::scraped(&mut self.shown, state, (&self.recent, lora), self.per_second);
            }
        }
        let mut text = self.shown.render();
        if !self.activity.is_empty() {
            text += "# HELP vllm:lora_requests_info Simulated.\n# TYPE vllm:lora_requests_info gauge\n";
            for (labels, unix_s) in &self.activity {
                text += &format!("vllm:lora_requests_info{labels} {unix_s:?}\n");
            }
        }
        text
    }

    /// Adapters of the running requests, the base model counting as one, and how many may be.
    pub(crate) fn lora_slots(&self) -> (usize, u32) {
        let running = self.tracks.values().filter(|track| track.admitted.is_some());
        let mut holders: Vec<Option<AdapterId>> = running.map(|track| track.adapter).collect();
        holders.sort_unstable();
        holders.dedup();
        (holders.len(), self.max_loras)
    }
}
