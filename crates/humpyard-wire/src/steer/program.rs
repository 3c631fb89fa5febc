//! The program that the kernel runs for each frame of an interface that is steered: it hashes the connection into a
//! bucket, counts, and, where cores are given, hands the frame to the core of its bucket.

use core::ffi::c_int;

use super::tunnel::{Inside, enter};
use super::{Hashing, KEY_BYTES};
use crate::assembler::Condition::{Above, AnyBit, Equal, Less, Unequal};
use crate::assembler::Operation::{Add, And, ShiftLeft, ShiftRight, Subtract, Xor};
use crate::assembler::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use crate::assembler::Size::{Byte, Half, Long, Word};
use crate::assembler::{Assembler, Label, Register};
use crate::bpf::Instruction;
use crate::connection_hash::{EXTENSIONS, EXTENSIONS_MAX, FRAGMENT, add_ports, mix, need_ports};

/// Functions of the kernel (`enum bpf_func_id`).
const LOOKUP: i32 = 1;
const UPDATE: i32 = 2;
const NOW: i32 = 5;
const RANDOM: i32 = 7;
pub(super) const REDIRECT_MAP: i32 = 51;
/// A frame goes on to the kernel's own stack.
pub(super) const PASS: i32 = 2;

/// Where the frame begins and ends (`struct xdp_md`).
const DATA: i16 = 0;
const DATA_END: i16 = 4;

/// Where the header of IP is, sum and difference of what is hashed, and where the frame ends.
pub(super) const CURSOR: Register = R6;
const SUM: Register = R7;
const DIFFERENCE: Register = R8;
const END: Register = R9;
const STACK: Register = R10;

/// On the stack: the length of the frame, the bucket, what a flow begins with, and the 5-tuple: both addresses, both
/// ports, protocol, version of IP.
const LENGTH: i16 = -8;
const BUCKET: i16 = -16;
const FIRST: i16 = -32;
const TUPLE: i16 = FIRST - KEY_BYTES as i16;
const DESTINATION: i16 = TUPLE + 16;
const PORTS: i16 = TUPLE + 32;
const PROTOCOL: i16 = TUPLE + 36;
const VERSION: i16 = TUPLE + 37;

/// Types of Ethernet frames, as they are loaded.
pub(super) const IPV4: i32 = 0x0800_u16.to_be() as i32;
pub(super) const IPV6: i32 = 0x86dd_u16.to_be() as i32;
const TAGS: [i32; 2] = [0x8100_u16.to_be() as i32, 0x88a8_u16.to_be() as i32];
/// Tags of VLANs that are passed over.
const TAGS_MAX: usize = 2;
/// One frame in 16 is counted for its flow: enough to find the heavy ones.
pub(super) const SAMPLE_BITS: u32 = 4;

/// The descriptors of the maps that a program counts in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// By bucket, for each processor: packets and bytes.
    pub(super) buckets: c_int,
    /// By 5-tuple: packets and bytes of the frames that were looked at.
    pub(super) flows: c_int,
}

/// The descriptors of the maps by which a program steers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steered {
    /// By bucket: the core that it is to go to.
    pub(super) wanted: c_int,
    /// By bucket: the core that it goes to, and when it last had a frame.
    pub(super) state: c_int,
    /// The kernel's `BPF_MAP_TYPE_CPUMAP`.
    pub(super) cores: c_int,
    /// How long a bucket has to have had no frame before it moves, in ns.
    pub(super) guard: i32,
}

/// Returns the program: it counts in `counted` by buckets, and steers by `steered`.
pub(super) fn program(hashing: Hashing, counted: Counted, steered: Option<Steered>) -> Vec<Instruction> {
    let mut text = Assembler::default();
    let [hashed, ethernet_inside, ip_inside] = core::array::from_fn(|_| text.label());
    let inside = hashing.inner.then_some(Inside { ethernet: ethernet_inside, ip: ip_inside });
    begin(&mut text);
    ethernet(&mut text, hashed);
    ip(&mut text, inside, hashed);
    if hashing.inner {
        text.jump(hashed);
        text.place(ethernet_inside);
        ethernet(&mut text, hashed);
        text.place(ip_inside);
        clear(&mut text);
        ip(&mut text, None, hashed);
    }
    text.place(hashed);
    mix(&mut text, SUM, DIFFERENCE, hashing.seed);
    text.with_number(ShiftRight, SUM, 64 - hashing.bits as i32);
    text.store(Word, STACK, BUCKET, SUM);
    count(&mut text, counted);
    if let Some(steered) = steered {
        steer(&mut text, steered);
    }
    text.set(R0, PASS);
    text.exit();
    text.finish()
}

