//! The part of the programs of the kernel that finds the packet in a frame, and takes its 5-tuple and what is hashed of
//! it.

use core::ops::{Deref, DerefMut};

use super::tunnel::{Inside, enter};
use super::{Hashing, KEY_BYTES};
use crate::assembler::Condition::{Above, AnyBit, Equal, Unequal};
use crate::assembler::Operation::{Add, And, ShiftLeft, ShiftRight, Subtract, Xor};
use crate::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::assembler::Size::{Byte, Half, Long, Word};
use crate::assembler::{Assembler, Label, Register, Size};
use crate::bpf::Instruction;
use crate::connection_hash::{EXTENSIONS, EXTENSIONS_MAX, FRAGMENT, add_ports, mix, need_ports};

/// Functions of the kernel (`enum bpf_func_id`).
const LOAD_BYTES: i32 = 26;
const LOAD_BYTES_RELATIVE: i32 = 68;
/// Bytes are counted from the header of IP.
const FROM_NETWORK_HEADER: i32 = 1;

/// Where the frame begins and ends (`struct xdp_md`).
pub(super) const DATA: i16 = 0;
const DATA_END: i16 = 4;
/// Where what is noted before the frame begins.
pub(super) const NOTE: i16 = 8;
/// The receive queue that it came by.
const RECEIVE_QUEUE: i16 = 16;
/// Length, kind and protocol of a packet (`struct __sk_buff`).
const PACKET_LENGTH: i16 = 0;
const PACKET_KIND: i16 = 4;
const PACKET_PROTOCOL: i16 = 16;
/// The packet leaves by the interface.
const OUTGOING: i32 = 4;
/// Bytes of the header of Ethernet.
const ETHERNET_BYTES: i32 = 14;

/// Where the header of IP is: a place in the frame, or an offset.
pub(super) const CURSOR: Register = R6;
/// Sum and difference of what is hashed.
const SUM: Register = R7;
const DIFFERENCE: Register = R8;
/// Where the frame ends; where bytes are copied, what the program was called with.
const END: Register = R9;
const CONTEXT: Register = R9;
pub(super) const STACK: Register = R10;

/// On the stack: the length of the frame, its queue, the bucket, what a flow begins with, and the 5-tuple: both
/// addresses, both ports, protocol, version of IP.
pub(super) const LENGTH: i16 = -8;
pub(super) const QUEUE: i16 = -12;
pub(super) const BUCKET: i16 = -16;
pub(super) const FIRST: i16 = -32;
pub(super) const TUPLE: i16 = FIRST - KEY_BYTES as i16;
const DESTINATION: i16 = TUPLE + 16;
const PORTS: i16 = TUPLE + 32;
const PROTOCOL: i16 = TUPLE + 36;
const VERSION: i16 = TUPLE + 37;
/// Behind the 5-tuple: the bucket, of 16 bits.
pub(super) const FLOW_BUCKET: i16 = TUPLE + 38;
/// Bytes of the packet, where they are copied: the header of IPv6 is the longest.
const COPY: i16 = TUPLE - 40;
/// A number that stays while bytes are copied.
pub(super) const KEPT: i16 = COPY - 8;
/// What a program of XDP was called with.
pub(super) const FRAME: i16 = KEPT - 8;

/// Types of Ethernet frames, as they are loaded.
pub(super) const IPV4: i32 = 0x0800_u16.to_be() as i32;
pub(super) const IPV6: i32 = 0x86dd_u16.to_be() as i32;
const TAGS: [i32; 2] = [0x8100_u16.to_be() as i32, 0x88a8_u16.to_be() as i32];
/// Tags of VLANs that are passed over.
const TAGS_MAX: usize = 2;

/// How a program reads a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// XDP: where it lies.
    Direct,
    /// Filters of sockets: the kernel copies bytes to the stack.
    Copied,
}

/// A program that reads packets.
#[derive(Debug)]
pub(super) struct PacketProgram {
    text: Assembler,
    access: Access,
}

impl Deref for PacketProgram {
    type Target = Assembler;

    fn deref(&self) -> &Assembler {
        &self.text
    }
}

impl DerefMut for PacketProgram {
    fn deref_mut(&mut self) -> &mut Assembler {
        &mut self.text
    }
}

impl PacketProgram {
    pub(super) fn new(access: Access) -> Self {
        Self { text: Assembler::default(), access }
    }

