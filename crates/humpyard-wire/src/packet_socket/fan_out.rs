//! Several sockets at one interface, each of which receives the frames of some connections: the
//! kernel runs a program that chooses the socket.
//!
//! # Source
//! packet(7), `PACKET_FANOUT`; RFC 9669 for the instructions.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use humpyard_core::random::Seed;

use crate::bpf::{self, Instruction, Map, ProgramKind};
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

/// Registers: r1 to r5 are lost in calls, r10 is the end of the stack.
const CONTEXT: u8 = 6;
const SUM: u8 = 7;
const DIFFERENCE: u8 = 8;
const TRANSPORT: u8 = 9;
const STACK: u8 = 10;

/// Where bytes of the packet are put on the stack: the IP header, and what is behind it.
const HEADER: i16 = -40;
const BEHIND: i16 = -48;

/// Where a jump goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv4,
    Ipv6,
    Ports,
    HasPorts,
    Mix,
    Extension(u8),
    NotExtension(u8),
}

/// Extension headers of IPv6 that are passed over on the way to the ports, one after the other.
const EXTENSIONS: u8 = 4;
/// Hop-by-hop options, routing, destination options.
const EXTENSION_NUMBERS: [i32; 3] = [0, 43, 60];
/// Protocols with ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [i32; 5] = [6, 17, 33, 132, 136];

/// A program as it is written down, with jumps to labels.
#[derive(Default)]
struct Text {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Text {
    fn put(&mut self, opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction::new(opcode, destination, source, offset, immediate));
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    /// Jumps where `opcode` holds of this register and number.
    fn jump_if(&mut self, opcode: u8, register: u8, number: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(opcode, register, 0, 0, number);
    }

    fn jump(&mut self, to: Label) {
        self.jump_if(0x05, 0, 0, to);
    }

    fn number(&mut self, register: u8, number: u64) {
        self.put(0x18, register, 0, 0, number as u32 as i32);
        self.put(0, 0, 0, 0, (number >> 32) as i32);
    }

    /// Copies `bytes` bytes of the packet to the stack; jumps if the packet is shorter. `from` is their
    /// offset from the IP header, or the register that holds it.
    fn load(&mut self, from: Result<u8, i32>, to: i16, bytes: i32, otherwise: Label) {
        const LOAD_BYTES_RELATIVE: i32 = 68;
        const FROM_NETWORK_HEADER: i32 = 1;
        self.put(0xbf, 1, CONTEXT, 0, 0);
        match from {
            Ok(register) => self.put(0xbf, 2, register, 0, 0),
            Err(place) => self.put(0xb7, 2, 0, 0, place),
        }
        self.put(0xbf, 3, STACK, 0, 0);
        self.put(0x07, 3, 0, 0, i32::from(to));
        self.put(0xb7, 4, 0, 0, bytes);
        self.put(0xb7, 5, 0, 0, FROM_NETWORK_HEADER);
        self.put(0x85, 0, 0, 0, LOAD_BYTES_RELATIVE);
        self.jump_if(0x55, 0, 0, otherwise);
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, to) in self.jumps {
            let (_, target) = self.labels.iter().find(|(label, _)| *label == to).expect("a label for each jump");
            self.code[at].offset = (*target as i64 - at as i64 - 1) as i16;
        }
        self.code
    }
}

