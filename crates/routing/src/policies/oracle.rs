//! `oracle`: the adapter whose answer to this very request will be best, on the replica with the fewest requests in
//! flight.
//!
//! Sees the truth: outcomes of answers not yet given. No parameters. Of equally good answers it takes base's (nothing to
//! load), else that of an adapter with requests in flight on the chosen replica, else the lowest id.
//!
//! What it bounds: alone it is only the best *what*. It becomes a bound on the on-time quality of every arm in the
//! simulator's uncontended mode, where each request runs on an idle replica of its own with everything resident: no arm
//! can then have a better answer, and none a right one that waits less. In contended mode it bounds mean quality alone: a
//! policy that gives up quality for speed may have more right answers on time.

use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{AdapterId, Outcomes, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleSpec {}

impl Parameters for OracleSpec {
    fn name(&self) -> &'static str {
        "oracle"
    }
    fn summary(&self) -> &'static str {
        "sees the outcomes and takes the best answer; a bound, not a policy that can be run"
    }
    fn information(&self) -> Information {
        Information::Truth
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        let truth = context.truth.clone().ok_or(RoutingError::NoTruth)?;
        Ok(Box::new(Oracle { spec: self.clone(), truth }))
    }
}

struct Oracle {
    spec: OracleSpec,
    truth: Outcomes,
}

impl Oracle {
    fn quality(&self, request: &Request, adapter: Option<AdapterId>) -> f64 {
        self.truth.quality(request, adapter)
    }
}

impl RoutingPolicy for Oracle {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn route(&mut self, request: &Request, state: &DispatchState, _: &mut Stream) -> Decision {
        let replica = state.least_in_flight();
        let here = state.replicas[replica.index()].in_flight_by_adapter.iter().map(|&(adapter, _)| adapter);
        let anywhere = state.adapters.offered().map(|a| Some(a.id));
        let mut best = (f64::NEG_INFINITY, None);
        let named = request.required_adapter.map(Some);
        let offered = std::iter::once(None).chain(here).chain(anywhere).filter(|_| named.is_none());
        for adapter in named.into_iter().chain(offered) {
            let quality = self.quality(request, adapter);
            if quality > best.0 {
                best = (quality, adapter);
            }
            if quality >= 1.0 {
                break;
            }
        }
        Decision { replica, adapter: best.1, reason: Reason::Oracle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, request};
    use crate::{PolicySpec, Router};
    use acb_types::{Nanos, QualityTable, Seed};

    #[test]
    fn of_right_answers_base_comes_first_and_then_what_is_in_flight_here() {
        let right = |task: u32, adapter: Option<AdapterId>| match adapter {
            None => task == 0,
            Some(adapter) => task == 0 || adapter.0 >= 1,
        };
        let table = QualityTable::from_fn(4, 5, |task, a| f64::from(u8::from(right(task.0, a)))).unwrap();
        let truth = Some(Outcomes::new(table, Seed(1)));
        let mut router =
            Router::new(&PolicySpec::Oracle(OracleSpec {}), RouterContext { truth, ..context(1) }).unwrap();
        assert_eq!(router.dispatch(Nanos::ZERO, &request(0, 0, 10)).adapter, None);
        let mut named = request(1, 1, 10);
        named.required_adapter = Some(AdapterId(3));
        assert_eq!(router.dispatch(Nanos::ZERO, &named).adapter, Some(AdapterId(3)));
        assert_eq!(router.dispatch(Nanos::ZERO, &request(2, 1, 10)).adapter, Some(AdapterId(3)));
    }

    #[test]
    fn no_adapter_answers_better_than_its_choice() {
        let table = QualityTable::from_fn(4, 5, |t, a| {
            Seed(3).unit(u64::from(t.0) * 6 + a.map_or(5, |a| u64::from(a.0)))
        });
        let truth = Outcomes::new(table.unwrap(), Seed(9));
        let context = RouterContext { truth: Some(truth.clone()), ..context(3) };
        let mut router = Router::new(&PolicySpec::Oracle(OracleSpec {}), context).unwrap();
        for id in 0..500 {
            let request = request(id, (id % 4) as u32, 10);
            let chosen = router.dispatch(Nanos::ZERO, &request).adapter;
            let quality = |adapter| truth.quality(&request, adapter);
            let all = std::iter::once(None).chain((0..5).map(|a| Some(AdapterId(a))));
            assert!(all.map(quality).all(|q| q <= quality(chosen)));
        }
    }
}
