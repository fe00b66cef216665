//! Accounts of an unchecked file, one per line, in constant memory.

use std::io;

use tokio::io::AsyncBufRead;

use super::invalid_entry::InvalidEntry;
use super::lines::{CR_ALONE, LineReader};
use super::table::{Row, SEPARATORS, Table, separator, unquoted};
use networks::providers::named::{AccountRef, ReadAccountRef, first_column, is_comment, strip_id_mark};

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

/// Names in `COLUMNS` whose cells are ids.
const IDS: [&str; 5] = ["account_id", "author_id", "id", "user_id", "userid"];
/// Names in `COLUMNS` whose cells may be free text of a person, too.
const WORDS: [&str; 4] = ["account", "name", "url", "user"];
/// Names of a column of line numbers; pandas leaves it unnamed.
const ROWS: [&str; 7] = ["", "index", "n", "no", "nr", "row", "unnamed: 0"];
/// Smallest number in a first column that counts as an id. Smaller ones are line numbers, and hardly any account.
const FIRST_ID: u32 = 1_000;
pub const HEADER_LINE: &str = "the line names the columns; write a handle of that name with an @";
pub const HEADER_SKIPPED: &str = "skipped: it names the columns";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountLine {
    pub line: u64,
    pub named: Result<AccountRef, InvalidEntry>,
}

/// Reads ids, handles and addresses, alone on a line or in the first column. Skips blank lines and comments (`#`). If
/// another column seems to have the accounts, that line and all after it are rejected. An index in the first column
/// would be read as ids of strangers.
#[derive(Debug)]
pub struct AccountReader<R> {
    lines: LineReader<R>,
    read: ReadAccountRef,
    is_started: bool,
    /// Number of separators in the first line, if it names the columns.
    separators: usize,
    table: Option<Table>,
    /// True if the first line names a column of ids; there a leading `x` is the mark of CSV.
    has_id_column: bool,
    /// Reason and remedy, if the accounts are in another column than the first.
    wrong_column: Option<InvalidEntry>,
}

impl<R: AsyncBufRead + Unpin> AccountReader<R> {
    /// `read` is the network's reader ([`read_account_ref`](networks::providers::registry::read_account_ref)).
    pub fn new(source: R, read: ReadAccountRef) -> Self {
        Self {
            lines: LineReader::new(source),
            read,
            is_started: false,
            separators: 0,
            table: None,
            has_id_column: false,
            wrong_column: None,
        }
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// Returns the next account. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<Option<AccountLine>> {
        loop {
            let Some(line) = self.lines.next().await? else { return Ok(self.take_unclosed_row()) };
            let number = line.number;
            let goes_on = self.table.as_ref().is_some_and(|table| table.unfinished().is_some());
            if !goes_on && line.text.is_ok_and(is_comment) {
                continue;
            }
            let is_first = !std::mem::replace(&mut self.is_started, true);
            if is_first {
                self.separators = line.text.ok().filter(|text| is_header(text)).map_or(0, count_separators);
                self.wrong_column = line.text.ok().and_then(wrong_column_reason);
            }
            if self.wrong_column.is_none() && !goes_on {
                // More columns than names: leading white space, a tab included, is gone from the line of names.
                let unnamed = line.text.ok().filter(|text| count_separators(text) > self.separators);
                self.wrong_column = unnamed.and_then(numbered_rows_reason);
            }
            let id_of = |id: &str| if self.has_id_column { strip_id_mark(id).to_owned() } else { id.to_owned() };
            let read = |id: &str| (self.read)(id).map_err(InvalidEntry::rejected);
            let named = match (line.text, &self.wrong_column, &mut self.table) {
                (Err(why), _, None) => Err(InvalidEntry::Unreadable(why)),
                (Err(why), _, Some(table)) if line.bytes.is_empty() => {
                    table.discard_row();
                    Err(InvalidEntry::Unreadable(why))
                }
                // Inside quotes a CR is part of a text.
                (Ok(text), ..) if !goes_on && text.contains('\r') && !text.contains('"') => {
                    Err(InvalidEntry::Unreadable(CR_ALONE))
                }
                (_, Some(why), _) => Err(why.clone()),
                (_, None, Some(table)) => {
                    let Some(row) = table.add(number, line.bytes) else { continue };
                    let named = row.id.and_then(|id| read(&id_of(&id)));
                    return Ok(Some(AccountLine { line: row.line, named }));
                }
                (Ok(text), None, None) if is_first && is_header(text) => {
                    self.has_id_column =
                        first_column(text).is_ok_and(|name| IDS.contains(&&*name.to_ascii_lowercase()));
                    self.table = separator(text).map(|separator| Table::of_first_column(line.bytes, separator));
                    Err(InvalidEntry::HeaderLine(HEADER_LINE))
                }
                (Ok(text), None, None) => read(&id_of(text)),
            };
            if is_first && self.table.is_some() {
                self.lines.read_rows();
            }
            return Ok(Some(AccountLine { line: number, named }));
        }
    }

