//! A bench's summary for a person.

use super::plan::BenchDocument;
use super::summary::{AdapterSummary, GroupSummary, Measure};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use std::fmt::Write;

/// Prompt tokens cached where none should be, as a share, from which on it is worth a warning.
const UNEXPECTED_SHARE: f64 = 0.01;

/// The whole summary.
#[must_use]
pub fn text(document: &BenchDocument) -> String {
    let mut out = String::new();
    head(document, &mut out);
    let all = &document.summary.all;
    out += &latencies(all);
    if document.summary.adapters.len() > 1 {
        out += &adapters(&document.summary.adapters);
    }
    checks(document, &mut out);
    out
}

fn head(document: &BenchDocument, out: &mut String) {
    let summary = &document.summary;
    let mut line = |name: &str, value: String| {
        // Writing to a String can't fail.
        let _ = writeln!(out, "{name:<18}{value}");
    };
    if summary.simulated > 0 {
        line(
            "SIMULATED",
            format!("{} answers come from a simulator: nothing here is a measurement", summary.simulated),
        );
    }
    line("load", document.load.clone());
    let endings: Vec<String> = summary.endings.iter().map(|(class, n)| format!("{n} {class}")).collect();
    let warmup = match summary.warmup_requests {
        0 => String::new(),
        n => format!(" ({n} more in the warm-up)"),
    };
    line("requests", format!("{}: {}{warmup}", summary.all.requests, endings.join(", ")));
    if summary.retried > 0 {
        line("retried", format!("{} requests", summary.retried));
    }
    line(
        "throughput",
        format!(
            "{} requests/s, {} output tokens/s over {} s",
            figure(summary.ok_rps),
            figure(summary.output_tokens_per_s),
            figure(summary.window_s)
        ),
    );
    if let Some(good) = summary.all.good {
        let share = 100.0 * good as f64 / summary.all.requests.max(1) as f64;
        line(
            "goodput",
            format!(
                "{} requests/s ({good} of {}, {share:.1} %)",
                figure(summary.good_rps),
                summary.all.requests
            ),
        );
    }
    if let Some(ratio) = summary.prompt_tokens_servers_over_ours.filter(|_| summary.prompt_count_differs > 0)
    {
        line(
            "prompt tokens",
            format!(
                "the server counts {ratio:.3} times ours, other than ours in {} requests",
                summary.prompt_count_differs
            ),
        );
    }
    if let Some(share) = summary.cached_share {
        line("cached", format!("{:.1} % of the prompt tokens, as the server says", 100.0 * share));
    }
    if let Some(share) = document.unexpected_cached_share.filter(|share| *share >= UNEXPECTED_SHARE) {
        line(
            "WARM CACHE",
            format!(
                "no two prompts share anything, and {:.1} % was cached: an earlier run left it there; leave out \
                 --same-prompts, or reset the cache",
                100.0 * share
            ),
        );
    }
    if let Some(recount) = &document.recount {
        line("answer tokens", recount.to_string());
    }
    out.push('\n');
}

fn latencies(group: &GroupSummary) -> String {
    let l = &group.latencies;
    let rows = [
        ("TTFT from due", l.ttft_from_due_ms),
        ("TTFT from send", l.ttft_from_send_ms),
        ("ITL", l.itl_ms),
        ("TPOT", l.tpot_ms),
        ("E2E from due", l.e2e_from_due_ms),
        ("E2E from send", l.e2e_from_send_ms),
    ];
    let mut table = columns(&["ms", "n", "mean", "p50", "p90", "p99", "max"]);
    for (name, measure) in rows {
        let mut row = vec![name.to_owned()];
        row.extend(cells(measure));
        table.add_row(row);
    }
    format!("{table}\n\n")
}

fn cells(measure: Measure) -> [String; 6] {
    let Measure { n, mean, p50, p90, p99, max } = measure;
    let [mean, p50, p90, p99, max] = [mean, p50, p90, p99, max].map(figure);
    [n.to_string(), mean, p50, p90, p99, max]
}

fn adapters(list: &[AdapterSummary]) -> String {
    let mut table =
        columns(&["adapter", "prompts", "requests", "ok", "TTFT p50", "TTFT p99", "E2E p50", "E2E p99"]);
    for adapter in list {
        add_group(&mut table, &adapter.adapter, "all", Some(&adapter.all));
        add_group(&mut table, "", "cold", adapter.cold.as_ref());
        add_group(&mut table, "", "warm", adapter.warm.as_ref());
    }
    format!(
        "By adapter, ms from due; cold and warm by the cached tokens that the server reports\n{table}\n{}\n",
        worst(list)
    )
}

/// The adapter whose requests wait longest, by the median, which few requests are enough for.
fn worst(list: &[AdapterSummary]) -> String {
    let median = |adapter: &AdapterSummary| adapter.all.latencies.ttft_from_due_ms.p50;
    let known = list.iter().filter_map(|adapter| Some((adapter, median(adapter)?)));
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map_or_else(String::new, |(adapter, p50)| {
        let n = adapter.all.latencies.ttft_from_due_ms.n;
        format!("worst adapter: {}, TTFT p50 {} ms (n {n})\n", adapter.adapter, figure(Some(p50)))
    })
}

fn add_group(table: &mut Table, name: &str, prompts: &str, group: Option<&GroupSummary>) {
    let Some(group) = group else { return };
    let (ttft, e2e) = (group.latencies.ttft_from_due_ms, group.latencies.e2e_from_due_ms);
    let mut row = vec![name.to_owned(), prompts.to_owned(), group.requests.to_string(), group.ok.to_string()];
    row.extend([ttft.p50, ttft.p99, e2e.p50, e2e.p99].map(figure));
    table.add_row(row);
}

fn columns(names: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(names.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn checks(document: &BenchDocument, out: &mut String) {
    let check = &document.check;
    let verdict = if check.is_valid() { "valid" } else { "INVALID" };
    let (sends, ms) = (&check.sends, |ns: Option<acb_types::Nanos>| figure(ns.map(|ns| ns.as_millis_f64())));
    let _ = writeln!(
        out,
        "self-check        {verdict}: send lag p50 {} p99 {} max {} ms, {} requests/s sent of {} due, dispersion {} of {}",
        ms(sends.lag_p50_ns),
        ms(sends.lag_p99_ns),
        ms(sends.lag_max_ns),
        figure(sends.sent_rps),
        figure(sends.due_rps),
        figure(sends.sent_dispersion),
        figure(sends.due_dispersion),
    );
    for fault in &check.faults {
        let _ = writeln!(out, "  - {fault}");
    }
    for remark in &check.remarks {
        let _ = writeln!(out, "  note: {remark}");
    }
}

/// A number with three digits or so; a dash for what can't be estimated.
#[must_use]
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}
