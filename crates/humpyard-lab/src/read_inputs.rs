//! Inputs that several simulations read: each is read once, and the latest are kept in memory.

use core::sync::atomic::AtomicBool;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use humpyard_core::random::Seed;
use humpyard_traffic::source::Source;
use humpyard_traffic::{TrafficError, Tunnels};

use crate::config::RunConfig;
use crate::control::Control;
use crate::parts::setup;
use crate::recorded::Recorded;

/// Packets of an input that is kept, at most. Each takes about 100 bytes.
const PACKETS_MAX: u64 = 1 << 20;
/// How many inputs are kept. Some threads begin the next one while others are still at the one before.
const KEPT: usize = 2;

/// What the packets of a run depend on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct InputOf {
    inputs: Vec<String>,
    seed: Seed,
    rounds: u64,
    packets: Option<u64>,
    tunnels: Tunnels,
}

/// An input, once it is read. `None`: each simulation reads it.
type ReadOnce = Arc<OnceLock<Option<Recorded>>>;

/// The latest inputs that simulations have read. Threads share them.
#[derive(Debug, Default)]
pub(crate) struct ReadInputs {
    latest: Mutex<VecDeque<(InputOf, ReadOnce)>>,
}

impl ReadInputs {
    /// Opens the input of a run, as [`setup::source`] does: the same packets, with headers and without bytes.
    ///
    /// # Errors
    /// An input that cannot be opened.
    pub(crate) fn source(&self, config: &RunConfig, stop: &AtomicBool) -> Result<Box<dyn Source + Send>, TrafficError> {
        // Packets of a table are in memory.
        if config.table.is_some() {
            return setup::source(config);
        }
        match self.of(config).get_or_init(|| read(config, stop)) {
            Some(recorded) => Ok(Box::new(recorded.whole())),
            None => setup::source(config),
        }
    }

    fn of(&self, config: &RunConfig) -> ReadOnce {
        let wanted = InputOf {
            inputs: config.inputs(),
            seed: config.seed,
            rounds: config.rounds,
            packets: config.packets,
            tunnels: config.tunnels,
        };
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = latest.iter().find(|(input, _)| *input == wanted) {
            return Arc::clone(known);
        }
        latest.truncate(KEPT - 1);
        let new = ReadOnce::default();
        latest.push_front((wanted, Arc::clone(&new)));
        new
    }
}

/// Reads the input of a run. `None`: each simulation reads it. It is too long; or it numbers its flows, and making its
/// packets takes no longer than copying them; or it is damaged, and the simulation says where.
fn read(config: &RunConfig, stop: &AtomicBool) -> Option<Recorded> {
    let source = setup::source(config).ok()?;
    let is_short = source.packets_left().is_none_or(|left| left <= PACKETS_MAX);
    if !is_short || source.numbered_flows().is_some() {
        return None;
    }
    let mut progress = |_, _| {};
    let recorded = Recorded::read(config, PACKETS_MAX + 1, &mut Control::new(stop, &mut progress)).ok()?;
    (recorded.is_whole && recorded.damage.is_none()).then_some(recorded)
}

#[cfg(test)]
mod tests {
    use humpyard_core::frame::Frame;
    use humpyard_traffic::header::Headers;

    use super::*;
    use crate::choice::host::Host;

    fn config(input: &str, seed: u64) -> RunConfig {
        let config = RunConfig::new(Host::Sim, input, "hrw".parse().expect("a policy"));
        RunConfig { seed: Seed(seed), ..config }
    }

    fn packets(mut source: Box<dyn Source + Send>) -> Vec<(u64, u32, Headers)> {
        let (mut frame, mut headers, mut packets) = (Frame::default(), Headers::default(), Vec::new());
        while source.next_headers(&mut frame, Tunnels::NONE, &mut headers).expect("no damage") {
            packets.push((frame.time.as_ns(), frame.wire_length, headers));
        }
        packets
    }

    #[test]
    fn packets_are_the_same_and_read_once() {
        let (inputs, stop) = (ReadInputs::default(), AtomicBool::new(false));
        for (input, is_kept) in [("gen:messages:packets=500", true), ("gen:poisson:packets=500", false)] {
            for seed in [1, 2, 1, 3] {
                let config = config(input, seed);
                let source = inputs.source(&config, &stop).expect("a source");
                assert_eq!(source.description() == "packets in memory", is_kept, "{input}");
                assert_eq!(packets(source), packets(setup::source(&config).expect("a source")), "{input} {seed}");
            }
        }
        let known: Vec<u64> = inputs.latest.lock().unwrap().iter().map(|(input, _)| input.seed.0).collect();
        assert_eq!(known, [3, 2], "the latest that were read");
        let one = config("gen:messages:packets=500", 4);
        let [first, again] = [(); 2].map(|()| inputs.of(&one));
        assert!(Arc::ptr_eq(&first, &again));
        let others = [
            RunConfig { packets: Some(400), ..one.clone() },
            RunConfig { rounds: 2, ..one.clone() },
            RunConfig { tunnels: Tunnels { gre: true, ..Tunnels::NONE }, ..one.clone() },
        ];
        assert!(others.iter().all(|other| !Arc::ptr_eq(&first, &inputs.of(other))));
    }

    #[test]
    fn long_and_missing_inputs_are_left_to_simulations() {
        let (inputs, stop) = (ReadInputs::default(), AtomicBool::new(false));
        let long = config(&format!("gen:messages:packets={}", PACKETS_MAX + 1), 1);
        assert_ne!(inputs.source(&long, &stop).expect("a source").description(), "packets in memory");
        let missing = config("missing.pcap", 1);
        let said = |found: Result<Box<dyn Source + Send>, TrafficError>| found.err().map(|error| error.to_string());
        assert_eq!(said(inputs.source(&missing, &stop)), said(setup::source(&missing)));
    }
}
