//! A snapshot as OpenMetrics text, and as the older text of Prometheus.

use core::fmt;
use std::collections::HashMap;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::document::{Core, Delays, Dispatcher, KernelFigures, PacketsBy, Service, Snapshot};

/// The content type of [`open_metrics`].
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of [`plain`].
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A snapshot as OpenMetrics text.
pub(super) fn open_metrics(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix("humpyard");
    registry.register_collector(Box::new(Families(snapshot)));
    let mut text = String::new();
    // A string takes all that is written.
    let _ = text::encode(&mut text, &registry);
    text
}

/// OpenMetrics text as the text that Prometheus had before, which `promtool check metrics` and older scrapers read: there, a
/// counter is named with its suffix in all lines, there are no units, and what is known once is a gauge.
pub(super) fn plain(open_metrics: &str) -> String {
    let types = open_metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: HashMap<&str, &str> = types.collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let described = ["# HELP ", "# TYPE "].iter().find_map(|start| Some((start, line.strip_prefix(start)?)));
        if let Some((start, (name, said))) = described.and_then(|(start, rest)| Some((start, rest.split_once(' ')?))) {
            let (suffix, kind) = match types.get(name) {
                Some(&"counter") => ("_total", "counter"),
                Some(&"info") => ("_info", "gauge"),
                other => ("", other.copied().unwrap_or("untyped")),
            };
            let said = if *start == "# TYPE " { kind } else { said };
            text.push_str(&format!("{start}{name}{suffix} {said}\n"));
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// All metric families of a run.
#[derive(Debug)]
struct Families(Snapshot);

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Writer(encoder);
        run(&mut families, &self.0)?;
        if let Some(measured) = self.0.kernel {
            return kernel(&mut families, &self.0, measured);
        }
        packets(&mut families, &self.0)?;
        dispatchers(&mut families, &self.0.dispatchers)?;
        cores(&mut families, &self.0.cores)?;
        services(&mut families, &self.0.services)?;
        flows(&mut families, &self.0)?;
        ports(&mut families, &self.0)?;
        policy(&mut families, &self.0)
    }
}

fn run(to: &mut Writer<'_>, run: &Snapshot) -> fmt::Result {
    to.info("build", "The program, with its version.", &[("version", run.version.as_str())])?;
    let about = [("policy", run.policy.as_str()), ("input", run.input.as_str()), ("output", run.output.as_str())];
    to.info("run", "The policies in force, and the source and destination of packets.", &about)?;
    to.gauge("run_elapsed", "Time since the start, by the clock of the run.", SECONDS, one(seconds(run.elapsed_ns)))
}

/// What is measured of the kernel's packets, and nothing else.
fn kernel(to: &mut Writer<'_>, run: &Snapshot, measured: KernelFigures) -> fmt::Result {
    to.counter("packets_received", "Packets that came in.", None, one(run.packets.arrived))?;
    let dropped = run.packets.dropped.iter().map(|(reason, &count)| (label("reason", reason), count));
    to.counter("packets_dropped", "Packets that the kernel dropped, of all interfaces.", None, dropped)?;
    to.counter("processed", "Bytes of the packets that came in.", BYTES, one(run.bytes))?;
    if measured.order {
        let help = "Packets that came after a later packet of their bucket.";
        to.counter("packets_out_of_order", help, None, one(run.out_of_order))?;
    }
    let names: Vec<String> = (0..run.cores.len()).map(|core| core.to_string()).collect();
    let labelled = || names.iter().map(|name| label("core", name)).zip(&run.cores);
    let help = match measured.packets_by {
        PacketsBy::ReceivingProcessor => "Packets that a processor took from the interface.",
        PacketsBy::SteeredProcessor => "Packets of the buckets that the table gives a processor.",
        PacketsBy::Socket => "Packets of the buckets that the table gives a socket.",
    };
    to.counter("core_packets", help, None, labelled().map(|(label, core)| (label, core.packets)))?;
    if measured.packets_by != PacketsBy::Socket {
        let busy = labelled().map(|(label, core)| (label, seconds(core.busy_ns)));
        to.counter("core_busy", "Time that a processor spent in interrupts and in the kernel.", SECONDS, busy)?;
    }
    bucket_moves(to, run)
}

