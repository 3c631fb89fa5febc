//! The few calls of Vectorscan that humpyard's `l7-filter` makes, safe: many regular expressions held against bytes at once, in
//! blocks or in streams.
//!
//! Vectorscan is the portable continuation of Hyperscan, with the same C interface. The library is the system's `libhs`
//! (Debian: `libvectorscan-dev`), linked with the feature `system`; without it this crate is empty.
//!
#![cfg_attr(feature = "system", doc = "```")]
#![cfg_attr(not(feature = "system"), doc = "```ignore")]
//! use humpyard_vectorscan::{Database, Mode, Scratch};
//!
//! let database = Database::new(&["^GET ", "^SSH-"], Mode::Block)?;
//! let mut scratch = Scratch::new([&database])?;
//! let mut found = Vec::new();
//! database.scan(b"SSH-2.0-OpenSSH", &mut scratch, |pattern| found.push(pattern))?;
//! assert_eq!(found, [1]);
//! # Ok::<(), humpyard_vectorscan::Error>(())
//! ```
//!
//! # Unsafe
//! The C library is called through a dozen declarations of our own (`declarations.rs`). What they demand is kept by types: a
//! [`Database`] never changes and outlives the streams that hold it; a [`Scratch`] is used by one call at a time, for the call
//! borrows it; a callback gets the closure that its own call borrowed, and a panic in it ends the process.
#![cfg(feature = "system")]

mod declarations;

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use core::fmt;
use core::ptr::{self, NonNull};
use std::ffi::CString;
use std::sync::Arc;

use declarations as hs;

/// Why Vectorscan did not do what it was asked to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vectorscan: {}", self.message)
    }
}

impl core::error::Error for Error {}

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    fn of(call: &str, code: c_int) -> Result<(), Self> {
        if code == hs::SUCCESS { Ok(()) } else { Err(Self::new(format!("{call} answered {code}"))) }
    }
}

/// How the bytes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All at once.
    Block,
    /// One piece after the other.
    Stream,
}

/// Compiled patterns.
#[derive(Debug)]
pub struct Database {
    pointer: NonNull<hs::Database>,
    mode: Mode,
}

// SAFETY: a compiled database is never written again, and the library says that threads may share it.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    /// Compiles patterns, in which `.` is every byte; a match has the index of its pattern, and is told of once.
    ///
    /// # Errors
    /// If the library cannot compile one of them: the message says which and why.
    pub fn new(patterns: &[&str], mode: Mode) -> Result<Self, Error> {
        let texts =
            patterns.iter().map(|&pattern| CString::new(pattern).map_err(|_| Error::new("a pattern has a zero")));
        let texts: Vec<CString> = texts.collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let flags: Vec<c_uint> = vec![hs::FLAG_DOTALL | hs::FLAG_SINGLEMATCH; patterns.len()];
        let ids: Vec<c_uint> = (0..patterns.len() as c_uint).collect();
        let (mut database, mut error) = (ptr::null_mut(), ptr::null_mut());
        let mode_bit = if mode == Mode::Block { hs::MODE_BLOCK } else { hs::MODE_STREAM };
        // SAFETY: the three arrays have as many elements as the fifth argument says, each text ends with a zero, no platform
        // stands for this one, and the two places for results are writable.
        let code = unsafe {
            hs::hs_compile_multi(
                pointers.as_ptr(),
                flags.as_ptr(),
                ids.as_ptr(),
                patterns.len() as c_uint,
                mode_bit,
                ptr::null(),
                &raw mut database,
                &raw mut error,
            )
        };
        if !error.is_null() {
            return Err(compile_error(error, patterns));
        }
        Error::of("hs_compile_multi", code)?;
        let pointer = NonNull::new(database).ok_or_else(|| Error::new("hs_compile_multi gave nothing"))?;
        Ok(Self { pointer, mode })
    }

    /// The memory of one stream, in bytes.
    ///
    /// # Errors
    /// If it was not compiled for streams.
    pub fn stream_bytes(&self) -> Result<usize, Error> {
        let mut bytes = 0;
        // SAFETY: the database is one, and the place for the result is writable.
        let code = unsafe { hs::hs_stream_size(self.pointer.as_ptr(), &raw mut bytes) };
        Error::of("hs_stream_size", code).map(|()| bytes)
    }

    /// Tells of every pattern that matches somewhere in these bytes, or at their end.
    ///
    /// # Errors
    /// If the database is for streams, or the scratch space was not made for it.
    pub fn scan(&self, bytes: &[u8], scratch: &mut Scratch, mut matched: impl FnMut(u32)) -> Result<(), Error> {
        let (handler, context) = callback(&mut matched);
        // SAFETY: database and scratch space are what they are called, the bytes are as many as is said, nobody else uses the
        // scratch space during the call, and the context is the closure that the handler was made for.
        let code = unsafe {
            hs::hs_scan(
                self.pointer.as_ptr(),
                bytes.as_ptr().cast(),
                length(bytes),
                0,
                scratch.pointer.as_ptr(),
                Some(handler),
                context,
            )
        };
        Error::of("hs_scan", code)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: it came from the library, and nobody has it any more: streams hold the value this drops with the last.
        unsafe { hs::hs_free_database(self.pointer.as_ptr()) };
    }
}

