//! Buckets of connections at an interface: what comes for each, and the core that each goes to.
//!
//! A program of the kernel (XDP) hashes every frame that arrives. It counts, and frames go on as they would; or it
//! hands each frame to the core of its bucket (`BPF_MAP_TYPE_CPUMAP`), which does all the rest of the kernel's work on
//! it.
//!
//! # Source
//! Linux, `Documentation/bpf/map_cpumap.rst`; Brouer and others. CPUMAP, since Linux 4.15.

mod bare;
mod processors;
mod program;
mod tunnel;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use humpyard_core::random::Seed;
use humpyard_traffic::TrafficError;

pub use self::bare::BareProgram;
pub use self::processors::{ProcessorCount, processors};
use self::program::{Counted, Steered, program};
use crate::assembler::longest_path;
use crate::bpf::{self, Map, ProgramKind};
use crate::interface::{Interface, refused};
use crate::xdp::{Attachment, HAS_FRAGMENTS, Link, XDP};

/// Types of maps of the kernel.
const ARRAY: u32 = 2;
const ARRAY_BY_PROCESSOR: u32 = 6;
const LATEST_BY_KEY: u32 = 9;
const PROCESSORS: u32 = 16;

/// Flows that are kept in mind at once; those seen longest ago are forgotten.
const FLOWS: u32 = 4096;
/// Frames that may wait for a processor.
const WAITING: u32 = 2048;
/// Bytes of a 5-tuple: two addresses, two ports, protocol, version of IP, and nothing.
const KEY_BYTES: usize = 40;
/// Bytes of a number of packets and one of bytes.
const COUNT_BYTES: usize = 16;

/// How connections are divided into buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashing {
    /// There are 2 to the power of this many buckets, 16 at most.
    pub bits: u32,
    /// The hash is keyed by it.
    pub seed: Seed,
    /// Whether packets in tunnels are hashed by the packet inside: GRE, IP in IP, VXLAN, GTP-U.
    pub inner: bool,
}

impl Hashing {
    /// The number of buckets.
    pub const fn buckets(self) -> usize {
        1 << self.bits
    }

    /// Returns the instructions on the longest path through the program that counts by this hashing and, if it
    /// `steers`, hands frames to cores. A function of the kernel counts as the instruction that calls it.
    pub fn longest_path(self, steers: bool) -> usize {
        // Which maps there are changes no instruction but its number.
        let (counted, steered) =
            (Counted { buckets: 0, flows: 0 }, Steered { wanted: 0, state: 0, cores: 0, guard: 0 });
        longest_path(&program(self, counted, steers.then_some(steered)))
    }
}

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PacketCount {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// A flow, as far as it was looked at: one frame in [`FLOW_SAMPLE`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowCount {
    /// Where its packets come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// The ports; 0 where the protocol has none, and for fragments.
    pub ports: (u16, u16),
    /// The protocol of IP.
    pub protocol: u8,
    /// Frames of it that were looked at.
    pub count: PacketCount,
}

/// One frame in this many is looked at for its flow.
pub const FLOW_SAMPLE: u64 = 1 << program::SAMPLE_BITS;

/// Counters, and the program that counts.
#[derive(Debug)]
pub struct BucketCounters {
    port: String,
    hashing: Hashing,
    buckets: Map,
    flows: Map,
    /// Values of each entry, one for each processor that there can be.
    processors: usize,
    steering: Option<Steering>,
    program: OwnedFd,
    /// When this is dropped, the interface is as before.
    _link: Link,
    is_native: bool,
}

#[derive(Debug)]
struct Steering {
    wanted: Map,
    state: Map,
    /// What waits for each processor.
    waiting: Map,
}

impl BucketCounters {
    /// Counts what arrives at an interface, which goes on as it would.
    ///
    /// # Errors
    /// If there is no such interface, another program has it, or the privilege is lacking.
    pub fn observe(interface: &str, hashing: Hashing) -> Result<Self, TrafficError> {
        Self::open(interface, hashing, None)
    }

    /// Counts what arrives at an interface, and hands each frame to the core of its bucket: `cores[bucket]` is the
    /// number of a processor. A bucket moves once it has had no frame for `guard`.
    ///
    /// # Errors
    /// As of [`BucketCounters::observe`], and if a processor is not there.
    ///
    /// # Panics
    /// If there is not a core for each bucket.
    pub fn steer(interface: &str, hashing: Hashing, cores: &[u32], guard: Duration) -> Result<Self, TrafficError> {
        assert_eq!(cores.len(), hashing.buckets(), "a core for each bucket");
        Self::open(interface, hashing, Some((cores, guard)))
    }

