//! Several sockets at one interface, each of which receives the frames of some connections: the
//! kernel runs a program that chooses the socket.
//!
//! # Source
//! packet(7), `PACKET_FANOUT`; RFC 9669 for the instructions.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use humpyard_core::random::Seed;

use crate::assembler::Condition::{AnyBit, Equal, Unequal};
use crate::assembler::Operation::{Add, And, ShiftLeft, ShiftRight, Xor};
use crate::assembler::Register::{self, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::assembler::Size::{Byte, Half, Long, Word};
use crate::assembler::{Assembler, Label};
use crate::bpf::{self, Instruction, Map, ProgramKind};
use crate::connection_hash::{EXTENSIONS, EXTENSIONS_MAX, FRAGMENT, add_ports, mix, need_ports};
use crate::system::{checked, option, set_option};

/// Buckets into which a hash divides connections: a power of two.
pub const BUCKETS: usize = 4096;

/// `PROGRAM_TYPE_SOCKET_FILTER` and `MAP_TYPE_ARRAY` of the kernel.
const PROGRAM_OF_SOCKET: u32 = 1;
const MAP_OF_ARRAY: u32 = 2;

/// The socket is that which a program says.
const BY_PROGRAM: i32 = 7;
/// The kernel finds a number for the group that no other has.
const NEW_GROUP: i32 = 0x2000;
/// What leaves by the interface is not looked at.
const IGNORE_OUTGOING: i32 = 0x4000;

/// Which of several sockets receives a frame. One socket receives both directions of a connection, and
/// all fragments between two addresses; and one receives all frames that are not IP.
#[derive(Debug)]
pub(crate) struct FanOut {
    program: OwnedFd,
    table: FanOutTable,
    /// The number that the kernel gave to the group of the interface. `None`: no socket has joined.
    group: Option<i32>,
}

/// The sockets by bucket, which can change while frames arrive. The program has it for as long as a
/// socket of the group is open.
#[derive(Debug)]
pub struct FanOutTable(Map);

impl FanOutTable {
    fn new(sockets: &[u16]) -> io::Result<Self> {
        let table = Self(Map::new(MAP_OF_ARRAY, BUCKETS * size_of::<u16>(), 1)?);
        table.set(sockets)?;
        Ok(table)
    }

    /// Sets the socket of each bucket: `sockets[bucket]` is its number, in the order in which they
    /// joined. Frames that have arrived stay with the socket that received them.
    ///
    /// # Errors
    /// If the kernel refuses it: before Linux 5.19 it can ask for CAP_BPF.
    ///
    /// # Panics
    /// If there is not a socket for each bucket.
    pub fn set(&self, sockets: &[u16]) -> io::Result<()> {
        assert_eq!(sockets.len(), BUCKETS, "a socket for each bucket");
        let bytes: Vec<u8> = sockets.iter().flat_map(|socket| socket.to_ne_bytes()).collect();
        self.0.set(0, &bytes)
    }
}

impl FanOut {
    /// Sockets by bucket: `sockets[bucket]` is the number of the socket, in the order in which they
    /// join.
    ///
    /// # Errors
    /// If the kernel refuses the program.
    ///
    /// # Panics
    /// If there is not a socket for each bucket.
    pub(crate) fn new(sockets: &[u16], seed: Seed) -> io::Result<Self> {
        let table = FanOutTable::new(sockets)?;
        let program = program(&table.0, Seed(seed.stream("wire/fan-out").bits()));
        let kind = ProgramKind { program: PROGRAM_OF_SOCKET, ..ProgramKind::default() };
        Ok(Self { program: bpf::load(kind, &program)?, table, group: None })
    }

    /// Makes the socket, which listens to its interface, the next of the group. All sockets of a group
    /// are of one interface.
    pub(crate) fn join(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let how = (BY_PROGRAM | IGNORE_OUTGOING) << 16;
        if let Some(group) = self.group {
            return set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &(how | group));
        }
        set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &(how | NEW_GROUP << 16))?;
        let group: i32 = option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        self.group = Some(group & 0xffff);
        set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &self.program.as_raw_fd())
    }

    /// Begins the group of another interface.
    pub(crate) const fn begin_interface(&mut self) {
        self.group = None;
    }

    /// Returns the table of all groups, once all sockets have joined.
    pub(crate) fn into_table(self) -> FanOutTable {
        self.table
    }
}

/// Keeps all frames from a socket until [`let_in`]. A socket can join a group only while it listens, and
/// until then it would receive the frames of every connection, which another socket receives too.
pub(super) fn keep_out(socket: &OwnedFd) -> io::Result<()> {
    // The program of one instruction: of each frame, keep 0 bytes.
    let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let filter = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    let (pointer, bytes) = ((&raw const filter).cast(), size_of_val(&filter) as libc::socklen_t);
    // SAFETY: pointer and length are those of a filter, whose one instruction lives as long as the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer, bytes) })?;
    Ok(())
}

