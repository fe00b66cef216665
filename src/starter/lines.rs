//! Lines of a file nobody has looked at, in flat memory: bare ids, or tweets as JSON.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::{Ingested, Parse};
use crate::tweet::{BadId, TweetId};

/// The longest line, in bytes: far more than any tweet, so what is longer is something else.
pub const LONGEST_LINE: usize = 1 << 20;

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// What a file is that begins like this, where it is no text at all.
fn no_text(head: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 4] = [
        (b"\xff\xfe", "a UTF-16 file; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"),
        (b"\xfe\xff", "a UTF-16 file; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"),
        (b"\x1f\x8b", "a gzip file; decompress it first"),
        (b"PK\x03\x04", "a zip or Excel file; export the id column as text"),
    ];
    KINDS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| *what)
}

/// A line that is not blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number in the file, from 1, blank lines counted.
    pub number: u64,
    /// Its text without surrounding white space, or why it has none.
    pub text: Result<&'a str, &'static str>,
}

/// Reads lines of at most [`LONGEST_LINE`]; longer ones are passed over, never held.
#[derive(Debug)]
pub struct Lines<R> {
    source: R,
    line: Vec<u8>,
    /// The line has outgrown [`LONGEST_LINE`]; its bytes are gone.
    too_long: bool,
    /// `line` is whole: the next call starts another.
    whole: bool,
    /// What the file is instead of text: nothing more is read.
    no_text: Option<&'static str>,
    number: u64,
    bytes: u64,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// The lines of that source.
    pub fn new(source: R) -> Self {
        Self { source, line: Vec::new(), too_long: false, whole: true, no_text: None, number: 0, bytes: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the line read last, from 1; 0 before the first.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line that is not blank. Can be dropped at any await and called again: what was read
    /// is kept.
    ///
    /// # Errors
    /// What the source says.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if self.no_text.is_some() || !self.fill().await? {
                return Ok(None);
            }
            if self.number == 1 && !self.too_long {
                self.no_text = no_text(&self.line);
                if self.line.starts_with(UTF8_BOM) {
                    self.line.drain(..UTF8_BOM.len());
                }
            }
            let blank = self.line.iter().all(u8::is_ascii_whitespace) && !self.too_long;
            if !blank {
                break;
            }
        }
        Ok(Some(Line { number: self.number, text: self.text() }))
    }

    /// Reads one line, blank or not, into `line`; false at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        if self.whole {
            self.line.clear();
            self.too_long = false;
            self.whole = false;
        }
        let mut ended = false;
        while !ended {
            let chunk = self.source.fill_buf().await?; // the only await: all state is in self
            if chunk.is_empty() {
                ended = true;
                if self.line.is_empty() && !self.too_long {
                    return Ok(false);
                }
                continue;
            }
            let (part, used) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(at) => (&chunk[..at], at + 1),
                None => (chunk, chunk.len()),
            };
            ended = used > part.len();
            if self.too_long || self.line.len() + part.len() > LONGEST_LINE {
                if self.number == 0 && !self.too_long {
                    self.line.extend_from_slice(&part[..part.len().min(4)]);
                    self.no_text = no_text(&self.line);
                }
                self.too_long = true;
                self.line.clear();
            } else {
                self.line.extend_from_slice(part);
            }
            self.source.consume(used);
            self.bytes += used as u64;
        }
        self.number += 1;
        self.whole = true;
        Ok(true)
    }

    fn text(&self) -> Result<&str, &'static str> {
        if let Some(what) = self.no_text {
            Err(what)
        } else if self.too_long {
            Err("line longer than 1 MiB")
        } else if self.line.contains(&0) {
            Err("the line has a NUL byte: this is no text file")
        } else {
            std::str::from_utf8(&self.line).map(str::trim).map_err(|_| "the line is not UTF-8 text")
        }
    }
}

