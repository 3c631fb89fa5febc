//! What is said between a queue and its program: packets one way, verdicts and settings the other.

use netlink_packet_core::{Emitable, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, Nla, NlasIterator};

/// Bytes of the header of every message.
const NETLINK_HEADER: usize = 16;
/// Bytes of the header of netfilter's messages behind that of netlink's.
const NETFILTER_HEADER: usize = 4;
/// The version of that header.
const NETFILTER_VERSION: u8 = libc::NFNETLINK_V0 as u8;

/// The longest packet that a message can carry.
pub(crate) const PACKET_BYTES_MAX: usize = u16::MAX as usize - 4;
/// Room for the longest message that the kernel sends.
pub(crate) const MESSAGE_BYTES_MAX: usize = PACKET_BYTES_MAX + 4096;

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// It goes on to the next hook.
    Accept,
    /// It is no more.
    Drop,
    /// It goes on, and nobody has looked at it.
    Pass,
}

/// What a message was about, for the kernel to say when it refuses one: its sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum About {
    Settings,
    Verdict(Decision),
}

impl About {
    const ALL: [Self; 4] =
        [Self::Settings, Self::Verdict(Decision::Accept), Self::Verdict(Decision::Drop), Self::Verdict(Decision::Pass)];

    fn of(sequence: u32) -> Option<Self> {
        Self::ALL.get(sequence as usize).copied()
    }

    fn sequence(self) -> u32 {
        Self::ALL.iter().position(|&about| about == self).unwrap_or(0) as u32
    }
}

/// What the kernel says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Said<'a> {
    /// A packet waits for a verdict.
    Packet(Packet<'a>),
    /// A message was answered: the number of an error, or 0.
    Answer {
        /// What it was about, if it was one of ours.
        about: Option<About>,
        /// As in errno(3).
        error: i32,
    },
    /// Something else.
    Other,
}

/// A packet that waits for a verdict.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Packet<'a> {
    /// What the kernel calls it.
    pub(crate) id: u32,
    /// How long it is: more than there is of it where the kernel has cut it short.
    pub(crate) length: u32,
    /// From its IP header on.
    pub(crate) bytes: &'a [u8],
}

/// Understands one message; none if it is no message.
pub(crate) fn parse(message: &[u8]) -> Option<Said<'_>> {
    let message = NetlinkBuffer::new_checked(message).ok()?;
    let payload = message.payload();
    if message.message_type() == NLMSG_ERROR {
        let error = i32::from_ne_bytes(*payload.first_chunk()?);
        return Some(Said::Answer { about: About::of(message.sequence_number()), error: error.saturating_neg() });
    }
    if message.message_type() != kind(libc::NFQNL_MSG_PACKET) {
        return Some(Said::Other);
    }
    let (mut id, mut length, mut bytes) = (None, None, [].as_slice());
    for attribute in NlasIterator::new(payload.get(NETFILTER_HEADER..)?) {
        let attribute = attribute.ok()?;
        // The value must live as long as the message, which the attribute's own does not.
        let value = attribute.into_inner().get(4..4 + attribute.value_length())?;
        let number = || value.first_chunk().map(|&bytes| u32::from_be_bytes(bytes));
        match i32::from(attribute.kind()) {
            libc::NFQA_PACKET_HDR => id = number(),
            libc::NFQA_CAP_LEN => length = number(),
            libc::NFQA_PAYLOAD => bytes = value,
            _ => {}
        }
    }
    Some(Said::Packet(Packet { id: id?, length: length.unwrap_or(bytes.len() as u32), bytes }))
}

/// What a message carries.
enum Attribute<'a> {
    /// Numbers of four bytes, most significant first.
    Number(i32, u32),
    /// A verdict, and what the kernel calls the packet.
    Verdict(Decision, u32),
    Bytes(i32, &'a [u8]),
}

impl Nla for Attribute<'_> {
    fn value_len(&self) -> usize {
        match self {
            Self::Number(..) => 4,
            Self::Verdict(..) => 8,
            Self::Bytes(_, bytes) => bytes.len(),
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Number(kind, _) | Self::Bytes(kind, _) => *kind as u16,
            Self::Verdict(..) => libc::NFQA_VERDICT_HDR as u16,
        }
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        match self {
            Self::Number(_, number) => buffer.copy_from_slice(&number.to_be_bytes()),
            Self::Verdict(decision, id) => {
                let verdict = match decision {
                    Decision::Accept | Decision::Pass => libc::NF_ACCEPT,
                    Decision::Drop => libc::NF_DROP,
                };
                buffer[..4].copy_from_slice(&verdict.to_be_bytes());
                buffer[4..].copy_from_slice(&id.to_be_bytes());
            }
            Self::Bytes(_, bytes) => buffer.copy_from_slice(bytes),
        }
    }
}

