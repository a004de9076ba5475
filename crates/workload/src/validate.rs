//! What can only be checked with the experiment's adapters and the files at hand.

use crate::spec::{Kind, Plan, Popularity, Sessions, TaskLaw, WorkloadSpec};
use crate::trace::{TraceReader, TraceSpec};
use crate::{WorkloadContext, WorkloadError};
use acb_tasks::Family;

/// Refuses a workload that can't be run: impossible numbers, missing tasks, faulty or short files, no room for any
/// prompt.
pub(crate) fn workload(
    spec: &WorkloadSpec,
    plan: &Plan,
    context: &WorkloadContext<'_>,
) -> Result<(), WorkloadError> {
    if let Some((pointer, message)) = spec.check().into_iter().next() {
        return Err(WorkloadError::Spec { pointer, message });
    }
    if context.tasks.is_empty() {
        return Err(WorkloadError::NoTasks);
    }
    if !plan.kind.asks_for_adapters_tasks() {
        families(context.tasks)?;
    }
    let laws = match &plan.tasks {
        TaskLaw::Steady(law) => vec![law],
        TaskLaw::Halves([a, b]) => vec![a, b],
        TaskLaw::Churn => Vec::new(),
    };
    for law in laws {
        weights(law, context.tasks.len())?;
    }
    if let Some(trace) = &spec.trace {
        rows(trace, plan)?;
    }
    room(plan, context.context_tokens)
}

/// The families of the tasks, by task id.
pub(crate) fn families(tasks: &[String]) -> Result<Vec<Family>, WorkloadError> {
    for family in Family::ALL {
        if !tasks.iter().any(|task| task == family.name()) {
            return Err(WorkloadError::UnknownTask(family.name().to_owned(), tasks.join(", ")));
        }
    }
    let known = Family::ALL.map(Family::name).join(", ");
    let parse =
        |task: &String| task.parse().map_err(|_| WorkloadError::UnknownTask(task.clone(), known.clone()));
    tasks.iter().map(parse).collect()
}

fn weights(law: &Popularity, tasks: usize) -> Result<(), WorkloadError> {
    match law {
        Popularity::Weights { weights } if weights.len() != tasks => Err(WorkloadError::Spec {
            pointer: "/popularity/weights".to_owned(),
            message: format!("has {} weights for {tasks} tasks; give one for each", weights.len()),
        }),
        _ => Ok(()),
    }
}

/// Reads as much of a trace as the run will, so that a faulty line is found now.
fn rows(trace: &TraceSpec, plan: &Plan) -> Result<(), WorkloadError> {
    let mut found = 0;
    for row in TraceReader::open(trace)? {
        row?;
        found += 1;
        if found > plan.requests {
            return Ok(());
        }
    }
    if found < plan.requests && matches!(plan.sessions, Sessions::Labels(_)) {
        return Err(WorkloadError::TooFewRows {
            path: trace.path.clone(),
            rows: found,
            wanted: plan.requests,
        });
    }
    Ok(())
}

fn room(plan: &Plan, context_tokens: u32) -> Result<(), WorkloadError> {
    let shortest = match plan.kind {
        Kind::JsonlEval | Kind::Trace => return Ok(()),
        Kind::MultiLora => u64::from(plan.prompt_tokens.least()),
        _ => {
            let ask = Family::ALL.map(|f| f.instruction_tokens() + f.question_tokens()).into_iter().min();
            u64::from(plan.document_tokens) + u64::from(ask.unwrap_or(0))
        }
    };
    if shortest >= u64::from(context_tokens) {
        return Err(WorkloadError::ContextTooShort { prompt_tokens: shortest, context_tokens });
    }
    Ok(())
}
