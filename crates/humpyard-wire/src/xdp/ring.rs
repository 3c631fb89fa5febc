//! The rings between this program and the kernel: one side puts entries in, the other takes them out.
//!
//! A ring has a power of two of entries and two counters that only grow and wrap at 2^32: how many entries were ever put in,
//! which its producer writes, and how many were ever taken out, which its consumer writes. Each side reads the other's counter
//! only when its copy says that it cannot go on, and writes its own after a number of entries: the line of memory that both
//! need moves between cores once for many packets.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;

use crate::system::Mapping;

/// Memory of which a ring is made.
///
/// # Safety
/// The bytes from the start on may be read and written through the pointer for as long as the value lives. Only the holder of
/// the value makes references into them.
pub(super) unsafe trait Memory {
    /// Where it begins.
    fn start(&self) -> NonNull<u8>;
    /// How long it is.
    fn bytes(&self) -> usize;
}

// SAFETY: a mapping is unmapped only when it is dropped, and the ring that holds it is all that uses it.
unsafe impl Memory for Mapping {
    fn start(&self) -> NonNull<u8> {
        Self::start(self)
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

/// What can be an entry: bytes that are a value whatever they are.
pub(super) trait Entry: Copy {}
/// A piece of the frames' memory, by its address.
impl Entry for u64 {}
/// A frame or a part of one: address, length and options.
impl Entry for libc::xdp_desc {}

/// Where things are in the memory of a ring, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
    /// How many entries there are: a power of two.
    pub(super) count: u32,
}

impl Layout {
    /// Returns how the kernel lays out a ring of `count` entries.
    pub(super) fn of(offsets: &libc::xdp_ring_offset, count: u32) -> Self {
        Self {
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            flags: offsets.flags as usize,
            entries: offsets.desc as usize,
            count,
        }
    }

    /// Bytes of a ring of such entries.
    pub(super) const fn bytes<E>(&self) -> usize {
        self.entries + self.count as usize * size_of::<E>()
    }
}

/// The shared part of a ring.
struct Shared<E, M> {
    memory: M,
    layout: Layout,
    entry: PhantomData<E>,
}

impl<E: Entry, M: Memory> Shared<E, M> {
    /// Takes the memory, if all that the layout speaks of is within it and aligned.
    fn new(memory: M, layout: Layout) -> io::Result<Self> {
        let counters = [layout.producer, layout.consumer, layout.flags];
        let start = memory.start().as_ptr() as usize;
        let fits = layout.count.is_power_of_two()
            && layout.bytes::<E>() <= memory.bytes()
            && (start + layout.entries).is_multiple_of(align_of::<E>())
            && counters.iter().all(|at| at + 4 <= memory.bytes() && (start + at).is_multiple_of(4));
        if !fits {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's ring is not as it says"));
        }
        Ok(Self { memory, layout, entry: PhantomData })
    }

    /// One of the three words.
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: within the memory and aligned, as `new` has seen; both sides access it as a whole word only.
        unsafe { self.memory.start().add(at).cast().as_ref() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.layout.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.layout.consumer)
    }

    /// The place of the entry with this running number.
    fn place(&self, number: u32) -> NonNull<E> {
        let at = self.layout.entries + (number & (self.layout.count - 1)) as usize * size_of::<E>();
        // SAFETY: the number is cut to one of `count` entries, all of which are within the memory, as `new` has seen.
        unsafe { self.memory.start().add(at).cast() }
    }

