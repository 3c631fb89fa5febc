//! The program that the kernel runs for each frame.

use core::ffi::c_int;

use crate::bpf::Instruction;

/// What a function answers, what it is called with, what stays over a call, and where the stack ends.
#[derive(Clone, Copy)]
enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R6 = 6,
    R7 = 7,
    Stack = 10,
}

use Register::{R0, R1, R2, R3, R6, R7, Stack};

/// Load of 32 bits from memory, and of 16.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
/// Store of a number of 32 bits, and of 32 and 16 bits of a register.
const STORE_NUMBER: u8 = 0x62;
const STORE_WORD: u8 = 0x63;
const STORE_HALF: u8 = 0x6b;
/// Load of a number of 64 bits, in two instructions.
const LOAD_LONG: u8 = 0x18;
/// Move of a number, and of a register.
const MOVE: u8 = 0xb7;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
/// Turns a register into the byte order of networks.
const TO_NETWORK: u8 = 0xdc;
/// Jumps where a register is not a number (of 64 bits, of 32 bits), is a number, and is greater than another.
const JUMP_UNLESS: u8 = 0x55;
const JUMP_UNLESS_WORD: u8 = 0x56;
const JUMP_ABOVE: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Says of a number of 64 bits that it is a descriptor, of which the kernel makes the map itself.
const MAP_BY_DESCRIPTOR: u8 = 1;
/// Says of a call that it is of a function of the kernel by its number among the kernel's types.
const BY_TYPE: u8 = 2;
const ADJUST_HEAD: i32 = 44;
const REDIRECT_MAP: i32 = 51;
/// Where things are in what the program is called with (`struct xdp_md`): where the frame begins and ends,
/// `rx_queue_index`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;
/// What becomes of a frame: it is dropped, goes on to the kernel's own stack, or to where the map says.
const DROP: i32 = 1;
const PASS: i32 = 2;
const REDIRECT: i32 = 4;

/// Where the driver puts the protocol and the number of a tag, below the end of the stack.
const TAG_PROTOCOL: i16 = -4;
const TAG_NUMBER: i16 = -2;

/// The instruction of this operation; what it does not use of these is zero.
const fn put(opcode: u8, destination: Register, source: Register, offset: i16, immediate: i32) -> Instruction {
    Instruction::new(opcode, destination as u8, source as u8, offset, immediate)
}

const fn call(function: i32) -> Instruction {
    Instruction::new(CALL, 0, 0, 0, function)
}

/// Returns the program that gives each frame to the socket that the map has for the queue by which it came; where
/// there is none, to the kernel's stack.
///
/// With `tag_of_frame`, the number of the kernel's `bpf_xdp_metadata_rx_vlan_tag`, a frame gets back the VLAN tag
/// that the driver took out of it. Frames that the kernel's stack gets stay as they are: it knows the tag.
pub(super) fn redirect(sockets: c_int, tag_of_frame: Option<u32>) -> Vec<Instruction> {
    let mut code = vec![
        put(COPY, R6, R1, 0, 0),
        put(LOAD_WORD, R2, R6, QUEUE, 0),
        Instruction::new(LOAD_LONG, R1 as u8, MAP_BY_DESCRIPTOR, 0, sockets),
        Instruction::new(0, 0, 0, 0, 0),
        // From Linux 5.3 on the last bits are the answer where the map has nothing.
        put(MOVE, R3, R0, 0, PASS),
        call(REDIRECT_MAP),
    ];
    if let Some(number) = tag_of_frame {
        code.extend(put_tag_back(number));
    }
    code.push(Instruction::new(EXIT, 0, 0, 0, 0));
    code
}

