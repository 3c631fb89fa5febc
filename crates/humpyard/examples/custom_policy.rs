//! A sharing policy of your own beside `drr`, in the simulator: it serves the client whose next packet is shortest.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::sync::atomic::AtomicBool;

use humpyard::config::SchedulerConfig;
use humpyard::id::{ClientId, CoreId, Id, IdVec};
use humpyard::lab::{Control, Host, Rate, RunConfig, compare};
use humpyard::packet::Packet;
use humpyard::policies::own::OwnPolicy;
use humpyard::policies::spec::PolicySpec;
use humpyard::policy::{Policy, Promise, Share};
use humpyard::unit::{Time, Weight, Work};

/// Serves the client whose next packet has the lowest estimate; of several the one with the lowest
/// id.
#[derive(Debug)]
struct Shortest {
    /// The estimate of each client's next packet. `None`: the packet may not be served.
    heads: IdVec<ClientId, Option<Work>>,
}

impl Shortest {
    fn new(config: &SchedulerConfig) -> Self {
        Self { heads: IdVec::from_fn(config.clients, |_| None) }
    }
}

impl Policy for Shortest {}

impl Share for Shortest {
    fn on_wake(&mut self, _: Time, client: ClientId, head: &Packet) {
        self.heads[client] = Some(head.estimate);
    }

    fn on_head(&mut self, _: Time, client: ClientId, head: &Packet) {
        self.heads[client] = Some(head.estimate);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        let offered = self.heads.iter().enumerate().filter_map(|(client, head)| Some(((*head)?, client)));
        offered.min().map(|(_, client)| ClientId::from_index(client))
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, client: ClientId, _: &Packet) {
        self.heads[client] = None;
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}
    fn on_client_end(&mut self, _: Time, _: ClientId) {}
    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

/// Compares the two on the same packets of twenty flows; returns the mean delay under each, in ns.
pub(crate) fn delays() -> Result<[f64; 2], Box<dyn Error>> {
    let shortest = OwnPolicy::share("shortest", |config| Ok(Shortest::new(config)))?;
    let shortest = PolicySpec::from(shortest.promising(&[Promise::WorkConserving]));
    let drr: PolicySpec = "drr".parse()?;
    let mut config = RunConfig::new(Host::Sim, "gen:imix:packets=20000,flows=20", drr.clone());
    config.cores = 1;
    config.rate = Rate::Load { load: 0.9, of: None };
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
    let mut control = Control::new(&stop, &mut progress);
    let compared = compare(&config, &[drr, shortest], 1, &mut control, |_, _| {})?;
    let [drr, shortest] = &compared.runs[..] else { return Err("two runs were asked for".into()) };
    assert_eq!((drr.policy.as_str(), shortest.policy.as_str()), ("drr", "shortest"));
    assert_eq!(drr.packets.processed, shortest.packets.processed, "both serve all packets");
    Ok([drr, shortest].map(|run| run.summary.delay_ns.mean))
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let [drr, shortest] = delays()?;
    assert!(shortest < drr, "who serves the shortest packet first has the least mean delay");
    println!("mean delay: {drr:.0} ns under drr, {shortest:.0} ns under shortest");
    Ok(())
}
