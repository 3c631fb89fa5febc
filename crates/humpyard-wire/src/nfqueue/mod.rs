//! Queues of netfilter: packets that a rule of the kernel's firewall hands out, and takes back by a verdict.
//!
//! A packet that comes from a queue waits in the kernel. It goes on from there when the run forwards it, in its new form if a service
//! changed it, and with a firewall mark if a service marked its flow; when the run drops or consumes it, the kernel drops it. So what
//! comes by a queue leaves by the same queue, nothing else does, and every packet has one verdict.
//!
//! The kernel cuts big packets and completes checksums itself before it hands them over, as no flag here asks it not to. What
//! follows from a verdict it takes up behind the rule, in the next chain.
//!
//! # Source
//! `include/uapi/linux/netfilter/nfnetlink_queue.h` and `net/netfilter/nfnetlink_queue.c` of the kernel.

mod message;
mod receive;
mod verdict;
mod waiting;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_core::params;
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::Sent;
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};

use self::message::{About, Decision, MESSAGE_BYTES_MAX, Said, Settings};
pub(crate) use self::receive::QueueSource;
pub(crate) use self::verdict::QueueSink;
use self::waiting::Waiting;
use crate::interface::refused;

params! {
    /// Parameters of a queue.
    pub(crate) struct QueueParams {
        /// Packets that the kernel holds until they have a verdict, those in the run's buffer among them.
        length: u64 = 16_384, in 1..=1_000_000, unit "packets";
        /// Whether packets pass that nobody could look into: where the queue is full, and what waits in it when the run ends.
        fail_open: bool = false;
    }
}

/// What a message in the socket takes up there, about: an Ethernet frame, and what the kernel says beside it.
const MESSAGE_BYTES: usize = 2_048;
/// Verdicts go to the kernel together, as soon as they have this number of bytes.
const BATCH_BYTES: usize = 32_768;
/// How often verdicts are offered again for which the kernel has no memory at the moment.
const TRIES: u32 = 64;

/// An open queue, for both directions.
#[derive(Debug)]
pub(crate) struct Queue {
    port: String,
    number: u16,
    fail_open: bool,
    socket: Socket,
    desk: Mutex<Desk>,
}

/// Where verdicts are made.
#[derive(Debug, Default)]
struct Desk {
    waiting: Waiting,
    /// Verdicts that go to the kernel together.
    batch: Vec<u8>,
    /// What these verdicts will count as.
    batched: Sent,
    sent: Sent,
}

/// The number of a queue, as the user wrote it.
pub(crate) fn number(text: &str) -> Result<u16, TrafficError> {
    text.parse()
        .map_err(|_| TrafficError::usage(format!("`{text}` is not a queue number: use nfqueue:0 to nfqueue:65535")))
}

/// Takes a queue; `port` is how the user names it.
///
/// # Errors
/// If another program has it, the kernel has no queues, or the privilege is missing.
pub(crate) fn open(port: &str, number: u16, params: &QueueParams) -> Result<(QueueSource, QueueSink), TrafficError> {
    let refuse = |error: io::Error| refusal(port, number, &error, || receive::is_taken(number));
    let mut socket = Socket::new(NETLINK_NETFILTER).map_err(refuse)?;
    socket.bind_auto().map_err(refuse)?;
    // What the socket has no room for the kernel drops, and counts; who reads need not be told beside that.
    socket.set_no_enobufs(true).map_err(refuse)?;
    let room = usize::try_from(params.length).unwrap_or(usize::MAX).saturating_mul(MESSAGE_BYTES).min(1 << 30);
    if setsockopt(&socket, RcvBufForce, &room).is_err() {
        setsockopt(&socket, RcvBuf, &room).map_err(|error| refuse(error.into()))?;
    }
    let settings = Settings { length: params.length as u32, fail_open: params.fail_open };
    let early = bind(&socket, number, settings).map_err(refuse)?;
    socket.set_non_blocking(true).map_err(refuse)?;
    let queue = Arc::new(Queue {
        port: port.to_owned(),
        number,
        fail_open: params.fail_open,
        socket,
        desk: Mutex::new(Desk { sent: Sent { port: port.to_owned(), ..Sent::default() }, ..Desk::default() }),
    });
    Ok((QueueSource::new(Arc::clone(&queue), early), QueueSink::new(queue)))
}

