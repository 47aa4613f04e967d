//! Tables as columns in memory: for Parquet files whose columns are known only at run time, and for Python, which takes
//! them without a copy.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;

use super::table::{self, Cell as _, Cells, Kind, Row};
use super::tables::RunTables;

/// The values of a column. Where a value is absent, its place holds zero or an empty text.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers.
    Integer(Vec<i64>),
    /// Integers that use all 64 bits.
    Unsigned(Vec<u64>),
    /// Real numbers.
    Real(Vec<f64>),
    /// UTF-8.
    Text(Vec<Arc<str>>),
    /// Booleans.
    Truth(Vec<bool>),
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(values) => values.len(),
            Self::Unsigned(values) => values.len(),
            Self::Real(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Truth(values) => values.len(),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What a value is.
    pub about: Cow<'static, str>,
    /// The values.
    pub values: Values,
    /// Which values exist; all of them if `None`.
    pub present: Option<Vec<bool>>,
}

impl Column {
    /// A column without absent values.
    pub fn new(name: impl Into<Cow<'static, str>>, about: &'static str, values: Values) -> Self {
        Self { name: name.into(), about: about.into(), values, present: None }
    }
}

/// A table: columns of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// The columns.
    pub columns: Vec<Column>,
}

impl Table {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// Writes the table as a Parquet file with `metadata`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_parquet(&self, out: impl Write + Send, metadata: &[(&str, String)]) -> io::Result<()> {
        let forms: Vec<table::Form<'_>> = self.columns.iter().map(Column::form).collect();
        let about =
            table::about(self.about, self.columns.iter().map(|column| (&*column.name, &*column.about)));
        let metadata = metadata.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
        let metadata = metadata.chain(about).collect();
        table::write_groups(out, self.name, &forms, metadata, |file| {
            if self.rows() == 0 {
                return Ok(());
            }
            let mut writer = file.next_row_group()?;
            for column in &self.columns {
                let Some(mut chunk) = writer.next_column()? else { break };
                column.cells().write(chunk.untyped(), column.present.is_some())?;
                chunk.close()?;
            }
            writer.close().map(|_| ())
        })
    }
}

impl Column {
    fn form(&self) -> table::Form<'_> {
        let kind = match self.values {
            Values::Integer(_) => Kind::Integer,
            Values::Unsigned(_) => Kind::Unsigned,
            Values::Real(_) => Kind::Real,
            Values::Text(_) => Kind::Text,
            Values::Truth(_) => Kind::Truth,
        };
        table::Form { name: &self.name, kind, optional: self.present.is_some() }
    }

    /// The values that exist, as the Parquet writer takes them.
    fn cells(&self) -> Cells {
        let mut cells = Cells::default();
        let exists = |row: usize| self.present.as_ref().is_none_or(|present| present[row]);
        for row in 0..self.values.len() {
            if self.present.is_some() {
                cells.levels.push(i16::from(exists(row)));
            }
            if exists(row) {
                match &self.values {
                    Values::Integer(values) => cells.integers.push(values[row]),
                    Values::Unsigned(values) => cells.integers.push(values[row].cast_signed()),
                    Values::Real(values) => cells.reals.push(values[row]),
                    Values::Text(values) => values[row].put(&mut cells),
                    Values::Truth(values) => cells.truths.push(values[row]),
                }
            }
        }
        cells
    }

    fn of<R: Row>(column: &table::Column<R>, rows: &[R]) -> Self {
        let mut cells = Cells::default();
        rows.iter().for_each(|row| (column.put)(row, &mut cells));
        let Cells { integers, reals, texts, truths, levels } = cells;
        let present = column.optional.then(|| levels.into_iter().map(|level| level > 0).collect::<Vec<_>>());
        let present_ref = present.as_deref();
        let values = match column.kind {
            Kind::Integer => Values::Integer(spread(integers, present_ref)),
            Kind::Unsigned => {
                let unsigned = integers.into_iter().map(i64::cast_unsigned).collect();
                Values::Unsigned(spread(unsigned, present_ref))
            }
            Kind::Real => Values::Real(spread(reals, present_ref)),
            Kind::Text => Values::Text(spread(shared(&texts), present_ref)),
            Kind::Truth => Values::Truth(spread(truths, present_ref)),
        };
        Self { name: column.name.into(), about: column.about.trim().into(), values, present }
    }
}

/// Texts of which equal neighbours are one.
fn shared(texts: &[ByteArray]) -> Vec<Arc<str>> {
    let mut last: Arc<str> = "".into();
    let text_of = |text: &ByteArray| -> Arc<str> { String::from_utf8_lossy(text.data()).into() };
    texts
        .iter()
        .map(|text| {
            if last.as_bytes() != text.data() {
                last = text_of(text);
            }
            last.clone()
        })
        .collect()
}

/// The values at their places, with defaults between them.
fn spread<T: Default>(values: Vec<T>, present: Option<&[bool]>) -> Vec<T> {
    let Some(present) = present else { return values };
    let mut values = values.into_iter();
    present.iter().map(|&is| if is { values.next().unwrap_or_default() } else { T::default() }).collect()
}

fn table_of<R: Row>(rows: Vec<R>) -> Table {
    let columns = R::COLUMNS.iter().map(|column| Column::of(column, &rows)).collect();
    Table { name: R::TABLE, about: R::ABOUT.trim(), columns }
}

impl RunTables {
    /// All tables as columns, in the order of their names. Each table of rows is dropped before the next is made.
    pub fn into_columns(self) -> Vec<Table> {
        vec![
            table_of(self.control),
            table_of(self.delays),
            table_of(self.flow_series),
            table_of(self.flows),
            table_of(self.frame_losses),
            table_of(self.links),
            table_of(self.node_series),
            table_of(self.nodes),
            table_of(self.receivers),
            table_of(self.tcp_series),
        ]
    }
}
