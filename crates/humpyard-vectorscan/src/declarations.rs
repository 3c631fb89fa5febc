//! Declarations of the parts of Vectorscan's C interface that this crate calls, as in its manual.

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const FLAG_DOTALL: c_uint = 2;
pub(crate) const FLAG_SINGLEMATCH: c_uint = 8;
pub(crate) const MODE_BLOCK: c_uint = 1;
pub(crate) const MODE_STREAM: c_uint = 2;

/// Compiled patterns; opaque.
#[repr(C)]
pub(crate) struct Database([u8; 0]);

/// The scratch space of a call; opaque.
#[repr(C)]
pub(crate) struct Scratch([u8; 0]);

/// A stream; opaque.
#[repr(C)]
pub(crate) struct Stream([u8; 0]);

/// Why a compilation failed.
#[repr(C)]
pub(crate) struct CompileError {
    pub(crate) message: *mut c_char,
    /// The index of the pattern that failed; negative if no single pattern did.
    pub(crate) expression: c_int,
}

/// Called for each match: pattern number, begin, end, flags, and the caller's context. A result other than 0
/// ends the scan.
pub(crate) type Handler = extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;

#[link(name = "hs")]
unsafe extern "C" {
    pub(crate) fn hs_compile_multi(
        expressions: *const *const c_char,
        flags: *const c_uint,
        ids: *const c_uint,
        elements: c_uint,
        mode: c_uint,
        platform: *const c_void,
        database: *mut *mut Database,
        error: *mut *mut CompileError,
    ) -> c_int;
    pub(crate) fn hs_free_compile_error(error: *mut CompileError) -> c_int;
    pub(crate) fn hs_free_database(database: *mut Database) -> c_int;
    pub(crate) fn hs_stream_size(database: *const Database, bytes: *mut usize) -> c_int;
    pub(crate) fn hs_alloc_scratch(database: *const Database, scratch: *mut *mut Scratch) -> c_int;
    pub(crate) fn hs_clone_scratch(scratch: *const Scratch, another: *mut *mut Scratch) -> c_int;
    pub(crate) fn hs_free_scratch(scratch: *mut Scratch) -> c_int;
    pub(crate) fn hs_scan(
        database: *const Database,
        data: *const c_char,
        length: c_uint,
        flags: c_uint,
        scratch: *mut Scratch,
        handler: Option<Handler>,
        context: *mut c_void,
    ) -> c_int;
    pub(crate) fn hs_open_stream(database: *const Database, flags: c_uint, stream: *mut *mut Stream) -> c_int;
    pub(crate) fn hs_scan_stream(
        stream: *mut Stream,
        data: *const c_char,
        length: c_uint,
        flags: c_uint,
        scratch: *mut Scratch,
        handler: Option<Handler>,
        context: *mut c_void,
    ) -> c_int;
    pub(crate) fn hs_reset_stream(
        stream: *mut Stream,
        flags: c_uint,
        scratch: *mut Scratch,
        handler: Option<Handler>,
        context: *mut c_void,
    ) -> c_int;
    pub(crate) fn hs_close_stream(
        stream: *mut Stream,
        scratch: *mut Scratch,
        handler: Option<Handler>,
        context: *mut c_void,
    ) -> c_int;
    pub(crate) fn hs_version() -> *const c_char;
}
