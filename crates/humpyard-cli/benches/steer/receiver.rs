//! The receiver of frames: counts them, and those that come behind a later one of their flow.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use humpyard::frame::Frame;
use humpyard::traffic::{NullSink, Polled};

use crate::bed::Bed;
use crate::frames;

/// The time that a receiver sleeps that has nothing to do.
const REST: Duration = Duration::from_millis(1);

/// What was received so far.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) frames: AtomicU64,
    /// Frames that came behind a later one of their flow.
    pub(crate) late: AtomicU64,
    /// Frames that the receiver was too slow for.
    pub(crate) missed: AtomicU64,
}

/// Receives until `over`.
pub(crate) fn receive(bed: &Bed, received: &Received, over: &AtomicBool) -> Result<(), String> {
    bed.right().within(|| {
        bed.on_second();
        let failed = |error: &dyn std::fmt::Display| format!("the receiver: {error}");
        let input = ["iface:vb".to_owned()];
        let nothing = || humpyard::traffic::open("gen:poisson:packets=1", humpyard::random::Seed(1));
        let ports = humpyard::wire::open(&input, "null", false, nothing, |_| Ok(Box::new(NullSink::default())));
        let mut source = ports.map_err(|error| failed(&error))?.source;
        let (mut room, mut newest) = (vec![Frame::default(); 64], Vec::new());
        while !over.load(Ordering::Relaxed) {
            let (filled, found) = source.poll_burst(&mut room);
            count(&room[..filled], &mut newest, received);
            if found.map_err(|error| failed(&error))? != Polled::Frame {
                let missed = source.received().map_err(|error| failed(&error))?;
                received.missed.store(missed.iter().map(|port| port.missed).sum(), Ordering::Relaxed);
                sleep(REST);
            }
        }
        Ok(())
    })
}

/// Counts frames; `newest` has the greatest number of each flow.
fn count(frames: &[Frame], newest: &mut Vec<Option<u64>>, received: &Received) {
    for (flow, number) in frames.iter().filter_map(|frame| frames::read(&frame.data)) {
        let flow = flow as usize;
        if newest.len() <= flow {
            newest.resize(flow + 1, None);
        }
        let is_late = newest[flow].is_some_and(|newest| number < newest);
        newest[flow] = newest[flow].max(Some(number));
        received.frames.fetch_add(1, Ordering::Relaxed);
        received.late.fetch_add(u64::from(is_late), Ordering::Relaxed);
    }
}
