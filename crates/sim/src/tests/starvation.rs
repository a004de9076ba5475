//! Who may be passed by whom: no more than the engines' schedulers allow, and in the end everybody is served.

use super::bed::{Ask, Kept, run, sglang, vllm};
use super::fast::asks;
use super::sglang_laws::specs as sglang_specs;
use crate::{EngineSpec, SchedulePolicy};
use acb_types::{AdapterId, Outcome};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Pairs of a request and one that came to the same replica later and was admitted before it.
fn passed(by_id: &[Kept]) -> Vec<(&Kept, &Kept)> {
    let before = |late: &Kept, early: &Kept| early.id > late.id && early.admitted < late.admitted;
    let admitted: Vec<&Kept> = by_id.iter().filter(|kept| kept.admitted.is_some()).collect();
    let pairs = admitted.iter().flat_map(|&late| admitted.iter().map(move |&early| (late, early)));
    pairs.filter(|&(late, early)| before(late, early)).collect()
}

/// What those in flight at `at`, who had been admitted by then, run on; `None` stands for the base model.
fn in_use(by_id: &[Kept], at: Option<u64>) -> BTreeSet<Option<AdapterId>> {
    let held = by_id.iter().filter(|k| k.admitted.is_some() && k.admitted <= at && Some(k.ended_at) > at);
    held.map(|kept| kept.decision.adapter).collect()
}

fn all_served(by_id: &[Kept]) -> bool {
    by_id.iter().all(|kept| matches!(kept.outcome, Outcome::Ok | Outcome::Rejected))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn vllm_lets_a_request_be_passed_only_while_others_hold_all_slots(
        asks in asks(), spec in super::fast::specs(),
    ) {
        let ran = run(&spec, &asks);
        prop_assert!(all_served(&ran.by_id));
        let slots = spec.vllm().max_loras as usize;
        for (late, early) in passed(&ran.by_id) {
            let mut others = in_use(&ran.by_id, early.admitted);
            others.remove(&None);
            others.remove(&late.decision.adapter);
            prop_assert!(late.decision.adapter.is_some() && others.len() >= slots, "{late:?} {early:?}");
        }
    }

    #[test]
    fn vllm_serves_in_order_when_every_adapter_has_a_slot(asks in asks(), mut spec in super::fast::specs()) {
        vllm(&mut spec).max_loras = 5;
        vllm(&mut spec).max_cpu_loras = Some(5);
        let ran = run(&spec, &asks);
        prop_assert!(all_served(&ran.by_id));
        prop_assert!(ran.by_id.iter().all(|kept| kept.overtaken == 0));
    }

    #[test]
    fn sglang_serves_everybody_and_the_base_model_in_order(asks in asks(), mut spec in sglang_specs()) {
        prop_assert!(all_served(&run(&spec, &asks).by_id), "whatever the order and the limits on adapters");
        sglang(&mut spec).schedule_policy = SchedulePolicy::Fcfs;
        let plain: Vec<Ask> = asks.iter().map(|ask| Ask { adapter: None, ..ask.clone() }).collect();
        let ran = run(&spec, &plain);
        prop_assert!(all_served(&ran.by_id) && ran.by_id.iter().all(|kept| kept.overtaken == 0));
    }

    #[test]
    fn sglang_lets_a_request_be_passed_only_while_others_hold_all_slots(
        asks in asks(), mut spec in sglang_specs(),
    ) {
        let engine = sglang(&mut spec);
        engine.schedule_policy = SchedulePolicy::Fcfs;
        engine.lora_drain_wait_threshold = 0.0;
        (engine.enable_lora_overlap_loading, engine.max_loaded_loras) = (false, None);
        let ran = run(&spec, &asks);
        let EngineSpec::Sglang(engine) = &spec.engine else { panic!("SGLang") };
        // A pinned adapter keeps its slot from all others, whether it is used or not.
        let slots = engine.max_loras_per_batch as usize - engine.pinned_loras.len();
        for (late, early) in passed(&ran.by_id) {
            let mut others = in_use(&ran.by_id, early.admitted);
            others.remove(&late.decision.adapter);
            prop_assert!(others.len() >= slots, "{late:?} {early:?}");
        }
    }
}
