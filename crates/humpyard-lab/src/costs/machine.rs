//! What a machine adds to the work of packets: interruptions, and the time of the threads around
//! the services.

use core::fmt::Write;

use humpyard_sim::{Disturbance, HostCosts, Interruptions};
use serde::Serialize;
use serde::ser::SerializeMap;

use super::taken::Taken;
use crate::LabError;

/// The time that a machine adds to the work of packets.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineCosts {
    /// Time to hand a packet to a worker and back, beside the work, in ns, with one packet in
    /// flight. 0: nobody measured it.
    pub hand_over_ns: f64,
    /// Time in which a cache line goes from the dispatcher's processor to that of the farthest worker and back, in ns.
    /// Left out: nobody measured it.
    #[serde(skip_serializing_if = "is_unmeasured")]
    pub round_trip_ns: f64,
    /// Bounds on the time taken from a worker or the dispatcher. In any time t, a bound allows t
    /// times its `part`, plus its `at_once_ns`.
    pub taken: Vec<Taken>,
    /// Interruptions of workers.
    pub workers: Interruptions,
    /// Interruptions of the dispatcher.
    pub dispatcher: Interruptions,
    /// Times of the threads around the services. `None`: nobody measured them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<DescribedHost>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_unmeasured(ns: &f64) -> bool {
    *ns == 0.0
}

/// The processors of a host, and the time that its threads take around the services.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DescribedHost {
    /// Processors, each with one thread of a run.
    pub processors: usize,
    /// The times.
    pub times: HostCosts,
}

/// Finds one of the times.
type Field = fn(&mut HostCosts) -> &mut f64;

/// The keys of the times in a file and in results, and the time of each key.
const TIMES: [(&str, Field); 20] = [
    ("turn_ns", |times| &mut times.turn),
    ("notice_ns", |times| &mut times.notice),
    ("deal_ns", |times| &mut times.deal),
    ("take_in_ns", |times| &mut times.take_in),
    ("take_in_per_byte_ns", |times| &mut times.per_byte),
    ("take_back_ns", |times| &mut times.take_back),
    ("onward_ns", |times| &mut times.onward),
    ("give_ns", |times| &mut times.give),
    ("give_first_ns", |times| &mut times.give_first),
    ("fetch_ns", |times| &mut times.fetch),
    ("fetch_first_ns", |times| &mut times.fetch_first),
    ("worker_ns", |times| &mut times.worker),
    ("worker_first_ns", |times| &mut times.worker_first),
    ("hold_back_ns", |times| &mut times.hold_back),
    ("own_ns", |times| &mut times.own),
    ("on_the_way_ns", |times| &mut times.hand_over),
    ("rested_ns", |times| &mut times.rested),
    ("worker_rested_ns", |times| &mut times.worker_rested),
    ("wake_ns", |times| &mut times.wake),
    ("awake_ns", |times| &mut times.awake),
];

/// Finds the values of one of the times, by a number of flows or of packets.
type Points = fn(&mut HostCosts) -> &mut Vec<(u64, f64)>;

/// The keys of times that depend on a number, and the values of each key.
const POINTS: [(&str, Points); 4] = [
    ("flows", |times| &mut times.flows),
    ("held", |times| &mut times.held),
    ("held_service", |times| &mut times.served),
    ("held_worker", |times| &mut times.worker_served),
];

/// Keys of a machine's table that describe its host.
pub(super) const HOST_KEYS: [&str; 25] = [
    "processors",
    POINTS[0].0,
    POINTS[1].0,
    POINTS[2].0,
    POINTS[3].0,
    TIMES[0].0,
    TIMES[1].0,
    TIMES[2].0,
    TIMES[3].0,
    TIMES[4].0,
    TIMES[5].0,
    TIMES[6].0,
    TIMES[7].0,
    TIMES[8].0,
    TIMES[9].0,
    TIMES[10].0,
    TIMES[11].0,
    TIMES[12].0,
    TIMES[13].0,
    TIMES[14].0,
    TIMES[15].0,
    TIMES[16].0,
    TIMES[17].0,
    TIMES[18].0,
    TIMES[19].0,
];

