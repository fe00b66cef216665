//! Lines of an unchecked file, in constant memory: bare ids, or posts as JSON. JSON that spans several lines is
//! returned post by post.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::json_splitter::{LONGEST_LINE, PostSplitter, Step};

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
/// Start of a file of Twitter's account archive: JavaScript that assigns a list to a name.
const ARCHIVE: &[u8] = b"window.YTD.";
pub const CR_ALONE: &str = "the file's lines end in CR alone; convert them to LF (tr '\\r' '\\n')";

/// Returns the format of a binary file that starts with `head`, and the remedy; `None` if it may be text.
#[must_use]
pub fn detect_binary(head: &[u8]) -> Option<&'static str> {
    const PICKLE: &str = "a Python pickle; write its ids as text, one per line";
    const KINDS: [(&[u8], &str); 14] = [
        // Before UTF-16, which starts with the same bytes.
        (b"\xff\xfe\0\0", "a UTF-32 file; save it as UTF-8 (iconv -f UTF-32 -t UTF-8)"),
        (b"\0\0\xfe\xff", "a UTF-32 file; save it as UTF-8 (iconv -f UTF-32 -t UTF-8)"),
        (b"\xff\xfe", "a UTF-16 file; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"),
        (b"\xfe\xff", "a UTF-16 file; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"),
        (b"\x1f\x8b", "a gzip file; decompress it first"),
        (b"PK\x03\x04", "a zip or Excel file; export the id column as text"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z file; unpack it first (7z x)"),
        (b"SQLite format 3\0", "a SQLite file; export its column of ids as text"),
        (b"\xfd7zX", "an xz file; decompress it first (unxz)"),
        (b"\x28\xb5\x2f\xfd", "a zstd file; decompress it first (unzstd)"),
        (b"\x80\x02", PICKLE),
        (b"\x80\x03", PICKLE),
        (b"\x80\x04", PICKLE),
        (b"\x80\x05", PICKLE),
    ];
    let known = KINDS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| *what);
    known.or_else(|| binary_format(head)).or_else(|| unmarked_utf16(head))
}

/// Detects formats whose first bytes could be a handle, too.
fn binary_format(head: &[u8]) -> Option<&'static str> {
    let is_at = |at: usize, mark: &[u8]| head.get(at..at + mark.len()) == Some(mark);
    let is_binary =
        |at: usize| head.get(at).is_some_and(|byte| !byte.is_ascii_graphic() && !byte.is_ascii_whitespace());
    if is_at(0, b"BZh") && is_at(4, b"1AY&SY") {
        Some("a bzip2 file; decompress it first (bunzip2)")
    } else if is_at(0, b"PAR1") && is_binary(4) {
        Some("a parquet file; write its id column as text")
    } else if is_at(257, b"ustar") {
        Some("a tar file; unpack it first (tar -x)")
    } else {
        None
    }
}

/// Detects ASCII in UTF-16 without a byte order mark: every other byte is NUL. It needs two characters to be sure.
fn unmarked_utf16(head: &[u8]) -> Option<&'static str> {
    let is_ascii = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let all = |nul: usize| {
        let mut pairs = head.chunks_exact(2).take(4);
        head.len() >= 4 && pairs.all(|pair| pair[nul] == 0 && is_ascii(pair[1 - nul]))
    };
    match (all(1), all(0)) {
        (true, _) => Some("a UTF-16 file without its mark; save it as UTF-8 (iconv -f UTF-16LE -t UTF-8)"),
        (_, true) => Some("a UTF-16 file without its mark; save it as UTF-8 (iconv -f UTF-16BE -t UTF-8)"),
        _ => None,
    }
}

fn starts_json(line: &[u8]) -> bool {
    let line = line.strip_prefix(UTF8_BOM).unwrap_or(line);
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Line number from 1, blank lines counted; for a post, its first line.
    pub number: u64,
    /// Text without surrounding white space, or the reason why there is none.
    pub text: Result<&'a str, &'static str>,
    /// The whole line, even if it is not text; empty if it is too long, or for a post of such JSON.
    pub bytes: &'a [u8],
    pub lacks_line_end: bool,
}

