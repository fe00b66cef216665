//! Reads the ids of a table: one column of CSV, also with semicolons or tabs, as exports and spreadsheets write it.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder, Terminator};

use super::invalid_entry::InvalidEntry;

pub(super) const SEPARATORS: [char; 3] = [',', ';', '\t'];
/// Names of the id column, the most reliable first: an `id` next to a `tweet_id` may number the rows.
const ID_COLUMNS: [&str; 9] = ["tweet_id", "tweetid", "status_id", "post_id", "id_str", "id", "ids", "uri", "url"];
const LONGEST_ID: usize = 4_096;

const UNCLOSED_QUOTE: &str = "a quote that opens in this row is never closed, so the rest of the file was not read: close it, or \
     double it inside a cell";

pub(super) fn unquoted(column: &str) -> &str {
    column.trim().trim_matches(['"', '\''])
}

/// The separator of a CSV or TSV header; `None` for a single column.
pub(super) fn separator(line: &str) -> Option<char> {
    line.chars().find(|c| SEPARATORS.contains(c))
}

/// Reads rows line by line, and keeps only the ids. A quoted cell may span several lines.
#[derive(Debug)]
pub(super) struct Table {
    reader: Reader,
    /// Index of the id column, from 0.
    column: usize,
    /// Number of columns, if each row must have it.
    columns: Option<usize>,
    cells: usize,
    id: Vec<u8>,
    start_line: Option<u64>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub line: u64,
    pub id: Result<String, InvalidEntry>,
}

impl Table {
    /// Returns `None` if the first line has no id column, or no other column.
    pub fn of(first_line: &[u8]) -> Option<Self> {
        SEPARATORS.iter().find_map(|separator| {
            let names = names(first_line, *separator).filter(|names| names.len() > 1)?;
            let column = ID_COLUMNS.iter().find_map(|id| names.iter().position(|name| name == id))?;
            Some(Self { column, columns: Some(names.len()), ..Self::of_first_column(first_line, *separator) })
        })
    }

    /// Reads ids from the first column and ignores the others.
    pub fn of_first_column(first_line: &[u8], separator: char) -> Self {
        let mut reader = ReaderBuilder::new();
        reader.delimiter(separator as u8).terminator(Terminator::Any(b'\n'));
        // Text between tabs is often not quoted, so a quote in it has no meaning.
        reader.quoting(separator != '\t' || first_line.contains(&b'"'));
        Self { reader: reader.build(), column: 0, columns: None, cells: 0, id: Vec::new(), start_line: None }
    }

    /// Adds a line, and returns the row that ends with it.
    pub fn add(&mut self, line: u64, bytes: &[u8]) -> Option<Row> {
        let start_line = *self.start_line.get_or_insert(line);
        for mut rest in [bytes.strip_suffix(b"\r").unwrap_or(bytes), b"\n"] {
            while !rest.is_empty() {
                let mut part = [0; 256];
                let (read, used, written) = self.reader.read_field(rest, &mut part);
                rest = &rest[used..];
                if self.cells == self.column && self.id.len() <= LONGEST_ID {
                    self.id.extend_from_slice(&part[..written]);
                }
                if let ReadFieldResult::Field { record_end } = read {
                    self.cells += 1;
                    if record_end {
                        let id = self.id();
                        self.discard_row();
                        return Some(Row { line: start_line, id });
                    }
                }
            }
        }
        None
    }

    /// Drops the current row, because one of its lines cannot be read.
    pub fn discard_row(&mut self) {
        self.reader.reset();
        (self.start_line, self.cells) = (None, 0);
        self.id.clear();
    }

    /// Call at the end of the file. Returns an error row if the last row has an unclosed quote.
    pub fn end(&mut self) -> Option<Row> {
        let line = self.start_line?;
        self.discard_row();
        Some(Row { line, id: Err(InvalidEntry::BadRow(UNCLOSED_QUOTE.into())) })
    }

    /// Line in which the unfinished row starts; `None` between rows.
    pub fn unfinished(&self) -> Option<u64> {
        self.start_line
    }

    fn id(&self) -> Result<String, InvalidEntry> {
        let cells = self.cells;
        if let Some(columns) = self.columns.filter(|columns| *columns != cells) {
            let reason = format!("number of columns: {cells} in this row, {columns} in the first line");
            return Err(InvalidEntry::BadRow(reason.into()));
        }
        match String::from_utf8_lossy(&self.id).trim() {
            "" => Err(InvalidEntry::BadRow("the row has no id".into())),
            id if id.len() > LONGEST_ID => Err(InvalidEntry::BadRow("the id is longer than 4,096 bytes".into())),
            id => Ok(id.to_owned()),
        }
    }
}

fn names(first_line: &[u8], separator: char) -> Option<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().delimiter(separator as u8).has_headers(false).from_reader(first_line);
    let names = reader.records().next()?.ok()?;
    Some(names.iter().map(|name| unquoted(name).to_ascii_lowercase().replace(' ', "_")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<(u64, Result<String, InvalidEntry>)> {
        let mut lines = (1..).zip(text.lines());
        let mut table = Table::of(lines.next().unwrap().1.as_bytes()).unwrap();
        lines.filter_map(|(line, text)| table.add(line, text.as_bytes())).map(|Row { line, id }| (line, id)).collect()
    }

    #[test]
    fn the_surest_column_has_the_ids() {
        for (first_line, column) in [
            ("id,state", Some(0)),
            ("text;ID;lang", Some(1)),
            ("\"user_id\"\t\"Tweet ID\"", Some(1)),
            ("id,tweet_id,label", Some(1)),
            ("url,id", Some(1)),
            ("text,url", Some(1)),
            ("\"Text, full\";id", Some(1)),
            ("\tid\ttext", Some(1)),
            ("id", None),
            ("123,id_of", None),
            ("name,text", None),
        ] {
            assert_eq!(Table::of(first_line.as_bytes()).map(|table| table.column), column, "{first_line}");
        }
    }

    #[test]
    fn a_cell_may_have_separators_quotes_and_line_ends() {
        let text = "state,id,text\nlive,20,\"a, \"\"b\"\"\n{\n\n#c\"\nlive,\"x21\",d\nlive,22\n,,\n";
        let read = rows(text);
        let refused =
            |row: usize, says: &str| assert!(read[row].1.as_ref().unwrap_err().to_string().contains(says), "{read:?}");
        assert_eq!(read[..2], [(2, Ok("20".to_owned())), (6, Ok("x21".to_owned()))]);
        assert_eq!((read[2].0, read[3].0), (7, 8));
        refused(2, "2 in this row, 3 in the first line");
        refused(3, "no id");
        let unquoted = rows("id\ttext\n1\t\"a\n2\tb\"\n");
        assert_eq!(unquoted, [(2, Ok("1".to_owned())), (3, Ok("2".to_owned()))], "no quote opens a cell");
        assert_eq!(rows("\tid\n0\t20\n"), [(2, Ok("20".to_owned()))], "an index has no name in pandas");
        assert!(rows(&format!("id,text\n{},a\n", "1".repeat(5_000)))[0].1.is_err());
    }

    #[test]
    fn an_unclosed_quote_yields_no_row() {
        let mut table = Table::of(b"id,text").unwrap();
        assert_eq!((table.add(2, b"20,\"a"), table.add(3, b"21,b")), (None, None));
        assert_eq!(table.unfinished(), Some(2));
        table.discard_row();
        assert_eq!(table.add(4, b"22,c"), Some(Row { line: 4, id: Ok("22".to_owned()) }));
    }
}
