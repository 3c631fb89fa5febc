//! A safe wrapper for the few Vectorscan calls of humpyard's `l7-filter`. Vectorscan matches many regular
//! expressions at once, in blocks or in streams.
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
//! The C library is called through a dozen declarations of our own (`declarations.rs`). Types keep its
//! conditions:
//!
//! - A [`Database`] never changes, and outlives its streams.
//! - A call borrows its [`Scratch`] mutably, so only one call at a time uses it.
//! - A callback gets the closure that its own call borrowed. A panic in the closure ends the process.
#![cfg(feature = "system")]

mod declarations;

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use core::fmt;
use core::ptr::{self, NonNull};
use std::ffi::CString;
use std::sync::Arc;

use declarations as hs;

/// An error of Vectorscan.
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

/// How a database gets its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All bytes at once.
    Block,
    /// Piece by piece.
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
    /// Compiles patterns, in which `.` matches every byte. A match reports the index of its pattern, once.
    ///
    /// # Errors
    /// If the library cannot compile a pattern: the message names the pattern and the cause.
    pub fn new(patterns: &[&str], mode: Mode) -> Result<Self, Error> {
        let texts =
            patterns.iter().map(|&pattern| CString::new(pattern).map_err(|_| Error::new("a pattern has a zero")));
        let texts: Vec<CString> = texts.collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let flags: Vec<c_uint> = vec![hs::FLAG_DOTALL | hs::FLAG_SINGLEMATCH; patterns.len()];
        let ids: Vec<c_uint> = (0..patterns.len() as c_uint).collect();
        let (mut database, mut error) = (ptr::null_mut(), ptr::null_mut());
        let mode_bit = if mode == Mode::Block { hs::MODE_BLOCK } else { hs::MODE_STREAM };
        // SAFETY: the three arrays have as many elements as the fifth argument says. Each text ends with a
        // zero. A null platform means this one. The two places for results are writable.
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

    /// Returns the memory of one stream, in bytes.
    ///
    /// # Errors
    /// If the database was not compiled for streams.
    pub fn stream_bytes(&self) -> Result<usize, Error> {
        let mut bytes = 0;
        // SAFETY: the database is valid, and the place for the result is writable.
        let code = unsafe { hs::hs_stream_size(self.pointer.as_ptr(), &raw mut bytes) };
        Error::of("hs_stream_size", code).map(|()| bytes)
    }

    /// Calls `matched` for every pattern that matches somewhere in these bytes, or at their end.
    ///
    /// # Errors
    /// If the database is for streams, or the scratch space was not allocated for it.
    pub fn scan(&self, bytes: &[u8], scratch: &mut Scratch, mut matched: impl FnMut(u32)) -> Result<(), Error> {
        let (handler, context) = callback(&mut matched);
        // SAFETY: the database and the scratch space are valid, and the length is that of the bytes. This call
        // alone uses the scratch space. The context is the closure that the handler was made for.
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
        // SAFETY: the library made it, and nothing uses it any more: the last stream drops this value.
        unsafe { hs::hs_free_database(self.pointer.as_ptr()) };
    }
}

/// Returns the error of a compilation, with its pattern, and frees the library's error.
fn compile_error(error: *mut hs::CompileError, patterns: &[&str]) -> Error {
    // SAFETY: the library made the error, and its message ends with a zero.
    let (message, expression) = unsafe { (CStr::from_ptr((*error).message).to_string_lossy(), (*error).expression) };
    let pattern = usize::try_from(expression).ok().and_then(|at| patterns.get(at)).unwrap_or(&"");
    let told = Error::new(format!("`{pattern}`: {message}"));
    // SAFETY: the library made the error, it was not freed yet, and the message was copied.
    unsafe { hs::hs_free_compile_error(error) };
    told
}

/// The scratch space of a scan: one for each thread.
#[derive(Debug)]
pub struct Scratch {
    pointer: NonNull<hs::Scratch>,
}

