//! Which scenes measure what.

use super::engine::{BaseRows, EngineShape};
use super::equation::{Load, Stage};
use super::scene::{Brings, Group, Script};
use super::server::AdapterFile;

/// Gaps between tokens of one company.
const GAPS: u32 = 64;
/// Prompt tokens of a request that is only there to decode.
const SHORT: u32 = 16;
/// Most prompt tokens of one company, so that a scene takes seconds and not minutes.
const MOST_COMPANY_TOKENS: u64 = 140_000;
/// Longest chain of probes beside one lead.
const CHAIN: usize = 64;
/// How many wait for a slot while others run. Each costs less than a microsecond a step, so that it takes many.
const WAITING: [u32; 3] = [0, 256, 2048];

/// What limits scenes.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// The engine.
    pub engine: EngineShape,
    /// Tokens of KV memory.
    pub kv_tokens: u64,
    /// How often a probe is repeated.
    pub repeats: u32,
}

fn group(requests: u32, prompt_tokens: u32, adapter: Option<u32>) -> Group {
    Group { requests, prompt_tokens, adapter, brings: Brings::Nothing }
}

impl Bench {
    /// Whether so many requests of this length run together without want of memory.
    fn fits(&self, requests: u32, tokens: u32) -> bool {
        let all = u64::from(requests) * u64::from(tokens + 2 * GAPS);
        let whole = u64::from(requests) * u64::from(tokens);
        requests <= self.engine.max_running
            && tokens + 4 * GAPS <= self.engine.context_tokens
            && all <= self.kv_tokens * 3 / 4
            && whole <= MOST_COMPANY_TOKENS
    }

    /// Base model: decoding, prompts, and the front end.
    pub fn base(&self, script: &mut Script) {
        let alone = [group(1, 256, None)];
        (0..self.repeats.div_ceil(4)).for_each(|_| script.company(&alone, GAPS, Stage::DecodeAlone));
        for requests in (1..10).map(|power| 1 << power) {
            for context in [64, 256, 512, 2048, 8192] {
                if self.fits(requests, context) {
                    script.company(&[group(requests, context, None)], GAPS, Stage::DecodeBatch);
                }
            }
        }
        self.prompts(script);
        let lengths = [16, 128, 512, 1024, 2048, 4096, 8192].into_iter().filter(|&n| self.fits(1, n));
        let lengths: Vec<Group> = lengths.map(|tokens| group(1, tokens, None)).collect();
        (0..self.repeats.div_ceil(2)).for_each(|_| script.alone(&lengths));
    }

    fn prompts(&self, script: &mut Script) {
        let one_step = self.engine.one_step_tokens(1);
        let within = |n: &u32| *n <= one_step && self.fits(1, *n);
        let lead = group(1, SHORT, None);
        for tokens in
            [16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2000].into_iter().filter(within)
        {
            self.chain(script, &lead, &group(1, tokens, None), self.repeats);
        }
        for tokens in [3000, 4000, 8000, 16_000].into_iter().filter(|&n| self.fits(1, n)) {
            self.chain(script, &lead, &group(1, tokens, None), self.repeats.div_ceil(4));
        }
        let together = [(4, 16), (16, 16), (48, 16), (4, 256), (32, 32), (60, 32)];
        for (requests, tokens) in together {
            if requests * tokens <= one_step && requests < self.engine.max_running {
                self.chain(script, &lead, &group(requests, tokens, None), self.repeats);
            }
        }
        let rows = [32, 128, 240].into_iter().filter(|&rows| self.engine.mixes && self.fits(rows + 1, 512));
        for lead in rows.map(|rows| group(rows, SHORT, None)) {
            for tokens in [16, 1024] {
                if tokens <= self.engine.one_step_tokens(lead.requests) {
                    self.chain(script, &lead, &group(1, tokens, None), self.repeats);
                }
            }
        }
    }

    /// The same probe again and again.
    fn chain(&self, script: &mut Script, lead: &Group, probe: &Group, repeats: u32) {
        let stage = if probe.adapter.is_some() { Stage::FirstAdapter } else { Stage::Prefill };
        // The first comes while the lead's own prompts are computed.
        self.chains(script, lead, &vec![*probe; repeats as usize + 1], stage);
    }

    /// Probes in chains that a lead outlives.
    fn chains(&self, script: &mut Script, lead: &Group, probes: &[Group], stage: Stage) {
        probes.chunks(CHAIN).for_each(|probes| script.probes(lead, probes, stage));
    }

