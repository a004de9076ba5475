//! Scenes: requests that are sent so that from outside it is known what each step computes.
//!
//! - *Company*: requests decode together; the gaps between tokens while all of them do are steps of nothing else.
//! - *Probes*: some requests decode all the time (the *lead*), and short-lived ones with an answer of one token come one group
//!   after another. The lead's tokens stamp the steps in which a probe's prompt was computed, so that network and front end,
//!   which shift all tokens alike, drop out.
//! - *Waiting*: a company has all adapter slots, and requests of another adapter wait until one of it ends. A request of the
//!   base model, sent after them, marks by its token from when they do.
//! - *Alone*: one request at a time on an idle server; what the steps don't explain is network and front end.

use super::engine::EngineShape;
use super::equation::{Counts, Equation, Load, SlotCounts, Stage};
use super::server::{Ask, Reply, Start};
use acb_types::Nanos;
use std::collections::BTreeSet;
use std::ops::Range;

/// Time between two scenes.
const PAUSE: Nanos = Nanos::from_millis(100);

/// Steps that a company decodes beside those that are read, until those who shall wait for it have come.
const COMING: u32 = 200;

/// Like requests.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// How many.
    pub requests: u32,
    /// Prompt tokens of each.
    pub prompt_tokens: u32,
    /// Their adapter.
    pub adapter: Option<u32>,
    /// What of an adapter's load they bring; `Unclear` probes are not read.
    pub brings: Brings,
}

/// What a probe brings beside its prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Brings {
    /// Nothing.
    Nothing,
    /// A load.
    Load(Load),
    /// A load or none: it only prepares those after it.
    Unclear,
}

/// A scene's place in the plan.
#[derive(Clone, Debug)]
enum Scene {
    Company { asks: Range<usize>, stage: Stage },
    Probes { lead: Range<usize>, groups: Vec<(Range<usize>, Brings)>, stage: Stage },
    Waiting { company: Range<usize>, waiting: Range<usize>, marker: usize },
    Alone { asks: Range<usize> },
}

/// A plan of scenes for one server.
#[derive(Clone, Debug)]
pub struct Script {
    engine: EngineShape,
    texts: u64,
    asks: Vec<Ask>,
    scenes: Vec<Scene>,
}

impl Script {
    /// An empty plan. No prompt is shared with one whose text is below `texts`.
    pub fn new(engine: EngineShape, texts: u64) -> Self {
        Self { engine, texts, asks: Vec::new(), scenes: Vec::new() }
    }

    /// The requests.
    pub fn asks(&self) -> &[Ask] {
        &self.asks
    }

    fn next_start(&self) -> Start {
        match self.asks.len() {
            0 => Start::At(Nanos::ZERO),
            count => Start::After { ask: count - 1, wait: PAUSE },
        }
    }

    fn push(&mut self, start: Start, group: &Group, output_tokens: u32) -> Range<usize> {
        let from = self.asks.len();
        for _ in 0..group.requests {
            self.texts += 1;
            let (text, prompt_tokens, adapter) = (self.texts, group.prompt_tokens, group.adapter);
            self.asks.push(Ask { start, text, prompt_tokens, output_tokens, adapter });
        }
        from..self.asks.len()
    }

    fn push_all(&mut self, start: Start, groups: &[Group], output_tokens: u32) -> Range<usize> {
        let from = self.asks.len();
        for group in groups {
            self.push(start, group, output_tokens);
        }
        from..self.asks.len()
    }

    /// Requests that decode together for about `gaps` steps.
    pub fn company(&mut self, groups: &[Group], gaps: u32, stage: Stage) {
        let prompt_tokens: u32 = groups.iter().map(|group| group.requests * group.prompt_tokens).sum();
        let rows: u32 = groups.iter().map(|group| group.requests).sum();
        // Those admitted first decode while the prompts of the others are computed.
        let early = self.engine.chunks(prompt_tokens, rows).len() as u32;
        let asks = self.push_all(self.next_start(), groups, gaps + early + 4);
        self.scenes.push(Scene::Company { asks, stage });
    }

    /// `probes` one after the other beside a lead that decodes.
    pub fn probes(&mut self, lead: &Group, probes: &[Group], stage: Stage) {
        // Between two probes come the steps that pass while the next one is on its way.
        let steps = |probe: &Group| self.engine.chunks(probe.prompt_tokens, lead.requests).len() as u32 + 10;
        let answer = probes.iter().map(steps).sum::<u32>() + 40;
        let lead = self.push(self.next_start(), lead, answer);
        let mut groups = Vec::new();
        let mut start = later(self.asks[lead.start].start);
        for probe in probes {
            let asks = self.push(start, probe, 1);
            start = Start::After { ask: asks.start, wait: Nanos::ZERO };
            groups.push((asks, probe.brings));
        }
        self.push(Start::After { ask: lead.start, wait: PAUSE }, &ONE, 1);
        self.scenes.push(Scene::Probes { lead, groups, stage });
    }

