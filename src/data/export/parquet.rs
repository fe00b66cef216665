//! Rows as an Apache Parquet file, compressed by Snappy, which all readers support.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use store::export::{Cell, Column, ColumnKind};

/// Maximum size of a row group, which is held in memory.
const GROUP_ROWS: usize = 50_000;
const GROUP_BYTES: usize = 32 << 20;

pub struct Encoder {
    columns: Vec<ColumnBuffer>,
    rows: usize,
    bytes: usize,
    file: io::Result<SerializedFileWriter<Vec<u8>>>,
}

/// The values of a column, and for each row 1 if it has a value, else 0.
struct ColumnBuffer {
    definition_levels: Vec<i16>,
    of: ColumnValues,
}

enum ColumnValues {
    Texts(Vec<ByteArray>),
    Numbers(Vec<i64>),
    Flags(Vec<bool>),
}

impl Encoder {
    pub fn new(columns: &[Column]) -> Self {
        let values = |column: &Column| ColumnBuffer {
            definition_levels: Vec::new(),
            of: match column.kind {
                ColumnKind::Text | ColumnKind::PlainText | ColumnKind::Id | ColumnKind::ChangedValue => {
                    ColumnValues::Texts(Vec::new())
                }
                ColumnKind::Number | ColumnKind::Time => ColumnValues::Numbers(Vec::new()),
                ColumnKind::Flag => ColumnValues::Flags(Vec::new()),
            },
        };
        let (columns, file) = (columns.iter().map(values).collect(), new_writer(columns).map_err(io::Error::other));
        Self { columns, rows: 0, bytes: 0, file }
    }

    pub fn write_row(&mut self, cells: &[Cell]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.definition_levels.push(i16::from(*cell != Cell::None));
            match (&mut column.of, cell) {
                (ColumnValues::Texts(texts), Cell::Text(text)) => {
                    self.bytes += text.len();
                    texts.push(text.as_bytes().to_vec().into());
                }
                (ColumnValues::Numbers(numbers), Cell::Number(number)) => numbers.push(*number),
                (ColumnValues::Flags(flags), Cell::Flag(flag)) => flags.push(*flag),
                (_, Cell::None) => {}
                (_, cell) => return Err(io::Error::other(format!("the type of {cell:?} is not that of its column"))),
            }
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.end_group() } else { Ok(()) }
    }

    pub fn ready_bytes(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.inner().len())
    }

    pub fn take_bytes(&mut self) -> io::Result<Vec<u8>> {
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
        let columns: Vec<ColumnBuffer> = self.columns.iter_mut().map(ColumnBuffer::take).collect();
        write_group(self.file()?, &columns).map_err(io::Error::other)
    }
}

impl ColumnBuffer {
    fn take(&mut self) -> Self {
        let of = match &mut self.of {
            ColumnValues::Texts(texts) => ColumnValues::Texts(std::mem::take(texts)),
            ColumnValues::Numbers(numbers) => ColumnValues::Numbers(std::mem::take(numbers)),
            ColumnValues::Flags(flags) => ColumnValues::Flags(std::mem::take(flags)),
        };
        Self { definition_levels: std::mem::take(&mut self.definition_levels), of }
    }
}

fn new_writer(columns: &[Column]) -> Result<SerializedFileWriter<Vec<u8>>> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            ColumnKind::Text | ColumnKind::PlainText | ColumnKind::Id | ColumnKind::ChangedValue => {
                (Physical::BYTE_ARRAY, Some(LogicalType::String))
            }
            ColumnKind::Number => (Physical::INT64, None),
            ColumnKind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
            ColumnKind::Flag => (Physical::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(column.name, physical);
        field.with_logical_type(logical).with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    let schema = Type::group_type_builder("row").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
}

fn write_group(file: &mut SerializedFileWriter<Vec<u8>>, columns: &[ColumnBuffer]) -> Result<()> {
    let mut group = file.next_row_group()?;
    for ColumnBuffer { definition_levels, of } in columns {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the file has fewer columns than the table".to_owned()));
        };
        match of {
            ColumnValues::Texts(texts) => {
                column.typed::<ByteArrayType>().write_batch(texts, Some(definition_levels), None)?
            }
            ColumnValues::Numbers(numbers) => {
                column.typed::<Int64Type>().write_batch(numbers, Some(definition_levels), None)?
            }
            ColumnValues::Flags(flags) => {
                column.typed::<BoolType>().write_batch(flags, Some(definition_levels), None)?
            }
        };
        column.close()?;
    }
    group.close().map(drop)
}