/// Puts the tag back into a frame that goes to a socket, between its addresses and its type. A frame that has no room
/// for it is dropped: without its tag it would be of another network.
fn put_tag_back(tag_of_frame: u32) -> [Instruction; 33] {
    [
        // The answer so far: leave unless a socket gets the frame.
        put(COPY, R7, R0, 0, 0),
        put(JUMP_UNLESS, R7, R0, 30, REDIRECT),
        // Ask the driver for the tag; it has none unless it answers 0.
        put(STORE_NUMBER, Stack, R0, TAG_PROTOCOL, 0),
        put(COPY, R1, R6, 0, 0),
        put(COPY, R2, Stack, 0, 0),
        put(ADD, R2, R0, 0, TAG_PROTOCOL as i32),
        put(COPY, R3, Stack, 0, 0),
        put(ADD, R3, R0, 0, TAG_NUMBER as i32),
        Instruction::new(CALL, 0, BY_TYPE, 0, tag_of_frame as i32),
        put(JUMP_UNLESS_WORD, R0, R0, 22, 0),
        // Begin the frame four bytes earlier.
        put(COPY, R1, R6, 0, 0),
        put(MOVE, R2, R0, 0, -4),
        put(MOVE, R7, R0, 0, DROP),
        call(ADJUST_HEAD),
        put(JUMP_UNLESS, R0, R0, 17, 0),
        put(LOAD_WORD, R2, R6, DATA, 0),
        put(LOAD_WORD, R3, R6, DATA_END, 0),
        put(COPY, R1, R2, 0, 0),
        put(ADD, R1, R0, 0, 16),
        put(JUMP_ABOVE, R1, R3, 12, 0),
        // Move the addresses there.
        put(LOAD_WORD, R1, R2, 4, 0),
        put(STORE_WORD, R2, R1, 0, 0),
        put(LOAD_WORD, R1, R2, 8, 0),
        put(STORE_WORD, R2, R1, 4, 0),
        put(LOAD_WORD, R1, R2, 12, 0),
        put(STORE_WORD, R2, R1, 8, 0),
        // Write the tag behind them.
        put(LOAD_HALF, R1, Stack, TAG_PROTOCOL, 0),
        put(STORE_HALF, R2, R1, 12, 0),
        put(LOAD_HALF, R1, Stack, TAG_NUMBER, 0),
        put(TO_NETWORK, R1, R0, 0, 16),
        put(STORE_HALF, R2, R1, 14, 0),
        put(MOVE, R7, R0, 0, REDIRECT),
        // Every jump ends here.
        put(COPY, R0, R7, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Words = Vec<(u8, u8, i16, i32)>;

    fn words(tag_of_frame: Option<u32>) -> Words {
        let word = |Instruction { opcode, registers, offset, immediate }| (opcode, registers, offset, immediate);
        redirect(7, tag_of_frame).into_iter().map(word).collect()
    }

    /// What each way begins with.
    const BEGIN: [(u8, u8, i16, i32); 6] = [
        // r6 = r1
        (0xbf, 0x16, 0, 0),
        // r2 = *(u32 *)(r6 + 16)
        (0x61, 0x62, 16, 0),
        // r1 = map
        (0x18, 0x11, 0, 7),
        (0, 0, 0, 0),
        // r3 = 2
        (0xb7, 0x03, 0, 2),
        // call bpf_redirect_map
        (0x85, 0, 0, 51),
    ];
    const EXITS: (u8, u8, i16, i32) = (0x95, 0, 0, 0);

    #[test]
    fn the_program_is_what_an_assembler_makes_of_it() {
        assert_eq!(words(None), [&BEGIN[..], &[EXITS]].concat());
    }

    #[test]
    fn so_is_the_one_that_puts_tags_back() {
        let expected = [
            // r7 = r0; if r7 != 4 goto out
            (0xbf, 0x07, 0, 0),
            (0x55, 0x07, 30, 4),
            // *(u32 *)(r10 - 4) = 0
            (0x62, 0x0a, -4, 0),
            // w0 = bpf_xdp_metadata_rx_vlan_tag(r6, r10 - 4, r10 - 2); if w0 != 0 goto out
            (0xbf, 0x61, 0, 0),
            (0xbf, 0xa2, 0, 0),
            (0x07, 0x02, 0, -4),
            (0xbf, 0xa3, 0, 0),
            (0x07, 0x03, 0, -2),
            (0x85, 0x20, 0, 1234),
            (0x56, 0x00, 22, 0),
            // r7 = 1; r0 = bpf_xdp_adjust_head(r6, -4); if r0 != 0 goto out
            (0xbf, 0x61, 0, 0),
            (0xb7, 0x02, 0, -4),
            (0xb7, 0x07, 0, 1),
            (0x85, 0, 0, 44),
            (0x55, 0x00, 17, 0),
            // r2 = data; if r2 + 16 > data_end goto out
            (0x61, 0x62, 0, 0),
            (0x61, 0x63, 4, 0),
            (0xbf, 0x21, 0, 0),
            (0x07, 0x01, 0, 16),
            (0x2d, 0x31, 12, 0),
            // The words from 4, 8 and 12 go to 0, 4 and 8.
            (0x61, 0x21, 4, 0),
            (0x63, 0x12, 0, 0),
            (0x61, 0x21, 8, 0),
            (0x63, 0x12, 4, 0),
            (0x61, 0x21, 12, 0),
            (0x63, 0x12, 8, 0),
            // *(u16 *)(r2 + 12) = protocol; *(u16 *)(r2 + 14) = htons(tag)
            (0x69, 0xa1, -4, 0),
            (0x6b, 0x12, 12, 0),
            (0x69, 0xa1, -2, 0),
            (0xdc, 0x01, 0, 16),
            (0x6b, 0x12, 14, 0),
            // r7 = 4; out: r0 = r7
            (0xb7, 0x07, 0, 4),
            (0xbf, 0x70, 0, 0),
        ];
        assert_eq!(words(Some(1234)), [&BEGIN[..], &expected, &[EXITS]].concat());
        let out = expected.len() - 1;
        let jumps = (0..).zip(expected).filter(|(_, (opcode, ..))| matches!(opcode, 0x55 | 0x56 | 0x2d));
        jumps.for_each(|(at, (.., offset, _))| assert_eq!((at + 1 + offset) as usize, out, "from {at}"));
    }
}