/// The error of a compilation, with its pattern; frees what the library told it by.
fn compile_error(error: *mut hs::CompileError, patterns: &[&str]) -> Error {
    // SAFETY: the library gave it, and its message ends with a zero.
    let (message, expression) = unsafe { (CStr::from_ptr((*error).message).to_string_lossy(), (*error).expression) };
    let pattern = usize::try_from(expression).ok().and_then(|at| patterns.get(at)).unwrap_or(&"");
    let told = Error::new(format!("`{pattern}`: {message}"));
    // SAFETY: the library gave it, it was not freed yet, and the message was copied.
    unsafe { hs::hs_free_compile_error(error) };
    told
}

/// The room that a call needs: one for each thread.
#[derive(Debug)]
pub struct Scratch {
    pointer: NonNull<hs::Scratch>,
}

// SAFETY: it belongs to no thread; only to use it twice at once is wrong, and calls borrow it alone.
unsafe impl Send for Scratch {}
// SAFETY: nothing can be done with it through a shared reference but to clone it, which the library allows while it is not in
// use; and it is in use only while it is borrowed alone.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Room enough for each of these databases.
    ///
    /// # Errors
    /// If there is no memory, or no database.
    pub fn new<'a>(databases: impl IntoIterator<Item = &'a Database>) -> Result<Self, Error> {
        let mut pointer = ptr::null_mut();
        for database in databases {
            // SAFETY: the database is one, and the pointer is none or a scratch space, which the library makes larger.
            let code = unsafe { hs::hs_alloc_scratch(database.pointer.as_ptr(), &raw mut pointer) };
            Error::of("hs_alloc_scratch", code)?;
        }
        Ok(Self { pointer: NonNull::new(pointer).ok_or_else(|| Error::new("scratch space for no database"))? })
    }

    /// Another of the same size.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn another(&self) -> Result<Self, Error> {
        let mut pointer = ptr::null_mut();
        // SAFETY: it is a scratch space that is not in use, and the place for the result is writable.
        let code = unsafe { hs::hs_clone_scratch(self.pointer.as_ptr(), &raw mut pointer) };
        Error::of("hs_clone_scratch", code)?;
        Ok(Self { pointer: NonNull::new(pointer).ok_or_else(|| Error::new("hs_clone_scratch gave nothing"))? })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: it came from the library, is not in use, and nobody has it any more.
        unsafe { hs::hs_free_scratch(self.pointer.as_ptr()) };
    }
}

/// Bytes that come piece by piece.
#[derive(Debug)]
pub struct Stream {
    pointer: NonNull<hs::Stream>,
    /// It lives as long as its streams.
    _database: Arc<Database>,
}

