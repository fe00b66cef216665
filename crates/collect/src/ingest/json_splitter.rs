//! Cuts JSON that is not one object per line into posts. The input is an object over many lines, an array, or an object
//! with a list `data`. No I/O; holds one post at a time.
//!
//! This module finds posts; the reader of posts validates them. After a truncated object, reading restarts at the next
//! line whose first column cannot continue that object. So only the truncated object is lost.

use networks::model::bound::LONGEST_OBJECT;

pub const LONGEST_LINE: usize = LONGEST_OBJECT;

/// Bytes kept of an oversized object: its end must still show `"data"`, a colon and white space.
const TAIL: usize = 64;
/// Maximum tracked depth; the reader of posts rejects deeper JSON. Containers beyond it count as objects.
const DEPTH: u32 = u128::BITS;

const NOT_CLOSED: &str = "not JSON: the object or list that begins here is cut off; export it again";
pub(super) const TOO_LONG: &str = "the object is longer than 1 MiB, and no post is; write one object per post";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    More,
    Post,
    /// Invalid input, at [`PostSplitter::line`].
    Refused(&'static str),
    Over,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Target {
    #[default]
    Whole,
    Elements(u32),
    /// Nothing more: the wanted list is over.
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct PostSplitter {
    is_open: bool,
    is_over: bool,
    target: Target,
    depth: u32,
    /// One bit per depth; set if the container is an array.
    arrays: u128,
    in_string: bool,
    escaped: bool,
    /// The last byte that is not white space; for a string, its quote.
    last: u8,
    at_line_start: bool,
    opened: u64,
    start_line: u64,
    text: Vec<u8>,
    too_long: bool,
    is_given: bool,
}

impl PostSplitter {
    pub fn open(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        *self = Self { is_open: true, text, ..Self::default() };
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn close(&mut self) {
        self.is_open = false;
    }

    pub fn line(&self) -> u64 {
        self.start_line
    }

    pub fn text(&self) -> Result<&str, &'static str> {
        std::str::from_utf8(&self.text).map(str::trim).map_err(|_| "the object is not UTF-8 text")
    }

    /// Line in which an unfinished object starts; `None` between objects.
    pub fn unfinished(&self) -> Option<u64> {
        (self.is_open && !self.is_given && !self.text.is_empty()).then_some(self.start_line)
    }

    /// Takes bytes of line `line`, its line end included. Returns the number of bytes used.
    pub fn feed(&mut self, bytes: &[u8], line: u64) -> (usize, Step) {
        self.start_text();
        for (at, byte) in bytes.iter().enumerate() {
            if self.is_over {
                return (at, Step::Over);
            }
            if !self.in_string && std::mem::take(&mut self.at_line_start) && self.cannot_continue_with(*byte) {
                return (at, self.end_broken_part());
            }
            // Several objects on one line.
            if matches!(byte, b'{' | b'[') && !self.in_string && self.depth == 0 && !self.text.is_empty() {
                return (at, self.emit_post());
            }
            let step = self.take_byte(*byte, line);
            if step != Step::More {
                return (at + 1, step);
            }
        }
        (bytes.len(), Step::More)
    }

    /// Handles the end of the input; call it until it returns `Step::Over`.
    pub fn end(&mut self) -> Step {
        self.start_text();
        match self.target {
            _ if self.is_over => Step::Over,
            _ if self.depth == 0 => self.finish(),
            _ => self.end_broken_json(),
        }
    }

    fn start_text(&mut self) {
        if std::mem::take(&mut self.is_given) {
            self.text.clear();
            self.too_long = false;
        }
    }

    fn take_byte(&mut self, byte: u8, line: u64) -> Step {
        if byte == b'\n' {
            self.at_line_start = true;
        }
        if self.in_string {
            return self.take_string_byte(byte, line);
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                if self.depth == 0 {
                    self.opened = line;
                }
                let is_list = byte == b'[' && (self.depth == 0 || self.is_data());
                self.enter_container(byte == b'[');
                if is_list {
                    self.target = Target::Elements(self.depth);
                    self.text.clear();
                    self.too_long = false;
                    self.last = byte;
                    return Step::More;
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                match self.target {
                    Target::Elements(list) if self.depth < list => {
                        self.target = if self.depth == 0 { Target::Whole } else { Target::Nothing };
                        self.last = byte;
                        return self.emit_post();
                    }
                    Target::Nothing if self.depth == 0 => {
                        self.target = Target::Whole;
                        self.last = byte;
                        return Step::More;
                    }
                    _ => {}
                }
            }
            b',' if self.target == Target::Elements(self.depth) => {
                self.last = byte;
                return self.emit_post();
            }
            b'\n' if self.depth == 0 => return self.finish(),
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        self.keep_byte(byte, line);
        Step::More
    }

    /// Ends a string at its line end, because JSON has no line ends in strings.
    fn take_string_byte(&mut self, byte: u8, line: u64) -> Step {
        match byte {
            _ if std::mem::take(&mut self.escaped) => {}
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        if byte == b'\n' {
            (self.in_string, self.escaped) = (false, false);
            // A truncated line, not an object over many lines.
            if line == self.opened {
                return self.refuse_open_json();
            }
        }
        self.keep_byte(byte, line);
        Step::More
    }

    fn keep_byte(&mut self, byte: u8, line: u64) {
        if self.target == Target::Nothing || (self.text.is_empty() && byte.is_ascii_whitespace()) {
            return;
        }
        if self.text.is_empty() {
            self.start_line = line;
        }
        self.text.push(byte);
        if self.text.len() > LONGEST_LINE {
            self.too_long = true;
            self.text.drain(..self.text.len() - TAIL);
        }
    }

    fn enter_container(&mut self, is_array: bool) {
        if self.depth < DEPTH {
            self.arrays = (self.arrays & !(1 << self.depth)) | (u128::from(is_array) << self.depth);
        }
        self.depth = self.depth.saturating_add(1);
    }

    fn in_array(&self) -> bool {
        (1..=DEPTH).contains(&self.depth) && (self.arrays >> (self.depth - 1)) & 1 == 1
    }

    fn is_data(&self) -> bool {
        let is_value = self.depth == 1 && self.target == Target::Whole && self.last == b':';
        let before = || self.text.trim_ascii_end().strip_suffix(b":").unwrap_or_default().trim_ascii_end();
        is_value && before().ends_with(b"\"data\"")
    }

    /// Returns true if no line of the open JSON can have this byte in its first column.
    fn cannot_continue_with(&self, byte: u8) -> bool {
        let after_value = !matches!(self.last, b'{' | b'[' | b',' | b':');
        match byte {
            b'}' | b']' | b',' | b':' => false,
            _ if byte.is_ascii_whitespace() => false,
            b'"' => after_value,
            // Writers do not put an unindented value on the line after its key; truncated lines do end in a key.
            b'[' if self.last == b':' => false,
            _ => self.last != b'[' && !(self.in_array() && self.last == b','),
        }
    }

    /// Ends the open JSON before the next line. Inside a list only the truncated element is rejected, and the list
    /// continues.
    fn end_broken_part(&mut self) -> Step {
        match self.target {
            Target::Elements(list) if self.depth > list => {
                self.depth = list;
                self.last = b',';
                self.refuse()
            }
            _ => {
                self.at_line_start = true;
                self.end_broken_json()
            }
        }
    }

    /// Ends the JSON. The last element of a list may be complete.
    fn end_broken_json(&mut self) -> Step {
        if self.target == Target::Elements(self.depth) && !self.text.is_empty() && !self.in_string {
            return self.emit_post();
        }
        self.refuse_open_json()
    }

    fn refuse_open_json(&mut self) -> Step {
        if self.text.is_empty() {
            self.start_line = self.opened;
        }
        self.is_over = true;
        self.refuse()
    }

    fn refuse(&mut self) -> Step {
        self.is_given = true;
        Step::Refused(if self.too_long { TOO_LONG } else { NOT_CLOSED })
    }

    fn finish(&mut self) -> Step {
        self.is_over = true;
        self.emit_post()
    }

    fn emit_post(&mut self) -> Step {
        match (self.text.is_empty(), self.too_long) {
            (true, _) => Step::More,
            (false, true) => self.refuse(),
            (false, false) => {
                self.is_given = true;
                Step::Post
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_one_post() {
        let mut cut = PostSplitter::default();
        cut.open();
        let filler = [b'x'; 1000];
        assert_eq!(cut.feed(b"{\"a\":\"", 1), (6, Step::More));
        for _ in 0..8 * LONGEST_LINE / filler.len() {
            assert_eq!(cut.feed(&filler, 1), (filler.len(), Step::More));
        }
        assert_eq!(cut.feed(b"\"}\n", 1), (3, Step::Refused(TOO_LONG)));
        assert!(cut.is_over() && cut.text.capacity() <= 4 * LONGEST_LINE, "{}", cut.text.capacity());
    }

    #[test]
    fn depth_takes_no_room() {
        let mut cut = PostSplitter::default();
        cut.open();
        for _ in 0..1_000 {
            assert_eq!(cut.feed(&[b'['; 1_000], 1).1, Step::More);
            assert_eq!(cut.feed(&[b'{'; 1_000], 1).1, Step::More);
        }
        assert_eq!(cut.end(), Step::Refused(TOO_LONG));
        assert_eq!((cut.line(), cut.end()), (1, Step::Over));
    }
}
