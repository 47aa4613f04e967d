//! Parquet files from rows that are plain structs. The macro `table!` declares a table once: the struct, its columns and the
//! descriptions in the file come from the same text.
//!
//! The low-level column writer suffices for flat tables and avoids Arrow, which would take most of the build time.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::PROGRAM;

/// Rows per row group.
const ROW_GROUP: usize = 1 << 18;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Integers. Signed, so that differences of counts do not wrap.
    Integer,
    /// Integers that use all 64 bits.
    Unsigned,
    /// Real numbers.
    Real,
    /// UTF-8.
    Text,
    /// Booleans.
    Truth,
}

/// A value in a row. The values of a column are appended to a buffer; an absent value appends only its definition level.
pub(super) trait Cell {
    /// Type of the column.
    const KIND: Kind;
    /// Whether the value may be absent.
    const OPTIONAL: bool = false;
    /// Appends the value.
    fn put(&self, column: &mut Cells);
}

/// Buffered values of a column, in the list of its type.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) integers: Vec<i64>,
    pub(super) reals: Vec<f64>,
    pub(super) texts: Vec<ByteArray>,
    pub(super) truths: Vec<bool>,
    pub(super) levels: Vec<i16>,
}

/// A seed: any 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seed(pub u64);

impl Cell for Seed {
    const KIND: Kind = Kind::Unsigned;
    fn put(&self, column: &mut Cells) {
        column.integers.push(self.0.cast_signed());
    }
}

impl Cell for u64 {
    const KIND: Kind = Kind::Integer;
    fn put(&self, column: &mut Cells) {
        column.integers.push(i64::try_from(*self).unwrap_or(i64::MAX));
    }
}

impl Cell for u32 {
    const KIND: Kind = Kind::Integer;
    fn put(&self, column: &mut Cells) {
        column.integers.push(i64::from(*self));
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Real;
    fn put(&self, column: &mut Cells) {
        column.reals.push(*self);
    }
}

impl Cell for bool {
    const KIND: Kind = Kind::Truth;
    fn put(&self, column: &mut Cells) {
        column.truths.push(*self);
    }
}

impl Cell for Arc<str> {
    const KIND: Kind = Kind::Text;
    fn put(&self, column: &mut Cells) {
        column.texts.push(self.as_bytes().to_vec().into());
    }
}

impl Cell for &'static str {
    const KIND: Kind = Kind::Text;
    fn put(&self, column: &mut Cells) {
        column.texts.push(self.as_bytes().to_vec().into());
    }
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const OPTIONAL: bool = true;
    fn put(&self, column: &mut Cells) {
        column.levels.push(i16::from(self.is_some()));
        if let Some(value) = self {
            value.put(column);
        }
    }
}

/// A column of rows of type `R`.
pub(super) struct Column<R> {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) kind: Kind,
    pub(super) optional: bool,
    pub(super) put: fn(&R, &mut Cells),
}

/// A row of a table.
pub(super) trait Row: Sized + 'static {
    /// Name of the table, and of its file without the extension.
    const TABLE: &'static str;
    /// Description of a row.
    const ABOUT: &'static str;
    /// The columns, in order.
    const COLUMNS: &'static [Column<Self>];
}

/// Declares a row. Its documentation becomes the description of the table, and that of its fields the descriptions of the
/// columns.
macro_rules! table {
    ($(
        $(#[doc = $about:literal])+
        $row:ident = $table:literal {
            $( $(#[doc = $doc:literal])+ $field:ident: $type:ty, )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl $crate::output::table::Row for $row {
            const TABLE: &'static str = $table;
            const ABOUT: &'static str = concat!($($about),+);
            const COLUMNS: &'static [$crate::output::table::Column<Self>] = &[$(
                $crate::output::table::Column {
                    name: stringify!($field),
                    about: concat!($($doc),+),
                    kind: <$type as $crate::output::table::Cell>::KIND,
                    optional: <$type as $crate::output::table::Cell>::OPTIONAL,
                    put: |row, cells| $crate::output::table::Cell::put(&row.$field, cells),
                },
            )+];
        }
    )+};
}
pub(super) use table;

/// The form of a column in a file.
pub(super) struct Form<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    pub(super) optional: bool,
}

