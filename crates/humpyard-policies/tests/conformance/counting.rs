//! An allocator that counts allocations and bytes.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hint::black_box;
use std::alloc::System;

thread_local! {
    /// The number of allocations of this thread, so that other tests and the harness do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// The bytes that this thread has allocated and not freed.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator with counters.
struct Counting;

// SAFETY: every method passes its arguments unchanged to the system's allocator, whose contract is
// the same. Counting uses thread-locals without destructor or lazy initialisation, so it neither
// allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        hold(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        hold(size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn hold(bytes: i64) {
    HELD.set(HELD.get() + bytes);
}

/// Returns the result of `run`, and the number of its allocations.
pub(crate) fn allocations<R>(run: impl FnOnce() -> R) -> (R, u64) {
    let before = ALLOCATIONS.get();
    let result = run();
    (result, ALLOCATIONS.get() - before)
}

/// Calls `run`. Returns the number of its allocations.
pub(crate) fn count_allocations(run: &mut dyn FnMut()) -> u64 {
    allocations(run).1
}

/// Returns the result of `make`, and the bytes that it holds.
pub(crate) fn bytes_held<R>(make: impl FnOnce() -> R) -> (R, i64) {
    let before = HELD.get();
    let made = make();
    (made, HELD.get() - before)
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| black_box(Box::new(5))).1, 1);
    assert_eq!(allocations(|| black_box(5)).1, 0);
}

#[test]
fn bytes_are_counted() {
    let grown = || {
        drop(black_box(vec![1_u8; 1000]));
        let mut bytes = black_box(Vec::<u8>::with_capacity(10));
        bytes.reserve_exact(100);
        bytes
    };
    assert_eq!(bytes_held(grown).1, 100);
}
