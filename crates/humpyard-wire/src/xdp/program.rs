//! The program that the kernel runs for each frame.

use core::ffi::c_int;

use crate::assembler::Condition::{Above, Unequal};
use crate::assembler::Operation::Add;
use crate::assembler::Register::{R0, R1, R2, R3, R6, R7, R10};
use crate::assembler::Size::{Half, Word};
use crate::assembler::{Assembler, Label};
use crate::bpf::Instruction;

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

/// Returns the program that gives each frame to the socket that the map has for the queue by which it came; where
/// there is none, to the kernel's stack.
///
/// With `tag_of_frame`, the number of the kernel's `bpf_xdp_metadata_rx_vlan_tag`, a frame gets back the VLAN tag
/// that the driver took out of it. Frames that the kernel's stack gets stay as they are: it knows the tag.
pub(super) fn redirect(sockets: c_int, tag_of_frame: Option<u32>) -> Vec<Instruction> {
    let mut text = Assembler::default();
    text.copy(R6, R1);
    text.load(Word, R2, R6, QUEUE);
    text.set_map(R1, sockets);
    // From Linux 5.3 on the last bits are the answer where the map has nothing.
    text.set(R3, PASS);
    text.call(REDIRECT_MAP);
    if let Some(number) = tag_of_frame {
        // The answer so far, which every jump out of this keeps.
        text.copy(R7, R0);
        let out = text.label();
        put_tag_back(&mut text, number, out);
        text.place(out);
        text.copy(R0, R7);
    }
    text.exit();
    text.finish()
}

/// Puts the tag back into a frame that goes to a socket, between its addresses and its type. A frame that has no room
/// for it is dropped: without its tag it would be of another network.
fn put_tag_back(text: &mut Assembler, tag_of_frame: u32, out: Label) {
    // Leave unless a socket gets the frame.
    text.jump_if(Unequal, R7, REDIRECT, out);
    // Ask the driver for the tag; it has none unless it answers 0.
    text.store_number(Word, R10, TAG_PROTOCOL, 0);
    text.copy(R1, R6);
    for (register, place) in [(R2, TAG_PROTOCOL), (R3, TAG_NUMBER)] {
        text.copy(register, R10);
        text.with_number(Add, register, i32::from(place));
    }
    text.call_by_type(tag_of_frame as i32);
    text.jump_if_word(Unequal, R0, 0, out);
    // Begin the frame four bytes earlier.
    text.copy(R1, R6);
    text.set(R2, -4);
    text.set(R7, DROP);
    text.call(ADJUST_HEAD);
    text.jump_if(Unequal, R0, 0, out);
    text.load(Word, R2, R6, DATA);
    text.load(Word, R3, R6, DATA_END);
    text.copy(R1, R2);
    text.with_number(Add, R1, 16);
    text.jump_if_register(Above, R1, R3, out);
    // Move the addresses there.
    for place in [0, 4, 8] {
        text.load(Word, R1, R2, place + 4);
        text.store(Word, R2, place, R1);
    }
    // Write the tag behind them.
    text.load(Half, R1, R10, TAG_PROTOCOL);
    text.store(Half, R2, 12, R1);
    text.load(Half, R1, R10, TAG_NUMBER);
    text.swap_to_network(R1);
    text.store(Half, R2, 14, R1);
    text.set(R7, REDIRECT);
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
