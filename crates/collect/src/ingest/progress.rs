//! Progress for a person at a terminal; nothing for a log.

use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Progress;
use engine::base::humanize::group_digits;

const BAR: &str = "{prefix} [{wide_bar}] {percent}% of {total_bytes}, {msg}, {binary_bytes_per_sec}, {eta} left";
const ROWS: &str = "{prefix} [{wide_bar}] {percent}% of {human_len} rows, {msg}, {eta} left";
const SPINNER: &str = "{prefix} {spinner} {msg} in {elapsed}";

/// Progress bar on standard error; hidden if that is not a terminal.
#[derive(Debug)]
pub struct ProgressDisplay {
    bar: ProgressBar,
}

impl ProgressDisplay {
    pub fn rows(name: &str) -> Self {
        Self::with(ProgressDrawTarget::stderr(), name, None, ROWS)
    }

    /// Creates a display of bytes: a bar if the size is known, else a spinner with a count.
    pub fn new(name: &str, bytes: Option<u64>) -> Self {
        // Draws nothing, and keeps no lines, if standard error is not a terminal.
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

    pub fn show(&self, progress: Progress) {
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("{} entries", progress.done));
            self.bar.set_position(progress.bytes);
        }
    }

    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    pub fn set_total_rows(&self, rows: u64) {
        self.bar.set_length(rows);
    }

    pub fn show_rows(&self, rows: u64, message: &str) {
        if self.is_shown() {
            self.bar.set_message(message.to_owned());
            self.bar.set_position(rows);
        }
    }

    pub fn show_count(&self, count: u64, of: &str) {
        if self.is_shown() {
            self.bar.set_message(format!("{} {of}", group_digits(count)));
            self.bar.tick();
        }
    }

    /// Prints a line above the bar, or to standard error if there is no bar.
    pub fn print_line(&self, line: &str) {
        // The reader may have closed the pipe (`2>&1 | head`): continue with the file.
        self.bar.suspend(|| drop(writeln!(std::io::stderr(), "{line}")));
    }

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
