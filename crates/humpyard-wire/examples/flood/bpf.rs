//! What sender and receiver need of bpf(2) beside what the crate does: numbers that a program and this
//! process share, and running a program over frames.

use core::ffi::c_int;
use core::mem::zeroed;
use std::error::Error;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::c_uint;

use crate::kernel::{self, Instruction, Map, ProgramKind};

const MAP_LOOKUP: c_int = 1;
const PROGRAM_TEST_RUN: c_int = 10;
const MAP_OF_ARRAY: u32 = 2;
const LIVE_FRAMES: u32 = 1 << 1;

/// The kernel calls a program for a frame: for a socket, or before a driver passes the frame on.
pub(crate) const SOCKET_FILTER: u32 = 1;
pub(crate) const XDP: u32 = 6;

/// Functions that programs call.
pub(crate) const NOW: i32 = 5;
pub(crate) const RANDOM: i32 = 7;
pub(crate) const REDIRECT: i32 = 23;
pub(crate) const LOAD_BYTES: i32 = 26;

#[repr(C)]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
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

/// An instruction.
pub(crate) const fn instruction(opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction::new(opcode, destination, source, offset, immediate)
}

/// Puts a number into a register.
pub(crate) const fn load_number(register: u8, number: u64) -> [Instruction; 2] {
    [instruction(0x18, register, 0, 0, number as u32 as i32), instruction(0, 0, 0, 0, (number >> 32) as i32)]
}

/// Puts the address of a map's only value into a register.
pub(crate) fn load_value(register: u8, words: &Words) -> [Instruction; 2] {
    const VALUE_OF_MAP: u8 = 2;
    [instruction(0x18, register, VALUE_OF_MAP, 0, words.map.descriptor()), instruction(0, 0, 0, 0, 0)]
}

/// Numbers that a program and this process share.
pub(crate) struct Words {
    map: Map,
    count: usize,
}

impl Words {
    /// Makes `count` numbers, all 0.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        Ok(Self { map: Map::new(MAP_OF_ARRAY, count * size_of::<u64>(), 1)?, count })
    }

    /// Returns all of them, as they are now.
    pub(crate) fn read(&self) -> io::Result<Vec<u64>> {
        let key = 0_u32;
        let mut words = vec![0_u64; self.count];
        let mut attributes = MapElement {
            map: self.map.descriptor() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: words.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: these are the attributes of the command; key and words outlive the call, and a value of the map is as
        // long as the words.
        unsafe { kernel::call(MAP_LOOKUP, &mut attributes) }?;
        Ok(words)
    }
}

/// Loads a program of this kind.
pub(crate) fn load(program: u32, code: &[Instruction]) -> io::Result<OwnedFd> {
    kernel::load(ProgramKind { program, is_gpl: true, ..ProgramKind::default() }, code)
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
    unsafe { kernel::call(PROGRAM_TEST_RUN, &mut attributes) }?;
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