/// Returns the program, which hashes addresses and ports so that source and destination count alike,
/// and returns the socket that the table has for the bucket.
fn program(table: &Map, seed: Seed) -> Vec<Instruction> {
    const LOAD_BYTE: u8 = 0x71;
    const LOAD_HALF: u8 = 0x69;
    const LOAD_WORD: u8 = 0x61;
    const LOAD_LONG: u8 = 0x79;
    const ADD: u8 = 0x0f;
    const XOR: u8 = 0xaf;
    const MULTIPLY: u8 = 0x2f;
    const EQUAL: u8 = 0x15;
    const ANY_BIT: u8 = 0x45;
    /// Where `protocol` is in what the program is called with (`struct __sk_buff`); the bytes are
    /// as in the frame.
    const PROTOCOL: i16 = 16;
    const VALUE_OF_MAP: u8 = 2;
    let mut text = Text::default();
    text.put(0xbf, CONTEXT, 1, 0, 0);
    text.put(0xb7, SUM, 0, 0, 0);
    text.put(0xb7, DIFFERENCE, 0, 0, 0);
    text.put(LOAD_WORD, 0, CONTEXT, PROTOCOL, 0);
    text.jump_if(EQUAL, 0, i32::from(0x0800_u16.to_be()), Label::Ipv4);
    text.jump_if(EQUAL, 0, i32::from(0x86dd_u16.to_be()), Label::Ipv6);
    text.jump(Label::Mix);

    text.label(Label::Ipv4);
    text.load(Err(0), HEADER, 20, Label::Mix);
    text.put(LOAD_WORD, SUM, STACK, HEADER + 12, 0);
    text.put(LOAD_WORD, 2, STACK, HEADER + 16, 0);
    text.put(0xbf, DIFFERENCE, SUM, 0, 0);
    text.put(ADD, SUM, 2, 0, 0);
    text.put(XOR, DIFFERENCE, 2, 0, 0);
    // A fragment, the first or another.
    text.put(LOAD_HALF, 2, STACK, HEADER + 6, 0);
    text.jump_if(ANY_BIT, 2, i32::from(0x3fff_u16.to_be()), Label::Mix);
    text.put(LOAD_BYTE, TRANSPORT, STACK, HEADER, 0);
    text.put(0x57, TRANSPORT, 0, 0, 0xf);
    text.put(0x67, TRANSPORT, 0, 0, 2);
    text.put(LOAD_BYTE, 2, STACK, HEADER + 9, 0);
    text.jump(Label::Ports);

    text.label(Label::Ipv6);
    text.load(Err(0), HEADER, 40, Label::Mix);
    text.put(LOAD_LONG, SUM, STACK, HEADER + 8, 0);
    text.put(LOAD_LONG, DIFFERENCE, STACK, HEADER + 16, 0);
    text.put(LOAD_LONG, 2, STACK, HEADER + 24, 0);
    text.put(LOAD_LONG, 3, STACK, HEADER + 32, 0);
    text.put(ADD, SUM, 2, 0, 0);
    text.put(ADD, DIFFERENCE, 3, 0, 0);
    text.put(0xb7, TRANSPORT, 0, 0, 40);
    text.put(LOAD_BYTE, 2, STACK, HEADER + 6, 0);
    for number in 0..EXTENSIONS {
        for extension in EXTENSION_NUMBERS {
            text.jump_if(EQUAL, 2, extension, Label::Extension(number));
        }
        text.jump(Label::NotExtension(number));
        text.label(Label::Extension(number));
        text.load(Ok(TRANSPORT), BEHIND, 2, Label::Mix);
        text.put(LOAD_BYTE, 2, STACK, BEHIND, 0);
        text.put(LOAD_BYTE, 3, STACK, BEHIND + 1, 0);
        text.put(0x07, 3, 0, 0, 1);
        text.put(0x67, 3, 0, 0, 3);
        text.put(ADD, TRANSPORT, 3, 0, 0);
        text.label(Label::NotExtension(number));
    }

    text.label(Label::Ports);
    for protocol in WITH_PORTS {
        text.jump_if(EQUAL, 2, protocol, Label::HasPorts);
    }
    text.jump(Label::Mix);
    text.label(Label::HasPorts);
    text.load(Ok(TRANSPORT), BEHIND, 4, Label::Mix);
    text.put(LOAD_HALF, 2, STACK, BEHIND, 0);
    text.put(LOAD_HALF, 3, STACK, BEHIND + 2, 0);
    text.put(0xbf, 4, 2, 0, 0);
    text.put(ADD, 2, 3, 0, 0);
    text.put(XOR, 4, 3, 0, 0);
    text.put(0x67, 2, 0, 0, 40);
    text.put(0x67, 4, 0, 0, 40);
    text.put(ADD, SUM, 2, 0, 0);
    text.put(XOR, DIFFERENCE, 4, 0, 0);

    text.label(Label::Mix);
    // The constants of MurmurHash3's finalizer, and the seed.
    text.number(1, seed.0 | 1);
    text.put(MULTIPLY, SUM, 1, 0, 0);
    for constant in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        text.put(0xbf, 2, SUM, 0, 0);
        text.put(0x77, 2, 0, 0, 33);
        text.put(XOR, SUM, 2, 0, 0);
        text.put(XOR, SUM, DIFFERENCE, 0, 0);
        text.number(1, constant);
        text.put(MULTIPLY, SUM, 1, 0, 0);
    }
    // The bucket, and what the table has for it.
    text.put(0x77, SUM, 0, 0, 64 - BUCKETS.trailing_zeros() as i32);
    text.put(0x67, SUM, 0, 0, 1);
    text.put(0x18, 1, VALUE_OF_MAP, 0, table.descriptor());
    text.put(0, 0, 0, 0, 0);
    text.put(ADD, 1, SUM, 0, 0);
    text.put(LOAD_HALF, 0, 1, 0, 0);
    text.put(0x95, 0, 0, 0, 0);
    text.finish()
}