    /// Returns the program.
    pub(super) fn finish(self) -> Vec<Instruction> {
        self.text.finish()
    }

    /// Jumps if the frame ends within `bytes` bytes from the cursor. `R1` to `R5` are lost.
    pub(super) fn need(&mut self, bytes: i32, otherwise: Label) {
        match self.access {
            Access::Direct => self.compare_with_end(bytes, otherwise),
            Access::Copied => self.copy_packet(bytes, otherwise),
        }
    }

    /// `to = *(cursor + offset)`, within what was needed last.
    pub(super) fn take(&mut self, size: Size, to: Register, offset: i16) {
        match self.access {
            Access::Direct => self.load(size, to, CURSOR, offset),
            Access::Copied => self.load(size, to, STACK, COPY + offset),
        }
    }

    fn compare_with_end(&mut self, bytes: i32, otherwise: Label) {
        self.copy(R3, CURSOR);
        self.with_number(Add, R3, bytes);
        self.jump_if_register(Above, R3, END, otherwise);
    }

    /// Copies from the first piece of the packet, or else from all of them. The second way counts from where a packet
    /// that arrives begins; in one that leaves, the first piece has all headers.
    fn copy_packet(&mut self, bytes: i32, otherwise: Label) {
        let copied = self.label();
        self.call_to_copy(LOAD_BYTES_RELATIVE, bytes);
        self.jump_if(Equal, R0, 0, copied);
        self.call_to_copy(LOAD_BYTES, bytes);
        self.jump_if(Unequal, R0, 0, otherwise);
        self.place(copied);
    }

    fn call_to_copy(&mut self, function: i32, bytes: i32) {
        self.copy(R1, CONTEXT);
        self.copy(R2, CURSOR);
        self.copy(R3, STACK);
        self.with_number(Add, R3, i32::from(COPY));
        self.set(R4, bytes);
        if function == LOAD_BYTES_RELATIVE {
            self.set(R5, FROM_NETWORK_HEADER);
        }
        self.call(function);
    }
}

/// Puts the bucket of the packet's connection on the stack, with its 5-tuple and the length of the frame.
pub(super) fn find_bucket(text: &mut PacketProgram, hashing: Hashing) {
    let [hashed, ethernet_inside, ip_inside] = core::array::from_fn(|_| text.label());
    let inside = hashing.inner.then_some(Inside { ethernet: ethernet_inside, ip: ip_inside });
    begin(text, hashed);
    ip(text, inside, hashed);
    if hashing.inner {
        text.jump(hashed);
        text.place(ethernet_inside);
        ethernet(text, hashed);
        text.place(ip_inside);
        clear(text);
        ip(text, None, hashed);
    }
    text.place(hashed);
    mix(text, SUM, DIFFERENCE, hashing.seed);
    text.with_number(ShiftRight, SUM, 64 - hashing.bits as i32);
    text.store(Word, STACK, BUCKET, SUM);
}

/// Finds the packet and the length of the frame, and clears what is to be found in it. `R2` is the packet's type.
fn begin(text: &mut PacketProgram, otherwise: Label) {
    match text.access {
        Access::Direct => {
            begin_frame(text);
            clear(text);
            ethernet(text, otherwise);
        }
        Access::Copied => {
            begin_packet(text);
            clear(text);
            text.load(Word, R2, CONTEXT, PACKET_PROTOCOL);
            tags(text, otherwise);
        }
    }
}

fn begin_frame(text: &mut PacketProgram) {
    text.store(Long, STACK, FRAME, R1);
    text.load(Word, R2, R1, RECEIVE_QUEUE);
    text.store(Word, STACK, QUEUE, R2);
    text.load(Word, CURSOR, R1, DATA);
    text.load(Word, END, R1, DATA_END);
    text.copy(R2, END);
    text.with(Subtract, R2, CURSOR);
    text.store(Long, STACK, LENGTH, R2);
}

/// The kernel has taken the header of Ethernet off packets that arrive, and a tag, too.
fn begin_packet(text: &mut PacketProgram) {
    let whole = text.label();
    text.copy(CONTEXT, R1);
    text.load(Word, R2, CONTEXT, PACKET_LENGTH);
    text.load(Word, R3, CONTEXT, PACKET_KIND);
    text.jump_if(Equal, R3, OUTGOING, whole);
    text.with_number(Add, R2, ETHERNET_BYTES);
    text.place(whole);
    text.store(Long, STACK, LENGTH, R2);
    text.set(CURSOR, 0);
}