impl DescribedHost {
    /// Reads the host from a table, whose numbers and pairs the functions find. `None`: the table
    /// describes no host.
    pub(super) fn read<E>(
        number: impl Fn(&str) -> Result<Option<f64>, E>,
        pairs: impl Fn(&str) -> Result<Vec<(f64, f64)>, E>,
    ) -> Result<Option<Self>, E> {
        let Some(processors) = number("processors")? else { return Ok(None) };
        let mut times = HostCosts::default();
        for (key, time) in TIMES {
            *time(&mut times) = number(key)?.unwrap_or(0.0);
        }
        let rising = |key| -> Result<Vec<(u64, f64)>, E> {
            let mut points: Vec<(u64, f64)> = pairs(key)?.into_iter().map(|(place, ns)| (place as u64, ns)).collect();
            points.sort_unstable_by_key(|&(place, _)| place);
            Ok(points)
        };
        for (key, points) in POINTS {
            *points(&mut times) = rising(key)?;
        }
        Ok(Some(Self { processors: processors as usize, times }))
    }

    /// Returns the number of processors of a simulation of this many cores and dispatchers. If the host has too few,
    /// it is extended: then each core, each dispatcher and the reader of several have a processor of their own. A host
    /// with a processor for each core is not extended, and its threads sit as those of a live run. Cores without a
    /// dispatcher have a processor each.
    pub fn processors_for(&self, cores: usize, dispatchers: usize) -> usize {
        match dispatchers {
            0 => self.processors.max(cores),
            _ if cores <= self.processors => self.processors,
            1 => cores + 1,
            several => cores + several + 1,
        }
    }

    /// Multiplies all times in which a thread works.
    pub(crate) fn scale(&mut self, factor: f64) {
        let (awake, hold_back) = (self.times.awake, self.times.hold_back);
        TIMES.iter().for_each(|(_, time)| *time(&mut self.times) *= factor);
        for (_, points) in POINTS {
            points(&mut self.times).iter_mut().for_each(|(_, ns)| *ns *= factor);
        }
        // How long a thread waits before it sleeps, or hands results over, is no work.
        (self.times.awake, self.times.hold_back) = (awake, hold_back);
    }

    /// Returns each time with its key, in ns.
    pub fn times(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let mut times = self.times.clone();
        TIMES.map(|(key, time)| (key, *time(&mut times))).into_iter()
    }

    /// Returns the values of each time that depends on a number, with its key.
    fn points(&self) -> impl Iterator<Item = (&'static str, Vec<(u64, f64)>)> {
        let mut times = self.times.clone();
        POINTS.map(|(key, points)| (key, points(&mut times).clone())).into_iter()
    }
}

impl Serialize for DescribedHost {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("processors", &self.processors)?;
        for (key, ns) in self.times() {
            map.serialize_entry(key, &ns)?;
        }
        for (key, points) in self.points() {
            map.serialize_entry(key, &points)?;
        }
        map.end()
    }
}

/// The meaning of each key of a described host.
#[cfg(feature = "schema")]
const MEANINGS: [(&str, &str); 25] = [
    ("processors", "Number of processors, each with one thread of a run."),
    ("turn_ns", "Time of a turn of the dispatcher's loop, in ns, without the packets that it takes in or back."),
    ("notice_ns", "Time from the arrival of a packet until an idle dispatcher sees it, in ns."),
    ("deal_ns", "Time in which the reader of several dispatchers reads a packet and gives it to one of them, in ns."),
    ("take_in_ns", "Time to read a packet, find its flow and decide, in ns."),
    ("take_in_per_byte_ns", "Time to read one byte of a packet, in ns."),
    ("take_back_ns", "Time to complete a packet, in ns: its account, its measurements, its way out."),
    ("onward_ns", "Time to complete a packet that goes on to the next service of its chain, in ns."),
    ("give_ns", "Time to give a packet to a worker, in ns."),
    ("give_first_ns", "Extra time of the first packet that a turn gives to a worker, in ns."),
    ("fetch_ns", "Time to fetch a packet that a worker has done, in ns."),
    ("fetch_first_ns", "Extra time of the first packet that a turn fetches from a worker, in ns."),
    ("worker_ns", "Time of a worker for a packet, in ns, beside its service."),
    ("worker_first_ns", "Extra time of a packet that finds its worker without work, in ns."),
    (
        "hold_back_ns",
        "Longest time, in ns, for which a worker holds back the results of packets that it has found together.",
    ),
    ("own_ns", "Time of the dispatcher for a packet that it serves itself, in ns, beside the service."),
    (
        "on_the_way_ns",
        "Time from giving a packet to an awake worker until the worker begins, and from the reader to one of several \
         dispatchers, in ns.",
    ),
    ("rested_ns", "Extra time of the first packet after the dispatcher was idle for 5 us, in ns."),
    ("worker_rested_ns", "Extra time of the first packet after a worker was idle for 5 us, in ns."),
    ("wake_ns", "Time to wake a sleeping worker, in ns."),
    ("awake_ns", "Idle time after which a worker sleeps, in ns."),
    ("flows", "Extra time of a packet at the dispatcher, as pairs: the number of known flows, and the time in ns."),
    ("held", "Extra time of a packet at the dispatcher, as pairs: the number of packets held, and the time in ns."),
    (
        "held_service",
        "Extra time of a service on the dispatcher's thread, as pairs: the number of packets held, and the time in ns.",
    ),
    ("held_worker", "Extra time of a service on a worker, as pairs: the number of packets held, and the time in ns."),
];

