//! Which task a request asks for: popularity, its drift, and the habit of a session.

use crate::draw::{below, key};
use crate::popularity::Sampler;
use crate::spec::{Drift, Plan, PopularityOrder, TaskLaw};
use acb_types::{Nanos, Seed, TaskId};

/// Draws tasks.
pub(crate) struct Asks {
    law: Law,
    tasks: u32,
    draws: Seed,
    habit: Option<Habit>,
    order: Vec<u32>,
    drift: Option<(Drift, Seed)>,
    epoch: u64,
    start_order: Vec<u32>,
}

enum Law {
    Steady(Sampler),
    Halves([Sampler; 2], u64),
    Churn { last: u32 },
}

struct Habit {
    stickiness: f64,
    draws: Seed,
    /// Last task of each label session; empty when sessions carry it themselves.
    last: Vec<Option<u32>>,
}

/// Where a request stands: what its task may depend on.
pub(crate) struct Ask {
    /// Number of its session's (or its own) start.
    pub start: u64,
    /// Turn within it.
    pub turn: u32,
    /// Requests that started before.
    pub before: u64,
    /// When its session started.
    pub at: Nanos,
    /// The label session that it belongs to.
    pub label: Option<u32>,
    /// The task of the turn before.
    pub last: Option<TaskId>,
}

impl Asks {
    pub fn new(plan: &Plan, tasks: usize, labels: usize, seed: Seed) -> Self {
        let law = match &plan.tasks {
            TaskLaw::Steady(popularity) => Law::Steady(Sampler::of(popularity, tasks)),
            TaskLaw::Halves(halves) => {
                Law::Halves(halves.each_ref().map(|half| Sampler::of(half, tasks)), plan.requests.div_ceil(2))
            }
            TaskLaw::Churn => Law::Churn { last: below(seed.child("churn").unit(0), tasks as u32) },
        };
        let mut start_order: Vec<u32> = (0..tasks as u32).collect();
        if plan.order == PopularityOrder::Shuffled {
            seed.stream("popularity_order").shuffle(&mut start_order);
        }
        let habit = (plan.stickiness > 0.0).then(|| Habit {
            stickiness: plan.stickiness,
            draws: seed.child("stickiness"),
            last: vec![None; labels],
        });
        Self {
            law,
            tasks: tasks as u32,
            draws: seed.child("tasks"),
            habit,
            order: start_order.clone(),
            drift: plan.drift.map(|drift| (drift, seed.child("drift"))),
            epoch: 0,
            start_order,
        }
    }

    /// The task of a request. Starts are asked about in order.
    pub fn task(&mut self, ask: &Ask) -> TaskId {
        self.move_to(ask.at);
        let task = self.kept(ask).unwrap_or_else(|| self.fresh(ask));
        if let (Some(habit), Some(label)) = (&mut self.habit, ask.label) {
            habit.last[label as usize] = Some(task);
        }
        TaskId(task)
    }

    fn kept(&self, ask: &Ask) -> Option<u32> {
        let habit = self.habit.as_ref()?;
        let last = match ask.label {
            Some(label) => habit.last[label as usize],
            None => ask.last.map(|task| task.0),
        };
        last.filter(|_| habit.draws.unit(key(ask.start, ask.turn)) < habit.stickiness)
    }

    fn fresh(&mut self, ask: &Ask) -> u32 {
        let unit = self.draws.unit(key(ask.start, ask.turn));
        let rank = match &mut self.law {
            Law::Steady(sampler) => sampler.at(unit),
            Law::Halves(halves, half) => halves[usize::from(ask.before >= *half)].at(unit),
            Law::Churn { last } => {
                let before = if ask.turn == 0 { *last } else { ask.last.map_or(*last, |task| task.0) };
                let next = match self.tasks {
                    1 => 0,
                    n => (before + 1 + below(unit, n - 1)) % n,
                };
                if ask.turn == 0 {
                    *last = next;
                }
                return next;
            }
        };
        self.order[rank as usize]
    }

    fn move_to(&mut self, at: Nanos) {
        let Some((drift, seed)) = self.drift else { return };
        let (Drift::Rotate { every_s, .. } | Drift::Reshuffle { every_s }) = drift;
        let epoch = (at.as_secs_f64() / every_s) as u64;
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        self.order.clone_from(&self.start_order);
        match drift {
            Drift::Rotate { step, .. } => {
                let places = (u128::from(epoch) * u128::from(step) % u128::from(self.tasks)) as usize;
                self.order.rotate_left(places);
            }
            Drift::Reshuffle { .. } if epoch > 0 => {
                seed.stream(&format!("deal {epoch}")).shuffle(&mut self.order);
            }
            Drift::Reshuffle { .. } => {}
        }
    }
}
