//! Linear least squares with named unknowns that can't be negative, and what can be known of each.

use super::equation::Equation;
use acb_stats::non_negative_least_squares;
use nalgebra::{DMatrix, DVector};

/// One unknown: what it is multiplied with in each equation.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its factor in each equation.
    pub factors: Vec<f64>,
}

/// What the equations say of one unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// Its value, within the half-width with 99 % if errors are independent.
    Value {
        /// The value.
        value: f64,
        /// Half of the width of its interval.
        half_width: f64,
        /// Largest share of a measured time that value and half-width together make up.
        share: f64,
    },
    /// No equation depends on it.
    NoEffect,
    /// Its effect is made up of those of others: only their sum shows.
    OneWith(Vec<&'static str>),
}

/// What the unknowns have to add up to in each equation.
#[derive(Clone, Debug, Default)]
pub struct Right {
    /// The sums.
    pub sums: Vec<f64>,
    /// Weights of their errors.
    pub weights: Vec<f64>,
    /// The times that were measured, of which the sums are parts.
    pub measured: Vec<f64>,
}

impl Right {
    /// Of these equations; `sum` is what of an equation's time is to be explained.
    pub fn of(equations: &[&Equation], sum: impl Fn(&Equation) -> f64) -> Self {
        Self {
            sums: equations.iter().map(|e| sum(e)).collect(),
            weights: equations.iter().map(|e| e.weight()).collect(),
            measured: equations.iter().map(|e| e.measured_ns).collect(),
        }
    }
}

/// Quantile of the normal distribution for 99 %, two-sided.
const Z: f64 = 2.576;
/// Share of a column, of length 1, that is its own below which it has nothing of its own.
const OWN: f64 = 1e-6;

/// Solves weighted equations. Of columns that can't be told apart, the first keeps the effect.
pub fn solve(columns: &[Column], right: &Right) -> Vec<Known> {
    let rows = |column: &Column| -> Vec<f64> {
        column.factors.iter().zip(&right.weights).map(|(factor, weight)| factor * weight).collect()
    };
    let weighted: Vec<DVector<f64>> = columns.iter().map(|c| DVector::from_vec(rows(c))).collect();
    let mut known = independence(columns, &weighted);
    let kept: Vec<usize> = (0..columns.len()).filter(|&j| matches!(known[j], Known::Value { .. })).collect();
    if kept.is_empty() {
        return known;
    }
    let a = DMatrix::from_columns(&kept.iter().map(|&j| weighted[j].clone()).collect::<Vec<_>>());
    let sums = right.sums.iter().zip(&right.weights).map(|(sum, weight)| sum * weight);
    let b = DVector::from_iterator(right.sums.len(), sums);
    let values = non_negative_least_squares(&a, &b);
    let variance = (&b - &a * &values).norm_squared() / (b.len().saturating_sub(kept.len()).max(1)) as f64;
    for ((&j, &value), spread) in kept.iter().zip(values.iter()).zip(spreads(&a)) {
        let half_width = Z * (variance * spread).sqrt();
        let shares = columns[j].factors.iter().zip(&right.measured).map(|(factor, all)| (factor / all).abs());
        let share = (value + half_width) * shares.fold(0.0, f64::max);
        known[j] = Known::Value { value, half_width, share };
    }
    known
}

/// Sum of squares of the weighted errors of the best solution.
pub fn least_squares(columns: &[Column], right: &Right) -> f64 {
    let known = solve(columns, right);
    let error = |row: usize| {
        let sum: f64 = known.iter().zip(columns).map(|(k, c)| value_of(k) * c.factors[row]).sum();
        ((sum - right.sums[row]) * right.weights[row]).powi(2)
    };
    (0..right.sums.len()).map(error).sum()
}

/// The value, 0 where there is none.
pub fn value_of(known: &Known) -> f64 {
    match known {
        Known::Value { value, .. } => *value,
        Known::NoEffect | Known::OneWith(_) => 0.0,
    }
}

