//! Our policies in a loop like the peer's.

use std::time::Duration;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Share;
use humpyard_core::unit::Weight;
use humpyard_policies::registry::ShareVisitor;
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::loops::Sharing;

use crate::bare::{Nothing, thread_time};
use crate::{WEIGHTS, Workload};

/// The least time of a measurement.
pub(crate) const LONG: Duration = Duration::from_millis(60);
/// The least time of a run that only tests the loop.
pub(crate) const SHORT: Duration = Duration::ZERO;

/// Returns the time of a packet under a policy, in ns of the thread's processor time. `None`: of
/// the loop alone.
pub(crate) fn time(policy: Option<&str>, workload: Workload, clients: usize, least: Duration) -> f64 {
    let order: Vec<ClientId> = (0..clients).map(ClientId::from_index).collect();
    let measurement = Measurement { order: &order, workload, least };
    let Some(policy) = policy else { return measurement.visit(Nothing::new(&order)) };
    let [low, high] = WEIGHTS.map(|weight| Weight::new(weight).expect("1 or more"));
    let weights: Vec<Weight> = (0..clients).map(|at| if at < clients / 2 { low } else { high }).collect();
    let packets = Sharing::<()>::packets_max(clients);
    let config = SchedulerConfig { clients, packets, weights, ..SchedulerConfig::default() };
    let spec: PolicySpec = policy.parse().expect("it is registered");
    spec.build_share(&config).expect("defaults fit").visit(measurement)
}

/// The measurement of a policy, called by its own type.
struct Measurement<'a> {
    order: &'a [ClientId],
    workload: Workload,
    least: Duration,
}

impl ShareVisitor for Measurement<'_> {
    type Answer = f64;

    fn visit<Q: Share>(self, policy: Q) -> f64 {
        let Self { order, workload, least } = self;
        let mut host = Sharing::new(policy, order.to_vec());
        if workload == Workload::Steady {
            (0..4 * order.len()).for_each(|_| host.arrive());
        }
        let mut served = Vec::with_capacity(order.len());
        // The first turns warm the caches.
        turns(&mut host, workload, order.len(), &mut served);
        let begun = thread_time();
        let mut packets = 0;
        loop {
            // Reading the clock takes as long as some packets.
            let more = order.len().max(4_096).next_multiple_of(order.len());
            (0..more / order.len()).for_each(|_| turns(&mut host, workload, order.len(), &mut served));
            packets += more;
            let time = thread_time() - begun;
            if time >= least {
                return time.as_nanos() as f64 / packets as f64;
            }
        }
    }
}

/// Plays one turn, with as many packets as clients.
fn turns<Q: Share>(host: &mut Sharing<Q>, workload: Workload, clients: usize, served: &mut Vec<ClientId>) {
    match workload {
        Workload::Waking => (0..clients).for_each(|_| {
            host.arrive();
            host.serve();
        }),
        Workload::Steady => {
            served.clear();
            served.extend((0..clients).map(|_| host.serve()));
            served.iter().for_each(|&client| host.arrive_for(client));
        }
    }
}
