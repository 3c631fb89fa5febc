//! `spc`: 32 flows of four applications, each of which just saturates its share of the engines.

use humpyard_core::random::{Random, Seed};
use humpyard_core::{choice, params};

use super::addresses::Addresses;
use super::model::{Generator, Model};
use super::packet::{Endpoint, Version};
use super::profile::{OpenedSource, Opener, Profile};
use super::protocol::Protocol;
use super::sketch::{Sketch, Transport};

/// An application of the prototype router: the time of a packet on its 167 MHz engine, in us, fixed and per
/// byte.
#[derive(Clone, Copy)]
pub(super) struct Application {
    pub(super) fixed: f64,
    pub(super) per_byte: f64,
}

impl Application {
    pub(super) const ENCRYPT: Self = Self { fixed: 320.0, per_byte: 1.3 };
    pub(super) const COMPRESS: Self = Self { fixed: 970.0, per_byte: 7.6 };
    pub(super) const FEC: Self = Self { fixed: 320.0, per_byte: 9.2 };
    const FORWARD: Self = Self { fixed: 51.0, per_byte: 0.0 };

    /// Returns the time of a packet of this length, in us.
    pub(super) fn time(&self, length: f64) -> f64 {
        self.fixed + self.per_byte * length
    }
}

/// The applications, with the packet lengths of their flows.
const APPLICATIONS: [(Application, [u32; 4]); 4] = [
    (Application::FORWARD, [40, 200, 576, 1_500]),
    (Application::ENCRYPT, [200, 200, 400, 600]),
    (Application::COMPRESS, [200, 400, 600, 800]),
    (Application::FEC, [200, 400, 600, 800]),
];
/// Port of the first application; the others have the next ports.
pub(super) const PORT: u16 = 5_200;

choice! {
    /// The times of the flows' first packets.
    pub(super) enum Start {
        /// All at 0.
        Together = "together",
        /// Each at a random time within its period.
        Random = "random",
    }
}

params! {
    /// Parameters of flows that saturate their shares.
    pub(super) struct SpcParams {
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// How many flows there are, a quarter of them of each application.
        flows: u64 = 32, in 4..=65_536, unit "flows";
        /// Work that is offered, relative to what the engines can do.
        load: f64 = 0.99, in 0.001..=100.0;
        /// How many engines there are.
        engines: u64 = 1, in 1..=16_384, unit "engines";
        /// Speed of an engine, relative to the prototype's.
        speed: f64 = 10.0, in 0.001..=100_000.0;
        /// When the flows have their first packets.
        start: Start = Start::Random;
    }
}

pub(super) struct Spc;

impl Profile for Spc {
    const NAME: &'static str = "spc";
    const SUMMARY: &'static str =
        "32 flows of four applications, evenly paced, each just saturating its share: for EFQ and SFQ";
    const SOURCE: &'static str = "Stands for the traces of the Smart Port Card in the EFQ and LAP paper, section 4.2.1: flows of \
         forwarding (40, 200, 576, 1500 bytes), encryption (200, 200, 400, 600), compression and FEC (200, 400, 600, 800), each \
         with packets of one length at equal steps, so that by the paper's table 1 every flow brings the same work. Frames start \
         with the IP header, so that lengths are those of the table; the UDP port, from 5200, tells the application. Cost table: \
         `predictive`.";
    type Params = SpcParams;

    fn open(params: &SpcParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let mut random = seed.stream("traffic/spc");
        let addresses = Addresses::new(seed, "spc");
        let flows = (0..params.flows).map(|flow| Paced::new(flow, params, &addresses, &mut random)).collect();
        let model = PacedFlows { flows };
        Generator::open(model, params.packets, 1_500, description)
    }
}

/// A flow with equally spaced packets.
struct Paced {
    ends: (Endpoint, Endpoint),
    length: u32,
    first_ns: f64,
    step_ns: f64,
    sent: u64,
}

impl Paced {
    fn new(flow: u64, params: &SpcParams, addresses: &Addresses, random: &mut Random) -> Self {
        let application = (flow % 4) as usize;
        let (costs, lengths) = APPLICATIONS[application];
        let length = lengths[(flow / 4 % 4) as usize];
        let work_ns = costs.time(f64::from(length)) * 1e3 / params.speed;
        let step_ns = work_ns * params.flows as f64 / (params.load * params.engines as f64);
        let phase = if params.start == Start::Random { random.unit() } else { 0.0 };
        let ends = ends(addresses, flow, application as u16);
        Self { ends, length, first_ns: phase * step_ns, step_ns, sent: 0 }
    }

    fn next_ns(&self) -> f64 {
        self.first_ns + self.sent as f64 * self.step_ns
    }
}

struct PacedFlows {
    flows: Vec<Paced>,
}

impl Model for PacedFlows {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        let next = self.flows.iter_mut().min_by(|a, b| a.next_ns().total_cmp(&b.next_ns()))?;
        let time_ns = next.next_ns() as u64;
        next.sent += 1;
        Some(raw(time_ns, next.length, next.ends))
    }
}

/// Returns client and server of a flow of an application.
pub(super) fn ends(addresses: &Addresses, flow: u64, application: u16) -> (Endpoint, Endpoint) {
    addresses.ends_at(flow, Protocol::Udp, PORT + application)
}

/// Returns a packet that starts with its IP header.
pub(super) fn raw(time_ns: u64, length: u32, ends: (Endpoint, Endpoint)) -> Sketch {
    Sketch { raw: true, ..Sketch::new(time_ns, length, Version::V4, ends, Transport::Udp) }
}
