//! The data that C and Rust exchange. In a configuration, 0 and NULL mean the defaults.

use core::ffi::{CStr, c_char};

use humpyard::config::{SchedulerConfig, ServiceConfig};
use humpyard::cost::LinearCost;
use humpyard::embed::{self, Embedded, Refusal};
use humpyard::id::{ClientId, FlowId, ServiceId};
use humpyard::mechanism::{self, Arrival, DropReason, FlowOrder, Limits};
use humpyard::packet;
use humpyard::policy::Ties;
use humpyard::random::Seed;
use humpyard::unit::{Time, WorkUnit};

use crate::failure::Failure;

/// Why a packet was dropped.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// The scheduler held as many packets as it has room for.
    BufferFull = -1,
    /// The queue held as many packets as a queue may.
    QueueFull = -2,
    /// The client had as many packets waiting as a client may.
    ClientFull = -3,
    /// Another packet took its room. Never in this version, which drops the arriving packet instead.
    PushedOut = -4,
}

/// Returns the number that tells C the outcome of an arrival: a slot, or a [`Dropped`].
#[inline]
pub(crate) fn answer(arrival: Arrival) -> i64 {
    match arrival {
        Arrival::Queued(slot) => slot.0.into(),
        Arrival::Dropped(reason) => Dropped::from(reason) as i64,
    }
}

impl From<DropReason> for Dropped {
    fn from(reason: DropReason) -> Self {
        match reason {
            DropReason::BufferFull => Self::BufferFull,
            DropReason::QueueFull => Self::QueueFull,
            DropReason::ClientFull => Self::ClientFull,
            DropReason::PushedOut => Self::PushedOut,
        }
    }
}

/// The unit of work.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes: each packet is charged its length.
    Bytes = 0,
    /// Packets: each packet is charged one.
    Packets = 1,
    /// Nanoseconds of one core: each packet is charged its processing time.
    Nanoseconds = 2,
}

/// The part of a longer unit that a packet is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The whole unit.
    Whole = 0,
    /// The first part.
    First = 1,
    /// Neither the first nor the last part.
    Middle = 2,
    /// The last part.
    Last = 3,
}

/// A service's properties. All 0: nothing is known of the service.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Processing time of a typical packet on a core.
    pub packet_time_ns: u64,
    /// Time that a core needs to switch to this service.
    pub switch_cost_ns: u64,
    /// The longest tolerable delay. 0: any delay.
    pub tolerance_ns: u64,
    /// Estimated cost of a packet of length 0, in the unit of work. If `per_byte_milli` and `cold` are 0 too,
    /// the estimate is the packet's bytes, one packet, or one nanosecond per byte, by unit.
    pub fixed: u32,
    /// Estimated cost of each byte, in thousandths of the unit of work.
    pub per_byte_milli: u32,
    /// Estimated extra cost if the core served another service before.
    pub cold: u32,
    /// The guaranteed share of the cores, in millionths. The sum over all services is at most a million.
    pub guarantee_millionths: u32,
}

/// The configuration of a scheduler. All 0: one core, one client, one flow, one service, and room for 1024
/// packets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Number of cores. 0: one.
    pub cores: u32,
    /// Contexts of each processing element: this many consecutive cores take turns to compute. 0: one.
    pub contexts: u32,
    /// The distances between cores, as fan-outs from the root such as "2x2x2" (sockets, caches, cores). The
    /// cost of crossing each level, from 1, may follow: "2x4:2.0,1.2". NULL: all cores are equally near.
    pub topology: *const c_char,
    /// Speeds of the first cores, in thousandths of the speed that the estimates assume. The other cores have
    /// 1000.
    pub speeds: *const u32,
    /// Number of speeds.
    pub speed_count: usize,
    /// Number of clients. 0: one.
    pub clients: u32,
    /// Number of flows. 0: one.
    pub flows: u32,
    /// Most packets held at once, waiting or in service. 0: 1024.
    pub packets: u32,
    /// Length of the longest packet, in bytes; a longer one is refused. 0: 1514.
    pub longest: u32,
    /// Weights of the first clients, from 1. The other clients have 1.
    pub weights: *const u32,
    /// Number of weights.
    pub weight_count: usize,
    /// The services.
    pub services: *const Service,
    /// Number of services. 0: one service, which has all cores.
    pub service_count: usize,
    /// Most packets waiting in one queue. 0: no limit.
    pub queue_limit: u32,
    /// Most packets of one client waiting in one queue. 0: no limit.
    pub client_limit: u32,
    /// Packets in flight per core. 0: one.
    pub in_flight: u32,
    /// Number of services that stay resident on a core: switching back to one of them takes no time. 0: one.
    pub services_per_core: u16,
    /// The unit of work, a `humpyard_unit`.
    pub unit: u8,
    /// Whether several cores may serve one client at once, so that its packets may overtake each other. 0: no.
    pub free_order: u8,
    /// Whether the higher id wins a tie. 0: no.
    pub ties_highest: u8,
    /// Seed of the random policies. 0: 1.
    pub seed: u64,
}

