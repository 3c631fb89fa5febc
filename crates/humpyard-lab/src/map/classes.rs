//! The classes of traffic of the map: generators that come with humpyard, and captures that the rule has not seen.

use std::path::Path;

use crate::LabError;

/// Name of the class whose points are numbers and shares of elephants.
pub(super) const ELEPHANTS: &str = "elephants";
/// Load of all points of [`ELEPHANTS`].
const ELEPHANTS_LOAD: f64 = 0.6;
/// Numbers of elephants.
const ELEPHANT_COUNTS: [u64; 5] = [1, 2, 4, 8, 16];
/// Parts of a core that each elephant keeps busy.
const ELEPHANT_SHARES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// Part of all work that elephants have, at most: the rest is the traffic beside them.
const ELEPHANTS_PART_MAX: f64 = 0.8;
/// Simulations of each cell of a class with few flows.
const SEEDS: usize = 3;
/// Times as many packets as other classes have, for each seed.
const PACKETS_A_SEED: f64 = 1.0 / SEEDS as f64;
/// Packets held at once, for each core.
const BUFFER_PER_CORE: usize = 256;

/// Every packet takes 13.7 us.
const EVEN_WORK: &[(&str, &str)] = &[("costs", "table:everest"), ("services", "forward")];
/// A packet takes 32 us and 0.92 us for each byte.
const WORK_BY_LENGTH: &[(&str, &str)] = &[("costs", "table:predictive"), ("services", "fec")];

/// A class of traffic.
#[derive(Clone, Debug)]
pub(super) struct TrafficClass {
    /// Its name.
    pub(super) name: String,
    /// What it is, in a sentence.
    pub(super) about: String,
    /// Options of all its simulations, beside its input.
    options: &'static [(&'static str, &'static str)],
    inputs: Inputs,
    /// Times as many packets as other classes have.
    pub(super) packets_times: f64,
    /// Simulations of each cell, with one seed each: the medians count. With few flows, chance decides which of them a
    /// hash puts on the same core.
    pub(super) seeds: usize,
}

/// The packets of a class.
#[derive(Clone, Debug)]
enum Inputs {
    /// Generators, for this number of cores and of packets.
    Model(fn(usize, u64) -> Vec<String>),
    /// One generator for each number of elephants and share.
    Elephants,
    /// A file, of which this many packets count at most.
    Capture(String),
}

/// Elephants: how many, and the part of a core that each keeps busy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Herd {
    pub(super) count: u64,
    pub(super) share: f64,
}

/// One kind of traffic at one load.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MapPoint {
    pub(super) inputs: Vec<String>,
    pub(super) load: f64,
    /// The elephants. `None`: the class does not count them.
    pub(super) herd: Option<Herd>,
}

impl TrafficClass {
    fn model(
        name: &str,
        about: &str,
        options: &'static [(&'static str, &'static str)],
        inputs: fn(usize, u64) -> Vec<String>,
    ) -> Self {
        let (name, about) = (name.to_owned(), about.to_owned());
        Self { name, about, options, inputs: Inputs::Model(inputs), packets_times: 1.0, seeds: 1 }
    }

    /// Describes a capture, by the name of its file.
    ///
    /// # Errors
    /// A path without a name.
    pub(super) fn capture(path: &str) -> Result<Self, LabError> {
        let file = Path::new(path).file_name().and_then(|name| name.to_str());
        let name = file.and_then(|file| file.split('.').next()).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| LabError::option(format!("@capture takes a file, not `{path}`")))?;
        let plain: String = name.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect();
        Ok(Self {
            name: format!("capture-{plain}"),
            about: format!("the capture {}", file.unwrap_or(path)),
            options: EVEN_WORK,
            inputs: Inputs::Capture(path.to_owned()),
            packets_times: 1.0,
            seeds: 1,
        })
    }

    /// Returns whether the rule is judged on it, and not learnt from it.
    pub(super) fn is_held_out(&self) -> bool {
        matches!(self.inputs, Inputs::Capture(_))
    }

    /// Returns what is simulated for this number of cores: each point with all its packets.
    pub(super) fn points(&self, cores: usize, loads: &[f64], packets: u64) -> Vec<MapPoint> {
        let at_loads = |inputs: Vec<String>| {
            let point = |&load: &f64| MapPoint { inputs: inputs.clone(), load, herd: None };
            loads.iter().map(point).collect()
        };
        match &self.inputs {
            Inputs::Model(inputs) => at_loads(inputs(cores, packets)),
            Inputs::Capture(path) => at_loads(vec![path.clone()]),
            Inputs::Elephants => {
                let herds =
                    ELEPHANT_COUNTS.iter().flat_map(|&count| ELEPHANT_SHARES.map(|share| Herd { count, share }));
                herds.filter_map(|herd| elephants(herd, cores, packets)).collect()
            }
        }
    }

    /// Returns the options of its simulations on this number of cores, as the file of a sweep has them.
    pub(super) fn options(&self, cores: usize, packets: u64) -> Vec<(&'static str, String)> {
        let mut options: Vec<_> = self.options.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        options.push(("buffer", (BUFFER_PER_CORE * cores).to_string()));
        if self.is_held_out() {
            options.push(("packets", packets.to_string()));
        }
        options
    }
}

