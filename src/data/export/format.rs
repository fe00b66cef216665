//! The format of rows in a file.

use std::io;
use std::path::Path;
use std::str::FromStr;

use serde::ser::{SerializeMap, Serializer};

#[cfg(feature = "parquet")]
use super::parquet;
use engine::base::clock::Millis;
use engine::base::humanize::rfc3339_ms;
use networks::providers::named::{ID_MARK, is_digits};
use store::export::{Cell, Column, ColumnKind, ID_FIELDS, Table};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values. The first line names the columns.
    Csv(CsvStyle),
    Ndjson,
    /// A table of one column, one value per line: ids, or objects as the network sent them.
    Lines,
    #[cfg(feature = "parquet")]
    Parquet,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CsvStyle {
    /// Writes an apostrophe before texts that a spreadsheet would read as a formula.
    pub without_formulas: bool,
    /// Starts with a byte order mark, without which Excel assumes a national code page.
    pub with_bom: bool,
    /// Writes ids of digits without [`ID_MARK`]. pandas, R and Excel read such ids as numbers and may round them.
    pub with_plain_ids: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("unknown format; choose csv, ndjson, lines or parquet, for edges also gexf or graphml")]
    Unknown,
    #[error(
        "the file's name ends in no format; end it in .csv, .ndjson, .txt or .parquet, for edges also .gexf or .graphml, or pass \
         --format; for gzip, omit --to and pipe into gzip"
    )]
    UnknownEnd,
    #[error(
        "JSON is not supported, since it would be one list of all rows; write NDJSON, one object per line (--format ndjson, or a name that \
         ends in .ndjson); `jq -s . FILE` converts it to a list"
    )]
    Json,
    #[error(
        "this program was built without Parquet; build it with `cargo build --release --features parquet`, or write csv and convert it with DuckDB or pandas"
    )]
    NotBuilt,
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(word: &str) -> Result<Self, FormatError> {
        match word {
            "csv" => Ok(Self::Csv(CsvStyle::default())),
            "ndjson" | "jsonl" => Ok(Self::Ndjson),
            "lines" | "txt" => Ok(Self::Lines),
            #[cfg(feature = "parquet")]
            "parquet" => Ok(Self::Parquet),
            #[cfg(not(feature = "parquet"))]
            "parquet" => Err(FormatError::NotBuilt),
            "json" => Err(FormatError::Json),
            _ => Err(FormatError::Unknown),
        }
    }
}

impl Format {
    /// Returns the format of the file's extension. Without one it is lines if the table has one column, else CSV.
    pub fn for_file(table: &Table, file: Option<&Path>) -> Result<Self, FormatError> {
        let usual = if table.columns.len() == 1 { Self::Lines } else { Self::Csv(CsvStyle::default()) };
        let end = file.and_then(Path::extension).map(|end| end.to_string_lossy().to_ascii_lowercase());
        match end.map(|end| end.parse()) {
            // `raw` as .ndjson is the objects themselves, without an object around each.
            Some(Ok(Self::Ndjson)) if table.name == "raw" => Ok(Self::Lines),
            Some(Ok(named)) => Ok(named),
            Some(Err(FormatError::Unknown)) => Err(FormatError::UnknownEnd),
            Some(Err(other)) => Err(other),
            None => Ok(usual),
        }
    }

    pub(super) fn can_continue(self) -> bool {
        matches!(self, Self::Csv(_) | Self::Ndjson | Self::Lines)
    }
}

