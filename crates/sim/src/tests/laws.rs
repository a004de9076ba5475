//! Laws of whole runs.

use super::bed::{ask, cluster, run};
use acb_types::Outcome;

#[test]
fn a_request_alone_takes_the_time_that_the_profile_says() {
    let ran = run(&cluster(100), &[ask(7, 1, 100, 3)]);
    let kept = &ran.by_id[0];
    // 1 ms + 100 * 10 us + 0.5 ns * 100^2 / 2
    let first = 7 + 1_000_000 + 1_000_000 + 2_500;
    // 1 ms + 20 us + 100 ns * (101 + 102)
    let last = first + 2 * 1_020_000 + 203 * 100;
    assert_eq!((kept.admitted, kept.first, kept.last), (Some(7), Some(first), Some(last)));
    assert_eq!((kept.itl_max, kept.output, kept.outcome), (Some(1_030_200), 3, Outcome::Ok));
    assert_eq!((ran.totals.steps, ran.totals.completed, ran.totals.end.0), (3, 1, last));
}

#[test]
fn no_requests_give_totals_of_zero() {
    let ran = run(&cluster(100), &[]);
    assert_eq!(ran.totals.arrived, 0);
    assert_eq!(ran.totals.end.0, 0);
}
