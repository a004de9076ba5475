//! The waiting queue of one replica: first come, first served, with a view per adapter.
//!
//! Requests that the scheduler skips for want of an adapter slot keep their order, so the request that is admitted
//! next while all slots are used is the first one whose adapter is used, or which has none.

use crate::jobs::{JobKey, Jobs, Links, NO_JOB};
use crate::line::Line;
use acb_types::AdapterId;

/// First and last job of a list that is threaded through the jobs.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: JobKey,
    last: JobKey,
}

const EMPTY: Ends = Ends { first: NO_JOB, last: NO_JOB };

/// The queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    all: Ends,
    /// Base first, then adapter 0, 1, ...
    by_adapter: Vec<Ends>,
    len: u32,
    tokens: u64,
    next_place: i64,
    front_place: i64,
    arrivals: u64,
    /// Places of those that came, when somebody asks how many are before one.
    line: Option<Line>,
}

/// Which of a job's two lists.
#[derive(Clone, Copy)]
enum List {
    All,
    OfAdapter,
}

fn links(jobs: &mut Jobs, key: JobKey, list: List) -> &mut Links {
    match list {
        List::All => &mut jobs[key].queue,
        List::OfAdapter => &mut jobs[key].adapter_queue,
    }
}

fn column(adapter: Option<AdapterId>) -> usize {
    adapter.map_or(0, |a| a.index() + 1)
}

impl Queue {
    /// An empty queue for requests of so many adapters.
    pub(crate) fn new(adapters: usize) -> Self {
        Self {
            all: EMPTY,
            by_adapter: vec![EMPTY; adapters + 1],
            len: 0,
            tokens: 0,
            next_place: 0,
            front_place: -1,
            arrivals: 0,
            line: None,
        }
    }

    /// The same empty queue, which can say how many are before a request.
    pub(crate) fn counted(self) -> Self {
        Self { line: Some(Line::default()), ..self }
    }