fn bucket_moves(to: &mut Writer<'_>, run: &Snapshot) -> fmt::Result {
    let Some(moves) = run.bucket_moves else { return Ok(()) };
    to.counter(
        "bucket_moves",
        "With `humpyard steer --apply`: moves of a bucket of connections to another processor, queue or socket.",
        None,
        one(moves),
    )
}

fn packets(to: &mut Writer<'_>, run: &Snapshot) -> fmt::Result {
    let packets = &run.packets;
    let help = "Packets that came in, including those that interfaces dropped.";
    to.counter("packets_received", help, None, one(packets.arrived))?;
    to.counter("packets_processed", "Packets whose service is complete.", None, one(packets.processed))?;
    to.gauge("packets_held", "Packets waiting or in service.", None, one(packets.held))?;
    let dropped = packets.dropped.iter().map(|(reason, &count)| (label("reason", reason), count));
    to.counter("packets_dropped", "Packets dropped before service.", None, dropped)?;
    to.counter("packets_forwarded", "Packets that went out.", None, one(packets.forwarded))?;
    to.counter("packets_generated", "Packets that services made, such as ICMP errors.", None, one(packets.generated))?;
    to.counter("packets_consumed", "Packets that ended at a service as intended.", None, one(packets.consumed))?;
    to.gauge(
        "packets_held_out",
        "Packets that wait to go out (--flow-order exit, --link).",
        None,
        one(packets.held_out),
    )?;
    let dropped = packets.dropped_out.iter().map(|(reason, &count)| (label("reason", reason), count));
    to.counter(
        "packets_dropped_out",
        "Packets dropped by services, at the link (--link) and at the output.",
        None,
        dropped,
    )?;
    to.counter("processed", "Bytes of the packets processed.", BYTES, one(run.bytes))?;
    to.histogram("delay", "Delay of packets, from coming in to leaving.", one(&run.delay))?;
    let help = "Packets later than their service tolerates, and packets lost.";
    to.counter("packets_late", help, None, one(run.late))?;
    to.counter("packets_lost", "Packets lost before they left, which have no delay.", None, one(run.lost))?;
    let help = "Packets that left after a later packet of their flow.";
    to.counter("packets_out_of_order", help, None, one(run.out_of_order))
}

fn dispatchers(to: &mut Writer<'_>, dispatchers: &[Dispatcher]) -> fmt::Result {
    let names: Vec<String> = (0..dispatchers.len()).map(|number| number.to_string()).collect();
    let busy = names.iter().zip(dispatchers).map(|(name, one)| (label("dispatcher", name), seconds(one.busy_ns)));
    let help = "Time in which a dispatcher worked rather than waited. Near a rate of 1, it is the bottleneck.";
    to.counter("dispatcher_busy", help, SECONDS, busy)
}

fn cores(to: &mut Writer<'_>, cores: &[Core]) -> fmt::Result {
    let names: Vec<String> = (0..cores.len()).map(|core| core.to_string()).collect();
    let labelled = || names.iter().map(|name| label("core", name)).zip(cores);
    let busy = labelled().map(|(label, core)| (label, seconds(core.busy_ns)));
    to.counter(
        "core_busy",
        "Time in which a core was busy with packets that are done. Its rate is the utilization.",
        SECONDS,
        busy,
    )?;
    let packets = labelled().map(|(label, core)| (label, core.packets));
    to.counter("core_packets", "Packets that a core served.", None, packets)?;
    let cold = labelled().map(|(label, core)| (label, core.cold));
    to.counter("core_cold_packets", "Packets whose predecessor on the core had another service.", None, cold)?;
    let switches = labelled().map(|(label, core)| (label, core.switches));
    to.counter("core_switches", "Switches of a core to another service.", None, switches)?;
    let in_flight = labelled().map(|(label, core)| (label, core.in_flight));
    to.gauge("core_in_flight_packets", "Packets that a core has got and not finished.", None, in_flight)?;
    let queues = labelled().filter_map(|(label, core)| Some((label, core.queue?)));
    to.gauge(
        "core_queue_packets",
        "Packets in the queue of a core, if the steering policy gives each core a queue.",
        None,
        queues,
    )
}

