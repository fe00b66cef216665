//! Accounts of an unchecked file, one a line, in constant memory.

use std::io;

use tokio::io::AsyncBufRead;

use super::lines::{CR_ALONE, Lines};
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

/// Those of them that are no part of a person's name or words.
const ONLY_COLUMNS: [&str; 7] = ["account_id", "author_id", "id", "screen_name", "user_id", "userid", "username"];
/// Why a line names no account: it names the columns of the others.
pub const NAMES_COLUMNS: &str = "the line names the columns; write a handle of that name with an @";
/// What is said of it where it is passed over.
pub const SKIPPED: &str = "skipped, it names the columns";
const ELSEWHERE: &str =
    "the first line names the columns, and that of the accounts is not the first: keep that one alone (cut -d, -f2)";

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
    /// The account stands in another column than the first, says the first line.
    is_elsewhere: bool,
}

impl<R: AsyncBufRead + Unpin> NamedLines<R> {
    /// The accounts of that source; `read` is the network's reader
    /// ([`account_of`](crate::providers::registry::account_of)).
    pub fn new(source: R, read: AccountOf) -> Self {
        Self { lines: Lines::new(source), read, is_begun: false, is_elsewhere: false }
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
            self.is_elsewhere |= is_first && line.text.is_ok_and(names_another_column);
            let named = match line.text {
                Err(why) => Err(why.to_owned()),
                Ok(text) if text.contains('\r') => Err(CR_ALONE.to_owned()),
                Ok(_) if self.is_elsewhere => Err(ELSEWHERE.to_owned()),
                Ok(text) if is_first && names_columns(text) => Err(NAMES_COLUMNS.to_owned()),
                Ok(text) => (self.read)(text),
            };
            return Ok(Some(NamedLine { line: line.number, named }));
        }
    }
}

fn names_columns(line: &str) -> bool {
    word(line).is_ok_and(|word| COLUMNS.contains(&&*word.to_ascii_lowercase()))
}

fn names_another_column(line: &str) -> bool {
    let mut columns =
        line.split([',', ';', '\t']).map(|column| column.trim().trim_matches(['"', '\'']).to_ascii_lowercase());
    let first = columns.next().unwrap_or_default();
    let is_better = |column: &str| match &*first {
        // A name is what a person goes by beside a handle, as long as there is one.
        "name" => COLUMNS.contains(&column),
        // So may these be, beside a column that says which of an id and a handle it has.
        "account" | "user" => COLUMNS.contains(&column) && !["account", "name", "url", "user"].contains(&column),
        first => !COLUMNS.contains(&first) && ONLY_COLUMNS.contains(&column),
    };
    columns.any(|column| is_better(&column))
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

    #[tokio::test]
    async fn a_file_of_other_columns_or_lines_is_refused_whole() {
        for (file, why) in [
            ("no,id\n1,2244994945\n2,783214\n", "keep that one alone"),
            ("\"nr\"\t\"screen_name\"\n1\tann\n", "keep that one alone"),
            ("name,screen_name\nPrince,princefans\n", "keep that one alone"),
            ("Name;handle\nCher;cher_fans\n", "keep that one alone"),
            ("name,id\nPrince,12345\n", "keep that one alone"),
            ("account,screen_name\nPrince,princefans\n", "keep that one alone"),
            ("User,handle\nCher,cher_fans\n", "keep that one alone"),
            ("12,ann\r13,bob\r14,cat\r", "CR alone"),
            ("ann\rbob\r", "CR alone"),
            ("1,460,323\n", "in groups"),
        ] {
            let mut lines = NamedLines::new(file.as_bytes(), account_of(&Provider::X));
            while let Some(line) = lines.next().await.unwrap() {
                let told = line.named.unwrap_err();
                assert!(told.contains(why), "{file:?}: {told}");
            }
        }
        for file in ["name,since\nann,2020\n", "user,name\nann,Ann\n", "user_id,screen_name\nann,x\n"] {
            let mut lines = NamedLines::new(file.as_bytes(), account_of(&Provider::X));
            let told = lines.next().await.unwrap().unwrap().named.unwrap_err();
            assert_eq!(told, NAMES_COLUMNS, "{file:?}");
            assert_eq!(lines.next().await.unwrap().unwrap().named, Ok(Named::Handle("ann".to_owned())));
        }
        let mut lines = NamedLines::new(&b"ann,user\r\n12,345\r\n"[..], account_of(&Provider::X));
        assert_eq!(lines.next().await.unwrap().unwrap().named, Ok(Named::Handle("ann".to_owned())));
        assert_eq!(lines.next().await.unwrap().unwrap().named, Ok(Named::Id("12".to_owned())));
    }
}
