//! The result of a refused call: a code, and a message for `humpyard_last_error`.

use core::cell::{Cell, RefCell};
use core::ffi::c_char;
use std::ffi::CString;

use humpyard::embed::{Refusal, RefusalKind};
use humpyard::policy::BuildErrorKind;

thread_local! {
    static CODE: Cell<i32> = const { Cell::new(0) };
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Why a call was refused; `humpyard_last_error` says more.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// A pointer is NULL, and must not be.
    Null = -100,
    /// An argument is invalid, such as an id out of range.
    Argument = -101,
    /// The call does not fit the calls before: time goes back, or the packet is not in service.
    Order = -102,
    /// The scheduler failed internally, now or before. The only valid call is `humpyard_free`.
    Broken = -103,
    /// No policy or family has this name.
    UnknownPolicy = -110,
    /// The policy has no parameter of this name.
    UnknownParameter = -111,
    /// The text names no policy, or names a family or a parameter twice.
    Syntax = -112,
    /// A parameter does not take this value.
    BadValue = -113,
    /// Policies, parameters and configuration are each valid, but not together.
    Combination = -114,
    /// The scheduler would need more memory, or greater numbers, than possible.
    TooLarge = -115,
    /// The configuration contradicts itself: more weights than clients, for example.
    SetUp = -116,
}

impl From<RefusalKind> for Error {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::Build(BuildErrorKind::UnknownPolicy) => Self::UnknownPolicy,
            RefusalKind::Build(BuildErrorKind::UnknownParameter) => Self::UnknownParameter,
            RefusalKind::Build(BuildErrorKind::Syntax) => Self::Syntax,
            RefusalKind::Build(BuildErrorKind::BadValue) => Self::BadValue,
            RefusalKind::Build(BuildErrorKind::Combination) => Self::Combination,
            RefusalKind::Build(BuildErrorKind::TooLarge) => Self::TooLarge,
            RefusalKind::Build(BuildErrorKind::SetUp) => Self::SetUp,
            RefusalKind::Order => Self::Order,
            RefusalKind::Broken => Self::Broken,
            // Kinds of later versions count as invalid arguments until they get a code.
            _ => Self::Argument,
        }
    }
}

/// Why a call was refused.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This argument is NULL.
    Null(&'static str),
    Refused(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Failure {
    /// Stores the code and the message for [`last_code`] and [`last`], and returns the code.
    pub(crate) fn tell(self) -> i32 {
        let (code, words) = match self {
            Self::Null(name) => (Error::Null, format!("`{name}` is NULL")),
            Self::Refused(refusal) => (Error::from(refusal.kind), refusal.to_string()),
        };
        let words = CString::new(words.replace('\0', "?")).ok();
        // A thread that is ending has lost this storage; the returned code must suffice.
        let _ = CODE.try_with(|last| last.set(code as i32));
        let _ = LAST.try_with(|last| last.replace(words));
        code as i32
    }
}

/// Returns the message of this thread's last failure. It stays valid until the next failure.
pub(crate) fn last() -> *const c_char {
    let words = LAST.try_with(|last| last.borrow().as_ref().map(|words| words.as_ptr()));
    words.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Returns the code of this thread's last failure; 0 if there was none.
pub(crate) fn last_code() -> i32 {
    CODE.try_with(Cell::get).unwrap_or_default()
}
