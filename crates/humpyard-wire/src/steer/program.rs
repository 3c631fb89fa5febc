//! The programs that the kernel runs for each frame of an interface that is steered: they hash the connection into a
//! bucket, count, and, where cores are given, hand the frame to the core of its bucket, or choose its socket.

use core::ffi::c_int;

use super::Hashing;
use super::buckets::{Counted, Placed, core_of_bucket, count};
use super::order::note_number;
use super::packet::{Access, BUCKET, FRAME, PacketProgram, STACK, find_bucket};
use crate::assembler::Condition::{Equal, Unequal};
use crate::assembler::Operation::{Add, And, Subtract};
use crate::assembler::Register::{R0, R1, R2, R3, R7};
use crate::assembler::Size::{Long, Word};
use crate::bpf::Instruction;

/// A function of the kernel (`enum bpf_func_id`).
pub(super) const REDIRECT_MAP: i32 = 51;
/// A frame goes on to the kernel's own stack.
pub(super) const PASS: i32 = 2;

/// On the stack: the hash that the card made of a frame, and of what.
const CARD_HASH: i16 = FRAME - 4;
const CARD_HASH_KIND: i16 = FRAME - 8;

/// The descriptors of the maps by which a program steers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steered {
    /// The core of each bucket.
    pub(super) placed: Placed,
    /// The kernel's `BPF_MAP_TYPE_CPUMAP`.
    pub(super) cores: c_int,
}

/// Returns the program of an interface whose card hashes: it counts in `counted` by the hash of the card, of which the
/// kernel's function of this number tells. Frames without a hash are of the first bucket.
pub(super) fn card_program(hashing: Hashing, counted: Counted, hash_of_frame: u32) -> Vec<Instruction> {
    let mut text = PacketProgram::new(Access::Direct);
    find_bucket(&mut text, hashing);
    let hashed = text.label();
    text.store_number(Word, STACK, BUCKET, 0);
    text.load(Long, R1, STACK, FRAME);
    for (register, place) in [(R2, CARD_HASH), (R3, CARD_HASH_KIND)] {
        text.store_number(Word, STACK, place, 0);
        text.copy(register, STACK);
        text.with_number(Add, register, i32::from(place));
    }
    text.call_by_type(hash_of_frame as i32);
    text.jump_if_word(Unequal, R0, 0, hashed);
    text.load(Word, R1, STACK, CARD_HASH);
    text.with_number(And, R1, hashing.buckets() as i32 - 1);
    text.store(Word, STACK, BUCKET, R1);
    text.place(hashed);
    count(&mut text, counted);
    text.set(R0, PASS);
    text.exit();
    text.finish()
}

/// Returns the program of an interface: it counts in `counted` by buckets, and steers by `steered`.
pub(super) fn program(hashing: Hashing, counted: Counted, steered: Option<Steered>) -> Vec<Instruction> {
    let mut text = PacketProgram::new(Access::Direct);
    find_bucket(&mut text, hashing);
    count(&mut text, counted);
    if let Some(steered) = steered {
        steer(&mut text, steered);
    }
    text.set(R0, PASS);
    text.exit();
    text.finish()
}

/// Hands the frame to the core of its bucket, and ends; goes on where the bucket has none.
fn steer(text: &mut PacketProgram, steered: Steered) {
    let out = text.label();
    core_of_bucket(text, steered.placed, out);
    text.copy(R7, R2);
    note_number(text);
    text.copy(R2, R7);
    text.set_map(R1, steered.cores);
    text.set(R3, PASS);
    text.call(REDIRECT_MAP);
    text.exit();
    text.place(out);
}

/// Returns the program of a group of sockets: it counts in `counted` by buckets, and returns the number of the socket.
/// `placed` has the numbers plus 1. Where it has 0, the number is that of the bucket: the kernel divides it by the
/// number of sockets, and takes the remainder.
pub(super) fn socket_program(hashing: Hashing, counted: Counted, placed: Placed) -> Vec<Instruction> {
    let mut text = PacketProgram::new(Access::Copied);
    find_bucket(&mut text, hashing);
    count(&mut text, counted);
    let unplaced = text.label();
    core_of_bucket(&mut text, placed, unplaced);
    text.jump_if(Equal, R2, 0, unplaced);
    text.copy(R0, R2);
    text.with_number(Subtract, R0, 1);
    text.exit();
    text.place(unplaced);
    text.load(Word, R0, STACK, BUCKET);
    text.exit();
    text.finish()
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;
    use crate::assembler::longest_path;

    const COUNTED: Counted = Counted { buckets: 0, queues: None, flows: 1 };
    const WITH_QUEUES: Counted = Counted { queues: Some(5), ..COUNTED };
    const PLACED: Placed = Placed { wanted: 2, state: 3, guard: 1 };
    /// Instructions per packet at most, at the interface and for sockets. A longer program is slower for every frame of
    /// the machine.
    #[test]
    fn a_packet_takes_few_instructions() {
        for (inner, most_at_interface, most_for_sockets) in [(false, 230, 300), (true, 370, 600)] {
            let hashing = Hashing { bits: 10, seed: Seed(1), inner };
            let steered = Steered { placed: PLACED, cores: 4 };
            let at_interface = longest_path(&program(hashing, WITH_QUEUES, Some(steered)));
            let for_sockets = longest_path(&socket_program(hashing, COUNTED, PLACED));
            assert!(
                at_interface <= most_at_interface && for_sockets <= most_for_sockets,
                "{at_interface} {for_sockets}"
            );
        }
    }
}