/// How a queue is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// Packets that wait for a verdict, at most.
    pub(crate) length: u32,
    /// Whether a packet that finds no room passes.
    pub(crate) fail_open: bool,
}

/// Takes a queue, which is to give whole packets, cut up and with their checksums, as they would be on a wire.
pub(crate) fn bind(to: &mut Vec<u8>, queue: u16, settings: Settings) {
    // In one message, so that there is no moment at which the queue is taken and hands out nothing.
    let [high, low] = (libc::AF_UNSPEC as u16).to_be_bytes();
    let command = [libc::NFQNL_CFG_CMD_BIND as u8, 0, high, low];
    let [a, b, c, d] = (u32::from(u16::MAX)).to_be_bytes();
    let parameters = [a, b, c, d, libc::NFQNL_COPY_PACKET as u8];
    let Settings { length, fail_open } = settings;
    let flag = libc::NFQA_CFG_F_FAIL_OPEN as u32;
    let attributes = [
        Attribute::Bytes(libc::NFQA_CFG_CMD, &command),
        Attribute::Bytes(libc::NFQA_CFG_PARAMS, &parameters),
        Attribute::Number(libc::NFQA_CFG_QUEUE_MAXLEN, length),
        Attribute::Number(libc::NFQA_CFG_FLAGS, if fail_open { flag } else { 0 }),
        Attribute::Number(libc::NFQA_CFG_MASK, flag | libc::NFQA_CFG_F_GSO as u32),
    ];
    put(to, libc::NFQNL_MSG_CONFIG, About::Settings, NLM_F_REQUEST | NLM_F_ACK, queue, &attributes);
}

/// Lets no packet into a queue any more.
pub(crate) fn shut(to: &mut Vec<u8>, queue: u16) {
    let attributes = [Attribute::Number(libc::NFQA_CFG_QUEUE_MAXLEN, 0)];
    put(to, libc::NFQNL_MSG_CONFIG, About::Settings, NLM_F_REQUEST, queue, &attributes);
}

/// A verdict on a packet, which gets this mark, and these bytes in place of its own, where they are given.
pub(crate) fn verdict(
    to: &mut Vec<u8>,
    queue: u16,
    id: u32,
    decision: Decision,
    mark: Option<u32>,
    bytes: Option<&[u8]>,
) {
    let attributes = [
        Some(Attribute::Verdict(decision, id)),
        mark.map(|mark| Attribute::Number(libc::NFQA_MARK, mark)),
        bytes.map(|bytes| Attribute::Bytes(libc::NFQA_PAYLOAD, bytes)),
    ];
    let about = About::Verdict(decision);
    put(to, libc::NFQNL_MSG_VERDICT, about, NLM_F_REQUEST, queue, attributes.iter().flatten());
}

/// The type of a message of a queue.
const fn kind(message: i32) -> u16 {
    (libc::NFNL_SUBSYS_QUEUE << 8 | message) as u16
}

