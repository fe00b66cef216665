//! Prints the rejected lines of a file.

use std::collections::HashMap;

use collect::ingest::{LINES_OF_ONE_REASON, ProgressDisplay};

/// Maximum number of printed lines; the summary counts all.
pub(super) const LINES_PRINTED: u64 = 50;

#[derive(Debug)]
pub(super) struct Refusals<'a> {
    display: &'a ProgressDisplay,
    printed: u64,
    /// Printed reasons, and the number of lines of each.
    reasons: HashMap<String, u64>,
}

impl<'a> Refusals<'a> {
    pub fn new(display: &'a ProgressDisplay) -> Self {
        Self { display, printed: 0, reasons: HashMap::new() }
    }

    /// `line` counts from 1.
    pub fn print(&mut self, line: u64, reason: &str) {
        if self.printed == LINES_PRINTED {
            return;
        }
        let lines = self.reasons.entry(reason.to_owned()).or_default();
        if *lines < LINES_OF_ONE_REASON {
            *lines += 1;
            self.printed += 1;
            let more = if *lines == LINES_OF_ONE_REASON { " (more such lines are only counted)" } else { "" };
            self.display.print_line(&format!("line {line}: {reason}{more}"));
        }
    }
}
