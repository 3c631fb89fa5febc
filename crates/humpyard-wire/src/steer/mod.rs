//! Buckets of connections at an interface: what comes for each, and the core that each goes to.
//!
//! A program of the kernel (XDP) hashes every frame that arrives. It counts, and frames go on as they would; or it
//! hands each frame to the core of its bucket (`BPF_MAP_TYPE_CPUMAP`), which does all the rest of the kernel's work on
//! it.
//!
//! # Source
//! Linux, `Documentation/bpf/map_cpumap.rst`; Brouer and others. CPUMAP, since Linux 4.15.

mod bare;
mod buckets;
mod counters;
mod fanout;
mod indirection;
mod object;
mod order;
mod packet;
mod processors;
mod program;
mod receive;
mod table;
mod threads;
mod tunnel;

use std::io;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use humpyard_core::random::Seed;
use humpyard_traffic::TrafficError;

pub use self::bare::BareProgram;
use self::buckets::{Counted, Placed};
use self::counters::Counters;
pub use self::counters::{FlowCount, PacketCount};
pub use self::fanout::PinnedTable;
pub use self::indirection::IndirectionTable;
pub use self::order::HandOver;
use self::order::{Order, processor_value};
pub use self::processors::{ProcessorCount, processors};
use self::program::{Steered, card_program, program};
pub use self::receive::{ReceiveSteering, receive_masks};
use self::table::CoreTable;
pub use self::threads::{NapiThreads, ThreadTime};
use crate::assembler::longest_path;
use crate::bpf::{self, Map, ProgramKind};
use crate::btf;
use crate::interface::{Interface, refused};
use crate::xdp::{Attachment, BOUND_TO_DRIVER, HAS_FRAGMENTS, Link, XDP, is_virtual_cable};

/// The type of maps that hand frames to processors.
const PROCESSORS: u32 = 16;
/// Frames that may wait for a processor.
pub const CPU_MAP_SIZE: u32 = 2048;
/// Bytes of what a flow is known by: two addresses, two ports, protocol, version of IP, and the bucket.
const KEY_BYTES: usize = 40;

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
        let counted = Counted { buckets: 0, queues: Some(0), flows: 0 };
        let steered = Steered { placed: Placed { wanted: 0, state: 0, guard: 0 }, cores: 0 };
        longest_path(&program(self, counted, steers.then_some(steered)))
    }
}

/// Tells the hash that the card made of a frame.
const HASH_OF_FRAME: &str = "bpf_xdp_metadata_rx_hash";

/// How often, and how many times at most, it is looked whether frames still wait.
const DRAIN: Duration = Duration::from_millis(20);
const DRAIN_LOOKS: usize = 50;

/// One frame in this many is looked at for its flow.
pub const FLOW_SAMPLE: u64 = 1 << buckets::SAMPLE_BITS;

/// Counters, and the program that counts.
#[derive(Debug)]
pub struct BucketCounters {
    counters: Counters,
    steering: Option<Steering>,
    program: OwnedFd,
    /// When this is dropped, the interface is as before.
    link: Link,
    is_native: bool,
}

#[derive(Debug)]
struct Steering {
    table: CoreTable,
    order: Order,
    guard: Duration,
    processors: usize,
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