fn services(to: &mut Writer<'_>, services: &[Service]) -> fmt::Result {
    let labelled = || services.iter().map(|service| (label("service", &service.name), service));
    let packets = labelled().map(|(label, service)| (label, service.packets));
    to.counter("service_packets", "Packets that a service processed.", None, packets)?;
    let bytes = labelled().map(|(label, service)| (label, service.bytes));
    to.counter("service_processed", "Bytes of the packets that a service processed.", BYTES, bytes)?;
    let delay = labelled().map(|(label, service)| (label, &service.delay));
    to.histogram("service_delay", "Delay of packets at a service, from arrival there to completion.", delay)?;
    let late = labelled().map(|(label, service)| (label, service.late));
    let help = "Packets later than a service tolerates, and packets dropped before it was done with them.";
    to.counter("service_packets_late", help, None, late)?;
    let lost = labelled().map(|(label, service)| (label, service.lost));
    to.counter("service_packets_lost", "Packets dropped before a service was done with them.", None, lost)?;
    let tolerance = labelled().map(|(label, service)| (label, seconds(service.tolerance_ns)));
    to.gauge("service_tolerance", "The delay beyond which a packet is late.", SECONDS, tolerance)?;
    let queues = labelled().map(|(label, service)| (label, service.queue));
    to.gauge("service_queue_packets", "Packets that wait for a service.", None, queues)
}

fn flows(to: &mut Writer<'_>, run: &Snapshot) -> fmt::Result {
    to.gauge("flows", "Flows known now.", None, one(run.flows.known))?;
    to.counter("flows_seen", "Flows seen.", None, one(run.flows.seen))?;
    to.counter("flows_evicted", "Flows that ended because another needed their place.", None, one(run.flows.evicted))?;
    to.counter(
        "flows_expired",
        "Flows that ended because they were idle for --flow-timeout.",
        None,
        one(run.flows.expired),
    )
}

/// Where packets come and go by interfaces.
fn ports(to: &mut Writer<'_>, run: &Snapshot) -> fmt::Result {
    let received = || run.ports.received.iter().map(|port| (label("port", &port.port), port));
    if !run.ports.received.is_empty() {
        let frames = received().map(|(label, port)| (label, port.frames));
        to.counter("port_received_packets", "Packets that came by an interface.", None, frames)?;
        let missed = received().map(|(label, port)| (label, port.missed));
        to.counter("port_missed_packets", "Packets that found no room in the ring of an interface.", None, missed)?;
        let malformed = received().map(|(label, port)| (label, port.malformed));
        to.counter("port_malformed_packets", "Invalid packets of an interface.", None, malformed)?;
        let left = received().map(|(label, port)| (label, port.left));
        to.gauge("port_ring_packets", "Packets in the ring of an interface.", None, left)?;
    }
    if !run.ports.sent.is_empty() {
        let sent = run.ports.sent.iter().map(|port| (label("port", &port.port), port.frames));
        to.counter("port_sent_packets", "Packets that an interface accepted.", None, sent)?;
        let refused = run.ports.sent.iter().flat_map(|port| {
            let reasons = [("full", port.full), ("too_long", port.too_long), ("down", port.down), ("made", port.made)];
            reasons.map(|(reason, count)| (vec![("port", port.port.as_str()), ("reason", reason)], count))
        });
        let help =
            "Packets that an interface refused. The reason `made`: services made them, and a kernel queue takes none.";
        to.counter("port_refused_packets", help, None, refused)?;
    }
    Ok(())
}

