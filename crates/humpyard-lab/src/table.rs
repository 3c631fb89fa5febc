//! Data: rows under typed columns, as CSV and as Parquet.

use core::fmt;
use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Words.
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers.
    Real,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name, with the unit.
    pub name: Cow<'static, str>,
    /// What it holds.
    pub kind: Kind,
}

impl Column {
    /// A column of words.
    pub const fn text(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), kind: Kind::Text }
    }

    /// A column of whole numbers.
    pub const fn integer(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), kind: Kind::Integer }
    }

    /// A column of numbers.
    pub const fn real(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), kind: Kind::Real }
    }
}

/// One value of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.written())
    }
}

impl Value {
    /// As it is written; numbers read back as what they were.
    fn written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
        }
    }

    fn read(text: &str, kind: Kind) -> Option<Self> {
        match kind {
            Kind::Text => Some(Self::from(text)),
            Kind::Integer => text.parse().ok().map(Self::Integer),
            Kind::Real => text.parse().ok().map(Self::Real),
        }
    }

    const fn kind(&self) -> Kind {
        match self {
            Self::Text(_) => Kind::Text,
            Self::Integer(_) => Kind::Integer,
            Self::Real(_) => Kind::Real,
        }
    }
}

/// A row: a value for each column.
pub type Row = Vec<Value>;

/// Rows under columns.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    columns: Cow<'static, [Column]>,
    rows: Vec<Row>,
}

impl Table {
    /// A table without rows.
    pub const fn new(columns: &'static [Column]) -> Self {
        Self { columns: Cow::Borrowed(columns), rows: Vec::new() }
    }

    /// Joins the tables of several seeds, with a column of seeds before the others.
    pub fn of_seeds(tables: impl IntoIterator<Item = (u64, Self)>) -> Self {
        let (mut columns, mut rows) = (vec![Column::integer(SEED)], Vec::new());
        for (seed, table) in tables {
            columns.truncate(1);
            columns.extend_from_slice(&table.columns);
            rows.extend(table.rows.into_iter().map(|row| [vec![Value::from(seed)], row].concat()));
        }
        Self { columns: columns.into(), rows }
    }

    /// Returns a table for each number in a column, rising.
    pub fn split_by(&self, column: &str) -> Vec<Self> {
        let mut numbers: Vec<f64> = self.rows().map(|row| row.number(column)).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let of = |number| {
            let rows = self.rows().filter(|row| row.number(column) == number).map(|row| row.row.clone());
            Self { columns: self.columns.clone(), rows: rows.collect() }
        };
        numbers.into_iter().map(of).collect()
    }

    /// Makes a table of these rows.
    pub fn of(columns: &'static [Column], rows: impl IntoIterator<Item = Row>) -> Self {
        let mut table = Self::new(columns);
        rows.into_iter().for_each(|row| table.push(row));
        table
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If its values are not those of the columns.
    pub fn push(&mut self, row: Row) {
        let fits = row.iter().map(Value::kind).eq(self.columns.iter().map(|column| column.kind));
        assert!(fits, "a value for each of {:?}, not {row:?}", self.columns);
        self.rows.push(row);
    }

    /// A table without rows, whose columns are found only when the program runs.
    pub fn with_columns(columns: Vec<Column>) -> Self {
        Self { columns: Cow::Owned(columns), rows: Vec::new() }
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows alone.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = TableRow<'_>> + Clone {
        self.rows.iter().map(|row| TableRow { columns: &self.columns, row })
    }

    /// The rows in which this column says this.
    pub fn rows_of<'a, 'b>(&'a self, column: &'b str, text: &'b str) -> impl Iterator<Item = TableRow<'a>> + Clone {
        self.rows().filter(move |row| row.text(column) == text)
    }

    /// As CSV (RFC 4180), with a line of names.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = self.columns.iter().map(|column| column.name.to_string()).collect::<Vec<_>>();
        let lines = core::iter::once(names).chain(self.rows.iter().map(|row| row.iter().map(Value::written).collect()));
        for line in lines {
            writer.write_record(line).expect("writing in memory does not fail");
        }
        let bytes = writer.into_inner().expect("writing in memory does not fail");
        String::from_utf8(bytes).expect("it was text")
    }

    /// Reads what [`Table::csv`] wrote; none if it is anything else.
    pub fn from_csv(columns: &'static [Column], text: &str) -> Option<Self> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        if !reader.headers().ok()?.iter().eq(columns.iter().map(|column| column.name.as_ref())) {
            return None;
        }
        let mut table = Self::new(columns);
        for record in reader.records() {
            table.rows.push(read_row(columns, record.ok()?.iter())?);
        }
        Some(table)
    }

