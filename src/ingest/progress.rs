//! Progress for a person at a terminal; nothing for a log.

use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Progress;
use crate::base::humanize::grouped;

/// A file: how much of it is read, how fast, how long it will take.
const BAR: &str = "{prefix} [{wide_bar}] {percent}% of {total_bytes}, {msg}, {binary_bytes_per_sec}, {eta} left";
/// Rows of the store: how many of them, how long it will take.
const ROWS: &str = "{prefix} [{wide_bar}] {percent}% of {human_len} rows, {msg}, {eta} left";
/// A pipe: its end is not known.
const SPINNER: &str = "{prefix} {spinner} {msg} in {elapsed}";

/// A progress bar on standard error, where that is a terminal; otherwise it shows nothing.
#[derive(Debug)]
pub struct ProgressDisplay {
    bar: ProgressBar,
}

impl ProgressDisplay {
    /// Shows how `name` gets on with rows; [`ProgressDisplay::expect`] says of how many.
    pub fn rows(name: &str) -> Self {
        Self::with(ProgressDrawTarget::stderr(), name, None, ROWS)
    }

    /// Shows how `name` gets on: a bar where its size in bytes is known, else a spinner with a count.
    pub fn new(name: &str, bytes: Option<u64>) -> Self {
        // Draws nothing, and keeps no lines, where standard error is no terminal.
        Self::on(ProgressDrawTarget::stderr(), name, bytes)
    }

    fn on(target: ProgressDrawTarget, name: &str, bytes: Option<u64>) -> Self {
        Self::with(target, name, bytes, if bytes.is_some() { BAR } else { SPINNER })
    }

    fn with(target: ProgressDrawTarget, name: &str, length: Option<u64>, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(length, target).with_style(style).with_prefix(name.to_owned());
        Self { bar }
    }

    /// Shows how far it is.
    pub fn show(&self, progress: Progress) {
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("{} entries", progress.done));
            self.bar.set_position(progress.bytes);
        }
    }

    /// Returns true if the progress is visible.
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Sets the approximate number of rows.
    pub fn expect(&self, rows: u64) {
        self.bar.set_length(rows);
    }

    /// Shows how many rows are done.
    pub fn show_rows(&self, rows: u64, message: &str) {
        if self.is_shown() {
            self.bar.set_message(message.to_owned());
            self.bar.set_position(rows);
        }
    }

    /// Shows the number done of an unknown total.
    pub fn show_count(&self, count: u64, of: &str) {
        if self.is_shown() {
            self.bar.set_message(format!("{} {of}", grouped(count)));
            self.bar.tick();
        }
    }

    /// A line above the bar; on standard error alone where there is no bar.
    pub fn say(&self, line: &str) {
        // Somebody may have stopped reading (`2>&1 | head`): the file goes on.
        self.bar.suspend(|| drop(writeln!(std::io::stderr(), "{line}")));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [BAR, ROWS, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn without_a_terminal_nothing_is_kept() {
        let display = ProgressDisplay::on(ProgressDrawTarget::hidden(), "tweets.txt", Some(100));
        display.show(Progress { bytes: 50, lines: 5, done: 5 });
        assert_eq!((display.bar.position(), display.bar.message()), (0, String::new()));
        display.finish();
    }
}
