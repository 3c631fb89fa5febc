//! Panics of services and of other work that must not end the program: caught, reported in one
//! line, not printed.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a service works on this thread, so that its panic is ours to report.
    static SERVING: Cell<bool> = const { Cell::new(false) };
    /// The place of the last such panic.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Stops the program's panic hook from printing the panics that [`catch`] catches. A service that
/// panics at one packet in a thousand would otherwise flood the output. All other panics go to the
/// previous hook.
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

/// Runs a service or other work that may panic.
///
/// # Errors
/// The work panicked; the text gives the reason and the place in one line. State that the work left
/// half done must not be used.
#[inline]
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    SERVING.set(true);
    // The caller rebuilds whatever the work may have left half done.
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
