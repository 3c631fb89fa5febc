//! A scheduler allocates all its memory when it is created: no later C call allocates or frees memory.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;
use std::alloc::System;
use std::ffi::CString;

use humpyard::policies::registry::entries;
use humpyard::policy::Family;
use humpyard::random::{Random, Seed};
use humpyard_capi::*;

thread_local! {
    /// Calls of the allocator by this thread. The test harness has threads of its own.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a counter of calls.
struct Counting;

// SAFETY: each method passes its arguments unchanged to the system's allocator. The counter is a thread-local
// without destructor and without lazy initialization, so counting neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CORES: u16 = 4;
const CLIENTS: u32 = 40;
const BURST: usize = 32;
/// Packets that arrive at each scheduler.
const PACKETS: usize = 4_000;

/// The value of C's `= {0}`.
fn zero<T>() -> T {
    // SAFETY: only used for structures of the library, for which all zeros is a valid value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Returns a scheduler with little room, so that it drops packets for every reason.
fn scheduler(policy: &str, free_order: u8) -> *mut Scheduler {
    let service = Service { packet_time_ns: 1000, switch_cost_ns: 500, tolerance_ns: 20_000, ..zero() };
    let services = [Service { guarantee_millionths: 500_000, ..service }; 2];
    let config = Config {
        cores: CORES.into(),
        contexts: 2,
        topology: c"2x2".as_ptr(),
        clients: CLIENTS,
        flows: CLIENTS,
        packets: 200,
        services: services.as_ptr(),
        service_count: services.len(),
        queue_limit: 120,
        client_limit: 12,
        in_flight: 8,
        unit: Unit::Nanoseconds as u8,
        free_order,
        ..zero()
    };
    let policy = CString::new(policy).expect("a name");
    // SAFETY: name and configuration are valid.
    unsafe { humpyard_new(policy.as_ptr(), &config) }
}

fn packet(random: &mut Random) -> Packet {
    let flow = random.below(CLIENTS.into()) as u32;
    let key = u64::from(flow) * 0x1234_5678_9ABC;
    let changes_connection = u8::from(random.below(20) == 0);
    let (length, service) = (random.below(1515) as u32, random.below(2) as u16);
    Packet { key, flow, client: flow, rss: flow * 77, length, service, changes_connection, ..zero() }
}

/// Makes every call of the library, for packets in bursts and one by one. Returns the numbers of packets
/// completed and dropped.
fn drive(scheduler: *mut Scheduler, random: &mut Random) -> (u64, u64) {
    let (mut packets, mut answers) = ([zero::<Packet>(); BURST], [0; BURST]);
    let (mut dispatches, mut slots, busy) = ([zero::<Dispatch>(); BURST], [0; BURST], [900; BURST]);
    let (mut now, mut at, mut core, mut core_switch, mut account) = (0, 0, 0, zero(), zero::<Account>());
    for round in 0..PACKETS / BURST {
        now += random.below(30_000);
        packets.fill_with(|| packet(random));
        // SAFETY: the scheduler is valid, and each array has the length that the call gives.
        unsafe {
            assert_eq!(humpyard_arrive_burst(scheduler, now, packets.as_ptr(), BURST - 1, answers.as_mut_ptr()), 0);
            assert!(humpyard_arrive(scheduler, now, &packets[BURST - 1]) >= i64::from(Dropped::ClientFull as i32));
            // Twice: a policy that keeps the order of services may give a core one packet of each.
            for core in (0..CORES).chain(0..CORES) {
                let given = humpyard_next_burst(scheduler, now, core, dispatches.as_mut_ptr(), 8) as usize;
                slots.iter_mut().zip(&dispatches[..given]).for_each(|(slot, dispatch)| *slot = dispatch.slot);
                assert_eq!(humpyard_complete_burst(scheduler, now, slots.as_ptr(), busy.as_ptr(), given), 0);
            }
            if humpyard_next_core(scheduler, now, &mut core) == 1
                && humpyard_next(scheduler, now, core, &mut dispatches[0]) == 1
            {
                assert_eq!(humpyard_complete(scheduler, now, dispatches[0].slot, 900), 0);
            }
            while humpyard_next_switch(scheduler, &mut core_switch) == 1 {
                assert_eq!(humpyard_switched(scheduler, now, core_switch.core), 0);
            }
            if humpyard_next_timeout(scheduler, &mut at) == 1 && at <= now {
                assert_eq!(humpyard_on_timeout(scheduler, now), 0);
            }
            let weight = 1 + random.below(2000) as u32;
            assert_eq!(humpyard_set_weight(scheduler, now, round as u32 % CLIENTS, weight), 0);
        }
    }
    // SAFETY: both pointers are valid.
    assert_eq!(unsafe { humpyard_account(scheduler, &mut account) }, 1);
    (account.processed, account.buffer_full + account.queue_full + account.client_full)
}

/// Serves all waiting packets, and ends every client and flow, so that the scheduler accepts these calls.
fn end(scheduler: *mut Scheduler) {
    let (now, mut core, mut dispatch) = (u64::MAX / 4, 0, zero());
    // SAFETY: the scheduler is valid, and there is room for the answers.
    unsafe {
        while humpyard_next_core(scheduler, now, &mut core) == 1 {
            while humpyard_next(scheduler, now, core, &mut dispatch) == 1 {
                assert_eq!(humpyard_complete(scheduler, now, dispatch.slot, 900), 0);
            }
        }
        assert_eq!(humpyard_end_client(scheduler, now, 0), 0);
        assert_eq!(humpyard_end_flow(scheduler, now, 0), 0);
    }
}

#[test]
fn after_creation_no_call_allocates() {
    let named = |family, name: &str| match family {
        Family::Estimate => format!("estimate={name}/share=efq"),
        _ => name.to_owned(),
    };
    let all = entries().into_iter().flat_map(|entry| {
        let family = entry.info.family;
        entry.specs().map(move |spec| named(family, &spec)).collect::<Vec<_>>()
    });
    let mut found = Vec::new();
    for policy in all.chain(["steer=hrw/share=gr3".to_owned(), "allocate=static/steer=hrw".to_owned()]) {
        for free_order in [0, 1] {
            let scheduler = scheduler(&policy, free_order);
            if scheduler.is_null() {
                continue;
            }
            let mut random = Seed(1).stream(&policy);
            let before = CALLS.get();
            let (processed, dropped) = drive(scheduler, &mut random);
            if policy == "gr3" {
                end(scheduler);
            }
            let calls = CALLS.get() - before;
            // SAFETY: it comes from `humpyard_new`.
            unsafe { humpyard_free(scheduler) };
            found.push((policy.clone(), free_order, calls, processed, dropped));
        }
    }
    let wrong: Vec<_> = found.iter().filter(|&&(_, _, calls, processed, _)| calls > 0 || processed < 500).collect();
    assert!(wrong.is_empty(), "policy, free order, calls of the allocator, processed, dropped:\n{wrong:#?}");
    assert!(found.len() > 100 && found.iter().any(|&(.., dropped)| dropped > 0), "{} schedulers", found.len());
}

#[test]
fn calls_of_the_allocator_are_counted() {
    let before = CALLS.get();
    drop(core::hint::black_box(Box::new(5)));
    assert_eq!(CALLS.get() - before, 2);
    // SAFETY: the library refuses NULL.
    assert_eq!(unsafe { humpyard_account(ptr::null_mut(), ptr::null_mut()) }, Error::Null as i32);
    assert!(CALLS.get() - before > 2, "a refused call keeps its words");
}