/// Elephants beside short conversations. `None`: there would be too little work beside them.
fn elephants(herd: Herd, cores: usize, packets: u64) -> Option<MapPoint> {
    let part = herd.count as f64 * herd.share / (ELEPHANTS_LOAD * cores as f64);
    let input =
        format!("gen:messages:flows={},packets={packets},elephants={},elephant={part:.6}", 64 * cores, herd.count);
    let point = MapPoint { inputs: vec![input], load: ELEPHANTS_LOAD, herd: Some(herd) };
    (part <= ELEPHANTS_PART_MAX).then_some(point)
}

/// Returns all classes that come with humpyard.
pub(super) fn classes() -> Vec<TrafficClass> {
    [few_and_many_flows(), messages_and_media(), bursts_and_services(), long_flows()].into_iter().flatten().collect()
}

/// Returns the classes that differ in the number and weight of flows.
fn few_and_many_flows() -> Vec<TrafficClass> {
    vec![
        TrafficClass::model(
            "uniform",
            "256 flows a core, each as likely as any other; every packet takes as long",
            EVEN_WORK,
            |cores, packets| vec![format!("gen:poisson:flows={},packets={packets},length=200", 256 * cores)],
        ),
        TrafficClass {
            seeds: SEEDS,
            packets_times: PACKETS_A_SEED,
            ..TrafficClass::model(
                "few-elephants",
                "two flows that each keep half a core busy at load 1, and short conversations",
                EVEN_WORK,
                |cores, packets| {
                    let part = 1.0 / cores as f64;
                    vec![format!("gen:messages:flows={},packets={packets},elephants=2,elephant={part}", 64 * cores)]
                },
            )
        },
        TrafficClass::model(
            "many-elephants",
            "two flows a core that each keep a quarter of a core busy at load 1, and short conversations",
            EVEN_WORK,
            |cores, packets| {
                let flows = 64 * cores;
                vec![format!("gen:messages:flows={flows},packets={packets},elephants={},elephant=0.5", 2 * cores)]
            },
        ),
        TrafficClass::model(
            "syn-flood",
            "four of five packets are of flows with a single packet of 64 bytes, the others are short conversations",
            EVEN_WORK,
            |cores, packets| {
                let (flood, others) = (packets - packets / 5, packets / 5);
                let calm = format!("gen:messages:flows={},packets={others},pps=1M,elephant=0", 64 * cores);
                vec![format!("gen:poisson:flows=268435456,packets={flood},pps=4M"), calm]
            },
        ),
    ]
}

/// Returns the classes of applications: messages, films, machines, and times that differ much.
fn messages_and_media() -> Vec<TrafficClass> {
    vec![
        TrafficClass::model(
            "messages",
            "short requests and answers in bursts, with heavy-tailed lengths of conversations and no elephant",
            EVEN_WORK,
            |cores, packets| vec![format!("gen:messages:flows={},packets={packets},elephant=0", 64 * cores)],
        ),
        TrafficClass::model(
            "video",
            "five films a core are transcoded; a packet is a group of pictures, and takes by its length",
            WORK_BY_LENGTH,
            |cores, packets| vec![format!("gen:ffmpeg:streams={},packets={packets},jitter=1", 5 * cores)],
        ),
        TrafficClass::model(
            "industrial",
            "eight evenly paced flows a core, each with its own period",
            EVEN_WORK,
            |cores, packets| vec![format!("gen:spc:flows={},packets={packets}", 8 * cores)],
        ),
        TrafficClass {
            packets_times: 10.0 / 3.0,
            ..TrafficClass::model(
                "heavy-tailed",
                "64 flows a core; service times from 91 us to 8.3 ms with a heavy tail, drawn for each packet",
                WORK_BY_LENGTH,
                |cores, packets| {
                    let lengths = "64*1000/128*350/256*125/512*45/1024*16/2048*5/4096*2/9000*1";
                    vec![format!("gen:imix:flows={},packets={packets},lengths={lengths}", 64 * cores)]
                },
            )
        },
    ]
}

