//! A program that calls commands: it gets what they would print, hears how far they are, and can end them.

use core::sync::atomic::AtomicBool;
use std::cell::RefCell;
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use humpyard::lab::recommend::Elsewhere;

use crate::run_typed;

/// A program that calls commands.
pub trait Caller {
    /// The flag that it sets to end the command.
    fn stop(&self) -> Arc<AtomicBool>;
    /// Hears how far the command is: the count of `what`, and the part of all from 0 to 1, where that is known.
    fn progress(&self, done: u64, part: Option<f64>, what: &str);
    /// The processes that make the simulations of `recommend`. `None`: the threads of this one.
    fn elsewhere(&self) -> Option<Arc<dyn Elsewhere>> {
        None
    }
}

/// What a command answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// What it would have written to the standard output: with `--json` one document.
    pub document: String,
    /// The lines that it would have written to the standard error.
    pub said: Vec<String>,
    /// Whether it would have ended with exit code 0: no check failed, and no input was damaged.
    pub is_success: bool,
}

/// A call of a command.
struct Call {
    words: Vec<OsString>,
    caller: Rc<dyn Caller>,
    answer: Answer,
}

thread_local! {
    /// The call that this thread does. Commands write and listen on the thread that began them.
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Ends the call of this thread, also when the command panics.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        CALL.set(None);
    }
}

/// Does a command on this thread, by its words behind `humpyard`.
///
/// # Errors
/// In one line, why nothing was done: as the command says it with exit code 2, with options as they are typed.
pub fn call(words: impl IntoIterator<Item = String>, caller: Rc<dyn Caller>) -> Result<Answer, String> {
    let words: Vec<OsString> = ["humpyard".to_owned()].into_iter().chain(words).map(OsString::from).collect();
    CALL.set(Some(Call { words: words.clone(), caller, answer: Answer::default() }));
    let _ended = Ended;
    let code = run_typed(&words).map_err(|failure| failure.to_string())?;
    let call = CALL.take();
    let answer = call.map_or_else(Answer::default, |call| call.answer);
    Ok(Answer { is_success: code == ExitCode::SUCCESS, ..answer })
}

fn with<T>(of: impl FnOnce(&mut Call) -> T) -> Option<T> {
    CALL.with_borrow_mut(|call| call.as_mut().map(of))
}

/// Who calls the command of this thread. `None`: it was typed.
pub(crate) fn caller() -> Option<Rc<dyn Caller>> {
    with(|call| Rc::clone(&call.caller))
}

/// Gives a text to who calls the command. `false`: it was typed, and the text is to be printed.
pub(crate) fn answered(text: &str) -> bool {
    with(|call| call.answer.document.push_str(text)).is_some()
}

/// Gives a line to who calls the command. `false`: it was typed, and the line is to be printed.
pub(crate) fn said(line: &str) -> bool {
    with(|call| call.answer.said.push(line.to_owned())).is_some()
}

/// The words of the command, `humpyard` first.
pub(crate) fn typed() -> Vec<OsString> {
    with(|call| call.words.clone()).unwrap_or_else(|| env::args_os().collect())
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::sync::atomic::Ordering;

    use super::*;

    #[derive(Default)]
    struct Patient {
        stop: Arc<AtomicBool>,
        seen: Cell<u64>,
    }

    impl Caller for Patient {
        fn stop(&self) -> Arc<AtomicBool> {
            Arc::clone(&self.stop)
        }

        fn progress(&self, done: u64, _: Option<f64>, _: &str) {
            self.seen.set(done);
        }
    }

    fn called(words: &str, caller: &Rc<Patient>) -> Result<Answer, String> {
        call(words.split(' ').map(str::to_owned), Rc::clone(caller) as _)
    }

    #[test]
    fn who_calls_a_command_gets_what_it_would_print() {
        let caller = Rc::new(Patient::default());
        let answer = called("sim --input gen:poisson:packets=200000 --policy drr --json", &caller).unwrap();
        let document: serde_json::Value = serde_json::from_str(&answer.document).unwrap();
        assert_eq!(document["packets"]["in"], 200_000);
        assert!(answer.is_success && caller.seen.get() > 0);
        let remarked = called("schedule --policy drr --weights 5,1,1 --slots 7 --processors 2", &caller).unwrap();
        assert!(remarked.said[0].contains("warning"), "{:?}", remarked.said);
        let refused = called("sim --input gen:poisson --policy banana", &caller).unwrap_err();
        assert!(refused.starts_with("no policy `banana`"), "{refused}");
        assert!(!said("afterwards nobody calls"));
    }

    #[test]
    fn who_calls_a_command_ends_it() {
        let caller = Rc::new(Patient::default());
        caller.stop.store(true, Ordering::Relaxed);
        let refused = called("sim --input gen:poisson:packets=1000000000 --policy drr", &caller).unwrap_err();
        assert!(refused.starts_with("interrupted before the first packet"), "{refused}");
    }
}
