//! Files that outlive a power cut, at a cost that does not grow with how often they are written.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle, park_timeout};

/// The time between two calls of `fsync`, at least. What was written longer ago is on the disk.
const EVERY: Duration = Duration::from_secs(1);

/// Brings what is written to a file to its disk, on a thread of its own: at most once in [`EVERY`].
#[derive(Debug)]
pub(super) struct Lasting {
    /// Asks the thread for a call. `None`: it has ended.
    ask: Option<SyncSender<()>>,
    /// Whether the thread is to end, and so waits no longer between calls.
    ends: Arc<AtomicBool>,
    /// Returns how often it called.
    thread: Option<JoinHandle<io::Result<u32>>>,
}

impl Lasting {
    /// Starts the thread.
    ///
    /// # Errors
    /// A system that has no room for another thread or open file.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (ask, asked) = sync_channel(1);
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let thread = thread::Builder::new().name("fsync".to_owned()).spawn(move || {
            let mut calls = 0;
            while asked.recv().is_ok() {
                file.sync_data()?;
                calls += 1;
                if !is_over.load(Ordering::Acquire) {
                    park_timeout(EVERY);
                }
            }
            Ok(calls)
        })?;
        Ok(Self { ask: Some(ask), ends, thread: Some(thread) })
    }

    /// Asks for what has been written to be brought to the disk soon, and does not wait for that.
    ///
    /// # Errors
    /// What kept an earlier call from it.
    pub(super) fn written(&mut self) -> io::Result<()> {
        match self.ask.as_ref().map(|ask| ask.try_send(())) {
            Some(Ok(()) | Err(TrySendError::Full(()))) => Ok(()),
            Some(Err(TrySendError::Disconnected(()))) | None => self.end().map(drop),
        }
    }

    /// Waits until everything that was written is on the disk, and ends the thread. Returns how often it called.
    ///
    /// # Errors
    /// What keeps it from the disk.
    pub(super) fn end(&mut self) -> io::Result<u32> {
        self.ask = None;
        self.ends.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return Ok(0) };
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that calls fsync has panicked")))
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        // A sweep that is given up has reported another error already.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    #[test]
    fn many_writes_cost_few_calls() {
        let mut file = tempfile::tempfile().unwrap();
        let mut lasting = Lasting::of(&file).unwrap();
        let begin = Instant::now();
        for _ in 0..10_000 {
            file.write_all(b"a line\n").unwrap();
            lasting.written().unwrap();
        }
        let calls = lasting.end().unwrap();
        assert!(f64::from(calls) <= 2.0 + begin.elapsed().as_secs_f64(), "{calls} in {:?}", begin.elapsed());
        assert_eq!(lasting.end().unwrap(), 0, "it has ended");
    }

    #[test]
    fn the_end_does_not_wait_for_the_next_call() {
        let mut lasting = Lasting::of(&tempfile::tempfile().unwrap()).unwrap();
        lasting.written().unwrap();
        thread::sleep(EVERY / 10);
        // The thread waits, and is asked again.
        lasting.written().unwrap();
        let begin = Instant::now();
        assert_eq!(lasting.end().unwrap(), 2);
        assert!(begin.elapsed() < EVERY / 2, "{:?}", begin.elapsed());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_brought_to_the_disk_is_an_error() {
        let file = File::options().write(true).open("/dev/null").unwrap();
        let mut lasting = Lasting::of(&file).unwrap();
        lasting.written().unwrap();
        assert!(lasting.end().is_err(), "/dev/null has no fsync");
    }
}
