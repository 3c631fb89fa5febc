//! Tables for other libraries, by the Arrow PyCapsule protocol.

use std::collections::HashMap;
use std::sync::Arc;

use ::humpyard::lab::record::{CoreSpan, FATES, NEVER, NOWHERE, PacketChunk, PacketRecord};
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, Int8Array, PrimitiveArray, RecordBatch, RecordBatchIterator,
    StringArray, UInt16Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// A table, for whatever speaks the Arrow PyCapsule protocol: pandas, polars, pyarrow, DuckDB. Nothing is copied.
#[pyclass(frozen, module = "humpyard")]
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Frame {
    pub(crate) fn new(batches: Vec<RecordBatch>, empty: &RecordBatch) -> Self {
        let schema = batches.first().unwrap_or(empty).schema();
        Self { schema, batches }
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }
}

fn refused(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl Frame {
    /// A table of columns that are lists of numbers, texts or truth values. None is an empty value.
    #[staticmethod]
    fn from_columns(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let arrays = columns.iter().map(|(name, values)| {
            let name: String = name.extract()?;
            let array = column(&values).map_err(|_| {
                PyValueError::new_err(format!("column `{name}`: a list of numbers, texts or truth values is wanted"))
            })?;
            Ok((name, array, true))
        });
        let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        let batch = RecordBatch::try_from_iter_with_nullable(arrays).map_err(|error| refused(&error))?;
        Ok(Self { schema: batch.schema(), batches: vec![batch] })
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        format!("<Frame of {} rows: {}>", self.__len__(), self.columns().join(", "))
    }

    /// The table as an Arrow stream. The schema that is asked for is not heeded, as the protocol allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }
}

/// An Arrow array of what a Python list holds.
fn column(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(values) = values.extract::<Vec<Option<bool>>>() {
        let mut builder = BooleanBuilder::new();
        values.into_iter().for_each(|value| builder.append_option(value));
        return Ok(Arc::new(builder.finish()));
    }
    if let Ok(values) = values.extract::<Vec<Option<u64>>>() {
        let mut builder = UInt64Builder::new();
        values.into_iter().for_each(|value| builder.append_option(value));
        return Ok(Arc::new(builder.finish()));
    }
    if let Ok(values) = values.extract::<Vec<Option<i64>>>() {
        let mut builder = Int64Builder::new();
        values.into_iter().for_each(|value| builder.append_option(value));
        return Ok(Arc::new(builder.finish()));
    }
    if let Ok(values) = values.extract::<Vec<Option<f64>>>() {
        let mut builder = Float64Builder::new();
        values.into_iter().for_each(|value| builder.append_option(value));
        return Ok(Arc::new(builder.finish()));
    }
    let mut builder = StringBuilder::new();
    values.extract::<Vec<Option<String>>>()?.into_iter().for_each(|value| builder.append_option(value));
    Ok(Arc::new(builder.finish()))
}

/// What became of each packet of a run.
#[pyclass(frozen, module = "humpyard")]
#[derive(Debug)]
pub(crate) struct Record {
    packets: Vec<RecordBatch>,
    spans: Vec<CoreSpan>,
    has_chains: bool,
    services: Vec<String>,
}

impl Record {
    pub(crate) fn new(record: PacketRecord, services: Vec<String>) -> PyResult<Self> {
        let PacketRecord { chunks, spans, has_chains, .. } = record;
        let packets = chunks.into_iter().map(|chunk| packets(chunk, &services)).collect::<Result<_, _>>();
        Ok(Self { packets: packets.map_err(|error| refused(&error))?, spans, has_chains, services })
    }
}

#[pymethods]
impl Record {
    /// A row for each packet, in the order of arrival.
    fn packets(&self) -> PyResult<Frame> {
        let empty = packets(PacketChunk::default(), &self.services).map_err(|error| refused(&error))?;
        Ok(Frame::new(self.packets.clone(), &empty))
    }

    /// A row for each client, by its number.
    fn clients(&self) -> PyResult<Frame> {
        let mut clients: HashMap<u32, ClientRow> = HashMap::new();
        self.packets.iter().for_each(|batch| add_clients(&mut clients, batch));
        let batch = client_rows(&clients).map_err(|error| refused(&error))?;
        Ok(Frame::new(vec![batch.clone()], &batch))
    }

    /// A row for each packet that a core served and for each switch to another service, by core and time.
    fn timeline(&self) -> PyResult<Frame> {
        let mut spans = self.spans.clone();
        if !self.has_chains {
            let mut before = 0;
            for batch in &self.packets {
                spans.extend(served(batch, before, &self.services));
                before += batch.num_rows() as u64;
            }
        }
        spans.sort_by_key(|span| (span.core, span.start, span.end));
        let batch = timeline(&spans, &self.services).map_err(|error| refused(&error))?;
        Ok(Frame::new(vec![batch.clone()], &batch))
    }
}

/// A column of numbers, none of which is missing.
fn numbers<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), None))
}

/// A column of numbers, one of which stands for none.
fn numbers_but<T: ArrowPrimitiveType>(values: Vec<T::Native>, none: T::Native) -> ArrayRef {
    let nulls = NullBuffer::from_iter(values.iter().map(|&value| value != none));
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), Some(nulls)))
}

/// A column of names, of which each row has one by its place.
fn named(keys: Vec<i8>, names: &[&str]) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::try_new(Int8Array::from(keys), Arc::new(StringArray::from(names.to_vec())))?))
}

/// A column of services, of which each row has one by its number.
fn services(numbers: Vec<u16>, names: &[String]) -> Result<ArrayRef, ArrowError> {
    let names = StringArray::from_iter_values(names);
    Ok(Arc::new(DictionaryArray::try_new(UInt16Array::from(numbers), Arc::new(names))?))
}

