//! The time of a packet under every sharing policy, through the trait and the registry, without the mechanism.
//!
//! - `wake`: every client gets a packet, which wakes it, then all are served: the time of a packet
//!   from its arrival to its completion.
//! - `steady`: packets arrive in turn for all clients; four per client wait at all times.
//! - `ready`: clients always have packets, and a served client gets another: the time of a decision.
//!
//! Clients are visited in sequence or at random: their packets arrive in that order; with `ready`
//! they woke in that order. Weights are equal, four (1, 2, 4, 8 at random) or many (from 1 to 2^16,
//! with a uniform logarithm).
//!
//! `none` is the loop itself, which keeps the queues of clients, with a policy that serves in the order of
//! visits. Policies are called by their own types. A policy built from text is called through an enum, which
//! takes 3 to 8 ns more. Figures are in ns of the thread's processor time: the median of five measurements.
//! Some figures have beside them the ratio to the time of a peer: see `PEERS`.
//!
//! ```text
//! cargo bench --package humpyard-policies --bench share -- [--quick] [WORD ...]
//! ```
//!
//! Words select: names of policies, `wake` `steady` `ready`, `equal` `four` `many`, `sequential`
//! `random`, numbers of clients. `--quick` takes three shorter measurements, up to 4,096 clients.
//! The full run takes half an hour.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the tables are what it is for")]

mod bare;

use std::fmt::{self, Display, Write};
use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::time::Duration;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Share;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_policies::registry::{AnyShare, ShareVisitor};
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::loops::Sharing;

use self::bare::{Nothing, thread_time};

const CLIENTS: [usize; 7] = [8, 64, 512, 4096, 16_384, 32_768, 1 << 20];
/// The most clients for a policy that scans all of them for a decision or a new client.
const CLIENTS_LINEAR: usize = 16_384;
const CLIENTS_QUICK: usize = 4096;
/// The loop itself.
const NONE: &str = "none";

/// Declares an enum whose variants have names.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($member:ident = $text:literal),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum $name { $($member),+ }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$member),+];

            fn name(self) -> &'static str {
                match self { $(Self::$member => $text),+ }
            }

            fn find(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.name() == name)
            }
        }
    };
}

named! {
    /// The pattern of packets.
    Workload { Wake = "wake", Steady = "steady", Ready = "ready" }
}
named! {
    /// The weights of the clients.
    Weights { Equal = "equal", Four = "four", Many = "many" }
}
named! {
    /// The order in which clients are visited.
    Order { Sequential = "sequential", Random = "random" }
}

impl Weights {
    fn of(self, clients: usize) -> Vec<Weight> {
        let mut random = Seed(1).stream("share/weights");
        let weight = |_| match self {
            Self::Equal => 1,
            Self::Four => 1 << random.below(4),
            Self::Many => (random.unit() * 16.0).exp2() as u32,
        };
        (0..clients).map(weight).map(|weight| Weight::new(weight).expect("1 or more")).collect()
    }
}

impl Order {
    fn of(self, clients: usize) -> Vec<ClientId> {
        let mut order: Vec<ClientId> = (0..clients).map(ClientId::from_index).collect();
        if self == Self::Random {
            let mut random = Seed(1).stream("share/order");
            (1..clients).rev().for_each(|last| order.swap(last, random.below(last as u64 + 1) as usize));
        }
        order
    }
}

/// The time of a peer per packet, in ns, by number of clients, the loop included. Peers are
/// dummynet's user-space test (`gcc -O3 -march=native`) and schedulers of public kernels and of
/// ns-2. They were measured on another machine of similar kind (2 vCPU of a Xeon at 2.6 GHz), with
/// an unknown order of visits. So a ratio shows where to investigate, not which is faster.
struct Peer {
    name: &'static str,
    workload: Workload,
    /// The weights for which the times hold. `None`: any weights.
    weights: Option<Weights>,
    /// Our policy of the same name.
    ours: &'static str,
    times: &'static [(usize, f64)],
}

impl Peer {
    const fn new(name: &'static str, workload: Workload, ours: &'static str, times: &'static [(usize, f64)]) -> Self {
        Self { name, workload, weights: None, ours, times }
    }

