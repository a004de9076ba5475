//! Requests per second of the simulator, records counted and not written.

mod load;

use divan::Bencher;
use divan::counter::ItemsCount;
use load::Load;

fn main() {
    divan::main();
}

fn bench(bencher: Bencher<'_, '_>, load: Load) {
    bencher.counter(ItemsCount::new(load.requests)).bench_local(|| load.run());
}

/// 1,000 requests at 6.45 per second on one replica.
#[divan::bench]
fn one_replica(bencher: Bencher<'_, '_>) {
    bench(bencher, Load::new(1000, 1, 0));
}

/// 20,000 requests over 8 replicas.
#[divan::bench]
fn eight_replicas(bencher: Bencher<'_, '_>) {
    bench(bencher, Load::new(20_000, 8, 0));
}

/// 20,000 requests over 8 replicas, for 32 adapters.
#[divan::bench]
fn eight_replicas_with_adapters(bencher: Bencher<'_, '_>) {
    bench(bencher, Load { rate_rps: 3.0, ..Load::new(20_000, 8, 32) });
}
