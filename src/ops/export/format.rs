//! The format of rows in a file.

use std::io;
use std::path::Path;
use std::str::FromStr;

use serde::ser::{SerializeMap, Serializer};

#[cfg(feature = "parquet")]
use super::parquet;
use crate::base::clock::Millis;
use crate::base::humanize::rfc3339_ms;
use crate::store::export::{Cell, Column, Kind, Table};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, the first line of which names the columns.
    Csv,
    /// The same for a spreadsheet: no text in it is read as a formula.
    SpreadsheetCsv,
    /// A JSON object a line.
    Ndjson,
    /// The only column as it is, a line each: ids, and objects as the network sent them.
    Lines,
    /// Apache Parquet, compressed.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// A word that names no format, or one that this program was built without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchFormat {
    /// An unknown word.
    #[error("write csv, ndjson, lines or parquet; of edges also gexf or graphml")]
    Unknown,
    /// The end of a file's name is none.
    #[error(
        "the file's name ends in no format: end it in .csv, .ndjson, .txt or .parquet, of edges also .gexf or .graphml, or say \
         which by --format; for gzip, leave --to out and pipe into gzip"
    )]
    UnknownEnd,
    /// The feature is off.
    #[error(
        "this program was built without Parquet: build it with `cargo build --release --features parquet`, or write csv and let DuckDB or pandas make the Parquet file"
    )]
    NotBuilt,
}

impl FromStr for Format {
    type Err = NoSuchFormat;

    fn from_str(word: &str) -> Result<Self, NoSuchFormat> {
        match word {
            "csv" => Ok(Self::Csv),
            "ndjson" | "jsonl" => Ok(Self::Ndjson),
            "lines" | "txt" => Ok(Self::Lines),
            #[cfg(feature = "parquet")]
            "parquet" => Ok(Self::Parquet),
            #[cfg(not(feature = "parquet"))]
            "parquet" => Err(NoSuchFormat::NotBuilt),
            _ => Err(NoSuchFormat::Unknown),
        }
    }
}

impl Format {
    /// The format that the name of a file ends in; of a name without an end, lines of a table that has one column, else CSV.
    ///
    /// # Errors
    /// The name's end is none, or one that this program was built without.
    pub fn of(table: &Table, file: Option<&Path>) -> Result<Self, NoSuchFormat> {
        let usual = if table.columns.len() == 1 { Self::Lines } else { Self::Csv };
        let end = file.and_then(Path::extension).map(|end| end.to_string_lossy().to_ascii_lowercase());
        match end.map(|end| end.parse()) {
            // `raw` into .ndjson is the objects themselves, not objects that hold them.
            Some(Ok(Self::Ndjson)) if usual == Self::Lines => Ok(Self::Lines),
            Some(Ok(named)) => Ok(named),
            Some(Err(NoSuchFormat::Unknown)) => Err(NoSuchFormat::UnknownEnd),
            Some(Err(other)) => Err(other),
            None => Ok(usual),
        }
    }

    /// True if an interrupted file of this format can be continued.
    pub(super) fn goes_on(self) -> bool {
        matches!(self, Self::Csv | Self::SpreadsheetCsv | Self::Ndjson | Self::Lines)
    }
}

