//! Requests per second of the simulator, records counted and not written.

mod load;

use divan::Bencher;
use divan::counter::ItemsCount;
use load::{Engine, Load};

fn main() {
    divan::main();
}

fn bench(bencher: Bencher<'_, '_>, load: Load) {
    bencher.counter(ItemsCount::new(load.requests)).bench_local(|| load.run());
}

const ENGINES: [Engine; 2] = [Engine::Vllm, Engine::Sglang];

/// 1,000 requests at 6.45 per second on one replica.
#[divan::bench(args = ENGINES)]
fn one_replica(bencher: Bencher<'_, '_>, engine: Engine) {
    bench(bencher, Load { engine, ..Load::new(1000, 1, 0) });
}

/// 20,000 requests over 8 replicas.
#[divan::bench(args = ENGINES)]
fn eight_replicas(bencher: Bencher<'_, '_>, engine: Engine) {
    bench(bencher, Load { engine, ..Load::new(20_000, 8, 0) });
}

/// 20,000 requests over 8 replicas, for 32 adapters.
#[divan::bench(args = ENGINES)]
fn eight_replicas_with_adapters(bencher: Bencher<'_, '_>, engine: Engine) {
    bench(bencher, Load { rate_rps: 3.0, engine, ..Load::new(20_000, 8, 32) });
}