/// The description of one packet. Its contents stay with the program.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// A hash of its connection, the same in both directions. Policies that steer by hash use it.
    pub key: u64,
    /// The packet's estimated work. For an arriving packet, only `oracle` uses it.
    pub estimate: u64,
    /// Its flow, from 0.
    pub flow: u32,
    /// The client that is charged, from 0.
    pub client: u32,
    /// Its length in bytes.
    pub length: u32,
    /// The Toeplitz hash of its connection.
    pub rss: u32,
    /// The service that the packet needs, from 0.
    pub service: u16,
    /// The part of a longer unit that it is, a `humpyard_part`.
    pub part: u8,
    /// Whether it begins or ends its connection, as SYN, FIN and RST do. 0: no. Only `sprayer` uses it.
    pub changes_connection: u8,
}

impl Packet {
    /// Rejects an unknown part.
    #[inline]
    pub(crate) fn check_part(&self) -> Result<(), Refusal> {
        match self.part {
            0..=3 => Ok(()),
            part => Err(Refusal::argument(format!("no part {part}: there are 4, numbered from 0"))),
        }
    }

    /// Rejects packets if one has an unknown part.
    #[inline]
    pub(crate) fn check_parts(packets: &[Self]) -> Result<(), Refusal> {
        // Valid parts fit into two bits, so one test of all bits together finds an invalid one. Groups of four
        // take fewer steps.
        let bits = |packets: &[Self]| packets.iter().fold(0, |bits, packet| bits | packet.part);
        let (fours, rest) = packets.as_chunks::<4>();
        if fours.iter().fold(bits(rest), |all, four| all | bits(four)) <= 3 {
            return Ok(());
        }
        let wrong = packets.iter().enumerate().find_map(|(number, packet)| Some((number, packet.check_part().err()?)));
        wrong.map_or(Ok(()), |(number, refusal)| Err(refusal.of_packet(number)))
    }

    /// Returns the packet for the scheduler; its part must be valid.
    #[inline]
    pub(crate) fn read(&self) -> packet::Packet {
        // A valid part has two bits; the mask spares a comparison.
        let part = match self.part & 3 {
            1 => packet::Part::First,
            2 => packet::Part::Middle,
            3 => packet::Part::Last,
            _ => packet::Part::Whole,
        };
        packet::Packet {
            key: self.key,
            estimate: self.estimate,
            flow: FlowId(self.flow),
            client: ClientId(self.client),
            length: self.length,
            rss: self.rss,
            service: ServiceId(self.service),
            part,
            changes_connection: self.changes_connection != 0,
            ..packet::Packet::default()
        }
    }
}

impl From<&packet::Packet> for Packet {
    fn from(packet: &packet::Packet) -> Self {
        let part = match packet.part {
            packet::Part::Whole => Part::Whole,
            packet::Part::First => Part::First,
            packet::Part::Middle => Part::Middle,
            packet::Part::Last => Part::Last,
        };
        Self {
            key: packet.key,
            estimate: packet.estimate,
            flow: packet.flow.0,
            client: packet.client.0,
            length: packet.length,
            rss: packet.rss,
            service: packet.service.0,
            part: part as u8,
            changes_connection: u8::from(packet.changes_connection),
        }
    }
}

/// A packet for a core to serve.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// Arrival time.
    pub arrival_ns: u64,
    /// Its number among the packets that were not dropped, from 0.
    pub sequence: u64,
    /// The packet.
    pub packet: Packet,
    /// Its slot, which names it at completion.
    pub slot: u32,
    /// Whether the core's previous packet had another service, or there was none.
    pub cold: bool,
}

impl From<&mechanism::Dispatch> for Dispatch {
    fn from(dispatch: &mechanism::Dispatch) -> Self {
        Self {
            arrival_ns: dispatch.packet.arrival.as_ns(),
            sequence: dispatch.packet.sequence,
            packet: Packet::from(&dispatch.packet),
            slot: dispatch.slot.0,
            cold: dispatch.cold,
        }
    }
}

/// A core that switches to another service.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Time that the switch takes.
    pub cost_ns: u64,
    /// The core, which serves no packet during the switch.
    pub core: u16,
    /// The new service.
    pub to: u16,
}

impl From<&mechanism::Switch> for Switch {
    fn from(switch: &mechanism::Switch) -> Self {
        Self { cost_ns: switch.cost.as_ns(), core: switch.core.0, to: switch.to.0 }
    }
}

/// Counts of all packets. Always: arrived = processed + held + dropped.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that are complete.
    pub processed: u64,
    /// Packets waiting or in service now.
    pub held: u64,
    /// Packets dropped because the scheduler was full.
    pub buffer_full: u64,
    /// Packets dropped because their queue was full.
    pub queue_full: u64,
    /// Packets dropped because their client had too many waiting.
    pub client_full: u64,
}

