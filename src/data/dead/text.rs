//! Reports about dead items as text.

use std::fmt;

use super::{ActionCounts, DeadAction, DeadList, FirstArrival, ItemReport};
use crate::table::Table;
use engine::base::clock::Millis;
use engine::base::humanize::{format_time, one_line, truncate_chars};
use engine::queue::Place;
use store::{Change, Way};

const CHANGED: usize = 280;

fn time_or_dash(at: Option<Millis>) -> String {
    at.map_or_else(|| "-".to_owned(), format_time)
}

impl fmt::Display for DeadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "dead: {} in the store, {} in the queue", self.in_store, self.in_queue)?;
        if self.dead.is_empty() {
            return Ok(());
        }
        let mut table = Table::new("<20 <20 <8 <", &["id", "dead since", "known to", "reason"]);
        for dead in &self.dead {
            let known_to = match (dead.in_store, dead.in_queue) {
                (true, false) => "store",
                (false, true) => "queue",
                _ => "both",
            };
            table.row(&[&dead.id, &time_or_dash(dead.buried_at), &known_to, &one_line(&dead.reason)]);
        }
        writeln!(f, "\n{table}")?;
        if self.more {
            writeln!(f, "the first {}; --limit shows more", self.dead.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for ItemReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new("<14 <", &[]);
        let mut row = |name: &str, value: &str| table.row(&[&name, &value]);
        if self.places.is_empty() {
            row("queue", "nowhere");
        }
        for place in &self.places {
            let place = match place {
                Place::Delayed { lane, due } => format!("waiting in the lane {lane}, due {}", format_time(*due)),
                Place::Leased { fence, by } => {
                    let by = by.as_deref().map_or_else(String::new, |by| format!(" by {}", one_line(by)));
                    format!("leased until {}{by}", format_time(*fence))
                }
                Place::Dead { at, reason } => format!("dead since {}: {}", format_time(*at), one_line(reason)),
            };
            row("queue", &place);
        }
        let Some(stored) = &self.stored else {
            row("store", "nothing");
            return writeln!(f, "{table}");
        };
        row("store", stored.state.as_str());
        if let Some(reason) = &stored.reason {
            row("reason", &one_line(reason));
        }
        row("created", &time_or_dash(stored.created_at));
        row("first seen", &format_time(stored.first_seen));
        row("last checked", &time_or_dash(stored.checked_at));
        row("next due", &time_or_dash(stored.next_due));
        row("lookups", &stored.lookups.to_string());
        row("misses", &stored.misses.to_string());
        row("author", &stored.author_name.as_deref().map_or_else(|| "-".to_owned(), one_line));
        row("text", &stored.text.as_deref().map_or_else(|| "-".to_owned(), one_line));
        let details = &stored.details;
        let known = [
            ("cut short", details.truncated.filter(|is| *is).map(|_| "the rest of the text is not stored")),
            ("language", details.lang.as_deref()),
            ("replies to", details.reply_to.as_deref()),
            ("to account", details.reply_to_author.as_deref()),
            ("retweet of", details.retweet_of.as_deref()),
            ("quotes", details.quote_of.as_deref()),
            ("labels", details.labels.as_deref()),
            ("newest version", stored.current_id.as_deref()),
            ("withheld in", stored.withheld_in.as_deref()),
            ("unreadable", stored.unreadable.as_deref()),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                row(name, &one_line(value));
            }
        }
        for came in &self.ways {
            row("arrived by", &came.to_string());
        }
        for change in &self.changes {
            row("changed", &format!("{} {}", format_time(change.at), describe_change(change)));
        }
        writeln!(f, "{table}")
    }
}

impl fmt::Display for FirstArrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Way { pipeline, source, query } = &self.way;
        write!(f, "{pipeline}")?;
        if !source.is_empty() {
            write!(f, " {}", one_line(source))?;
        }
        if let Some(query) = query {
            write!(f, " ({})", one_line(query))?;
        }
        write!(f, ", first {}", format_time(self.first_at))
    }
}

/// Writes the change in one line: the field, its old value and its new one.
#[must_use]
pub fn describe_change(change: &Change) -> String {
    let name = match &*change.field {
        "current_id" => "version",
        "withheld_in" => "withheld in",
        "reply_settings" => "who may reply",
        other => other,
    };
    let value = |value: &Option<String>| match value.as_deref() {
        None => "none".to_owned(),
        Some(value) => truncate_chars(&one_line(value), CHANGED),
    };
    format!("{name}: {} -> {}", value(&change.old), value(&change.new))
}

impl ActionCounts {
    #[must_use]
    pub fn summary(&self, act: DeadAction) -> String {
        let Self { done: count, already: before, refused } = self;
        let (done, already) = match act {
            DeadAction::Retry if *before == 1 => ("retried", "was not dead"),
            DeadAction::Retry => ("retried", "were not dead"),
            DeadAction::Drop => ("dropped", "had ended already"),
        };
        format!("{count} {done}, {before} {already}, {refused} refused")
    }
}
