//! The part of the programs of the kernel that counts by bucket, and looks up the core of a bucket.

use core::ffi::c_int;

use super::packet::{BUCKET, FIRST, FLOW_BUCKET, LENGTH, PacketProgram, QUEUE, STACK, TUPLE};
use crate::assembler::Condition::{AnyBit, Equal, Less};
use crate::assembler::Operation::{Add, Subtract};
use crate::assembler::Register::{R0, R1, R2, R3, R4, R6, R7};
use crate::assembler::Size::{Half, Long, Word};
use crate::assembler::{Assembler, Label};

/// Functions of the kernel (`enum bpf_func_id`).
const LOOKUP: i32 = 1;
const UPDATE: i32 = 2;
const NOW: i32 = 5;
const RANDOM: i32 = 7;

/// One frame in 16 is counted for its flow: enough to find the heavy ones.
pub(super) const SAMPLE_BITS: u32 = 4;

/// The descriptors of the maps that a program counts in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// By bucket, for each processor: packets and bytes.
    pub(super) buckets: c_int,
    /// By receive queue, for each processor: packets and bytes. `None`: queues are not counted.
    pub(super) queues: Option<c_int>,
    /// By 5-tuple: packets and bytes of the frames that were looked at.
    pub(super) flows: c_int,
}

/// The descriptors of the maps that have a core for each bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// By bucket: the core that it is to go to.
    pub(super) wanted: c_int,
    /// By bucket: the core that it goes to, how many frames were numbered, and when it last had a frame.
    pub(super) state: c_int,
    /// How long a bucket has to have had no frame before it moves, in ns.
    pub(super) guard: i32,
}

/// Finds the value of the key on the stack, `R0`; jumps if there is none.
pub(super) fn find(text: &mut Assembler, map: c_int, key: i16, otherwise: Label) {
    text.set_map(R1, map);
    text.copy(R2, STACK);
    text.with_number(Add, R2, i32::from(key));
    text.call(LOOKUP);
    text.jump_if(Equal, R0, 0, otherwise);
}

/// Counts the frame for its bucket and its queue, and one in some for its flow.
pub(super) fn count(text: &mut PacketProgram, counted: Counted) {
    let [new_flow, done] = core::array::from_fn(|_| text.label());
    count_for(text, counted.buckets, BUCKET);
    if let Some(queues) = counted.queues {
        count_for(text, queues, QUEUE);
    }

    text.call(RANDOM);
    text.jump_if(AnyBit, R0, (1 << SAMPLE_BITS) - 1, done);
    text.load(Word, R1, STACK, BUCKET);
    text.store(Half, STACK, FLOW_BUCKET, R1);
    find(text, counted.flows, TUPLE, new_flow);
    text.set(R1, 1);
    text.add_at_once(R0, 0, R1);
    text.load(Long, R1, STACK, LENGTH);
    text.add_at_once(R0, 8, R1);
    text.jump(done);

    text.place(new_flow);
    text.store_number(Long, STACK, FIRST, 1);
    text.load(Long, R1, STACK, LENGTH);
    text.store(Long, STACK, FIRST + 8, R1);
    text.set_map(R1, counted.flows);
    text.copy(R2, STACK);
    text.with_number(Add, R2, i32::from(TUPLE));
    text.copy(R3, STACK);
    text.with_number(Add, R3, i32::from(FIRST));
    text.set(R4, 0);
    text.call(UPDATE);
    text.place(done);
}

/// Counts the frame for the key on the stack, in a map with a value for each processor.
fn count_for(text: &mut PacketProgram, map: c_int, key: i16) {
    let done = text.label();
    find(text, map, key, done);
    text.load(Long, R1, R0, 0);
    text.with_number(Add, R1, 1);
    text.store(Long, R0, 0, R1);
    text.load(Long, R1, R0, 8);
    text.load(Long, R2, STACK, LENGTH);
    text.with(Add, R1, R2);
    text.store(Long, R0, 8, R1);
    text.place(done);
}

/// Finds the core of the frame's bucket, `R2`; jumps where it has none. The bucket moves to the core that it is to go
/// to when it has had no frame for the guard time. `R6` is the state of the bucket, and `R7` is lost.
pub(super) fn core_of_bucket(text: &mut PacketProgram, placed: Placed, otherwise: Label) {
    let stays = text.label();
    find(text, placed.wanted, BUCKET, otherwise);
    text.load(Word, R7, R0, 0);
    find(text, placed.state, BUCKET, otherwise);
    text.copy(R6, R0);
    text.call(NOW);
    text.load(Long, R1, R6, 8);
    text.store(Long, R6, 8, R0);
    text.load(Word, R2, R6, 0);
    text.jump_if_register(Equal, R2, R7, stays);
    // Another processor may have seen a frame of the bucket meanwhile: the difference can be negative.
    text.with(Subtract, R0, R1);
    text.jump_if(Less, R0, placed.guard, stays);
    text.copy(R2, R7);
    text.store(Word, R6, 0, R2);
    text.place(stays);
}
