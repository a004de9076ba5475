//! Non-negative least squares (Lawson and Hanson, *Solving Least Squares Problems*, 1974, chapter 23), on columns that are
//! first scaled to one length.

use nalgebra::{DMatrix, DVector};

/// A correlation with what is left, over the length of the right side, below which a column can't help.
const TOLERANCE: f64 = 1e-12;

/// The `x >= 0` with the least `|a x - b|`. Columns that hold only zeros get 0.
///
/// # Panics
/// When `a` and `b` differ in rows.
#[must_use]
pub fn non_negative_least_squares(a: &DMatrix<f64>, b: &DVector<f64>) -> DVector<f64> {
    assert_eq!(a.nrows(), b.len(), "one right side for each equation");
    let lengths: Vec<f64> = a.column_iter().map(|column| column.norm()).collect();
    let mut scaled = a.clone();
    for (mut column, &length) in scaled.column_iter_mut().zip(&lengths) {
        if length > 0.0 {
            column /= length;
        }
    }
    let mut x = solve_scaled(&scaled, b);
    for (value, &length) in x.iter_mut().zip(&lengths) {
        *value = if length > 0.0 { *value / length } else { 0.0 };
    }
    x
}

fn solve_scaled(a: &DMatrix<f64>, b: &DVector<f64>) -> DVector<f64> {
    let count = a.ncols();
    let (mut x, mut free) = (DVector::zeros(count), vec![false; count]);
    // Each round frees one column; Lawson and Hanson's bound on the rounds is generous.
    for _ in 0..3 * count {
        let slope = a.transpose() * (b - a * &x);
        let best = (0..count).filter(|&j| !free[j]).max_by(|&i, &j| slope[i].total_cmp(&slope[j]));
        let Some(best) = best.filter(|&j| slope[j] > TOLERANCE * b.norm()) else { break };
        free[best] = true;
        loop {
            let wanted = unconstrained(a, b, &free);
            let negative = |j: &usize| free[*j] && wanted[*j] <= 0.0;
            let step = (0..count).filter(negative).map(|j| x[j] / (x[j] - wanted[j]));
            let Some(step) = step.min_by(f64::total_cmp) else {
                x = wanted;
                break;
            };
            let step = if step.is_finite() { step } else { 0.0 };
            x += (wanted - &x) * step;
            for j in 0..count {
                if free[j] && x[j] <= 1e-14 * b.norm() {
                    (x[j], free[j]) = (0.0, false);
                }
            }
        }
    }
    x
}

/// Least squares over the free columns; the others are 0.
fn unconstrained(a: &DMatrix<f64>, b: &DVector<f64>, free: &[bool]) -> DVector<f64> {
    let chosen: Vec<usize> = (0..free.len()).filter(|&j| free[j]).collect();
    let part = a.select_columns(&chosen);
    let solved =
        part.svd(true, true).solve(b, 1e-13).expect("both sides of the decomposition were asked for");
    let mut x = DVector::zeros(free.len());
    for (&j, &value) in chosen.iter().zip(solved.iter()) {
        x[j] = value;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(rows: usize, a: &[f64], b: &[f64], expected: &[f64]) {
        let (a, b) = (DMatrix::from_row_slice(rows, expected.len(), a), DVector::from_row_slice(b));
        let found = non_negative_least_squares(&a, &b);
        let close = found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-9);
        assert!(close, "{found} is not {expected:?}");
    }

    #[test]
    fn known_answers_are_found() {
        check(2, &[1.0, 0.0, 0.0, 1.0], &[3.0, 4.0], &[3.0, 4.0]);
        // Without the bound the second would be -1; with it the first is the projection on its column alone.
        check(2, &[1.0, 1.0, 0.0, 1.0], &[2.0, -1.0], &[2.0, 0.0]);
        check(3, &[1.0, 0.0, 1.0, 1.0, 1.0, 2.0], &[1.0, 3.0, 5.0], &[1.0, 2.0]);
        check(3, &[1.0, 0.0, 1.0, 1.0, 1.0, 2.0], &[5.0, 3.0, 1.0], &[3.0, 0.0]);
        check(2, &[-1.0, -2.0], &[1.0, 1.0], &[0.0]);
        check(2, &[0.0, 1.0, 0.0, 1.0], &[2.0, 2.0], &[0.0, 2.0]);
    }

    #[test]
    fn columns_of_very_different_lengths_are_told_apart() {
        check(3, &[1.0, 1e9, 1.0, 2e9, 1.0, 4e9], &[3.0, 5.0, 9.0], &[1.0, 2e-9]);
    }

    proptest! {
        /// The Karush-Kuhn-Tucker conditions: no free column is left with a slope, no bound one with a useful slope.
        #[test]
        fn nothing_better_is_near(numbers in prop::collection::vec(-1.0f64..1.0, 40)) {
            let a = DMatrix::from_row_slice(8, 4, &numbers[..32]);
            let b = DVector::from_row_slice(&numbers[32..]);
            let x = non_negative_least_squares(&a, &b);
            let slope = a.transpose() * (&b - &a * &x);
            for (value, slope) in x.iter().zip(slope.iter()) {
                prop_assert!(*value >= 0.0);
                let rising = if *value > 0.0 { slope.abs() } else { *slope };
                prop_assert!(rising < 1e-8, "{value} has slope {slope}");
            }
        }
    }
}
