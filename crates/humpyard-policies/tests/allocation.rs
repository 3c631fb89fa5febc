//! After construction nothing allocates: no policy, and not the mechanism.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hint::black_box;
use std::alloc::System;

use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, WhenFull};
use humpyard_core::unit::Time;
use humpyard_policies::registry;
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{History, Player, Shape};

thread_local! {
    /// Allocations of this thread, so that no other test and not the harness is counted.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted.
struct Counting;

// SAFETY: every method hands its arguments unchanged to the system's allocator, whose contract is the same. Counting
// touches a thread-local without destructor or lazy start, so it neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn histories() -> impl Iterator<Item = History> {
    (0..20).map(|seed| {
        let limits = if seed % 2 == 0 {
            Limits::default()
        } else {
            Limits { queue: 12, client: 5, when_full: WhenFull::LongestQueue }
        };
        let flow_order = if seed % 3 == 0 { FlowOrder::Free } else { FlowOrder::Keep };
        History::generate(&Shape {
            seed,
            cores: 3,
            clients: 8,
            services: 2,
            events: 1000,
            in_flight: 1 + seed as usize % 3,
            error_permille: 1000,
            weights_change: true,
            packets: if seed % 4 == 0 { 20 } else { 4096 },
            limits,
            chains: seed % 5 == 0,
            exit: (seed % 7 == 0).then_some(ExitOrder { packets: 8, timeout: Time::from_ns(50_000) }),
            flow_order,
            ..Shape::default()
        })
    })
}

/// Allocations while the scheduler of this spec goes through the history; the driver makes none.
fn allocations(spec: &str, history: &History) -> u64 {
    let spec: PolicySpec = spec.parse().expect("a registered name");
    let mut scheduler = spec.build(&history.setup(), history.options()).expect("a valid set-up");
    let player = Player::new(history).without_checks();
    let before = ALLOCATIONS.get();
    let log = player.run(&mut scheduler, &mut ());
    let made = ALLOCATIONS.get() - before;
    assert!(log.decisions.len() >= 20, "{} decisions are not much of a test", log.decisions.len());
    made
}

#[test]
fn allocations_are_counted() {
    let before = ALLOCATIONS.get();
    let made = black_box(Box::new(5));
    assert_eq!(ALLOCATIONS.get(), before + 1);
    drop(made);
}

#[test]
fn no_event_allocates() {
    let mut specs: Vec<String> = registry::entries().into_iter().map(|entry| entry.info.name.to_string()).collect();
    specs.push("drr:surplus=true".into());
    specs.push("allocate=static/steer=hrw/share=sfq".into());
    specs.push("allocate=static/steer=h-cahrw".into());
    specs.push("allocate=static/steer=ps-hrw:beta=0".into());
    for history in histories() {
        for spec in &specs {
            assert_eq!(allocations(spec, &history), 0, "{spec} on {history}");
        }
    }
}
