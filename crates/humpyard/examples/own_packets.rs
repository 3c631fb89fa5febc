//! Your own items under policies of humpyard: `gr3` shares a printer among the jobs of three
//! tenants, and `ps-hrw` spreads messages of three connections over eight cores. Your program keeps
//! the content of an item; humpyard names the item by its slot.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::{BTreeSet, HashMap};

use humpyard::config::SchedulerConfig;
use humpyard::id::{ClientId, CoreId, FlowId};
use humpyard::mechanism::Arrival;
use humpyard::packet::Packet;
use humpyard::policies::spec::PolicySpec;
use humpyard::policy::{BuildError, Topology};
use humpyard::unit::{Time, Weight};

/// Counts the jobs of each tenant among the first 54 of 120 that one printer (a core) does, at
/// weights 5, 3 and 1.
pub(crate) fn share() -> Result<String, BuildError> {
    let weights = [5, 3, 1].map(|weight| Weight::new(weight).expect("positive"));
    let config = SchedulerConfig::new(1).with_clients(weights.to_vec());
    let mut printer = "gr3".parse::<PolicySpec>()?.build(&config)?;
    let (mut jobs, mut done) = (HashMap::new(), [0u32; 3]);
    for number in 0..120 {
        let packet = Packet { client: ClientId(number as u32 % 3), length: 1000, ..Packet::default() };
        let Arrival::Queued(slot) = printer.on_arrival(Time::ZERO, &packet) else { panic!("there is room") };
        jobs.insert(slot, number);
    }
    for now in (1..=54).map(Time::from_ns) {
        let dispatch = printer.next(now, CoreId(0)).expect("jobs are waiting");
        done[jobs.remove(&dispatch.slot).expect("a job of ours") % 3] += 1; // Your work would stand here.
        printer.on_completion(now, dispatch.slot, Time::from_ns(1));
    }
    assert!((0..3).all(|i| done[i].abs_diff([30, 18, 6][i]) < 5), "not shared by weight");
    Ok(format!("gr3: {done:?} of 54 jobs"))
}

/// Which cores serve connections that hold 60, 30 and 10 of 100 bytes, on two sockets of two caches of two cores.
pub(crate) fn steer() -> Result<String, BuildError> {
    let topology = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)])?;
    let config = SchedulerConfig::new(8).with_flows(3).with_topology(topology);
    let mut server = "ps-hrw".parse::<PolicySpec>()?.build(&config)?;
    let message = |flow, length| Packet { flow: FlowId(flow), key: 3 + u64::from(flow), length, ..Packet::default() };
    let messages = [message(0, 600), message(1, 300), message(2, 100)];
    for number in 0..600 {
        server.on_arrival(Time::ZERO, &messages[number % 3]);
    }
    let mut cores = [const { BTreeSet::new() }; 3];
    for tick in 0..8000 {
        let (now, core) = (Time::from_ns(tick), CoreId(tick as u16 % 8));
        let Some(dispatch) = server.next(now, core) else { continue };
        server.on_completion(now, dispatch.slot, Time::from_ns(1));
        let connection = dispatch.packet.flow.0 as usize;
        server.on_arrival(now, &messages[connection]); // The connection sends its next.
        cores[connection].extend((tick >= 4000).then_some(core.0));
    }
    assert!((0..3).all(|i| (1..=[5, 3, 1][i]).contains(&cores[i].len())), "not as many cores as their parts");
    Ok(format!("ps-hrw: cores {cores:?}"))
}

pub(crate) fn main() -> Result<(), BuildError> {
    println!("{}\n{}", share()?, steer()?);
    Ok(())
}