/// Ends [`keep_out`].
pub(super) fn let_in(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// What the program is called with, what stays over calls, and the end of the stack.
const CONTEXT: Register = R6;
const SUM: Register = R7;
const DIFFERENCE: Register = R8;
const TRANSPORT: Register = R9;
const STACK: Register = R10;

/// Where bytes of the packet are put on the stack: the IP header, and what is behind it.
const HEADER: i16 = -40;
const BEHIND: i16 = -48;

/// Copies `bytes` bytes of the packet to the stack; jumps if the packet is shorter. `from` is their offset from the IP
/// header, or the register that holds it.
fn load(program: &mut Assembler, from: Result<Register, i32>, to: i16, bytes: i32, otherwise: Label) {
    const LOAD_BYTES_RELATIVE: i32 = 68;
    const FROM_NETWORK_HEADER: i32 = 1;
    program.copy(R1, CONTEXT);
    match from {
        Ok(register) => program.copy(R2, register),
        Err(place) => program.set(R2, place),
    }
    program.copy(R3, STACK);
    program.with_number(Add, R3, i32::from(to));
    program.set(R4, bytes);
    program.set(R5, FROM_NETWORK_HEADER);
    program.call(LOAD_BYTES_RELATIVE);
    program.jump_if(Unequal, R0, 0, otherwise);
}

/// Returns the program, which hashes addresses and ports so that source and destination count alike,
/// and returns the socket that the table has for the bucket.
fn program(table: &Map, seed: Seed) -> Vec<Instruction> {
    /// Where `protocol` is in what the program is called with (`struct __sk_buff`); the bytes are
    /// as in the frame.
    const PROTOCOL: i16 = 16;
    let mut text = Assembler::default();
    let [ipv4, ipv6, ports, mixing] = core::array::from_fn(|_| text.label());
    text.copy(CONTEXT, R1);
    text.set(SUM, 0);
    text.set(DIFFERENCE, 0);
    text.load(Word, R0, CONTEXT, PROTOCOL);
    text.jump_if(Equal, R0, i32::from(0x0800_u16.to_be()), ipv4);
    text.jump_if(Equal, R0, i32::from(0x86dd_u16.to_be()), ipv6);
    text.jump(mixing);

    text.place(ipv4);
    load(&mut text, Err(0), HEADER, 20, mixing);
    text.load(Word, SUM, STACK, HEADER + 12);
    text.load(Word, R2, STACK, HEADER + 16);
    text.copy(DIFFERENCE, SUM);
    text.with(Add, SUM, R2);
    text.with(Xor, DIFFERENCE, R2);
    // A fragment, the first or another.
    text.load(Half, R2, STACK, HEADER + 6);
    text.jump_if(AnyBit, R2, FRAGMENT, mixing);
    text.load(Byte, TRANSPORT, STACK, HEADER);
    text.with_number(And, TRANSPORT, 0xf);
    text.with_number(ShiftLeft, TRANSPORT, 2);
    text.load(Byte, R2, STACK, HEADER + 9);
    text.jump(ports);

    text.place(ipv6);
    load(&mut text, Err(0), HEADER, 40, mixing);
    text.load(Long, SUM, STACK, HEADER + 8);
    text.load(Long, DIFFERENCE, STACK, HEADER + 16);
    text.load(Long, R2, STACK, HEADER + 24);
    text.load(Long, R3, STACK, HEADER + 32);
    text.with(Add, SUM, R2);
    text.with(Add, DIFFERENCE, R3);
    text.set(TRANSPORT, 40);
    text.load(Byte, R2, STACK, HEADER + 6);
    for _ in 0..EXTENSIONS_MAX {
        let [extension, next] = core::array::from_fn(|_| text.label());
        EXTENSIONS.into_iter().for_each(|number| text.jump_if(Equal, R2, number, extension));
        text.jump(next);
        text.place(extension);
        load(&mut text, Ok(TRANSPORT), BEHIND, 2, mixing);
        text.load(Byte, R2, STACK, BEHIND);
        text.load(Byte, R3, STACK, BEHIND + 1);
        text.with_number(Add, R3, 1);
        text.with_number(ShiftLeft, R3, 3);
        text.with(Add, TRANSPORT, R3);
        text.place(next);
    }

    text.place(ports);
    need_ports(&mut text, mixing);
    load(&mut text, Ok(TRANSPORT), BEHIND, 4, mixing);
    text.load(Half, R2, STACK, BEHIND);
    text.load(Half, R3, STACK, BEHIND + 2);
    add_ports(&mut text, SUM, DIFFERENCE);

    text.place(mixing);
    mix(&mut text, SUM, DIFFERENCE, seed);
    // The bucket, and what the table has for it.
    text.with_number(ShiftRight, SUM, 64 - BUCKETS.trailing_zeros() as i32);
    text.with_number(ShiftLeft, SUM, 1);
    text.set_value_of_map(R1, table.descriptor());
    text.with(Add, R1, SUM);
    text.load(Half, R0, R1, 0);
    text.exit();
    text.finish()
}
