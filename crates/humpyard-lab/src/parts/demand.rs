//! When the packets of a run arrive. A load is found by reading the input.

use core::slice;
use core::sync::atomic::Ordering;

use humpyard_core::frame::Frame;
use humpyard_core::id::Id;
use humpyard_traffic::header::Headers;
use humpyard_traffic::pace::{Pace, Pacer};
use humpyard_traffic::source::Source;

use crate::LabError;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::offered::{Demand, load_cores};
use crate::parts::ruled::Ruled;
use crate::parts::setup::{chains, classifier, costs, source};

/// Packets between two reports of progress.
const PROGRESS_EVERY: u64 = 1 << 16;

/// The pacer. `None`: packets come as fast as they are taken. A load is found by reading the input once, until `stop` is set.
pub fn pacer(config: &RunConfig, cores: usize, control: &mut Control<'_>) -> Result<Option<Pacer>, LabError> {
    let pace = pace_of(config, cores, || {
        if config.reads_once() {
            return Err(LabError::option(
                "@load reads the input twice, which pipes and interfaces do not allow: use a file",
            ));
        }
        Demand::read(config, source(config)?.as_mut(), control)
    })?;
    Ok(pace.map(|pace| pacer_of(config, pace)))
}

/// A pacer for the input: the clock of a generator does not jump.
pub(crate) fn pacer_of(config: &RunConfig, pace: Pace) -> Pacer {
    let pacer = Pacer::new(pace);
    if config.inputs().iter().all(|input| input.starts_with("gen:")) { pacer.with_long_gaps() } else { pacer }
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
        let costs = costs(config)?;
        let chains = chains(config, Ruled::new(config)?)?;
        let mut classifier = classifier(config)?;
        let mut pacer = pacer_of(config, Pace::Trace);
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        let (mut demand, mut packets) = (Self::default(), 0u64);
        // Damage ends this reading as it will end the run, which reports it.
        while let Ok(true) = source.next_headers(&mut frame, config.tunnels, &mut headers) {
            if packets.is_multiple_of(PROGRESS_EVERY) {
                (control.progress)(packets, source.progress());
            }
            packets += 1;
            let packet = classifier.classify_headers(&headers, frame.wire_length)?.packet;
            classifier.release(&packet);
            let chain = chains.get(packet.chain.index()).map_or(slice::from_ref(&packet.service), Vec::as_slice);
            let work = chain.iter().map(|service| u128::from(costs[service.index()].work(packet.length)));
            demand.work += work.sum::<u128>();
            demand.services += chain.len() as u64;
            demand.duration = pacer.arrival(frame.time);
            if control.stop.load(Ordering::Relaxed) {
                return Ok(Self::default());
            }
        }
        Ok(demand)
    }
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
