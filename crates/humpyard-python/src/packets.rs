//! A table of packets as the input of a run.

use core::net::IpAddr;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use ::humpyard::traffic::header::{FlowKey, Network};
use ::humpyard::traffic::table::FIRST_PORT;
use ::humpyard::traffic::{PacketTable, TableBatch, TableFlows};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::frames::Frame;

/// The packets of a table, and the services that it names.
pub(crate) struct Packets {
    pub(crate) table: PacketTable,
    /// The services of its column `service`, in the order in which they appear. Empty: it has no such column.
    pub(crate) services: Vec<String>,
}

impl Packets {
    /// The rule that gives packets of each service of the table that service.
    pub(crate) fn rules(&self) -> Vec<String> {
        let rule = |(at, service): (usize, &String)| format!("port={},service={service}", usize::from(FIRST_PORT) + at);
        self.services.iter().enumerate().map(rule).collect()
    }
}

const TIME: &str = "time";
const FLOW: &str = "flow";
const LENGTH: &str = "length";
const SERVICE: &str = "service";
const ENDS: [&str; 5] = ["source", "destination", "source_port", "destination_port", "protocol"];

fn wrong(said: impl core::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("the table of packets: {said}"))
}

/// Reads a table with the columns `time`, `length`, and `flow` or the five of a connection; perhaps `service`.
///
/// # Errors
/// Columns that are missing, and values that they do not take.
pub(crate) fn packets(frame: &Frame) -> PyResult<Packets> {
    let has = |name: &str| frame.schema().column_with_name(name).is_some();
    let known = [TIME, FLOW, LENGTH, SERVICE].into_iter().chain(ENDS);
    if let Some(unknown) = frame.schema().fields().iter().find(|field| !known.clone().any(|name| name == field.name()))
    {
        let takes = known.collect::<Vec<_>>().join(", ");
        return Err(wrong(format!("no use for the column `{}`: it takes {takes}", unknown.name())));
    }
    for name in [TIME, LENGTH] {
        if !has(name) {
            return Err(wrong(format!("it has no column `{name}`")));
        }
    }
    match (has(FLOW), ENDS.iter().find(|name| has(name)), ENDS.iter().find(|name| !has(name))) {
        (false, None, _) => {
            return Err(wrong(format!("it has no column `{FLOW}`, and not the five {}", ENDS.join(", "))));
        }
        (false, Some(there), Some(missing)) => {
            return Err(wrong(format!("it has a column `{there}` and no column `{missing}`")));
        }
        (true, Some(there), _) => {
            return Err(wrong(format!("`{FLOW}` and `{there}` both say what flows are: leave one out")));
        }
        _ => {}
    }
    if has(SERVICE) && !has(FLOW) {
        return Err(wrong(format!(
            "`{SERVICE}` goes with `{FLOW}`: where packets have addresses, rules name their services"
        )));
    }
    let mut flows = Flows::default();
    let numbered = frame.batches().iter().map(|batch| flows.batch(batch)).collect::<PyResult<Vec<_>>>()?;
    let count = flows.services.names.len() as u64;
    let batches = numbered.into_iter().map(|batch| batch.with_services(count)).collect();
    let of_table = TableFlows { keys: flows.keys.names, services: count as u16 };
    let table = PacketTable::new(batches, of_table).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(Packets { table, services: flows.services.names })
}

/// Names with a number each, from 0, in the order in which they appear.
#[derive(Debug)]
struct Numbering<T> {
    names: Vec<T>,
    numbers: HashMap<T, u64>,
}

