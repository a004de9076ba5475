//! LoRA adapters: what they weigh and what they are for.

use crate::{AdapterId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What an adapter was trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterRole {
    /// One task.
    Specialist(TaskId),
    /// Every task.
    Multitask,
    /// Nothing: zero weights, the same serving cost. Separates the serving tax from quality.
    Placebo,
}

/// One adapter of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapter {
    /// Index into the catalogue.
    pub id: AdapterId,
    /// The name that users, records and servers use.
    pub name: String,
    /// LoRA rank.
    pub rank: u32,
    /// Weight bytes as loaded (A and B of all target modules).
    pub bytes: u64,
    /// What it was trained for.
    pub role: AdapterRole,
}

/// Why a catalogue can't be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdaptersError {
    /// Two adapters share a name.
    #[error("adapter \"{0}\" is named twice; give each its own name")]
    DuplicateName(String),
    /// Two specialists for one task.
    #[error("adapters \"{first}\" and \"{second}\" are both specialists for the same task; keep one")]
    TwoSpecialists {
        /// The one that came first.
        first: String,
        /// The one that came second.
        second: String,
    },
}

/// The catalogue of an experiment: dense by id, with look-up by name and task.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Adapters {
    list: Vec<Adapter>,
    by_name: BTreeMap<String, AdapterId>,
    specialists: BTreeMap<TaskId, AdapterId>,
    multitask: Option<AdapterId>,
    withheld: BTreeSet<AdapterId>,
}

impl Adapters {
    /// A catalogue of `(name, rank, bytes, role)`; ids follow the order given.
    ///
    /// # Errors
    /// When a name or a specialist's task is taken. The first multitask adapter is the one that policies use.
    pub fn new(
        entries: impl IntoIterator<Item = (String, u32, u64, AdapterRole)>,
    ) -> Result<Self, AdaptersError> {
        let mut all = Self::default();
        for (name, rank, bytes, role) in entries {
            let id = AdapterId(all.list.len() as u32);
            if all.by_name.insert(name.clone(), id).is_some() {
                return Err(AdaptersError::DuplicateName(name));
            }
            match role {
                AdapterRole::Specialist(task) => {
                    if let Some(first) = all.specialists.insert(task, id) {
                        let first = all.get(first).name.clone();
                        return Err(AdaptersError::TwoSpecialists { first, second: name });
                    }
                }
                AdapterRole::Multitask => all.multitask = all.multitask.or(Some(id)),
                AdapterRole::Placebo => {}
            }
            all.list.push(Adapter { id, name, rank, bytes, role });
        }
        Ok(all)
    }

    /// The adapter with this id.
    ///
    /// # Panics
    /// When the id is not of this catalogue, which only our own bug can cause.
    #[must_use]
    pub fn get(&self, id: AdapterId) -> &Adapter {
        &self.list[id.index()]
    }

    /// The adapter with this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<AdapterId> {
        self.by_name.get(name).copied()
    }

    /// The specialist for a task.
    #[must_use]
    pub fn specialist(&self, task: TaskId) -> Option<AdapterId> {
        self.specialists.get(&task).copied()
    }

    /// The adapter trained on every task.
    #[must_use]
    pub fn multitask(&self) -> Option<AdapterId> {
        self.multitask
    }

    /// The same catalogue, ids unchanged, in which only the named adapters are offered for routing: the others are
    /// nobody's specialist, not the multitask adapter, and not among [`Adapters::offered`].
    #[must_use]
    pub fn offering(&self, names: &[String]) -> Self {
        let offered = |id: AdapterId| names.contains(&self.get(id).name);
        let mut narrow = self.clone();
        narrow.specialists.retain(|_, id| offered(*id));
        let multitask = |adapter: &&Adapter| adapter.role == AdapterRole::Multitask && offered(adapter.id);
        narrow.multitask = self.list.iter().find(multitask).map(|adapter| adapter.id);
        narrow.withheld = self.list.iter().map(|adapter| adapter.id).filter(|id| !offered(*id)).collect();
        narrow
    }

    /// The adapters that a router may choose, in id order.
    pub fn offered(&self) -> impl Iterator<Item = &Adapter> {
        self.list.iter().filter(|adapter| !self.withheld.contains(&adapter.id))
    }

    /// All adapters in id order.
    pub fn iter(&self) -> std::slice::Iter<'_, Adapter> {
        self.list.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Name of an adapter, or `base` for none: the word that records and tables use.
    #[must_use]
    pub fn label(&self, id: Option<AdapterId>) -> &str {
        id.map_or("base", |id| &self.get(id).name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapters() -> Adapters {
        Adapters::new([
            ("qa".to_owned(), 8, 1, AdapterRole::Specialist(TaskId(0))),
            ("all".to_owned(), 8, 1, AdapterRole::Multitask),
        ])
        .unwrap()
    }

    #[test]
    fn what_is_not_offered_keeps_its_id_and_loses_its_role() {
        let narrow = adapters().offering(&["all".to_owned()]);
        assert_eq!(narrow.specialist(TaskId(0)), None);
        assert_eq!(narrow.multitask(), Some(AdapterId(1)));
        assert_eq!(narrow.get(AdapterId(0)).name, "qa");
        assert_eq!(narrow.offered().map(|a| a.id).collect::<Vec<_>>(), [AdapterId(1)]);
    }

    #[test]
    fn names_and_specialists_are_unique() {
        let twice =
            [("a".to_owned(), 8, 1, AdapterRole::Multitask), ("a".to_owned(), 8, 1, AdapterRole::Placebo)];
        assert_eq!(Adapters::new(twice), Err(AdaptersError::DuplicateName("a".to_owned())));
        let same = ["a", "b"].map(|name| (name.to_owned(), 8, 1, AdapterRole::Specialist(TaskId(3))));
        assert!(matches!(Adapters::new(same), Err(AdaptersError::TwoSpecialists { .. })));
    }
}