/// Forgets what was found in the frame.
fn clear(text: &mut PacketProgram) {
    (0..KEY_BYTES as i16 / 8).for_each(|index| text.store_number(Long, STACK, TUPLE + 8 * index, 0));
    text.set(SUM, 0);
    text.set(DIFFERENCE, 0);
}

/// Passes over the header of Ethernet, and over tags: `R2` is the type of what follows.
fn ethernet(text: &mut PacketProgram, otherwise: Label) {
    text.need(ETHERNET_BYTES, otherwise);
    text.take(Half, R2, 12);
    text.with_number(Add, CURSOR, ETHERNET_BYTES);
    tags(text, otherwise);
}

/// Passes over tags of VLANs where the type `R2` is one.
fn tags(text: &mut PacketProgram, otherwise: Label) {
    for _ in 0..TAGS_MAX {
        let [tag, none] = core::array::from_fn(|_| text.label());
        text.jump_if(Equal, R2, TAGS[0], tag);
        text.jump_if(Unequal, R2, TAGS[1], none);
        text.place(tag);
        text.need(4, otherwise);
        text.take(Half, R2, 2);
        text.with_number(Add, CURSOR, 4);
        text.place(none);
    }
}

/// Takes addresses and ports of the packet of type `R2`, so that source and destination count alike; `done` where there
/// is no more.
fn ip(text: &mut PacketProgram, inside: Option<Inside>, done: Label) {
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
fn ipv4(text: &mut PacketProgram, done: Label) {
    text.need(20, done);
    text.take(Word, SUM, 12);
    text.take(Word, R2, 16);
    text.store(Word, STACK, TUPLE, SUM);
    text.store(Word, STACK, DESTINATION, R2);
    text.store_number(Byte, STACK, VERSION, 4);
    text.copy(DIFFERENCE, SUM);
    text.with(Add, SUM, R2);
    text.with(Xor, DIFFERENCE, R2);
    text.take(Byte, R2, 9);
    text.store(Byte, STACK, PROTOCOL, R2);
    text.take(Half, R3, 6);
    text.jump_if(AnyBit, R3, FRAGMENT, done);
    text.take(Byte, R3, 0);
    text.with_number(And, R3, 0xf);
    text.with_number(ShiftLeft, R3, 2);
    text.with(Add, CURSOR, R3);
}

/// As [`ipv4`]. Extension headers are passed over, a fragment has none that is known.
fn ipv6(text: &mut PacketProgram, done: Label) {
    text.need(40, done);
    for (place, at) in [(TUPLE, 8), (TUPLE + 8, 16), (DESTINATION, 24), (DESTINATION + 8, 32)] {
        text.take(Long, R2, at);
        text.store(Long, STACK, place, R2);
    }
    text.store_number(Byte, STACK, VERSION, 6);
    text.load(Long, SUM, STACK, TUPLE);
    text.load(Long, DIFFERENCE, STACK, TUPLE + 8);
    text.load(Long, R2, STACK, DESTINATION);
    text.with(Add, SUM, R2);
    text.load(Long, R2, STACK, DESTINATION + 8);
    text.with(Add, DIFFERENCE, R2);
    text.take(Byte, R2, 6);
    text.with_number(Add, CURSOR, 40);
    for _ in 0..EXTENSIONS_MAX {
        let [extension, next] = core::array::from_fn(|_| text.label());
        EXTENSIONS.into_iter().for_each(|number| text.jump_if(Equal, R2, number, extension));
        text.jump(next);
        text.place(extension);
        text.need(2, done);
        text.take(Byte, R2, 0);
        text.take(Byte, R3, 1);
        text.with_number(Add, R3, 1);
        text.with_number(ShiftLeft, R3, 3);
        text.with(Add, CURSOR, R3);
        text.place(next);
    }
    text.store(Byte, STACK, PROTOCOL, R2);
}

/// Takes the ports behind the header of IP, where the protocol `R2` has them.
fn ports(text: &mut PacketProgram, done: Label) {
    need_ports(text, done);
    text.need(4, done);
    text.take(Half, R2, 0);
    text.take(Half, R3, 2);
    text.store(Half, STACK, PORTS, R2);
    text.store(Half, STACK, PORTS + 2, R3);
    add_ports(text, SUM, DIFFERENCE);
}