    /// Requests that decode together for about `gaps` steps while others wait until one of them ends.
    pub fn waiting(&mut self, company: &[Group], waiting: &Group, gaps: u32) {
        let start = self.next_start();
        let company = self.push_all(start, company, gaps + COMING);
        let waiting = self.push(later(start), waiting, 1);
        let marker = self.push(later(later(start)), &ONE, 1).start;
        self.push(Start::After { ask: company.start, wait: PAUSE }, &ONE, 1);
        self.scenes.push(Scene::Waiting { company, waiting, marker });
    }

    /// One request after the other on an idle server.
    pub fn alone(&mut self, groups: &[Group]) {
        let from = self.asks.len();
        for group in groups {
            self.push(self.next_start(), group, 1);
        }
        self.scenes.push(Scene::Alone { asks: from..self.asks.len() });
    }

    /// What the replies say, as equations; like ones become one.
    pub fn read(&self, replies: &[Reply]) -> Vec<Equation> {
        let reader = Reader { script: self, replies };
        self.scenes.iter().flat_map(|scene| reader.scene(scene)).collect()
    }
}

/// A request that the base model answers at once. The next scene waits for the last request of the one before, so such a
/// one comes after the end of a scene whose last request ends early.
const ONE: Group = Group { requests: 1, prompt_tokens: 16, adapter: None, brings: Brings::Nothing };

fn later(mut start: Start) -> Start {
    let (Start::After { wait, .. } | Start::At(wait)) = &mut start;
    *wait += PAUSE;
    start
}

struct Reader<'a> {
    script: &'a Script,
    replies: &'a [Reply],
}