    fn time(&self, clients: usize) -> Option<f64> {
        self.times.iter().find(|&&(size, _)| size == clients).map(|&(_, time)| time)
    }
}

const PEERS: &[Peer] = &[
    Peer::new(
        "dummynet, none",
        Workload::Wake,
        NONE,
        &[(8, 14.0), (64, 14.7), (512, 15.6), (4096, 17.0), (32_768, 18.8), (1 << 20, 43.8)],
    ),
    Peer::new(
        "dummynet FIFO",
        Workload::Wake,
        "fcfs",
        &[(8, 15.3), (64, 15.7), (512, 20.3), (4096, 21.5), (32_768, 17.9), (1 << 20, 42.8)],
    ),
    Peer::new(
        "dummynet DRR",
        Workload::Wake,
        "drr",
        &[(8, 23.3), (64, 17.4), (512, 17.9), (4096, 17.9), (32_768, 19.6), (1 << 20, 43.3)],
    ),
    Peer::new(
        "dummynet QFQ",
        Workload::Wake,
        "qfq",
        &[(8, 25.6), (64, 24.5), (512, 24.2), (4096, 31.7), (32_768, 24.8), (1 << 20, 56.9)],
    ),
    Peer::new(
        "dummynet WF2Q+",
        Workload::Wake,
        "wf2q+",
        &[(8, 52.7), (64, 60.2), (512, 92.3), (4096, 194.0), (32_768, 245.0), (1 << 20, 1059.0)],
    ),
    Peer::new("dummynet DRR", Workload::Steady, "drr", &[(8, 15.6), (64, 21.5), (4096, 22.1), (32_768, 18.8)]),
    Peer::new("dummynet QFQ", Workload::Steady, "qfq", &[(8, 22.5), (64, 26.5), (4096, 22.1), (32_768, 22.7)]),
    Peer::new("dummynet WF2Q+", Workload::Steady, "wf2q+", &[(8, 41.0), (64, 87.0), (4096, 229.0), (32_768, 370.0)]),
    Peer { weights: Some(Weights::Equal), ..Peer::new("kernel, like GR3", Workload::Ready, "gr3", &flat(13.5)) },
    Peer { weights: Some(Weights::Four), ..Peer::new("kernel, like GR3", Workload::Ready, "gr3", &flat(20.5)) },
    Peer { weights: Some(Weights::Many), ..Peer::new("kernel, like GR3", Workload::Ready, "gr3", &flat(20.0)) },
    Peer::new("kernel VTRR", Workload::Ready, "vtrr", &[(64, 6.3), (4096, 8.7), (1 << 20, 45.0)]),
    Peer::new("kernel EEVDF", Workload::Ready, "eevdf", &[(64, 42.0), (4096, 98.0), (32_768, 185.0)]),
    Peer::new("ns-2 SRR", Workload::Ready, "srr", &[(64, 13.0), (4096, 17.0)]),
];

/// Returns the same time for any number of clients.
const fn flat(time: f64) -> [(usize, f64); CLIENTS.len()] {
    let mut times = [(0, time); CLIENTS.len()];
    let mut at = 0;
    while at < CLIENTS.len() {
        times[at].0 = CLIENTS[at];
        at += 1;
    }
    times
}

/// Queues the number of packets that wait at all times.
fn prepare<Q: Share>(host: &mut Sharing<Q>, clients: usize, workload: Workload) {
    let each = match workload {
        Workload::Wake => 0,
        Workload::Steady => 4,
        Workload::Ready => 2,
    };
    (0..each * clients).for_each(|_| host.arrive());
}

/// Plays one round, with as many packets as clients.
fn round<Q: Share>(host: &mut Sharing<Q>, clients: usize, workload: Workload) {
    let packets = 0..clients;
    match workload {
        Workload::Wake => {
            packets.clone().for_each(|_| host.arrive());
            packets.for_each(|_| {
                host.serve();
            });
        }
        Workload::Steady => packets.for_each(|_| {
            host.serve();
            host.arrive();
        }),
        Workload::Ready => packets.for_each(|_| {
            let client = host.serve();
            host.arrive_for(client);
        }),
    }
}

