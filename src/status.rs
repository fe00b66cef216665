//! The queue and its quota at one moment, for people.

use std::fmt::Write;

use serde::Serialize;

use crate::accounts::{budget_line, parked};
use crate::credential::{Account, Reads};
use crate::figures::span;
use crate::lookup::Capabilities;
use crate::overload::Overload;
use crate::queue::Stats;

/// What a worker says in more than a word, on a line of its own; empty mostly.
const SENTENCES: [&str; 2] = ["config_refused", "config_needs_restart"];

/// What there is to say.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The queue.
    #[serde(flatten)]
    pub stats: Stats,
    /// Whether the quota suffices for it.
    pub quota: Overload,
    /// The credentials that are left alone for a while.
    pub parked: Vec<Account>,
    /// How the budget of reads is spent, where the provider charges for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Reads>,
}

impl Status {
    /// Of a queue and the credentials that serve it, with a lookup that can take so much.
    #[must_use]
    pub fn new(stats: Stats, accounts: Vec<Account>, capabilities: Capabilities) -> Self {
        let quota = Overload::new(&stats.lanes, &accounts, capabilities);
        let parked = accounts.into_iter().filter(|account| account.parked_for_ms > 0).collect();
        Self { stats, quota, parked, budget: None }
    }

    /// The same with how the budget of reads is spent.
    #[must_use]
    pub fn with_reads(self, budget: Option<Reads>) -> Self {
        Self { budget, ..self }
    }
}

/// An aligned table in the words of the keys.
#[must_use]
pub fn table(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(&mut text, status);
    text.trim_end().to_owned()
}

fn write_table(out: &mut String, Status { stats, quota, parked: left_alone, budget }: &Status) -> std::fmt::Result {
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
    writeln!(out, "\nquota\n{quota}")?;
    if let Some(reads) = budget {
        writeln!(out, "\nbudget of reads\n{}", budget_line(reads))?;
    }
    if !left_alone.is_empty() {
        writeln!(out, "\nparked credentials")?;
        for account in left_alone {
            writeln!(out, "{:<19} {}", account.name, parked(account).unwrap_or_default())?;
        }
    }
    if !stats.counters.is_empty() {
        writeln!(out, "\ncounters")?;
        for (name, value) in &stats.counters {
            writeln!(out, "{name:<20}{value:>12}")?;
        }
    }
    writeln!(out, "\nworkers: {}", stats.workers.len())?;
    for worker in &stats.workers {
        let is_sentence = |name: &str| SENTENCES.contains(&name);
        let fields = worker.fields.iter().filter(|(name, _)| !is_sentence(name));
        let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "{:<32} beat {} ago  {}", worker.worker, span(worker.beat_age_ms), fields.join(" "))?;
        for (name, value) in worker.fields.iter().filter(|(name, value)| is_sentence(name) && !value.is_empty()) {
            writeln!(out, "  {name}: {value}")?;
        }
    }
    Ok(())
}
