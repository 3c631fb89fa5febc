//! The program that the kernel runs for each frame.

use core::ffi::c_int;

use crate::bpf::Instruction;

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

/// Gives each frame to the socket that the map has for the queue by which it came; where there is none, to the kernel's stack.
pub(super) fn redirect(sockets: c_int) -> [Instruction; 6] {
    let (context, map, queue, otherwise) =
        (Register::R1 as u8, Register::R1 as u8, Register::R2 as u8, Register::R3 as u8);
    [
        Instruction::new(LOAD_WORD, queue, context, QUEUE, 0),
        Instruction::new(LOAD_LONG, map, MAP_BY_DESCRIPTOR, 0, sockets),
        Instruction::new(0, 0, 0, 0, 0),
        // From Linux 5.3 on the last bits are the answer where the map has nothing.
        Instruction::new(MOVE, otherwise, 0, 0, PASS),
        Instruction::new(CALL, 0, 0, 0, REDIRECT_MAP),
        Instruction::new(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_what_an_assembler_makes_of_it() {
        let words = redirect(7)
            .map(|Instruction { opcode, registers, offset, immediate }| (opcode, registers, offset, immediate));
        let expected = [
            // r2 = *(u32 *)(r1 + 16)
            (0x61, 0x12, 16, 0),
            // r1 = map
            (0x18, 0x11, 0, 7),
            (0, 0, 0, 0),
            // r3 = 2
            (0xb7, 0x03, 0, 2),
            // call bpf_redirect_map
            (0x85, 0, 0, 51),
            // exit
            (0x95, 0, 0, 0),
        ];
        assert_eq!(words, expected);
    }
}