    fn take_unclosed_row(&mut self) -> Option<AccountLine> {
        let Row { line, id } = self.table.as_mut()?.end()?;
        Some(AccountLine { line, named: id.and_then(|id| (self.read)(&id).map_err(InvalidEntry::rejected)) })
    }
}

fn is_header(line: &str) -> bool {
    first_column(line).is_ok_and(|word| COLUMNS.contains(&&*word.to_ascii_lowercase()))
}

/// Returns the reason if a line of column names has the accounts in another column than the first.
fn wrong_column_reason(line: &str) -> Option<InvalidEntry> {
    let mut columns = line.split(SEPARATORS).map(|column| unquoted(column).to_ascii_lowercase());
    let first = columns.next().unwrap_or_default();
    let is_better = |column: &str| match &*first {
        // Next to a handle, `name` is a person's name.
        "name" => COLUMNS.contains(&column),
        first if ROWS.contains(&first) => COLUMNS.contains(&column),
        // Another column may hold the id or the handle more precisely.
        first => {
            (!COLUMNS.contains(&first) || ["account", "user"].contains(&first))
                && COLUMNS.contains(&column)
                && !WORDS.contains(&column)
        }
    };
    let better = columns.position(|column| is_better(&column))?;
    Some(InvalidEntry::WrongColumn { cut_command: cut_command(line, better + 2) })
}

/// Returns the reason why `1,ann` most likely is not account 1; `None` for any other line.
fn numbered_rows_reason(line: &str) -> Option<InvalidEntry> {
    let (first, rest) = line.split_once(SEPARATORS)?;
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'' || SEPARATORS.contains(&c));
    let is_small = unquoted(first).parse::<u32>().is_ok_and(|number| number < FIRST_ID);
    // A comment is not a column, and grouped digits are another mistake.
    (is_small && !rest.is_empty() && !rest.starts_with('#') && first_column(line).is_ok())
        .then(|| InvalidEntry::NumberedLines { cut_command: cut_command(line, 2) })
}

fn count_separators(line: &str) -> usize {
    line.matches(SEPARATORS).count()
}