// SAFETY: it belongs to no thread. Only two uses at once would be wrong, and calls borrow it mutably.
unsafe impl Send for Scratch {}
// SAFETY: a shared reference only allows cloning. The library allows that while the space is not in use, and
// each use borrows it mutably.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Allocates scratch space that suffices for each of these databases.
    ///
    /// # Errors
    /// If there is no memory, or no database.
    pub fn new<'a>(databases: impl IntoIterator<Item = &'a Database>) -> Result<Self, Error> {
        let mut pointer = ptr::null_mut();
        for database in databases {
            // SAFETY: the database is valid. The pointer is null or a scratch space, which the library
            // enlarges.
            let code = unsafe { hs::hs_alloc_scratch(database.pointer.as_ptr(), &raw mut pointer) };
            Error::of("hs_alloc_scratch", code)?;
        }
        Ok(Self { pointer: NonNull::new(pointer).ok_or_else(|| Error::new("scratch space for no database"))? })
    }

    /// Allocates another scratch space of the same size.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn another(&self) -> Result<Self, Error> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the scratch space is valid and not in use, and the place for the result is writable.
        let code = unsafe { hs::hs_clone_scratch(self.pointer.as_ptr(), &raw mut pointer) };
        Error::of("hs_clone_scratch", code)?;
        Ok(Self { pointer: NonNull::new(pointer).ok_or_else(|| Error::new("hs_clone_scratch gave nothing"))? })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: the library made it, it is not in use, and nothing uses it any more.
        unsafe { hs::hs_free_scratch(self.pointer.as_ptr()) };
    }
}

/// A scan of bytes that come piece by piece.
#[derive(Debug)]
pub struct Stream {
    pointer: NonNull<hs::Stream>,
    /// The database, kept as long as its streams.
    _database: Arc<Database>,
}

// SAFETY: it belongs to no thread; calls borrow it mutably.
unsafe impl Send for Stream {}

impl Stream {
    /// Opens a stream before its first byte, and allocates all its memory.
    ///
    /// # Errors
    /// If the database was not compiled for streams, or there is no memory.
    pub fn new(database: &Arc<Database>) -> Result<Self, Error> {
        if database.mode != Mode::Stream {
            return Err(Error::new("the patterns were compiled for blocks"));
        }
        let mut pointer = ptr::null_mut();
        // SAFETY: the database is valid and for streams, and the place for the result is writable.
        let code = unsafe { hs::hs_open_stream(database.pointer.as_ptr(), 0, &raw mut pointer) };
        Error::of("hs_open_stream", code)?;
        let pointer = NonNull::new(pointer).ok_or_else(|| Error::new("hs_open_stream gave nothing"))?;
        Ok(Self { pointer, _database: Arc::clone(database) })
    }

    /// Resets the stream to before its first byte.
    ///
    /// # Errors
    /// None that this crate could cause.
    pub fn reset(&mut self) -> Result<(), Error> {
        // SAFETY: the stream is open. Without a callback, the call needs no scratch space.
        let code = unsafe { hs::hs_reset_stream(self.pointer.as_ptr(), 0, ptr::null_mut(), None, ptr::null_mut()) };
        Error::of("hs_reset_stream", code)
    }

    /// Scans the next bytes. Calls `matched` for every pattern that matches by now and did not match before.
    ///
    /// # Errors
    /// If the scratch space was not allocated for its database.
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
        // SAFETY: the stream is open, and nothing uses it any more. Without a callback, the call needs no
        // scratch space.
        unsafe { hs::hs_close_stream(self.pointer.as_ptr(), ptr::null_mut(), None, ptr::null_mut()) };
    }
}

/// Returns the version of the library.
pub fn version() -> String {
    // SAFETY: the library owns the text, which ends with a zero and never changes.
    unsafe { CStr::from_ptr(hs::hs_version()) }.to_string_lossy().into_owned()
}

/// Returns a handler for matches, and the context with which it calls this closure. Both are valid while it is
/// borrowed.
fn callback<F: FnMut(u32)>(matched: &mut F) -> (hs::Handler, *mut c_void) {
    extern "C" fn call<F: FnMut(u32)>(
        id: c_uint,
        _: c_ulonglong,
        _: c_ulonglong,
        _: c_uint,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the context is the closure from `callback`, which the caller borrows until the call ends.
        let matched = unsafe { &mut *context.cast::<F>() };
        matched(id);
        0
    }
    (call::<F>, ptr::from_mut(matched).cast())
}

/// Returns the length as the library counts it; longer input is cut.
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