    fn open(name: &str, hashing: Hashing, cores: Option<(&[u32], Duration)>) -> Result<Self, TrafficError> {
        let port = if cores.is_some() { format!("cpumap:{name}") } else { name.to_owned() };
        let interface = Interface::ready(&port, name)?;
        let doing = |what: &'static str| {
            let port = port.clone();
            move |error: io::Error| refused(&port, what, &error)
        };
        let processors = possible_processors().map_err(doing("asking for the processors"))?;
        let entries = hashing.buckets() as u32;
        let (buckets, flows) = Map::new(ARRAY_BY_PROCESSOR, COUNT_BYTES, entries)
            .and_then(|buckets| Ok((buckets, Map::keyed(LATEST_BY_KEY, KEY_BYTES, COUNT_BYTES, FLOWS)?)))
            .map_err(doing("making counters in the kernel"))?;
        let counted = Counted { buckets: buckets.descriptor(), flows: flows.descriptor() };
        let steering = cores
            .map(|(cores, guard)| Ok((Steering::new(cores, processors)?, guard)))
            .transpose()
            .map_err(doing("making the table of cores in the kernel"))?;
        let steered = steering.as_ref().map(|(steering, guard)| steering.described(*guard));
        let code = program(hashing, counted, steered);
        let (program, link, is_native) = attach(&code, &interface).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => TrafficError::unusable(
                &port,
                format!(
                    "another XDP program has `{name}`: `ip link show {name}` says which, `ip link set {name} xdp off` \
                     ends it"
                ),
            ),
            _ => refused(&port, "putting the program on the interface", &error),
        })?;
        let steering = steering.map(|(steering, _)| steering);
        Ok(Self { port, hashing, buckets, flows, processors, steering, program, _link: link, is_native })
    }

    /// Whether the program runs in the driver; if not, it runs behind it and takes more time.
    pub const fn is_native(&self) -> bool {
        self.is_native
    }

    /// Has the kernel run the program on a frame `repeat` times, and returns the mean time that it takes. The frame is
    /// counted as often.
    ///
    /// # Errors
    /// If the kernel refuses it: a frame has from 14 to about 3,000 bytes.
    pub fn time_program(&self, frame: &[u8], repeat: u32) -> Result<Duration, TrafficError> {
        let time = bpf::time(&self.program, frame, repeat);
        time.map_err(|error| refused(&self.port, "running the program on a frame", &error))
    }

    /// How connections are divided.
    pub const fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Returns how many processors there can be.
    pub const fn processors(&self) -> usize {
        self.processors
    }

    /// Returns what came for each bucket since the beginning, on each processor that took it from the interface: that
    /// of bucket b on processor p is at b * [`BucketCounters::processors`] + p.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&self) -> Result<Vec<PacketCount>, TrafficError> {
        let stride = COUNT_BYTES * self.processors;
        let values = self
            .buckets
            .read_array(self.hashing.buckets(), stride)
            .map_err(|error| refused(&self.port, "reading the counters", &error))?;
        Ok(values.chunks_exact(COUNT_BYTES).map(count).collect())
    }

    /// Returns the flows of which most frames were looked at since the last call, at most `most`.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        let mut flows = self.flows_since().map_err(|error| refused(&self.port, "reading the flows", &error))?;
        flows.sort_by(|one, other| {
            other.count.packets.cmp(&one.count.packets).then_with(|| one.source.cmp(&other.source))
        });
        flows.truncate(most);
        Ok(flows)
    }

    fn flows_since(&self) -> io::Result<Vec<FlowCount>> {
        let mut flows = Vec::new();
        for key in self.flows.keys(FLOWS as usize)? {
            let mut value = [0; COUNT_BYTES];
            if self.flows.read(&key, &mut value)? {
                self.flows.remove(&key)?;
                flows.push(flow(&key, count(&value)));
            }
        }
        Ok(flows)
    }

    /// Sets the core that each bucket is to go to; nothing where the program only counts.
    ///
    /// # Errors
    /// If the kernel refuses it.
    ///
    /// # Panics
    /// If there is not a core for each bucket.
    pub fn set(&self, cores: &[u32]) -> Result<(), TrafficError> {
        assert_eq!(cores.len(), self.hashing.buckets(), "a core for each bucket");
        let set = |steering: &Steering| {
            (0..).zip(cores).try_for_each(|(bucket, core)| steering.wanted.set(bucket, &core.to_ne_bytes()))
        };
        self.steering.as_ref().map_or(Ok(()), set).map_err(|error| refused(&self.port, "setting the table", &error))
    }

    /// Returns the core that each bucket goes to; nothing where the program only counts.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn cores(&self) -> Result<Vec<u32>, TrafficError> {
        let Some(steering) = &self.steering else { return Ok(Vec::new()) };
        let values = steering
            .state
            .read_array(self.hashing.buckets(), STATE_BYTES)
            .map_err(|error| refused(&self.port, "reading the table", &error))?;
        Ok(values.chunks_exact(STATE_BYTES).map(|entry| number(&entry[..4]) as u32).collect())
    }
}

