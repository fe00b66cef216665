//! The queue at one moment, for people.

use std::fmt::Write;

use crate::clock::{self, Millis};
use crate::queue::Stats;

/// An aligned table in the words of the keys.
#[must_use]
pub fn table(stats: &Stats) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(&mut text, stats);
    text.trim_end().to_owned()
}

fn write_table(out: &mut String, stats: &Stats) -> std::fmt::Result {
    writeln!(out, "{}", stats.namespace)?;
    if let Some(reason) = &stats.paused {
        writeln!(out, "PAUSED: {reason}")?;
    }
    writeln!(out, "\n{:<14}{:>10}{:>12}{:>10}{:>18}", "lane", "patience", "delayed", "due", "oldest lateness")?;
    for lane in &stats.lanes {
        writeln!(
            out,
            "{:<14}{:>10}{:>12}{:>10}{:>18}",
            lane.lane,
            span(lane.patience_ms),
            lane.delayed,
            lane.due,
            span(lane.oldest_lateness_ms)
        )?;
    }
    writeln!(
        out,
        "{:<14}{:>10}{:>12}{:>10}{:>18}",
        "all",
        "",
        stats.delayed,
        stats.due,
        span(stats.oldest_lateness_ms)
    )?;
    writeln!(out, "\n{:<20}{:>12}  ({} of them expired)", "leased", stats.leased, stats.expired)?;
    writeln!(out, "{:<20}{:>12}", "dead", stats.dead)?;
    writeln!(out, "{:<20}{:>12}  ({} refused)", "incoming", stats.incoming, stats.incoming_refused)?;
    if !stats.counters.is_empty() {
        writeln!(out, "\ncounters")?;
        for (name, value) in &stats.counters {
            writeln!(out, "{name:<20}{value:>12}")?;
        }
    }
    writeln!(out, "\nworkers: {}", stats.workers.len())?;
    for worker in &stats.workers {
        let fields: Vec<String> = worker.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "{:<32} beat {} ago  {}", worker.worker, span(worker.beat_age_ms), fields.join(" "))?;
    }
    Ok(())
}

/// A span in at most two units: `1h 5m`, `3s 20ms`.
fn span(ms: Millis) -> String {
    let long = humantime::format_duration(clock::span(ms)).to_string();
    long.split(' ').take(2).collect::<Vec<_>>().join(" ")
}
