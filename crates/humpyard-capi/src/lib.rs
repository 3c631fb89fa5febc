//! The schedulers of humpyard for programs in C: `include/humpyard.h` is made from this crate.
//!
//! A thin skin on [`humpyard::embed`]: pointers and numbers come in and are looked at, codes and words go out. What a call
//! cannot know is whether a pointer that is not NULL is good; that is what the safety sections say.
//!
//! The names of types are those of Rust; in C they are `struct humpyard_config` and so on. Programs in Rust use the
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

/// Packets, their queues, and the policies that order them.
#[derive(Debug)]
pub struct Scheduler {
    embedded: Embedded,
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn humpyard_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zeros"),
    };
    VERSION.as_ptr()
}

/// Why the last call of this thread that failed did so, in one line of UTF-8; empty if none failed. It stays until the next
/// call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn humpyard_last_error() -> *const c_char {
    failure::last()
}

/// Returns the code of the last call of this thread that failed, a `humpyard_error`; 0 if none failed. It is how a
/// program learns why `humpyard_new` returned NULL: an unknown policy, a bad value, and so on.
#[unsafe(no_mangle)]
pub extern "C" fn humpyard_last_error_code() -> i32 {
    failure::last_code()
}

/// A new scheduler, or NULL if there cannot be one; `humpyard_last_error` says why, `humpyard_last_error_code` which
/// kind of reason it is.
///
/// `policy` names policies, with parameters: "gr3", "ps-hrw:beta=0.1", "steer=hrw/share=drr". `config` may be NULL, for all
/// defaults. Neither is kept.
///
/// # Safety
/// `policy` is NULL or a string, and `config` NULL or a configuration whose pointers are NULL or point to what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_new(policy: *const c_char, config: *const Config) -> *mut Scheduler {
    let made: Result<_, Failure> = embed::caught(|| {
        // SAFETY: the caller says that the string and the configuration are good.
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

/// Gives back all memory of a scheduler, with the packets that it holds. NULL is nothing to do.
///
/// # Safety
/// `scheduler` is NULL, or comes from `humpyard_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_free(scheduler: *mut Scheduler) {
    if !scheduler.is_null() {
        // SAFETY: it comes from `Box::into_raw` in `humpyard_new`, and the caller says that it is freed once.
        drop(unsafe { Box::from_raw(scheduler) });
    }
}

/// A packet arrives: the slot, from 0, that it is named by until it is complete. Or it is dropped, a `humpyard_dropped`, or
/// the call is refused, a `humpyard_error`; both are negative.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now, and `packet` NULL or a packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_arrive(scheduler: *mut Scheduler, now_ns: u64, packet: *const Packet) -> i64 {
    // SAFETY: the caller says that both are NULL or good, and that no other thread uses the scheduler.
    let (scheduler, packet) = unsafe { (of_scheduler(scheduler), packet.as_ref()) };
    let arrived = scheduler.and_then(|scheduler| {
        let packet = packet.ok_or(Failure::Null("packet"))?;
        packet.check_part()?;
        Ok(scheduler.arrive(Time::from_ns(now_ns), packet.read())?)
    });
    arrived.map_or_else(|failure| failure.tell().into(), data::answer)
}

/// Finds a core that has room and for which something may wait: 1 and its number in `core`, or 0 if there is none. Ask
/// `humpyard_next` for it, and then this again, until it says 0: then every core has what it can have.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now, and `core` NULL or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next_core(scheduler: *mut Scheduler, now_ns: u64, core: *mut u16) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(scheduler.next_core(Time::from_ns(now_ns))?.map(|core| core.0));
    // SAFETY: as the caller says.
    unsafe { ask(scheduler, "core", core, question) }
}

/// Takes the packet that a core serves next: 1 and the packet in `dispatch`, or 0 if nothing waits that it may serve. The
/// program does the work, and then calls `humpyard_complete`.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now, and `dispatch` NULL or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next(
    scheduler: *mut Scheduler,
    now_ns: u64,
    core: u16,
    dispatch: *mut Dispatch,
) -> i32 {
    let question =
        |scheduler: &mut Embedded| Ok(scheduler.next(Time::from_ns(now_ns), core)?.map(|next| Dispatch::from(&next)));
    // SAFETY: as the caller says.
    unsafe { ask(scheduler, "dispatch", dispatch, question) }
}

/// The packet in this slot is done, with which its core was busy for `busy_ns`: 0. The slot may then be used for another
/// packet. Where work is in nanoseconds, `busy_ns` is what the packet is charged, up to about a million times what the longest
/// packet is believed to cost; else it may be 0.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_complete(scheduler: *mut Scheduler, now_ns: u64, slot: u32, busy_ns: u64) -> i32 {
    let event =
        |scheduler: &mut Embedded| scheduler.complete(Time::from_ns(now_ns), slot, Time::from_ns(busy_ns)).map(drop);
    // SAFETY: as the caller says.
    unsafe { tell(scheduler, event) }
}

