//! Numbers with as many digits as they deserve.

use crate::{Contrast, Effect, Range};

/// Four significant digits; scientific far from 1.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits_before = size.log10().floor() as i32 + 1;
    let decimals = (4 - digits_before).clamp(0, 7) as usize;
    format!("{value:.decimals$}")
}

/// A number or a dash.
pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// A p-value: four decimals, and never zero.
pub(super) fn p_value(p: Option<f64>) -> String {
    match p {
        None => "-".to_owned(),
        Some(p) if p < 0.0001 => format!("{p:.1e}"),
        Some(p) => format!("{p:.4}"),
    }
}

/// A share as percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Estimate and interval, such as `1.204 [1.200, 1.208]`.
pub(super) fn range(range: &Range) -> String {
    let Range { estimate, low, high, .. } = range;
    format!("{} [{}, {}]", number(*estimate), number(*low), number(*high))
}

/// The effect of a contrast in one cell. A difference shows its sign and unit, so that it is never read as a ratio.
pub(super) fn effect(contrast: &Contrast) -> String {
    match &contrast.effect {
        Effect::Ratio(ratio) => range(ratio),
        Effect::Difference { range: difference, .. } => {
            let sign = if difference.estimate > 0.0 { "+" } else { "" };
            format!("difference {sign}{} {}", range(difference), contrast.unit)
        }
        Effect::NotEstimable { .. } => "not estimable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_significant_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (1.2042, "1.204"),
            (0.012_345, "0.01235"),
            (123.456, "123.5"),
            (98_765.4, "98765"),
            (-2.5, "-2.500"),
            (1.5e9, "1.500e9"),
            (1e-6, "1.000e-6"),
        ] {
            assert_eq!(number(value), expected);
        }
        assert_eq!(
            (p_value(Some(0.0078125)), p_value(Some(1e-7)), p_value(None)),
            ("0.0078".into(), "1.0e-7".into(), "-".into())
        );
    }
}
