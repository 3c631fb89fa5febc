//! The pattern of hackbench: in each group, every writer sends messages to every reader. Each reader has a
//! small queue, so that tasks block and wake all the time.

use std::collections::VecDeque;

use humpyard_core::id::{ClientId, Id};

use super::machine::{Clients, Next};

/// Writers per group, and readers.
pub(crate) const WRITERS: usize = 20;
pub(crate) const READERS: usize = 20;
/// Tasks per group: first its writers.
pub(crate) const TASKS: usize = WRITERS + READERS;
/// Most messages in the queue of a reader.
pub(crate) const QUEUE: u32 = 64;

/// The state of a writer.
#[derive(Clone, Copy, Debug)]
struct Writer {
    /// Messages sent, to each reader of its group in turn.
    sent: u32,
}

/// The state of a reader.
#[derive(Clone, Debug)]
struct Reader {
    /// Messages in its queue.
    queue: u32,
    /// Messages read.
    read: u32,
    /// Whether it waits for a message.
    blocked: bool,
    /// Writers that wait for room in its queue, in order.
    writers: VecDeque<ClientId>,
}

/// The tasks of all groups. A slot is an attempt to write or to read one message.
pub(crate) struct Messages {
    writers: Vec<Writer>,
    readers: Vec<Reader>,
    /// Messages from each writer to each reader of its group.
    messages: u32,
}

impl Messages {
    pub(crate) fn new(groups: usize, messages: u32) -> Self {
        let reader = Reader { queue: 0, read: 0, blocked: false, writers: VecDeque::with_capacity(WRITERS) };
        Self { writers: vec![Writer { sent: 0 }; groups * WRITERS], readers: vec![reader; groups * READERS], messages }
    }

    /// Returns the number of messages to send.
    pub(crate) fn owed(&self) -> u64 {
        self.writers.len() as u64 * READERS as u64 * u64::from(self.messages)
    }

    /// Returns the number of messages read.
    pub(crate) fn read(&self) -> u64 {
        self.readers.iter().map(|reader| u64::from(reader.read)).sum()
    }

    /// Writes a message to the next reader, or blocks the writer.
    #[inline]
    fn write(&mut self, client: ClientId, group: usize, at: usize) -> (Next, Option<ClientId>) {
        let writer = &mut self.writers[group * WRITERS + at];
        let to = writer.sent as usize % READERS;
        let reader = &mut self.readers[group * READERS + to];
        if reader.queue == QUEUE {
            reader.writers.push_back(client);
            return (Next::Blocked, None);
        }
        reader.queue += 1;
        writer.sent += 1;
        let is_last = writer.sent == READERS as u32 * self.messages;
        let wakes = core::mem::take(&mut reader.blocked);
        let woken = wakes.then(|| ClientId::from_index(group * TASKS + WRITERS + to));
        (if is_last { Next::Ended } else { Next::Ready }, woken)
    }

    /// Reads a message, or blocks the reader.
    #[inline]
    fn read_one(&mut self, group: usize, at: usize) -> (Next, Option<ClientId>) {
        let reader = &mut self.readers[group * READERS + at];
        if reader.queue == 0 {
            reader.blocked = true;
            return (Next::Blocked, None);
        }
        reader.queue -= 1;
        reader.read += 1;
        let is_last = reader.read == WRITERS as u32 * self.messages;
        (if is_last { Next::Ended } else { Next::Ready }, reader.writers.pop_front())
    }
}

impl Clients for Messages {
    #[inline]
    fn on_slot(&mut self, client: ClientId) -> (Next, Option<ClientId>) {
        let (group, at) = (client.index() / TASKS, client.index() % TASKS);
        match at.checked_sub(WRITERS) {
            None => self.write(client, group, at),
            Some(reader) => self.read_one(group, reader),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full queue blocks its writer until a message is read; a reader without messages blocks until one comes.
    #[test]
    fn tasks_block_and_wake() {
        let mut messages = Messages::new(2, 100);
        assert_eq!(messages.owed(), 80_000);
        let (writer, reader) = (ClientId(40), ClientId(60));
        assert_eq!(messages.on_slot(reader), (Next::Blocked, None));
        assert_eq!(messages.on_slot(writer), (Next::Ready, Some(reader)));
        assert_eq!(messages.on_slot(reader), (Next::Ready, None));
        messages.readers[21].queue = QUEUE;
        assert_eq!(messages.on_slot(writer), (Next::Blocked, None));
        assert_eq!(messages.on_slot(ClientId(61)), (Next::Ready, Some(writer)));
        assert_eq!(messages.on_slot(writer), (Next::Ready, None));
        assert_eq!((messages.writers[20].sent, messages.readers[21].queue, messages.read()), (2, QUEUE, 2));
    }

    /// However unfair the order of tasks is, no task waits forever.
    #[test]
    fn every_message_arrives() {
        let mut messages = Messages::new(1, 7);
        let mut ready: Vec<ClientId> = (0..TASKS).map(ClientId::from_index).collect();
        let mut ended = 0;
        while let Some(client) = ready.pop() {
            let (next, woken) = messages.on_slot(client);
            match next {
                Next::Ready => ready.push(client),
                Next::Blocked => {}
                Next::Ended => ended += 1,
            }
            ready.extend(woken);
        }
        assert_eq!((messages.read(), ended), (messages.owed(), TASKS));
    }
}