/// Finds the frame, its length, and clears what is to be found in it.
fn begin(text: &mut Assembler) {
    text.load(Word, CURSOR, R1, DATA);
    text.load(Word, END, R1, DATA_END);
    text.copy(R2, END);
    text.with(Subtract, R2, CURSOR);
    text.store(Long, STACK, LENGTH, R2);
    clear(text);
}

/// Forgets what was found in the frame.
fn clear(text: &mut Assembler) {
    (0..KEY_BYTES as i16 / 8).for_each(|index| text.store_number(Long, STACK, TUPLE + 8 * index, 0));
    text.set(SUM, 0);
    text.set(DIFFERENCE, 0);
}

/// Jumps if the frame ends within `bytes` bytes from the cursor.
pub(super) fn need(text: &mut Assembler, bytes: i32, otherwise: Label) {
    text.copy(R3, CURSOR);
    text.with_number(Add, R3, bytes);
    text.jump_if_register(Above, R3, END, otherwise);
}

/// Passes over the header of Ethernet, and over tags: `R2` is the type of what follows.
fn ethernet(text: &mut Assembler, otherwise: Label) {
    need(text, 14, otherwise);
    text.load(Half, R2, CURSOR, 12);
    text.with_number(Add, CURSOR, 14);
    for _ in 0..TAGS_MAX {
        let [tag, none] = core::array::from_fn(|_| text.label());
        text.jump_if(Equal, R2, TAGS[0], tag);
        text.jump_if(Unequal, R2, TAGS[1], none);
        text.place(tag);
        need(text, 4, otherwise);
        text.load(Half, R2, CURSOR, 2);
        text.with_number(Add, CURSOR, 4);
        text.place(none);
    }
}

/// Takes addresses and ports of the packet of type `R2`, so that source and destination count alike; `done` where there
/// is no more.
fn ip(text: &mut Assembler, inside: Option<Inside>, done: Label) {
    let [ipv4, ports] = core::array::from_fn(|_| text.label());
    text.jump_if(Equal, R2, IPV4, ipv4);
    text.jump_if(Unequal, R2, IPV6, done);
    ipv6(text, done);
    text.jump(ports);
    text.place(ipv4);
    self::ipv4(text, done);
    text.place(ports);
    if let Some(inside) = inside {
        enter(text, inside, done);
    }
    self::ports(text, done);
}

/// `R2` is the protocol, and the cursor behind the header; `done` for fragments, too, which have no ports but the
/// first.
fn ipv4(text: &mut Assembler, done: Label) {
    need(text, 20, done);
    text.load(Word, SUM, CURSOR, 12);
    text.load(Word, R2, CURSOR, 16);
    text.store(Word, STACK, TUPLE, SUM);
    text.store(Word, STACK, DESTINATION, R2);
    text.store_number(Byte, STACK, VERSION, 4);
    text.copy(DIFFERENCE, SUM);
    text.with(Add, SUM, R2);
    text.with(Xor, DIFFERENCE, R2);
    text.load(Byte, R2, CURSOR, 9);
    text.store(Byte, STACK, PROTOCOL, R2);
    text.load(Half, R3, CURSOR, 6);
    text.jump_if(AnyBit, R3, FRAGMENT, done);
    text.load(Byte, R3, CURSOR, 0);
    text.with_number(And, R3, 0xf);
    text.with_number(ShiftLeft, R3, 2);
    text.with(Add, CURSOR, R3);
}

