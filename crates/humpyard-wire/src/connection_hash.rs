//! The hash of a connection that programs of the kernel compute: source and destination count alike.

use humpyard_core::random::Seed;

use crate::assembler::Condition::Equal;
use crate::assembler::Operation::{Add, Multiply, ShiftLeft, ShiftRight, Xor};
use crate::assembler::Register::{R1, R2, R3, R4};
use crate::assembler::{Assembler, Label, Register};

/// More fragments follow, or this is not the first, in the third word of the header of IPv4.
pub(crate) const FRAGMENT: i32 = 0x3fff_u16.to_be() as i32;
/// Extension headers of IPv6 that are passed over: hop-by-hop options, routing, destination options; and how many.
pub(crate) const EXTENSIONS: [i32; 3] = [0, 43, 60];
pub(crate) const EXTENSIONS_MAX: usize = 4;
/// Protocols with ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [i32; 5] = [6, 17, 33, 132, 136];

/// Goes on where the protocol `R2` has ports, and to `otherwise` where it has none.
pub(crate) fn need_ports(text: &mut Assembler, otherwise: Label) {
    let has_ports = text.label();
    WITH_PORTS.into_iter().for_each(|protocol| text.jump_if(Equal, R2, protocol, has_ports));
    text.jump(otherwise);
    text.place(has_ports);
}

/// Adds the ports `R2` and `R3` to sum and difference of what is hashed. `R4` is lost.
pub(crate) fn add_ports(text: &mut Assembler, sum: Register, difference: Register) {
    text.copy(R4, R2);
    text.with(Add, R2, R3);
    text.with(Xor, R4, R3);
    text.with_number(ShiftLeft, R2, 40);
    text.with_number(ShiftLeft, R4, 40);
    text.with(Add, sum, R2);
    text.with(Xor, difference, R4);
}

/// Mixes two numbers into one, `sum`, by the finalizer of MurmurHash3 and the seed. `R1` and `R2` are lost.
pub(crate) fn mix(text: &mut Assembler, sum: Register, difference: Register, seed: Seed) {
    text.set_long(R1, seed.0 | 1);
    text.with(Multiply, sum, R1);
    for constant in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        text.copy(R2, sum);
        text.with_number(ShiftRight, R2, 33);
        text.with(Xor, sum, R2);
        text.with(Xor, sum, difference);
        text.set_long(R1, constant);
        text.with(Multiply, sum, R1);
    }
}
