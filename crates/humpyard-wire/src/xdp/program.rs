//! The program that the kernel runs for each frame, put together here: no compiler is needed, neither now nor then.

use std::os::fd::{AsRawFd, OwnedFd};

/// An instruction of BPF (RFC 9669, section 3), as the kernel reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Instruction {
    opcode: u8,
    /// The destination in the lower half, the source in the upper one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// What a function answers, and what it is called with.
#[derive(Clone, Copy)]
enum Register {
    R1 = 1,
    R2 = 2,
    R3 = 3,
}

/// Load of 32 bits from memory.
const LOAD_WORD: u8 = 0x61;
/// Load of a number of 64 bits, in two instructions.
const LOAD_LONG: u8 = 0x18;
/// Move of a number of 32 bits.
const MOVE: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Says of a number of 64 bits that it is a descriptor, of which the kernel makes the map itself.
const MAP_BY_DESCRIPTOR: u8 = 1;
const REDIRECT_MAP: i32 = 51;
/// Where `rx_queue_index` is in what the program is called with (`struct xdp_md`).
const QUEUE: i16 = 16;
/// The frame goes on to the kernel's own stack.
const PASS: i32 = 2;

impl Instruction {
    const fn new(opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Self {
        Self { opcode, registers: destination | source << 4, offset, immediate }
    }
}

/// Gives each frame to the socket that the map has for the queue by which it came; where there is none, to the kernel's stack.
pub(super) fn redirect(sockets: &OwnedFd) -> [Instruction; 6] {
    let (context, map, queue, otherwise) =
        (Register::R1 as u8, Register::R1 as u8, Register::R2 as u8, Register::R3 as u8);
    [
        Instruction::new(LOAD_WORD, queue, context, QUEUE, 0),
        Instruction::new(LOAD_LONG, map, MAP_BY_DESCRIPTOR, 0, sockets.as_raw_fd()),
        Instruction::new(0, 0, 0, 0, 0),
        // From Linux 5.3 on the last bits are the answer where the map has nothing.
        Instruction::new(MOVE, otherwise, 0, 0, PASS),
        Instruction::new(CALL, 0, 0, 0, REDIRECT_MAP),
        Instruction::new(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_program_is_what_an_assembler_makes_of_it() {
        let map = OwnedFd::from(File::open("/dev/null").unwrap());
        let number = map.as_raw_fd();
        let words = redirect(&map)
            .map(|Instruction { opcode, registers, offset, immediate }| (opcode, registers, offset, immediate));
        let expected = [
            // r2 = *(u32 *)(r1 + 16)
            (0x61, 0x12, 16, 0),
            // r1 = map
            (0x18, 0x11, 0, number),
            (0, 0, 0, 0),
            // r3 = 2
            (0xb7, 0x03, 0, 2),
            // call bpf_redirect_map
            (0x85, 0, 0, 51),
            // exit
            (0x95, 0, 0, 0),
        ];
        assert_eq!(words, expected);
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