/// Why a queue cannot be taken, by the error with which the kernel refused it: the same one says that there is no privilege and that
/// another program has the queue.
fn refusal(port: &str, number: u16, error: &io::Error, is_taken: impl Fn() -> bool) -> TrafficError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EBUSY) if is_taken() => TrafficError::unusable(
            port,
            format!("another program has queue {number}: end that, or take another number"),
        ),
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => TrafficError::unusable(
            port,
            "this kernel has no queues for packets: modprobe nfnetlink_queue, or take one that has them",
        ),
        _ => refused(port, "taking a queue of the kernel", error),
    }
}

/// Takes a queue, and waits until the kernel has agreed; answers what packets came meanwhile.
fn bind(socket: &Socket, number: u16, settings: Settings) -> io::Result<VecDeque<Vec<u8>>> {
    let mut asked = Vec::new();
    message::bind(&mut asked, number, settings);
    socket.send(&asked, 0)?;
    let mut early = VecDeque::new();
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    loop {
        let length = receive(socket, &mut buffer)?;
        match message::parse(&buffer[..length]) {
            Some(Said::Answer { about: Some(About::Settings), error: 0 }) => return Ok(early),
            Some(Said::Answer { error, .. }) if error != 0 => return Err(io::Error::from_raw_os_error(error)),
            Some(Said::Packet(_)) => early.push_back(buffer[..length].to_vec()),
            _ => {}
        }
    }
}

/// Takes one message from the socket.
fn receive(socket: &Socket, mut buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(&mut buffer, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Queue {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a verdict to those that go to the kernel next, and sends them if they are many.
    fn decide(
        &self,
        desk: &mut Desk,
        id: u32,
        decision: Decision,
        mark: Option<u32>,
        bytes: Option<&[u8]>,
    ) -> Result<(), TrafficError> {
        message::verdict(&mut desk.batch, self.number, id, decision, mark, bytes);
        if desk.batch.len() >= BATCH_BYTES { self.send(desk) } else { Ok(()) }
    }

    /// Decides on a packet that did not come to the run.
    fn decide_unseen(&self, id: u32) -> Result<(), TrafficError> {
        let decision = if self.fail_open { Decision::Pass } else { Decision::Drop };
        self.decide(&mut self.desk(), id, decision, None, None)
    }

    /// Gives the kernel the verdicts there are.
    fn send(&self, desk: &mut Desk) -> Result<(), TrafficError> {
        if desk.batch.is_empty() {
            return Ok(());
        }
        let mut tries = 0;
        while let Err(error) = self.socket.send(&desk.batch, 0) {
            let passing =
                matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM));
            if !passing || tries == TRIES {
                return Err(TrafficError::unwritable(&self.port, error));
            }
            tries += 1;
        }
        desk.batch.clear();
        let Sent { frames, discarded, .. } = core::mem::take(&mut desk.batched);
        desk.sent.frames += frames;
        desk.sent.discarded += discarded;
        Ok(())
    }

    /// Hears that the kernel did not take a message.
    fn on_refusal(&self, about: Option<About>, error: i32) -> Result<(), TrafficError> {
        let error = io::Error::from_raw_os_error(error);
        let is_gone = error.raw_os_error() == Some(libc::ENOENT);
        match about {
            // The kernel drops what waits for an interface that goes down, and then knows no such packet any more.
            Some(About::Verdict(Decision::Accept)) if is_gone => {
                let sent = &mut self.desk().sent;
                sent.frames -= 1;
                sent.down += 1;
                Ok(())
            }
            Some(About::Verdict(_)) if is_gone => Ok(()),
            _ => Err(refused(&self.port, "giving a verdict", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_the_way_out() {
        let said = |error, is_taken: bool| {
            refusal("nfqueue:7", 7, &io::Error::from_raw_os_error(error), || is_taken).to_string()
        };
        assert!(said(libc::EPERM, true).contains("another program has queue 7: end that"));
        assert!(said(libc::EPERM, false).contains("give it CAP_NET_ADMIN"));
        assert!(said(libc::EINVAL, false).contains("modprobe nfnetlink_queue"));
    }

    #[test]
    fn queues_have_numbers() {
        assert_eq!(number("65535").unwrap(), 65_535);
        for text in ["65536", "-1", "eth0", ""] {
            assert!(number(text).unwrap_err().to_string().contains("nfqueue:0 to nfqueue:65535"), "{text}");
        }
    }
}
