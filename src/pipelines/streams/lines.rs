//! A connection's bytes, cut into lines. Pure.

use crate::ingest::LONGEST_LINE;

/// Cuts lines, and holds the one that is not whole yet.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// The line has outgrown [`LONGEST_LINE`]; its bytes are gone.
    too_long: bool,
}

/// A line that is not blank: blank ones keep the connection alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// Its text, without the white space around it. A bad byte in it has become U+FFFD.
    Line(String),
    /// A line longer than [`LONGEST_LINE`].
    TooLong,
}

impl Lines {
    /// Takes the bytes that came; answers the lines that are whole now. Lines end with `\r\n`, as documented, and with
    /// `\n` alone, as emulators write them: inside of JSON neither stands.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Cut> {
        let mut cut = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n');
        // What follows the last line's end is the next line's beginning.
        let rest = parts.next_back().unwrap_or_default();
        for part in parts {
            self.hold(part);
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.too_long) {
                cut.push(Cut::TooLong);
                continue;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if !text.is_empty() {
                cut.push(Cut::Line(text.to_owned()));
            }
        }
        self.hold(rest);
        cut
    }

    fn hold(&mut self, part: &[u8]) {
        if self.too_long || self.line.len() + part.len() > LONGEST_LINE {
            self.too_long = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }
}
