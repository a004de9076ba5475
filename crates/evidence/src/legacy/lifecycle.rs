//! How a run of the original harness ended. Its status is not believed: the harness writes `complete` when it is stopped
//! by Ctrl-C, because only an exception marks a run as failed.

use super::files::OldStatus;
use super::rows::Rows;
use super::{Ended, Lifecycle};

/// What the status claims and what the rows show.
pub(super) fn lifecycle(status: Option<&OldStatus>, rows: &Rows, has_summary: bool) -> Lifecycle {
    let Some(status) = status else {
        let why = match rows.cut_off {
            true => "there is no status.json, and the last row is cut off",
            false => "there is no status.json: the run is older than that file, or never got so far",
        };
        let found = if rows.cut_off { Ended::Interrupted } else { Ended::Unknown };
        return Lifecycle { claimed: None, found, why: Some(why.to_owned()) };
    };
    let (found, why) = match status.status.as_str() {
        "complete" => complete(status, rows, has_summary),
        "failed" => (
            Ended::Failed,
            Some(status.exception_message.clone().unwrap_or_else(|| "no reason given".into())),
        ),
        "running" => {
            (Ended::Interrupted, Some("status.json still says running: the run was killed".to_owned()))
        }
        other => {
            (Ended::Unknown, Some(format!("status.json says \"{other}\", which the harness never wrote")))
        }
    };
    Lifecycle { claimed: Some(status.status.clone()), found, why }
}

fn complete(status: &OldStatus, rows: &Rows, has_summary: bool) -> (Ended, Option<String>) {
    let recorded = rows.answers() + rows.failures;
    let counted =
        status.completed_request_count.unwrap_or(recorded) + status.failed_request_count.unwrap_or(0);
    let planned = status.planned_request_count.unwrap_or(counted);
    let ctrl_c = "the original harness writes that when it is stopped by Ctrl-C";
    let interrupted = if recorded.min(counted) < planned {
        format!(
            "status.json says complete, but {} of {planned} planned requests have a row: {ctrl_c}",
            recorded.min(counted)
        )
    } else if rows.cut_off {
        format!("status.json says complete, but the last row is cut off: {ctrl_c}")
    } else if !has_summary {
        format!("status.json says complete, but there is no summary.json: {ctrl_c}")
    } else if rows.failures > 0 {
        return (Ended::Failed, Some(format!("{} requests failed", rows.failures)));
    } else {
        return (Ended::Whole, None);
    };
    (Ended::Interrupted, Some(interrupted))
}
