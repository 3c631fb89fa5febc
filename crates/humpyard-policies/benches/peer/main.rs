//! Compares sharing policies with dummynet's schedulers, alternately in one run: ns per packet,
//! without each side's loop.
//!
//! `make bench-share` runs it. It builds dummynet's user-space test from `dummynet` in the
//! directory of the environment variable `HUMPYARD_PEERS`, by default `../shared/peers` beside the
//! checkout. `docs/speed/policies-and-dummynet.md` shows the results.
//!
//! A packet is one enqueue and one dequeue.
//!
//! - `waking`: one packet at a time, of the clients in turn, so that each wakes an idle client.
//! - `steady`: between three and four packets per client wait. As many packets leave as there are
//!   clients, then as many arrive, for the same clients.
//!
//! Half of the clients have weight 1, the other half weight 7: dummynet's QFQ accepts weights with
//! a sum of up to 131,072.
//!
//! The loop of the peer is its driver without a scheduler (`-alg null`). Ours is the same loop with
//! a policy that serves clients in the order of visits. The peer's schedulers keep the queues of
//! packets; on our side the loop keeps them, for every policy.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it exists to print the table")]

#[path = "../share/bare.rs"]
mod bare;
mod dummynet;
mod ours;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use humpyard_policies::registry::AnyShare;

use self::dummynet::Dummynet;

const HELP: &str = "make bench-share ARGUMENTS=\"[--rounds 9] [--clients 64,1024,...] [--only POLICY,...]\"

--rounds N     Sets how often each side is measured; the table shows the minimum (default 9)
--clients N,.. Sets the numbers of clients, even numbers from 2 (default 64,1024,4096,32768,1048576)
--only NAME,.. Measures these sharing policies alone

HUMPYARD_PEERS is the directory that holds dummynet (default ../shared/peers beside the checkout).";

/// The pattern of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Workload {
    /// Each packet wakes an idle client.
    Waking,
    /// Between three and four packets per client wait.
    Steady,
}

impl Workload {
    const fn name(self) -> &'static str {
        match self {
            Self::Waking => "waking",
            Self::Steady => "steady",
        }
    }
}

/// The weights of the two halves of the clients. Those of 32,768 clients have the greatest sum that
/// dummynet's QFQ accepts.
pub(crate) const WEIGHTS: [u32; 2] = [1, 7];

/// One of our policies.
struct Contender {
    name: String,
    /// The name of the peer's scheduler for its option `-alg`. `None`: the peer has no such scheduler.
    peer: Option<&'static str>,
}

impl Contender {
    fn new(name: &str) -> Self {
        let peer = match name {
            "fcfs" => Some("fifo"),
            "drr" => Some("rr"),
            "qfq" => Some("qfq"),
            "wf2q+" => Some("wf2qp"),
            _ => None,
        };
        Self { name: name.to_owned(), peer }
    }
}

/// The options of a run.
struct Options {
    rounds: usize,
    clients: Vec<usize>,
    contenders: Vec<Contender>,
}

impl Options {
    /// The most clients for the peer: with more, the sum of the weights exceeds the limit of its QFQ.
    const PEER_CLIENTS_MAX: usize = 32_768;

    fn default() -> Self {
        let names = ["drr", "qfq", "wf2q+", "gr3", "eevdf", "efq", "lap"];
        Self {
            rounds: 9,
            clients: vec![64, 1_024, 4_096, Self::PEER_CLIENTS_MAX, 1 << 20],
            contenders: names.map(Contender::new).into(),
        }
    }

    /// Parses the command line. `None`: it requests help.
    fn parse(words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self::default();
        let mut words = words.filter(|word| word != "--bench");
        while let Some(option) = words.next() {
            if matches!(option.as_str(), "--help" | "-h") {
                return Ok(None);
            }
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option} does not take `{value}`");
            match option.as_str() {
                "--rounds" => options.rounds = value.parse().ok().filter(|&rounds| rounds > 0).ok_or_else(wrong)?,
                "--clients" => {
                    let number =
                        |word: &str| word.parse().ok().filter(|&n: &usize| n >= 2 && n % 2 == 0 && n <= 1 << 22);
                    options.clients = value.split(',').map(number).collect::<Option<_>>().ok_or_else(wrong)?;
                }
                "--only" => {
                    let entries = AnyShare::entries();
                    let known = |name: &&str| entries.iter().any(|entry| entry.info.name == *name);
                    let named = |name| Some(name).filter(known).map(Contender::new);
                    options.contenders = value.split(',').map(named).collect::<Option<_>>().ok_or_else(wrong)?;
                }
                _ => return Err(format!("no option {option}\n\n{HELP}")),
            }
        }
        Ok(Some(options))
    }
}

