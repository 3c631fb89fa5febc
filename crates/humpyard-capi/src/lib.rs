//! The schedulers of humpyard for programs in C. `include/humpyard.h` is generated from this crate.
//!
//! A thin layer over [`humpyard::embed`]: it checks pointers and numbers, and returns codes and messages. It
//! cannot check that a pointer other than NULL is valid. The safety sections state these conditions.
//!
//! Types have their Rust names here; in C they are `struct humpyard_config` and so on. Programs in Rust use the
//! crate `humpyard`.
//!
//! ```
//! use core::ffi::CStr;
//! use core::ptr;
//!
//! use humpyard_capi::{humpyard_free, humpyard_last_error, humpyard_new, humpyard_next_core};
//!
//! // SAFETY: the texts end with a zero, NULL stands for the defaults, and one thread alone uses the scheduler.
//! unsafe {
//!     let scheduler = humpyard_new(c"gr3".as_ptr(), ptr::null());
//!     let mut core = 0;
//!     assert_eq!(humpyard_next_core(scheduler, 0, &raw mut core), 0, "nothing waits");
//!     humpyard_free(scheduler);
//!
//!     assert!(humpyard_new(c"gr4".as_ptr(), ptr::null()).is_null());
//!     assert!(CStr::from_ptr(humpyard_last_error()).to_str()?.contains("gr4"));
//! }
//! # Ok::<(), core::str::Utf8Error>(())
//! ```
mod burst;
mod data;
mod failure;

pub use burst::{humpyard_arrive_burst, humpyard_complete_burst, humpyard_next_burst};
pub use data::{Account, Config, Dispatch, Dropped, Packet, Part, Service, Switch, Unit};
pub use failure::Error;

use core::ffi::{CStr, c_char};

use failure::Failure;
use humpyard::embed::{self, Embedded, Refusal};
use humpyard::unit::Time;

/// A scheduler: packets, their queues, and the policies that order them.
#[derive(Debug)]
pub struct Scheduler {
    embedded: Embedded,
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn humpyard_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zeros"),
    };
    VERSION.as_ptr()
}

/// Returns the message of this thread's last failed call, in one line of UTF-8; empty if no call failed. The
/// message stays valid until the next failed call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn humpyard_last_error() -> *const c_char {
    failure::last()
}

/// Returns the code of this thread's last failed call, a `humpyard_error`; 0 if no call failed. It says why
/// `humpyard_new` returned NULL: an unknown policy, a bad value, and so on.
#[unsafe(no_mangle)]
pub extern "C" fn humpyard_last_error_code() -> i32 {
    failure::last_code()
}

/// Returns a new scheduler, or NULL on failure. `humpyard_last_error` then has the message, and
/// `humpyard_last_error_code` the code.
///
/// `policy` names policies, with parameters: "gr3", "ps-hrw:beta=0.1", "steer=hrw/share=drr". `config` may be
/// NULL, for all defaults. The scheduler keeps neither pointer.
///
/// # Safety
/// `policy` is NULL or a string. `config` is NULL or a configuration whose pointers are each NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_new(policy: *const c_char, config: *const Config) -> *mut Scheduler {
    let made: Result<_, Failure> = embed::caught(|| {
        // SAFETY: the caller passes NULL or a valid string and configuration.
        let (policy, (longest, config)) = unsafe { (data::text("policy", policy)?, data::config(config)?) };
        Ok(Embedded::new(policy.ok_or(Failure::Null("policy"))?, longest, config)?)
    });
    match made {
        Ok(embedded) => Box::into_raw(Box::new(Scheduler { embedded })),
        Err(failure) => {
            failure.tell();
            core::ptr::null_mut()
        }
    }
}

/// Frees a scheduler, with the packets that it holds. NULL has no effect.
///
/// # Safety
/// `scheduler` is NULL, or comes from `humpyard_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_free(scheduler: *mut Scheduler) {
    if !scheduler.is_null() {
        // SAFETY: it comes from `Box::into_raw` in `humpyard_new`, and the caller frees it once.
        drop(unsafe { Box::from_raw(scheduler) });
    }
}

