//! The measurements of several dispatchers, as one. Each dispatcher had its own flows, cores and
//! scheduler; all shared one clock.

use alloc::collections::BTreeMap;

use super::summary::{self, Delay, DelayOffered, Late, LostOutside};
use super::{
    Core, CoreSummary, Elements, Fairness, Histogram, Lost, Measurements, Moves, Order, Service, ServiceSummary,
    Summary, WarmUp,
};
use crate::mechanism::Account;
use crate::unit::Time;

/// When two clients of two dispatchers with the same id are the same client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SameClient {
    /// Always, because services or rules give the ids beforehand.
    Always,
    /// Never, because each dispatcher gives its own ids to flows and connections; each of these
    /// belongs to one dispatcher.
    Never,
}

impl Measurements {
    /// Sums up the measurements of all dispatchers after the run. Their accounts add up to
    /// `account`, with the packets lost outside. Cores follow each other in the order of the
    /// dispatchers.
    ///
    /// Some figures depend on other waiting packets, so they are taken within each dispatcher.
    /// Service errors are the extremes, displacements compare ranks within a dispatcher, and the
    /// longest queue of a service is that of one dispatcher.
    pub fn summary_of(dispatchers: &[&Self], account: &Account, same: SameClient, outside: LostOutside) -> Summary {
        let all = || dispatchers.iter().copied();
        let first_arrival = all().filter_map(|one| one.first_arrival).min();
        let last_departure = all().map(|one| one.last_departure).max().unwrap_or_default();
        let duration = first_arrival.map_or(Time::ZERO, |first| last_departure.since(first));
        let cores = || all().flat_map(|one| one.cores.iter());
        let served: u64 = cores().map(|core| core.packets).sum();
        let bytes = all().map(|one| one.bytes).sum();
        let warm_up_packets = all().map(|one| one.warm_up_packets).sum();
        let mut delay = Histogram::new();
        all().for_each(|one| one.add_delays(&mut delay));
        let mut lost = Lost { before: outside.before, behind: outside.behind, behind_in_time: outside.behind };
        all().for_each(|one| lost.add(one.lost));
        let late = all().map(Self::late).sum::<u64>() + lost.late();
        let order = Order::sum(all().map(|one| &one.order));
        let services = all().map(|one| one.services.len()).max().unwrap_or(0);
        let of_service = |at| all().filter_map(move |one: &Self| one.services.iter().nth(at));
        Summary {
            duration_ns: duration.as_ns(),
            bytes,
            throughput_pps: summary::per_second(account.processed, duration),
            throughput_bps: summary::per_second(bytes * 8, duration),
            delay_ns: Delay::of(&delay),
            delay_offered_ns: DelayOffered::of(&delay, lost.before, lost.behind),
            late: Late::of(late, lost.before + lost.behind, delay.count() + lost.before),
            warm_up: WarmUp {
                time_ns: all().map(|one| one.warm_up).max().unwrap_or_default().as_ns(),
                packets: warm_up_packets,
            },
            jitter_ns: order.jitter_ns(),
            order: order.summary(),
            cache: Moves::summary_of(all().filter_map(|one| one.moves.as_ref())),
            fairness: Fairness::summary_of(all().map(|one| &one.fairness), same),
            cores_detail: cores().map(|core| core_summary(core, duration)).collect(),
            elements: Elements::summary_of(all().filter_map(|one| one.elements.as_ref()), duration),
            services: (0..services).filter_map(|at| service_summary(of_service(at))).collect(),
            cold_fraction: summary::fraction(cores().map(|core| core.cold).sum(), served),
            switches: cores().map(|core| core.switches).sum(),
            preemptions: Some(all().map(|one| one.preemptions).sum()).filter(|&preemptions| preemptions > 0),
            delay_counts: delay.counts(),
        }
    }
}

fn core_summary(core: &Core, duration: Time) -> CoreSummary {
    CoreSummary {
        utilization: summary::fraction(core.busy.as_ns(), duration.as_ns()),
        packets: core.packets,
        switches: core.switches,
        cold: core.cold,
    }
}

/// One service at all dispatchers.
fn service_summary<'a>(dispatchers: impl Iterator<Item = &'a Service> + Clone) -> Option<ServiceSummary> {
    let all = || dispatchers.clone();
    let first = all().next()?;
    let mut delay = Histogram::new();
    all().for_each(|one| delay.add(&one.delay));
    let lost = all().map(|one| one.lost).sum();
    let late = all().map(|one| one.late).sum::<u64>() + lost;
    Some(ServiceSummary {
        name: first.name.clone(),
        packets: all().map(|one| one.packets).sum(),
        bytes: all().map(|one| one.bytes).sum(),
        delay_ns: Delay::of(&delay),
        tolerance_ns: first.tolerance.as_ns(),
        delay_offered_ns: DelayOffered::of(&delay, lost, 0),
        late: Late::of(late, lost, delay.count() + lost),
        queue_max: all().map(|one| one.waiting_max).max().unwrap_or(0),
        delay_counts: delay.counts(),
        counters: BTreeMap::new(),
    })
}