/// Reads the tweet on a line: a bare or quoted id, or a JSON object.
///
/// # Errors
/// One clause that says what the line is instead. Whether a bare id is one is not looked at here.
pub fn read_tweet(text: &str, parse: Parse) -> Result<Ingested, String> {
    if text.starts_with('{') {
        return parse(text).map(Ingested::from);
    }
    if text.starts_with('[') {
        return Err("a JSON array; write one tweet per line (NDJSON), e.g. with jq -c '.[]'".to_owned());
    }
    let quoted = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    Ok(Ingested::bare(quoted.unwrap_or(text).trim()))
}

/// What a refused bare id's line looks like, with what to do about it.
pub(crate) fn hint(text: &str) -> Option<&'static str> {
    if text.starts_with(['{', '[']) || TweetId::parse(text) == Err(BadId::Scientific) {
        return None; // the comma of "1,46E+18" separates no columns
    }
    const HINTS: [(char, &str); 4] = [
        (',', "the line has a comma; only the id column is wanted"),
        (';', "the line has a semicolon; only the id column is wanted"),
        ('\t', "the line has a tab; only the id column is wanted"),
        ('\r', "the file's lines end in CR alone; convert them to LF"),
    ];
    HINTS.iter().find(|(odd, _)| text.contains(*odd)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], chunk: usize) -> Vec<(u64, Result<String, &'static str>)> {
        let mut lines = Lines::new(tokio::io::BufReader::with_capacity(chunk, bytes));
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
        let kinds: [(&[u8], &str); 4] = [
            (b"\xff\xfe1\0\n\x002\0", "UTF-16"),
            (b"\xfe\xff\x001\0\n", "UTF-16"),
            (b"\x1f\x8b\n\n", "gzip"),
            (b"PK\x03\x04\n1\n", "Excel"),
        ];
        for (bytes, says) in kinds {
            for chunk in 1..=bytes.len() {
                let read = all(bytes, chunk).await;
                assert_eq!(read.len(), 1);
                assert!(read[0].1.as_ref().unwrap_err().contains(says), "{read:?}");
            }
        }
        let long = [b"\x1f\x8b".to_vec(), vec![b'x'; 2 * LONGEST_LINE]].concat();
        for chunk in [1000, 4 * LONGEST_LINE] {
            let read = all(&long, chunk).await;
            assert!(read[0].1.as_ref().unwrap_err().contains("gzip"), "{read:?}");
        }
    }

    #[tokio::test]
    async fn the_longest_line_fits_and_one_byte_more_does_not() {
        for (length, fits) in [(LONGEST_LINE, true), (LONGEST_LINE + 1, false), (5 * LONGEST_LINE, false)] {
            let bytes = [vec![b'1'; length], b"\n2\n".to_vec()].concat();
            let mut lines = Lines::new(tokio::io::BufReader::with_capacity(1 << 16, &*bytes));
            assert_eq!(lines.next().await.unwrap().unwrap().text.is_ok(), fits);
            assert_eq!(lines.next().await.unwrap().unwrap(), Line { number: 2, text: Ok("2") });
            assert!(lines.line.capacity() <= 2 * LONGEST_LINE, "{}", lines.line.capacity());
            assert_eq!(lines.bytes(), bytes.len() as u64);
        }
    }

    #[test]
    fn ids_come_bare_or_quoted() {
        for text in ["123", "\"123\"", "'123'", "\" 123 \""] {
            assert_eq!(read_tweet(text, |_| unreachable!()).unwrap(), Ingested::bare("123"));
        }
        for text in ["\"", "'12", "\"12'"] {
            assert_eq!(read_tweet(text, |_| unreachable!()).unwrap(), Ingested::bare(text));
        }
    }

    #[test]
    fn a_hint_says_what_the_line_looks_like() {
        assert!(hint("123,foo").unwrap().contains("comma"));
        assert!(hint("123\tfoo").unwrap().contains("tab"));
        assert!(hint("123\r456").unwrap().contains("CR"));
        assert_eq!(hint("1,46E+18"), None);
        assert_eq!(hint("12x"), None);
        assert_eq!(hint("{\"id\":1,"), None);
    }
}
