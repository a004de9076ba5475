//! The routes that only one of the dialects has: adapters, caches, and what a server says of itself.

use crate::dialect::Dialect;
use crate::handler::Replica;
use crate::net::{Answer, json, whole};
use crate::roster::{Load, Replaces, RosterError};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json as value};

/// The body of a load or an unload.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AdapterBody {
    lora_name: String,
    lora_path: String,
    load_inplace: bool,
}

impl Replica {
    /// The answer of a route that this dialect has; `None`: it has no such route.
    pub(crate) fn own_route(&self, method: &Method, path: &str, bytes: &[u8]) -> Option<Answer> {
        match self.dialect {
            Dialect::Vllm => self.vllm_route(method, path, bytes),
            Dialect::Sglang => self.sglang_route(method, path, bytes),
        }
    }

    fn vllm_route(&self, method: &Method, path: &str, bytes: &[u8]) -> Option<Answer> {
        let answer = match (method, path) {
            (&Method::GET, "/version") => {
                let label = self.engine.spec.engine_label();
                json(StatusCode::OK, &value!({"version": label.trim_start_matches("vllm-")}))
            }
            (&Method::POST, "/reset_prefix_cache") => {
                json(StatusCode::OK, &value!({"success": self.reset()}))
            }
            (&Method::POST, "/v1/load_lora_adapter") => self.vllm_adapter(self.load(bytes), "added"),
            (&Method::POST, "/v1/unload_lora_adapter") => self.vllm_adapter(self.unload(bytes), "removed"),
            _ => return None,
        };
        Some(answer)
    }

    fn vllm_adapter(&self, done: Result<String, RosterError>, what: &str) -> Answer {
        match done {
            Ok(name) => {
                let text = format!("Success: LoRA adapter '{name}' {what} successfully.");
                whole(StatusCode::OK, "text/plain; charset=utf-8", text)
            }
            Err(fault @ RosterError::UnknownAdapter(_)) => {
                self.refuse((StatusCode::NOT_FOUND, "NotFoundError", fault.to_string()))
            }
            Err(fault) => self.refuse((StatusCode::BAD_REQUEST, "InvalidUserInput", fault.to_string())),
        }
    }

    fn sglang_route(&self, method: &Method, path: &str, bytes: &[u8]) -> Option<Answer> {
        let answer = match (method, path) {
            (&Method::GET, "/health_generate" | "/ready") => whole(StatusCode::OK, "text/plain", ""),
            (&Method::GET, "/get_model_info" | "/model_info") => json(
                StatusCode::OK,
                &value!({"model_path": self.options.model, "is_generation": true, "simulated": true}),
            ),
            (&Method::GET, "/get_server_info" | "/server_info") => json(StatusCode::OK, &self.server_info()),
            (&Method::GET, "/v1/loads") => json(StatusCode::OK, &self.loads()),
            (_, "/flush_cache") => match self.reset() {
                true => whole(StatusCode::OK, "text/plain; charset=utf-8", "Cache flushed.\n"),
                false => {
                    let text = "Cache not flushed: requests are running or waiting.\n";
                    whole(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", text)
                }
            },
            (&Method::POST, "/load_lora_adapter") => self.sglang_adapter(self.load(bytes)),
            (&Method::POST, "/unload_lora_adapter") => self.sglang_adapter(self.unload(bytes)),
            _ => return None,
        };
        Some(answer)
    }

    fn sglang_adapter(&self, done: Result<String, RosterError>) -> Answer {
        let (status, fault) = match done {
            Ok(_) => (StatusCode::OK, None),
            Err(fault) => (StatusCode::BAD_REQUEST, Some(fault.to_string())),
        };
        let state = self.engine.state();
        let listed = state.roster.listed();
        let listed: serde_json::Map<String, Value> =
            listed.into_iter().map(|(name, path)| (name.clone(), Value::from(path.clone()))).collect();
        let body = value!({"success": fault.is_none(), "error_message": fault, "loaded_adapters": listed});
        json(status, &body)
    }

    fn load(&self, bytes: &[u8]) -> Result<String, RosterError> {
        let body: AdapterBody = serde_json::from_slice(bytes).map_err(|_| RosterError::Incomplete)?;
        let replaces = if body.load_inplace { Replaces::Yes } else { Replaces::No };
        let load = Load { name: &body.lora_name, path: &body.lora_path, replaces };
        let state = &mut *self.engine.state();
        self.engine.catch_up(state);
        state.roster.load(&load, &mut state.stepped)?;
        Ok(body.lora_name)
    }

    fn unload(&self, bytes: &[u8]) -> Result<String, RosterError> {
        let body: AdapterBody = serde_json::from_slice(bytes).map_err(|_| RosterError::Incomplete)?;
        let state = &mut *self.engine.state();
        self.engine.catch_up(state);
        state.roster.unload(&body.lora_name, &mut state.stepped)?;
        Ok(body.lora_name)
    }

    fn reset(&self) -> bool {
        let state = &mut *self.engine.state();
        self.engine.catch_up(state);
        state.stepped.reset_prefix_cache()
    }

    fn server_info(&self) -> Value {
        let label = self.engine.spec.engine_label();
        let mut info = value!({
            "version": label.trim_start_matches("sglang-"), "simulated": true,
            "model_path": self.options.model, "served_model_name": self.options.model,
            "max_total_num_tokens": self.total_tokens(),
        });
        if let acb_sim::EngineSpec::Sglang(sglang) = &self.engine.spec.engine
            && let (Ok(Value::Object(settings)), Value::Object(info)) =
                (serde_json::to_value(sglang), &mut info)
        {
            settings.into_iter().for_each(|(name, value)| {
                info.entry(name).or_insert(value);
            });
        }
        info
    }

    fn total_tokens(&self) -> u64 {
        self.engine.spec.kv_blocks().unwrap_or(0) * u64::from(self.engine.spec.block_tokens())
    }

    /// Live state in one document; what the model does not know is left out.
    fn loads(&self) -> Value {
        let state = &mut *self.engine.state();
        self.engine.catch_up(state);
        let (snapshot, row) = (state.stepped.snapshot(), state.stepped.row());
        let total = self.total_tokens();
        let share = row.kv_active_bytes.unwrap_or(0) as f64 / row.kv_total_bytes.unwrap_or(0).max(1) as f64;
        let (slots, most) = state.meters.lora_slots();
        let (_, hits, prompts) = state.meters.recent.prefill;
        let load = value!({
            "dp_rank": 0,
            "num_running_reqs": row.running, "num_waiting_reqs": row.queued,
            "num_total_reqs": row.running.unwrap_or(0) + row.queued.unwrap_or(0),
            "num_waiting_uncached_tokens": snapshot.pending_prefill_tokens,
            "num_used_tokens": (share * total as f64).round() as u64, "max_total_num_tokens": total,
            "token_usage": share,
            "cache_hit_rate": if prompts > 0 { hits as f64 / prompts as f64 } else { 0.0 },
            "total_prefill_uncached_tokens": row.counters.prefill_tokens,
            "memory": {"token_capacity": total},
            "lora": {
                "slots_used": slots, "slots_total": most, "utilization": slots as f64 / f64::from(most.max(1))
            },
            "queues": {"waiting": row.queued, "grammar": 0, "paused": 0, "retracted": 0},
        });
        value!({"dp_rank_count": 1, "loads": [load]})
    }
}
