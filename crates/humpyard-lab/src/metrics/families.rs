//! Every metric family that there is, from the text that Prometheus reads.

use humpyard_traffic::sink::Sent;
use humpyard_traffic::source::Received;

use super::document::{Core, Dispatcher, KernelFigures, PacketsBy, Service, Snapshot};
use super::open_metrics::{open_metrics, plain};

/// A metric family, as Prometheus names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// What it counts.
    pub help: String,
}

/// Returns every metric family of live runs and of `humpyard steer`, by name.
pub fn families() -> Vec<Family> {
    let run = with_all_families();
    let kernel = KernelFigures { packets_by: PacketsBy::ReceivingProcessor, order: true };
    let steered = Snapshot { kernel: Some(kernel), ..run.clone() };
    let mut families = described(&plain(&open_metrics(run)));
    for family in described(&plain(&open_metrics(steered))) {
        if families.iter().all(|known| known.name != family.name) {
            families.push(family);
        }
    }
    families.sort();
    families
}

/// Returns a snapshot in which each family has a metric.
fn with_all_families() -> Snapshot {
    let mut run = Snapshot { bucket_moves: Some(0), ..Snapshot::default() };
    run.packets.dropped.insert("any".into(), 0);
    run.packets.dropped_out.insert("any".into(), 0);
    run.dispatchers = vec![Dispatcher::default()];
    run.cores = vec![Core { queue: Some(0), ..Core::default() }];
    run.services = vec![Service::default()];
    run.ports.received = vec![Received::default()];
    run.ports.sent = vec![Sent::default()];
    run
}

/// Returns the families of a text of Prometheus.
fn described(text: &str) -> Vec<Family> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let of = |(name, kind): (&str, &str)| {
        let help = format!("# HELP {name} ");
        let help = text.lines().find_map(|line| line.strip_prefix(&help)).unwrap_or_default();
        Family { name: name.into(), kind: kind.into(), labels: labels(text, name), help: help.into() }
    };
    types.map(of).collect()
}

/// Finds the labels of the metrics of a family; `le` of a histogram is none of ours.
fn labels(text: &str, name: &str) -> Vec<String> {
    let starts = [format!("{name}{{"), format!("{name}_bucket{{")];
    let metric = text.lines().find_map(|line| starts.iter().find_map(|start| line.strip_prefix(start.as_str())));
    let labels = metric.and_then(|metric| metric.split_once('}')).map_or("", |(labels, _)| labels);
    let names = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
    names.filter(|&name| name != "le").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_labels() {
        let families = families();
        let find = |name: &str| families.iter().find(|family| family.name == name).expect(name);
        for (name, kind, labels) in [
            ("humpyard_flows", "gauge", &[][..]),
            ("humpyard_run_info", "gauge", &["policy", "input", "output"]),
            ("humpyard_port_refused_packets_total", "counter", &["port", "reason"]),
            ("humpyard_service_delay_seconds", "histogram", &["service"]),
            ("humpyard_bucket_moves_total", "counter", &[]),
        ] {
            let family = find(name);
            assert_eq!(
                (family.kind.as_str(), family.labels.as_slice()),
                (kind, &labels.iter().map(|&label| label.to_owned()).collect::<Vec<_>>()[..]),
                "{name}"
            );
            assert!(family.help.ends_with('.'), "{name}: {}", family.help);
        }
        assert!(families.iter().all(|family| !family.help.is_empty()));
    }
}