    /// Whether the kernel asks to be woken.
    fn needs_wakeup(&self) -> bool {
        self.word(self.layout.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The end of a ring at which entries are put in.
pub(super) struct Producer<E, M = Mapping> {
    shared: Shared<E, M>,
    /// Entries ever put in, with those that the consumer cannot see yet.
    put: u32,
    /// Entries ever put in that it can see.
    published: u32,
    /// Entries ever taken out, when last looked at.
    taken: u32,
}

impl<E: Entry, M: Memory> Producer<E, M> {
    pub(super) fn new(memory: M, layout: Layout) -> io::Result<Self> {
        let shared = Shared::new(memory, layout)?;
        let (put, taken) = (shared.producer().load(Ordering::Acquire), shared.consumer().load(Ordering::Acquire));
        Ok(Self { shared, put, published: put, taken })
    }

    /// Puts an entry in, which the consumer sees after [`Producer::publish`]; false if the ring is full.
    pub(super) fn put(&mut self, entry: E) -> bool {
        if self.put.wrapping_sub(self.taken) == self.shared.layout.count {
            self.look();
            if self.put.wrapping_sub(self.taken) == self.shared.layout.count {
                return false;
            }
        }
        // SAFETY: the consumer has taken out what was in this place, which the counter's order of memory makes sure of, and does
        // not look at it before `publish`.
        unsafe { self.shared.place(self.put).write(entry) };
        self.put = self.put.wrapping_add(1);
        true
    }

    /// Lets the consumer see what was put in.
    pub(super) fn publish(&mut self) {
        if self.published != self.put {
            // The entries before the counter.
            self.shared.producer().store(self.put, Ordering::Release);
            self.published = self.put;
        }
    }

    /// Looks how many entries were taken out; answers how many more than when this was last asked or found out.
    pub(super) fn look(&mut self) -> u32 {
        let taken = self.shared.consumer().load(Ordering::Acquire);
        let more = taken.wrapping_sub(self.taken);
        self.taken = taken;
        more
    }

    /// Entries that the consumer cannot see yet.
    pub(super) const fn unpublished(&self) -> u32 {
        self.put.wrapping_sub(self.published)
    }

    /// Entries that were not taken out when last looked.
    pub(super) const fn inside(&self) -> u32 {
        self.put.wrapping_sub(self.taken)
    }

    /// Whether there was room for this number of further entries at the last look.
    pub(super) const fn has_room(&self, entries: u32) -> bool {
        self.inside() + entries <= self.shared.layout.count
    }

    pub(super) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// The end of a ring at which entries are taken out.
pub(super) struct Consumer<E, M = Mapping> {
    shared: Shared<E, M>,
    /// Entries ever taken out.
    taken: u32,
    /// Those that the producer knows of.
    released: u32,
    /// Entries ever put in, when last looked at.
    put: u32,
}

impl<E: Entry, M: Memory> Consumer<E, M> {
    pub(super) fn new(memory: M, layout: Layout) -> io::Result<Self> {
        let shared = Shared::new(memory, layout)?;
        let (put, taken) = (shared.producer().load(Ordering::Acquire), shared.consumer().load(Ordering::Acquire));
        Ok(Self { shared, taken, released: taken, put })
    }

    /// Takes the next entry of those that are known; none if there is none among them.
    pub(super) fn take(&mut self) -> Option<E> {
        if self.put == self.taken {
            return None;
        }
        // SAFETY: the producer has written this entry before its counter, and does not touch it before `release`; any bytes are
        // an entry.
        let entry = unsafe { self.shared.place(self.taken).read() };
        self.taken = self.taken.wrapping_add(1);
        Some(entry)
    }

    /// Looks what was put in; false if all that is known was taken out.
    pub(super) fn look(&mut self) -> bool {
        self.put = self.shared.producer().load(Ordering::Acquire);
        self.put != self.taken
    }

    /// Entries that are in the ring.
    pub(super) fn waiting(&self) -> u32 {
        self.shared.producer().load(Ordering::Acquire).wrapping_sub(self.taken)
    }

    /// Lets the producer have the places of what was taken out.
    pub(super) fn release(&mut self) {
        if self.released != self.taken {
            // After the entries were read.
            self.shared.consumer().store(self.taken, Ordering::Release);
            self.released = self.taken;
        }
    }

    /// The entries that are in the ring.
    pub(super) fn inside(&self) -> impl Iterator<Item = E> + '_ {
        let put = self.shared.producer().load(Ordering::Acquire);
        (0..put.wrapping_sub(self.taken)).map(|step| {
            // SAFETY: as in `take`.
            unsafe { self.shared.place(self.taken.wrapping_add(step)).read() }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    /// Memory without a kernel, which both ends hold.
    #[derive(Clone)]
    struct Plain(Arc<Words>);

    struct Words {
        start: NonNull<u64>,
        count: usize,
    }

    // SAFETY: the words are reached through the pointer only, by the two ends of one ring.
    unsafe impl Send for Words {}
    // SAFETY: as above.
    unsafe impl Sync for Words {}

    impl Drop for Words {
        fn drop(&mut self) {
            let words = core::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.count);
            // SAFETY: this is the box that `ring` gave away.
            drop(unsafe { Box::from_raw(words) });
        }
    }

    // SAFETY: the words live as long as this value, and only the ends of the ring use them.
    unsafe impl Memory for Plain {
        fn start(&self) -> NonNull<u8> {
            self.0.start.cast()
        }

        fn bytes(&self) -> usize {
            self.0.count * 8
        }
    }

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192, count: 8 };

    /// Both ends of a ring of `count` entries whose counters begin at `begin`.
    fn ring(count: u32, begin: u32) -> (Producer<u64, Plain>, Consumer<u64, Plain>) {
        let layout = Layout { count, ..LAYOUT };
        let words = vec![0_u64; layout.bytes::<u64>() / 8].into_boxed_slice();
        let count = words.len();
        let start = NonNull::new(Box::into_raw(words).cast()).unwrap();
        let memory = Plain(Arc::new(Words { start, count }));
        let shared = Shared::<u64, _>::new(memory.clone(), layout).unwrap();
        shared.producer().store(begin, Ordering::Relaxed);
        shared.consumer().store(begin, Ordering::Relaxed);
        (Producer::new(memory.clone(), layout).unwrap(), Consumer::new(memory, layout).unwrap())
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put,
        Publish,
        Take,
        Look,
        Release,
    }

    proptest! {
        #[test]
        fn everything_comes_out_once_and_in_order(
            steps in prop::collection::vec(
                prop_oneof![
                    3 => Just(Step::Put), 1 => Just(Step::Publish), 3 => Just(Step::Take), 1 => Just(Step::Look),
                    1 => Just(Step::Release),
                ],
                0..if cfg!(miri) { 60 } else { 600 },
            ),
            bits in 0_u32..5,
            before_wrap in 0_u32..40,
        ) {
            let count = 1 << bits;
            let (mut producer, mut consumer) = ring(count, 0_u32.wrapping_sub(before_wrap));
            // Put in and not published; published; seen; taken and not released.
            let (mut hidden, mut visible, mut seen, mut held) = (0, VecDeque::new(), 0, 0_u32);
            let mut next = 0_u64;
            for step in steps {
                match step {
                    Step::Put => {
                        let room = visible.len() as u32 + held < count;
                        prop_assert_eq!(producer.put(next), room);
                        if room {
                            visible.push_back(next);
                            (hidden, next) = (hidden + 1, next + 1);
                        }
                    }
                    Step::Publish => {
                        prop_assert_eq!(producer.unpublished() as usize, hidden);
                        producer.publish();
                        hidden = 0;
                    }
                    Step::Look => {
                        seen = visible.len() - hidden;
                        prop_assert_eq!(consumer.look(), seen > 0);
                        prop_assert_eq!(consumer.inside().count(), seen);
                    }
                    Step::Take => {
                        let expected = if seen > 0 { visible.pop_front() } else { None };
                        prop_assert_eq!(consumer.take(), expected);
                        if expected.is_some() {
                            (seen, held) = (seen - 1, held + 1);
                        }
                    }
                    Step::Release => {
                        consumer.release();
                        held = 0;
                    }
                }
                producer.look();
                prop_assert_eq!(producer.inside(), visible.len() as u32 + held);
                prop_assert_eq!(producer.has_room(1), producer.inside() < count);
            }
        }
    }

    #[test]
    fn two_threads_see_the_same() {
        let entries = if cfg!(miri) { 100 } else { 200_000 };
        let (mut producer, mut consumer) = ring(16, u32::MAX - 20);
        let putting = std::thread::spawn(move || {
            for entry in 0..entries {
                while !producer.put(entry) {
                    producer.publish();
                    std::thread::yield_now();
                }
            }
            producer.publish();
        });
        let mut expected = 0;
        while expected < entries {
            while let Some(entry) = consumer.take() {
                assert_eq!(entry, expected);
                expected += 1;
            }
            consumer.release();
            if !consumer.look() {
                std::thread::yield_now();
            }
        }
        putting.join().unwrap();
        assert!(!consumer.look());
    }

    #[test]
    fn a_ring_that_does_not_fit_its_memory_is_refused() {
        let (producer, _) = ring(8, 0);
        let memory = producer.shared.memory;
        for layout in [
            Layout { count: 16, ..LAYOUT },
            Layout { count: 6, ..LAYOUT },
            Layout { producer: 2, ..LAYOUT },
            Layout { consumer: 1 << 20, ..LAYOUT },
            Layout { entries: 196, ..LAYOUT },
        ] {
            assert!(Producer::<u64, _>::new(memory.clone(), layout).is_err(), "{layout:?}");
            assert!(Consumer::<u64, _>::new(memory.clone(), layout).is_err(), "{layout:?}");
        }
    }
}
