//! Adapters in host memory (`lora/lora_registry.py` and the tokenizer's `_resolve_lora_path`): at most so many, the least
//! recently asked for given up first, and read from disk again when somebody asks for them.
//!
//! One adapter is read at a time, between two steps, and the engine waits. Whoever has to go for it does not come back
//! before all that use it have ended; until then the request that asked, and all that ask for others not loaded, wait
//! outside the engine. An adapter that is read again gets a new id, so that nothing cached under the old one is found.
//! At start all have been loaded once, in the order of the catalogue.

use super::rules::LoraRules;
use crate::jobs::JobKey;
use acb_types::AdapterId;
use std::collections::VecDeque;

/// What a replica has in host memory.
#[derive(Clone, Debug)]
pub(super) struct Registry {
    /// Whether there is a limit; without one all stay loaded and their order does not matter.
    limited: bool,
    /// Loaded adapters, the least recently asked for first.
    loaded: Vec<AdapterId>,
    /// How often each was read: with its number, its id.
    generations: Vec<u64>,
    /// Requests inside the engine, by adapter.
    users: Vec<u32>,
    /// Requests that wait for an adapter to be loaded, in order.
    waiting: VecDeque<JobKey>,
    /// The adapter that has to go before the first of them may enter, when its own is read.
    leaving: Option<AdapterId>,
    evictions: u64,
}

/// What the first request that waits for an adapter needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Its adapter has to be read.
    Read(JobKey),
    /// It may enter the engine.
    Enter(JobKey),
    /// Its adapter is there, but another has to go first, and is used.
    Wait,
}

impl Registry {
    pub(super) fn new(rules: &LoraRules) -> Self {
        let count = rules.pinned.len();
        let mut registry = Self {
            limited: rules.max_loaded.is_some(),
            loaded: Vec::new(),
            generations: vec![0; count],
            users: vec![0; count],
            waiting: VecDeque::new(),
            leaving: None,
            evictions: 0,
        };
        for adapter in (0..count as u32).map(AdapterId) {
            registry.loaded.push(adapter);
            if let Some(victim) = registry.surplus(rules) {
                registry.loaded.retain(|&a| a != victim);
            }
        }
        registry
    }

    /// A request asks for an adapter: whether it is loaded, so that the request may enter the engine.
    pub(super) fn ask(&mut self, adapter: AdapterId) -> bool {
        if !self.limited {
            return true;
        }
        let Some(at) = self.loaded.iter().position(|&a| a == adapter) else { return false };
        self.loaded.remove(at);
        self.loaded.push(adapter);
        true
    }

    /// Makes a request wait until its adapter is loaded.
    pub(super) fn wait(&mut self, key: JobKey) {
        self.waiting.push_back(key);
    }

    /// Requests that wait for an adapter to be loaded.
    pub(super) fn waiting(&self) -> &VecDeque<JobKey> {
        &self.waiting
    }

    /// Takes a request out that is given up. What its adapter set in motion goes on.
    pub(super) fn forget(&mut self, key: JobKey) {
        self.waiting.retain(|&k| k != key);
    }

    /// A request enters the engine: the id of its adapter.
    pub(super) fn acquire(&mut self, adapter: AdapterId) -> u64 {
        self.users[adapter.index()] += 1;
        self.generations[adapter.index()]
    }

    /// A request of this adapter ended.
    pub(super) fn release(&mut self, adapter: AdapterId) {
        let users = &mut self.users[adapter.index()];
        *users = users.checked_sub(1).expect("an adapter is released by who has it");
    }

    /// What comes next for those that wait; `adapter_of` tells whose adapter is whose. An adapter that had to go and is
    /// no longer used is gone, and given back in `gone`.
    pub(super) fn next(
        &mut self,
        adapter_of: impl Fn(JobKey) -> AdapterId,
        gone: &mut Option<AdapterId>,
    ) -> Option<Next> {
        if let Some(victim) = self.leaving {
            if self.users[victim.index()] > 0 {
                return Some(Next::Wait);
            }
            (self.leaving, *gone) = (None, Some(victim));
            self.evictions += 1;
        }
        let &key = self.waiting.front()?;
        if self.ask(adapter_of(key)) {
            self.waiting.pop_front();
            return Some(Next::Enter(key));
        }
        Some(Next::Read(key))
    }

    /// An adapter was read.
    pub(super) fn read(&mut self, adapter: AdapterId, rules: &LoraRules) {
        assert!(self.leaving.is_none(), "one adapter is exchanged at a time");
        self.generations[adapter.index()] += 1;
        self.loaded.push(adapter);
        self.leaving = self.surplus(rules);
        self.loaded.retain(|&a| Some(a) != self.leaving);
    }

    /// An adapter is unloaded that nobody uses. It can be asked for again, and then has a new id.
    pub(super) fn unload(&mut self, adapter: AdapterId) {
        if self.limited {
            self.loaded.retain(|&a| a != adapter);
        } else {
            self.generations[adapter.index()] += 1;
        }
    }

    fn surplus(&self, rules: &LoraRules) -> Option<AdapterId> {
        let too_many = rules.max_loaded.is_some_and(|most| self.loaded.len() > most);
        let mut oldest = self.loaded.iter().copied().filter(|a| !rules.pinned[a.index()]);
        oldest.next().filter(|_| too_many)
    }

    /// Adapters in host memory, ascending, one that has to go included.
    pub(super) fn adapters(&self) -> Vec<AdapterId> {
        let mut found: Vec<AdapterId> = self.loaded.iter().copied().chain(self.leaving).collect();
        found.sort_unstable();
        found
    }

    /// Adapters dropped so far.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Whether any request inside the engine has an adapter.
    pub(super) fn is_used(&self) -> bool {
        self.users.iter().any(|&users| users > 0)
    }
}
