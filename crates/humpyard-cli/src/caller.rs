//! A program that calls commands: it gets what they would print, hears how far they are, and can end them.

use core::sync::atomic::AtomicBool;
use std::cell::RefCell;
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use humpyard::lab::find_named;
use humpyard::lab::recommend::Elsewhere;
use humpyard::policies::spec::PolicySpec;
use humpyard::policy::BuildError;
use humpyard::traffic::PacketTable;

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
    /// The packets of a run, in memory. `None`: those of its input.
    fn table(&self) -> Option<PacketTable> {
        None
    }
    /// Policies of the program, which options name as they are shown.
    fn policies(&self) -> OwnPolicies {
        OwnPolicies::default()
    }
}

/// Policies of the program that calls a command.
#[derive(Clone, Debug, Default)]
pub struct OwnPolicies {
    /// The policies. Their names differ.
    pub policies: Vec<PolicySpec>,
    /// What tells them from others of their names: a sweep goes on with the same ones alone.
    pub code: String,
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

/// The time of a call on this thread, which ends also when the command panics.
pub(crate) struct Calling;

impl Calling {
    /// Begins the call of a command, by its words, `humpyard` first.
    pub(crate) fn begin(words: &[OsString], caller: Rc<dyn Caller>) -> Self {
        CALL.set(Some(Call { words: words.to_owned(), caller, answer: Answer::default() }));
        Self
    }
}

impl Drop for Calling {
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
    let _calling = Calling::begin(&words, caller);
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

/// The policies of the program that calls the command. None: the command was typed.
pub(crate) fn own_policies() -> OwnPolicies {
    caller().map_or_else(OwnPolicies::default, |caller| caller.policies())
}

/// Returns the policies that a text names: those of the program that calls the command, or registered ones.
///
/// # Errors
/// Text that names no policies.
pub(crate) fn named(text: &str) -> Result<PolicySpec, BuildError> {
    find_named(&own_policies().policies, text)
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
