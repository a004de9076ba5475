//! An experiment from its files, with one level of every factor, and back to a file.

use super::load::{load, typed};
use super::merge::{pointer, set_path};
use super::schema::with_short_forms;
use super::tree::Node;
use super::validate::validate;
use super::{ExperimentSpec, Faults, Located, Sources, emit};
use crate::presets::Preset;
use serde_json::Value as Json;
use std::path::PathBuf;
use std::sync::LazyLock;

/// (JSON pointer, message): what a check found before its place in a file is looked up.
pub type Finding = (String, String);

impl ExperimentSpec {
    /// Reads a preset and files, merges them left to right and applies `path=value` arguments.
    ///
    /// # Errors
    /// All faults that the texts and the schema have; faults across fields are found by [`super::check::check`].
    pub fn load(
        preset: Option<&Preset>,
        files: &[PathBuf],
        sets: &[String],
    ) -> Result<(Self, Located), Faults> {
        load(raw_schema(), preset, files, sets)
    }

    /// The same, held against the rules across fields and against what `more` finds.
    ///
    /// # Errors
    /// All faults at the first stage that has any.
    pub fn load_checked(
        preset: Option<&Preset>,
        files: &[PathBuf],
        sets: &[String],
        more: impl FnOnce(&Self) -> Vec<Finding>,
    ) -> Result<(Self, Located), Faults> {
        let (spec, located) = Self::load(preset, files, sets)?;
        let metrics: Vec<&str> = acb_evidence::metrics().iter().map(|metric| metric.name).collect();
        match located.faults(super::check(&spec, &metrics).into_iter().chain(more(&spec))) {
            Some(faults) => Err(faults),
            None => Ok((spec, located)),
        }
    }

    /// Reads one text that is not a file, named `name` in faults.
    ///
    /// # Errors
    /// As [`ExperimentSpec::load`].
    pub fn from_text(name: &str, text: &str) -> Result<(Self, Located), Faults> {
        let mut sources = Sources::default();
        let id = sources.add(name, text);
        match super::parse::parse(&sources, id, 0) {
            Ok(tree) => typed(raw_schema(), Located::new(sources, tree)),
            Err(faults) => Err(Faults::new(&sources, faults)),
        }
    }

    /// The same experiment with one value changed, as a factor does.
    ///
    /// # Errors
    /// What is wrong with the path or the value.
    pub fn with_factor(&self, path: &str, value: &Json) -> Result<Self, Vec<Finding>> {
        self.with_levels([(path, value)])
    }

    /// The same experiment with several values changed together: dotted path and value.
    ///
    /// # Errors
    /// What is wrong with the paths or the values.
    pub fn with_levels<'a>(
        &self,
        levels: impl IntoIterator<Item = (&'a str, &'a Json)>,
    ) -> Result<Self, Vec<Finding>> {
        let mut tree = self.tree();
        let span = tree.span;
        for (path, value) in levels {
            set_path(&mut tree, path, Node::from_json(value, span))
                .map_err(|message| vec![(String::new(), message)])?;
        }
        let faults = validate(raw_schema(), &mut tree);
        if faults.is_empty() {
            return serde_json::from_value(tree.to_json())
                .map_err(|error| vec![(String::new(), error.to_string())]);
        }
        let finding = |fault: super::Fault| {
            let help = fault.help.map(|help| format!("; {help}")).unwrap_or_default();
            (fault.pointer, format!("{}{help}", fault.message))
        };
        Err(faults.into_iter().map(finding).collect())
    }

    /// The JSON pointer of the field that a dotted path means.
    ///
    /// # Errors
    /// When the path can't be read, or selects an item of a list that does not exist.
    pub fn pointer(&self, path: &str) -> Result<String, String> {
        pointer(&self.tree(), path)
    }

    /// The JSON schema of an experiment file, for editors.
    #[must_use]
    pub fn schema() -> Json {
        with_short_forms(raw_schema())
    }

    /// The whole experiment with every default written out: `config_resolved.yaml`. Reading it gives the same experiment.
    ///
    /// # Panics
    /// When a field has no form in JSON, which only our own bug can cause.
    #[must_use]
    pub fn resolved_yaml(&self) -> String {
        emit::to_yaml(&self.json())
    }

    /// The same as a JSON value.
    ///
    /// # Panics
    /// When a field has no form in JSON, which only our own bug can cause.
    #[must_use]
    pub fn json(&self) -> Json {
        serde_json::to_value(self).expect("an experiment has text keys and finite numbers")
    }

    fn tree(&self) -> Node {
        let mut sources = Sources::default();
        let id = sources.add("resolved experiment", "");
        Node::from_json(&self.json(), sources.span(id, 0..0))
    }
}

/// The schema as the types give it: a constant, computed once because every level of a plan is checked against it.
fn raw_schema() -> &'static Json {
    static SCHEMA: LazyLock<Json> = LazyLock::new(|| schemars::schema_for!(ExperimentSpec).to_value());
    &SCHEMA
}