/// Reads lines, and posts of JSON over several lines. Skips items longer than [`LONGEST_LINE`] without holding them.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    source: R,
    /// The line; of a longer line of JSON, a part.
    line: Vec<u8>,
    /// Reason, if the line is longer than [`LONGEST_LINE`]; its bytes are dropped.
    too_long: Option<&'static str>,
    /// True if `line` is complete: the next call starts another.
    whole: bool,
    lacks_line_end: bool,
    /// True if the lines are rows of a table: none begins JSON.
    is_table: bool,
    no_text: Option<&'static str>,
    number: u64,
    bytes: u64,
    cut: PostSplitter,
    at: usize,
    /// True if `line` ended the JSON before it and was not returned.
    has_unread_line: bool,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    pub fn new(source: R) -> Self {
        Self {
            source,
            line: Vec::new(),
            too_long: None,
            whole: true,
            lacks_line_end: false,
            is_table: false,
            no_text: None,
            number: 0,
            bytes: 0,
            cut: PostSplitter::default(),
            at: 0,
            has_unread_line: false,
        }
    }

    pub fn read_rows(&mut self) {
        self.is_table = true;
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of the last line returned completely, from 1; 0 before the first.
    #[must_use]
    pub fn number(&self) -> u64 {
        let is_cut = self.at == self.line.len() || !self.cut.is_open();
        let number = if is_cut { self.number } else { self.current_line().saturating_sub(1) };
        self.cut.unfinished().map_or(number, |start_line| number.min(start_line.saturating_sub(1)))
    }

    /// Returns the next line that is not blank, or the next post of JSON over several lines. Cancel-safe: bytes already
    /// read are kept.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if self.cut.is_open() {
                match self.next_post().await? {
                    Step::Refused(why) => {
                        return Ok(Some(Line {
                            number: self.cut.line(),
                            text: Err(why),
                            bytes: &[],
                            lacks_line_end: false,
                        }));
                    }
                    Step::Post => {
                        let (number, text) = (self.cut.line(), self.cut.text());
                        return Ok(Some(Line { number, text, bytes: &[], lacks_line_end: false }));
                    }
                    Step::Over | Step::More => {}
                }
            }
            let is_read = std::mem::take(&mut self.has_unread_line) && self.whole;
            if !is_read && (self.no_text.is_some() || !self.fill_line().await?) {
                return Ok(None);
            }
            if self.current_line() == 1 && self.too_long.is_none() {
                self.no_text = detect_binary(&self.line);
                if self.line.starts_with(UTF8_BOM) {
                    self.line.drain(..UTF8_BOM.len());
                }
                if self.line.starts_with(ARCHIVE)
                    && let Some(at) = self.line.iter().position(|byte| *byte == b'=')
                {
                    self.line.drain(..=at);
                }
            }
            if self.no_text.is_none() && self.opens_json() {
                self.cut.open();
                self.at = self.line.iter().position(|byte| matches!(byte, b'{' | b'[')).unwrap_or_default();
                self.end_line();
                continue;
            }
            let blank = self.line.iter().all(u8::is_ascii_whitespace) && self.too_long.is_none();
            if !blank {
                break;
            }
        }
        let lacks_line_end = self.lacks_line_end;
        Ok(Some(Line { number: self.number, text: self.text(), bytes: &self.line, lacks_line_end }))
    }

    /// Returns true if the line starts JSON that continues on the next line. An object that ends with its line is an
    /// ordinary line and is not parsed.
    fn opens_json(&self) -> bool {
        let text = self.line.trim_ascii();
        !self.is_table && starts_json(text) && !(self.whole && text.starts_with(b"{") && text.ends_with(b"}"))
    }

    /// Returns the next post of the open JSON; [`Step::Over`] after the last.
    async fn next_post(&mut self) -> io::Result<Step> {
        while !self.cut.is_over() {
            if self.at == self.line.len() {
                self.at = 0;
                if !self.whole {
                    self.line.clear();
                }
                if self.fill_line().await? {
                    self.end_line();
                } else {
                    match self.cut.end() {
                        Step::More => continue,
                        step => return Ok(step),
                    }
                }
            }
            let current_line = self.current_line();
            let (used, step) = self.cut.feed(&self.line[self.at..], current_line);
            self.at += used;
            if step != Step::More {
                return Ok(step);
            }
        }
        self.cut.close();
        self.has_unread_line = self.at < self.line.len();
        Ok(Step::Over)
    }

    fn current_line(&self) -> u64 {
        self.number + u64::from(!self.whole)
    }

    fn end_line(&mut self) {
        if self.whole && self.line.last() != Some(&b'\n') {
            self.line.push(b'\n');
        }
    }

    /// Reads one line, blank or not, or the next part of a long line of JSON, into `line`. Returns false at the end.
    async fn fill_line(&mut self) -> io::Result<bool> {
        if self.whole {
            self.line.clear();
            self.too_long = None;
            self.whole = false;
        }
        let mut ended = false;
        while !ended {
            let chunk = self.source.fill_buf().await?; // the only await: all state is in self
            if chunk.is_empty() {
                ended = true;
                if self.line.is_empty() && self.too_long.is_none() {
                    return Ok(false);
                }
                self.lacks_line_end = true;
                continue;
            }
            let (part, used) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(at) => (&chunk[..at], at + 1),
                None => (chunk, chunk.len()),
            };
            let fits = self.too_long.is_none() && self.line.len() + part.len() <= LONGEST_LINE;
            let head = if self.line.is_empty() { part } else { &self.line };
            let is_part =
                !fits && self.too_long.is_none() && (self.cut.is_open() || !self.is_table && starts_json(head));
            let why = if !fits && head.contains(&b'\r') { CR_ALONE } else { "line longer than 1 MiB" };
            let room = part.len().min(LONGEST_LINE - self.line.len());
            let (part, used) = if is_part { (&part[..room], room) } else { (part, used) };
            ended = used > part.len();
            if fits || is_part {
                self.line.extend_from_slice(part);
            } else {
                if self.number == 0 && self.too_long.is_none() {
                    self.line.extend_from_slice(&part[..part.len().min(4)]);
                    self.no_text = detect_binary(&self.line);
                }
                self.too_long.get_or_insert(why);
                self.line.clear();
            }
            self.source.consume(used);
            self.bytes += used as u64;
            if is_part {
                return Ok(true);
            }
        }
        self.number += 1;
        self.whole = true;
        Ok(true)
    }

    fn text(&self) -> Result<&str, &'static str> {
        if let Some(what) = self.no_text {
            Err(what)
        } else if let Some(why) = self.too_long {
            Err(why)
        } else if self.line.contains(&0) {
            Err("the line has a NUL byte: this is no text file")
        } else {
            std::str::from_utf8(&self.line).map(str::trim).map_err(|_| "the line is not UTF-8 text")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], chunk: usize) -> Vec<(u64, Result<String, &'static str>)> {
        let mut lines = LineReader::new(tokio::io::BufReader::with_capacity(chunk, bytes));
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push((line.number, line.text.map(str::to_owned)));
        }
        read
    }

    #[tokio::test]
    async fn the_size_of_the_chunks_does_not_show() {
        let bytes = b"\xef\xbb\xbf1\r\n\n  \n 2 \n\xff\n3\0\nlast";
        for chunk in 1..=bytes.len() {
            assert_eq!(
                all(bytes, chunk).await,
                [
                    (1, Ok("1".to_owned())),
                    (4, Ok("2".to_owned())),
                    (5, Err("the line is not UTF-8 text")),
                    (6, Err("the line has a NUL byte: this is no text file")),
                    (7, Ok("last".to_owned())),
                ],
                "{chunk}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_no_text_is_said_once() {
        let tar = [&b"posts.txt"[..], &[0; 248], b"ustar"].concat();
        let kinds: [(&[u8], &str); 14] = [
            (b"\xff\xfe\0\x001\0\0\0\n\0\0\x002\0\0\0", "UTF-32"),
            (b"\0\0\xfe\xff\0\0\x001\0\0\0\n", "UTF-32"),
            (b"\xff\xfe1\0\n\x002\0", "UTF-16"),
            (b"\xfe\xff\x001\0\n", "UTF-16"),
            (b"\x1f\x8b\n\n", "gzip"),
            (b"PK\x03\x04\n1\n", "Excel"),
            (b"BZh91AY&SY\x9a\n\n", "bzip2"),
            (b"\xfd7zXZ\0\n", "xz"),
            (b"\x28\xb5\x2f\xfd\n1\n", "zstd"),
            (b"7z\xbc\xaf\x27\x1c\n", "7z"),
            (b"SQLite format 3\0\n", "SQLite"),
            (b"PAR1\x15\x04\n", "parquet"),
            (b"\x80\x04\x95\n", "pickle"),
            (&tar, "tar"),
        ];
        for (bytes, says) in kinds {
            for chunk in 1..=bytes.len() {
                let read = all(bytes, chunk).await;
                assert_eq!(read.len(), 1);
                assert!(read[0].1.as_ref().unwrap_err().contains(says), "{read:?}");
            }
        }
        for handles in [&b"BZhang\n"[..], b"PAR1\n", b"PAR1\r\n", b"BZh91AY\n"] {
            assert!(all(handles, 64).await[0].1.is_ok(), "{handles:?}");
        }
        let long = [b"\x1f\x8b".to_vec(), vec![b'x'; 2 * LONGEST_LINE]].concat();
        for chunk in [1000, 4 * LONGEST_LINE] {
            let read = all(&long, chunk).await;
            assert!(read[0].1.as_ref().unwrap_err().contains("gzip"), "{read:?}");
        }
    }

    #[tokio::test]
    async fn lines_that_end_in_cr_alone_are_no_long_line() {
        let bytes = [b"1234567890123456789\r".repeat(LONGEST_LINE / 10), b"\n2\n".to_vec()].concat();
        for chunk in [7, 1 << 16, 4 * LONGEST_LINE] {
            assert_eq!(all(&bytes, chunk).await, [(1, Err(CR_ALONE)), (2, Ok("2".to_owned()))], "{chunk}");
        }
    }

    #[tokio::test]
    async fn the_longest_line_fits_and_one_byte_more_does_not() {
        for (length, fits) in [(LONGEST_LINE, true), (LONGEST_LINE + 1, false), (5 * LONGEST_LINE, false)] {
            let bytes = [vec![b'1'; length], b"\n2\n".to_vec()].concat();
            let mut lines = LineReader::new(tokio::io::BufReader::with_capacity(1 << 16, &*bytes));
            assert_eq!(lines.next().await.unwrap().unwrap().text.is_ok(), fits);
            let last = lines.next().await.unwrap().unwrap();
            assert_eq!((last.number, last.text, last.lacks_line_end), (2, Ok("2"), false));
            assert!(lines.line.capacity() <= 2 * LONGEST_LINE, "{}", lines.line.capacity());
            assert_eq!(lines.bytes(), bytes.len() as u64);
        }
    }
}
