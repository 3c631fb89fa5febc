//! An allocator that counts.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hint::black_box;
use std::alloc::System;

thread_local! {
    /// Allocations of this thread, so that no other test and not the harness is counted.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated by this thread, less those it gave back.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn hold(bytes: isize) {
    HELD.set(HELD.get() + bytes);
}

/// The system's allocator, counted.
struct Counting;

// SAFETY: every method hands its arguments unchanged to the system's allocator, whose contract is the same. Counting
// touches a thread-local without destructor or lazy start, so it neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        hold(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        hold(size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `run` gives, and how often it allocated.
pub(crate) fn allocations<R>(run: impl FnOnce() -> R) -> (R, u64) {
    let before = ALLOCATIONS.get();
    let result = run();
    (result, ALLOCATIONS.get() - before)
}

/// What `run` gives, and the bytes that it holds on to.
pub(crate) fn held<R>(run: impl FnOnce() -> R) -> (R, isize) {
    let before = HELD.get();
    let result = run();
    (result, HELD.get() - before)
}

#[test]
fn bytes_are_counted() {
    assert_eq!(held(|| black_box(vec![0u8; 100])).1, 100);
    assert_eq!(held(|| drop(black_box(vec![0u8; 100]))).1, 0);
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| black_box(Box::new(5))).1, 1);
    assert_eq!(allocations(|| black_box(5)).1, 0);
}
