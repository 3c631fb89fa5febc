//! What is on the screen: the difference of two snapshots, in words.

use std::collections::BTreeMap;

use humpyard::lab::bottleneck::bottleneck_of;
use humpyard::lab::metrics::{Core, Delays, Dispatcher, KernelFigures, Packets, PacketsBy, Service, Snapshot};
use humpyard::runtime::Load;

use crate::figures::{bit_rate, packet_rate, percent, time};

/// A run over an interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// That a dispatcher is the bottleneck, if one is.
    pub(crate) bottleneck: Option<String>,
    /// Policies, input, output, and how long it runs.
    pub(crate) title: String,
    /// What came of the packets of the interval.
    pub(crate) packets: String,
    /// What the policy is doing.
    pub(crate) policy: String,
    /// What the cores are.
    pub(crate) cores_title: &'static str,
    pub(crate) cores: Vec<CoreLine>,
    pub(crate) services: Vec<ServiceLine>,
    /// Where the drops are.
    pub(crate) drops_title: &'static str,
    /// Drops by reason, and what interfaces missed and refused.
    pub(crate) drops: Vec<String>,
    /// By interface.
    pub(crate) ports: Vec<String>,
    /// Flows with most packets.
    pub(crate) flows: Vec<String>,
    /// Which flows these are.
    pub(crate) flows_title: String,
    /// Whether there are services.
    pub(crate) has_services: bool,
}

/// A core over an interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CoreLine {
    pub(crate) number: usize,
    /// Part of the time that it was busy, 0 to 1. `None`: not measured.
    pub(crate) busy: Option<f64>,
    pub(crate) said: String,
}

/// A service over an interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServiceLine {
    pub(crate) name: String,
    /// Packets per second.
    pub(crate) rate: f64,
    /// Bits per second.
    pub(crate) bits: f64,
    /// Delays in ns. `None`: no packet was done.
    pub(crate) p50: Option<u64>,
    pub(crate) p99: Option<u64>,
    /// Part of its packets that were late.
    pub(crate) late: f64,
    pub(crate) queue: u32,
}

/// A column of the table of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Name,
    Rate,
    Bits,
    P50,
    P99,
    Late,
    Queue,
}

impl Column {
    pub(crate) const ALL: [Self; 7] =
        [Self::Name, Self::Rate, Self::Bits, Self::P50, Self::P99, Self::Late, Self::Queue];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name => "service",
            Self::Rate => "packets",
            Self::Bits => "bits",
            Self::P50 => "delay p50",
            Self::P99 => "p99",
            Self::Late => "late",
            Self::Queue => "queue",
        }
    }

    /// Returns the column this many to the right, round the table.
    pub(crate) fn moved(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|&column| column == self).unwrap_or(0);
        Self::ALL[(at as isize + by).rem_euclid(Self::ALL.len() as isize) as usize]
    }
}

impl ServiceLine {
    /// What stands in a column.
    pub(crate) fn cell(&self, column: Column) -> String {
        let delay = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
        match column {
            Column::Name => self.name.clone(),
            Column::Rate => packet_rate(self.rate),
            Column::Bits => bit_rate(self.bits),
            Column::P50 => delay(self.p50),
            Column::P99 => delay(self.p99),
            Column::Late => percent(self.late),
            Column::Queue => self.queue.to_string(),
        }
    }
}

impl View {
    /// The run between two snapshots of it.
    pub(crate) fn between(earlier: &Snapshot, now: &Snapshot) -> Self {
        let view = Self::of_run(earlier, now);
        match now.kernel {
            Some(measured) => view.of_kernel(earlier, now, measured),
            None => view,
        }
    }

    /// Leaves only what is measured of the kernel's packets.
    fn of_kernel(self, earlier: &Snapshot, now: &Snapshot, measured: KernelFigures) -> Self {
        let interval = Interval::between(earlier, now);
        let behind = match measured.order {
            true => format!(", {} behind a later one of their bucket so far", now.out_of_order),
            false => String::new(),
        };
        let rate = packet_rate(interval.rate(earlier.packets.arrived, now.packets.arrived));
        let policy = match now.bucket_moves {
            Some(moves) => format!("{}: {moves} moves so far", now.policy),
            None => "nothing is steered".to_owned(),
        };
        let cores = lines(&earlier.cores, &now.cores, |number, before: &Core, core| {
            let rate = packet_rate(interval.rate(before.packets, core.packets));
            let busy = CoreLine::of(&interval, number, before, core).busy;
            CoreLine { number, busy: busy.filter(|_| measured.packets_by != PacketsBy::Socket), said: rate }
        });
        Self {
            title: format!("{}, for {}", now.input, clock(now.elapsed_ns)),
            packets: format!("in {rate}{behind}"),
            policy,
            cores_title: match measured.packets_by {
                PacketsBy::ReceivingProcessor => "processors, packets that each takes from the interface",
                PacketsBy::SteeredProcessor => "processors, packets that the table gives each",
                PacketsBy::Socket => "sockets, packets that the table gives each",
            },
            cores,
            drops_title: "drops of the kernel, of all interfaces",
            flows_title: "heaviest flows: part of the packets of the last second".to_owned(),
            has_services: false,
            ..self
        }
    }