fn packets(chunk: PacketChunk, names: &[String]) -> Result<RecordBatch, ArrowError> {
    let fates = chunk.fate.into_iter().map(|fate| fate as i8).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("arrival", numbers::<UInt64Type>(chunk.arrival), false),
        ("flow", numbers::<UInt32Type>(chunk.flow), false),
        ("client", numbers::<UInt32Type>(chunk.client), false),
        ("service", services(chunk.service, names)?, false),
        ("length", numbers::<UInt32Type>(chunk.length), false),
        ("queue", numbers_but::<UInt16Type>(chunk.queue, NOWHERE), true),
        ("core", numbers_but::<UInt16Type>(chunk.core, NOWHERE), true),
        ("start", numbers_but::<UInt64Type>(chunk.start, NEVER), true),
        ("end", numbers_but::<UInt64Type>(chunk.end, NEVER), true),
        ("left", numbers_but::<UInt64Type>(chunk.left, NEVER), true),
        ("fate", named(fates, &FATES)?, false),
    ])
}

/// A column of a batch of packets.
fn of<'a, T: ArrowPrimitiveType>(batch: &'a RecordBatch, name: &str) -> &'a PrimitiveArray<T> {
    let column = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref());
    column.expect("batches of packets have their columns")
}

/// What the packets of a client came to.
#[derive(Clone, Copy, Default)]
struct ClientRow {
    packets: u64,
    bytes: u64,
    served: u64,
    busy_ns: u64,
    delay_sum_ns: u64,
    delay_max_ns: u64,
}

fn add_clients(clients: &mut HashMap<u32, ClientRow>, batch: &RecordBatch) {
    let (arrivals, left) = (of::<UInt64Type>(batch, "arrival"), of::<UInt64Type>(batch, "left"));
    let (starts, ends) = (of::<UInt64Type>(batch, "start"), of::<UInt64Type>(batch, "end"));
    let (owners, lengths) = (of::<UInt32Type>(batch, "client"), of::<UInt32Type>(batch, "length"));
    for at in 0..batch.num_rows() {
        let client = clients.entry(owners.value(at)).or_default();
        client.packets += 1;
        client.bytes += u64::from(lengths.value(at));
        if left.is_valid(at) {
            let delay = left.value(at) - arrivals.value(at);
            client.served += 1;
            client.busy_ns += ends.value(at) - starts.value(at);
            client.delay_sum_ns += delay;
            client.delay_max_ns = client.delay_max_ns.max(delay);
        }
    }
}

fn client_rows(clients: &HashMap<u32, ClientRow>) -> Result<RecordBatch, ArrowError> {
    let mut rows: Vec<(u32, ClientRow)> = clients.iter().map(|(&client, &row)| (client, row)).collect();
    rows.sort_by_key(|(client, _)| *client);
    let column = |value: fn(&ClientRow) -> u64| numbers::<UInt64Type>(rows.iter().map(|(_, row)| value(row)).collect());
    let mut means = Float64Builder::new();
    rows.iter().for_each(|(_, row)| {
        means.append_option((row.served > 0).then(|| row.delay_sum_ns as f64 / row.served as f64));
    });
    RecordBatch::try_from_iter_with_nullable([
        ("client", numbers::<UInt32Type>(rows.iter().map(|(client, _)| *client).collect()), false),
        ("packets", column(|row| row.packets), false),
        ("bytes", column(|row| row.bytes), false),
        ("served", column(|row| row.served), false),
        ("busy_ns", column(|row| row.busy_ns), false),
        ("delay_mean_ns", Arc::new(means.finish()) as ArrayRef, true),
        ("delay_max_ns", column(|row| row.delay_max_ns), false),
    ])
}

/// What cores did for the packets of a batch, behind `before` rows.
fn served<'a>(batch: &'a RecordBatch, before: u64, names: &'a [String]) -> impl Iterator<Item = CoreSpan> + 'a {
    let (starts, ends) = (of::<UInt64Type>(batch, "start"), of::<UInt64Type>(batch, "end"));
    let cores = of::<UInt16Type>(batch, "core");
    let services = batch.column_by_name("service").and_then(|column| column.as_any().downcast_ref());
    let services: &DictionaryArray<UInt16Type> = services.expect("batches of packets have their columns");
    debug_assert_eq!(services.values().len(), names.len());
    (0..batch.num_rows()).filter(|&at| ends.is_valid(at)).map(move |at| CoreSpan {
        core: cores.value(at),
        start: starts.value(at),
        end: ends.value(at),
        service: services.keys().value(at),
        packet: Some(before + at as u64),
    })
}

fn timeline(spans: &[CoreSpan], names: &[String]) -> Result<RecordBatch, ArrowError> {
    let whats = spans.iter().map(|span| i8::from(span.packet.is_none())).collect();
    let rows: UInt64Array = spans.iter().map(|span| span.packet).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("core", numbers::<UInt16Type>(spans.iter().map(|span| span.core).collect()), false),
        ("start", numbers::<UInt64Type>(spans.iter().map(|span| span.start).collect()), false),
        ("end", numbers::<UInt64Type>(spans.iter().map(|span| span.end).collect()), false),
        ("what", named(whats, &["packet", "switch"])?, false),
        ("service", services(spans.iter().map(|span| span.service).collect(), names)?, false),
        ("packet", Arc::new(rows) as ArrayRef, true),
    ])
}

/// The table of something that speaks the protocol, or of a dict of columns.
pub(crate) fn table_of(given: &Bound<'_, PyAny>) -> PyResult<Frame> {
    if let Ok(columns) = given.cast::<PyDict>() {
        return Frame::from_columns(columns);
    }
    let (schema, batches) = crate::capsule::import(given)?;
    Ok(Frame { schema, batches })
}