/// Queues an arriving packet. Returns its slot, from 0, which names it until it is complete. If the packet is
/// dropped, returns a `humpyard_dropped`; if the call is refused, a `humpyard_error`. Both are negative.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `packet` is NULL or a packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_arrive(scheduler: *mut Scheduler, now_ns: u64, packet: *const Packet) -> i64 {
    // SAFETY: both are NULL or valid, and no other thread uses the scheduler.
    let (scheduler, packet) = unsafe { (of_scheduler(scheduler), packet.as_ref()) };
    let arrived = scheduler.and_then(|scheduler| {
        let packet = packet.ok_or(Failure::Null("packet"))?;
        packet.check_part()?;
        Ok(scheduler.arrive(Time::from_ns(now_ns), packet.read())?)
    });
    arrived.map_or_else(|failure| failure.tell().into(), data::answer)
}

/// Finds a core that has room and for which a packet may wait. Returns 1, and the core in `core`; 0 if there is
/// none. Call `humpyard_next` for this core, then this again until it returns 0: then no core can take more.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `core` is NULL or room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next_core(scheduler: *mut Scheduler, now_ns: u64, core: *mut u16) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(scheduler.next_core(Time::from_ns(now_ns))?.map(|core| core.0));
    // SAFETY: the caller keeps the conditions of `ask`.
    unsafe { ask(scheduler, "core", core, question) }
}

/// Takes the packet that a core serves next. Returns 1, and the packet in `dispatch`; 0 if there is no packet
/// that it may serve. The program does the work, and then calls `humpyard_complete`.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `dispatch` is NULL or room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next(
    scheduler: *mut Scheduler,
    now_ns: u64,
    core: u16,
    dispatch: *mut Dispatch,
) -> i32 {
    let question =
        |scheduler: &mut Embedded| Ok(scheduler.next(Time::from_ns(now_ns), core)?.map(|next| Dispatch::from(&next)));
    // SAFETY: the caller keeps the conditions of `ask`.
    unsafe { ask(scheduler, "dispatch", dispatch, question) }
}

/// Completes the packet in this slot, for which its core was busy for `busy_ns`. Returns 0. Another packet may
/// then get the slot. If the unit of work is nanoseconds, the packet is charged `busy_ns`, up to about a
/// million times the longest packet's estimate. In other units, `busy_ns` may be 0.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_complete(scheduler: *mut Scheduler, now_ns: u64, slot: u32, busy_ns: u64) -> i32 {
    let event =
        |scheduler: &mut Embedded| scheduler.complete(Time::from_ns(now_ns), slot, Time::from_ns(busy_ns)).map(drop);
    // SAFETY: the caller keeps the conditions of `tell`.
    unsafe { tell(scheduler, event) }
}

/// Sets the weight of a client, from 1. Returns 0.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_set_weight(scheduler: *mut Scheduler, now_ns: u64, client: u32, weight: u32) -> i32 {
    // SAFETY: the caller keeps the conditions of `tell`.
    unsafe { tell(scheduler, |scheduler| scheduler.set_weight(Time::from_ns(now_ns), client, weight)) }
}

/// Ends a client that has no packets here. Returns 0. Another client may then get its number, and inherits only
/// the weight.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_end_client(scheduler: *mut Scheduler, now_ns: u64, client: u32) -> i32 {
    // SAFETY: the caller keeps the conditions of `tell`.
    unsafe { tell(scheduler, |scheduler| scheduler.end_client(Time::from_ns(now_ns), client)) }
}

/// Ends a flow that has no packets here. Returns 0. Another flow may then get its number.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_end_flow(scheduler: *mut Scheduler, now_ns: u64, flow: u32) -> i32 {
    // SAFETY: the caller keeps the conditions of `tell`.
    unsafe { tell(scheduler, |scheduler| scheduler.end_flow(Time::from_ns(now_ns), flow)) }
}

