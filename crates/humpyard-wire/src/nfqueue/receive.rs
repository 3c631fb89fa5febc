//! Packets from a queue.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::SystemTime;

use caps::{CapSet, Capability};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::source::{Polled, Received, Source};

use super::message::{self, MESSAGE_BYTES_MAX, Packet, Said};
use super::{Queue, receive};

/// What the kernel has counted of its queues.
const STATISTICS: &str = "/proc/thread-self/net/netfilter/nfnetlink_queue";
/// Which of the numbers in a queue's line are packets dropped: for want of room in the queue, and in the socket.
const DROPPED: [usize; 2] = [5, 6];

/// The packets that the kernel puts into a queue.
pub(crate) struct QueueSource {
    queue: Arc<Queue>,
    buffer: Vec<u8>,
    /// Messages that came while the queue was set up.
    early: VecDeque<Vec<u8>>,
    /// Opened while there are privileges. `None`: this user may not read it.
    statistics: Option<File>,
    /// What the kernel called the last packet: it counts them, so that a gap is packets lost.
    last: Option<u32>,
    gaps: u64,
    received: Received,
}

impl QueueSource {
    pub(super) fn new(queue: Arc<Queue>, early: VecDeque<Vec<u8>>) -> Self {
        let received = Received { port: queue.port.clone(), ..Received::default() };
        let statistics = File::open(STATISTICS).ok();
        Self { queue, buffer: vec![0; MESSAGE_BYTES_MAX], early, statistics, last: None, gaps: 0, received }
    }

    /// Takes the next message into the buffer: its length, or none if there is none now.
    fn take(&mut self) -> Result<Option<usize>, TrafficError> {
        if let Some(early) = self.early.pop_front() {
            self.buffer[..early.len()].copy_from_slice(&early);
            return Ok(Some(early.len()));
        }
        match receive(&self.queue.socket, &mut self.buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(TrafficError::unreadable(&self.queue.port, error)),
        }
    }

    /// Takes messages until one is a packet, which `use_it` gets; false if there is none now.
    fn next_packet(
        &mut self,
        use_it: impl FnOnce(&Queue, &mut Received, &Packet<'_>) -> Result<(), TrafficError>,
    ) -> Result<bool, TrafficError> {
        while let Some(length) = self.take()? {
            match message::parse(&self.buffer[..length]) {
                Some(Said::Packet(packet)) => {
                    let before = self.last.replace(packet.id);
                    self.gaps += before.map_or(0, |before| u64::from(packet.id.wrapping_sub(before).saturating_sub(1)));
                    use_it(&self.queue, &mut self.received, &packet)?;
                    return Ok(true);
                }
                Some(Said::Answer { about, error }) if error != 0 => self.queue.on_refusal(about, error)?,
                _ => {}
            }
        }
        Ok(false)
    }

    /// Packets that the kernel dropped because nobody took them in time. Where its own counts may not be read, those for which the
    /// socket had no room, of which the numbers tell.
    fn missed(&mut self) -> u64 {
        let mut text = String::new();
        let read = self.statistics.as_mut().and_then(|file| {
            file.rewind().ok()?;
            file.read_to_string(&mut text).ok()
        });
        let counted = read.and_then(|_| dropped(&text, self.queue.number));
        counted.unwrap_or(if self.queue.fail_open { 0 } else { self.gaps })
    }
}

/// Whether some program has this queue. Where that may not be read: whether this one has the privilege to take it.
pub(super) fn is_taken(queue: u16) -> bool {
    match fs::read_to_string(STATISTICS) {
        Ok(table) => line(&table, queue).is_some(),
        Err(_) => caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false),
    }
}

/// What the kernel's table of queues says of this one.
fn line(table: &str, queue: u16) -> Option<Vec<&str>> {
    let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.into_iter().find(|counts| counts.first().and_then(|number| number.parse().ok()) == Some(queue))
}

/// Packets that the kernel has dropped of this queue, by its table of queues.
fn dropped(table: &str, queue: u16) -> Option<u64> {
    let counts = line(table, queue)?;
    DROPPED.iter().map(|&at| counts.get(at)?.parse::<u64>().ok()).sum()
}

impl Source for QueueSource {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        while self.poll(frame)? != Polled::Frame {
            crate::wait(&self.descriptors()).map_err(|error| TrafficError::unreadable(&self.queue.port, error))?;
        }
        Ok(true)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        let mut filled = false;
        while !filled {
            let there_is = self.next_packet(|queue, received, packet| {
                filled = packet.length as usize == packet.bytes.len();
                if !filled {
                    *(if queue.fail_open { &mut received.passed } else { &mut received.malformed }) += 1;
                    return queue.decide_unseen(packet.id);
                }
                received.frames += 1;
                fill(frame, packet, queue.desk().waiting.add(packet.id, packet.bytes));
                Ok(())
            })?;
            if !there_is {
                return Ok(Polled::NotYet);
            }
        }
        Ok(Polled::Frame)
    }

    fn description(&self) -> &str {
        &self.queue.port
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.queue.socket.as_fd()]
    }

    fn close(&mut self) -> Result<(), TrafficError> {
        {
            let mut desk = self.queue.desk();
            message::shut(&mut desk.batch, self.queue.number);
            self.queue.send(&mut desk)?;
        }
        let leave = |queue: &Queue, received: &mut Received, packet: &Packet<'_>| {
            *(if queue.fail_open { &mut received.passed } else { &mut received.left }) += 1;
            queue.decide_unseen(packet.id)
        };
        while self.next_packet(leave)? {}
        self.queue.send(&mut self.queue.desk())?;
        // What the kernel says of these verdicts.
        self.next_packet(leave).map(drop)
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        self.received.missed = self.missed();
        Ok(vec![self.received.clone()])
    }
}

/// Copies a packet into a frame, which the kernel holds by this number.
fn fill(frame: &mut Frame, packet: &Packet<'_>, queued: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    frame.time = Time::from_ns(now.as_nanos() as u64);
    frame.link = LinkType::RawIp;
    (frame.port, frame.answer, frame.queued, frame.mark) = (0, false, Some(queued), None);
    frame.wire_length = packet.length;
    frame.data.clear();
    frame.data.extend_from_slice(packet.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_it_dropped_of_each_queue() {
        let table =
            "    7   4321     0 2 65531     5    37       99  1\n   17   4321     0 2 65531     1     0        9  1\n";
        assert_eq!([dropped(table, 7), dropped(table, 17), dropped(table, 1)], [Some(42), Some(1), None]);
        assert_eq!(dropped("    7   4321\n", 7), None);
    }
}