    /// Reads what [`Self::of_seeds`] has written as CSV: a table for each seed, in the order of the text. Without a
    /// column of seeds there is one table. `None`: it is not that.
    pub fn by_seed_from_csv(columns: &'static [Column], text: &str) -> Option<Vec<Self>> {
        if let Some(table) = Self::from_csv(columns, text) {
            return Some(vec![table]);
        }
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let named = [SEED].into_iter().chain(columns.iter().map(|column| column.name.as_ref()));
        if !reader.headers().ok()?.iter().eq(named) {
            return None;
        }
        let mut tables: Vec<(String, Self)> = Vec::new();
        for record in reader.records() {
            let record = record.ok()?;
            let seed = record.get(0)?;
            if tables.last().is_none_or(|(last, _)| last != seed) {
                tables.push((seed.to_owned(), Self::new(columns)));
            }
            tables.last_mut()?.1.rows.push(read_row(columns, record.iter().skip(1))?);
        }
        Some(tables.into_iter().map(|(_, table)| table).collect())
    }

    /// Rounds real numbers to nine significant digits. More would be most of a data file, and mean nothing.
    #[must_use]
    pub fn to_nine_digits(mut self) -> Self {
        for value in self.rows.iter_mut().flatten() {
            if let Value::Real(number) = value {
                *number = format!("{number:.8e}").parse().expect("a number that was one");
            }
        }
        self
    }

    /// Writes it as Parquet, compressed by zstd.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_parquet(&self, file: impl Write + Send) -> Result<(), ParquetError> {
        let fields: Result<Vec<TypePtr>, ParquetError> = self.columns.iter().map(field).collect();
        let schema = Type::group_type_builder("row").with_fields(fields?).build()?;
        let properties =
            Arc::new(WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build());
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties)?;
        let mut group = writer.next_row_group()?;
        for (index, column) in self.columns.iter().enumerate() {
            let mut chunk = group.next_column()?.expect("a chunk for each column");
            let values = || self.rows.iter().map(|row| &row[index]);
            match column.kind {
                Kind::Text => {
                    let bytes = |value: &Value| ByteArray::from(value.written().into_bytes());
                    chunk.typed::<ByteArrayType>().write_batch(&values().map(bytes).collect::<Vec<_>>(), None, None)?;
                }
                Kind::Integer => {
                    let number = |value: &Value| if let Value::Integer(number) = value { *number } else { 0 };
                    chunk.typed::<Int64Type>().write_batch(&values().map(number).collect::<Vec<_>>(), None, None)?;
                }
                Kind::Real => {
                    let number = |value: &Value| if let Value::Real(number) = value { *number } else { f64::NAN };
                    chunk.typed::<DoubleType>().write_batch(&values().map(number).collect::<Vec<_>>(), None, None)?;
                }
            }
            chunk.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }

    /// Reads what [`Self::write_parquet`] wrote.
    ///
    /// # Errors
    /// What the reader says, and columns of other types.
    pub fn read_parquet(file: File) -> Result<Self, ParquetError> {
        let reader = SerializedFileReader::new(file)?;
        let fields = reader.metadata().file_metadata().schema().get_fields();
        let columns: Option<Vec<Column>> = fields.iter().map(column).collect();
        let columns = columns.ok_or_else(|| ParquetError::General("it has columns of other types".to_owned()))?;
        let mut table = Self::with_columns(columns);
        for row in reader.get_row_iter(None)? {
            let row = row?;
            let values = row.get_column_iter().map(|(_, field)| match field {
                Field::Str(text) => Value::Text(text.clone()),
                Field::Long(number) => Value::Integer(*number),
                Field::Double(number) => Value::Real(*number),
                _ => Value::Real(f64::NAN),
            });
            table.push(values.collect());
        }
        Ok(table)
    }
}

/// The column of a field. `None`: it has none of our types.
fn column(field: &TypePtr) -> Option<Column> {
    let kind = match field.get_physical_type() {
        PhysicalType::BYTE_ARRAY => Kind::Text,
        PhysicalType::INT64 => Kind::Integer,
        PhysicalType::DOUBLE => Kind::Real,
        _ => return None,
    };
    Some(Column { name: field.name().to_owned().into(), kind })
}

fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    let (physical, converted) = match column.kind {
        Kind::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
        Kind::Integer => (PhysicalType::INT64, ConvertedType::NONE),
        Kind::Real => (PhysicalType::DOUBLE, ConvertedType::NONE),
    };
    let field = Type::primitive_type_builder(&column.name, physical).with_converted_type(converted);
    Ok(Arc::new(field.with_repetition(Repetition::REQUIRED).build()?))
}

/// The column of seeds.
const SEED: &str = "seed";

/// Reads a row. `None`: it has other values than these columns.
fn read_row<'a>(columns: &[Column], texts: impl Iterator<Item = &'a str>) -> Option<Row> {
    let mut columns = columns.iter();
    let row: Row = texts.map(|text| Value::read(text, columns.next()?.kind)).collect::<Option<_>>()?;
    columns.next().is_none().then_some(row)
}