    /// Counts what arrives at an interface by the hash of its card: a bucket is an entry of the card's indirection
    /// table, of which there are as many as buckets.
    ///
    /// # Errors
    /// As of [`BucketCounters::observe`], and if the kernel (from Linux 6.3 on) or the driver does not tell hashes.
    pub fn observe_card(interface: &str, hashing: Hashing) -> Result<Self, TrafficError> {
        let port = format!("rss:{interface}");
        let found = Interface::ready(&port, interface)?;
        let counters = Counters::new(&port, hashing, receive_masks(interface).len().max(1))?;
        let load = || {
            let function = btf::function(HASH_OF_FRAME)?;
            let code = card_program(hashing, counters.described(), function);
            // The kernel's own functions are for such programs only.
            let kind = ProgramKind { flags: BOUND_TO_DRIVER, interface: found.index as u32, is_gpl: true, ..XDP };
            let program = bpf::load(ProgramKind { flags: BOUND_TO_DRIVER | HAS_FRAGMENTS, ..kind }, &code)
                .or_else(|_| bpf::load(kind, &code))?;
            let link = Link::put(&program, &found, Attachment::Native)?;
            Ok((program, link))
        };
        let (program, link) = load().map_err(|error: io::Error| match error.raw_os_error() {
            Some(libc::EBUSY) => occupied(&port, interface),
            Some(libc::EPERM | libc::EACCES) => refused(&port, "putting the program on the interface", &error),
            _ => TrafficError::unusable(
                &port,
                format!(
                    "the kernel (Linux 6.3 and later) or the driver of `{interface}` does not tell the hash of a frame \
                     ({error}): take cpumap:"
                ),
            ),
        })?;
        Ok(Self { counters, steering: None, program, link, is_native: true })
    }

    fn open(name: &str, hashing: Hashing, cores: Option<(&[u32], Duration)>) -> Result<Self, TrafficError> {
        let port = if cores.is_some() { format!("cpumap:{name}") } else { name.to_owned() };
        let interface = Interface::ready(&port, name)?;
        let doing = |what: &'static str| {
            let port = port.clone();
            move |error: io::Error| refused(&port, what, &error)
        };
        let counters = Counters::new(&port, hashing, receive_masks(name).len().max(1))?;
        let steering = cores
            .map(|(cores, guard)| Steering::new(hashing, cores, guard, counters.processors()))
            .transpose()
            .map_err(doing("making the table of cores in the kernel"))?;
        let load = |kind| {
            let waiting = steering.as_ref().map(|steering| steering.waiting(kind)).transpose()?;
            let steered = steering.as_ref().zip(waiting.as_ref()).map(|(steering, map)| steering.described(map));
            // The program keeps the map.
            bpf::load(kind, &program(hashing, counters.described(), steered))
        };
        let (program, link, is_native) = attach(load, &interface).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => occupied(&port, name),
            _ => refused(&port, "putting the program on the interface", &error),
        })?;
        Ok(Self { counters, steering, program, link, is_native })
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
        time.map_err(|error| refused(self.counters.port(), "running the program on a frame", &error))
    }

    /// Says what an operator has to know of an interface before its frames go to other processors; mostly nothing.
    pub fn caution(interface: &str) -> Option<String> {
        is_virtual_cable(interface).then(|| {
            format!(
                "{interface} is a virtual cable: packets are dropped for wrong checksums unless its other end computes \
                 them (there: ethtool -K NAME tx off)"
            )
        })
    }

    /// How connections are divided.
    pub const fn hashing(&self) -> Hashing {
        self.counters.hashing()
    }

    /// Returns how many processors there can be.
    pub const fn processors(&self) -> usize {
        self.counters.processors()
    }

    /// Returns what came for each bucket since the beginning, on each processor that took it from the interface: that
    /// of bucket b on processor p is at b * [`BucketCounters::processors`] + p.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&self) -> Result<Vec<PacketCount>, TrafficError> {
        self.counters.counts()
    }

    /// Returns what came by each receive queue since the beginning, on each processor that took it: that of queue q on
    /// processor p is at q * [`BucketCounters::processors`] + p.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn queue_counts(&self) -> Result<Vec<PacketCount>, TrafficError> {
        self.counters.queue_counts()
    }

    /// Returns the flows of which most frames were looked at since the last call, at most `most`.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        self.counters.heavy_flows(most)
    }

    /// Sets the core that each bucket is to go to; nothing where the program only counts.
    ///
    /// # Errors
    /// If the kernel refuses it.
    ///
    /// # Panics
    /// If there is not a core for each bucket.
    pub fn set(&self, cores: &[u32]) -> Result<(), TrafficError> {
        assert_eq!(cores.len(), self.hashing().buckets(), "a core for each bucket");
        let set = |steering: &Steering| steering.table.set(cores);
        self.steering
            .as_ref()
            .map_or(Ok(()), set)
            .map_err(|error| refused(self.counters.port(), "setting the table", &error))
    }

    /// Returns the core that each bucket goes to; nothing where the program only counts.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn cores(&self) -> Result<Vec<u32>, TrafficError> {
        let Some(steering) = &self.steering else { return Ok(Vec::new()) };
        let states =
            steering.table.states().map_err(|error| refused(self.counters.port(), "reading the table", &error))?;
        Ok(states.iter().map(|state| state.core).collect())
    }

    /// Returns what became of the frames that were handed to other processors so far; nothing where the program only
    /// counts, or runs behind the driver. Those that wait have been handed over, but did not come yet.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn handed_over(&self) -> Result<Option<HandOver>, TrafficError> {
        let counted = self.numbering().map(Steering::handed_over).transpose();
        counted.map_err(|error| refused(self.counters.port(), "reading what was handed over", &error))
    }

    /// What numbers frames: the program in the driver. Behind the driver a frame has no room for its number.
    fn numbering(&self) -> Option<&Steering> {
        self.steering.as_ref().filter(|_| self.is_native)
    }

    /// Takes the program off the interface, and returns what became of the frames that were handed over once none of
    /// them waits any more: those that have not come then were dropped.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn end(self) -> Result<Option<HandOver>, TrafficError> {
        if self.numbering().is_none() {
            return Ok(None);
        }
        let Self { counters, steering, link, .. } = self;
        drop(link);
        let Some(steering) = steering else { return Ok(None) };
        let read =
            || steering.handed_over().map_err(|error| refused(counters.port(), "reading what was handed over", &error));
        let mut last = read()?;
        for _ in 0..DRAIN_LOOKS {
            sleep(DRAIN);
            let now = read()?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(Some(last))
    }
}

