//! What a refused call gives: a code, and words that wait for `humpyard_last_error`.

use core::cell::RefCell;
use core::ffi::c_char;
use std::ffi::CString;

use humpyard::embed::{Refusal, RefusalKind};

use crate::data::Error;

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
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
    /// Keeps the words for [`last`], and gives the code.
    pub(crate) fn tell(self) -> i32 {
        let (code, words) = match self {
            Self::Null(name) => (Error::Null, format!("`{name}` is NULL")),
            Self::Refused(refusal) => {
                let code = match refusal.kind {
                    RefusalKind::Argument => Error::Argument,
                    RefusalKind::Order => Error::Order,
                    RefusalKind::Broken => Error::Broken,
                };
                (code, refusal.to_string())
            }
        };
        let words = CString::new(words.replace('\0', "?")).ok();
        // A thread that is ending has no place for words any more; the code says enough.
        let _ = LAST.try_with(|last| last.replace(words));
        code as i32
    }
}

/// The words of this thread's last failure. They stay where they are until the next.
pub(crate) fn last() -> *const c_char {
    let words = LAST.try_with(|last| last.borrow().as_ref().map(|words| words.as_ptr()));
    words.ok().flatten().unwrap_or(c"".as_ptr())
}