    /// Waiting requests before this one. Those that lost their memory are few and walked past.
    ///
    /// # Panics
    /// When the queue is not a counted one.
    pub(crate) fn before(&self, jobs: &Jobs, key: JobKey) -> u64 {
        let line = self.line.as_ref().expect("the queue counts");
        let place = jobs[key].place;
        let lost = self.iter(jobs).take_while(|&other| jobs[other].place < place.min(0)).count() as u64;
        lost + u64::try_from(place).map_or(0, |place| u64::from(line.before(place)))
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Tokens of prompt and answer so far that they must compute if nothing is cached.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The request that waits at the front.
    pub(crate) fn first(&self) -> Option<JobKey> {
        (self.all.first != NO_JOB).then_some(self.all.first)
    }

    /// The first waiting request with this adapter.
    pub(crate) fn first_of(&self, adapter: Option<AdapterId>) -> Option<JobKey> {
        let first = self.by_adapter[column(adapter)].first;
        (first != NO_JOB).then_some(first)
    }

    /// The first waiting request that has one of these adapters or none.
    pub(crate) fn first_among(&self, jobs: &Jobs, adapters: &[AdapterId]) -> Option<JobKey> {
        let of_adapters = adapters.iter().filter_map(|&a| self.first_of(Some(a)));
        of_adapters.chain(self.first_of(None)).min_by_key(|&key| jobs[key].place)
    }

    /// Appends a request that came.
    pub(crate) fn push_back(&mut self, jobs: &mut Jobs, key: JobKey) {
        jobs[key].place = self.next_place;
        jobs[key].arrival = self.arrivals;
        if let Some(line) = &mut self.line {
            if self.len == 0 {
                line.restart(self.next_place as u64);
            }
            line.push();
        }
        self.arrivals += 1;
        self.next_place += 1;
        let column = column(jobs[key].adapter());
        append(&mut self.all, jobs, key, List::All);
        append(&mut self.by_adapter[column], jobs, key, List::OfAdapter);
        self.len += 1;
        self.tokens += u64::from(jobs[key].tokens());
    }

    /// Appends a request that lost its memory: behind all that came.
    pub(crate) fn push_back_again(&mut self, jobs: &mut Jobs, key: JobKey) {
        let arrival = jobs[key].arrival;
        self.push_back(jobs, key);
        self.arrivals -= 1;
        jobs[key].arrival = arrival;
    }

    /// Puts the waiting requests into another order: `keys` are all of them.
    pub(crate) fn reorder(&mut self, jobs: &mut Jobs, keys: &[JobKey]) {
        assert_eq!(keys.len(), self.len as usize, "an order has every request once");
        self.all = EMPTY;
        for &key in keys {
            self.by_adapter[column(jobs[key].adapter())] = EMPTY;
        }
        for &key in keys {
            jobs[key].place = self.next_place;
            self.next_place += 1;
            let column = column(jobs[key].adapter());
            append(&mut self.all, jobs, key, List::All);
            append(&mut self.by_adapter[column], jobs, key, List::OfAdapter);
        }
    }

    /// The least order of arrival that waits for its first admission.
    pub(crate) fn oldest_arrival(&self, jobs: &Jobs) -> Option<u64> {
        self.iter(jobs).find(|&key| jobs[key].place >= 0).map(|key| jobs[key].arrival)
    }

    /// Puts a preempted request before all others.
    pub(crate) fn push_front(&mut self, jobs: &mut Jobs, key: JobKey) {
        jobs[key].place = self.front_place;
        self.front_place -= 1;
        let column = column(jobs[key].adapter());
        prepend(&mut self.all, jobs, key, List::All);
        prepend(&mut self.by_adapter[column], jobs, key, List::OfAdapter);
        self.len += 1;
        self.tokens += u64::from(jobs[key].tokens());
    }

    /// Takes a request out, wherever it is.
    pub(crate) fn remove(&mut self, jobs: &mut Jobs, key: JobKey) {
        let column = column(jobs[key].adapter());
        if let (Some(line), Ok(place)) = (&mut self.line, u64::try_from(jobs[key].place)) {
            line.remove(place);
        }
        unlink(&mut self.all, jobs, key, List::All);
        unlink(&mut self.by_adapter[column], jobs, key, List::OfAdapter);
        self.len -= 1;
        self.tokens -= u64::from(jobs[key].tokens());
    }

    /// The waiting requests in order.
    pub(crate) fn iter<'a>(&self, jobs: &'a Jobs) -> impl Iterator<Item = JobKey> + 'a {
        std::iter::successors(self.first(), |&key| {
            let after = jobs[key].queue.after;
            (after != NO_JOB).then_some(after)
        })
    }

    /// The waiting requests behind this one, or all of them.
    pub(crate) fn iter_after<'a>(
        &self,
        jobs: &'a Jobs,
        key: Option<JobKey>,
    ) -> impl Iterator<Item = JobKey> + 'a {
        let next = key.map_or(self.all.first, |key| jobs[key].queue.after);
        std::iter::successors((next != NO_JOB).then_some(next), |&key| {
            let after = jobs[key].queue.after;
            (after != NO_JOB).then_some(after)
        })
    }

    /// Adapters with a waiting request, ascending.
    pub(crate) fn adapters(&self) -> impl Iterator<Item = AdapterId> + '_ {
        let columns = self.by_adapter.iter().skip(1);
        (0u32..).zip(columns).filter(|(_, ends)| ends.first != NO_JOB).map(|(i, _)| AdapterId(i))
    }
}

fn append(ends: &mut Ends, jobs: &mut Jobs, key: JobKey, list: List) {
    *links(jobs, key, list) = Links { before: ends.last, after: NO_JOB };
    match ends.last {
        NO_JOB => ends.first = key,
        last => links(jobs, last, list).after = key,
    }
    ends.last = key;
}

fn prepend(ends: &mut Ends, jobs: &mut Jobs, key: JobKey, list: List) {
    *links(jobs, key, list) = Links { before: NO_JOB, after: ends.first };
    match ends.first {
        NO_JOB => ends.last = key,
        first => links(jobs, first, list).before = key,
    }
    ends.first = key;
}

fn unlink(ends: &mut Ends, jobs: &mut Jobs, key: JobKey, list: List) {
    let Links { before, after } = std::mem::replace(links(jobs, key, list), Links::NONE);
    match before {
        NO_JOB => ends.first = after,
        _ => links(jobs, before, list).after = after,
    }
    match after {
        NO_JOB => ends.last = before,
        _ => links(jobs, after, list).before = before,
    }
}