    fn of_run(earlier: &Snapshot, now: &Snapshot) -> Self {
        let interval = Interval::between(earlier, now);
        let loads = lines(&earlier.dispatchers, &now.dispatchers, |_, before: &Dispatcher, now| {
            now.load().since(&before.load())
        });
        Self {
            bottleneck: bottleneck_of(&loads),
            title: format!("{}: {} to {}, for {}", now.policy, now.input, now.output, clock(now.elapsed_ns)),
            packets: packets(&interval, earlier, now),
            policy: policy(earlier, now, &loads),
            cores_title: "cores",
            cores: lines(&earlier.cores, &now.cores, |number, before, core| {
                CoreLine::of(&interval, number, before, core)
            }),
            services: lines(&earlier.services, &now.services, |_, before, service| {
                ServiceLine::of(&interval, before, service)
            }),
            drops_title: "drops",
            drops: drops(&interval, &earlier.packets, &now.packets),
            ports: ports(&interval, earlier, now),
            flows: now.top_flows.iter().map(|flow| format!("{:>7}  {}", percent(flow.fraction), flow.flow)).collect(),
            flows_title: format!("flows, {} known: part of the latest packets", now.flows.known),
            has_services: true,
        }
    }

    /// The services, by a column: names rise, figures fall.
    pub(crate) fn sort(&mut self, column: Column) {
        self.services.sort_by(|a, b| match column {
            Column::Name => a.name.cmp(&b.name),
            Column::Rate => b.rate.total_cmp(&a.rate),
            Column::Bits => b.bits.total_cmp(&a.bits),
            Column::P50 => b.p50.cmp(&a.p50),
            Column::P99 => b.p99.cmp(&a.p99),
            Column::Late => b.late.total_cmp(&a.late),
            Column::Queue => b.queue.cmp(&a.queue),
        });
    }
}

struct Interval {
    seconds: f64,
}

impl Interval {
    fn between(earlier: &Snapshot, now: &Snapshot) -> Self {
        Self { seconds: now.elapsed_ns.saturating_sub(earlier.elapsed_ns) as f64 / 1e9 }
    }

    /// The growth of a counter within the interval, per second.
    fn rate(&self, before: u64, now: u64) -> f64 {
        if self.seconds > 0.0 { now.saturating_sub(before) as f64 / self.seconds } else { 0.0 }
    }
}

/// A line for each of `now`, beside what it was.
fn lines<T: Default, L>(before: &[T], now: &[T], line: impl Fn(usize, &T, &T) -> L) -> Vec<L> {
    let none = T::default();
    now.iter().enumerate().map(|(at, now)| line(at, before.get(at).unwrap_or(&none), now)).collect()
}

/// Part of the packets in between.
fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl CoreLine {
    fn of(interval: &Interval, number: usize, before: &Core, core: &Core) -> Self {
        let packets = core.packets.saturating_sub(before.packets);
        let cold = fraction(core.cold.saturating_sub(before.cold), packets);
        let queue = core.queue.map(|queue| format!(", {queue} wait")).unwrap_or_default();
        let switches = core.switches.saturating_sub(before.switches);
        let switches = if switches > 0 { format!(", {switches} switches") } else { String::new() };
        let rate = packet_rate(interval.rate(before.packets, core.packets));
        Self {
            number,
            busy: Some((interval.rate(before.busy_ns, core.busy_ns) / 1e9).min(1.0)),
            said: format!("{rate}, {} in flight{queue}, {} cold{switches}", core.in_flight, percent(cold)),
        }
    }
}

impl ServiceLine {
    fn of(interval: &Interval, before: &Service, service: &Service) -> Self {
        let delay = service.delay.since(&before.delay);
        Self {
            name: service.name.clone(),
            rate: interval.rate(before.packets, service.packets),
            bits: 8.0 * interval.rate(before.bytes, service.bytes),
            p50: delay.quantile(0.5),
            p99: delay.quantile(0.99),
            late: late(&delay, (before.late, service.late), (before.lost, service.lost)),
            queue: service.queue,
        }
    }
}

fn packets(interval: &Interval, earlier: &Snapshot, now: &Snapshot) -> String {
    let (before, packets) = (&earlier.packets, &now.packets);
    let delay = now.delay.since(&earlier.delay);
    let late = late(&delay, (earlier.late, now.late), (earlier.lost, now.lost));
    format!(
        "in {}, out {}, {} held, {} late, {} out of order so far",
        packet_rate(interval.rate(before.arrived, packets.arrived)),
        packet_rate(interval.rate(before.forwarded, packets.forwarded)),
        packets.held + packets.held_out,
        percent(late),
        now.out_of_order,
    )
}

