//! Instructions of bursts of 32 packets, by calls of Rust and by those of C, held to limits:
//! `make bench-instructions`.
//!
//! A benchmark counts 1,024 packets. A core takes a burst, completes it, and as many packets arrive. Both languages
//! make the same calls of the same scheduler. C may take 25 instructions a packet more.
#![expect(missing_docs, unused_qualifications, reason = "the macros of gungraun break both")]

use std::ffi::CString;
use std::hint::black_box;
use std::mem::MaybeUninit;

use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind};
use humpyard::config::SchedulerConfig;
use humpyard::embed::Embedded;
use humpyard::hash::mix;
use humpyard::id::{ClientId, FlowId};
use humpyard::packet::Packet;
use humpyard::unit::{Time, Weight};
use humpyard_capi as capi;

/// Packets of a burst.
const BURST: usize = 32;
/// Packets of a benchmark.
const PACKETS: u64 = 1_024;
/// Clients, and flows.
const CLIENTS: u32 = 1_024;
/// Packets that a scheduler has room for.
const HELD: usize = 4_096;
/// Instructions a packet that a call of C may take over one of Rust.
const OVER_RUST: u64 = 25;

/// Instructions that the benchmarks in Rust took when they were set. Lower one when the code becomes cheaper. Raise
/// one only in a commit of its own that says why.
const GR3: u64 = 1_034_000;
const HRW: u64 = 997_400;

/// Returns the limit of a benchmark in Rust.
const fn in_rust(taken: u64) -> u64 {
    taken + taken / 50
}

/// Returns the limit of the same benchmark in C.
const fn in_c(taken: u64) -> u64 {
    taken + OVER_RUST * PACKETS
}

fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let limit = Callgrind::with_args(["--cache-sim=no"]).hard_limits([(EventKind::Ir, instructions)]).clone();
    LibraryBenchmarkConfig::default().tool(limit).clone()
}

/// A host that keeps a scheduler busy.
trait Host: Sized {
    fn new(policy: &str, cores: u16) -> Self;

    /// Lets the packets of this burst arrive.
    fn arrive(&mut self, burst: usize);

    /// Takes a burst of packets for a core, and completes it.
    fn serve(&mut self, core: u16);
}

/// What is known of packet `number`, which is of the client and the flow `number`: its hash and its length.
fn known(number: u32) -> (u64, u32) {
    let key = mix(number.into());
    (key, 64 + (key % 1_024) as u32)
}

fn weights() -> impl Iterator<Item = u32> {
    (0..CLIENTS).map(|client| 1 + client % 10)
}

/// Calls of Rust.
struct InRust {
    scheduler: Embedded,
    packets: Vec<Packet>,
    slots: Vec<u32>,
    busy_ns: [u64; BURST],
}

impl Host for InRust {
    fn new(policy: &str, cores: u16) -> Self {
        let config = SchedulerConfig {
            cores: cores.into(),
            clients: CLIENTS as usize,
            flows: CLIENTS as usize,
            packets: HELD,
            in_flight: BURST as u32,
            weights: weights().filter_map(Weight::new).collect(),
            ..SchedulerConfig::default()
        };
        let packet = |number| {
            let (key, length) = known(number);
            Packet { key, length, client: ClientId(number), flow: FlowId(number), ..Packet::default() }
        };
        Self {
            scheduler: Embedded::new(policy, 1514, config).expect("the policy is there"),
            packets: (0..CLIENTS).map(packet).collect(),
            slots: Vec::with_capacity(BURST),
            busy_ns: black_box([1_000; BURST]),
        }
    }

    fn arrive(&mut self, burst: usize) {
        let packets = self.packets[burst * BURST..][..BURST].iter().copied();
        self.scheduler.arrive_burst(Time::ZERO, packets, |arrival| _ = black_box(arrival)).expect("they may arrive");
    }

    fn serve(&mut self, core: u16) {
        self.slots.clear();
        let slots = &mut self.slots;
        self.scheduler.next_burst(Time::ZERO, core, BURST, |next| slots.push(next.slot.0)).expect("there is the core");
        let done = slots.iter().zip(&self.busy_ns).map(|(&slot, &busy_ns)| (slot, Time::from_ns(busy_ns)));
        self.scheduler.complete_burst(Time::ZERO, done).expect("they are in service");
    }
}

