//! Reading packets ahead, on a separate thread. Generating packets and hashing their flows takes
//! about a third of the time of the rest of a simulation.

use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::pace::{ClockJumps, Pacer};
use humpyard_traffic::source::Source;
use humpyard_traffic::{Digest, Digester, Headers, Numbered, NumberedFlows, TrafficError, Tunnels};

use crate::part::Part;

/// Packets of each batch but the last.
pub(crate) const BATCH: usize = 512;
/// Batches that are read without a thread: for fewer, a thread does not pay.
const ALONE: usize = 32;
/// Batches of a thread.
const BATCHES: usize = 8;
/// Batches that go back to the thread together. It sleeps while it has none, and waking it takes as
/// long as some packets.
const BACK: usize = BATCHES / 2;

/// A source that is read ahead after the first packets. It gives the same packets with and without
/// a thread.
pub(crate) struct Ahead {
    batch: Batch,
    /// The next packet of the batch.
    at: usize,
    /// The pacer, as it was before the packets of the batch.
    before: Pacer,
    reader: Reader,
    flows: Option<Arc<dyn NumberedFlows>>,
    /// Packets of the source in the batches before, for all dispatchers.
    passed: u64,
}

/// The headers of a frame, and their hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Heading {
    pub(crate) headers: Headers,
    pub(crate) digest: Digest,
}

/// Packets in a row.
#[derive(Default)]
struct Batch {
    packets: Vec<Numbered>,
    /// When each of them is there.
    arrivals: Vec<Time>,
    /// When each of them arrived at the reader that deals them out; empty if there is none.
    read: Vec<Time>,
    /// Packets of the source, for all dispatchers.
    of_source: usize,
    /// The headings of the packets, if the source does not number its flows.
    headings: Vec<Heading>,
    /// The pacer, as it is after the packets of the batch.
    pacer: Option<Pacer>,
    /// How the source ended, if this is its last batch.
    end: Option<Result<(), TrafficError>>,
    progress: Option<f64>,
}

enum Reader {
    /// The simulation's thread reads them; this number of batches is still to be read so.
    Here(Box<Filler>, usize),
    There(There),
    /// The source has ended.
    Over,
}

/// The end of a reader on a thread that packets come out of.
struct There {
    full: Receiver<Batch>,
    /// Batches on their way back, to be filled again.
    empty: Sender<Batch>,
    /// Batches that are to go back.
    used: Vec<Batch>,
    thread: JoinHandle<()>,
}

impl Batch {
    fn clear(&mut self) {
        self.of_source = 0;
        self.packets.clear();
        self.arrivals.clear();
        self.read.clear();
        self.headings.clear();
    }
}

impl Batch {
    /// Keeps the packets of a part alone.
    fn keep(&mut self, part: &mut Part, flows: Option<&dyn NumberedFlows>) {
        let mut kept = 0;
        for at in 0..self.packets.len() {
            let (packet, arrival) = (self.packets[at], self.arrivals[at]);
            let of_flow = flows.map(|flows| flows.headers(packet.flow));
            let headers = of_flow.as_ref().unwrap_or_else(|| &self.headings[at].headers);
            let Some(there) = part.next(arrival, headers) else { continue };
            (self.packets[kept], self.arrivals[kept]) = (packet, there);
            self.read.push(arrival);
            if flows.is_none() {
                self.headings[kept] = self.headings[at];
            }
            kept += 1;
        }
        self.packets.truncate(kept);
        self.arrivals.truncate(kept);
        self.headings.truncate(kept);
    }
}

/// Fills batches.
struct Filler {
    source: Box<dyn Source + Send>,
    pacer: Pacer,
    tunnels: Tunnels,
    digester: Digester,
    frame: Frame,
    /// The flows of the source, if it numbers them and no tunnels are opened.
    flows: Option<Arc<dyn NumberedFlows>>,
    /// The part of the packets that is wanted. `None`: all.
    part: Option<Part>,
}