/// A spreadsheet takes a cell for a formula that begins so (OWASP, CSV injection); in the wide forms, too.
const FORMULA: &[char] = &['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// Rows on their way into bytes.
pub(super) enum Encoder {
    Csv {
        columns: &'static [Column],
        for_spreadsheet: bool,
        out: Box<csv::Writer<Vec<u8>>>,
    },
    Ndjson(&'static [Column], Vec<u8>),
    Lines(Vec<u8>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Encoder>),
}

impl Encoder {
    /// At the beginning of a file, or where one goes on.
    pub fn new(format: Format, columns: &'static [Column], from_the_beginning: bool) -> Self {
        match format {
            Format::Csv | Format::SpreadsheetCsv => {
                let mut csv = csv::Writer::from_writer(Vec::new());
                if from_the_beginning {
                    // Into memory: it cannot fail.
                    let _ = csv.write_record(columns.iter().map(|column| column.name));
                }
                Self::Csv { columns, for_spreadsheet: format == Format::SpreadsheetCsv, out: Box::new(csv) }
            }
            Format::Ndjson => Self::Ndjson(columns, Vec::new()),
            #[cfg(feature = "parquet")]
            Format::Parquet => Self::Parquet(Box::new(parquet::Encoder::new(columns))),
            Format::Lines => Self::Lines(Vec::new()),
        }
    }

    pub fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        match self {
            Self::Csv { columns, for_spreadsheet, out: csv } => {
                for (column, cell) in columns.iter().zip(cells) {
                    match (cell, column.kind) {
                        (Cell::Text(text), _) if *for_spreadsheet && text.starts_with(FORMULA) => {
                            csv.write_field(format!("'{text}"))?
                        }
                        (Cell::Text(text), _) => csv.write_field(text)?,
                        (Cell::Number(at), Kind::Time) => csv.write_field(time(*at))?,
                        (Cell::Number(number), _) => csv.write_field(number.to_string())?,
                        (Cell::Flag(flag), _) => csv.write_field(if *flag { "true" } else { "false" })?,
                        (Cell::None, _) => csv.write_field("")?,
                    }
                }
                csv.write_record(None::<&[u8]>)?;
            }
            Self::Ndjson(columns, out) => {
                let mut json = serde_json::Serializer::new(&mut *out);
                let mut object = json.serialize_map(Some(cells.len()))?;
                for (column, cell) in columns.iter().zip(cells) {
                    match (cell, column.kind) {
                        (Cell::Number(at), Kind::Time) => object.serialize_entry(column.name, &time(*at))?,
                        _ => object.serialize_entry(column.name, cell)?,
                    }
                }
                object.end()?;
                out.push(b'\n');
            }
            Self::Lines(out) => {
                for cell in cells {
                    // A line break in an object stands between its words: one within them is written \n.
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
                out.push(b'\n');
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.row(cells)?,
        }
        Ok(())
    }

    /// Bytes that can be taken, about.
    pub fn ready(&self) -> usize {
        match self {
            Self::Csv { out, .. } => out.get_ref().len(),
            Self::Ndjson(_, out) | Self::Lines(out) => out.len(),
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.ready(),
        }
    }

    /// All rows so far.
    pub fn take(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Csv { out, .. } => {
                let whole = std::mem::replace(&mut **out, csv::Writer::from_writer(Vec::new()));
                whole.into_inner().map_err(|error| error.into_error())
            }
            Self::Ndjson(_, out) | Self::Lines(out) => Ok(std::mem::take(out)),
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.take(),
        }
    }

    /// The end of the file.
    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Parquet(encoder) => encoder.finish(),
            _ => self.take(),
        }
    }
}

/// A moment to the millisecond; what is no date as the number it is.
pub(super) fn time(at: Millis) -> String {
    rfc3339_ms(at).unwrap_or_else(|| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::export;

    fn table(name: &str) -> &'static Table {
        export::POSTS.iter().chain(export::ITEMS).find(|table| table.name == name).unwrap()
    }

    fn written(format: Format, name: &str, rows: &[Vec<Cell>]) -> String {
        let mut encoder = Encoder::new(format, table(name).columns, true);
        for row in rows {
            encoder.row(row).unwrap();
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
            written(Format::Csv, "changes", std::slice::from_ref(&row)),
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
    fn no_text_is_a_formula_in_a_spreadsheet_and_a_number_stays_one() {
        let text = |text: &str| Cell::Text(text.to_owned());
        for begin in ["=", "+", "-", "@", "\t", "\r", "＝"] {
            let row = vec![text("7"), Cell::Number(-5), text("text"), text(&format!("{begin}1+1")), text("a=1")];
            let [safe, plain] = [Format::SpreadsheetCsv, Format::Csv]
                .map(|format| written(format, "changes", std::slice::from_ref(&row)).split_off(32));
            assert_ne!(safe, plain);
            assert_eq!(safe.replacen('\'', "", 1), plain, "{begin:?}: one apostrophe");
            assert!(safe.starts_with("7,-5,text,") && safe.contains(&format!("'{begin}1+1")), "{safe:?}");
            assert!(safe.ends_with(",a=1\n"), "{safe:?}");
        }
    }

    #[test]
    fn the_name_of_a_file_names_its_format() {
        let of = |name: &str, file: &str| Format::of(table(name), Some(Path::new(file)));
        assert_eq!(of("posts", "a.ndjson"), Ok(Format::Ndjson));
        assert_eq!(of("raw", "a.ndjson"), Ok(Format::Lines));
        assert_eq!(of("ids", "ids.txt"), Ok(Format::Lines));
        assert_eq!(of("ids", "ids.csv"), Ok(Format::Csv));
        assert_eq!(of("posts", "a.NDJSON"), Ok(Format::Ndjson));
        assert_eq!((of("posts", "a"), of("raw", "a")), (Ok(Format::Csv), Ok(Format::Lines)));
        for file in ["a.dat", "a.csv.gz", "a.json", "a.xlsx"] {
            assert_eq!(of("posts", file), Err(NoSuchFormat::UnknownEnd), "{file}");
        }
        assert_eq!(Format::of(table("ids"), None), Ok(Format::Lines));
        assert_eq!(of("posts", "a.parquet").is_ok(), cfg!(feature = "parquet"));
    }
}
