//! What the driver of an interface can do with XDP.
//!
//! # Source
//! `Documentation/netlink/specs/netdev.yaml` of the kernel, and genetlink(7).

use netlink_packet_core::{NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NlasIterator};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_GENERIC;

use crate::interface::Interface;

/// Bytes of the header of every message, and of that of generic netlink behind it.
const NETLINK_HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// The family that knows the others: its number, the command that finds one, and two of its attributes.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_NUMBER: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The family of interfaces, the command that asks for one, and three of its attributes.
const INTERFACES: &[u8] = b"netdev\0";
const GET_INTERFACE: u8 = 1;
const INDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;
const TELLS_OF_FRAMES: u16 = 5;
/// The driver can have the card read and write frames itself.
const ZERO_COPY: u64 = 1 << 3;
/// The driver tells the VLAN tag that it took out of a frame.
const VLAN_TAG: u64 = 1 << 2;

/// What the driver says that it can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Features {
    /// Have the card read and write frames itself.
    pub(super) has_zero_copy: bool,
    /// Tell a program which VLAN tag it took out of a frame.
    pub(super) tells_tags: bool,
}

impl Features {
    /// Asks the kernel. `None`: it does not tell (it does from Linux 6.3 on, tags from 6.8 on).
    pub(super) fn of(interface: &Interface) -> Option<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC).ok()?;
        socket.bind_auto().ok()?;
        let family = ask(&socket, &message(CONTROL, GET_FAMILY, FAMILY_NAME, INTERFACES))?;
        let family = u16::from_ne_bytes(*value(&family, FAMILY_NUMBER)?.first_chunk()?);
        let answer = ask(&socket, &message(family, GET_INTERFACE, INDEX, &interface.index.to_ne_bytes()))?;
        Self::read(&answer)
    }

    /// Reads the answer about an interface.
    fn read(answer: &[u8]) -> Option<Self> {
        let bits = |attribute| Some(u64::from_ne_bytes(*value(answer, attribute)?.first_chunk()?));
        Some(Self {
            has_zero_copy: bits(XDP_FEATURES)? & ZERO_COPY != 0,
            tells_tags: bits(TELLS_OF_FRAMES).is_some_and(|tells| tells & VLAN_TAG != 0),
        })
    }
}

/// A question to a family, with one attribute.
fn message(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_bytes = 4 + value.len();
    let length = NETLINK_HEADER + GENERIC_HEADER + attribute_bytes.next_multiple_of(4);
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // The running number, and who asks, which the kernel knows.
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend((attribute_bytes as u16).to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(length, 0);
    message
}

/// Returns what the kernel answers. `None`: it refuses.
fn ask(socket: &Socket, message: &[u8]) -> Option<Vec<u8>> {
    socket.send(message, 0).ok()?;
    let mut answer = Vec::with_capacity(8192);
    socket.recv(&mut answer, 0).ok()?;
    (NetlinkBuffer::new_checked(&answer).ok()?.message_type() != NLMSG_ERROR).then_some(answer)
}

/// Finds an attribute of an answer.
fn value(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    let payload = NetlinkBuffer::new_checked(answer).ok()?.payload();
    let attribute =
        NlasIterator::new(payload.get(GENERIC_HEADER..)?).map_while(Result::ok).find(|found| found.kind() == wanted)?;
    // The value must live as long as the answer, which the attribute's own does not.
    attribute.into_inner().get(4..4 + attribute.value_length())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_laid_out_as_the_kernel_reads_them() {
        let length = 32_u32.to_ne_bytes();
        let [a, b] = 16_u16.to_ne_bytes();
        let [c, d] = 1_u16.to_ne_bytes();
        let [e, f] = 11_u16.to_ne_bytes();
        let [g, h] = 2_u16.to_ne_bytes();
        let header = [&length[..], &[a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        let expected = [&header[..], &[3, 1, 0, 0, e, f, g, h], b"netdev\0\0"].concat();
        assert_eq!(message(CONTROL, GET_FAMILY, FAMILY_NAME, INTERFACES), expected);
    }

    #[test]
    fn answers_are_read() {
        let answer = |attribute: u16, bits: u64| message(30, 1, attribute, &bits.to_ne_bytes());
        let features = |has_zero_copy| Some(Features { has_zero_copy, tells_tags: false });
        assert_eq!(Features::read(&answer(XDP_FEATURES, ZERO_COPY | 3)), features(true));
        assert_eq!(Features::read(&answer(XDP_FEATURES, !ZERO_COPY)), features(false));
        assert_eq!(Features::read(&answer(TELLS_OF_FRAMES, VLAN_TAG)), None, "no word on XDP");
        let whole = answer(XDP_FEATURES, 1);
        (0..whole.len()).for_each(|end| assert_eq!(Features::read(&whole[..end]), None, "{end} bytes"));
    }

    #[test]
    fn the_loopback_interface_has_no_driver_that_can_do_anything() {
        let interface = Interface::find("xdp:lo", "lo").unwrap();
        if let Some(features) = Features::of(&interface) {
            assert_eq!(features, Features { has_zero_copy: false, tells_tags: false });
        }
    }
}
