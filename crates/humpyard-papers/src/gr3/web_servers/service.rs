//! The service of web servers' processes: how often, how evenly, and how far from their share.

use core::ops::Range;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::unit::Weight;

/// The state of one process.
#[derive(Clone, Copy, Debug)]
struct Process {
    weight: u32,
    service: u64,
    /// The slot of its last service, from 1.
    last: Option<u64>,
    gap_longest: u64,
    /// Errors, multiplied by the sum of the weights.
    error_min: i64,
    error_max: i64,
}

/// How evenly some processes were served: the worst values.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Evenness {
    /// The longest time between two services of the same process, in slots.
    pub(crate) gap_longest: u64,
    /// The greatest lag of a process behind its share, in slots.
    pub(crate) error_min: f64,
    /// The greatest lead of a process over its share, in slots.
    pub(crate) error_max: f64,
}

/// Measures a schedule, slot by slot, with errors between slots.
#[derive(Debug)]
pub(crate) struct Watch {
    processes: Vec<Process>,
    total_weight: i64,
    total_service: u64,
    slots: u64,
}

impl Watch {
    /// Returns a measurement of processes with these weights, before they are served.
    pub(crate) fn new(weights: &[Weight]) -> Self {
        let new = |weight| Process { weight, service: 0, last: None, gap_longest: 0, error_min: 0, error_max: 0 };
        let processes: Vec<Process> = weights.iter().map(|weight| new(weight.get())).collect();
        let total_weight = processes.iter().map(|process| i64::from(process.weight)).sum();
        Self { processes, total_weight, total_service: 0, slots: 0 }
    }

    /// Measures the next slot, which serves these processes. The error of all others falls. That of the served
    /// ones is least before the slot and greatest after it, so only these are updated.
    pub(crate) fn on_slot(&mut self, served: &[ClientId]) {
        self.slots += 1;
        for &client in served {
            self.look(client);
            let process = &mut self.processes[client.index()];
            process.service += 1;
            let gap = process.last.replace(self.slots).map_or(0, |last| self.slots - last);
            process.gap_longest = process.gap_longest.max(gap);
        }
        self.total_service += served.len() as u64;
        for &client in served {
            self.look(client);
        }
    }

    fn look(&mut self, client: ClientId) {
        let process = &mut self.processes[client.index()];
        let error = process.service as i64 * self.total_weight - self.total_service as i64 * i64::from(process.weight);
        process.error_min = process.error_min.min(error);
        process.error_max = process.error_max.max(error);
    }

    /// Returns how often this process was served.
    pub(crate) fn service(&self, client: ClientId) -> u64 {
        self.processes[client.index()].service
    }

    /// Returns how evenly these processes were served.
    pub(crate) fn evenness(&mut self, processes: Range<usize>) -> Evenness {
        processes.clone().map(ClientId::from_index).for_each(|client| self.look(client));
        let slots = |error: i64| error as f64 / self.total_weight as f64;
        let processes = || self.processes[processes.clone()].iter();
        Evenness {
            gap_longest: processes().map(|process| process.gap_longest).max().unwrap_or(0),
            error_min: slots(processes().map(|process| process.error_min).min().unwrap_or(0)),
            error_max: slots(processes().map(|process| process.error_max).max().unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(weights: &[u32], slots: &[&[u32]]) -> Watch {
        let weights: Vec<Weight> = weights.iter().map(|&weight| Weight::new(weight).unwrap()).collect();
        let mut watch = Watch::new(&weights);
        for slot in slots {
            watch.on_slot(&slot.iter().map(|&client| ClientId(client)).collect::<Vec<_>>());
        }
        watch
    }

    const fn evenness(gap_longest: u64, error_min: f64, error_max: f64) -> Evenness {
        Evenness { gap_longest, error_min, error_max }
    }

    #[test]
    fn gaps_and_errors_are_those_of_the_worst_process() {
        let mut watch = watched(&[2, 1, 1], &[&[0], &[0], &[1], &[2], &[1], &[0], &[2], &[0]]);
        assert_eq!(watch.evenness(0..1), evenness(4, -0.5, 1.0));
        assert_eq!(watch.evenness(1..2), evenness(2, -0.5, 0.75));
        assert_eq!(watch.evenness(0..3), evenness(4, -0.75, 1.0));
        assert_eq!(watch.service(ClientId(0)), 4);
        let mut watch = watched(&[1, 1, 2], &[&[1], &[1], &[0], &[0]]);
        assert_eq!(watch.evenness(0..2), evenness(1, -0.5, 1.5));
        assert_eq!(watch.evenness(2..3), evenness(0, -2.0, 0.0));
    }

    #[test]
    fn errors_are_looked_at_between_slots() {
        assert_eq!(watched(&[1, 1], &[&[0, 1], &[1, 0]]).evenness(0..2), evenness(1, 0.0, 0.0));
    }
}
