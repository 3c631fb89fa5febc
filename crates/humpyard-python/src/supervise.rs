//! Long work beside Python: on a thread of its own without the interpreter, so that Ctrl-C and progress are heard.

use core::any::Any;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::policy;

/// How often Python is asked for signals: Ctrl-C is to answer within 0.2 s, and work takes most of that to end.
const EVERY: Duration = Duration::from_millis(10);
/// How many times Python is asked for signals for each time that a callback is called.
const LOOKS: u32 = 5;

/// How far work is.
#[derive(Clone, Debug, Default)]
struct Seen {
    done: u64,
    part: Option<f64>,
    what: String,
}

/// What work hears, and what it says of itself.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    seen: Mutex<Option<Seen>>,
}

impl Watch {
    /// Is set when the work is to end early.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The same, to be kept.
    pub(crate) fn shared_stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Says how far the work is: the count of `what`, and the part of all from 0 to 1, where that is known.
    pub(crate) fn see(&self, done: u64, part: Option<f64>, what: &str) {
        let seen = Seen { done, part, what: what.to_owned() };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }

    fn take(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Does work on another thread. Meanwhile calls `progress(done, part, what)`, and ends the work at a signal.
///
/// # Errors
/// What the callback, a handler of a signal or one of a policy raises, and a panic of the work.
pub(crate) fn supervised<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Arc<Watch>) -> T + Send,
) -> PyResult<T> {
    let progress = progress.map(|callback| callback.clone().unbind());
    let watch = Arc::new(Watch::default());
    let (answer, raised) = py.detach(|| {
        thread::scope(|scope| {
            let (ended, is_over) = channel();
            let watch = &watch;
            let working = scope.spawn(move || {
                // The thread stays known to Python: handlers of policies need not make it known at each call.
                let answer = Python::attach(|py| py.detach(|| work(watch)));
                // Who listens is gone only when it has stopped the work.
                let _ = ended.send(());
                answer
            });
            let (mut raised, mut looks) = (None, 0);
            while is_over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if raised.is_some() {
                    continue;
                }
                looks += 1;
                let callback = progress.as_ref().filter(|_| looks % LOOKS == 0);
                raised = Python::attach(|py| look(py, callback, watch)).err();
                if raised.is_some() {
                    watch.stop.store(true, Ordering::Relaxed);
                }
            }
            (working.join(), raised)
        })
    });
    match (answer, raised) {
        (_, Some(raised)) => Err(raised),
        (Ok(answer), None) => Ok(answer),
        (Err(panic), None) => Err(policy::raised(panic)
            .unwrap_or_else(|panic| PyRuntimeError::new_err(format!("a defect of humpyard: {}", words(&*panic))))),
    }
}

/// Hears signals, and says how far the work is.
fn look(py: Python<'_>, progress: Option<&Py<PyAny>>, watch: &Watch) -> PyResult<()> {
    py.check_signals()?;
    if let (Some(callback), Some(Seen { done, part, what })) = (progress, watch.take()) {
        callback.call1(py, (done, part, what))?;
    }
    Ok(())
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it ended without a word")
}