/// First characters of formulas in spreadsheets (OWASP, CSV injection), with their wide forms.
const FORMULA: &[char] = &['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

const BOM: &str = "\u{feff}";

/// Escapes Unicode line ends in JSON from index `from` on, where Python's `splitlines` and others break lines. JSON has them only within
/// strings.
fn escape_line_ends(json: &mut Vec<u8>, from: usize) {
    const ENDS: [(&str, &str); 3] = [("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029"), ("\u{85}", "\\u0085")];
    let text = String::from_utf8_lossy(&json[from..]);
    if ENDS.iter().any(|(end, _)| text.contains(end)) {
        let escaped = ENDS.iter().fold(text.into_owned(), |text, (end, escape)| text.replace(end, escape));
        json.truncate(from);
        json.extend_from_slice(escaped.as_bytes());
    }
}

fn is_id_change(columns: &[Column], cells: &[Cell]) -> bool {
    let is_field = |column: &Column, cell: &Cell| {
        column.name == "field" && matches!(cell, Cell::Text(field) if ID_FIELDS.contains(&&**field))
    };
    columns.iter().zip(cells).any(|(column, cell)| is_field(column, cell))
}

pub(super) enum Encoder {
    Csv {
        columns: &'static [Column],
        style: CsvStyle,
        out: Box<csv::Writer<Vec<u8>>>,
    },
    Ndjson(&'static [Column], Vec<u8>),
    Lines(Vec<u8>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Encoder>),
}

impl Encoder {
    /// `from_the_beginning` is false if the rows continue a file.
    pub fn new(format: Format, columns: &'static [Column], from_the_beginning: bool) -> Self {
        match format {
            Format::Csv(style) => {
                let bom = if style.with_bom && from_the_beginning { BOM } else { "" };
                let mut csv = csv::Writer::from_writer(bom.as_bytes().to_vec());
                if from_the_beginning {
                    // The writer writes into memory and cannot fail.
                    let _ = csv.write_record(columns.iter().map(|column| column.name));
                }
                Self::Csv { columns, style, out: Box::new(csv) }
            }
            Format::Ndjson => Self::Ndjson(columns, Vec::new()),
            #[cfg(feature = "parquet")]
            Format::Parquet => Self::Parquet(Box::new(parquet::Encoder::new(columns))),
            Format::Lines => Self::Lines(Vec::new()),
        }
    }

    pub fn write_row(&mut self, cells: &[Cell]) -> io::Result<()> {
        match self {
            Self::Csv { columns, style, out: csv } => {
                let changes_id = is_id_change(columns, cells);
                for (column, cell) in columns.iter().zip(cells) {
                    let is_id = column.kind == ColumnKind::Id || column.kind == ColumnKind::ChangedValue && changes_id;
                    match (cell, column.kind) {
                        (Cell::Text(id), _) if is_id && !style.with_plain_ids && is_digits(id) => {
                            csv.write_field(format!("{ID_MARK}{id}"))?
                        }
                        (Cell::Text(text), _) if style.without_formulas && text.starts_with(FORMULA) => {
                            csv.write_field(format!("'{text}"))?
                        }
                        (Cell::Text(text), _) => csv.write_field(text)?,
                        (Cell::Number(at), ColumnKind::Time) => csv.write_field(format_time(*at))?,
                        (Cell::Number(number), _) => csv.write_field(number.to_string())?,
                        (Cell::Flag(flag), _) => csv.write_field(if *flag { "true" } else { "false" })?,
                        (Cell::None, _) => csv.write_field("")?,
                    }
                }
                csv.write_record(None::<&[u8]>)?;
            }
            Self::Ndjson(columns, out) => {
                let from = out.len();
                let mut json = serde_json::Serializer::new(&mut *out);
                let mut object = json.serialize_map(Some(cells.len()))?;
                for (column, cell) in columns.iter().zip(cells) {
                    match (cell, column.kind) {
                        (Cell::Number(at), ColumnKind::Time) => {
                            object.serialize_entry(column.name, &format_time(*at))?
                        }
                        _ => object.serialize_entry(column.name, cell)?,
                    }
                }
                object.end()?;
                escape_line_ends(out, from);
                out.push(b'\n');
            }
            Self::Lines(out) => {
                let from = out.len();
                for cell in cells {
                    // Line breaks in an object are only between tokens: within strings they are written \n.
                    let one_line = |text: &str| text.replace(['\n', '\r'], " ");
                    match cell {
                        Cell::Text(text) if text.contains(['\n', '\r']) => {
                            out.extend_from_slice(one_line(text).as_bytes())
                        }
                        Cell::Text(text) => out.extend_from_slice(text.as_bytes()),
                        Cell::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
                        Cell::Flag(_) | Cell::None => {}
                    }
                }
                escape_line_ends(out, from);
                out.push(b'\n');
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.write_row(cells)?,
        }
        Ok(())
    }

    pub fn ready_bytes(&self) -> usize {
        match self {
            Self::Csv { out, .. } => out.get_ref().len(),
            Self::Ndjson(_, out) | Self::Lines(out) => out.len(),
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.ready_bytes(),
        }
    }

    pub fn take_bytes(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Csv { out, .. } => {
                let whole = std::mem::replace(&mut **out, csv::Writer::from_writer(Vec::new()));
                whole.into_inner().map_err(|error| error.into_error())
            }
            Self::Ndjson(_, out) | Self::Lines(out) => Ok(std::mem::take(out)),
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.take_bytes(),
        }
    }

    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.finish(),
            _ => self.take_bytes(),
        }
    }
}

