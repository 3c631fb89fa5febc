//! The cost of a slot of a random schedule under a sharing policy. The experiments of the GR3 paper
//! (figures 4 to 9) are 7 × 10^10 slots.
//!
//! One heavy client has a tenth of all weights. Figures are in ns of one thread, for the whole
//! draw: its weights, the policy, the arrivals, the decisions, and the service errors of all
//! clients. The least of three measurements counts.
//!
//! ```text
//! cargo bench --package humpyard-sim --bench draws -- [--figures] [POLICY ...]
//! ```
//!
//! `--figures` makes a few draws of every combination of those figures, on two threads, and prints
//! how long all draws would take.
#![expect(clippy::print_stdout, reason = "it exists to print the table")]

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_sim::{DrawsRequest, Heavy, SkewedWeights, draws};

const POLICIES: [&str; 7] = ["wrr", "wfq", "sfq", "vtrr", "srr", "gr3", "wf2q+"];
/// Sums of weights, and numbers of clients.
const SIZES: [(u32, usize); 4] = [(1 << 14, 32), (1 << 14, 8192), (1 << 18, 32), (1 << 18, 8192)];
/// Slots of a measurement.
const SLOTS: u32 = 1 << 20;

/// Returns the time of one slot, over `draws_measured` draws.
fn measure(policy: &str, total: u32, clients: usize, draws_measured: u32) -> f64 {
    let request = request(policy, total, clients, draws_measured);
    let least = (0..3).map(|_| time(&request)).min().unwrap_or(Duration::ZERO);
    least.as_nanos() as f64 / (request.slots() as f64 * f64::from(draws_measured))
}

fn request(policy: &str, total: u32, clients: usize, draws: u32) -> DrawsRequest {
    DrawsRequest {
        policy: policy.parse().expect("it is registered"),
        weights: SkewedWeights::new(clients, total, 0.1, Heavy::First).expect("there is weight for all"),
        draws,
        processors: 1,
        slots: None,
        ties: Ties::Highest,
        seed: Seed(1),
        threads: NonZeroUsize::MIN,
    }
}

fn time(request: &DrawsRequest) -> Duration {
    let begun = Instant::now();
    draws(request, |_| ()).expect("it is a sharing policy");
    begun.elapsed()
}

/// How long the figures of this policy would take, by a few draws of each.
fn figures(policy: &str) -> Duration {
    const MEASURED: u32 = 8;
    const ALL: u32 = 2500;
    let threads = NonZeroUsize::new(2).expect("two");
    let places = (14..=18).flat_map(|total| (5..=13).map(move |clients| (1 << total, 1 << clients)));
    let requests = places.map(|(total, clients)| DrawsRequest { threads, ..request(policy, total, clients, MEASURED) });
    requests.map(|request| time(&request)).sum::<Duration>() * ALL / MEASURED
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    // Without `--bench` it is a test run: everything runs, nothing is measured.
    let is_bench = words.iter().any(|word| word == "--bench");
    let policies = if named.is_empty() { &POLICIES } else { named.as_slice() };
    if words.iter().any(|word| word == "--figures") {
        for policy in policies {
            println!("{policy:<16}{:>8.1} min", figures(policy).as_secs_f64() / 60.0);
        }
        return;
    }
    print!("{:<16}", "ns a slot");
    SIZES.iter().for_each(|(total, clients)| print!("{:>16}", format!("{clients} of {total}")));
    println!();
    for policy in policies {
        print!("{policy:<16}");
        for (total, clients) in SIZES {
            let draws_measured = if is_bench { SLOTS / total } else { 1 };
            print!("{:>16.1}", measure(policy, total, clients, draws_measured));
        }
        println!();
    }
}
