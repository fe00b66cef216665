//! Cuts a connection's bytes into lines. Pure.

use crate::ingest::LONGEST_LINE;

#[derive(Debug, Default)]
pub struct LineSplitter {
    line: Vec<u8>,
    /// The line is longer than [`LONGEST_LINE`]; its bytes are dropped.
    too_long: bool,
}

/// A line that is not blank: blank lines keep the connection alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutLine {
    /// Text without the white space around it. Invalid bytes become U+FFFD.
    Line(String),
    TooLong,
}

impl LineSplitter {
    /// Adds received bytes; returns the complete lines. They end with `\r\n`, as documented, or `\n`, as of emulators: JSON has neither.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<CutLine> {
        let mut cut = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n');
        // The bytes after the last line end start the next line.
        let rest = parts.next_back().unwrap_or_default();
        for part in parts {
            self.append(part);
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.too_long) {
                cut.push(CutLine::TooLong);
                continue;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if !text.is_empty() {
                cut.push(CutLine::Line(text.to_owned()));
            }
        }
        self.append(rest);
        cut
    }

    fn append(&mut self, part: &[u8]) {
        if self.too_long || self.line.len() + part.len() > LONGEST_LINE {
            self.too_long = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }
}
