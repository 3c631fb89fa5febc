//! The part of the program that finds the packet in a tunnel: GRE, IP in IP, VXLAN, GTP-U.
//!
//! # Source
//! RFC 2784 and 2890 (GRE), RFC 2003 and 4213 (IP in IP), RFC 7348 (VXLAN), 3GPP TS 29.281 (GTP-U).

use super::packet::{CURSOR, IPV4, IPV6, KEPT, PacketProgram, STACK};
use crate::assembler::Condition::{AnyBit, Equal, Unequal};
use crate::assembler::Label;
use crate::assembler::Operation::{Add, And, ShiftLeft, ShiftRight, Subtract};
use crate::assembler::Register::{R2, R4, R5};
use crate::assembler::Size::{Byte, Half};

/// Protocols of IP, and ports of UDP.
const IP_IN_IP: i32 = 4;
const UDP: i32 = 17;
const IPV6_IN_IP: i32 = 41;
const GRE: i32 = 47;
const VXLAN: i32 = 4789_u16.to_be() as i32;
const GTP_U: i32 = 2152_u16.to_be() as i32;
/// The type of Ethernet frames in GRE.
const ETHERNET: i32 = 0x6558_u16.to_be() as i32;
/// Bits of GRE: checksum, key and sequence number are there, with four bytes each; source routes, and other versions.
const GRE_FIELDS: [i32; 3] = [0x8000_u16.to_be() as i32, 0x2000_u16.to_be() as i32, 0x1000_u16.to_be() as i32];
const GRE_UNKNOWN: i32 = 0x4007_u16.to_be() as i32;
/// The header of UDP and what follows it: eight bytes each of VXLAN and GTP-U.
const UDP_AND_TUNNEL: i32 = 16;
/// GTP-U carries a packet.
const GTP_PACKET: i32 = 255;
/// Headers of extensions of GTP-U that are passed over.
const EXTENSIONS_MAX: usize = 2;

/// Where the packet in a tunnel is taken: with its Ethernet header, and without, `R2` being its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub(super) ethernet: Label,
    pub(super) ip: Label,
}

/// Goes inside where the packet behind the cursor, of protocol `R2`, is one of a tunnel. Else goes on, with both as
/// they were; `done` where the tunnel carries nothing that is known.
pub(super) fn enter(text: &mut PacketProgram, inside: Inside, done: Label) {
    let [gre, ipv4, ipv6, udp, none] = core::array::from_fn(|_| text.label());
    for (protocol, label) in [(GRE, gre), (IP_IN_IP, ipv4), (IPV6_IN_IP, ipv6), (UDP, udp)] {
        text.jump_if(Equal, R2, protocol, label);
    }
    text.jump(none);
    text.place(gre);
    self::gre(text, inside, done);
    text.place(ipv4);
    text.set(R2, IPV4);
    text.jump(inside.ip);
    text.place(ipv6);
    text.set(R2, IPV6);
    text.jump(inside.ip);
    text.place(udp);
    self::udp(text, inside, done);
    text.place(none);
}

fn gre(text: &mut PacketProgram, inside: Inside, done: Label) {
    text.need(4, done);
    text.take(Half, R4, 0);
    text.take(Half, R2, 2);
    text.jump_if(AnyBit, R4, GRE_UNKNOWN, done);
    text.with_number(Add, CURSOR, 4);
    for field in GRE_FIELDS {
        let [there, next] = core::array::from_fn(|_| text.label());
        text.jump_if(AnyBit, R4, field, there);
        text.jump(next);
        text.place(there);
        text.with_number(Add, CURSOR, 4);
        text.place(next);
    }
    text.jump_if(Equal, R2, ETHERNET, inside.ethernet);
    text.jump_if(Equal, R2, IPV4, inside.ip);
    text.jump_if(Equal, R2, IPV6, inside.ip);
    text.jump(done);
}

/// Goes on where the packet is of no tunnel.
fn udp(text: &mut PacketProgram, inside: Inside, done: Label) {
    let [vxlan, gtp, none] = core::array::from_fn(|_| text.label());
    text.need(UDP_AND_TUNNEL, none);
    text.take(Half, R4, 2);
    text.jump_if(Equal, R4, VXLAN, vxlan);
    text.jump_if(Equal, R4, GTP_U, gtp);
    text.jump(none);
    text.place(vxlan);
    text.with_number(Add, CURSOR, UDP_AND_TUNNEL);
    text.jump(inside.ethernet);
    text.place(gtp);
    gtp_u(text, inside, none, done);
    text.place(none);
    text.set(R2, UDP);
}

fn gtp_u(text: &mut PacketProgram, inside: Inside, none: Label, done: Label) {
    let [payload, ipv4, ipv6] = core::array::from_fn(|_| text.label());
    text.take(Byte, R4, 9);
    text.jump_if(Unequal, R4, GTP_PACKET, none);
    text.take(Byte, R4, 8);
    text.copy(R5, R4);
    text.with_number(And, R5, 0xf0);
    // Version 1, and not GTP prime.
    text.jump_if(Unequal, R5, 0x30, none);
    text.with_number(Add, CURSOR, UDP_AND_TUNNEL);
    text.with_number(And, R4, 7);
    text.jump_if(Equal, R4, 0, payload);
    // Sequence number, number of the N-PDU, type of the first extension: all are there if any is.
    text.store(Byte, STACK, KEPT, R4);
    text.need(4, done);
    text.load(Byte, R4, STACK, KEPT);
    text.take(Byte, R2, 3);
    text.with_number(Add, CURSOR, 4);
    let has_extensions = text.label();
    text.jump_if(AnyBit, R4, 4, has_extensions);
    text.jump(payload);
    text.place(has_extensions);
    for _ in 0..EXTENSIONS_MAX {
        text.jump_if(Equal, R2, 0, payload);
        extension(text, done);
    }
    text.jump_if(Unequal, R2, 0, done);

    text.place(payload);
    text.need(1, done);
    text.take(Byte, R4, 0);
    text.with_number(ShiftRight, R4, 4);
    text.jump_if(Equal, R4, 4, ipv4);
    text.jump_if(Equal, R4, 6, ipv6);
    text.jump(done);
    text.place(ipv4);
    text.set(R2, IPV4);
    text.jump(inside.ip);
    text.place(ipv6);
    text.set(R2, IPV6);
    text.jump(inside.ip);
}

/// Passes over an extension of GTP-U: its length in units of four bytes, contents, and the type of the next one, `R2`.
fn extension(text: &mut PacketProgram, done: Label) {
    text.need(1, done);
    text.take(Byte, R4, 0);
    text.jump_if(Equal, R4, 0, done);
    // To its last byte; the mask shows the kernel that the number is small.
    text.with_number(Subtract, R4, 1);
    text.with_number(And, R4, 0xff);
    text.with_number(ShiftLeft, R4, 2);
    text.with_number(Add, R4, 3);
    text.with(Add, CURSOR, R4);
    text.need(1, done);
    text.take(Byte, R2, 0);
    text.with_number(Add, CURSOR, 1);
}
