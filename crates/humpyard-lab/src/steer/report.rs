//! A diagnosis as a page, for those who were not there.

use humpyard_plot::page;
use humpyard_traffic::steer_record::{ProcessorSample, SteerRecord, SteerSample};
use maud::{Markup, html};

use super::diagnosis::Diagnosis;
use super::foresee::Foreseen;
use crate::figures::{counted, packet_rate, percent, time};
use crate::plot::{Axis, Bar, BarGroup, BarPlot, Line, LinePlot, Point};
use crate::report::drawing;

/// Points of a line: more of them cannot be told apart.
const POINTS: usize = 120;
/// Processors with a line of their own.
const LINES: usize = 8;

/// Returns the page, as HTML that is well-formed XML too: a file that fetches nothing and needs no script. `command`
/// is what makes it again.
pub fn report(diagnosis: &Diagnosis, record: &SteerRecord, command: &str) -> String {
    let Diagnosis { interface, seconds, packets, .. } = diagnosis;
    let contents = html! {
        section id="findings" {
            h2 { "Findings" }
            p { strong { (diagnosis.cause) } }
            p { (diagnosis.advice) }
            p {
                (counted(*packets, "packet")) " in " (format!("{seconds:.1}")) " s ("
                (packet_rate(*packets as f64 / seconds)) "), by "
                @if diagnosis.queues > 0 { (counted(diagnosis.queues as u64, "receive queue")) }
                @else { "receive queues of unknown number" }
                "; RPS " @if diagnosis.rps { "on" } @else { "off" } "."
            }
        }
        section id="processors" {
            h2 { "Processors" }
            (drawing(&busy(record).svg(), "busy"))
            (processors(diagnosis))
        }
        @if !diagnosis.heavy_flows.is_empty() {
            section id="flows" { h2 { "Heaviest flows" } (flows(diagnosis)) }
        }
        section id="policies" {
            h2 { "What policies would have done" }
            p { (basis(diagnosis)) }
            (drawing(&delays(&diagnosis.policies).svg(), "delays"))
            (policies(&diagnosis.policies))
        }
        section id="again" { h2 { "How to do it again" } pre { code { (command) } } }
    };
    page(&format!("{interface}: where its packets go"), &contents).into_string()
}

/// What the simulation is based on.
fn basis(diagnosis: &Diagnosis) -> String {
    let cost = time(diagnosis.cost_ns);
    let known = match (diagnosis.cost_measured, diagnosis.napi_threads) {
        (true, _) => "as the kernel measured",
        (false, Some(0)) => "which is assumed: the time of the threads that take packets is not known",
        (false, _) => "which is assumed: the kernel's time was too short to be measured",
    };
    format!(
        "By simulation of the same buckets of connections on as many processors. A packet costs {cost}, {known}. \
         Giving it to another processor costs {} more, and going back from receiving to serving {}. The margin is how \
         much shorter p99 is than now.",
        time(diagnosis.hand_over_ns),
        time(diagnosis.resume_ns)
    )
}

/// The part of its time that each processor had to do with packets.
fn busy(record: &SteerRecord) -> LinePlot {
    let mut numbers = record.processors();
    numbers.sort_by_key(|&number| core::cmp::Reverse(spent(&record.samples, number).0));
    numbers.truncate(LINES);
    numbers.sort_unstable();
    let together = record.samples.len().div_ceil(POINTS).max(1);
    let line = |&number: &u32| Line {
        name: format!("processor {number}"),
        points: record.samples.chunks(together).map(|samples| point(samples, number)).collect(),
    };
    LinePlot {
        title: "Time for packets".to_owned(),
        description:
            "For each processor the part of its time that it spent on packets (softirq), over the record. The \
                      table has the means."
                .to_owned(),
        x: Axis::linear("time, in s", |seconds| format!("{seconds:.0}")),
        y: Axis::linear("time on packets", percent).from_to(0.0, 1.0),
        lines: numbers.iter().map(line).collect(),
    }
}