/// The times of one side of a comparison: ns per packet, the loop included.
#[derive(Default)]
struct Times {
    /// The times of the loop alone, by round.
    bare: Vec<f64>,
    /// The times of each contender, by round.
    each: Vec<Vec<f64>>,
}

impl Times {
    fn new(contenders: usize) -> Self {
        Self { bare: Vec::new(), each: vec![Vec::new(); contenders] }
    }

    /// Returns the time of a contender, with and without the loop.
    fn of(&self, contender: usize) -> Option<(f64, f64)> {
        let least = |times: &[f64]| times.iter().copied().reduce(f64::min);
        let time = least(&self.each[contender])?;
        Some((time, time - least(&self.bare)?))
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Without `--bench` it is a test run: it checks that our side works, and measures nothing.
    if !words.iter().any(|word| word == "--bench") && !words.iter().any(|word| word == "--help") {
        for workload in [Workload::Waking, Workload::Steady] {
            Options::default().contenders.iter().for_each(|contender| {
                ours::time(Some(&contender.name), workload, 8, ours::SHORT);
            });
        }
        return ExitCode::SUCCESS;
    }
    match Options::parse(words.into_iter()) {
        Ok(None) => println!("{HELP}"),
        Ok(Some(options)) => {
            if let Err(error) = bench(&options) {
                eprintln!("bench-share: {error}");
                return ExitCode::from(2);
            }
        }
        Err(error) => {
            eprintln!("bench-share: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn bench(options: &Options) -> Result<(), String> {
    let dummynet = Dummynet::build()?;
    println!("ns a packet, the minimum of {} rounds, in which both sides take turns", options.rounds);
    println!("net: without the loop; ratio: our net by the peer's");
    println!("| workload | clients | policy | our loop | ours | net | peer | its loop | peer's | net | ratio |");
    println!("|---|--:|---|--:|--:|--:|---|--:|--:|--:|--:|");
    for workload in [Workload::Waking, Workload::Steady] {
        for &clients in &options.clients {
            compare(&dummynet, options, workload, clients)?;
        }
    }
    Ok(())
}

/// Measures all contenders and their peers alternately, and prints their rows.
fn compare(dummynet: &Dummynet, options: &Options, workload: Workload, clients: usize) -> Result<(), String> {
    let Options { rounds, contenders, .. } = options;
    let (mut ours, mut theirs) = (Times::new(contenders.len()), Times::new(contenders.len()));
    let has_peer = clients <= Options::PEER_CLIENTS_MAX && contenders.iter().any(|contender| contender.peer.is_some());
    for round in 1..=*rounds {
        say_progress(&format!("{} {clients}: round {round} of {rounds}", workload.name()));
        ours.bare.push(ours::time(None, workload, clients, ours::LONG));
        if has_peer {
            theirs.bare.push(dummynet.time("null", workload, clients)?);
        }
        for (at, contender) in contenders.iter().enumerate() {
            if let Some(peer) = contender.peer.filter(|_| has_peer) {
                theirs.each[at].push(dummynet.time(peer, workload, clients)?);
            }
            ours.each[at].push(ours::time(Some(&contender.name), workload, clients, ours::LONG));
        }
    }
    say_progress("");
    for (at, contender) in contenders.iter().enumerate() {
        let (time, net) = ours.of(at).expect("there are rounds");
        let name = &contender.name;
        print!("| {} | {clients} | `{name}` | {:.1} | {time:.1} | {net:.1} |", workload.name(), time - net);
        match (contender.peer, theirs.of(at)) {
            (Some(peer), Some((time, their_net))) => {
                let ratio = net / their_net;
                println!(" `{peer}` | {:.1} | {time:.1} | {their_net:.1} | {ratio:.2} |", time - their_net);
            }
            _ => println!(" | | | | |"),
        }
    }
    Ok(())
}

/// Shows progress on a terminal.
fn say_progress(what: &str) {
    if stderr().is_terminal() {
        eprint!("\r{what}\u{1b}[K");
    }
}
