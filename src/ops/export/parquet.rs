//! Rows as an Apache Parquet file, compressed by Snappy, which all readers support.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::store::export::{Cell, Column, Kind};

/// Maximum size of a row group, which is held in memory before it is written.
const GROUP_ROWS: usize = 50_000;
const GROUP_BYTES: usize = 32 << 20;

pub struct Encoder {
    columns: Vec<Values>,
    rows: usize,
    bytes: usize,
    file: io::Result<SerializedFileWriter<Vec<u8>>>,
}

/// The values of a column, and for each row a mark if it has one.
struct Values {
    there: Vec<i16>,
    of: Of,
}

enum Of {
    Texts(Vec<ByteArray>),
    Numbers(Vec<i64>),
    Flags(Vec<bool>),
}

impl Encoder {
    pub fn new(columns: &[Column]) -> Self {
        let values = |column: &Column| Values {
            there: Vec::new(),
            of: match column.kind {
                Kind::Text | Kind::PlainText | Kind::Id | Kind::ChangedValue => Of::Texts(Vec::new()),
                Kind::Number | Kind::Time => Of::Numbers(Vec::new()),
                Kind::Flag => Of::Flags(Vec::new()),
            },
        };
        let (columns, file) = (columns.iter().map(values).collect(), begin(columns).map_err(io::Error::other));
        Self { columns, rows: 0, bytes: 0, file }
    }

    pub fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.there.push(i16::from(*cell != Cell::None));
            match (&mut column.of, cell) {
                (Of::Texts(texts), Cell::Text(text)) => {
                    self.bytes += text.len();
                    texts.push(text.as_bytes().to_vec().into());
                }
                (Of::Numbers(numbers), Cell::Number(number)) => numbers.push(*number),
                (Of::Flags(flags), Cell::Flag(flag)) => flags.push(*flag),
                (_, Cell::None) => {}
                (_, cell) => return Err(io::Error::other(format!("{cell:?} is not what its column holds"))),
            }
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.end_group() } else { Ok(()) }
    }

    pub fn ready(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.inner().len())
    }

    pub fn take(&mut self) -> io::Result<Vec<u8>> {
        Ok(std::mem::take(self.file()?.inner_mut()))
    }

    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        self.end_group()?;
        self.file?.into_inner().map_err(io::Error::other)
    }

    fn file(&mut self) -> io::Result<&mut SerializedFileWriter<Vec<u8>>> {
        self.file.as_mut().map_err(|error| io::Error::other(error.to_string()))
    }

    fn end_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        let columns: Vec<Values> = self.columns.iter_mut().map(Values::take).collect();
        write_group(self.file()?, &columns).map_err(io::Error::other)
    }
}

impl Values {
    fn take(&mut self) -> Self {
        let of = match &mut self.of {
            Of::Texts(texts) => Of::Texts(std::mem::take(texts)),
            Of::Numbers(numbers) => Of::Numbers(std::mem::take(numbers)),
            Of::Flags(flags) => Of::Flags(std::mem::take(flags)),
        };
        Self { there: std::mem::take(&mut self.there), of }
    }
}

fn begin(columns: &[Column]) -> Result<SerializedFileWriter<Vec<u8>>> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Text | Kind::PlainText | Kind::Id | Kind::ChangedValue => {
                (Physical::BYTE_ARRAY, Some(LogicalType::String))
            }
            Kind::Number => (Physical::INT64, None),
            Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
            Kind::Flag => (Physical::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(column.name, physical);
        field.with_logical_type(logical).with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    let schema = Type::group_type_builder("row").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
}

fn write_group(file: &mut SerializedFileWriter<Vec<u8>>, columns: &[Values]) -> Result<()> {
    let mut group = file.next_row_group()?;
    for Values { there, of } in columns {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the file has fewer columns than the table".to_owned()));
        };
        match of {
            Of::Texts(texts) => column.typed::<ByteArrayType>().write_batch(texts, Some(there), None)?,
            Of::Numbers(numbers) => column.typed::<Int64Type>().write_batch(numbers, Some(there), None)?,
            Of::Flags(flags) => column.typed::<BoolType>().write_batch(flags, Some(there), None)?,
        };
        column.close()?;
    }
    group.close().map(drop)
}
