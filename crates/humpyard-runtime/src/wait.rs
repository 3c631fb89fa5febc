//! Waiting for the other side of a ring: spin, then yield the processor, then sleep.

use core::hint;
use core::iter;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

/// The longest sleep of a dispatcher, reader or writer, and so the longest time until it notices a
/// stop from outside.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(20);
/// Frames that a ring between two of them holds, at most.
pub(crate) const RING: usize = 1024;

/// Lets one thread sleep and others wake it. A wake-up between the last check and the sleep is not
/// lost.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
}

impl Bell {
    /// Sleeps at most `longest`, unless `ready` reports work. Only one thread may call this.
    pub(crate) fn sleep(&self, longest: Duration, ready: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `ring`: either `ring` sees `asleep`, or `ready` sees what was put
        // into the ring.
        fence(Ordering::SeqCst);
        if !ready() {
            thread::park_timeout(longest);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the sleeper, if it sleeps. To be called after something was put into its ring.
    pub(crate) fn ring(&self, sleeper: &thread::Thread) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            sleeper.unpark();
        }
    }
}

/// As [`Bell`], for a sleeper that descriptors also wake: the interfaces by which packets come. It
/// has its own cache lines, because every worker reads it after every batch.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Doorbell {
    asleep: AtomicBool,
    event: EventFd,
}

impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { asleep: AtomicBool::new(false), event })
    }

    /// Sleeps at most `longest`, or until one of these descriptors is readable, unless `ready`
    /// reports work. Only one thread may call this.
    pub(crate) fn sleep(&self, longest: Duration, descriptors: &[BorrowedFd<'_>], ready: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `ring`: either `ring` sees `asleep`, or `ready` sees what was put
        // into the ring.
        fence(Ordering::SeqCst);
        if !ready() {
            let wakers = iter::once(self.event.as_fd()).chain(descriptors.iter().copied());
            let mut wakers: Vec<PollFd<'_>> = wakers.map(|waker| PollFd::new(waker, PollFlags::POLLIN)).collect();
            // An error is a wake-up too: the thread then checks for work again.
            let _ = ppoll(&mut wakers, Some(TimeSpec::from_duration(longest)), None);
        }
        self.asleep.store(false, Ordering::Relaxed);
        // If the event is empty, this is an error, which may be ignored.
        let _ = self.event.read();
    }

    /// Wakes the sleeper, if it sleeps. To be called after something was put into its ring.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            // If the event is full, this is an error, but the sleeper is woken anyway.
            let _ = self.event.write(1);
        }
    }
}

/// How long one thread has waited in vain.
#[derive(Debug)]
pub(crate) struct Patience {
    tries: u32,
    spins: u32,
}

/// The next action while there is no work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Look again.
    Look,
    /// Sleep: nothing has come for a long time.
    Sleep,
}

/// Checks of a thread without work before it yields a processor of its own: some tens of
/// microseconds.
pub const AWAKE_LOOKS: u32 = 2_000;
/// Times that it gives the processor away before it sleeps.
pub const AWAKE_YIELDS: u32 = 200;

impl Patience {
    /// On a processor shared with another thread of the run, spinning would only delay that thread.
    pub(crate) fn new(shared: bool) -> Self {
        Self { tries: 0, spins: if shared { 0 } else { AWAKE_LOOKS } }
    }

    /// Something came.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    /// Waits a moment because nothing came; the waits become longer over time.
    pub(crate) fn wait(&mut self) -> Next {
        self.tries = self.tries.saturating_add(1);
        if self.tries <= self.spins {
            hint::spin_loop();
            Next::Look
        } else if self.tries <= self.spins + AWAKE_YIELDS {
            thread::yield_now();
            Next::Look
        } else {
            Next::Sleep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_then_yields_then_sleeps() {
        let mut patience = Patience::new(false);
        for _ in 0..AWAKE_LOOKS + AWAKE_YIELDS {
            assert_eq!(patience.wait(), Next::Look);
        }
        assert_eq!(patience.wait(), Next::Sleep);
        patience.reset();
        assert_eq!(patience.wait(), Next::Look);
    }

    #[test]
    fn a_bell_rung_before_the_sleep_is_heard() {
        let bell = Bell::default();
        let started = std::time::Instant::now();
        bell.sleep(Duration::from_secs(60), || true);
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_doorbell_wakes_and_so_does_a_descriptor() {
        let bell = Doorbell::new().unwrap();
        let longest = Duration::from_secs(60);
        let started = std::time::Instant::now();
        bell.sleep(longest, &[], || true);
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"!").unwrap();
        bell.sleep(longest, &[reader.as_fd()], || false);
        let rung = AtomicBool::new(false);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while !rung.load(Ordering::Acquire) {
                    bell.sleep(longest, &[], || rung.load(Ordering::Acquire));
                }
            });
            thread::sleep(Duration::from_millis(20));
            rung.store(true, Ordering::Release);
            bell.ring();
            sleeper.join().unwrap();
        });
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_sleeper_is_woken() {
        let bell = Bell::default();
        let rung = AtomicBool::new(false);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while !rung.load(Ordering::Acquire) {
                    bell.sleep(Duration::from_secs(60), || rung.load(Ordering::Acquire));
                }
            });
            thread::sleep(Duration::from_millis(20));
            rung.store(true, Ordering::Release);
            bell.ring(sleeper.thread());
        });
        assert!(rung.load(Ordering::Acquire));
    }
}
