//! Policies as a spec names them: one variant each, with parameters that carry their unit in the name.

use crate::policies::{
    AdapterHashBoundedSpec, AibrixPrefixSpec, BaseSpec, CacheStaticSpec, DynamoCostSpec, EppWeightedSpec,
    LeastInFlightSpec, LoraLoadStateSpec, MultitaskSpec, OracleSpec, PowerOfTwoSpec, PrebleE2Spec,
    ProductionStackPrefixSpec, RandomSpec, RayPrefixAwareSpec, RoundRobinSpec, SeedScoreSpec, SemanticSpec,
    SglangCacheAwareSpec, SpecialistsSpec, StaticPartitionSpec, StickySessionSpec,
};
use crate::{Information, RouterContext, RoutingError, RoutingPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A routing policy and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicySpec {
    /// The base model always.
    Base(BaseSpec),
    /// The task's specialist always.
    Semantic(SemanticSpec),
    /// A session keeps its replica and adapter.
    StickySession(StickySessionSpec),
    /// The longest cached prefix, whatever the load.
    CacheStatic(CacheStaticSpec),
    /// The multitask adapter always.
    Multitask(MultitaskSpec),
    /// Expected on-time quality from live state: the treatment.
    Specialists(SpecialistsSpec),
    /// Sees the outcomes: a bound, not a policy that can be run.
    Oracle(OracleSpec),
    /// A replica drawn at random.
    Random(RandomSpec),
    /// Replicas in turn.
    RoundRobin(RoundRobinSpec),
    /// The replica with the fewest requests in flight.
    LeastInFlight(LeastInFlightSpec),
    /// The less loaded of two drawn replicas.
    PowerOfTwo(PowerOfTwoSpec),
    /// A consistent hash of the adapter, with bounded loads.
    AdapterHashBounded(AdapterHashBoundedSpec),
    /// The original harness's score over adapters.
    SeedScore(SeedScoreSpec),
    /// sglang-router: the longest text prefix while loads are level.
    SglangCacheAware(SglangCacheAwareSpec),
    /// vLLM production-stack: the longest text prefix, whatever the load.
    ProductionStackPrefix(ProductionStackPrefixSpec),
    /// Ray Serve: the longest text prefix, else the smallest tree.
    RayPrefixAware(RayPrefixAwareSpec),
    /// AIBrix: the highest prefix match that is not too busy, else the least loaded.
    AibrixPrefix(AibrixPrefixSpec),
    /// Each adapter on its own replicas, once and for all.
    StaticPartition(StaticPartitionSpec),
    /// llm-d's endpoint picker: a weighted sum of scores, adapter activity among them when weighted.
    EppWeighted(EppWeightedSpec),
    /// llm-d's endpoint picker with the proposed scorer of adapter residency.
    LoraLoadState(LoraLoadStateSpec),
    /// NVIDIA Dynamo: the lowest cost in prefill and decode blocks.
    DynamoCost(DynamoCostSpec),
    /// Preble: exploit a long prefix, else the cheapest by work sent of late.
    PrebleE2(PrebleE2Spec),
}

/// What each policy's parameters tell of it.
pub(crate) trait Parameters {
    fn name(&self) -> &'static str;
    fn summary(&self) -> &'static str;
    fn information(&self) -> Information;
    fn check(&self) -> Result<(), RoutingError> {
        Ok(())
    }
    /// Builds from parameters that were checked.
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError>;
}

impl PolicySpec {
    /// Every policy with its defaults, in the order of the variants.
    #[must_use]
    pub fn all() -> Vec<Self> {
        vec![
            Self::Base(BaseSpec::default()),
            Self::Semantic(SemanticSpec::default()),
            Self::StickySession(StickySessionSpec::default()),
            Self::CacheStatic(CacheStaticSpec::default()),
            Self::Multitask(MultitaskSpec::default()),
            Self::Specialists(SpecialistsSpec::default()),
            Self::Oracle(OracleSpec::default()),
            Self::Random(RandomSpec::default()),
            Self::RoundRobin(RoundRobinSpec::default()),
            Self::LeastInFlight(LeastInFlightSpec::default()),
            Self::PowerOfTwo(PowerOfTwoSpec::default()),
            Self::AdapterHashBounded(AdapterHashBoundedSpec::default()),
            Self::SeedScore(SeedScoreSpec::default()),
            Self::SglangCacheAware(SglangCacheAwareSpec::default()),
            Self::ProductionStackPrefix(ProductionStackPrefixSpec::default()),
            Self::RayPrefixAware(RayPrefixAwareSpec::default()),
            Self::AibrixPrefix(AibrixPrefixSpec::default()),
            Self::StaticPartition(StaticPartitionSpec::default()),
            Self::EppWeighted(EppWeightedSpec::default()),
            Self::LoraLoadState(LoraLoadStateSpec::default()),
            Self::DynamoCost(DynamoCostSpec::default()),
            Self::PrebleE2(PrebleE2Spec::default()),
        ]
    }

    /// The word that specs, records and tables use: the `kind` of the spec.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.parameters().name()
    }

    /// Its rule in one line.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.parameters().summary()
    }

    /// What it is allowed to see under these parameters.
    #[must_use]
    pub fn information(&self) -> Information {
        self.parameters().information()
    }

    /// Checks the parameters by themselves, before there is anything to build from.
    ///
    /// # Errors
    /// With the first parameter that is impossible.
    pub fn check(&self) -> Result<(), RoutingError> {
        self.parameters().check()
    }

    /// The policy itself.
    ///
    /// # Errors
    /// When a parameter is impossible, or the context lacks what the policy needs.
    pub fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.check()?;
        self.parameters().build(context)
    }

    fn parameters(&self) -> &dyn Parameters {
        match self {
            Self::Base(p) => p,
            Self::Semantic(p) => p,
            Self::StickySession(p) => p,
            Self::CacheStatic(p) => p,
            Self::Multitask(p) => p,
            Self::Specialists(p) => p,
            Self::Oracle(p) => p,
            Self::Random(p) => p,
            Self::RoundRobin(p) => p,
            Self::LeastInFlight(p) => p,
            Self::PowerOfTwo(p) => p,
            Self::AdapterHashBounded(p) => p,
            Self::SeedScore(p) => p,
            Self::SglangCacheAware(p) => p,
            Self::ProductionStackPrefix(p) => p,
            Self::RayPrefixAware(p) => p,
            Self::AibrixPrefix(p) => p,
            Self::StaticPartition(p) => p,
            Self::EppWeighted(p) => p,
            Self::LoraLoadState(p) => p,
            Self::DynamoCost(p) => p,
            Self::PrebleE2(p) => p,
        }
    }
}