fn schema(table: &str, columns: &[Form<'_>]) -> Result<TypePtr, ParquetError> {
    let fields = columns.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Kind::Integer => (Physical::INT64, None),
            Kind::Unsigned => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Real => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Truth => (Physical::BOOLEAN, None),
        };
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(column.name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
            .map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(table).with_fields(fields).build().map(Arc::new)
}

/// Metadata that describe a table and its columns.
pub(super) fn about<'a>(
    table: &str,
    columns: impl Iterator<Item = (&'a str, &'a str)>,
) -> impl Iterator<Item = KeyValue> {
    let columns: serde_json::Map<String, serde_json::Value> =
        columns.map(|(name, about)| (name.to_owned(), about.trim().into())).collect();
    [
        KeyValue::new("fairhop.table".to_owned(), table.trim().to_owned()),
        KeyValue::new("fairhop.columns".to_owned(), serde_json::Value::Object(columns).to_string()),
    ]
    .into_iter()
}

/// Writes a Parquet file, whose row groups come from `groups`.
pub(super) fn write_groups<W: Write + Send>(
    out: W,
    name: &str,
    columns: &[Form<'_>],
    metadata: Vec<KeyValue>,
    groups: impl FnOnce(&mut SerializedFileWriter<W>) -> Result<(), ParquetError>,
) -> io::Result<()> {
    let properties = WriterProperties::builder()
        .set_created_by(PROGRAM.to_owned())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(metadata))
        .build();
    let write = || -> Result<(), ParquetError> {
        let mut file = SerializedFileWriter::new(out, schema(name, columns)?, Arc::new(properties))?;
        groups(&mut file)?;
        file.close().map(|_| ())
    };
    write().map_err(|error| match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    })
}

/// Writes rows as a Parquet file with `metadata` and the descriptions of the table and its columns.
pub(super) fn write<'a, R: Row>(
    out: impl Write + Send,
    mut rows: impl Iterator<Item = &'a R>,
    metadata: &[(&str, String)],
) -> io::Result<()> {
    let metadata = metadata
        .iter()
        .map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()))
        .chain(about(R::ABOUT, R::COLUMNS.iter().map(|column| (column.name, column.about))))
        .collect();
    let forms: Vec<Form<'_>> = R::COLUMNS
        .iter()
        .map(|column| Form { name: column.name, kind: column.kind, optional: column.optional })
        .collect();
    write_groups(out, R::TABLE, &forms, metadata, |file| {
        let mut group: Vec<&R> = Vec::new();
        loop {
            group.clear();
            group.extend(rows.by_ref().take(ROW_GROUP));
            if group.is_empty() {
                return Ok(());
            }
            let mut writer = file.next_row_group()?;
            for column in R::COLUMNS {
                let mut cells = Cells::default();
                group.iter().for_each(|row| (column.put)(row, &mut cells));
                let Some(mut chunk) = writer.next_column()? else { break };
                cells.write(chunk.untyped(), column.optional)?;
                chunk.close()?;
            }
            writer.close()?;
        }
    })
}

impl Cells {
    pub(super) fn write(&self, column: &mut ColumnWriter<'_>, optional: bool) -> Result<(), ParquetError> {
        let levels = optional.then_some(self.levels.as_slice());
        match column {
            ColumnWriter::Int64ColumnWriter(column) => column.write_batch(&self.integers, levels, None)?,
            ColumnWriter::DoubleColumnWriter(column) => column.write_batch(&self.reals, levels, None)?,
            ColumnWriter::ByteArrayColumnWriter(column) => column.write_batch(&self.texts, levels, None)?,
            ColumnWriter::BoolColumnWriter(column) => column.write_batch(&self.truths, levels, None)?,
            ColumnWriter::Int32ColumnWriter(_)
            | ColumnWriter::Int96ColumnWriter(_)
            | ColumnWriter::FloatColumnWriter(_)
            | ColumnWriter::FixedLenByteArrayColumnWriter(_) => 0,
        };
        Ok(())
    }
}
