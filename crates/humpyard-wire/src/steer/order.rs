//! What becomes of frames between the processor that takes them and the one that they are handed to: in which order
//! they come there, and whether they do.
//!
//! The program at the interface numbers the frames of each bucket, and writes bucket and number before the frame. The
//! program at the other processor compares with the number that it expects, and takes the note away: frames with
//! different notes are not put together (GRO).
//!
//! # Source
//! Linux, `Documentation/bpf/map_cpumap.rst`; `bpf-helpers(7)`, `bpf_xdp_adjust_meta`.

use core::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Hashing;
use super::buckets::find;
use super::counters::number;
use super::packet::{BUCKET, DATA, FRAME, NOTE, PacketProgram, STACK};
use super::program::PASS;
use crate::assembler::Condition::{Above, Less, Unequal};
use crate::assembler::Operation::{Add, ShiftLeft, ShiftRightSigned, Subtract};
use crate::assembler::Register::{R0, R1, R2, R3, R6, R7, R8};
use crate::assembler::Size::{Long, Word};
use crate::assembler::{Assembler, Label};
use crate::bpf::{self, Instruction, Map, MapShape, ProgramKind};

/// A function of the kernel (`enum bpf_func_id`).
const ADJUST_NOTE: i32 = 54;
/// Programs that run at the other processor (`enum bpf_attach_type`).
const AT_PROCESSOR: u32 = 35;
/// The type of maps that are arrays.
const ARRAY: u32 = 2;

/// A note: a bucket and a number of 32 bits each.
const NOTE_BYTES: i32 = 8;
/// In the state of a bucket: how many frames were numbered.
const NUMBERED: i16 = 4;

/// In the entry of a bucket: the number that is expected, and how many frames came, are missing, and came behind a
/// later one.
const EXPECTED: i16 = 0;
const PASSED: i16 = 8;
const MISSING: i16 = 16;
const OVERTAKEN: i16 = 24;
const ENTRY_BYTES: usize = 32;

/// What became of the frames that were handed to other processors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HandOver {
    /// Frames that were handed over.
    pub handed: u64,
    /// Frames that came there.
    pub passed: u64,
    /// Frames that did not come although a later one of their bucket did: too many waited for the processor.
    pub missing: u64,
    /// Frames that came behind a later one of their bucket.
    pub overtaken: u64,
}

/// The counters of the program at the other processors.
#[derive(Debug)]
pub(super) struct Order {
    entries: Map,
    buckets: usize,
}

impl Order {
    pub(super) fn new(hashing: Hashing) -> io::Result<Self> {
        let shape = MapShape {
            name: "humpyard_order",
            map_type: ARRAY,
            key_bytes: 4,
            value_bytes: ENTRY_BYTES as u32,
            entries: hashing.buckets() as u32,
        };
        Ok(Self { entries: Map::shaped(shape)?, buckets: hashing.buckets() })
    }

    /// Loads the program, for programs at interfaces that are loaded with these flags.
    pub(super) fn load(&self, kind: ProgramKind) -> io::Result<OwnedFd> {
        bpf::load(ProgramKind { attach: AT_PROCESSOR, ..kind }, &program(self.entries.descriptor()))
    }

    /// Returns what came so far; `numbered` gives the frames of each bucket that were numbered.
    pub(super) fn count(&self, numbered: impl FnOnce() -> io::Result<Vec<u32>>) -> io::Result<HandOver> {
        let values = self.entries.read_array(self.buckets, ENTRY_BYTES)?;
        let entries = || values.chunks_exact(ENTRY_BYTES);
        // What is missing falls below 0 where a frame that was missed comes after all.
        let sum = |at: i16| {
            let at = at as usize;
            entries().map(|entry| number(&entry[at..at + 8]) as i64).sum::<i64>().max(0) as u64
        };
        let expected = entries().map(|entry| number(&entry[..4]) as u32);
        let waiting = expected.zip(numbered()?).map(|(expected, numbered)| u64::from(numbered.wrapping_sub(expected)));
        let (passed, missing, waiting) = (sum(PASSED), sum(MISSING), waiting.sum::<u64>());
        Ok(HandOver { handed: passed + missing + waiting, passed, missing, overtaken: sum(OVERTAKEN) })
    }
}

/// The value of a processor among those that frames can be handed to: how many may wait, and the program there.
pub(super) fn processor_value(waiting: u32, program: &OwnedFd) -> [u8; 8] {
    let mut value = [0; 8];
    value[..4].copy_from_slice(&waiting.to_ne_bytes());
    value[4..].copy_from_slice(&program.as_raw_fd().to_ne_bytes());
    value
}

/// Writes bucket and number before the frame, where the driver has room there. `R6` is the state of the bucket, `R7`
/// stays.
pub(super) fn note_number(text: &mut PacketProgram) {
    let done = text.label();
    text.load(Long, R1, STACK, FRAME);
    text.set(R2, -NOTE_BYTES);
    text.call(ADJUST_NOTE);
    text.jump_if(Unequal, R0, 0, done);
    text.set(R8, 1);
    text.fetch_and_add_word(R6, NUMBERED, R8);
    text.load(Long, R3, STACK, FRAME);
    find_note(text, done);
    text.load(Word, R2, STACK, BUCKET);
    text.store(Word, R1, 0, R2);
    text.store(Word, R1, 4, R8);
    text.place(done);
}

/// Finds the note before the frame of which `R3` tells, `R1`; jumps if there is none.
fn find_note(text: &mut Assembler, otherwise: Label) {
    text.load(Word, R1, R3, NOTE);
    text.load(Word, R2, R3, DATA);
    text.copy(R3, R1);
    text.with_number(Add, R3, NOTE_BYTES);
    text.jump_if_register(Above, R3, R2, otherwise);
}

/// Returns the program at the other processors: it counts in the map `entries`, and takes the note away.
fn program(entries: c_int) -> Vec<Instruction> {
    let mut text = Assembler::default();
    let [late, done] = core::array::from_fn(|_| text.label());
    text.copy(R6, R1);
    text.copy(R3, R6);
    find_note(&mut text, done);
    text.load(Word, R7, R1, 0);
    text.load(Word, R8, R1, 4);
    text.copy(R1, R6);
    text.set(R2, NOTE_BYTES);
    text.call(ADJUST_NOTE);

    text.store(Word, STACK, BUCKET, R7);
    find(&mut text, entries, BUCKET, done);
    text.set(R1, 1);
    text.add_at_once(R0, PASSED, R1);
    text.load(Word, R2, R0, EXPECTED);
    text.copy(R3, R8);
    text.with(Subtract, R3, R2);
    // Numbers begin again after 2^32.
    text.with_number(ShiftLeft, R3, 32);
    text.with_number(ShiftRightSigned, R3, 32);
    text.jump_if(Less, R3, 0, late);
    text.add_at_once(R0, MISSING, R3);
    text.with_number(Add, R8, 1);
    text.store(Word, R0, EXPECTED, R8);
    text.jump(done);

    text.place(late);
    text.add_at_once(R0, OVERTAKEN, R1);
    text.set(R1, -1);
    text.add_at_once(R0, MISSING, R1);
    text.place(done);
    text.set(R0, PASS);
    text.exit();
    text.finish()
}
