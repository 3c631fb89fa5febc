//! One turn of one contender: its curve over the load.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bed::Bed;
use crate::contender::{Contender, Work};
use crate::receiver::Receiver;

/// How long a contender may take until it forwards.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is sent to see whether it does, in seconds; also what it warms up with.
const PROBE: f64 = 0.2;
/// Frames under way come to the receiver in this time.
const SETTLE: Duration = Duration::from_millis(200);

/// What came at one rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    /// What was done.
    pub(crate) work: &'static str,
    /// Whose turn it was.
    pub(crate) contender: String,
    /// In which round, from 0.
    pub(crate) turn: usize,
    /// Frames a second that were to be sent; none is as many as can be.
    pub(crate) rate: Option<f64>,
    /// Frames a second that were sent.
    pub(crate) offered: f64,
    /// Frames a second that came to the receiver.
    pub(crate) delivered: f64,
    /// From the sender to the receiver, in ns. `None`: frames do not say any more when they were
    /// sent.
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) p999_ns: Option<u64>,
}

pub(crate) fn measure_curve(
    bed: &Bed,
    receiver: &mut Receiver,
    contender: &Contender,
    work: &Work,
    turn: usize,
    seconds: f64,
) -> Result<Vec<Measurement>, String> {
    let mut running = contender.start(bed)?;
    let since = Instant::now();
    loop {
        let before = bed.received();
        bed.send(work.frame_bytes, PROBE, Some(work.rates[0]))?;
        sleep(SETTLE);
        if bed.received() > before + 1_000 {
            break;
        }
        if let Some(said) = running.ended() {
            return Err(format!("{} has ended: {said}", contender.name));
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("{} does not forward", contender.name));
        }
    }
    let rates = work.rates.iter().copied().map(Some).chain([None]);
    rates
        .map(|rate| {
            let before = receiver.look()?;
            let sent = bed.send(work.frame_bytes, seconds, rate)?;
            sleep(SETTLE);
            let came = receiver.look()?.since(&before);
            Ok(Measurement {
                work: work.name,
                contender: contender.name.clone(),
                turn,
                rate,
                offered: sent.frames as f64 / sent.seconds,
                delivered: came.frames() as f64 / sent.seconds,
                p50_ns: came.quantile(0.5),
                p99_ns: came.quantile(0.99),
                p999_ns: came.quantile(0.999),
            })
        })
        .collect()
}