fn point(samples: &[SteerSample], processor: u32) -> Point {
    let (softirq, all) = spent(samples, processor);
    let end = samples.last().map_or(0, |sample| sample.time_ns);
    Point::from((end as f64 / 1e9, softirq as f64 / all.max(1) as f64))
}

/// Time of a processor on packets, and all of its time, in ns.
fn spent(samples: &[SteerSample], processor: u32) -> (u64, u64) {
    let of = samples.iter().flat_map(|sample| &sample.processors).filter(|one| one.processor == processor);
    let all = |one: &ProcessorSample| one.softirq_ns + one.system_ns + one.user_ns + one.idle_ns;
    of.fold((0, 0), |(softirq, sum), one| (softirq + one.softirq_ns, sum + all(one)))
}

fn delays(policies: &[Foreseen]) -> BarPlot {
    let said: Vec<String> = policies.iter().map(|one| format!("{} {}", one.policy, time(one.p99_ns as f64))).collect();
    let bar = |one: &Foreseen| BarGroup {
        name: one.policy.clone(),
        bars: vec![Bar { name: String::new(), value: one.p99_ns as f64, error: None }],
    };
    BarPlot {
        title: "99 of 100 packets take less than this".to_owned(),
        description: format!("A bar for what there is now, and for each policy: {}.", said.join(", ")),
        value: Axis::linear("p99 of waiting and service", time),
        groups: policies.iter().map(bar).collect(),
    }
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for name in head { th { (name) } } } }
                tbody {
                    @for row in rows {
                        tr { @for (at, cell) in row.iter().enumerate() { @if at == 0 { th { (cell) } } @else { td { (cell) } } } }
                    }
                }
            }
        }
    }
}

fn processors(diagnosis: &Diagnosis) -> Markup {
    let row = |one: &super::ProcessorLoad| {
        let parts = [one.share, one.softirq_fraction, one.busy_fraction].map(percent);
        [vec![one.processor.to_string()], parts.to_vec(), vec![one.dropped.to_string()]].concat()
    };
    table(
        &["processor", "its packets", "time on packets", "busy", "dropped"],
        diagnosis.processors.iter().map(row).collect(),
    )
}

fn flows(diagnosis: &Diagnosis) -> Markup {
    let part = |packets: u64| percent((packets as f64 / diagnosis.packets.max(1) as f64).min(1.0));
    let rows = diagnosis.heavy_flows.iter().map(|flow| vec![flow.flow.clone(), part(flow.packets)]);
    table(&["flow", "packets"], rows.collect())
}

fn policies(policies: &[Foreseen]) -> Markup {
    let row = |one: &Foreseen| {
        vec![
            one.policy.clone(),
            format!("{:.2}", one.imbalance),
            time(one.p50_ns as f64),
            time(one.p99_ns as f64),
            percent(one.dropped_fraction),
            one.moves.to_string(),
            percent(one.reordered_fraction),
            percent(one.margin),
        ]
    };
    table(
        &["policy", "imbalance", "p50", "p99", "dropped", "moves", "reordered", "margin"],
        policies.iter().map(row).collect(),
    )
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::super::diagnose;
    use super::super::diagnosis::tests::{options, record};
    use super::*;

    #[test]
    fn the_page_has_the_cause_the_advice_and_each_policy() {
        let buckets: Vec<_> = (0..40).map(|bucket| (bucket, u32::from(bucket > 30), 100)).collect();
        let record = record(&buckets, [0.9, 0.2, 0.0, 0.0]);
        let policies = ["hrw", "rss++"].map(|policy| policy.parse().unwrap());
        let diagnosis = diagnose(&record, options(&policies, 1), &AtomicBool::new(false), &mut |_| {}).unwrap();
        let page = report(&diagnosis, &record, "humpyard steer --from eth0.jsonl");
        for text in [
            diagnosis.cause.as_str(),
            &diagnosis.advice,
            "<th>rss++</th>",
            "<th>rps</th>",
            "processor 3",
            "humpyard steer --from eth0.jsonl",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(page.matches("<svg").count(), 2);
    }
}