/// Marks the columns that have something of their own beside those before them.
fn independence(columns: &[Column], weighted: &[DVector<f64>]) -> Vec<Known> {
    let mut kept: Vec<(usize, DVector<f64>)> = Vec::new();
    let mut basis: Vec<DVector<f64>> = Vec::new();
    let mut known = Vec::new();
    for (j, column) in weighted.iter().enumerate() {
        let length = column.norm();
        if length == 0.0 {
            known.push(Known::NoEffect);
            continue;
        }
        let unit = column / length;
        // Twice, since the first pass leaves errors of rounding that are large beside a small rest.
        let own = beside(&beside(&unit, &basis), &basis);
        if own.norm() > OWN {
            basis.push(own.normalize());
            kept.push((j, unit));
            known.push(Known::Value { value: 0.0, half_width: 0.0, share: 0.0 });
        } else {
            let shares = shares_of(&unit, &kept);
            let others = kept.iter().zip(shares.iter()).filter(|(_, share)| share.abs() > 1e-3);
            known.push(Known::OneWith(others.map(|((j, _), _)| columns[*j].name).collect()));
        }
    }
    known
}

/// What is left of a column without its parts along these directions.
fn beside(column: &DVector<f64>, basis: &[DVector<f64>]) -> DVector<f64> {
    basis.iter().fold(column.clone(), |left, direction| &left - direction * direction.dot(&left))
}

/// The combination of the columns kept so far that comes nearest to this one. There is one: a first column has all of its
/// own.
fn shares_of(unit: &DVector<f64>, kept: &[(usize, DVector<f64>)]) -> Vec<f64> {
    let before = DMatrix::from_columns(&kept.iter().map(|(_, unit)| unit.clone()).collect::<Vec<_>>());
    let solved =
        before.svd(true, true).solve(unit, 1e-12).expect("both sides of the decomposition are there");
    solved.iter().copied().collect()
}

/// Diagonal of the inverse of `a' a`.
fn spreads(a: &DMatrix<f64>) -> Vec<f64> {
    let lengths: Vec<f64> = a.column_iter().map(|column| column.norm()).collect();
    let mut scaled = a.clone();
    for (mut column, length) in scaled.column_iter_mut().zip(&lengths) {
        column /= *length;
    }
    let inverse =
        (scaled.transpose() * &scaled).pseudo_inverse(1e-14).expect("the tolerance is not negative");
    lengths.iter().enumerate().map(|(j, length)| inverse[(j, j)].max(0.0) / (length * length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(sums: [f64; 4]) -> Right {
        Right { sums: sums.to_vec(), weights: vec![1.0; 4], measured: vec![10.0; 4] }
    }

    fn column(name: &'static str, factors: &[f64]) -> Column {
        Column { name, factors: factors.to_vec() }
    }

    #[test]
    fn an_unknown_without_effect_and_one_that_only_shows_in_a_sum_are_named() {
        let columns = [
            column("fixed", &[1.0, 1.0, 1.0, 1.0]),
            column("slot", &[8.0, 8.0, 8.0, 8.0]),
            column("row", &[1.0, 2.0, 3.0, 4.0]),
            column("hidden", &[0.0; 4]),
        ];
        let known = solve(&columns, &right([3.0, 5.0, 7.0, 9.0]));
        assert!((value_of(&known[0]) - 1.0).abs() < 1e-9 && (value_of(&known[2]) - 2.0).abs() < 1e-9);
        assert_eq!((&known[1], &known[3]), (&Known::OneWith(vec!["fixed"]), &Known::NoEffect));
    }

    #[test]
    fn the_half_width_is_that_of_the_textbook() {
        // A mean of four numbers: standard error is the standard deviation over two.
        let known = solve(&[column("mean", &[1.0; 4])], &right([1.0, 2.0, 3.0, 4.0]));
        let Known::Value { value, half_width, share } = known[0] else { panic!("a mean is known") };
        let deviation = (5.0f64 / 3.0).sqrt();
        assert!(
            (value - 2.5).abs() < 1e-9 && (half_width - Z * deviation / 2.0).abs() < 1e-9,
            "{half_width}"
        );
        assert!((share - (value + half_width) / 10.0).abs() < 1e-12);
    }
}
