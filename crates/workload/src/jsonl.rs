//! `jsonl_eval`: questions from a file, one JSON object a line.
//!
//! Tokens of these texts are estimates by the built-in tokenizer's rule for free text: a word outside its vocabulary
//! counts one token per started four letters.

use crate::content::{Space, content};
use crate::people::{People, Sender};
use crate::prompts::Said;
use crate::spec::{Plan, WorkloadSpec};
use crate::trace::input::Lines;
use crate::{WorkloadContext, WorkloadError};
use acb_tasks::{Layout, tokenizer};
use acb_types::{AdapterId, Digest, DocumentId, Prompt, Seed, Segment, TaskId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use smallvec::SmallVec;

/// Most rows that a file may have: they are held in memory.
const MAX_ROWS: u64 = 1_000_000;

/// One line as written. `ground_truth` and `requires_json` are for scoring real answers; a simulation only needs them
/// to be there in their form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    request_id: String,
    session_id: String,
    tenant_id: String,
    trust_group_id: String,
    document_id: String,
    #[serde(rename = "shared_prefix_id")]
    _shared_prefix_id: Option<String>,
    task_type: String,
    document: String,
    question: String,
    #[serde(rename = "ground_truth")]
    _ground_truth: serde_json::Value,
    expected_adapter: Option<String>,
    prompt_layout: LineLayout,
    #[serde(rename = "requires_json", default)]
    _requires_json: bool,
    max_tokens: u32,
    #[serde(rename = "source_title", default)]
    _source_title: Option<String>,
    #[serde(rename = "source_url", default)]
    _source_url: Option<String>,
    #[serde(rename = "source_license", default)]
    _source_license: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum LineLayout {
    #[serde(alias = "document_before_instruction")]
    DocumentFirst,
    #[serde(alias = "instruction_before_document")]
    InstructionFirst,
}

struct Row {
    session: u32,
    tenant: u32,
    trust_group: u32,
    task: TaskId,
    document: DocumentId,
    segments: SmallVec<[Segment; 2]>,
    max_tokens: u32,
    adapter: Option<AdapterId>,
}

/// The rows that a run uses, in an order that the seed deals.
pub(crate) struct Rows {
    rows: Vec<Row>,
    turns: Vec<u32>,
}

/// Dense numbers for names, in order of first use. Look-up only.
#[derive(Default)]
struct Names(FxHashMap<String, u32>);

impl Names {
    fn number(&mut self, name: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(name).or_insert(next)
    }
}

#[derive(Default)]
struct Known {
    requests: FxHashSet<String>,
    sessions: Names,
    tenants: Names,
    trust_groups: Names,
    documents: Names,
}

impl Rows {
    /// Reads the first `requests` rows and deals their order.
    pub fn read(
        spec: &WorkloadSpec,
        plan: &Plan,
        context: &WorkloadContext<'_>,
        seed: Seed,
    ) -> Result<Self, WorkloadError> {
        let path = spec.dataset_path.as_ref().ok_or_else(|| WorkloadError::Spec {
            pointer: "/dataset_path".to_owned(),
            message: "jsonl_eval needs a file of rows; name it".to_owned(),
        })?;
        let mut lines = Lines::open(path)?;
        let (mut known, mut rows) = (Known::default(), Vec::new());
        while (rows.len() as u64) < plan.requests.min(MAX_ROWS) {
            let parsed = match lines.next()? {
                None => break,
                Some((_, text)) => parse(text, context, &mut known),
            };
            rows.push(parsed.map_err(|message| lines.fault(message))?);
        }
        let found = rows.len() as u64;
        if found < plan.requests {
            return Err(WorkloadError::TooFewRows { path: path.clone(), rows: found, wanted: plan.requests });
        }
        seed.stream("order").shuffle(&mut rows);
        Ok(Self { rows, turns: vec![0; known.sessions.0.len()] })
    }

    /// Who sends the row of this start, and its position in their session.
    pub fn start(&mut self, start: u64, people: &People) -> (Sender, u32) {
        let row = &self.rows[start as usize];
        let turn = &mut self.turns[row.session as usize];
        *turn += 1;
        (people.sender_of(u64::from(row.session), row.tenant, row.trust_group), *turn - 1)
    }

    pub fn task(&self, start: u64) -> TaskId {
        self.rows[start as usize].task
    }

    pub fn adapter(&self, start: u64) -> Option<AdapterId> {
        self.rows[start as usize].adapter
    }

    pub fn said(&self, start: u64) -> Said {
        let row = &self.rows[start as usize];
        Said {
            document: Some(row.document),
            prompt: Prompt::new(row.segments.iter().copied()),
            max_output: Some(row.max_tokens),
            recorded_output: None,
        }
    }
}

fn parse(text: &str, context: &WorkloadContext<'_>, known: &mut Known) -> Result<Row, String> {
    let line: Line = serde_json::from_str(text)
        .map_err(|error| format!("{error}; a row is one JSON object of the documented fields"))?;
    let task = context.tasks.iter().position(|task| *task == line.task_type).ok_or_else(|| {
        format!("task_type \"{}\" is not a task; there are {}", line.task_type, context.tasks.join(", "))
    })?;
    if line.max_tokens == 0 {
        return Err("max_tokens is 0; an answer has at least one token".to_owned());
    }
    if !known.requests.insert(line.request_id.clone()) {
        return Err(format!("request_id \"{}\" occurs twice; give each row its own", line.request_id));
    }
    let document = segment(&line.document);
    let question = segment(&line.question);
    let segments = match layout(line.prompt_layout) {
        Layout::DocumentFirst => [document, question],
        Layout::InstructionFirst => [question, document],
    };
    Ok(Row {
        session: known.sessions.number(line.session_id),
        tenant: known.tenants.number(line.tenant_id),
        trust_group: known.trust_groups.number(line.trust_group_id),
        task: TaskId(task as u32),
        document: DocumentId(u64::from(known.documents.number(line.document_id))),
        segments: segments.into_iter().collect(),
        max_tokens: line.max_tokens,
        adapter: line.expected_adapter.and_then(|name| context.adapters.by_name(&name)),
    })
}

fn layout(line: LineLayout) -> Layout {
    match line {
        LineLayout::DocumentFirst => Layout::DocumentFirst,
        LineLayout::InstructionFirst => Layout::InstructionFirst,
    }
}

/// The content of a text is its hash, so that equal texts are equal tokens.
fn segment(text: &str) -> Segment {
    let digest = Digest::of(text.as_bytes());
    let value = u64::from_str_radix(digest.short(), 16).expect("a digest is hex");
    let tokens = u32::try_from(tokenizer::count(text)).unwrap_or(u32::MAX);
    Segment { content: content(Space::Row, value), tokens }
}

/// Mean prompt tokens and mean bound on the answer over the first `requests` rows; none when a row is faulty.
pub(crate) fn means(spec: &WorkloadSpec) -> Option<(f64, f64)> {
    let mut lines = Lines::open(spec.dataset_path.as_ref()?).ok()?;
    let (mut rows, mut prompt, mut max) = (0, 0, 0);
    while rows < spec.requests {
        let Some((_, text)) = lines.next().ok()? else { break };
        let line: Line = serde_json::from_str(text).ok()?;
        rows += 1;
        prompt += tokenizer::count(&line.document) + tokenizer::count(&line.question);
        max += u64::from(spec.max_output_tokens.unwrap_or(line.max_tokens));
    }
    (rows > 0).then(|| (prompt as f64 / rows as f64, max as f64 / rows as f64))
}
