//! The rejected lines of a file, as a command prints them.

use std::collections::HashMap;

use crate::ingest::{LINES_OF_ONE_REASON, ProgressDisplay};

/// Rejected lines that are printed one by one; the summary counts all of them.
pub(super) const TOLD: u64 = 50;

/// Prints the first rejected lines beside the progress.
#[derive(Debug)]
pub(super) struct Refusals<'a> {
    display: &'a ProgressDisplay,
    printed: u64,
    /// Reasons that were printed, and for how many lines.
    reasons: HashMap<String, u64>,
}

impl<'a> Refusals<'a> {
    pub fn beside(display: &'a ProgressDisplay) -> Self {
        Self { display, printed: 0, reasons: HashMap::new() }
    }

    /// Takes note of a line, from 1, that was rejected for this reason.
    pub fn tell(&mut self, line: u64, reason: &str) {
        if self.printed == TOLD {
            return;
        }
        let lines = self.reasons.entry(reason.to_owned()).or_default();
        if *lines < LINES_OF_ONE_REASON {
            *lines += 1;
            self.printed += 1;
            let more = if *lines == LINES_OF_ONE_REASON { " (more such lines are only counted)" } else { "" };
            self.display.say(&format!("line {line}: {reason}{more}"));
        }
    }
}