fn policy(to: &mut Writer<'_>, run: &Snapshot) -> fmt::Result {
    to.histogram(
        "decision",
        "Time of a decision of the mechanism and its policies; a sample of one packet in 64.",
        one(&run.decision),
    )?;
    let help = "The longest that a packet was due before the dispatcher took it in.";
    to.gauge("overdue_max", help, SECONDS, one(seconds(run.overdue_max_ns)))?;
    to.counter("policy_swaps", "How often other policies took over.", None, one(run.swaps))?;
    let help = "The longest pause while a policy took over.";
    to.gauge("policy_swap_pause_max", help, SECONDS, one(seconds(run.swap_pause_max_ns)))
}

const SECONDS: Option<&Unit> = Some(&Unit::Seconds);
const BYTES: Option<&Unit> = Some(&Unit::Bytes);

/// Bounds of the buckets of times, in ns: 1, 2 and 5 of each decade from a microsecond to ten seconds.
const BOUNDS: [u64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

type Labels<'a> = Vec<(&'a str, &'a str)>;

fn label<'a>(name: &'a str, value: &'a str) -> Labels<'a> {
    vec![(name, value)]
}

/// The only metric of its family.
fn one<V>(value: V) -> [(Labels<'static>, V); 1] {
    [(Vec::new(), value)]
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes families, each with its metrics.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn counter<'l, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        metrics: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        each(&mut family, metrics, |metric, value| metric.encode_counter::<NoLabelSet, V, f64>(&value, None))
    }

    fn gauge<'l, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        metrics: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        each(&mut family, metrics, |metric, value| metric.encode_gauge(&value))
    }

    /// A histogram of times.
    fn histogram<'l, 'd>(
        &mut self,
        name: &str,
        help: &str,
        metrics: impl IntoIterator<Item = (Labels<'l>, &'d Delays)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, SECONDS, MetricType::Histogram)?;
        each(&mut family, metrics, |metric, delays| {
            let sum = seconds(delays.sum_ns);
            metric.encode_histogram::<NoLabelSet>(sum, delays.count(), &buckets(delays), None)
        })
    }

    fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> fmt::Result {
        let info = Info::new(labels.to_vec());
        let family = self.0.encode_descriptor(name, help, None, info.metric_type())?;
        info.encode(family)
    }
}

/// Writes each metric of a family.
fn each<'l, V>(
    family: &mut MetricEncoder<'_>,
    metrics: impl IntoIterator<Item = (Labels<'l>, V)>,
    mut write: impl FnMut(&mut MetricEncoder<'_>, V) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in metrics {
        if labels.is_empty() {
            write(family, value)?;
        } else {
            write(&mut family.encode_family(&labels)?, value)?;
        }
    }
    Ok(())
}