/// Part of the packets in between that were late, those lost among them; each count as it was and as it is.
fn late(delay: &Delays, late: (u64, u64), lost: (u64, u64)) -> f64 {
    let more = |(before, now): (u64, u64)| now.saturating_sub(before);
    // One that is lost in a port that it had left for is late, too, and has a delay.
    fraction(more(late), delay.count() + more(lost)).min(1.0)
}

/// How busy the dispatchers were.
fn busy(loads: &[Load]) -> String {
    let busy: Vec<String> = loads.iter().map(|load| percent(load.busy_fraction())).collect();
    match busy.as_slice() {
        [] => String::new(),
        [one] => format!("dispatcher {one} busy, "),
        several => format!("dispatchers {} busy, ", several.join(", ")),
    }
}

fn policy(earlier: &Snapshot, now: &Snapshot, loads: &[Load]) -> String {
    // Decisions are few where packets are: all so far say more than none.
    let recent = now.decision.since(&earlier.decision);
    let decision = if recent.count() > 0 { &recent } else { &now.decision };
    let in_flight: u32 = now.cores.iter().map(|core| core.in_flight).sum();
    let swaps = match now.swaps {
        0 => String::new(),
        swaps => format!(", {swaps} took over, pause {} at most", time(now.swap_pause_max_ns as f64)),
    };
    format!("{}: {}decisions {}, {in_flight} in flight{swaps}", now.policy, busy(loads), quantiles(decision))
}

fn quantiles(times: &Delays) -> String {
    match (times.quantile(0.5), times.quantile(0.99)) {
        (Some(p50), Some(p99)) => format!("p50 {}, p99 {}", time(p50 as f64), time(p99 as f64)),
        _ => "none yet".to_owned(),
    }
}

/// Every reason for which packets were dropped, those of the interval first.
fn drops(interval: &Interval, before: &Packets, now: &Packets) -> Vec<String> {
    let reasons = |before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>| {
        let of = |(reason, &count): (&String, &u64)| (reason.clone(), before.get(reason).copied().unwrap_or(0), count);
        now.iter().map(of).filter(|&(_, _, count)| count > 0).collect::<Vec<_>>()
    };
    let mut drops = reasons(&before.dropped, &now.dropped);
    drops.extend(reasons(&before.dropped_out, &now.dropped_out));
    drops.sort_by_key(|&(_, before, count)| core::cmp::Reverse((count - before.min(count), count)));
    let said = |(reason, before, count): (String, u64, u64)| {
        format!("{reason} {}, {count} so far", packet_rate(interval.rate(before, count)))
    };
    drops.into_iter().map(said).collect()
}

/// What came and went by each interface, and what did not.
fn ports(interval: &Interval, earlier: &Snapshot, now: &Snapshot) -> Vec<String> {
    let received = lines(&earlier.ports.received, &now.ports.received, |_, before, port| {
        let rate = packet_rate(interval.rate(before.frames, port.frames));
        format!("{} in {rate}, {} missed, {} in the ring", port.port, port.missed, port.left)
    });
    let sent = lines(&earlier.ports.sent, &now.ports.sent, |_, before, port| {
        let rate = packet_rate(interval.rate(before.frames, port.frames));
        format!("{} out {rate}, {} full, {} too long, {} down", port.port, port.full, port.too_long, port.down)
    });
    received.into_iter().chain(sent).collect()
}

/// Hours, minutes and seconds.
fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
pub(super) mod tests {
    use humpyard::lab::metrics::TopFlow;
    use humpyard::traffic::source::Received;

    use super::*;

    fn service(name: &str, packets: u64, delay: u64, queue: u32) -> Service {
        Service {
            name: name.into(),
            packets,
            bytes: packets * 100,
            delay: Delays { sum_ns: packets * delay, counts: vec![(delay, packets)] },
            tolerance_ns: 2_000_000,
            late: if delay > 2_000_000 { packets } else { 0 },
            lost: 0,
            queue,
        }
    }

