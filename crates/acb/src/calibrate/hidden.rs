//! A server whose constants are hidden from the fit: only [`SimulatedServer`] is made of them, and the fit sees it as any
//! other [`Server`](super::server::Server). They are opened after the fit, to be compared.

use super::server::{AdapterFile, ServerError};
use super::simulated::{Noise, SimulatedServer};
use acb_sim::{ClusterSpec, EngineSpec, KvMemory, KvSpec, Profile, ProfileSpec};
use acb_types::{Nanos, Seed};
use serde_json::Value;

/// What a client, the network and the server's own front end add to the time to first token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrontEnd {
    /// Of every request, ms; half of it before the engine sees the request, half after.
    pub request_ms: f64,
    /// Of every prompt token, before the engine sees the request, us.
    pub token_us: f64,
}

impl FrontEnd {
    pub(super) fn half(self) -> Nanos {
        Nanos::from_millis_f64(self.request_ms / 2.0)
    }

    pub(super) fn before(self, prompt_tokens: u32) -> Nanos {
        self.half() + Nanos::from_millis_f64(self.token_us * f64::from(prompt_tokens) * 1e-3)
    }
}

/// Constants that nobody can see until [`Hidden::open`].
pub struct Hidden {
    profile: Profile,
    front_end: FrontEnd,
    memory: KvMemory,
    noise: Noise,
}

/// Constants that the model's configuration and the adapters' files give, and so are not hidden or changed.
const GIVEN: [&str; 2] = ["weight_bytes", "kv_bytes_per_token"];
/// A change is by at most this factor, up or down.
const MOST_CHANGE: f64 = 1.6;
/// A typical front end: 15.6 ms a request and 46 us a token were published with the BLIS simulator.
const FRONT_END: FrontEnd = FrontEnd { request_ms: 15.6, token_us: 2.0 };

impl Hidden {
    /// These constants on a card with this memory.
    #[must_use]
    pub fn new(profile: Profile, memory: KvMemory, sigma: f64) -> Self {
        Self { profile, front_end: FRONT_END, memory, noise: Noise { sigma, seed: Seed(0) } }
    }

    /// Multiplies every hidden constant, and every cost of the front end, by a factor of its own, drawn by the seed.
    ///
    /// # Panics
    /// When a profile has no form in JSON: our bug.
    #[must_use]
    pub fn perturbed(mut self, seed: Seed) -> Self {
        let factor = |name: &str| {
            let up = 2.0 * seed.stream(name).unit() - 1.0;
            MOST_CHANGE.powf(up)
        };
        let mut document = serde_json::to_value(&self.profile).expect("a profile has a form in JSON");
        let Value::Object(constants) = &mut document else { unreachable!("a profile is a map") };
        for (name, value) in constants.iter_mut().filter(|(name, _)| !GIVEN.contains(&name.as_str())) {
            let changed = value.as_f64().map(|number| number * factor(name));
            *value = match changed {
                Some(changed) if value.is_u64() => Value::from(changed.round() as u64),
                Some(changed) => Value::from(changed),
                None => continue,
            };
        }
        self.profile = serde_json::from_value(document).expect("a profile with other numbers is a profile");
        self.front_end.request_ms *= factor("front end, request");
        self.front_end.token_us *= factor("front end, token");
        self.noise.seed = seed;
        self
    }

    /// Starts a server with these flags.
    ///
    /// # Errors
    /// When the engine would not start so.
    pub fn start(&self, engine: &EngineSpec, files: &[AdapterFile]) -> Result<SimulatedServer, ServerError> {
        let mut spec = ClusterSpec::new(1, 1, "");
        spec.engine = engine.clone();
        spec.kv = KvSpec::Memory(self.memory.clone());
        spec.profile = ProfileSpec::Inline(Box::new(self.profile.clone()));
        SimulatedServer::new(spec, files, self.front_end, self.noise)
    }

    /// Ends the secret.
    #[must_use]
    pub fn open(self) -> (Profile, FrontEnd) {
        (self.profile, self.front_end)
    }
}