/// Appends a message; its length is a multiple of four, so that another can follow.
fn put<'a, 'b: 'a>(
    to: &mut Vec<u8>,
    message: i32,
    about: About,
    flags: u16,
    queue: u16,
    attributes: impl IntoIterator<Item = &'a Attribute<'b>, IntoIter: Clone>,
) {
    let attributes = attributes.into_iter();
    let begin = to.len();
    let headers = NETLINK_HEADER + NETFILTER_HEADER;
    let length = headers + attributes.clone().map(Emitable::buffer_len).sum::<usize>();
    to.resize(begin + length, 0);
    let written = &mut to[begin..];
    let mut header = NetlinkBuffer::new(&mut *written);
    header.set_length(length as u32);
    header.set_message_type(kind(message));
    header.set_flags(flags);
    header.set_sequence_number(about.sequence());
    header.set_port_number(0);
    let [high, low] = queue.to_be_bytes();
    written[NETLINK_HEADER..headers].copy_from_slice(&[libc::AF_UNSPEC as u8, NETFILTER_VERSION, high, low]);
    let mut at = headers;
    for attribute in attributes {
        let end = at + attribute.buffer_len();
        attribute.emit(&mut written[at..end]);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a message apart: its type, flags and queue, and its attributes.
    fn apart(message: &[u8]) -> (u16, u16, u16, Vec<(u16, Vec<u8>)>) {
        let message = NetlinkBuffer::new_checked(message).unwrap();
        let payload = message.payload();
        let queue = u16::from_be_bytes([payload[2], payload[3]]);
        let attributes = NlasIterator::new(&payload[4..]).map(|attribute| {
            let attribute = attribute.unwrap();
            (attribute.kind(), attribute.value().to_vec())
        });
        (message.message_type(), message.flags(), queue, attributes.collect())
    }

    #[test]
    fn verdicts_are_as_the_kernel_reads_them() {
        let mut batch = Vec::new();
        verdict(&mut batch, 513, 9, Decision::Accept, Some(7), Some(b"abcde"));
        let first = batch.len();
        verdict(&mut batch, 513, 10, Decision::Drop, None, None);
        assert_eq!((first % 4, batch.len() % 4), (0, 0));
        let (kind, flags, queue, attributes) = apart(&batch[..first]);
        assert_eq!((kind, flags, queue), (0x0301, 1, 513));
        let accepted = vec![0, 0, 0, 1, 0, 0, 0, 9];
        assert_eq!(attributes, [(2, accepted), (3, vec![0, 0, 0, 7]), (10, b"abcde".to_vec())]);
        assert_eq!(apart(&batch[first..]).3, [(2, vec![0, 0, 0, 0, 0, 0, 0, 10])]);
    }

    #[test]
    fn a_queue_is_taken_with_all_that_is_asked_of_it_at_once() {
        let mut message = Vec::new();
        bind(&mut message, 7, Settings { length: 300, fail_open: true });
        let (kind, flags, queue, attributes) = apart(&message);
        assert_eq!((kind, flags, queue), (0x0302, 5, 7));
        let expected = [
            (1, vec![1, 0, 0, 0]),
            (2, vec![0, 0, 0xff, 0xff, 2]),
            (3, vec![0, 0, 1, 44]),
            (5, vec![0, 0, 0, 1]),
            (4, vec![0, 0, 0, 5]),
        ];
        assert_eq!(attributes, expected);
    }

    /// A message as the kernel would send it.
    fn from_kernel(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; NETLINK_HEADER];
        bytes.extend_from_slice(payload);
        let mut message = NetlinkBuffer::new(&mut bytes);
        message.set_length((NETLINK_HEADER + payload.len()) as u32);
        message.set_message_type(kind);
        message.set_sequence_number(sequence);
        bytes
    }

    #[test]
    fn packets_and_answers_are_understood() {
        let mut payload = vec![libc::AF_INET as u8, 0, 0, 7];
        payload.extend([11, 0, 1, 0, 0, 0, 0, 5, 8, 0, 1, 0]);
        payload.extend([7, 0, 10, 0, 0x45, 1, 2, 0]);
        let message = from_kernel(0x0300, 0, &payload);
        let packet = Packet { id: 5, length: 3, bytes: &[0x45, 1, 2] };
        assert_eq!(parse(&message), Some(Said::Packet(packet)));
        let error = from_kernel(NLMSG_ERROR, 1, &(-libc::ENOENT).to_ne_bytes());
        let expected = Said::Answer { about: Some(About::Verdict(Decision::Accept)), error: libc::ENOENT };
        assert_eq!(parse(&error), Some(expected));
        assert_eq!(parse(&from_kernel(0x0305, 0, &[])), Some(Said::Other));
    }

    #[test]
    fn what_is_no_message_is_none() {
        let mut payload = vec![libc::AF_INET as u8, 0, 0, 7];
        payload.extend([7, 0, 10, 0, 0x45, 1, 2, 0]);
        assert_eq!(parse(&from_kernel(0x0300, 0, &payload)), None, "a packet without its number");
        let whole = from_kernel(0x0300, 0, &[2, 0, 0, 7, 200, 0, 10, 0]);
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None);
        }
        assert_eq!(parse(&whole), None);
        assert_eq!(parse(&from_kernel(NLMSG_ERROR, 2, &[1])), None);
    }
}
