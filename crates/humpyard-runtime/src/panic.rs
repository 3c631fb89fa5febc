//! Panics of services, and of whatever else must not end the program: caught, told in one line, not printed.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a service works on this thread, so that its panic is ours to tell.
    static SERVING: Cell<bool> = const { Cell::new(false) };
    /// Where the last such panic was.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Lets the program's panic hook say nothing of the panics that [`catch`] catches, from now on: one packet in a thousand that
/// a service cannot bear would be a flood. Every other panic goes to the hook that there was.
pub fn keep_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if SERVING.get() {
                PLACE.set(panic.location().map(ToString::to_string));
            } else {
                before(panic);
            }
        }));
    });
}

/// Lets a service work, or something else that may panic; if it does, why and where, in one line.
///
/// # Errors
/// The panic; what the work left half done must not be used.
#[inline]
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    SERVING.set(true);
    // What the work may have left half done, its caller makes anew.
    let worked = catch_unwind(AssertUnwindSafe(work));
    SERVING.set(false);
    worked.map_err(|payload| describe(&*payload))
}

#[cold]
fn describe(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message");
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    match PLACE.take() {
        Some(place) => format!("{line} (at {place})"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    #[test]
    fn a_panic_is_one_line_with_its_place() {
        keep_quiet();
        assert_eq!(catch(|| 7), Ok(7));
        let said = catch(|| assert_eq!(1, 2, "this panic\nis part of a test")).unwrap_err();
        assert!(said.starts_with("assertion `left == right` failed: this panic is part of a test left: 1"), "{said}");
        assert!(said.contains("panic.rs:") && !said.contains('\n'), "{said}");
        let said = catch(|| panic_any(7)).unwrap_err();
        assert!(said.starts_with("without a message (at "), "{said}");
    }
}