impl Ahead {
    /// Packets of this source, the innermost in these tunnels, which arrive at this pace; of all of them or a part.
    pub(crate) fn new(
        source: Box<dyn Source + Send>,
        pacer: Pacer,
        tunnels: Tunnels,
        digester: Digester,
        part: Option<Part>,
    ) -> Self {
        let batch = Batch { progress: source.progress(), ..Batch::default() };
        let flows = source.numbered_flows().filter(|_| tunnels == Tunnels::NONE);
        let before = pacer.clone();
        let frame = Frame::default();
        let filler = Box::new(Filler { source, pacer, tunnels, digester, frame, flows: flows.clone(), part });
        Self { batch, at: 0, before, reader: Reader::Here(filler, ALONE), flows, passed: 0 }
    }

    /// The flows of the source, if they have the numbers that its packets give.
    #[inline]
    pub(crate) fn flows(&self) -> Option<&dyn NumberedFlows> {
        self.flows.as_deref()
    }

    /// Returns the part of the source that was read, if known, to within a few batches.
    pub(crate) fn progress(&self) -> Option<f64> {
        self.batch.progress
    }

    /// Moves on to the next packet at hand, and returns its arrival. `None`: call [`Ahead::turn`]
    /// first.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Time> {
        let arrival = *self.batch.arrivals.get(self.at)?;
        self.at += 1;
        Some(arrival)
    }

    /// Returns the packet that [`Ahead::next`] moved to last.
    ///
    /// # Panics
    /// If [`Ahead::next`] returned none since [`Ahead::turn`].
    #[inline(always)]
    pub(crate) fn current(&self) -> &Numbered {
        &self.batch.packets[self.at - 1]
    }

    /// Returns the packets at hand that [`Ahead::next`] has not reached yet, if the source numbers
    /// its flows.
    pub(crate) fn to_come(&self) -> &[Numbered] {
        if self.flows.is_some() { &self.batch.packets[self.at..] } else { &[] }
    }

    /// Returns when the packet that [`Ahead::next`] moved to last arrived, which is there at this time.
    #[inline(always)]
    pub(crate) fn arrived(&self, there: Time) -> Time {
        self.batch.read.get(self.at - 1).copied().unwrap_or(there)
    }

    /// Returns the number of packets of the source up to the end of the batch, for all dispatchers.
    pub(crate) fn passed(&self) -> u64 {
        self.passed + self.batch.of_source as u64
    }

    /// How often the clock of the source jumped in the packets that [`Ahead::next`] gave. Of a part: in all packets up
    /// to the end of the batch.
    pub(crate) fn jumps(&self) -> ClockJumps {
        if self.batch.of_source > self.batch.packets.len() {
            return self.batch.pacer.as_ref().unwrap_or(&self.before).jumps();
        }
        let mut pacer = self.before.clone();
        let given = &self.batch.packets[..self.at];
        pacer.add_arrivals(given.iter().map(|packet| packet.time), &mut Vec::new());
        pacer.jumps()
    }

    /// Returns the headers of that packet.
    ///
    /// # Panics
    /// If the source numbers its flows.
    #[inline]
    pub(crate) fn heading(&self) -> &Heading {
        &self.batch.headings[self.at - 1]
    }

    /// Fetches the next batch after [`Ahead::next`] has reached the end of the packets at hand. A batch of a part may
    /// have none. Returns false at the end of the source.
    ///
    /// # Errors
    /// The source is damaged after the packets that it gave. Then it has ended.
    #[cold]
    pub(crate) fn turn(&mut self) -> Result<bool, TrafficError> {
        self.at = 0;
        self.passed = self.passed();
        if let Some(pacer) = self.batch.pacer.take() {
            self.before = pacer;
        }
        self.batch.clear();
        while self.batch.of_source == 0 {
            if let Some(end) = self.batch.end.take() {
                self.reader = Reader::Over;
                return end.map(|()| false);
            }
            match &mut self.reader {
                Reader::Here(filler, left) if *left > 0 => {
                    *left -= 1;
                    filler.fill(&mut self.batch);
                }
                Reader::Here(..) => self.part(),
                Reader::There(there) => match there.full.recv() {
                    Ok(batch) => there.give_back(mem::replace(&mut self.batch, batch)),
                    // The thread ended without a message.
                    Err(_) => self.end_of_thread(),
                },
                Reader::Over => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Lets a thread read the source from now on, if a processor is free and the system can start a
    /// thread.
    fn part(&mut self) {
        let Reader::Here(filler, _) = mem::replace(&mut self.reader, Reader::Over) else { return };
        self.reader = match There::new() {
            Some((there, hand_over)) => {
                // Only now: without a thread the filler is needed here. If the thread has ended,
                // its end shows that.
                let _ = hand_over.send(filler);
                Reader::There(there)
            }
            None => Reader::Here(filler, usize::MAX),
        };
    }

    /// Handles that the thread ended before its source: resumes its panic here.
    fn end_of_thread(&mut self) {
        if let Reader::There(there) = mem::replace(&mut self.reader, Reader::Over)
            && let Err(panic) = there.thread.join()
        {
            resume_unwind(panic);
        }
    }
}

impl There {
    /// Starts a thread, and returns a sender for its filler. `None`: a thread would not help.
    fn new() -> Option<(Self, Sender<Box<Filler>>)> {
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            return None;
        }
        let (filled, full) = channel();
        let (empty, emptied) = channel();
        let (hand_over, handed_over) = channel::<Box<Filler>>();
        let run = move || handed_over.recv().map_or((), |filler| filler.run(&emptied, &filled));
        let thread = thread::Builder::new().spawn(run).ok()?;
        let mut there = Self { full, empty, used: Vec::with_capacity(BACK), thread };
        (0..BATCHES).for_each(|_| there.give_back(Batch::default()));
        Some((there, hand_over))
    }

    /// Returns a batch to the thread, together with others. If the thread has ended, it needs none.
    fn give_back(&mut self, batch: Batch) {
        self.used.push(batch);
        if self.used.len() == BACK {
            for batch in self.used.drain(..) {
                let _ = self.empty.send(batch);
            }
        }
    }
}

impl Filler {
    /// Fills batches until the end of the source, or until nobody takes them.
    fn run(mut self, empty: &Receiver<Batch>, full: &Sender<Batch>) {
        while let Ok(mut batch) = empty.recv() {
            batch.clear();
            self.fill(&mut batch);
            let is_last = batch.end.is_some();
            if full.send(batch).is_err() || is_last {
                return;
            }
        }
    }

    /// Fills an empty batch, as far as the source goes.
    fn fill(&mut self, batch: &mut Batch) {
        batch.packets.reserve_exact(BATCH);
        batch.arrivals.reserve_exact(BATCH);
        while batch.packets.len() < BATCH && batch.end.is_none() {
            let room = BATCH - batch.packets.len();
            let is_numbered = self.flows.is_some();
            let more = if is_numbered { self.source.next_numbered(&mut batch.packets, room) } else { self.read(batch) };
            batch.end = match more {
                Ok(true) => None,
                Ok(false) => Some(Ok(())),
                Err(damage) => Some(Err(damage)),
            };
        }
        self.pacer.add_arrivals(batch.packets.iter().map(|packet| packet.time), &mut batch.arrivals);
        batch.pacer = Some(self.pacer.clone());
        batch.progress = self.source.progress();
        batch.of_source = batch.packets.len();
        if let Some(part) = &mut self.part {
            batch.keep(part, self.flows.as_deref());
        }
    }

    /// Reads a frame. Returns false at the end of the source.
    fn read(&mut self, batch: &mut Batch) -> Result<bool, TrafficError> {
        let mut headers = Headers::default();
        let there_is = self.source.next_headers(&mut self.frame, self.tunnels, &mut headers)?;
        if there_is {
            batch.packets.push(Numbered { time: self.frame.time, flow: 0, length: self.frame.wire_length });
            batch.headings.push(Heading { headers, digest: self.digester.digest(&headers) });
        }
        Ok(there_is)
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;
    use humpyard_traffic::open;
    use humpyard_traffic::pace::Pace;
    use humpyard_traffic::{Classifier, ClassifierConfig};

    use super::*;

    /// A source that ends after a number of packets: normally, as damaged, or by a panic.
    struct Ends {
        left: usize,
        end: fn() -> Result<bool, TrafficError>,
    }

    impl Source for Ends {
        fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
            if self.left == 0 {
                return (self.end)();
            }
            self.left -= 1;
            frame.time = Time::from_ns(self.left as u64);
            Ok(true)
        }

        fn description(&self) -> &str {
            "ends"
        }
    }

    type Drained = (Vec<(Numbered, Heading)>, Result<(), TrafficError>);

    fn digester() -> Digester {
        Classifier::new(ClassifierConfig::default()).unwrap().digester().clone()
    }

    fn ahead_of(source: Box<dyn Source + Send>) -> Ahead {
        Ahead::new(source, Pacer::new(Pace::Trace), Tunnels::NONE, digester(), None)
    }

    /// Returns the arrival of the next packet, at hand or not.
    fn next(ahead: &mut Ahead) -> Result<Option<Time>, TrafficError> {
        match ahead.next() {
            None if ahead.turn()? => Ok(ahead.next()),
            next => Ok(next),
        }
    }

    fn drain(source: Box<dyn Source + Send>) -> Drained {
        let (mut ahead, mut pacer) = (ahead_of(source), Pacer::new(Pace::Trace));
        let mut read = Vec::new();
        loop {
            match next(&mut ahead) {
                Ok(Some(arrival)) => {
                    assert_eq!(arrival, pacer.arrival(ahead.current().time));
                    read.push((*ahead.current(), *ahead.heading()));
                }
                end => {
                    assert!(next(&mut ahead).unwrap().is_none(), "it is at its end");
                    assert_eq!(ahead.jumps(), pacer.jumps());
                    return (read, end.map(|_| ()));
                }
            }
            if read.len() % 100 == 0 {
                assert_eq!(ahead.jumps(), pacer.jumps());
            }
        }
    }

    /// The parts of several dispatchers together are all packets, each in its order, whether the source numbers its
    /// flows or not.
    #[test]
    fn every_packet_is_in_one_part() {
        let packets = 3 * ALONE * BATCH + 7;
        for name in ["messages", "poisson:flows=50"] {
            let separator = if name.contains(':') { ',' } else { ':' };
            let source = || open(&format!("gen:{name}{separator}packets={packets}"), Seed(1)).unwrap();
            let spread = humpyard_traffic::Spread::new(3, Tunnels::NONE, Seed(4));
            let times = |part: Option<Part>| {
                let mut ahead = Ahead::new(source(), Pacer::new(Pace::Trace), Tunnels::NONE, digester(), part);
                let mut times = Vec::new();
                loop {
                    while let Some(there) = ahead.next() {
                        assert_eq!(ahead.arrived(there), there, "its reader takes no time");
                        times.push((there, ahead.current().length));
                    }
                    if !ahead.turn().unwrap() {
                        assert_eq!(ahead.passed(), packets as u64);
                        return times;
                    }
                }
            };
            let part = |number| Part::new(spread.clone(), (0..3).map(|other| other == number).collect());
            let parts: Vec<_> = (0..3).map(|number| times(Some(part(number)))).collect();
            assert!(parts.iter().all(|part| part.is_sorted_by_key(|one| one.0) && part.len() > packets / 6));
            let mut all = parts.concat();
            all.sort_unstable();
            let mut whole = times(None);
            whole.sort_unstable();
            assert_eq!(all, whole, "{name}");
        }
    }

    #[test]
    fn a_packet_is_there_when_the_reader_has_dealt_it_out() {
        let spread = humpyard_traffic::Spread::new(1, Tunnels::NONE, Seed(4));
        let part = Part::new(spread, vec![true]).with_reader(1e6, 0.0);
        let source = open("gen:poisson:packets=3,flows=1", Seed(1)).unwrap();
        let mut ahead = Ahead::new(source, Pacer::new(Pace::Trace), Tunnels::NONE, digester(), Some(part));
        assert!(ahead.next().is_none() && ahead.turn().unwrap());
        let mut before = Time::ZERO;
        for _ in 0..3 {
            let there = ahead.next().unwrap();
            let arrived = ahead.arrived(there);
            assert_eq!(there, before.max(arrived) + Time::from_ns(1_000_000));
            before = there;
        }
    }

    /// Clock jumps of packets that nobody has taken do not count yet.
    #[test]
    fn jumps_of_the_clock_count_when_their_packets_are_taken() {
        /// A source whose clock jumps back at every seventh packet.
        struct Jumpy(u64);
        impl Source for Jumpy {
            fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
                self.0 += 1;
                frame.time = Time::from_ns((self.0 % 7) * 2_000_000_000);
                Ok(self.0 <= 40_000)
            }
            fn description(&self) -> &str {
                "jumpy"
            }
        }
        let (read, end) = drain(Box::new(Jumpy(0)));
        end.unwrap();
        assert_eq!(read.len(), 40_000);
    }

    /// At numbers of packets around the part read without a thread, and around whole batches.
    #[test]
    fn what_is_read_ahead_is_what_would_be_read() {
        let (alone, circle) = (ALONE * BATCH, BATCHES * BATCH);
        for packets in [0, 10, BATCH, alone - 1, alone, alone + 1, alone + BATCH, alone + 3 * circle + 5] {
            let source = || open(&format!("gen:messages:packets={packets}"), Seed(1)).unwrap();
            let (read, end) = drain(source());
            end.unwrap();
            let (mut plain, mut frame, mut headers) = (source(), Frame::default(), Headers::default());
            let digester = digester();
            for packet in &read {
                assert!(plain.next_headers(&mut frame, Tunnels::NONE, &mut headers).unwrap());
                let heading = Heading { headers, digest: digester.digest(&headers) };
                let numbered = Numbered { time: frame.time, flow: 0, length: frame.wire_length };
                assert_eq!(*packet, (numbered, heading));
            }
            assert_eq!(read.len(), packets);
        }
    }

    #[test]
    fn damage_comes_where_it_is() {
        let damaged = || Err(TrafficError::usage("damaged"));
        for left in [0, 3, BATCH, 3 * ALONE * BATCH, 3 * ALONE * BATCH + 1] {
            let (read, end) = drain(Box::new(Ends { left, end: damaged }));
            assert_eq!((read.len(), end.unwrap_err().to_string().contains("damaged")), (left, true));
        }
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_is_one_here() {
        let _ = drain(Box::new(Ends { left: 2 * ALONE * BATCH + 7, end: || panic!("on purpose") }));
    }

    /// Stopping in the middle of an endless source leaves no thread behind.
    #[test]
    fn nobody_reads_what_nobody_takes() {
        struct Endless(Sender<()>);
        impl Source for Endless {
            fn next(&mut self, _: &mut Frame) -> Result<bool, TrafficError> {
                Ok(true)
            }
            fn description(&self) -> &str {
                "endless"
            }
        }
        impl Drop for Endless {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        for packets in [1, 2 * ALONE * BATCH] {
            let (dropped, is_dropped) = channel();
            let mut ahead = ahead_of(Box::new(Endless(dropped)));
            (0..packets).for_each(|_| assert!(next(&mut ahead).unwrap().is_some()));
            drop(ahead);
            is_dropped.recv().expect("the source is given up");
        }
    }
}
