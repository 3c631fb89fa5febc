//! A failure together with the history that led to it.

use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

use crate::history::History;

/// Runs a test of a history. A panic without a text message is resumed: it is no failure of the
/// test.
///
/// # Errors
/// The test panicked: its message, and the history.
pub fn explain<R>(history: &History, test: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(test)).map_err(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| resume_unwind(payload));
        format!("{message}\n{history}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn a_failure_shows_the_history() {
        let history = History::generate(&Shape { events: 3, ..Shape::default() });
        assert_eq!(explain(&history, || 5), Ok(5));
        let error = explain(&history, || assert!(history.cores == 2, "too few cores: {}", history.cores)).unwrap_err();
        assert!(error.starts_with("too few cores: 1\n1 cores, 1 in flight"), "{error}");
        assert_eq!(error.lines().count(), 1 + 4 + 3, "{error}");
    }

    #[test]
    fn what_is_no_message_goes_on() {
        let history = History::generate(&Shape { events: 3, ..Shape::default() });
        let payload = catch_unwind(|| explain(&history, || resume_unwind(Box::new(7)))).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&7));
    }
}