/// The number and the length of measurements.
#[derive(Clone, Copy)]
struct Effort {
    measurements: usize,
    /// The least time of a measurement.
    time: Duration,
}

/// Returns the time of a packet in ns: the median.
fn measure<Q: Share>(policy: Q, order: &[ClientId], workload: Workload, effort: Effort) -> f64 {
    let clients = order.len();
    let mut host = Sharing::new(policy, order.to_vec());
    prepare(&mut host, clients, workload);
    let mut rounds = 1;
    let mut timed = |rounds: u64| {
        let begun = thread_time();
        (0..rounds).for_each(|_| round(&mut host, clients, workload));
        thread_time() - begun
    };
    // The first round warms the caches.
    timed(1);
    while rounds < 1 << 24 && timed(rounds) < effort.time {
        rounds *= 2;
    }
    let mut times: Vec<Duration> = (0..effort.measurements).map(|_| timed(rounds)).collect();
    times.sort();
    let packets = rounds as f64 * clients as f64;
    times[times.len() / 2].as_nanos() as f64 / packets
}

/// The measurement of a policy, called by its own type.
struct Measurement<'a> {
    order: &'a [ClientId],
    workload: Workload,
    effort: Effort,
}

impl ShareVisitor for Measurement<'_> {
    type Answer = f64;

    fn visit<Q: Share>(self, policy: Q) -> f64 {
        measure(policy, self.order, self.workload, self.effort)
    }
}

/// One figure of a table.
#[derive(Clone, Copy)]
struct Cell<'a> {
    policy: &'a str,
    workload: Workload,
    weights: Weights,
    order: Order,
    clients: usize,
}

impl Cell<'_> {
    /// Returns the time of a packet, in ns.
    fn time(self, effort: Effort) -> f64 {
        let (weights, order) = (self.weights.of(self.clients), self.order.of(self.clients));
        if self.policy == NONE {
            let nothing = Nothing::new(&order);
            return measure(nothing, &order, self.workload, effort);
        }
        let config = SchedulerConfig {
            clients: self.clients,
            packets: Sharing::<()>::packets_max(self.clients),
            weights,
            ..SchedulerConfig::default()
        };
        let spec: PolicySpec = self.policy.parse().expect("it is registered");
        let policy = spec.build_share(&config).expect("defaults fit");
        policy.visit(Measurement { order: &order, workload: self.workload, effort })
    }

    fn peers(self) -> impl Iterator<Item = (&'static Peer, f64)> {
        let is_it = move |peer: &&Peer| {
            peer.ours == self.policy
                && peer.workload == self.workload
                && peer.weights.is_none_or(|weights| weights == self.weights)
        };
        PEERS.iter().filter(is_it).filter_map(move |peer| Some((peer, peer.time(self.clients)?)))
    }
}

/// Returns the policies by name, and whether they scan all clients.
fn policies() -> Vec<(&'static str, bool)> {
    let linear = |complexity: &str| complexity.contains("O(n)");
    let registered = AnyShare::entries().into_iter().map(|entry| (entry.info.name, linear(entry.info.complexity)));
    [(NONE, false)].into_iter().chain(registered).collect()
}

/// The selection of measurements: all if nothing is selected.
#[derive(Default)]
struct Choice {
    quick: bool,
    policies: Vec<String>,
    workloads: Vec<Workload>,
    weights: Vec<Weights>,
    orders: Vec<Order>,
    clients: Vec<usize>,
}

