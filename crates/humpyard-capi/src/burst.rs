//! Calls for several packets at once.

use humpyard::unit::Time;

use crate::data::{self, Dispatch, Packet};
use crate::failure::Failure;
use crate::{Scheduler, of_scheduler};

/// Queues a burst of packets, in their order. Returns 0, and in `answers[i]` what `humpyard_arrive` would return for
/// `packets[i]`: its slot, or a `humpyard_dropped`.
///
/// The scheduler checks all packets first. If it refuses one, the call returns a `humpyard_error`, no packet has
/// arrived, and `answers` is as it was. `humpyard_last_error` has the number of the packet. Only with
/// `HUMPYARD_ERROR_BROKEN` some may have arrived.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `packets` is NULL or points to `count` packets,
/// and `answers` NULL or points to place for as many answers; the two do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_arrive_burst(
    scheduler: *mut Scheduler,
    now_ns: u64,
    packets: *const Packet,
    count: usize,
    answers: *mut i64,
) -> i32 {
    // SAFETY: the caller keeps the conditions of `of_scheduler`.
    let arrived = unsafe { of_scheduler(scheduler) }.and_then(|embedded| {
        // SAFETY: the caller passes NULL or `count` packets.
        let packets = unsafe { data::list("packets", packets, count) }?;
        data::check_list("answers", answers, count)?;
        Packet::check_parts(packets)?;
        let mut place = answers;
        Ok(embedded.arrive_burst(Time::from_ns(now_ns), packets.iter().map(Packet::read), |arrival| {
            // SAFETY: there is one answer for each packet, and the caller passes room for as many answers.
            unsafe {
                place.write(data::answer(arrival));
                place = place.add(1);
            }
        })?)
    });
    arrived.map_or_else(Failure::tell, |()| 0)
}

/// Takes the packets that a core serves next, at most `count`. Returns their number, and the packets in
/// `dispatches`; the core serves them in this order. Returns 0 if there is no packet that it may serve.
///
/// `in_flight` does not limit a burst: it is the number of packets at which `humpyard_next_core` skips a core.
/// If clients keep their order and several cores share a queue, a burst has at most one packet of a client.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `dispatches` is NULL or points to room for
/// `count` packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next_burst(
    scheduler: *mut Scheduler,
    now_ns: u64,
    core: u16,
    dispatches: *mut Dispatch,
    count: usize,
) -> i32 {
    // SAFETY: the caller keeps the conditions of `of_scheduler`.
    let given = unsafe { of_scheduler(scheduler) }.and_then(|embedded| {
        data::check_list("dispatches", dispatches, count)?;
        let mut place = dispatches;
        let given = embedded.next_burst(Time::from_ns(now_ns), core, count, |dispatch| {
            // SAFETY: the burst has at most `count` packets, and the caller passes room for as many.
            unsafe {
                place.write(Dispatch::from(dispatch));
                place = place.add(1);
            }
        })?;
        Ok(given)
    });
    // The number fits: at most 2^24 packets are held.
    given.map_or_else(Failure::tell, |given| given as i32)
}

static NO_TIME: u64 = 0;

/// Completes a burst of packets, in their order. Returns 0. `slots[i]` names a packet, and its core was busy
/// for `busy_ns[i]`. If `busy_ns` is NULL, every packet has 0. The packets may be of several cores.
///
/// The scheduler checks all slots first. If it refuses one, the call returns a `humpyard_error`, and no packet
/// is complete. `humpyard_last_error` has the number of the packet. Only with `HUMPYARD_ERROR_BROKEN` some may
/// be complete.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `slots` is NULL or points to `count`
/// slots. `busy_ns` is NULL or points to `count` times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_complete_burst(
    scheduler: *mut Scheduler,
    now_ns: u64,
    slots: *const u32,
    busy_ns: *const u64,
    count: usize,
) -> i32 {
    // SAFETY: the caller keeps the conditions of `of_scheduler`.
    let completed = unsafe { of_scheduler(scheduler) }.and_then(|embedded| {
        // SAFETY: the caller passes NULL or `count` slots.
        let slots = unsafe { data::list("slots", slots, count) }?;
        // Without times, every packet reads the same zero, so that one loop serves both cases.
        let (mut time, step) = if busy_ns.is_null() { (&raw const NO_TIME, 0) } else { (busy_ns, 1) };
        let packets = slots.iter().map(move |&slot| {
            // SAFETY: `time` points to the zero, or to one of the caller's `count` times.
            let busy_ns = unsafe { *time };
            time = time.wrapping_add(step);
            (slot, Time::from_ns(busy_ns))
        });
        Ok(embedded.complete_burst(Time::from_ns(now_ns), packets)?)
    });
    completed.map_or_else(Failure::tell, |()| 0)
}
