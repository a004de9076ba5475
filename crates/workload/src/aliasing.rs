//! Whether the axes of a workload can be told apart: association between each two of them.

use crate::sample::layout_of;
use acb_tasks::Layout;
use acb_types::Request;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Levels of an axis that are told apart; an axis with more can't be compared.
const MAX_LEVELS: usize = 512;
/// Observations below which no association is estimated.
const MIN_OBSERVATIONS: u64 = 20;
const AXES: usize = 6;

/// An axis of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Session.
    Session,
    /// Tenant.
    Tenant,
    /// Trust group.
    TrustGroup,
    /// Task.
    Task,
    /// Order of the prompt's parts.
    Layout,
    /// Document.
    Document,
}

impl Axis {
    /// All axes.
    pub const ALL: [Self; AXES] =
        [Self::Session, Self::Tenant, Self::TrustGroup, Self::Task, Self::Layout, Self::Document];

    fn level(self, request: &Request) -> Option<u64> {
        match self {
            Self::Session => Some(request.session.0),
            Self::Tenant => Some(u64::from(request.tenant.0)),
            Self::TrustGroup => Some(u64::from(request.trust_group.0)),
            Self::Task => Some(u64::from(request.task.0)),
            Self::Layout => layout_of(request).map(|layout| u64::from(layout == Layout::InstructionFirst)),
            Self::Document => request.document.map(|document| document.0),
        }
    }

    /// Whether one axis is a part of the other by design (a session belongs to one tenant, a tenant to one trust
    /// group), so that their association says nothing.
    fn is_nested(a: Self, b: Self) -> bool {
        let people = [Self::Session, Self::Tenant, Self::TrustGroup];
        people.contains(&a) && people.contains(&b)
    }
}

/// Association of two axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CramersV {
    /// One axis.
    pub a: Axis,
    /// The other.
    pub b: Axis,
    /// Cramer's V with Bergsma's bias correction, 0 (none) to 1 (each tells the other); absent where it can't be
    /// estimated.
    pub v: Option<f64>,
    /// Requests that have both.
    pub n: u64,
    /// Levels of `a` seen.
    pub levels_a: u32,
    /// Levels of `b` seen.
    pub levels_b: u32,
    /// Whether one belongs to the other by design, so that the association is no fault.
    pub nested: bool,
    /// Why `v` is absent.
    pub absent: Option<String>,
}

/// Contingency tables of each two axes, counted in one pass; memory does not grow with requests.
#[derive(Clone, Debug, Default)]
pub struct Aliasing {
    levels: [Levels; AXES],
    tables: Vec<Table>,
}

#[derive(Clone, Debug, Default)]
struct Levels {
    numbers: FxHashMap<u64, u16>,
    overflow: bool,
}

#[derive(Clone, Debug, Default)]
struct Table {
    /// Rows of `a`, each as long as the levels of `b` seen so far in it.
    counts: Vec<Vec<u32>>,
    n: u64,
}

impl Aliasing {
    /// Counts a request.
    pub fn add(&mut self, request: &Request) {
        self.tables.resize_with(AXES * (AXES - 1) / 2, Table::default);
        let mut seen = [None; AXES];
        for (axis, level) in Axis::ALL.into_iter().zip(&mut seen) {
            *level = axis.level(request).and_then(|value| self.levels[axis as usize].number(value));
        }
        for ((a, b), table) in pairs().zip(&mut self.tables) {
            if let (Some(row), Some(column)) = (seen[a as usize], seen[b as usize]) {
                table.add(usize::from(row), usize::from(column));
            }
        }
    }

    /// The association of each two axes.
    #[must_use]
    pub fn finish(&self) -> Vec<CramersV> {
        let empty = Table::default();
        let tables = self.tables.iter().chain(std::iter::repeat(&empty));
        pairs().zip(tables).map(|((a, b), table)| self.pair(a, b, table)).collect()
    }

    fn pair(&self, a: Axis, b: Axis, table: &Table) -> CramersV {
        let (la, lb) = (&self.levels[a as usize], &self.levels[b as usize]);
        let (rows, columns) = (la.numbers.len(), lb.numbers.len());
        let cells = (rows * columns) as u64;
        let absent = if la.overflow || lb.overflow {
            Some(format!("an axis has more than {MAX_LEVELS} levels"))
        } else if rows < 2 || columns < 2 {
            Some("an axis does not vary".to_owned())
        } else if table.n < MIN_OBSERVATIONS.max(cells) {
            Some(format!("{} requests are too few for {rows} x {columns} levels", table.n))
        } else {
            None
        };
        CramersV {
            a,
            b,
            v: absent.is_none().then(|| table.cramers_v()),
            n: table.n,
            levels_a: rows as u32,
            levels_b: columns as u32,
            nested: Axis::is_nested(a, b),
            absent,
        }
    }
}

