//! Prompts about documents: a document, an instruction of the task, a question that the document answers.

use super::{Place, Said};
use crate::content::{self, Space, content};
use crate::draw::{below, key};
use crate::popularity::Sampler;
use crate::spec::{Kind, LayoutChoice, Plan};
use acb_tasks::{Fact, Family, Layout, Part, Passage};
use acb_types::{ContentId, DocumentId, Prompt, Seed, Segment};
use smallvec::SmallVec;

/// Ids of documents that one request alone has start here.
const OWN_DOCUMENTS: u64 = 1 << 40;

/// Makes prompts about documents.
pub(crate) struct Documents {
    source: Source,
    tokens: u32,
    /// Tokens that all requests of a document share; the rest is each request's own.
    shared: u32,
    layout: LayoutChoice,
    families: Vec<Family>,
    instructions: Vec<Segment>,
    seeds: Seeds,
}

/// Where documents come from.
enum Source {
    /// A new one for every request.
    Own,
    /// Drawn for every request.
    Drawn(Sampler),
    /// Drawn for every session.
    OfSession(Sampler),
    /// Drawn from the first half of the documents, and from the second half in the second half of the run.
    Halves([Sampler; 2], u32),
}

struct Seeds {
    documents: Seed,
    layouts: Seed,
    questions: Seed,
    keys: Seed,
}

impl Documents {
    /// Prompts for tasks of these families, by task id.
    pub fn new(plan: &Plan, families: Vec<Family>, seed: Seed) -> Self {
        let shared = match plan.kind {
            Kind::ControlledOverlap => {
                (f64::from(plan.document_tokens) * plan.shared_fraction).round() as u32
            }
            _ => plan.document_tokens,
        };
        let instruction = |(task, family): (usize, &Family)| Segment {
            content: content(Space::Instruction, task as u64),
            tokens: family.instruction_tokens(),
        };
        Self {
            source: Source::new(plan),
            tokens: plan.document_tokens,
            shared,
            layout: plan.layout,
            instructions: families.iter().enumerate().map(instruction).collect(),
            families,
            seeds: Seeds {
                documents: seed.child("documents"),
                layouts: seed.child("layouts"),
                questions: seed.child("questions"),
                keys: seed.child("question keys"),
            },
        }
    }

    /// The prompt of a first turn.
    pub fn at(&self, place: Place) -> Said {
        let (document, passages) = self.document(place);
        let text = passages.iter().map(|p| Segment { content: p.content, tokens: p.tokens });
        let (instruction, question) = self.ask(place, &passages);
        let prompt = match self.layout(place) {
            Layout::DocumentFirst => Prompt::new(text.chain([instruction, question])),
            Layout::InstructionFirst => Prompt::new([instruction, question].into_iter().chain(text)),
        };
        Said { document: Some(document), prompt, max_output: None, recorded_output: None }
    }

    /// A later turn: what was said before, then another instruction and question about the same document.
    pub fn after(&self, place: Place, mut history: Prompt) -> Said {
        let (document, passages) = self.document(place);
        let (instruction, question) = self.ask(place, &passages);
        history.push(instruction);
        history.push(question);
        Said { document: Some(document), prompt: history, max_output: None, recorded_output: None }
    }

    /// Tokens that a turn of this task adds to what was said before.
    pub fn turn_tokens(&self, task: usize) -> u32 {
        self.instructions[task].tokens + self.families[task].question_tokens()
    }

    /// Tokens of a document.
    pub fn document_tokens(&self) -> u32 {
        self.tokens
    }

    fn document(&self, place: Place) -> (DocumentId, SmallVec<[Passage; 2]>) {
        let unit = |turn| self.seeds.documents.unit(key(place.start, turn));
        let own = key(place.start, place.turn);
        let id = match &self.source {
            Source::Own => {
                let whole = passage(content(Space::Unique, own), self.tokens, Part::First);
                return (DocumentId(OWN_DOCUMENTS + own), [whole].into_iter().collect());
            }
            Source::Drawn(sampler) => sampler.at(unit(place.turn)),
            Source::OfSession(sampler) => sampler.at(unit(0)),
            Source::Halves(halves, offset) => {
                let half = usize::from(place.second_half);
                halves[half].at(unit(place.turn)) + offset * half as u32
            }
        };
        let shared = passage(content(Space::Document, u64::from(id)), self.shared, Part::First);
        let rest = passage(content(Space::Unique, own), self.tokens - self.shared, Part::Second);
        let parts = [shared, rest].into_iter().filter(|part| part.tokens > 0).collect();
        (DocumentId(u64::from(id)), parts)
    }

    fn layout(&self, place: Place) -> Layout {
        match self.layout {
            LayoutChoice::DocumentFirst => Layout::DocumentFirst,
            LayoutChoice::InstructionFirst => Layout::InstructionFirst,
            LayoutChoice::Both if self.seeds.layouts.unit(key(place.start, place.turn)) < 0.5 => {
                Layout::DocumentFirst
            }
            LayoutChoice::Both => Layout::InstructionFirst,
        }
    }

    /// Instruction and question: every fact that the document states completely is asked for alike.
    fn ask(&self, place: Place, passages: &[Passage]) -> (Segment, Segment) {
        let family = self.families[place.task.index()];
        let facts: SmallVec<[u32; 2]> = passages.iter().map(|&p| acb_tasks::facts(family, p)).collect();
        let total: u32 = facts.iter().sum();
        let draw = key(place.start, place.turn);
        let mut index = if total == 0 { 0 } else { below(self.seeds.questions.unit(draw), total) };
        let mut at = 0;
        while at + 1 < facts.len() && index >= facts[at] {
            index -= facts[at];
            at += 1;
        }
        let fact = Fact { passage: at, index, key: below(self.seeds.keys.unit(draw), 3) as u8 };
        let about: ContentId = passages.get(at).map_or(ContentId(0), |passage| passage.content);
        let question = content::question(family, about, fact);
        (
            self.instructions[place.task.index()],
            Segment { content: question, tokens: family.question_tokens() },
        )
    }
}

impl Source {
    fn new(plan: &Plan) -> Self {
        let all = || Sampler::of(&plan.document_popularity, plan.documents as usize);
        match plan.kind {
            Kind::LowOverlapControl | Kind::RegimeAdversarialChurn => Self::Own,
            Kind::AgentSession | Kind::RegimeBurstySession => Self::OfSession(all()),
            Kind::RegimePhaseShift => {
                let first = plan.documents / 2;
                let shares = plan.document_popularity.shares(plan.documents as usize);
                let (a, b) = shares.split_at(first as usize);
                let scaled = |part: &[f64]| {
                    let sum: f64 = part.iter().sum();
                    Sampler::new(&part.iter().map(|share| share / sum).collect::<Vec<_>>())
                };
                Self::Halves([scaled(a), scaled(b)], first)
            }
            _ => Self::Drawn(all()),
        }
    }
}

fn passage(content: ContentId, tokens: u32, part: Part) -> Passage {
    Passage { content, tokens, part }
}