/// Finds the time of a policy's next timeout. Returns 1, and the time in `at_ns`; 0 if no timeout is set. Call
/// this after every other call. At that time, call `humpyard_on_timeout`.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `at_ns` is NULL or room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next_timeout(scheduler: *mut Scheduler, at_ns: *mut u64) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(scheduler.next_timeout()?.map(Time::as_ns));
    // SAFETY: the caller keeps the conditions of `ask`.
    unsafe { ask(scheduler, "at_ns", at_ns, question) }
}

/// Runs the timeout that `humpyard_next_timeout` returned. Returns 0. Extra calls do no harm.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_on_timeout(scheduler: *mut Scheduler, now_ns: u64) -> i32 {
    // SAFETY: the caller keeps the conditions of `tell`.
    unsafe { tell(scheduler, |scheduler| scheduler.on_timeout(Time::from_ns(now_ns))) }
}

/// Takes the next core that begins to switch to another service. Returns 1, and the switch in `core_switch`;
/// 0 if there is none. If a policy allocates cores to services, call this repeatedly after every other call,
/// until it returns 0. After the cost of the switch, call `humpyard_switched`.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `core_switch` is NULL or room for the
/// answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next_switch(scheduler: *mut Scheduler, core_switch: *mut Switch) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(scheduler.next_switch()?.map(|switch| Switch::from(&switch)));
    // SAFETY: the caller keeps the conditions of `ask`.
    unsafe { ask(scheduler, "core_switch", core_switch, question) }
}

/// Completes a core's switch to its new service. Returns 0.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_switched(scheduler: *mut Scheduler, now_ns: u64, core: u16) -> i32 {
    // SAFETY: the caller keeps the conditions of `tell`.
    unsafe { tell(scheduler, |scheduler| scheduler.switched(Time::from_ns(now_ns), core)) }
}

/// Writes the counts of all packets up to now. Returns 1.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `account` is NULL or room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_account(scheduler: *mut Scheduler, account: *mut Account) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(Some(Account::from(&scheduler.account()?)));
    // SAFETY: the caller keeps the conditions of `ask`.
    unsafe { ask(scheduler, "account", account, question) }
}

/// Checks that a scheduler may move between threads, as the header promises.
const _: fn() = || {
    fn goes_to_another_thread<T: Send>() {}
    goes_to_another_thread::<Scheduler>();
};

/// Reports an event to a scheduler. Returns 0, or an [`Error`].
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
unsafe fn tell(scheduler: *mut Scheduler, event: impl FnOnce(&mut Embedded) -> Result<(), Refusal>) -> i32 {
    // SAFETY: the caller keeps the conditions of `of_scheduler`.
    let told = unsafe { of_scheduler(scheduler) }.and_then(|scheduler| event(scheduler).map_err(Failure::from));
    told.map_or_else(Failure::tell, |()| 0)
}

/// Returns the scheduler behind a pointer.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses during the life of the result.
unsafe fn of_scheduler<'a>(scheduler: *mut Scheduler) -> Result<&'a mut Embedded, Failure> {
    // SAFETY: it is NULL or valid, and no other thread uses it.
    let scheduler = unsafe { scheduler.as_mut() };
    scheduler.map(|scheduler| &mut scheduler.embedded).ok_or(Failure::Null("scheduler"))
}

/// Asks a scheduler, and writes the answer. Returns 1; 0 if there is no answer; or an [`Error`].
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now. `to`, whose name in C is `name`, is NULL
/// or room for the answer.
unsafe fn ask<T>(
    scheduler: *mut Scheduler,
    name: &'static str,
    to: *mut T,
    question: impl FnOnce(&mut Embedded) -> Result<Option<T>, Refusal>,
) -> i32 {
    if to.is_null() {
        return Failure::Null(name).tell();
    }
    let mut answered = 0;
    let asked = |scheduler: &mut Embedded| {
        if let Some(answer) = question(scheduler)? {
            // SAFETY: it is not NULL, so the caller passed room for the answer.
            unsafe { to.write(answer) };
            answered = 1;
        }
        Ok(())
    };
    // SAFETY: the caller keeps the conditions of `tell`.
    let told = unsafe { tell(scheduler, asked) };
    if told == 0 { answered } else { told }
}

#[cfg(test)]
mod tests;
