//! The adapters of an experiment: listed, or generated.

use super::model::{LoraTargets, ModelShape};
use super::pattern::NAME;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adapters: a list, or a rule that makes one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AdaptersSpec {
    /// One by one.
    List(Vec<AdapterSpec>),
    /// By rule.
    Generated(GeneratedAdapters),
}

/// One adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterSpec {
    /// Its name in records and, on a live server, in requests.
    #[schemars(regex(pattern = NAME))]
    pub name: String,
    /// LoRA rank.
    #[schemars(range(min = 1, max = 65_536))]
    pub rank: u32,
    /// Weight bytes as loaded; computed from the model's shape, rank and targets when absent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// What it was trained for.
    #[serde(default)]
    pub role: AdapterRoleSpec,
    /// The task of a specialist; its own name when absent.
    #[serde(default)]
    pub task: Option<String>,
    /// The layers that it changes.
    #[serde(default)]
    pub targets: LoraTargets,
}

/// What an adapter was trained for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterRoleSpec {
    /// One task.
    #[default]
    Specialist,
    /// Every task.
    Multitask,
    /// Nothing: zero weights, the same serving cost.
    Placebo,
}

/// `generate: {...}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratedAdapters {
    /// The rule.
    pub generate: GenerateSpec,
}

/// A rule that makes specialists, each for a task of its own name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GenerateSpec {
    /// Number of specialists.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: u32,
    /// LoRA rank of all of them; give this or `ranks`.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65_536))]
    pub rank: Option<u32>,
    /// LoRA ranks in turn; give this or `rank`.
    #[serde(default)]
    pub ranks: Vec<Rank>,
    /// Weight bytes of each as loaded; computed from the model's shape, rank and targets when absent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// Start of every name; a number follows.
    #[serde(default = "name_prefix")]
    #[schemars(regex(pattern = NAME))]
    pub name_prefix: String,
    /// Whether one more adapter, `multitask`, is added, with the largest rank.
    #[serde(default)]
    pub with_multitask: bool,
    /// The layers that they change.
    #[serde(default)]
    pub targets: LoraTargets,
}

/// A LoRA rank, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Rank(#[schemars(range(min = 1, max = 65_536))] pub u32);

/// An adapter with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAdapter {
    /// Its name.
    pub name: String,
    /// LoRA rank.
    pub rank: u32,
    /// Weight bytes as loaded.
    pub bytes: u64,
    /// What it was trained for.
    pub role: AdapterRoleSpec,
    /// The task of a specialist, `None` for others.
    pub task: Option<String>,
}

impl AdaptersSpec {
    /// All adapters in the order of their ids, bytes computed for a model where they are not given.
    #[must_use]
    pub fn list(&self, model: &ModelShape) -> Vec<NamedAdapter> {
        match self {
            Self::List(list) => list.iter().map(|adapter| adapter.named(model)).collect(),
            Self::Generated(generated) => {
                generated.generate.specs().iter().map(|adapter| adapter.named(model)).collect()
            }
        }
    }
}

impl AdapterSpec {
    fn named(&self, model: &ModelShape) -> NamedAdapter {
        let computed = || u64::from(self.rank) * model.lora_bytes_per_rank(self.targets);
        let task = match self.role {
            AdapterRoleSpec::Specialist => Some(self.task.clone().unwrap_or_else(|| self.name.clone())),
            AdapterRoleSpec::Multitask | AdapterRoleSpec::Placebo => None,
        };
        let bytes = self.bytes.unwrap_or_else(computed);
        NamedAdapter { name: self.name.clone(), rank: self.rank, bytes, role: self.role, task }
    }
}

impl GenerateSpec {
    fn specs(&self) -> Vec<AdapterSpec> {
        let ranks: Vec<u32> = self.rank.into_iter().chain(self.ranks.iter().map(|rank| rank.0)).collect();
        let Some(&largest) = ranks.iter().max() else { return Vec::new() };
        let digits = (self.count - 1).to_string().len();
        let adapter = |name: String, rank: u32, role: AdapterRoleSpec| AdapterSpec {
            name,
            rank,
            bytes: self.bytes,
            role,
            task: None,
            targets: self.targets,
        };
        let specialist = |(at, rank): (u32, &u32)| {
            adapter(format!("{}{at:0digits$}", self.name_prefix), *rank, AdapterRoleSpec::Specialist)
        };
        let multitask = self
            .with_multitask
            .then(|| adapter("multitask".to_string(), largest, AdapterRoleSpec::Multitask));
        (0..self.count).zip(ranks.iter().cycle()).map(specialist).chain(multitask).collect()
    }
}

fn name_prefix() -> String {
    "adapter-".to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::model::{KnownModel, ModelSpec};

    #[test]
    fn generated_adapters_cycle_ranks_and_end_with_the_multitask_one() {
        let spec: AdaptersSpec =
            serde_json::from_str(r#"{"generate": {"count": 11, "ranks": [8, 64], "with_multitask": true}}"#)
                .expect("valid");
        let list = spec.list(&ModelSpec::Known(KnownModel::Llama31B8).shape());
        assert_eq!(list.len(), 12);
        assert_eq!((list[3].name.as_str(), list[3].rank, list[3].bytes), ("adapter-03", 64, 335_544_320));
        assert_eq!(list[3].task.as_deref(), Some("adapter-03"));
        assert_eq!((list[11].name.as_str(), list[11].rank, list[11].task.clone()), ("multitask", 64, None));
    }

    #[test]
    fn given_bytes_win_over_computed_ones() {
        let spec: AdaptersSpec =
            serde_json::from_str(r#"[{"name": "qa", "rank": 8, "bytes": 5, "task": "t"}]"#).expect("valid");
        let list = spec.list(&ModelSpec::Known(KnownModel::Llama31B8).shape());
        assert_eq!((list[0].bytes, list[0].task.as_deref()), (5, Some("t")));
    }
}