/// Gives a client another weight, from 1: 0.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_set_weight(scheduler: *mut Scheduler, now_ns: u64, client: u32, weight: u32) -> i32 {
    // SAFETY: as the caller says.
    unsafe { tell(scheduler, |scheduler| scheduler.set_weight(Time::from_ns(now_ns), client, weight)) }
}

/// A client without packets here is gone: 0. Its number may be used for another, which inherits nothing but the weight.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_end_client(scheduler: *mut Scheduler, now_ns: u64, client: u32) -> i32 {
    // SAFETY: as the caller says.
    unsafe { tell(scheduler, |scheduler| scheduler.end_client(Time::from_ns(now_ns), client)) }
}

/// A flow without packets here is over: 0. Its number may be used for another.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_end_flow(scheduler: *mut Scheduler, now_ns: u64, flow: u32) -> i32 {
    // SAFETY: as the caller says.
    unsafe { tell(scheduler, |scheduler| scheduler.end_flow(Time::from_ns(now_ns), flow)) }
}

/// Finds when a policy wants to be told of the time: 1 and the time in `at_ns`, or 0 for never. To be asked after every other
/// call; at that time the program calls `humpyard_on_timeout`.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now, and `at_ns` NULL or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next_timeout(scheduler: *mut Scheduler, at_ns: *mut u64) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(scheduler.next_timeout()?.map(Time::as_ns));
    // SAFETY: as the caller says.
    unsafe { ask(scheduler, "at_ns", at_ns, question) }
}

/// The time has come that `humpyard_next_timeout` named: 0. Being told too often does no harm.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_on_timeout(scheduler: *mut Scheduler, now_ns: u64) -> i32 {
    // SAFETY: as the caller says.
    unsafe { tell(scheduler, |scheduler| scheduler.on_timeout(Time::from_ns(now_ns))) }
}

/// Takes the next core that begins to go over to another service: 1 and which in `core_switch`, or 0 if there is none. Where
/// cores are allocated to services this is asked after every other call until it says 0. When the cost of the switch has
/// passed, the program calls `humpyard_switched`.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now, and `core_switch` NULL or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_next_switch(scheduler: *mut Scheduler, core_switch: *mut Switch) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(scheduler.next_switch()?.map(|switch| Switch::from(&switch)));
    // SAFETY: as the caller says.
    unsafe { ask(scheduler, "core_switch", core_switch, question) }
}

/// The core has gone over to its new service, and is ready: 0.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_switched(scheduler: *mut Scheduler, now_ns: u64, core: u16) -> i32 {
    // SAFETY: as the caller says.
    unsafe { tell(scheduler, |scheduler| scheduler.switched(Time::from_ns(now_ns), core)) }
}

/// Writes what became of every packet so far: 1.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now, and `account` NULL or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn humpyard_account(scheduler: *mut Scheduler, account: *mut Account) -> i32 {
    let question = |scheduler: &mut Embedded| Ok(Some(Account::from(&scheduler.account()?)));
    // SAFETY: as the caller says.
    unsafe { ask(scheduler, "account", account, question) }
}

/// A scheduler may go from one thread to another, as the header says.
const _: fn() = || {
    fn goes_to_another_thread<T: Send>() {}
    goes_to_another_thread::<Scheduler>();
};

/// Tells a scheduler of an event: 0, or an [`Error`].
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now.
unsafe fn tell(scheduler: *mut Scheduler, event: impl FnOnce(&mut Embedded) -> Result<(), Refusal>) -> i32 {
    // SAFETY: as the caller says.
    let told = unsafe { of_scheduler(scheduler) }.and_then(|scheduler| event(scheduler).map_err(Failure::from));
    told.map_or_else(Failure::tell, |()| 0)
}

/// Returns the scheduler behind a pointer.
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses until the answer is gone.
unsafe fn of_scheduler<'a>(scheduler: *mut Scheduler) -> Result<&'a mut Embedded, Failure> {
    // SAFETY: as the caller says.
    let scheduler = unsafe { scheduler.as_mut() };
    scheduler.map(|scheduler| &mut scheduler.embedded).ok_or(Failure::Null("scheduler"))
}

/// Asks a scheduler, and writes the answer: 1, or 0 if it has none, or an [`Error`].
///
/// # Safety
/// `scheduler` is NULL or a scheduler that no other thread uses now, and `to`, which C calls `name`, NULL or a place for the
/// answer.
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
            // SAFETY: it is not NULL, and the caller says that there is place.
            unsafe { to.write(answer) };
            answered = 1;
        }
        Ok(())
    };
    // SAFETY: as the caller says.
    let told = unsafe { tell(scheduler, asked) };
    if told == 0 { answered } else { told }
}

#[cfg(test)]
mod tests;
