//! `spc-apps`: packets of many applications, for schedulers that keep an engine at one application.

use humpyard_core::random::{Random, Seed};
use humpyard_core::{choice, params};

use super::addresses::Addresses;
use super::model::{Generator, Model};
use super::poisson_clock::PoissonClock;
use super::profile::{OpenedSource, Opener, Profile};
use super::sketch::Sketch;
use super::spc::{Application, ends, raw};

/// IP lengths: the cumulative share of packets, and the least and the greatest length, in bytes.
const LENGTHS: [(f64, u32, u32); 3] = [(0.5, 64, 64), (0.8, 300, 576), (1.0, 576, 1_000)];
/// Mean IP length, in bytes.
const LENGTH_MEAN: f64 = 321.8;
/// The applications that are copied.
const KINDS: [Application; 3] = [Application::ENCRYPT, Application::COMPRESS, Application::FEC];

choice! {
    /// The quantity that is equal for all applications.
    pub(super) enum Equal {
        /// Equal bytes.
        Bytes = "bytes",
        /// Equal work.
        Work = "work",
    }
}

params! {
    /// Parameters of packets of many applications.
    pub(super) struct SpcAppsParams {
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// How many applications there are: copies of encryption, compression and FEC by turns.
        apps: u64 = 30, in 1..=10_000, unit "applications";
        /// Flows of each application, each as likely as any other.
        flows: u64 = 1, in 1..=10_000, unit "flows";
        /// Mean rate of arrivals.
        pps: u64 = 100_000, in 1..=1_000_000_000, unit "packets/s";
        /// What the applications have the same of.
        equal: Equal = Equal::Bytes;
        /// Packets after which the mix changes; 0 is never.
        change: u64 = 0, unit "packets";
        /// Share of the work that the first application has from then on.
        first: f64 = 0.8, in 0.0..=1.0;
    }
}

pub(super) struct SpcApps;

impl Profile for SpcApps {
    const NAME: &'static str = "spc-apps";
    const SUMMARY: &'static str =
        "packets of 30 applications at Poisson instants, mean 322 bytes: for LAP and its relatives";
    const SOURCE: &'static str = "Stands for the traces of the Smart Port Card in the EFQ and LAP paper, section 5.2.2: encryption, \
         compression and FEC, copied to as many applications as asked for, with equal shares. IP packets have 64 bytes (50 %), \
         300 to 576 (30 %) or 576 to 1000, and start with the IP header. The UDP port, from 5200, tells the application. For the \
         paper's change of workload: apps=3,equal=work,change=10000.";
    type Params = SpcAppsParams;

    fn open(params: &SpcAppsParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let works: Vec<f64> = (0..params.apps as usize).map(|app| KINDS[app % 3].time(LENGTH_MEAN)).collect();
        let equal: Vec<f64> = match params.equal {
            Equal::Bytes => vec![1.0; works.len()],
            Equal::Work => works.iter().map(|work| 1.0 / work).collect(),
        };
        let others = (1.0 - params.first) / (works.len() - 1).max(1) as f64;
        let share = |app: usize| if app == 0 { params.first } else { others };
        let changed = works.iter().enumerate().map(|(app, work)| share(app) / work).collect();
        let model = Apps {
            random: seed.stream("traffic/spc-apps"),
            addresses: Addresses::new(seed, "spc-apps"),
            clock: PoissonClock::new(1e9 / params.pps as f64),
            shares: [sums(equal), sums(changed)],
            change: params.change,
            flows: params.flows,
            made: 0,
        };
        Generator::open(model, params.packets, 1_000, description)
    }
}

/// Returns the cumulative shares of packets.
fn sums(shares: Vec<f64>) -> Vec<f64> {
    let mut sum = 0.0;
    shares
        .into_iter()
        .map(|share| {
            sum += share;
            sum
        })
        .collect()
}

struct Apps {
    random: Random,
    addresses: Addresses,
    clock: PoissonClock,
    /// Cumulative shares before and after the change.
    shares: [Vec<f64>; 2],
    change: u64,
    flows: u64,
    made: u64,
}

impl Model for Apps {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        let time_ns = self.clock.tick(&mut self.random);
        let changed = self.change > 0 && self.made >= self.change;
        self.made += 1;
        let shares = &self.shares[usize::from(changed)];
        let draw = self.random.unit() * shares.last()?;
        let app = shares.partition_point(|&up_to| up_to < draw).min(shares.len() - 1) as u64;
        let draw = self.random.unit();
        let &(_, from, to) = LENGTHS.iter().find(|&&(up_to, ..)| draw < up_to)?;
        let length = from + self.random.below(u64::from(to - from) + 1) as u32;
        let flow = app * self.flows + self.random.below(self.flows);
        Some(raw(time_ns, length, ends(&self.addresses, flow, app as u16)))
    }
}