#[cfg(feature = "schema")]
impl schemars::JsonSchema for DescribedHost {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DescribedHost".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let host = Self::default();
        let time = generator.subschema_for::<f64>();
        let points = generator.subschema_for::<Vec<(u64, f64)>>();
        let mut properties =
            serde_json::Map::from_iter([("processors".to_owned(), generator.subschema_for::<usize>().into())]);
        properties.extend(host.times().map(|(key, _)| (key.to_owned(), time.clone().into())));
        properties.extend(host.points().map(|(key, _)| (key.to_owned(), points.clone().into())));
        for (key, meaning) in MEANINGS {
            if let Some(serde_json::Value::Object(property)) = properties.get_mut(key) {
                property.insert("description".to_owned(), meaning.into());
            }
        }
        let required: Vec<String> = properties.keys().cloned().collect();
        schemars::json_schema!({ "type": "object", "properties": properties, "required": required })
    }
}

impl MachineCosts {
    /// How threads are interrupted: a worker that looks at the clock all the time is the same at
    /// work and without.
    pub(crate) fn disturbance(&self) -> Option<Disturbance> {
        if self.workers.is_none() && self.dispatcher.is_none() {
            return None;
        }
        let workers = self.workers.clone();
        Some(Disturbance { at_work: workers.clone(), idle: workers, dispatcher: self.dispatcher.clone() })
    }

    /// Returns the described host. `name` is the name of the machine.
    ///
    /// # Errors
    /// The machine describes no host.
    pub(crate) fn host(&self, name: &str) -> Result<&DescribedHost, LabError> {
        self.host.as_ref().ok_or_else(|| {
            LabError::option(format!(
                "@host {name}: it does not describe a host: `humpyard calibrate --machine --output FILE` writes a file that does"
            ))
        })
    }

    pub(super) fn write(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n# `taken`: of any time a part, and ns at once. Runs and stops: ns, and how many were so long.\n\
             [machine]\nhand_over_ns = {}",
            self.hand_over_ns
        );
        if !is_unmeasured(&self.round_trip_ns) {
            let _ = writeln!(text, "round_trip_ns = {}", self.round_trip_ns);
        }
        let taken = self.taken.iter().map(|taken| format!("[{}, {}]", taken.part, taken.at_once.as_nanos()));
        let _ = writeln!(text, "taken = [{}]", taken.collect::<Vec<_>>().join(", "));
        for (name, lengths) in [
            ("worker_runs", &self.workers.runs),
            ("worker_stops", &self.workers.stops),
            ("dispatcher_runs", &self.dispatcher.runs),
            ("dispatcher_stops", &self.dispatcher.stops),
        ] {
            let pairs = lengths.iter().map(|(ns, count)| format!("[{ns}, {count}]"));
            let _ = writeln!(text, "{name} = [{}]", pairs.collect::<Vec<_>>().join(", "));
        }
        if let Some(host) = &self.host {
            let _ = writeln!(text, "processors = {}", host.processors);
            for (key, ns) in host.times() {
                let _ = writeln!(text, "{key} = {ns}");
            }
            for (name, points) in host.points() {
                let points = points.iter().map(|(place, ns)| format!("[{place}, {ns}]"));
                let _ = writeln!(text, "{name} = [{}]", points.collect::<Vec<_>>().join(", "));
            }
        }
    }
}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_host_has_a_meaning() {
        let keys: Vec<&str> = MEANINGS.iter().map(|(key, _)| *key).collect();
        assert!(HOST_KEYS.iter().all(|key| keys.contains(key)) && keys.len() == HOST_KEYS.len());
        let schema = serde_json::to_value(schemars::schema_for!(DescribedHost)).expect("JSON");
        for key in HOST_KEYS {
            let said = schema["properties"][key]["description"].as_str().unwrap_or_default();
            assert!(said.ends_with('.') && (key == "processors" || said.contains("ns")), "{key}: {said}");
        }
    }
}