/// As [`ipv4`]. Extension headers are passed over, a fragment has none that is known.
fn ipv6(text: &mut Assembler, done: Label) {
    need(text, 40, done);
    for (place, at) in [(TUPLE, 8), (TUPLE + 8, 16), (DESTINATION, 24), (DESTINATION + 8, 32)] {
        text.load(Long, R2, CURSOR, at);
        text.store(Long, STACK, place, R2);
    }
    text.store_number(Byte, STACK, VERSION, 6);
    text.load(Long, SUM, STACK, TUPLE);
    text.load(Long, DIFFERENCE, STACK, TUPLE + 8);
    text.load(Long, R2, STACK, DESTINATION);
    text.with(Add, SUM, R2);
    text.load(Long, R2, STACK, DESTINATION + 8);
    text.with(Add, DIFFERENCE, R2);
    text.load(Byte, R2, CURSOR, 6);
    text.with_number(Add, CURSOR, 40);
    for _ in 0..EXTENSIONS_MAX {
        let [extension, next] = core::array::from_fn(|_| text.label());
        EXTENSIONS.into_iter().for_each(|number| text.jump_if(Equal, R2, number, extension));
        text.jump(next);
        text.place(extension);
        need(text, 2, done);
        text.load(Byte, R2, CURSOR, 0);
        text.load(Byte, R3, CURSOR, 1);
        text.with_number(Add, R3, 1);
        text.with_number(ShiftLeft, R3, 3);
        text.with(Add, CURSOR, R3);
        text.place(next);
    }
    text.store(Byte, STACK, PROTOCOL, R2);
}

/// Takes the ports behind the header of IP, where the protocol `R2` has them.
fn ports(text: &mut Assembler, done: Label) {
    need_ports(text, done);
    need(text, 4, done);
    text.load(Half, R2, CURSOR, 0);
    text.load(Half, R3, CURSOR, 2);
    text.store(Half, STACK, PORTS, R2);
    text.store(Half, STACK, PORTS + 2, R3);
    add_ports(text, SUM, DIFFERENCE);
}

/// Finds the value of the key on the stack, `R0`; jumps if there is none.
fn find(text: &mut Assembler, map: c_int, key: i16, otherwise: Label) {
    text.set_map(R1, map);
    text.copy(R2, STACK);
    text.with_number(Add, R2, i32::from(key));
    text.call(LOOKUP);
    text.jump_if(Equal, R0, 0, otherwise);
}

/// Counts the frame for its bucket, and one in some for its flow.
fn count(text: &mut Assembler, counted: Counted) {
    let [sampled, new_flow, done] = core::array::from_fn(|_| text.label());
    find(text, counted.buckets, BUCKET, sampled);
    // The value is this processor's own.
    text.load(Long, R1, R0, 0);
    text.with_number(Add, R1, 1);
    text.store(Long, R0, 0, R1);
    text.load(Long, R1, R0, 8);
    text.load(Long, R2, STACK, LENGTH);
    text.with(Add, R1, R2);
    text.store(Long, R0, 8, R1);

    text.place(sampled);
    text.call(RANDOM);
    text.jump_if(AnyBit, R0, (1 << SAMPLE_BITS) - 1, done);
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

/// Hands the frame to the core of its bucket, and ends; goes on where the bucket has none. The bucket moves to the core
/// that it is to go to when it has had no frame for the guard time.
fn steer(text: &mut Assembler, steered: Steered) {
    let [out, stays] = core::array::from_fn(|_| text.label());
    find(text, steered.wanted, BUCKET, out);
    text.load(Word, R7, R0, 0);
    find(text, steered.state, BUCKET, out);
    text.copy(R6, R0);
    text.call(NOW);
    text.load(Long, R1, R6, 8);
    text.store(Long, R6, 8, R0);
    text.load(Word, R2, R6, 0);
    text.jump_if_register(Equal, R2, R7, stays);
    // Another processor may have seen a frame of the bucket meanwhile: the difference can be negative.
    text.with(Subtract, R0, R1);
    text.jump_if(Less, R0, steered.guard, stays);
    text.copy(R2, R7);
    text.store(Word, R6, 0, R2);
    text.place(stays);
    text.set_map(R1, steered.cores);
    text.set(R3, PASS);
    text.call(REDIRECT_MAP);
    text.exit();
    text.place(out);
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;

    /// What a frame costs at most. A longer program is slower for every frame of the machine.
    #[test]
    fn no_frame_takes_more_instructions_than_these() {
        let limits = [(false, false, 165), (true, false, 188), (false, true, 307), (true, true, 330)];
        for (steers, inner, most) in limits {
            let longest = Hashing { bits: 10, seed: Seed(1), inner }.longest_path(steers);
            assert!(longest <= most, "steers: {steers}, inner: {inner}: {longest} instructions, at most {most}");
        }
    }
}