    /// What adapters cost that are in their slots, and prompts under one.
    pub fn lora(&self, script: &mut Script) {
        let alone = self.engine.adapters_at_once(BaseRows::None);
        let beside = self.engine.adapters_at_once(BaseRows::Some);
        if alone == 0 {
            return;
        }
        for requests in [1, 4, 16, 64] {
            for adapters in counts(alone.min(requests)) {
                self.lora_company(script, (requests, 0), adapters);
            }
        }
        for lora in [4, 32] {
            for adapters in counts(beside.min(lora)) {
                self.lora_company(script, (lora, 64 - lora), adapters);
            }
        }
        let one_step = self.engine.one_step_tokens(1);
        let lead = group(1, SHORT, Some(0));
        for tokens in [16, 128, 512, 1024, 2000].into_iter().filter(|&n| n <= one_step && self.fits(1, n)) {
            let probe = group(1, tokens, Some(0));
            self.chain(script, &lead, &probe, self.repeats);
        }
    }

    fn lora_company(&self, script: &mut Script, (lora, base): (u32, u32), adapters: u32) {
        if !self.fits(lora + base, 64 + GAPS * self.repeats.div_ceil(8)) {
            return;
        }
        let share = |adapter| lora / adapters + u32::from(adapter < lora % adapters);
        let mut groups: Vec<Group> = (0..adapters).map(|a| group(share(a), 64, Some(a))).collect();
        if base > 0 {
            groups.push(group(base, 64, None));
        }
        let stage = if adapters == 1 { Stage::FirstAdapter } else { Stage::MoreAdapters };
        // Five costs share these times: each has to be surer than those of the base model.
        script.company(&groups, GAPS * self.repeats.div_ceil(8), stage);
    }

    /// What it costs that requests of an adapter wait for a slot while all slots are used.
    pub fn waiting(&self, script: &mut Script, adapters: u32) {
        let (slots, gaps) = (self.engine.slots, GAPS * self.repeats.div_ceil(4));
        let can_wait = self.engine.passes_over && adapters > slots && slots < self.engine.max_running;
        if !can_wait || !self.fits(slots, SHORT + gaps) {
            return;
        }
        let leads: Vec<Group> = (0..slots).map(|adapter| group(1, SHORT, Some(adapter))).collect();
        for requests in WAITING {
            script.waiting(&leads, &group(requests, SHORT, Some(slots)), gaps);
        }
    }

    /// What it costs to bring adapters into their slots. Comes before anything else asks for one.
    pub fn loads(&self, script: &mut Script, files: &[AdapterFile]) {
        let lead = group(1, SHORT, None);
        let count = files.len() as u32;
        let probe = |adapter: u32, brings| Group {
            requests: 1,
            prompt_tokens: SHORT,
            adapter: Some(adapter),
            brings,
        };
        let load = |adapter: u32, from_disk| {
            Brings::Load(Load { megabytes: files[adapter as usize].bytes as f64 * 1e-6, from_disk })
        };
        let mut probes = vec![group(1, SHORT, None)];
        for _ in 0..disk_rounds(&self.engine, count, self.repeats) {
            probes.extend((0..count).map(|adapter| probe(adapter, load(adapter, true))));
        }
        self.chains(script, &lead, &probes, Stage::Loads);
        if let Some(cycle) = slot_cycle(&self.engine, count) {
            let mut probes: Vec<Group> = (0..cycle).map(|a| probe(a, Brings::Unclear)).collect();
            for _ in 0..self.repeats {
                probes.extend((0..cycle).map(|adapter| probe(adapter, load(adapter, false))));
            }
            self.chains(script, &lead, &probes, Stage::Loads);
        }
    }
}

/// 1, 2, 4, ... and the most.
fn counts(most: u32) -> Vec<u32> {
    let mut counts: Vec<u32> = (0..32).map(|power| 1 << power).take_while(|&count| count < most).collect();
    counts.extend((most > 0).then_some(most));
    counts
}

/// How often all adapters, asked for in turn, are read from disk each.
pub fn disk_rounds(engine: &EngineShape, adapters: u32, repeats: u32) -> u32 {
    match engine.host_adapters {
        // Asked for in turn, each is given up before its turn comes again.
        Some(host) if host < adapters => repeats.div_ceil(4),
        _ => u32::from(engine.reads_late),
    }
}

/// Adapters that, asked for in turn, lose their slots and stay in host memory; `None` when there are no such.
pub fn slot_cycle(engine: &EngineShape, adapters: u32) -> Option<u32> {
    let cycle = engine.slots + 1;
    (engine.slots > 0 && cycle <= adapters.min(engine.host_adapters.unwrap_or(adapters))).then_some(cycle)
}