fn cut_command(line: &str, column: usize) -> String {
    match line.chars().find(|c| SEPARATORS.contains(c)) {
        Some(';') => format!("cut -d';' -f{column}"),
        Some(',') => format!("cut -d, -f{column}"),
        _ => format!("cut -f{column}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::model::provider::Provider;
    use networks::providers::registry::read_account_ref;

    #[tokio::test]
    async fn comments_are_passed_over_and_columns_are_no_account() {
        let file = b"\xef\xbb\xbf# friends\n\nusername,since\n12\n @ann ,2020\nusername\n\xff\n{\"a\":1}\n";
        for chunk in [1, 7, 4_096] {
            let source = tokio::io::BufReader::with_capacity(chunk, &file[..]);
            let mut lines = AccountReader::new(source, read_account_ref(&Provider::X));
            let mut read = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                read.push((
                    line.line,
                    line.named.map_err(|why| why.to_string().split([';', ' ']).nth(2).unwrap().to_owned()),
                ));
            }
            let handle = |text: &str| Ok(AccountRef::Handle(text.to_owned()));
            let expected = [
                (3, Err("names".to_owned())),
                (4, Ok(AccountRef::Id("12".to_owned()))),
                (5, handle("ann")),
                (6, handle("username")),
                (7, Err("id,".to_owned())),
                (8, Err("is".to_owned())),
            ];
            assert_eq!(read, expected, "{chunk}");
            assert_eq!(lines.bytes(), file.len() as u64);
        }
    }

    #[tokio::test]
    async fn an_x_before_digits_is_a_mark_in_a_column_of_ids_alone() {
        let (id, handle) =
            (|id: &str| Ok(AccountRef::Id(id.to_owned())), |name: &str| Ok(AccountRef::Handle(name.to_owned())));
        for (file, last) in [
            ("id\nx2001\n", id("2001")),
            ("user_id,name\nx2001,Ann\n", id("2001")),
            ("id,description\nx2001,\"a\n{\rb\n\u{ff}\"\n", id("2001")),
            ("handle\n@x2001\n", handle("x2001")),
            ("@x2001\n", handle("x2001")),
        ] {
            let file: Vec<u8> = file.chars().map(|c| c as u8).collect(); // the last one is not UTF-8
            let mut lines = AccountReader::new(&*file, read_account_ref(&Provider::X));
            let mut read = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                read.push(line.named);
            }
            assert_eq!(read.pop(), Some(last), "{read:?}");
        }
        for file in ["x2001\n", "screen_name,name\nx2001,Ann\n", "owner,member\nx2001,x2002\n"] {
            let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(&Provider::X));
            let mut last = None;
            while let Some(line) = lines.next().await.unwrap() {
                last = Some(line.named);
            }
            let error = last.unwrap().unwrap_err().to_string();
            assert!(error.contains("the handle with @"), "{file:?}: {error}");
        }
    }

    #[tokio::test]
    async fn a_file_of_other_columns_or_lines_is_refused_whole() {
        for (file, why) in [
            (",handle\n1,jack\n1204,ann\n", "keep only their column (cut -d, -f2)"),
            ("row,user\n1,jack\n2,ann\n", "keep only their column"),
            ("rank;since;handle\n1;2020;jack\n2;2021;ann\n", "keep only their column (cut -d';' -f3)"),
            ("0,jack\n1,ann\n1204,bob\n", "keep only the column of the accounts (cut -d, -f2)"),
            ("\"7\"\t\"2244994945\"\n", "keep only the column of the accounts (cut -f2)"),
            ("no,id\n1,2244994945\n2,783214\n", "keep only their column"),
            ("\"nr\"\t\"screen_name\"\n1\tann\n", "keep only their column (cut -f2)"),
            ("name,screen_name\nPrince,princefans\n", "keep only their column"),
            ("Name;handle\nCher;cher_fans\n", "keep only their column"),
            ("name,id\nPrince,12345\n", "keep only their column"),
            ("account,screen_name\nPrince,princefans\n", "keep only their column"),
            ("User,handle\nCher,cher_fans\n", "keep only their column"),
            ("12,ann\r13,bob\r14,cat\r", "CR alone"),
            ("ann\rbob\r", "CR alone"),
            ("1,460,323\n", "in groups"),
        ] {
            let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(&Provider::X));
            while let Some(line) = lines.next().await.unwrap() {
                let error = line.named.unwrap_err().to_string();
                assert!(error.contains(why), "{file:?}: {error}");
            }
        }
        for file in ["name,since\nann,2020\n", "user,name\nann,Ann\n", "user_id,screen_name\nann,x\n"] {
            let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(&Provider::X));
            let error = lines.next().await.unwrap().unwrap().named.unwrap_err().to_string();
            assert_eq!(error, HEADER_LINE, "{file:?}");
            assert_eq!(lines.next().await.unwrap().unwrap().named, Ok(AccountRef::Handle("ann".to_owned())));
        }
        let mut lines = AccountReader::new(&b"ann,user\r\n1200,345\r\n"[..], read_account_ref(&Provider::X));
        assert_eq!(lines.next().await.unwrap().unwrap().named, Ok(AccountRef::Handle("ann".to_owned())));
        assert_eq!(lines.next().await.unwrap().unwrap().named, Ok(AccountRef::Id("1200".to_owned())));
        for file in ["\thandle\n0\tjack\n", "\tid\tname\n0\t12\tjack\n"] {
            let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(&Provider::X));
            assert_eq!(lines.next().await.unwrap().unwrap().named.unwrap_err().to_string(), HEADER_LINE, "{file:?}");
            let error = lines.next().await.unwrap().unwrap().named.unwrap_err().to_string();
            assert!(error.contains("number the lines"), "{file:?}");
        }
        for file in ["12\n", "12,\n", "12,# jack\n", "12 # jack, the first\n", "# ids\nid,handle\n12,jack\n"] {
            let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(&Provider::X));
            let mut last = None;
            while let Some(line) = lines.next().await.unwrap() {
                last = Some(line.named);
            }
            assert_eq!(last, Some(Ok(AccountRef::Id("12".to_owned()))), "{file:?}");
        }
    }
}