impl Steering {
    /// A table of these cores, which can become any of `processors`.
    fn new(hashing: Hashing, cores: &[u32], guard: Duration, processors: usize) -> io::Result<Self> {
        Ok(Self { table: CoreTable::new(hashing, cores)?, order: Order::new(hashing)?, guard, processors })
    }

    /// The processors that frames can be handed to by a program of this kind.
    fn waiting(&self, kind: ProgramKind) -> io::Result<Map> {
        let program = self.order.load(kind)?;
        let value = processor_value(CPU_MAP_SIZE, &program);
        waiting(self.processors, &value)
    }

    fn described(&self, waiting: &Map) -> Steered {
        Steered { placed: self.table.described(self.guard), cores: waiting.descriptor() }
    }

    fn handed_over(&self) -> io::Result<HandOver> {
        self.order.count(|| self.table.numbered())
    }
}

fn occupied(port: &str, interface: &str) -> TrafficError {
    let what = format!(
        "another XDP program has `{interface}`: `ip link show {interface}` says which, and `ip link set {interface} \
         xdp off` ends it"
    );
    TrafficError::unusable(port, what)
}

/// A queue of frames for each processor, of which this says how many may wait there and, if it is long enough, which
/// program runs there.
fn waiting(processors: usize, value: &[u8]) -> io::Result<Map> {
    let waiting = Map::new(PROCESSORS, value.len(), processors as u32)?;
    (0..processors as u32).try_for_each(|core| waiting.set(core, value))?;
    Ok(waiting)
}

/// Puts the program on the interface: in the driver (`true`), or else behind it.
fn attach(
    load: impl Fn(ProgramKind) -> io::Result<OwnedFd>,
    interface: &Interface,
) -> io::Result<(OwnedFd, Link, bool)> {
    let with = |flags, attachment| {
        let program = load(ProgramKind { flags, ..XDP })?;
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