impl Reader<'_> {
    fn scene(&self, scene: &Scene) -> Vec<Equation> {
        match scene {
            Scene::Company { asks, stage } => self.company(asks.clone(), *stage).into_iter().collect(),
            Scene::Probes { lead, groups, stage } => {
                let read = |(asks, brings): &(Range<usize>, Brings)| {
                    self.probe(lead.clone(), asks.clone(), *brings, *stage)
                };
                merged(groups.iter().filter_map(read))
            }
            Scene::Waiting { company, waiting, marker } => {
                self.waiting(company.clone(), waiting.clone(), *marker).into_iter().collect()
            }
            Scene::Alone { asks } => merged(asks.clone().map(|ask| self.alone(ask))),
        }
    }

    fn tokens(&self, ask: usize) -> &[Nanos] {
        self.replies[ask].tokens.as_deref().unwrap_or(&[])
    }

    fn equation(&self, stage: Stage, steps: Vec<Counts>, measured: Nanos) -> Equation {
        let engine = &self.script.engine;
        let slots = SlotCounts { slots: f64::from(engine.slots), max_rank: f64::from(engine.max_rank) };
        Equation { stage, slots, steps, load: None, measured_ns: measured.0 as f64, times: 1.0 }
    }

    /// The decoding of these at `at`: who has how many tokens by then is what the next step reads.
    fn decoding(&self, asks: Range<usize>, at: Nanos) -> Counts {
        let mut counts = Counts::default();
        let mut adapters = BTreeSet::new();
        for ask in asks {
            let produced = self.tokens(ask).partition_point(|&token| token <= at);
            counts.rows += 1.0;
            counts.context_tokens += f64::from(self.script.asks[ask].prompt_tokens) + produced as f64;
            if let Some(adapter) = self.script.asks[ask].adapter {
                counts.lora_rows += 1.0;
                adapters.insert(adapter);
            }
        }
        counts.adapters = adapters.len() as f64;
        counts
    }

    /// From when all of them decode until the first of them ends.
    fn together(&self, asks: Range<usize>) -> Option<(Nanos, Nanos)> {
        let tokens = || asks.clone().map(|ask| self.tokens(ask));
        let from = tokens().map(|tokens| tokens.first().copied()).max()??;
        let until = tokens().filter_map(|tokens| tokens.last().copied()).min()?;
        (from < until).then_some((from, until))
    }

    fn company(&self, asks: Range<usize>, stage: Stage) -> Option<Equation> {
        let span = self.together(asks.clone())?;
        self.mean_step(asks, span, stage)
    }

    /// The mean of the steps from one token of these to another, while all of them decode.
    fn mean_step(&self, asks: Range<usize>, (from, until): (Nanos, Nanos), stage: Stage) -> Option<Equation> {
        let gaps = self.tokens(asks.start).iter().filter(|&&token| token > from && token <= until).count();
        let gaps = u32::try_from(gaps).ok().filter(|&gaps| gaps > 0).map(f64::from)?;
        let mut mean = self.decoding(asks, from);
        mean.context_tokens += mean.rows * (gaps - 1.0) / 2.0;
        let mut equation = self.equation(stage, vec![mean], until - from);
        (equation.measured_ns, equation.times) = (equation.measured_ns / gaps, gaps);
        Some(equation)
    }

    /// `None` when not all of them waited as long as the company was whole.
    fn waiting(&self, company: Range<usize>, waiting: Range<usize>, marker: usize) -> Option<Equation> {
        let (from, until) = self.together(company.clone())?;
        // Requests are taken in the order in which they come: all are there when the marker has its token.
        let from = from.max(self.replies[marker].first);
        let stamps = self.tokens(company.start);
        let from = *stamps.get(stamps.partition_point(|&stamp| stamp < from))?;
        if waiting.clone().any(|ask| self.replies[ask].first <= until) {
            return None;
        }
        let mut equation = self.mean_step(company, (from, until), Stage::Waiting)?;
        equation.steps[0].skipped = waiting.len() as f64;
        Some(equation)
    }

    /// The steps that computed these prompts, stamped by the lead's tokens. `None` when they weren't computed together or
    /// the lead wasn't there all the time.
    fn probe(
        &self,
        lead: Range<usize>,
        asks: Range<usize>,
        brings: Brings,
        stage: Stage,
    ) -> Option<Equation> {
        let engine = &self.script.engine;
        let (requests, ask) = (asks.len() as u32, &self.script.asks[asks.start]);
        let chunks = engine.chunks(ask.prompt_tokens, lead.len() as u32);
        let (from, until) = self.stamped(lead.clone(), asks, chunks.len())?;
        let decoding = if engine.mixes { self.decoding(lead.clone(), from) } else { Counts::default() };
        let of_lead = self.script.asks[lead.start].adapter.filter(|_| engine.mixes);
        let adapters: BTreeSet<u32> = of_lead.into_iter().chain(ask.adapter).collect();
        let mut computed = 0;
        let steps = (0..).zip(&chunks).map(|(step, &tokens)| {
            let context_tokens = decoding.context_tokens + f64::from(step) * decoding.rows;
            let mut counts = Counts { context_tokens, adapters: adapters.len() as f64, ..decoding };
            counts.add_prefill(requests, computed, tokens);
            computed += tokens;
            if ask.adapter.is_some() {
                counts.lora_prefill_tokens = counts.prefill_tokens;
            }
            counts
        });
        let equation = self.equation(stage, steps.collect(), until - from);
        match brings {
            Brings::Nothing => Some(equation),
            Brings::Load(load) => Some(Equation { load: Some(load), ..equation }),
            Brings::Unclear => None,
        }
    }

    fn stamped(&self, lead: Range<usize>, asks: Range<usize>, steps: usize) -> Option<(Nanos, Nanos)> {
        let (all_from, all_until) = self.together(lead.clone())?;
        let stamps = self.tokens(lead.start);
        let firsts = || asks.clone().map(|ask| self.replies[ask].first);
        let (first, last) = (firsts().min()?, firsts().max()?);
        let (from, until) = if self.script.engine.mixes {
            let nearest = |at: Nanos| {
                let distance = |&place: &usize| stamps[place].0.abs_diff(at.0);
                let next = stamps.partition_point(|&stamp| stamp < at);
                (next.saturating_sub(1)..=next).filter(|&p| p < stamps.len()).min_by_key(distance)
            };
            let end = nearest(last).filter(|_| nearest(first) == nearest(last))?;
            (stamps[end.checked_sub(steps)?], stamps[end])
        } else {
            let before = |at: Nanos| stamps.partition_point(|&stamp| stamp < at).checked_sub(1);
            let begin = before(first).filter(|_| before(first) == before(last))?;
            (stamps[begin], last)
        };
        (all_from <= from && until <= all_until).then_some((from, until))
    }

    fn alone(&self, ask: usize) -> Equation {
        let (asked, reply) = (&self.script.asks[ask], &self.replies[ask]);
        let mut computed = 0;
        let steps = self.script.engine.chunks(asked.prompt_tokens, 0).into_iter().map(|tokens| {
            let mut counts = Counts::default();
            counts.add_prefill(1, computed, tokens);
            computed += tokens;
            counts
        });
        self.equation(Stage::FrontEnd, steps.collect(), reply.first - reply.sent)
    }
}

/// Means of the equations that differ in nothing but the contexts of the lead.
fn merged(equations: impl Iterator<Item = Equation>) -> Vec<Equation> {
    let mut all: Vec<Equation> = Vec::new();
    for new in equations {
        let like = |old: &&mut Equation| old.load == new.load && same_prompts(&old.steps, &new.steps);
        match all.iter_mut().find(like) {
            Some(old) => {
                old.times += 1.0;
                let share = 1.0 / old.times;
                old.measured_ns += (new.measured_ns - old.measured_ns) * share;
                for (old, new) in old.steps.iter_mut().zip(&new.steps) {
                    old.context_tokens += (new.context_tokens - old.context_tokens) * share;
                }
            }
            None => all.push(new),
        }
    }
    all
}

fn same_prompts(a: &[Counts], b: &[Counts]) -> bool {
    let prompts = |counts: &Counts| Counts { context_tokens: 0.0, ..*counts };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| prompts(a) == prompts(b))
}
