//! How often the intervals cover what they are of, and how often the tests reject what is true. Prints Markdown tables
//! for `docs/statistics.md`: `cargo bench -p acb-stats --bench coverage`. Without `--bench` a short run, to see that it
//! works. The same seed and trials print the same tables.

mod chance;
mod few;
mod many;
mod sequential;

/// Trials per row: a rate of 5 % is then known to within 0.4 points (two standard errors).
const TRIALS: u32 = 10_000;

fn main() {
    let trials = if std::env::args().any(|word| word == "--bench") { TRIALS } else { 50 };
    println!("{trials} trials per row; all numbers in %.\n");
    few::intervals(trials);
    few::tests(trials);
    few::equivalence(trials);
    few::power(trials);
    many::quantiles(trials);
    many::others(trials);
    many::drift(trials);
    sequential::looks(trials);
}