/// Bytes of a core and of a time.
const STATE_BYTES: usize = 16;

impl Steering {
    /// A table of these cores, which can become any of `processors`.
    fn new(cores: &[u32], processors: usize) -> io::Result<Self> {
        let entries = cores.len() as u32;
        let (wanted, state) = (Map::new(ARRAY, size_of::<u32>(), entries)?, Map::new(ARRAY, STATE_BYTES, entries)?);
        let waiting = waiting(processors)?;
        for (bucket, core) in (0..).zip(cores) {
            let mut entry = [0; STATE_BYTES];
            entry[..4].copy_from_slice(&core.to_ne_bytes());
            wanted.set(bucket, &core.to_ne_bytes())?;
            state.set(bucket, &entry)?;
        }
        Ok(Self { wanted, state, waiting })
    }

    fn described(&self, guard: Duration) -> Steered {
        Steered {
            wanted: self.wanted.descriptor(),
            state: self.state.descriptor(),
            cores: self.waiting.descriptor(),
            guard: i32::try_from(guard.as_nanos()).unwrap_or(i32::MAX),
        }
    }
}

/// A queue of frames for each processor.
fn waiting(processors: usize) -> io::Result<Map> {
    let waiting = Map::new(PROCESSORS, size_of::<u32>(), processors as u32)?;
    (0..processors as u32).try_for_each(|core| waiting.set(core, &WAITING.to_ne_bytes()))?;
    Ok(waiting)
}

/// Puts the program on the interface: in the driver (`true`), or else behind it.
fn attach(code: &[bpf::Instruction], interface: &Interface) -> io::Result<(OwnedFd, Link, bool)> {
    let with = |flags, attachment| {
        let program: OwnedFd = bpf::load(ProgramKind { flags, ..XDP }, code)?;
        let link = Link::put(&program, interface, attachment)?;
        Ok::<_, io::Error>((program, link))
    };
    // Kernels before 5.18 know nothing of frames in several buffers; drivers with such frames take no other programs.
    let native = with(HAS_FRAGMENTS, Attachment::Native).or_else(|_| with(0, Attachment::Native));
    match native {
        Ok((program, link)) => Ok((program, link, true)),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(error),
        Err(_) => with(0, Attachment::Generic).map(|(program, link)| (program, link, false)),
    }
}

/// The processors that the kernel has a value for, online or not: `0-3`, `0,2-5`.
fn possible_processors() -> io::Result<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::other(format!("no list of processors: {text}")))
}

fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    if cfg!(target_endian = "big") {
        all[8 - bytes.len()..].copy_from_slice(bytes)
    } else {
        all[..bytes.len()].copy_from_slice(bytes)
    }
    u64::from_ne_bytes(all)
}

fn count(value: &[u8]) -> PacketCount {
    PacketCount { packets: number(&value[..8]), bytes: number(&value[8..COUNT_BYTES]) }
}

/// Reads a 5-tuple as the program writes it.
fn flow(key: &[u8], count: PacketCount) -> FlowCount {
    let address = |at: usize| {
        if key[37] == 4 {
            IpAddr::V4(Ipv4Addr::new(key[at], key[at + 1], key[at + 2], key[at + 3]))
        } else {
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&key[at..at + 16]).expect("16 bytes")))
        }
    };
    let port = |at: usize| u16::from_be_bytes([key[at], key[at + 1]]);
    FlowCount { source: address(0), destination: address(16), ports: (port(32), port(34)), protocol: key[36], count }
}