/// Formats an RFC 3339 time with milliseconds, or the number itself if it is no date.
pub(super) fn format_time(at: Millis) -> String {
    rfc3339_ms(at).unwrap_or_else(|| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::export;

    const DEFAULT: Format = Format::Csv(CsvStyle { without_formulas: false, with_bom: false, with_plain_ids: false });
    const PLAIN: CsvStyle = CsvStyle { without_formulas: false, with_bom: false, with_plain_ids: true };
    const CSV: Format = Format::Csv(PLAIN);

    fn table(name: &str) -> &'static Table {
        export::POSTS.iter().chain(export::ITEMS).find(|table| table.name == name).unwrap()
    }

    fn written(format: Format, name: &str, rows: &[Vec<Cell>]) -> String {
        let mut encoder = Encoder::new(format, table(name).columns, true);
        for row in rows {
            encoder.write_row(row).unwrap();
        }
        String::from_utf8(encoder.finish().unwrap()).unwrap()
    }

    #[test]
    fn a_text_may_hold_anything() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let row = vec![
            text("7"),
            Cell::Number(1_700_000_000_123),
            text("text"),
            text("she said \"a, b\"\nand left"),
            Cell::None,
        ];
        assert_eq!(
            written(CSV, "changes", std::slice::from_ref(&row)),
            "id,at,field,old_value,new_value\n7,2023-11-14T22:13:20.123Z,text,\"she said \"\"a, b\"\"\nand left\",\n"
        );
        assert_eq!(
            written(Format::Ndjson, "changes", &[row]),
            "{\"id\":\"7\",\"at\":\"2023-11-14T22:13:20.123Z\",\"field\":\"text\",\
             \"old_value\":\"she said \\\"a, b\\\"\\nand left\",\"new_value\":null}\n"
        );
        assert_eq!(written(Format::Lines, "raw", &[vec![text("{\n  \"id\": 1\r\n}")]]), "{   \"id\": 1  }\n");
    }

    #[test]
    fn a_line_of_json_has_no_other_line_end() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let odd = "a\u{2028}b\u{2029}c\u{85}d";
        let row = vec![text("7"), Cell::Number(1), text("text"), text(odd), text("é")];
        let line = written(Format::Ndjson, "changes", &[row.clone(), row]);
        assert!(line.contains(r#""old_value":"a\u2028b\u2029c\u0085d","new_value":"é""#), "{line}");
        assert_eq!(line.lines().count(), 2);
        for line in line.lines() {
            assert_eq!(serde_json::from_str::<serde_json::Value>(line).unwrap()["old_value"], odd);
        }
        let raw = written(Format::Lines, "raw", &[vec![text(&format!("{{\"text\":\"{odd}\"}}"))]]);
        assert_eq!(raw, "{\"text\":\"a\\u2028b\\u2029c\\u0085d\"}\n");
    }

    #[test]
    fn no_reader_takes_an_id_for_a_number() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let change =
            |field: &str, old: &str, new: &str| vec![text("7"), Cell::Number(1), text(field), text(old), text(new)];
        let rows = [change("text", "7", "8"), change("current_id", "7", "9"), change("moved_to", "7", "did:plc:a")];
        let csv = written(DEFAULT, "changes", &rows);
        let rows: Vec<&str> = csv.lines().skip(1).map(|line| line.split_once("Z,").unwrap().1).collect();
        assert_eq!(rows, ["text,7,8", "current_id,x7,x9", "moved_to,x7,did:plc:a"], "{csv}");
        assert!(csv.lines().skip(1).all(|line| line.starts_with("x7,")), "{csv}");
        let ids = [vec![text("20")], vec![text("did:plc:a")], vec![text("01G5")]];
        assert_eq!(written(DEFAULT, "ids", &ids), "id\nx20\ndid:plc:a\n01G5\n");
        for format in [CSV, Format::Lines] {
            assert!(!written(format, "ids", &ids).contains('x'), "{format:?}");
        }
    }

    #[test]
    fn byte_order_mark_is_written_once() {
        let csv = Format::Csv(CsvStyle { with_bom: true, ..PLAIN });
        let columns = table("ids").columns;
        let encode = |from_the_beginning| {
            let mut encoder = Encoder::new(csv, columns, from_the_beginning);
            encoder.write_row(&[Cell::Text("20".to_owned())]).unwrap();
            String::from_utf8(encoder.finish().unwrap()).unwrap()
        };
        assert_eq!((encode(true), encode(false)), ("\u{feff}id\n20\n".to_owned(), "20\n".to_owned()));
    }

    #[test]
    fn no_text_is_a_formula_in_a_spreadsheet_and_a_number_stays_one() {
        let text = |text: &str| Cell::Text(text.to_owned());
        for begin in ["=", "+", "-", "@", "\t", "\r", "＝"] {
            let row = vec![text("7"), Cell::Number(-5), text("text"), text(&format!("{begin}1+1")), text("a=1")];
            let [safe, plain] = [true, false]
                .map(|without_formulas| Format::Csv(CsvStyle { without_formulas, ..PLAIN }))
                .map(|format| written(format, "changes", std::slice::from_ref(&row)).split_off(32));
            assert_ne!(safe, plain);
            assert_eq!(safe.replacen('\'', "", 1), plain, "{begin:?}: one apostrophe");
            assert!(safe.starts_with("7,-5,text,") && safe.contains(&format!("'{begin}1+1")), "{safe:?}");
            assert!(safe.ends_with(",a=1\n"), "{safe:?}");
        }
    }

    #[test]
    fn the_name_of_a_file_names_its_format() {
        let of = |name: &str, file: &str| Format::for_file(table(name), Some(Path::new(file)));
        assert_eq!(of("posts", "a.ndjson"), Ok(Format::Ndjson));
        assert_eq!(of("raw", "a.ndjson"), Ok(Format::Lines));
        assert_eq!((of("ids", "ids.txt"), of("ids", "ids.ndjson")), (Ok(Format::Lines), Ok(Format::Ndjson)));
        assert_eq!(of("posts", "a.json"), Err(FormatError::Json));
        assert_eq!(of("ids", "ids.csv"), Ok(DEFAULT));
        assert_eq!(of("posts", "a.NDJSON"), Ok(Format::Ndjson));
        assert_eq!((of("posts", "a"), of("raw", "a")), (Ok(DEFAULT), Ok(Format::Lines)));
        for file in ["a.dat", "a.csv.gz", "a.xlsx"] {
            assert_eq!(of("posts", file), Err(FormatError::UnknownEnd), "{file}");
        }
        assert_eq!(Format::for_file(table("ids"), None), Ok(Format::Lines));
        assert_eq!(of("posts", "a.parquet").is_ok(), cfg!(feature = "parquet"));
    }
}
