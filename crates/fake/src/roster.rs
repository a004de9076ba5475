//! Which adapters a server knows, by which names, and where each is in the engine's catalogue.

use crate::dialect::Dialect;
use acb_sim::Stepped;
use acb_types::AdapterId;

/// Places of the catalogue that are empty at start: adapters loaded later go there.
pub(crate) const SPARE_PLACES: u32 = 64;

/// One place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    /// Name and path of what is there; `None`: nothing ever was, or nobody remembers it.
    known: Option<(String, String)>,
    /// Whether it is listed; SGLang loads what it knows again when somebody asks for it.
    listed: bool,
}

/// Whether adapters are served at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lora {
    On,
    Off,
}

/// The adapters of one server.
#[derive(Clone, Debug)]
pub(crate) struct Roster {
    dialect: Dialect,
    base: String,
    places: Vec<Place>,
    /// How many of them were empty at start.
    spares: usize,
    loads: u64,
}

/// Why an adapter can't be loaded, unloaded or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RosterError {
    #[error("the model `{0}` does not exist")]
    UnknownModel(String),
    #[error("the adapter '{0}' is not loaded; load it first or correct the name")]
    UnknownAdapter(String),
    #[error("the adapter '{0}' is loaded already")]
    Loaded(String),
    #[error("both 'lora_name' and 'lora_path' are needed")]
    Incomplete,
    #[error("all {SPARE_PLACES} places for adapters that are loaded at run time are taken; unload one")]
    NoPlace,
}

impl Roster {
    /// Empty places, then the adapters that are there from the start.
    ///
    /// Where LoRA is off there are no empty places, and nothing can be loaded.
    pub(crate) fn new(dialect: Dialect, (base, adapters): (&str, &[String]), lora: Lora) -> Self {
        let spares = if lora == Lora::On { SPARE_PLACES } else { 0 };
        let spare = (0..spares).map(|_| Place::default());
        let there =
            adapters.iter().map(|name| Place { known: Some((name.clone(), name.clone())), listed: true });
        Self {
            dialect,
            base: base.to_owned(),
            places: spare.chain(there).collect(),
            spares: spares as usize,
            loads: 0,
        }
    }

    /// Names and paths of the listed adapters, those of the start first.
    pub(crate) fn listed(&self) -> Vec<&(String, String)> {
        let (spare, there) = self.places.split_at(self.spares);
        there
            .iter()
            .chain(spare)
            .filter(|place| place.listed)
            .filter_map(|place| place.known.as_ref())
            .collect()
    }

    /// Name and path of an adapter.
    pub(crate) fn identity(&self, adapter: AdapterId) -> Option<(&str, &str)> {
        let (name, path) = self.places[adapter.index()].known.as_ref()?;
        Some((name, path))
    }

    fn find(&self, name: &str) -> Option<AdapterId> {
        let named = |place: &Place| place.known.as_ref().is_some_and(|(own, _)| own == name);
        self.places.iter().position(named).map(|at| AdapterId(at as u32))
    }

    /// What a request is served by (`None`: base).
    ///
    /// # Errors
    /// When the server refuses the name.
    pub(crate) fn resolve(
        &mut self,
        model: &str,
        lora_path: Option<&str>,
    ) -> Result<Option<AdapterId>, RosterError> {
        match self.dialect {
            Dialect::Vllm if model.is_empty() || model == self.base => Ok(None),
            Dialect::Vllm => {
                let found = self.find(model).filter(|at| self.places[at.index()].listed);
                found.map(Some).ok_or_else(|| RosterError::UnknownModel(model.to_owned()))
            }
            Dialect::Sglang => {
                // A bare adapter name is no adapter here: base answers, and nothing says so.
                let Some(name) = lora_path.or(model.split_once(':').map(|(_, adapter)| adapter)) else {
                    return Ok(None);
                };
                let found = self.find(name).ok_or_else(|| RosterError::UnknownAdapter(name.to_owned()))?;
                self.places[found.index()].listed = true;
                Ok(Some(found))
            }
        }
    }

    /// Loads an adapter; its weights are read when a request first needs them. With `in_place` another of its name is
    /// replaced.
    ///
    /// # Errors
    /// When the name is taken or no place is free.
    pub(crate) fn load(&mut self, load: &Load<'_>, engine: &mut Stepped) -> Result<(), RosterError> {
        let Load { name, path, replaces } = *load;
        if name.is_empty() || path.is_empty() {
            return Err(RosterError::Incomplete);
        }
        let before = self.find(name);
        if let Some(at) = before.filter(|at| self.places[at.index()].listed) {
            if replaces == Replaces::No {
                return Err(RosterError::Loaded(name.to_owned()));
            }
            self.places[at.index()] = Place::default();
        } else if let Some(at) = before {
            self.places[at.index()] = Place::default();
        }
        let free =
            |at: &usize| self.places[*at].known.is_none() && !engine.uses_adapter(AdapterId(*at as u32));
        let at = (0..self.places.len()).find(free).ok_or(RosterError::NoPlace)?;
        self.loads += 1;
        // vLLM's caches know an adapter by name and path, so that new weights under both find old prefixes. SGLang gives
        // every load an id of its own.
        let key = match self.dialect {
            Dialect::Vllm => path.to_owned(),
            Dialect::Sglang => format!("{path}#{}", self.loads),
        };
        engine.replace_adapter(AdapterId(at as u32), name, &key);
        self.places[at] = Place { known: Some((name.to_owned(), path.to_owned())), listed: true };
        Ok(())
    }

    /// Unloads an adapter. On SGLang a later request loads it again, which is no revocation.
    ///
    /// # Errors
    /// When it is not loaded.
    pub(crate) fn unload(&mut self, name: &str, engine: &mut Stepped) -> Result<(), RosterError> {
        let found = self.find(name).filter(|at| self.places[at.index()].listed);
        let at = found.ok_or_else(|| RosterError::UnknownAdapter(name.to_owned()))?;
        // One that is in use stays until its requests have ended, and is then the first to go.
        if !engine.uses_adapter(at) {
            engine.drop_adapter(at);
        }
        let place = &mut self.places[at.index()];
        place.listed = false;
        if self.dialect == Dialect::Vllm {
            place.known = None;
        }
        Ok(())
    }
}

/// Whether a load may replace an adapter of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaces {
    No,
    Yes,
}

/// An adapter to load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) name: &'a str,
    pub(crate) path: &'a str,
    pub(crate) replaces: Replaces,
}
