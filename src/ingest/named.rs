//! Accounts of an unchecked file, one a line, in constant memory.

use std::io;

use tokio::io::AsyncBufRead;

use super::lines::Lines;
use crate::providers::named::{AccountOf, Named, is_comment, word};

/// Names of columns that stand alone or first in files of accounts. Each could be a handle, too.
const COLUMNS: [&str; 14] = [
    "account",
    "account_id",
    "acct",
    "author_id",
    "did",
    "handle",
    "id",
    "name",
    "screen_name",
    "url",
    "user",
    "user_id",
    "username",
    "userid",
];

/// One account, or why the line names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedLine {
    /// The line, from 1.
    pub line: u64,
    /// The account; an error is one clause.
    pub named: Result<Named, String>,
}

/// Reads accounts: ids, handles and addresses, alone on a line or in the first column. Blank lines and comments (`#`) are
/// passed over.
#[derive(Debug)]
pub struct NamedLines<R> {
    lines: Lines<R>,
    read: AccountOf,
    /// A line was read.
    is_begun: bool,
}

impl<R: AsyncBufRead + Unpin> NamedLines<R> {
    /// The accounts of that source; `read` is the network's reader
    /// ([`account_of`](crate::providers::registry::account_of)).
    pub fn new(source: R, read: AccountOf) -> Self {
        Self { lines: Lines::new(source), read, is_begun: false }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// The next account. Can be dropped at any await and called again.
    ///
    /// # Errors
    /// The error of the source.
    pub async fn next(&mut self) -> io::Result<Option<NamedLine>> {
        loop {
            let Some(line) = self.lines.next().await? else { return Ok(None) };
            if line.text.is_ok_and(is_comment) {
                continue;
            }
            let is_first = !std::mem::replace(&mut self.is_begun, true);
            let named = match line.text {
                Err(why) => Err(why.to_owned()),
                Ok(text) if is_first && names_columns(text) => {
                    Err("the line names the columns; write a handle of that name with an @".to_owned())
                }
                Ok(text) => (self.read)(text),
            };
            return Ok(Some(NamedLine { line: line.number, named }));
        }
    }
}

fn names_columns(line: &str) -> bool {
    word(line).is_ok_and(|word| COLUMNS.contains(&&*word.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::Provider;
    use crate::providers::registry::account_of;

    #[tokio::test]
    async fn comments_are_passed_over_and_columns_are_no_account() {
        let file = b"\xef\xbb\xbf# friends\n\nusername,since\n12\n @ann ,2020\nusername\n\xff\n{\"a\":1}\n";
        for chunk in [1, 7, 4_096] {
            let source = tokio::io::BufReader::with_capacity(chunk, &file[..]);
            let mut lines = NamedLines::new(source, account_of(&Provider::X));
            let mut read = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                read.push((line.line, line.named.map_err(|why| why.split([';', ' ']).nth(2).unwrap().to_owned())));
            }
            let handle = |text: &str| Ok(Named::Handle(text.to_owned()));
            let expected = [
                (3, Err("names".to_owned())),
                (4, Ok(Named::Id("12".to_owned()))),
                (5, handle("ann")),
                (6, handle("username")),
                (7, Err("is".to_owned())),
                (8, Err("is".to_owned())),
            ];
            assert_eq!(read, expected, "{chunk}");
            assert_eq!(lines.bytes(), file.len() as u64);
        }
    }
}