/// Calls of C, through pointers, so that none of them is compiled into its caller.
struct InC {
    scheduler: *mut capi::Scheduler,
    packets: Vec<capi::Packet>,
    dispatches: [MaybeUninit<capi::Dispatch>; BURST],
    slots: [u32; BURST],
    busy_ns: [u64; BURST],
    answers: [i64; BURST],
    arrive: unsafe extern "C" fn(*mut capi::Scheduler, u64, *const capi::Packet, usize, *mut i64) -> i32,
    next: unsafe extern "C" fn(*mut capi::Scheduler, u64, u16, *mut capi::Dispatch, usize) -> i32,
    complete: unsafe extern "C" fn(*mut capi::Scheduler, u64, *const u32, *const u64, usize) -> i32,
}

impl Host for InC {
    fn new(policy: &str, cores: u16) -> Self {
        let weights: Vec<u32> = weights().collect();
        // SAFETY: a configuration of zeros is one of all defaults.
        let zeros: capi::Config = unsafe { MaybeUninit::zeroed().assume_init() };
        let config = capi::Config {
            cores: cores.into(),
            clients: CLIENTS,
            flows: CLIENTS,
            packets: HELD as u32,
            in_flight: BURST as u32,
            weights: weights.as_ptr(),
            weight_count: weights.len(),
            ..zeros
        };
        let policy = CString::new(policy).expect("a name");
        // SAFETY: name, configuration and weights stay for the call.
        let scheduler = unsafe { capi::humpyard_new(policy.as_ptr(), &config) };
        assert!(!scheduler.is_null(), "the policy is there");
        let packet = |number| {
            let (key, length) = known(number);
            let (client, flow) = (number, number);
            capi::Packet { key, length, client, flow, estimate: 0, rss: 0, service: 0, part: 0, changes_connection: 0 }
        };
        Self {
            scheduler,
            packets: (0..CLIENTS).map(packet).collect(),
            dispatches: [const { MaybeUninit::uninit() }; BURST],
            slots: [0; BURST],
            busy_ns: black_box([1_000; BURST]),
            answers: [0; BURST],
            arrive: black_box(capi::humpyard_arrive_burst),
            next: black_box(capi::humpyard_next_burst),
            complete: black_box(capi::humpyard_complete_burst),
        }
    }

    fn arrive(&mut self, burst: usize) {
        let packets = &self.packets[burst * BURST..][..BURST];
        // SAFETY: there are as many packets, and as many answers.
        let arrived = unsafe { (self.arrive)(self.scheduler, 0, packets.as_ptr(), BURST, self.answers.as_mut_ptr()) };
        assert_eq!(arrived, 0, "they may arrive");
        black_box(&self.answers);
    }

    fn serve(&mut self, core: u16) {
        // SAFETY: there is place for as many dispatches.
        let given = unsafe { (self.next)(self.scheduler, 0, core, self.dispatches.as_mut_ptr().cast(), BURST) };
        let given = usize::try_from(given).expect("there is the core");
        for (slot, dispatch) in self.slots.iter_mut().zip(&self.dispatches[..given]) {
            // SAFETY: the call has written it.
            *slot = unsafe { dispatch.assume_init_ref() }.slot;
        }
        // SAFETY: there are at least as many slots, and times.
        let completed =
            unsafe { (self.complete)(self.scheduler, 0, self.slots.as_ptr(), self.busy_ns.as_ptr(), given) };
        assert_eq!(completed, 0, "they are in service");
    }
}

/// Makes a host in which a packet of each client and flow waits, and uses it for a while.
fn used<H: Host>(policy: &str, cores: u16) -> (H, u16) {
    let mut host = H::new(policy, cores);
    (0..CLIENTS as usize / BURST).for_each(|burst| host.arrive(burst));
    (0..8).for_each(|_| circulate(&mut host, cores));
    (host, cores)
}

/// Lets as many packets be served as there are clients, and as many arrive.
fn circulate<H: Host>(host: &mut H, cores: u16) {
    for burst in 0..PACKETS as usize / BURST {
        host.serve(burst as u16 % cores);
        host.arrive(burst);
    }
}

#[library_benchmark]
#[bench::gr3_in_rust(args = (used::<InRust>("gr3", 1)), config = at_most(in_rust(GR3)))]
#[bench::gr3_in_c(args = (used::<InC>("gr3", 1)), config = at_most(in_c(GR3)))]
#[bench::hrw_in_rust(args = (used::<InRust>("hrw", 8)), config = at_most(in_rust(HRW)))]
#[bench::hrw_in_c(args = (used::<InC>("hrw", 8)), config = at_most(in_c(HRW)))]
fn bursts<H: Host>((mut host, cores): (H, u16)) -> H {
    circulate(&mut host, cores);
    host
}

library_benchmark_group!(name = hosts, benchmarks = [bursts]);
main!(library_benchmark_groups = [hosts]);