/// Returns the classes of traffic that changes, and of several services.
fn bursts_and_services() -> Vec<TrafficClass> {
    vec![
        TrafficClass::model(
            "bursts",
            "self-similar bursts: sources that are on and off for heavy-tailed times",
            EVEN_WORK,
            |cores, packets| vec![format!("gen:onoff:sources={},packets={packets}", 6 * cores)],
        ),
        TrafficClass::model(
            "moving-skew",
            "eight flows a core of eight applications; from the middle on, one of them has half of the work",
            EVEN_WORK,
            |cores, packets| {
                let change = packets / 2;
                vec![format!("gen:spc-apps:apps=8,flows={cores},packets={packets},change={change},first=0.5")]
            },
        ),
        TrafficClass::model(
            "chains",
            "every packet goes through forwarding, encryption and forward error correction, one after the other",
            &[("costs", "table:predictive"), ("services", "forward,encrypt,fec")],
            |cores, packets| vec![format!("gen:messages:flows={},packets={packets},elephant=0.05", 64 * cores)],
        ),
        TrafficClass::model(
            "tenants",
            "three tenants with a service each, 88, 11 and 1 % of the packets; sharing policies share among tenants",
            &[
                ("costs", "table:everest"),
                ("services", "tcp=v4-v6-tcp,udp=v4-v6-udp,other=v4-v6-icmp"),
                ("clients", "service"),
            ],
            |cores, packets| vec![format!("gen:poisson:mix=services,flows={},packets={packets}", 32 * cores)],
        ),
    ]
}

/// Returns the classes in which a few flows are most of the traffic.
fn long_flows() -> Vec<TrafficClass> {
    vec![
        TrafficClass {
            seeds: SEEDS,
            packets_times: PACKETS_A_SEED,
            ..TrafficClass::model(
                "long-flows",
                "four long flows a core, and nothing else",
                EVEN_WORK,
                |cores, packets| vec![format!("gen:poisson:flows={},packets={packets},length=1400", 4 * cores)],
            )
        },
        TrafficClass {
            name: ELEPHANTS.to_owned(),
            about: format!(
                "1 to 16 flows with 0.1 to 0.9 of a core each, beside short conversations, at load {ELEPHANTS_LOAD}"
            ),
            options: EVEN_WORK,
            inputs: Inputs::Elephants,
            packets_times: PACKETS_A_SEED,
            seeds: SEEDS,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elephants_have_their_share_of_a_core() {
        let classes = classes();
        let elephants = classes.iter().find(|class| class.name == ELEPHANTS).expect("a class");
        let points = elephants.points(4, &[0.1], 1000);
        let has = |count, share| points.iter().find(|point| point.herd == Some(Herd { count, share }));
        // Of 2.4 cores that are busy, 0.6 are those of two elephants.
        let two = has(2, 0.3).expect("a point");
        assert_eq!(two.inputs, ["gen:messages:flows=256,packets=1000,elephants=2,elephant=0.250000"]);
        assert!(has(16, 0.1).is_some() && has(16, 0.3).is_none(), "no more work than there is");
    }

    #[test]
    fn names_are_different_and_fit_into_paths() {
        let mut names: Vec<String> = classes().into_iter().map(|class| class.name).collect();
        let plain = TrafficClass::capture("some where/day 1.pcap.gz").expect("a capture");
        assert_eq!((plain.name.as_str(), plain.is_held_out()), ("capture-day-1", true));
        names.push(plain.name);
        assert!(names.iter().all(|name| name.chars().all(|one| one.is_ascii_alphanumeric() || one == '-')));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(TrafficClass::capture("..").is_err());
    }
}