impl Choice {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut choice = Self::default();
        for word in words {
            if word == "--quick" {
                choice.quick = true;
            } else if let Some(workload) = Workload::find(&word) {
                choice.workloads.push(workload);
            } else if let Some(weights) = Weights::find(&word) {
                choice.weights.push(weights);
            } else if let Some(order) = Order::find(&word) {
                choice.orders.push(order);
            } else if let Ok(clients) = word.parse() {
                choice.clients.push(clients);
            } else if policies().iter().any(|(name, _)| *name == word) {
                choice.policies.push(word);
            } else {
                let names: Vec<&str> = policies().into_iter().map(|(name, _)| name).collect();
                return Err(format!(
                    "no `{word}`: there are --quick, wake, steady, ready, equal, four, many, sequential, random, numbers of \
                     clients, and {}",
                    names.join(", ")
                ));
            }
        }
        Ok(choice)
    }

    fn clients(&self) -> Vec<usize> {
        match self.clients.as_slice() {
            [] => CLIENTS.into_iter().filter(|&clients| !self.quick || clients <= CLIENTS_QUICK).collect(),
            given => given.to_vec(),
        }
    }

    fn effort(&self) -> Effort {
        match self.quick {
            true => Effort { measurements: 3, time: Duration::from_millis(2) },
            false => Effort { measurements: 5, time: Duration::from_millis(20) },
        }
    }
}

fn takes<T: PartialEq>(chosen: &[T], one: &T) -> bool {
    chosen.is_empty() || chosen.contains(one)
}

/// Measures one table, and returns its text.
fn table(choice: &Choice, workload: Workload, weights: Weights, order: Order) -> String {
    let sizes = choice.clients();
    let mut text = format!("\n{}, weights {}, clients {}\n", workload.name(), weights.name(), order.name());
    let mut row = |name: &str, cells: Vec<String>| {
        write!(text, "{name:<20}").expect("a string");
        cells.iter().for_each(|cell| write!(text, "{cell:>16}").expect("a string"));
        text = text.trim_end().to_owned() + "\n";
    };
    row("ns (times a peer's)", sizes.iter().map(usize::to_string).collect());
    for (policy, linear) in policies().into_iter().filter(|(name, _)| takes(&choice.policies, &(*name).to_owned())) {
        let cells = sizes.iter().map(|&clients| {
            if linear && clients > CLIENTS_LINEAR {
                return "O(n)".to_owned();
            }
            let cell = Cell { policy, workload, weights, order, clients };
            say_progress(&format!("{policy} {clients}"));
            Figure(cell.time(choice.effort()), cell.peers().next().map(|(_, time)| time)).to_string()
        });
        row(policy, cells.collect());
    }
    for peer in PEERS {
        let cell = |clients| Cell { policy: peer.ours, workload, weights, order, clients };
        let times: Vec<String> = sizes
            .iter()
            .map(|&clients| {
                let time = cell(clients).peers().find(|(found, _)| std::ptr::eq(*found, peer));
                time.map_or(String::new(), |(_, time)| Figure(time, None).to_string())
            })
            .collect();
        if times.iter().any(|time| !time.is_empty()) && takes(&choice.policies, &peer.ours.to_owned()) {
            row(&format!("  {}", peer.name), times);
        }
    }
    say_progress("");
    text
}

/// Shows progress if standard error is a terminal.
fn say_progress(what: &str) {
    if stderr().is_terminal() {
        eprint!("\r{what}\u{1b}[K");
    }
}

/// A time in ns, and its ratio to the time of a peer.
struct Figure(f64, Option<f64>);

impl Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(time, peer) = self;
        let digits = usize::from(*time < 100.0);
        write!(f, "{time:.digits$}")?;
        peer.map_or(Ok(()), |peer| write!(f, " ({:.2}x)", time / peer))
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Without `--bench` it is a test run: it checks that everything works, and measures nothing.
    let is_bench = words.iter().any(|word| word == "--bench");
    let mut choice = match Choice::read(words.into_iter().filter(|word| word != "--bench")) {
        Ok(choice) => choice,
        Err(error) => {
            eprintln!("share: {error}");
            return ExitCode::from(2);
        }
    };
    if !is_bench {
        choice = Choice { quick: true, clients: vec![8], ..choice };
    }
    for &workload in Workload::ALL.iter().filter(|workload| takes(&choice.workloads, workload)) {
        for &weights in Weights::ALL.iter().filter(|weights| takes(&choice.weights, weights)) {
            for &order in Order::ALL.iter().filter(|order| takes(&choice.orders, order)) {
                print!("{}", table(&choice, workload, weights, order));
            }
        }
    }
    ExitCode::SUCCESS
}
