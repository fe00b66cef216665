//! The rejected lines of a file, as a command prints them.

use crate::ingest::ProgressDisplay;

/// Rejected lines that are printed one by one; the summary counts all of them.
pub(super) const TOLD: u64 = 50;

/// Prints the first rejected lines beside the progress.
#[derive(Debug)]
pub(super) struct Refusals<'a> {
    display: &'a ProgressDisplay,
    told: u64,
}

impl<'a> Refusals<'a> {
    pub fn beside(display: &'a ProgressDisplay) -> Self {
        Self { display, told: 0 }
    }

    /// Takes note of a line, from 1, that was rejected for this reason.
    pub fn tell(&mut self, line: u64, reason: &str) {
        self.told += 1;
        if self.told <= TOLD {
            self.display.say(&format!("line {line}: {reason}"));
        }
    }
}
