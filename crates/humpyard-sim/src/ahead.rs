//! Headers read ahead, on a thread of their own: making packets up takes about as long as a quarter of simulating them.

use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::source::Source;
use humpyard_traffic::{Headers, TrafficError, Tunnels};

/// Packets that are read without a thread: one is not worth its while for fewer.
const ALONE: u32 = 1 << 14;
/// Packets of a batch, and batches on their way.
const BATCH: usize = 512;
const BATCHES: usize = 8;

/// A source, which after the first packets is read ahead. What it gives is the same, whoever reads it.
pub(crate) struct Ahead {
    tunnels: Tunnels,
    reader: Reader,
}

enum Reader {
    /// Who takes a packet reads it; so many are still to be read so.
    Here(Box<dyn Source + Send>, u32),
    There(There),
    /// There is nothing more.
    Over,
}

/// The end of a reader on a thread that packets come out of.
struct There {
    batches: Receiver<Batch>,
    /// Batches on their way back, to be filled again.
    spare: SyncSender<Batch>,
    batch: Batch,
    at: usize,
    thread: JoinHandle<()>,
}

/// Packets in a row.
#[derive(Default)]
struct Batch {
    packets: Vec<Read>,
    /// What the source has come to, if this is its last.
    end: Option<Result<(), TrafficError>>,
    progress: Option<f64>,
}

/// What a simulation knows of a frame.
struct Read {
    time: Time,
    wire_length: u32,
    headers: Headers,
}

impl Ahead {
    pub(crate) fn new(source: Box<dyn Source + Send>, tunnels: Tunnels) -> Self {
        Self { tunnels, reader: Reader::Here(source, ALONE) }
    }

    /// How much of the source was read, where that is known, up to a few batches.
    pub(crate) fn progress(&self) -> Option<f64> {
        match &self.reader {
            Reader::Here(source, _) => source.progress(),
            Reader::There(there) => there.batch.progress,
            Reader::Over => None,
        }
    }

    /// As [`Source::next_headers`], but that the frame has its time and its length on the wire alone.
    pub(crate) fn next(&mut self, frame: &mut Frame, headers: &mut Headers) -> Result<bool, TrafficError> {
        match &mut self.reader {
            Reader::Here(source, left) if *left > 0 => {
                *left -= 1;
                source.next_headers(frame, self.tunnels, headers)
            }
            Reader::Here(..) => {
                self.part();
                self.next(frame, headers)
            }
            Reader::There(there) => match there.batch.packets.get(there.at) {
                Some(read) => {
                    there.at += 1;
                    (frame.time, frame.wire_length, *headers) = (read.time, read.wire_length, read.headers);
                    Ok(true)
                }
                None => self.turn(frame, headers),
            },
            Reader::Over => Ok(false),
        }
    }

    /// Has a thread read the source from now on, if there is a processor for it.
    fn part(&mut self) {
        let Reader::Here(source, left) = mem::replace(&mut self.reader, Reader::Over) else { return };
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            self.reader = Reader::Here(source, left + ALONE);
            return;
        }
        let (full, batches) = sync_channel(BATCHES);
        let (spare, empty) = sync_channel(BATCHES + 1);
        let tunnels = self.tunnels;
        let thread = thread::spawn(move || read(source, tunnels, &full, &empty));
        self.reader = Reader::There(There { batches, spare, batch: Batch::default(), at: 0, thread });
    }

    /// Goes on with the next batch, if there is one.
    fn turn(&mut self, frame: &mut Frame, headers: &mut Headers) -> Result<bool, TrafficError> {
        let Reader::There(there) = &mut self.reader else { return Ok(false) };
        if let Some(end) = there.batch.end.take() {
            self.reader = Reader::Over;
            return end.map(|()| false);
        }
        match there.batches.recv() {
            Ok(batch) => {
                // A batch that finds no room is one too many.
                let _ = there.spare.try_send(mem::replace(&mut there.batch, batch));
                there.at = 0;
                self.next(frame, headers)
            }
            Err(_) => {
                // It went without a word.
                if let Reader::There(there) = mem::replace(&mut self.reader, Reader::Over)
                    && let Err(panic) = there.thread.join()
                {
                    resume_unwind(panic);
                }
                Ok(false)
            }
        }
    }
}

/// Reads the source to its end, or until nobody takes what is read.
fn read(mut source: Box<dyn Source + Send>, tunnels: Tunnels, full: &SyncSender<Batch>, empty: &Receiver<Batch>) {
    let (mut frame, mut headers) = (Frame::default(), Headers::default());
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        batch.packets.clear();
        while batch.packets.len() < BATCH && batch.end.is_none() {
            match source.next_headers(&mut frame, tunnels, &mut headers) {
                Ok(true) => {
                    batch.packets.push(Read { time: frame.time, wire_length: frame.wire_length, headers });
                }
                Ok(false) => batch.end = Some(Ok(())),
                Err(damage) => batch.end = Some(Err(damage)),
            }
        }
        batch.progress = source.progress();
        let is_last = batch.end.is_some();
        if full.send(batch).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;
    use humpyard_traffic::source::open;

    use super::*;

    /// A source that ends after so many packets, as damaged if it is so asked, or by a panic.
    struct Ends {
        left: u32,
        end: fn() -> Result<bool, TrafficError>,
    }

    impl Source for Ends {
        fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
            if self.left == 0 {
                return (self.end)();
            }
            self.left -= 1;
            frame.time = Time::from_ns(u64::from(self.left));
            Ok(true)
        }

        fn description(&self) -> &str {
            "ends"
        }
    }

    type Drained = (Vec<(Time, u32, Headers)>, Result<bool, TrafficError>);

    fn drain(source: Box<dyn Source + Send>) -> Drained {
        let mut ahead = Ahead::new(source, Tunnels::NONE);
        let (mut frame, mut headers, mut read) = (Frame::default(), Headers::default(), Vec::new());
        loop {
            match ahead.next(&mut frame, &mut headers) {
                Ok(true) => read.push((frame.time, frame.wire_length, headers)),
                end => {
                    let again = ahead.next(&mut frame, &mut headers);
                    assert!(end.is_err() || !again.unwrap(), "it is at its end");
                    return (read, end);
                }
            }
        }
    }

    #[test]
    fn what_is_read_ahead_is_what_would_be_read() {
        for packets in [10, ALONE, ALONE + 1, 2 * ALONE + BATCH as u32] {
            let source = || open(&format!("gen:messages:packets={packets}"), Seed(1)).unwrap();
            let (read, end) = drain(source());
            assert!(end.is_ok());
            let (mut plain, mut frame, mut headers) = (source(), Frame::default(), Headers::default());
            for &(time, length, ref expected) in &read {
                assert!(plain.next_headers(&mut frame, Tunnels::NONE, &mut headers).unwrap());
                assert_eq!((frame.time, frame.wire_length, &headers), (time, length, expected));
            }
            assert_eq!(read.len(), packets as usize);
        }
    }

    #[test]
    fn damage_comes_where_it_is() {
        let damaged = || Err(TrafficError::usage("damaged"));
        for left in [3, 3 * ALONE] {
            let (read, end) = drain(Box::new(Ends { left, end: damaged }));
            assert_eq!((read.len(), end.unwrap_err().to_string().contains("damaged")), (left as usize, true));
        }
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_is_one_here() {
        let _ = drain(Box::new(Ends { left: 2 * ALONE, end: || panic!("on purpose") }));
    }
}
