//! The few calls of bpf(2) that sender and receiver make, and instructions for its programs (RFC
//! 9669, section 3).

use core::ffi::{CStr, c_int, c_long};
use core::mem::zeroed;
use std::error::Error;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::c_uint;

const MAP_CREATE: c_int = 0;
const MAP_LOOKUP: c_int = 1;
const PROGRAM_LOAD: c_int = 5;
const PROGRAM_TEST_RUN: c_int = 10;
const MAP_OF_ARRAY: u32 = 2;
const LIVE_FRAMES: u32 = 1 << 1;
/// Functions that are called are for this licence only.
const LICENSE: &CStr = c"GPL";

/// Programs are called for a frame: by a socket that looks at it, or before a driver gives it on.
pub(crate) const SOCKET_FILTER: u32 = 1;
pub(crate) const XDP: u32 = 6;

/// Functions that programs call.
pub(crate) const NOW: i32 = 5;
pub(crate) const RANDOM: i32 = 7;
pub(crate) const REDIRECT: i32 = 23;
pub(crate) const LOAD_BYTES: i32 = 26;

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

#[repr(C)]
struct TestRun {
    program: u32,
    answer: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    processor: u32,
    batch: u32,
    padding: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// The attributes are those of this command, and what they point to lives as long as the call.
unsafe fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
    // SAFETY: pointer and size are those of the attributes; for the rest the caller answers.
    let result: c_long =
        unsafe { libc::syscall(libc::SYS_bpf, command, core::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
}

/// An instruction.
pub(crate) const fn instruction(opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> u64 {
    opcode as u64
        | (destination as u64) << 8
        | (source as u64) << 12
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// Puts a number into a register.
pub(crate) const fn load_number(register: u8, number: u64) -> [u64; 2] {
    [instruction(0x18, register, 0, 0, number as u32 as i32), (number >> 32) << 32]
}

/// Puts the address of a map's only value into a register.
pub(crate) fn load_value(register: u8, map: &Words) -> [u64; 2] {
    const VALUE_OF_MAP: u8 = 2;
    [instruction(0x18, register, VALUE_OF_MAP, 0, map.descriptor.as_raw_fd()), 0]
}

/// Numbers that a program and this process share.
pub(crate) struct Words {
    descriptor: OwnedFd,
    count: usize,
}

impl Words {
    /// So many, all 0.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        let value_bytes = (count * size_of::<u64>()) as u32;
        let mut attributes = MapCreate { kind: MAP_OF_ARRAY, key_bytes: 4, value_bytes, entries: 1, flags: 0 };
        // SAFETY: these are the attributes of the command, numbers alone.
        let descriptor = unsafe { bpf(MAP_CREATE, &mut attributes) }?;
        Ok(Self { descriptor: owned(descriptor), count })
    }

    /// All of them, as they are now.
    pub(crate) fn read(&self) -> io::Result<Vec<u64>> {
        let key = 0_u32;
        let mut words = vec![0_u64; self.count];
        let mut attributes = MapElement {
            map: self.descriptor.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: words.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: these are the attributes of the command; key and words outlive the call, and a
        // value of the map is as long.
        unsafe { bpf(MAP_LOOKUP, &mut attributes) }?;
        Ok(words)
    }
}

/// Has the kernel check and keep a program.
pub(crate) fn load(kind: u32, code: &[u64]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
    };
    // SAFETY: these are the attributes of the command; code and licence outlive the call.
    Ok(owned(unsafe { bpf(PROGRAM_LOAD, &mut attributes) }?))
}

/// Runs a program over copies of a frame, which go where it says: `batch` of them are under way at
/// once.
pub(crate) fn run(program: &OwnedFd, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
    // SAFETY: numbers alone, for which zero is a value.
    let mut attributes: TestRun = unsafe { zeroed() };
    attributes.program = program.as_raw_fd() as u32;
    attributes.bytes_in = frame.len() as u32;
    attributes.data_in = frame.as_ptr() as u64;
    attributes.repeat = repeat;
    attributes.flags = LIVE_FRAMES;
    attributes.batch = batch;
    // SAFETY: these are the attributes of the command; the frame outlives the call.
    unsafe { bpf(PROGRAM_TEST_RUN, &mut attributes) }?;
    Ok(())
}

/// The number of an interface.
pub(crate) fn index(interface: &str) -> Result<c_uint, Box<dyn Error>> {
    let name = CString::new(interface)?;
    // SAFETY: the name ends with a zero and lives.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(format!("there is no interface {interface}").into()),
        index => Ok(index),
    }
}

/// A descriptor that a call has just made.
pub(crate) fn owned(descriptor: c_int) -> OwnedFd {
    // SAFETY: the kernel has made it just now, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