/// How many times there are up to each bound and beyond the one before. One that is less than 1 % below a bound may be counted
/// above it: a bucket of the measurement is counted as a whole, and always in the same.
fn buckets(delays: &Delays) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = BOUNDS.iter().map(|&bound| (seconds(bound), 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for &(bound, count) in &delays.counts {
        buckets[BOUNDS.partition_point(|&least| least < bound)].1 += count;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use humpyard_traffic::sink::Sent;
    use humpyard_traffic::source::Received;

    use super::*;

    fn run() -> Snapshot {
        let mut run = Snapshot { version: "1.2.3".into(), policy: "drr".into(), bytes: 300, ..Snapshot::default() };
        run.input = "a \"b\" \\ c".into();
        run.packets.arrived = 5;
        (run.late, run.lost) = (4, 3);
        run.dispatchers = vec![Dispatcher { busy_ns: 1_500_000_000, ..Dispatcher::default() }];
        run.packets.dropped.insert("queue_full".into(), 2);
        run.delay = Delays { sum_ns: 1_500_003_000, counts: vec![(1_000, 2), (1_001, 1), (1_500_000_000, 1)] };
        run.cores = vec![Core { busy_ns: 250_000_000, queue: Some(3), ..Core::default() }, Core::default()];
        run.services = vec![Service { name: "web".into(), packets: 4, ..Service::default() }];
        run.ports.received = vec![Received { port: "iface:a".into(), missed: 7, ..Received::default() }];
        run.ports.sent = vec![Sent { port: "iface:b".into(), full: 9, ..Sent::default() }];
        run
    }

    #[test]
    fn names_units_and_labels_are_those_of_the_field() {
        let text = open_metrics(run());
        for line in [
            "# TYPE humpyard_build info",
            "humpyard_build_info{version=\"1.2.3\"} 1",
            "# TYPE humpyard_packets_received counter",
            "humpyard_packets_received_total 5",
            "humpyard_packets_dropped_total{reason=\"queue_full\"} 2",
            "# UNIT humpyard_processed_bytes bytes",
            "humpyard_processed_bytes_total 300",
            "# TYPE humpyard_delay_seconds histogram",
            "humpyard_delay_seconds_sum 1.500003",
            "humpyard_delay_seconds_count 4",
            "humpyard_delay_seconds_bucket{le=\"0.000001\"} 2",
            "humpyard_delay_seconds_bucket{le=\"0.000002\"} 3",
            "humpyard_delay_seconds_bucket{le=\"1.0\"} 3",
            "humpyard_delay_seconds_bucket{le=\"2.0\"} 4",
            "humpyard_delay_seconds_bucket{le=\"+Inf\"} 4",
            "humpyard_packets_late_total 4",
            "humpyard_packets_lost_total 3",
            "humpyard_dispatcher_busy_seconds_total{dispatcher=\"0\"} 1.5",
            "humpyard_core_busy_seconds_total{core=\"0\"} 0.25",
            "humpyard_core_queue_packets{core=\"0\"} 3",
            "humpyard_service_packets_total{service=\"web\"} 4",
            "humpyard_port_missed_packets_total{port=\"iface:a\"} 7",
            "humpyard_port_refused_packets_total{port=\"iface:b\",reason=\"full\"} 9",
        ] {
            assert!(text.lines().any(|found| found == line), "`{line}` is not in\n{text}");
        }
        assert!(!text.contains("core_queue_packets{core=\"1\"}"), "a core without a queue has no length of it");
        assert!(text.contains(r#"input="a \"b\" \\ c""#), "{text}");
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[test]
    fn of_the_kernels_packets_only_what_is_measured_is_written() {
        let text = |packets_by, order| {
            let kernel = Some(KernelFigures { packets_by, order });
            open_metrics(Snapshot { kernel, bucket_moves: Some(7), ..run() })
        };
        let receiving = text(PacketsBy::ReceivingProcessor, false);
        for line in [
            "humpyard_packets_received_total 5",
            "humpyard_packets_dropped_total{reason=\"queue_full\"} 2",
            "# HELP humpyard_core_packets Packets that a processor took from the interface.",
            "humpyard_core_busy_seconds_total{core=\"0\"} 0.25",
            "humpyard_bucket_moves_total 7",
        ] {
            assert!(receiving.lines().any(|found| found == line), "`{line}` is not in\n{receiving}");
        }
        for name in ["delay", "decision", "late", "service", "flows", "in_flight", "forwarded", "out_of_order"] {
            assert!(!receiving.contains(&format!("_{name}")), "`{name}` is in\n{receiving}");
        }
        assert!(text(PacketsBy::SteeredProcessor, true).contains("humpyard_packets_out_of_order_total 0"));
        assert!(!text(PacketsBy::Socket, false).contains("core_busy"));
    }

    #[test]
    fn the_older_text_names_counters_in_all_lines() {
        let text = plain(&open_metrics(run()));
        for line in [
            "# HELP humpyard_packets_received_total Packets that came in, including those that interfaces dropped.",
            "# TYPE humpyard_packets_received_total counter",
            "humpyard_packets_received_total 5",
            "# TYPE humpyard_build_info gauge",
            "# TYPE humpyard_delay_seconds histogram",
            "# TYPE humpyard_packets_held gauge",
        ] {
            assert!(text.lines().any(|found| found == line), "`{line}` is not in\n{text}");
        }
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    }

    #[test]
    fn each_time_is_in_one_bucket() {
        let counts = (0..40).map(|power| (1 << power, 1)).collect();
        let buckets = buckets(&Delays { sum_ns: 0, counts });
        assert_eq!(buckets.iter().map(|&(_, count)| count).sum::<u64>(), 40);
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