impl<T> Default for Numbering<T> {
    fn default() -> Self {
        Self { names: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbering<T> {
    fn number(&mut self, name: T) -> u64 {
        let Self { names, numbers } = self;
        *numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as u64 - 1
        })
    }
}

/// What is known of the flows of a table so far.
#[derive(Debug, Default)]
struct Flows {
    /// Flows that have names, and so numbers.
    names: Numbering<String>,
    /// Flows that have addresses.
    keys: Numbering<FlowKey>,
    services: Numbering<String>,
}

/// A batch whose flows have numbers, and perhaps services.
struct NumberedBatch {
    batch: TableBatch,
    services: Option<Vec<u64>>,
}

impl NumberedBatch {
    /// With each flow of each service as a flow of its own, of this many services.
    fn with_services(self, count: u64) -> TableBatch {
        let Some(services) = self.services else { return self.batch };
        let flows = (*self.batch.flows).as_ref();
        let of_services: Vec<u64> = flows.iter().zip(&services).map(|(flow, service)| flow * count + service).collect();
        TableBatch { flows: Arc::new(of_services), ..self.batch }
    }
}

/// The most services that a table may name: each has a port.
const SERVICES_MAX: usize = 16_384;
/// The greatest number of a flow: that of a flow and a service fits 64 bits.
const FLOW_MAX: u64 = u64::MAX / (SERVICES_MAX as u64 + 1);

impl Flows {
    fn batch(&mut self, batch: &RecordBatch) -> PyResult<NumberedBatch> {
        let column = |name: &'static str| -> PyResult<Option<&ArrayRef>> {
            let Some(column) = batch.column_by_name(name) else { return Ok(None) };
            if column.null_count() > 0 {
                return Err(wrong(format!("the column `{name}` has empty values")));
            }
            Ok(Some(column))
        };
        let needed = |name| Ok::<_, PyErr>(column(name)?.expect("it was looked for"));
        let times = times(needed(TIME)?)?;
        let lengths: Vec<u32>;
        let length = needed(LENGTH)?;
        let lengths: Arc<dyn AsRef<[u32]> + Send + Sync> = match length.as_primitive_opt::<UInt32Type>() {
            Some(fitting) => Arc::new(fitting.values().clone()),
            None => {
                let whole = whole(LENGTH, length)?;
                let fitting = whole.iter().map(|&length| u32::try_from(length));
                lengths = fitting
                    .collect::<Result<_, _>>()
                    .map_err(|_| wrong(format!("`{LENGTH}` takes bytes up to {}", u32::MAX)))?;
                Arc::new(lengths)
            }
        };
        let flows = match column(FLOW)? {
            Some(flows) => self.numbers_of(flows)?,
            None => self.numbers_of_keys(
                &ENDS
                    .map(column)
                    .into_iter()
                    .map(|end| Ok(end?.expect("it was looked for")))
                    .collect::<PyResult<Vec<_>>>()?,
            )?,
        };
        let services = column(SERVICE)?.map(|services| self.numbers_of_services(services)).transpose()?;
        let batch = TableBatch { times: Arc::new(times), flows: Arc::new(flows), lengths };
        Ok(NumberedBatch { batch, services })
    }

    fn numbers_of(&mut self, flows: &ArrayRef) -> PyResult<ScalarBuffer<u64>> {
        if let Some(names) = texts(flows) {
            return Ok(names.into_iter().map(|name| self.names.number(name)).collect());
        }
        let numbers = whole(FLOW, flows)?;
        if let Some(great) = numbers.iter().find(|&&number| number > FLOW_MAX) {
            return Err(wrong(format!("`{FLOW}` takes numbers up to {FLOW_MAX}, not {great}")));
        }
        Ok(numbers)
    }

    fn numbers_of_services(&mut self, services: &ArrayRef) -> PyResult<Vec<u64>> {
        let Some(names) = texts(services) else {
            return Err(wrong(format!("`{SERVICE}` takes names of services, not {}", services.data_type())));
        };
        let numbers = names.into_iter().map(|name| self.services.number(name)).collect();
        if self.services.names.len() > SERVICES_MAX {
            return Err(wrong(format!("`{SERVICE}` names more than {SERVICES_MAX} services")));
        }
        Ok(numbers)
    }

    fn numbers_of_keys(&mut self, ends: &[&ArrayRef]) -> PyResult<ScalarBuffer<u64>> {
        let [source, destination, source_port, destination_port, protocol] = ends else {
            unreachable!("there are five")
        };
        let addresses = |name: &str, column: &ArrayRef| {
            let texts = texts(column).ok_or_else(|| wrong(format!("`{name}` takes IP addresses as text")))?;
            let address = |text: String| {
                text.parse::<IpAddr>().map_err(|_| wrong(format!("`{name}` takes IP addresses, not `{text}`")))
            };
            texts.into_iter().map(address).collect::<PyResult<Vec<_>>>()
        };
        let ports = |name: &'static str, column: &ArrayRef| {
            let port = |&port: &u64| {
                u16::try_from(port).map_err(|_| wrong(format!("`{name}` takes ports up to {}, not {port}", u16::MAX)))
            };
            whole(name, column)?.iter().map(port).collect::<PyResult<Vec<_>>>()
        };
        let (sources, destinations) = (addresses(ENDS[0], source)?, addresses(ENDS[1], destination)?);
        let (from, to) = (ports(ENDS[2], source_port)?, ports(ENDS[3], destination_port)?);
        let protocols = protocols(protocol)?;
        let mut numbers = Vec::with_capacity(sources.len());
        for at in 0..sources.len() {
            let key = key(sources[at], destinations[at], (from[at], to[at]), protocols[at])?;
            numbers.push(self.keys.number(key));
        }
        Ok(numbers.into())
    }
}

fn key(source: IpAddr, destination: IpAddr, ports: (u16, u16), protocol: u8) -> PyResult<FlowKey> {
    let mut key = FlowKey { protocol, source_port: ports.0, destination_port: ports.1, ..FlowKey::default() };
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            key.source[..4].copy_from_slice(&source.octets());
            key.destination[..4].copy_from_slice(&destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            key.network = Network::Ipv6;
            (key.source, key.destination) = (source.octets(), destination.octets());
        }
        _ => return Err(wrong(format!("{source} and {destination} are addresses of different versions of IP"))),
    }
    Ok(key)
}

const PROTOCOLS: [(&str, u8); 2] = [("tcp", 6), ("udp", 17)];