impl From<&mechanism::Account> for Account {
    fn from(account: &mechanism::Account) -> Self {
        Self {
            arrived: account.arrived,
            processed: account.processed,
            held: account.held,
            buffer_full: account.dropped(DropReason::BufferFull),
            queue_full: account.dropped(DropReason::QueueFull),
            client_full: account.dropped(DropReason::ClientFull),
        }
    }
}

/// Reads a string. `None`: it is NULL.
///
/// # Safety
/// `text` is NULL or a string that lives as long as the result.
pub(crate) unsafe fn text<'a>(name: &'static str, text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not NULL, so the caller passed a string.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some).map_err(|_| Refusal::argument(format!("`{name}` is not UTF-8")).into())
}

/// Reads a list.
///
/// # Safety
/// `list` is NULL or points to `count` items that live as long as the result.
pub(crate) unsafe fn list<'a, T>(name: &'static str, list: *const T, count: usize) -> Result<&'a [T], Failure> {
    check_list(name, list, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: it is not NULL, not longer than an object may be, and the caller passed `count` items.
    Ok(unsafe { core::slice::from_raw_parts(list, count) })
}

/// Rejects a list that is NULL or longer than an object may be, unless it is empty.
pub(crate) fn check_list<T>(name: &'static str, list: *const T, count: usize) -> Result<(), Failure> {
    if count > 0 && list.is_null() {
        return Err(Failure::Null(name));
    }
    if count > Embedded::PLACES_MAX {
        return Err(Refusal::argument(format!("{count} {name} are too many")).into());
    }
    Ok(())
}

/// Reads the length of the longest packet and a configuration. NULL: all defaults.
///
/// # Safety
/// `config` is NULL or a configuration whose pointers are each NULL or valid.
pub(crate) unsafe fn config(config: *const Config) -> Result<(u32, SchedulerConfig), Failure> {
    let default = SchedulerConfig::default();
    // SAFETY: the caller passes NULL or a valid configuration.
    let Some(given) = (unsafe { config.as_ref() }) else { return Ok((SchedulerConfig::LONGEST_BYTES, default)) };
    // SAFETY: the caller's pointers are each NULL or valid.
    let (topology, speeds, weights, services) = unsafe {
        (
            text("topology", given.topology)?,
            list("speeds", given.speeds, given.speed_count)?,
            list("weights", given.weights, given.weight_count)?,
            list("services", given.services, given.service_count)?,
        )
    };
    let count = |given: u32, default: usize| if given == 0 { default } else { given as usize };
    let limit = |given: u32, default: u32| if given == 0 { default } else { given };
    let limits = Limits::default()
        .with_queue(limit(given.queue_limit, default.limits.queue))
        .with_client(limit(given.client_limit, default.limits.client));
    let clients = count(given.clients, default.clients);
    let unit = unit(given.unit)?;
    let (services, estimates) = embed::services(services.iter().map(service), unit);
    let config = SchedulerConfig {
        cores: count(given.cores, default.cores),
        contexts: count(given.contexts, default.contexts),
        speeds: speeds.to_vec(),
        topology: topology.map(embed::topology).transpose()?,
        clients,
        flows: count(given.flows, default.flows),
        packets: count(given.packets, default.packets),
        in_flight: limit(given.in_flight, default.in_flight),
        weights: embed::weights(weights, clients)?,
        unit,
        services,
        estimates,
        services_per_core: count(given.services_per_core.into(), default.services_per_core),
        limits,
        flow_order: if given.free_order == 0 { FlowOrder::Hold } else { FlowOrder::Free },
        ties: if given.ties_highest == 0 { Ties::Lowest } else { Ties::Highest },
        seed: if given.seed == 0 { default.seed } else { Seed(given.seed) },
        ..default
    };
    Ok((limit(given.longest, SchedulerConfig::LONGEST_BYTES), config))
}

fn unit(unit: u8) -> Result<WorkUnit, Refusal> {
    match unit {
        0 => Ok(WorkUnit::Bytes),
        1 => Ok(WorkUnit::Packets),
        2 => Ok(WorkUnit::Nanoseconds),
        unit => Err(Refusal::argument(format!("no unit {unit}: there are 3, numbered from 0"))),
    }
}

fn service(given: &Service) -> (ServiceConfig, LinearCost) {
    let Service { fixed, per_byte_milli, cold, .. } = *given;
    let estimate = LinearCost { fixed: fixed.into(), per_byte_milli: per_byte_milli.into(), cold: cold.into() };
    let service = ServiceConfig {
        packet_time: Time::from_ns(given.packet_time_ns),
        switch_cost: Time::from_ns(given.switch_cost_ns),
        tolerance: if given.tolerance_ns == 0 { Time::MAX } else { Time::from_ns(given.tolerance_ns) },
        guarantee_millionths: given.guarantee_millionths,
        ..ServiceConfig::default()
    };
    (service, estimate)
}