/// A row, whose values are found by the names of their columns.
#[derive(Clone, Copy, Debug)]
pub struct TableRow<'a> {
    columns: &'a [Column],
    row: &'a Row,
}

impl<'a> TableRow<'a> {
    fn value(&self, column: &str) -> &'a Value {
        let index = self.columns.iter().position(|known| known.name == column);
        &self.row[index.unwrap_or_else(|| panic!("no column `{column}`"))]
    }

    /// All values, in the order of the columns.
    pub fn values(&self) -> &'a [Value] {
        self.row
    }

    /// The words in this column.
    ///
    /// # Panics
    /// If it is not there, or holds numbers.
    pub fn text(&self, column: &str) -> &'a str {
        match self.value(column) {
            Value::Text(text) => text,
            other => panic!("`{column}` holds no words: {other:?}"),
        }
    }

    /// The number in this column.
    ///
    /// # Panics
    /// If it is not there, or holds words.
    pub fn number(&self, column: &str) -> f64 {
        match self.value(column) {
            Value::Integer(number) => *number as f64,
            Value::Real(number) => *number,
            Value::Text(text) => panic!("`{column}` holds words: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COLUMNS: [Column; 3] = [Column::text("policy"), Column::integer("clients"), Column::real("error")];

    fn table() -> Table {
        let mut table = Table::new(&COLUMNS);
        table.push(vec!["wf2q+".into(), 32u32.into(), 0.1.into()]);
        table.push(vec!["a \"b\", c\n".into(), (-7i64).into(), (-1.0 / 3.0).into()]);
        table
    }

    #[test]
    fn seeds_are_read_as_they_were_written() {
        const COLUMNS: &[Column] = &[Column::text("name"), Column::real("value")];
        let table = |value: f64| Table::of(COLUMNS, [vec!["a".into(), value.into()], vec!["b,".into(), 2.0.into()]]);
        let tables = [table(1.0), table(0.5)];
        let text = Table::of_seeds((7..).zip(tables.clone())).csv();
        assert_eq!(Table::by_seed_from_csv(COLUMNS, &text), Some(tables.to_vec()));
        assert_eq!(Table::by_seed_from_csv(COLUMNS, &tables[0].csv()), Some(tables[..1].to_vec()));
        assert_eq!(Table::by_seed_from_csv(COLUMNS, "seed,name\n7,a\n"), None);
        assert_eq!(Table::by_seed_from_csv(COLUMNS, &text.replace("0.5", "x")), None);
    }

    #[test]
    fn reals_are_rounded_to_nine_digits() {
        const COLUMNS: &[Column] = &[Column::real("value")];
        let values = [1.0 / 3.0, -819.149_993_896_484_4, 1e300, 0.0, f64::INFINITY];
        let table = Table::of(COLUMNS, values.map(|value| vec![value.into()])).to_nine_digits();
        assert_eq!(table.csv(), format!("value\n0.333333333\n-819.149994\n{}\n0\ninf\n", 1e300));
        assert_eq!(table.clone().to_nine_digits(), table);
    }

    #[test]
    fn csv_reads_back_as_written() {
        let text = table().csv();
        assert!(text.starts_with("policy,clients,error\nwf2q+,32,0.1\n"), "{text}");
        assert_eq!(Table::from_csv(&COLUMNS, &text), Some(table()));
        for damaged in [&text[1..], &text.replace("32", "3.2"), &text.replace(",0.1", "")] {
            assert_eq!(Table::from_csv(&COLUMNS, damaged), None, "{damaged}");
        }
        assert_eq!(Table::from_csv(&COLUMNS[..2], &text), None);
    }

    #[test]
    fn tables_of_seeds_are_joined_and_split() {
        let joined = Table::of_seeds([(1, table()), (2, table())]);
        assert!(joined.csv().starts_with("seed,policy,clients,error\n1,wf2q+,32,0.1\n"), "{}", joined.csv());
        let seeds = joined.split_by("seed");
        assert_eq!((seeds.len(), seeds[1].len(), seeds[1].rows().next().unwrap().number("seed")), (2, 2, 2.0));
    }

    #[test]
    fn parquet_holds_the_same() {
        let file = tempfile::tempfile().unwrap();
        table().write_parquet(file.try_clone().unwrap()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        assert_eq!(rows[0], [Field::Str("wf2q+".to_owned()), Field::Long(32), Field::Double(0.1)]);
        assert_eq!(rows[1][2], Field::Double(-1.0 / 3.0));
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn parquet_reads_back_as_written() {
        let file = tempfile::tempfile().unwrap();
        table().write_parquet(file.try_clone().unwrap()).unwrap();
        assert_eq!(Table::read_parquet(file).unwrap(), table());
    }

    #[test]
    #[should_panic(expected = "a value for each of")]
    fn rows_fit_their_columns() {
        Table::new(&COLUMNS).push(vec![1u32.into(), 1u32.into(), 0.0.into()]);
    }
}
