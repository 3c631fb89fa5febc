//! Reads a source that may block, on a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use humpyard_core::frame::Frame;

use crate::error::TrafficError;
use crate::source::{Polled, Source};

/// Most frames read ahead.
const AHEAD: usize = 1024;

/// Reads a pipe ahead on a thread of its own, so that polling it never blocks. The thread ends with the pipe,
/// or at the first frame after the reader was dropped.
pub(crate) struct Background {
    description: String,
    frames: Receiver<Result<Frame, TrafficError>>,
    /// Used buffers, on their way back to the thread.
    spare: SyncSender<Frame>,
}

impl Background {
    /// Starts the thread.
    pub(crate) fn new(mut source: impl Source + Send + 'static) -> Self {
        let description = source.description().to_owned();
        let (read, frames) = sync_channel(AHEAD);
        let (spare, returned) = sync_channel::<Frame>(AHEAD);
        thread::spawn(move || {
            loop {
                let mut frame = returned.try_recv().unwrap_or_default();
                let last = match source.next(&mut frame) {
                    Ok(true) => read.send(Ok(frame)).is_err(),
                    Ok(false) => true,
                    Err(damage) => {
                        // An error here means that the reader was dropped, and needs no report.
                        let _ = read.send(Err(damage));
                        true
                    }
                };
                if last {
                    return;
                }
            }
        });
        Self { description, frames, spare }
    }

    fn take(&mut self, read: Result<Frame, TrafficError>, frame: &mut Frame) -> Result<(), TrafficError> {
        let before = core::mem::replace(frame, read?);
        // If there is no room for a used buffer, there are enough buffers.
        let _ = self.spare.try_send(before);
        Ok(())
    }
}

impl Source for Background {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        match self.frames.recv() {
            Ok(read) => self.take(read, frame).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        match self.frames.try_recv() {
            Ok(read) => self.take(read, frame).map(|()| Polled::Frame),
            Err(TryRecvError::Empty) => Ok(Polled::NotYet),
            Err(TryRecvError::Disconnected) => Ok(Polled::End),
        }
    }

    fn description(&self) -> &str {
        &self.description
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opening::open;
    use humpyard_core::random::Seed;

    #[test]
    fn gives_what_the_source_gives() {
        let specification = "gen:poisson:packets=5000";
        let mut direct = open(specification, Seed(1)).unwrap();
        let mut background = Background::new(open(specification, Seed(1)).unwrap());
        let (mut expected, mut found) = (Frame::default(), Frame::default());
        while direct.next(&mut expected).unwrap() {
            assert!(background.next(&mut found).unwrap());
            assert_eq!(found, expected);
        }
        assert!(!background.next(&mut found).unwrap());
        assert_eq!(background.poll(&mut found).unwrap(), Polled::End);
    }

    /// A source that blocks until it is released.
    struct Stalled(Receiver<()>);

    impl Source for Stalled {
        fn next(&mut self, _: &mut Frame) -> Result<bool, TrafficError> {
            let _ = self.0.recv();
            Ok(false)
        }
        fn description(&self) -> &str {
            "stalled"
        }
    }

    #[test]
    fn polling_does_not_wait() {
        let (let_go, stalled) = sync_channel(1);
        let mut background = Background::new(Stalled(stalled));
        assert_eq!(background.poll(&mut Frame::default()).unwrap(), Polled::NotYet);
        let_go.send(()).unwrap();
        assert!(!background.next(&mut Frame::default()).unwrap());
    }
}