impl Levels {
    fn number(&mut self, value: u64) -> Option<u16> {
        if let Some(&number) = self.numbers.get(&value) {
            return Some(number);
        }
        if self.numbers.len() == MAX_LEVELS {
            self.overflow = true;
            return None;
        }
        let next = self.numbers.len() as u16;
        self.numbers.insert(value, next);
        Some(next)
    }
}

impl Table {
    fn add(&mut self, row: usize, column: usize) {
        if row >= self.counts.len() {
            self.counts.resize_with(row + 1, Vec::new);
        }
        let counts = &mut self.counts[row];
        if column >= counts.len() {
            counts.resize(column + 1, 0);
        }
        counts[column] += 1;
        self.n += 1;
    }

    /// Bergsma (2013): phi^2 and the numbers of levels, each less what chance gives.
    fn cramers_v(&self) -> f64 {
        let width = self.counts.iter().map(Vec::len).max().unwrap_or(0);
        let row_sums: Vec<f64> =
            self.counts.iter().map(|row| row.iter().map(|&c| f64::from(c)).sum()).collect();
        let mut column_sums = vec![0.0; width];
        for row in &self.counts {
            for (sum, &count) in column_sums.iter_mut().zip(row) {
                *sum += f64::from(count);
            }
        }
        let n = self.n as f64;
        let cells = self.counts.iter().zip(&row_sums).flat_map(|(row, &total)| {
            row.iter().zip(&column_sums).map(move |(&c, &column)| (f64::from(c), total * column))
        });
        let phi2: f64 = cells.filter(|&(_, d)| d > 0.0).map(|(c, d)| c * c / d).sum::<f64>() - 1.0;
        let r = row_sums.iter().filter(|&&sum| sum > 0.0).count() as f64;
        let k = column_sums.iter().filter(|&&sum| sum > 0.0).count() as f64;
        let corrected = (phi2 - (r - 1.0) * (k - 1.0) / (n - 1.0)).max(0.0);
        let less = |levels: f64| levels - (levels - 1.0).powi(2) / (n - 1.0);
        let smaller = (less(r) - 1.0).min(less(k) - 1.0);
        if smaller > 0.0 { (corrected / smaller).sqrt().min(1.0) } else { 0.0 }
    }
}

fn pairs() -> impl Iterator<Item = (Axis, Axis)> {
    let after = |a: Axis| Axis::ALL.into_iter().skip(a as usize + 1).map(move |b| (a, b));
    Axis::ALL.into_iter().flat_map(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[u32]]) -> Table {
        let mut table = Table::default();
        for (r, row) in rows.iter().enumerate() {
            for (c, &count) in row.iter().enumerate() {
                (0..count).for_each(|_| table.add(r, c));
            }
        }
        table
    }

    #[test]
    fn association_worked_by_hand() {
        // n = 40, margins 20 and 20: phi^2 = (15^2 + 5^2 + 5^2 + 15^2) / 400 - 1 = 0.25. Less 1/39 for chance is
        // 0.224359; each axis has 2 - 1/39 levels, so V = sqrt(0.224359 / (1 - 1/39)) = 0.479857.
        let v = table(&[&[15, 5], &[5, 15]]).cramers_v();
        assert!((v - (0.25f64 - 1.0 / 39.0).sqrt() / (1.0f64 - 1.0 / 39.0).sqrt()).abs() < 1e-12, "{v}");
        assert!((v - 0.479857).abs() < 1e-6, "{v}");
        assert_eq!(table(&[&[10, 10], &[10, 10]]).cramers_v(), 0.0);
        assert!(table(&[&[20, 0, 0], &[0, 20, 0], &[0, 0, 20]]).cramers_v() > 0.99);
    }

    #[test]
    fn each_two_axes_are_compared_once() {
        let pairs: Vec<_> = pairs().collect();
        assert_eq!(pairs.len(), 15);
        assert!(pairs.iter().all(|(a, b)| a < b));
        let report = Aliasing::default().finish();
        assert_eq!(report.len(), 15);
        assert!(report.iter().all(|pair| pair.v.is_none() && pair.absent.is_some()));
    }
}
