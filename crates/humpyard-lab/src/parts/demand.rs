//! When the packets of a run arrive. A load is found by reading the input.

use core::slice;
use core::sync::atomic::Ordering;

use humpyard_core::cost::LinearCost;
use humpyard_core::frame::Frame;
use humpyard_core::id::{Id, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_traffic::classify::Classifier;
use humpyard_traffic::header::Headers;
use humpyard_traffic::pace::{Pace, Pacer};
use humpyard_traffic::source::Source;
use humpyard_traffic::{Numbered, NumberedFlows, TrafficError, Tunnels};

use crate::LabError;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::offered::{Demand, load_cores};
use crate::parts::ruled::Ruled;
use crate::parts::setup::{chains, classifier, costs, source};

/// Packets between two reports of progress.
const PROGRESS_EVERY: u64 = 1 << 16;
/// Packets that a generator is asked for at a time.
const BATCH: usize = 512;

/// The pacer. `None`: packets come as fast as they are taken. A load is found by reading the input once, until `stop` is set.
pub fn pacer(config: &RunConfig, cores: usize, control: &mut Control<'_>) -> Result<Option<Pacer>, LabError> {
    pacer_reading(config, cores, control, source)
}

/// As [`pacer`], where `open` opens the input of the run.
pub(crate) fn pacer_reading(
    config: &RunConfig,
    cores: usize,
    control: &mut Control<'_>,
    open: impl FnOnce(&RunConfig) -> Result<Box<dyn Source + Send>, TrafficError>,
) -> Result<Option<Pacer>, LabError> {
    let pace = pace_of(config, cores, || {
        if config.reads_once() {
            return Err(LabError::option(
                "@load reads the input twice, which pipes and interfaces do not allow: use a file",
            ));
        }
        Demand::read(config, open(config)?.as_mut(), control)
    })?;
    Ok(pace.map(|pace| pacer_of(config, pace)))
}

/// A pacer for the input: the clock of a generator does not jump, and a table is in order.
pub(crate) fn pacer_of(config: &RunConfig, pace: Pace) -> Pacer {
    let pacer = Pacer::new(pace);
    let is_steady = config.table.is_some() || config.inputs().iter().all(|input| input.starts_with("gen:"));
    if is_steady { pacer.with_long_gaps() } else { pacer }
}

/// Returns when packets arrive. `None`: as fast as they are taken. A policy that must know all packets has them at the start.
/// `demand` reads the input, for a load.
///
/// # Errors
/// An input that cannot be read, and a load where all packets come at once.
pub(crate) fn pace_of(
    config: &RunConfig,
    cores: usize,
    demand: impl FnOnce() -> Result<Demand, LabError>,
) -> Result<Option<Pace>, LabError> {
    if config.policy.is_offline() {
        return Ok(Some(Pace::Stretched(0.0)));
    }
    Ok(Some(match config.rate {
        Rate::Line => return Ok(None),
        Rate::Trace => Pace::Trace,
        Rate::Multiplied(multiplier) => Pace::Stretched(1.0 / multiplier),
        Rate::PacketsPerSecond(rate) => Pace::PacketsPerSecond(rate),
        Rate::Load { load, .. } => Pace::Stretched(demand()?.stretch(config, load_cores(config, cores), load)?),
    }))
}

impl Demand {
    /// Reads the packets of a source. If `stop` is set the demand does not matter: the run is over.
    pub(crate) fn read(
        config: &RunConfig,
        source: &mut dyn Source,
        control: &mut Control<'_>,
    ) -> Result<Self, LabError> {
        let mut reading = Reading::new(config)?;
        let is_read = match source.numbered_flows().filter(|_| config.tunnels == Tunnels::NONE) {
            Some(flows) => reading.read_numbered(source, &*flows, control)?,
            None => reading.read_frames(source, config.tunnels, control)?,
        };
        Ok(if is_read { reading.demand } else { Self::default() })
    }
}

/// What packets ask of cores, by the costs of services.
pub(crate) struct PacketWork {
    costs: IdVec<ServiceId, LinearCost>,
    chains: Vec<Vec<ServiceId>>,
}

impl PacketWork {
    /// Finds the costs and the chains of a run.
    ///
    /// # Errors
    /// Costs that are missing, and names that are not known.
    pub(crate) fn new(config: &RunConfig) -> Result<Self, LabError> {
        Ok(Self { costs: costs(config)?.into_iter().collect(), chains: chains(config, Ruled::new(config)?)? })
    }

    /// Returns the work of a packet in all services of its chain, in ns, and how many these are.
    pub(crate) fn of(&self, packet: &Packet) -> (u128, usize) {
        let chain = self.chains.get(packet.chain.index()).map_or(slice::from_ref(&packet.service), Vec::as_slice);
        (chain.iter().map(|&service| u128::from(self.costs[service].work(packet.length))).sum(), chain.len())
    }
}

/// The packets of a source, and what they ask for so far.
struct Reading {
    work: PacketWork,
    classifier: Classifier,
    /// Whether all packets have the same service, so that nobody need know which one they have.
    is_one_service: bool,
    pacer: Pacer,
    demand: Demand,
}

impl Reading {
    fn new(config: &RunConfig) -> Result<Self, LabError> {
        let work = PacketWork::new(config)?;
        Ok(Self {
            is_one_service: work.costs.len() == 1 && work.chains.is_empty(),
            work,
            classifier: classifier(config)?,
            pacer: pacer_of(config, Pace::Trace),
            demand: Demand::default(),
        })
    }

    /// Reads packets that have headers, until there are no more; whether it came to the end.
    fn read_frames(
        &mut self,
        source: &mut dyn Source,
        tunnels: Tunnels,
        control: &mut Control<'_>,
    ) -> Result<bool, LabError> {
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        let mut packets = 0;
        // Damage ends this reading as it will end the run, which reports it.
        while let Ok(true) = source.next_headers(&mut frame, tunnels, &mut headers) {
            if !goes_on(packets, source, control) {
                return Ok(false);
            }
            packets += 1;
            if self.is_one_service {
                self.add_of_one_service(frame.time, frame.wire_length);
                continue;
            }
            let packet = self.classifier.classify_headers(&headers, frame.wire_length)?.packet;
            self.add_classified(frame.time, &packet);
        }
        Ok(true)
    }

    /// Reads packets whose flows have numbers, until there are no more; whether it came to the end.
    fn read_numbered(
        &mut self,
        source: &mut dyn Source,
        flows: &dyn NumberedFlows,
        control: &mut Control<'_>,
    ) -> Result<bool, LabError> {
        let (mut batch, mut packets) = (Vec::with_capacity(BATCH), 0);
        let mut is_more = true;
        while is_more {
            if !goes_on(packets, source, control) {
                return Ok(false);
            }
            packets += BATCH as u64;
            batch.clear();
            is_more = source.next_numbered(&mut batch, BATCH).unwrap_or(false);
            batch.iter().try_for_each(|packet| self.add_numbered(packet, flows))?;
        }
        Ok(true)
    }

    fn add_numbered(&mut self, packet: &Numbered, flows: &dyn NumberedFlows) -> Result<(), LabError> {
        let &Numbered { time, flow, length } = packet;
        if self.is_one_service {
            self.add_of_one_service(time, length);
            return Ok(());
        }
        let packet = match self.classifier.classify_numbered(flow, length) {
            Some(packet) => packet,
            None => self.classifier.classify_new_number(flow, &flows.headers(flow), length)?.packet,
        };
        self.add_classified(time, &packet);
        Ok(())
    }

    fn add_of_one_service(&mut self, time: Time, length: u32) {
        self.add(time, u128::from(self.work.costs[ServiceId(0)].work(length)), 1);
    }

    fn add_classified(&mut self, time: Time, packet: &Packet) {
        self.classifier.release(packet);
        let (work, services) = self.work.of(packet);
        self.add(time, work, services);
    }

    fn add(&mut self, time: Time, work: u128, services: usize) {
        self.demand.work += work;
        self.demand.services += services as u64;
        self.demand.duration = self.pacer.arrival(time);
    }
}

/// Says how far the reading is, now and then, and asks whether to go on.
fn goes_on(packets: u64, source: &dyn Source, control: &mut Control<'_>) -> bool {
    if packets.is_multiple_of(PROGRESS_EVERY) {
        (control.progress)(packets, source.progress());
    }
    !control.stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use humpyard_core::unit::Time;

    use super::*;
    use crate::choice::host::Host;

    /// 100 packets of 60 ns within 1 us.
    const DEMAND: Demand = Demand { work: 6_000, services: 100, duration: Time::from_ns(1_000) };

    fn paced(rate: Rate, cores: usize) -> Option<Pace> {
        pace_of(
            &RunConfig { rate, ..RunConfig::new(Host::Sim, "gen:poisson", "drr".parse().expect("a policy")) },
            cores,
            || Ok(DEMAND),
        )
        .expect("a pace")
    }

    #[test]
    fn a_load_is_of_the_cores_that_are_named_else_of_the_run() {
        let load = |of| Rate::Load { load: 0.5, of };
        assert_eq!(paced(load(None), 4), Some(Pace::Stretched(3.0)));
        assert_eq!(paced(load(Some(4)), 4), paced(load(None), 4));
        assert_eq!(paced(load(Some(4)), 10), paced(load(None), 4));
        assert_eq!(paced(load(Some(8)), 4), Some(Pace::Stretched(1.5)));
        assert_eq!(paced(Rate::Multiplied(2.5), 4), Some(Pace::Stretched(0.4)));
        assert_eq!(paced(Rate::Line, 4), None);
    }
}