    /// A run before anything happened, and two seconds later.
    pub(crate) fn two() -> (Snapshot, Snapshot) {
        let earlier = Snapshot {
            policy: "drr".into(),
            input: "iface:left".into(),
            output: "iface:right".into(),
            elapsed_ns: 3_661_000_000_000,
            cores: vec![Core::default(); 2],
            services: vec![service("web", 0, 5_000, 0), service("voice", 0, 3_000_000, 0)],
            ..Snapshot::default()
        };
        let mut now = Snapshot { elapsed_ns: 3_663_000_000_000, late: 9_000, out_of_order: 3, ..earlier.clone() };
        now.lost = 5_000;
        let load = |busy_ns| Dispatcher { elapsed_ns: 2_000_000_000, busy_ns, workers: 2, ..Dispatcher::default() };
        now.dispatchers = vec![load(1_000_000_000)];
        now.packets = Packets { arrived: 24_000, processed: 20_000, forwarded: 20_000, ..Packets::default() };
        now.packets.dropped = BTreeMap::from([("buffer_full".into(), 4_000), ("pushed_out".into(), 0)]);
        now.services = vec![service("web", 16_000, 5_000, 7), service("voice", 4_000, 3_000_000, 9)];
        now.delay = Delays { sum_ns: 1, counts: vec![(5_000, 16_000), (3_000_000, 4_000)] };
        now.decision = Delays { sum_ns: 1, counts: vec![(120, 99), (480, 1)] };
        let busy = |busy_ns, queue| Core { busy_ns, packets: 10_000, cold: 100, in_flight: 3, queue, switches: 0 };
        now.cores = vec![busy(500_000_000, Some(12)), busy(2_000_000_000, None)];
        now.flows.known = 256;
        now.top_flows = vec![TopFlow { flow: "udp 198.18.0.1:9 > 198.18.0.2:9".into(), fraction: 0.25 }];
        let port = Received { port: "iface:left".into(), frames: 24_000, missed: 5, left: 2, ..Received::default() };
        now.ports.received = vec![port];
        (earlier, now)
    }

    #[test]
    fn rates_are_those_of_the_interval() {
        let (earlier, now) = two();
        let view = View::between(&earlier, &now);
        assert_eq!(view.title, "drr: iface:left to iface:right, for 1:01:03");
        assert_eq!(view.cores.iter().map(|core| core.busy).collect::<Vec<_>>(), [Some(0.25), Some(1.0)]);
        let web = &view.services[0];
        assert_eq!((web.rate, web.bits, web.p50, web.late, web.queue), (8_000.0, 6_400_000.0, Some(5_000), 0.0, 7));
        assert_eq!(view.services[1].late, 1.0);
        // 4,000 of 20,000 that were done, and 5,000 lost.
        assert!(view.packets.contains("36.0 % late"), "{}", view.packets);
        assert!(view.policy.starts_with("drr: dispatcher 50.0 % busy, decisions"), "{}", view.policy);
        assert_eq!(view.bottleneck, None);
        let mut full = now.clone();
        full.dispatchers.iter_mut().for_each(|one| one.busy_ns = 2_000_000_000);
        full.dispatchers.extend(now.dispatchers.clone());
        let full = View::between(&earlier, &full);
        assert!(full.bottleneck.unwrap().starts_with("dispatcher 0 is the bottleneck: busy 100.0 %"));
        assert!(full.policy.starts_with("drr: dispatchers 100.0 %, 50.0 % busy, "), "{}", full.policy);
        let idle = View::between(&now, &now);
        assert_eq!((idle.services[0].rate, idle.services[0].p50, idle.services[0].late), (0.0, None, 0.0));
    }

    /// Steering measures neither delays nor services.
    #[test]
    fn of_the_kernels_packets_only_what_is_measured_is_shown() {
        let (earlier, mut now) = two();
        now.input = "rps:eth0".into();
        now.bucket_moves = Some(4);
        now.services = Vec::new();
        let mut of = |packets_by, order| {
            now.kernel = Some(KernelFigures { packets_by, order });
            View::between(&earlier, &now)
        };
        let view = of(PacketsBy::ReceivingProcessor, false);
        assert_eq!((view.title.as_str(), view.packets.as_str()), ("rps:eth0, for 1:01:03", "in 12.0 kpps"));
        assert_eq!((view.policy.as_str(), view.has_services), ("drr: 4 moves so far", false));
        assert_eq!((view.cores[0].busy, view.cores[0].said.as_str()), (Some(0.25), "5.00 kpps"));
        assert!(view.cores_title.ends_with("takes from the interface"));
        let steered = of(PacketsBy::SteeredProcessor, true);
        assert!(steered.packets.ends_with("3 behind a later one of their bucket so far"), "{}", steered.packets);
        assert!(of(PacketsBy::Socket, false).cores.iter().all(|core| core.busy.is_none()));
    }

    #[test]
    fn services_are_sorted_by_the_column_that_was_chosen() {
        let (earlier, now) = two();
        let mut view = View::between(&earlier, &now);
        for (column, first) in
            [(Column::Rate, "web"), (Column::P99, "voice"), (Column::Queue, "voice"), (Column::Name, "voice")]
        {
            view.sort(column);
            assert_eq!(view.services[0].name, first, "{column:?}");
        }
        assert_eq!((Column::Name.moved(-1), Column::Queue.moved(1)), (Column::Queue, Column::Name));
    }
}