fn protocols(column: &ArrayRef) -> PyResult<Vec<u8>> {
    let numbers: Vec<u64> = match texts(column) {
        Some(names) => names
            .iter()
            .map(|name| PROTOCOLS.iter().find(|(known, _)| known == name).map_or(0, |(_, number)| u64::from(*number)))
            .collect(),
        None => whole(ENDS[4], column)?.to_vec(),
    };
    let known = |number: u64| PROTOCOLS.iter().find(|(_, known)| u64::from(*known) == number).map(|(_, known)| *known);
    let known = numbers.into_iter().map(known).collect::<Option<_>>();
    known.ok_or_else(|| wrong(format!("`{}` takes tcp and udp, or 6 and 17", ENDS[4])))
}

/// The values of a column of texts, of whichever kind. `None`: it is another column.
fn texts(column: &ArrayRef) -> Option<Vec<String>> {
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().iter().map(owned).collect()),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().iter().map(owned).collect()),
        DataType::Utf8View => Some(column.as_string_view().iter().map(owned).collect()),
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            let values = texts(dictionary.values())?;
            Some(dictionary.normalized_keys().into_iter().map(|key| values[key].clone()).collect())
        }
        _ => None,
    }
}

/// The whole numbers of a column, from 0. Columns of 64 bits are not copied.
fn whole(name: &str, column: &ArrayRef) -> PyResult<ScalarBuffer<u64>> {
    match column.data_type() {
        DataType::UInt64 => Ok(column.as_primitive::<UInt64Type>().values().clone()),
        DataType::Int64 => same_bits(name, column.as_primitive::<Int64Type>().values()),
        DataType::UInt32 => converted::<UInt32Type>(name, column),
        DataType::Int32 => converted::<Int32Type>(name, column),
        DataType::UInt16 => converted::<UInt16Type>(name, column),
        DataType::Int16 => converted::<Int16Type>(name, column),
        DataType::UInt8 => converted::<UInt8Type>(name, column),
        DataType::Int8 => converted::<Int8Type>(name, column),
        other => Err(wrong(format!("`{name}` takes whole numbers, not {other}"))),
    }
}

/// Numbers from 0 that have a sign, as numbers without one.
fn same_bits(name: &str, values: &ScalarBuffer<i64>) -> PyResult<ScalarBuffer<u64>> {
    match values.iter().find(|&&value| value < 0) {
        Some(value) => Err(below_0(name, value)),
        None => Ok(ScalarBuffer::from(values.inner().clone())),
    }
}

fn below_0(name: &str, value: impl core::fmt::Display) -> PyErr {
    wrong(format!("`{name}` takes numbers from 0, not {value}"))
}

fn converted<T: ArrowPrimitiveType>(name: &str, column: &ArrayRef) -> PyResult<ScalarBuffer<u64>>
where
    T::Native: TryInto<u64> + Copy + core::fmt::Display,
{
    let number = |&value: &T::Native| value.try_into().map_err(|_| below_0(name, value));
    column.as_primitive::<T>().values().iter().map(number).collect()
}

/// Times in ns: whole numbers are ns, other numbers seconds; timestamps and durations have units.
fn times(column: &ArrayRef) -> PyResult<ScalarBuffer<u64>> {
    let seconds = |seconds: f64| match seconds * 1e9 {
        ns if ns.is_finite() && ns >= 0.0 => Ok(ns.round() as u64),
        _ => Err(below_0(TIME, seconds)),
    };
    match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().map(|&time| seconds(time)).collect(),
        DataType::Float32 => {
            column.as_primitive::<Float32Type>().values().iter().map(|&time| seconds(f64::from(time))).collect()
        }
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Nanosecond => same_bits(TIME, column.as_primitive::<TimestampNanosecondType>().values()),
            TimeUnit::Microsecond => scaled(column.as_primitive::<TimestampMicrosecondType>().values(), 1_000),
            TimeUnit::Millisecond => scaled(column.as_primitive::<TimestampMillisecondType>().values(), 1_000_000),
            TimeUnit::Second => scaled(column.as_primitive::<TimestampSecondType>().values(), 1_000_000_000),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Nanosecond => same_bits(TIME, column.as_primitive::<DurationNanosecondType>().values()),
            TimeUnit::Microsecond => scaled(column.as_primitive::<DurationMicrosecondType>().values(), 1_000),
            TimeUnit::Millisecond => scaled(column.as_primitive::<DurationMillisecondType>().values(), 1_000_000),
            TimeUnit::Second => scaled(column.as_primitive::<DurationSecondType>().values(), 1_000_000_000),
        },
        _ => whole(TIME, column),
    }
}

fn scaled(values: &ScalarBuffer<i64>, unit: u64) -> PyResult<ScalarBuffer<u64>> {
    let scale = |&value: &i64| {
        let value = u64::try_from(value).map_err(|_| below_0(TIME, value))?;
        value.checked_mul(unit).ok_or_else(|| wrong(format!("`{TIME}` is more than 584 years after 1970 or the start")))
    };
    values.iter().map(scale).collect()
}