// SAFETY: it belongs to no thread; calls borrow it alone.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream before its first byte; all its memory is taken here.
    ///
    /// # Errors
    /// If the database was not compiled for streams, or there is no memory.
    pub fn new(database: &Arc<Database>) -> Result<Self, Error> {
        if database.mode != Mode::Stream {
            return Err(Error::new("the patterns were compiled for blocks"));
        }
        let mut pointer = ptr::null_mut();
        // SAFETY: the database is one for streams, and the place for the result is writable.
        let code = unsafe { hs::hs_open_stream(database.pointer.as_ptr(), 0, &raw mut pointer) };
        Error::of("hs_open_stream", code)?;
        let pointer = NonNull::new(pointer).ok_or_else(|| Error::new("hs_open_stream gave nothing"))?;
        Ok(Self { pointer, _database: Arc::clone(database) })
    }

    /// Puts it before its first byte again.
    ///
    /// # Errors
    /// None that this crate could bring about.
    pub fn reset(&mut self) -> Result<(), Error> {
        // SAFETY: it is an open stream; without a callback, no scratch space is needed.
        let code = unsafe { hs::hs_reset_stream(self.pointer.as_ptr(), 0, ptr::null_mut(), None, ptr::null_mut()) };
        Error::of("hs_reset_stream", code)
    }

    /// Reads what comes next, and tells of every pattern that matches by then and did not before.
    ///
    /// # Errors
    /// If the scratch space was not made for its database.
    pub fn scan(&mut self, bytes: &[u8], scratch: &mut Scratch, mut matched: impl FnMut(u32)) -> Result<(), Error> {
        let (handler, context) = callback(&mut matched);
        // SAFETY: as in `Database::scan`; the stream is open.
        let code = unsafe {
            hs::hs_scan_stream(
                self.pointer.as_ptr(),
                bytes.as_ptr().cast(),
                length(bytes),
                0,
                scratch.pointer.as_ptr(),
                Some(handler),
                context,
            )
        };
        Error::of("hs_scan_stream", code)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it is an open stream, which nobody has any more; without a callback, no scratch space is needed.
        unsafe { hs::hs_close_stream(self.pointer.as_ptr(), ptr::null_mut(), None, ptr::null_mut()) };
    }
}

/// The version of the library.
pub fn version() -> String {
    // SAFETY: it is a text of the library's own, which ends with a zero and never changes.
    unsafe { CStr::from_ptr(hs::hs_version()) }.to_string_lossy().into_owned()
}

/// A handler for matches, and the context that makes it call this closure: for as long as that is borrowed.
fn callback<F: FnMut(u32)>(matched: &mut F) -> (hs::Handler, *mut c_void) {
    extern "C" fn call<F: FnMut(u32)>(
        id: c_uint,
        _: c_ulonglong,
        _: c_ulonglong,
        _: c_uint,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the context is the closure that this was made with, which its caller borrows until the call is over.
        let matched = unsafe { &mut *context.cast::<F>() };
        matched(id);
        0
    }
    (call::<F>, ptr::from_mut(matched).cast())
}

/// As the library counts; what is longer is cut.
fn length(bytes: &[u8]) -> c_uint {
    c_uint::try_from(bytes.len()).unwrap_or(c_uint::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(database: &Database, bytes: &[u8]) -> Vec<u32> {
        let mut scratch = Scratch::new([database]).unwrap();
        let mut found = Vec::new();
        database.scan(bytes, &mut scratch, |id| found.push(id)).unwrap();
        found.sort_unstable();
        found
    }

    #[test]
    fn blocks() {
        let database = Database::new(&["^ab+", r"^.b\z", "^abc"], Mode::Block).unwrap();
        assert_eq!(all(&database, b"ab"), [0, 1]);
        assert_eq!(all(&database, b"abbc"), [0]);
        assert_eq!(all(&database, b"abc"), [0, 2]);
        assert!(all(&database, b"").is_empty() && all(&database, b"xabc").is_empty());
    }

    #[test]
    fn streams_go_on_and_begin_anew() {
        let database = Arc::new(Database::new(&["^abcd", "^bcd"], Mode::Stream).unwrap());
        let mut scratch = Scratch::new([&*database]).unwrap().another().unwrap();
        let mut stream = Stream::new(&database).unwrap();
        assert!(database.stream_bytes().unwrap() > 0);
        for _ in 0..3 {
            let mut found = Vec::new();
            for piece in [&b"a"[..], b"bc", b"", b"d"] {
                stream.scan(piece, &mut scratch, |id| found.push(id)).unwrap();
            }
            assert_eq!(found, [0]);
            stream.reset().unwrap();
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let error = Database::new(&["a", "b(?=c)"], Mode::Block).unwrap_err().to_string();
        assert!(error.starts_with("vectorscan: `b(?=c)`: "), "{error}");
        let block = Arc::new(Database::new(&["a"], Mode::Block).unwrap());
        assert!(Stream::new(&block).unwrap_err().to_string().contains("compiled for blocks"));
        assert!(Scratch::new([]).is_err());
        assert!(!version().is_empty());
    }
}
