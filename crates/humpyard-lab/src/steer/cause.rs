//! Why a processor is hot.

use std::collections::BTreeMap;

use super::diagnosis::{Diagnosis, ProcessorLoad};
use humpyard_traffic::steer_record::SteerRecord;

/// A processor is hot that spends this part of its time on packets.
const HOT: f64 = 0.5;
/// And has this many times the mean share of packets.
const UNEVEN: f64 = 1.25;
/// A part that makes a thing the cause.
const MOST: f64 = 0.5;
/// Protocols whose packets carry others: IP in IP, IPv6 in IP, GRE; and ports: VXLAN, GTP-U.
const TUNNELS: [u8; 3] = [4, 41, 47];
const TUNNEL_PORTS: [u16; 2] = [4789, 2152];

/// Says in a sentence why the busiest processor is as busy as it is.
pub(super) fn cause(diagnosis: &Diagnosis, record: &SteerRecord) -> String {
    let Some(hot) =
        diagnosis.processors.iter().max_by(|one, other| one.softirq_fraction.total_cmp(&other.softirq_fraction))
    else {
        return "The record names no processor.".to_owned();
    };
    let number = hot.processor;
    if diagnosis.napi_threads == Some(0) {
        return format!(
            "Threads of the kernel take the packets of {} (threaded NAPI), and are not visible here: time on packets \
             is not known. Run it outside the container, or turn threads off: echo 0 > /sys/class/net/{}/threaded.",
            diagnosis.interface, diagnosis.interface
        );
    }
    if hot.softirq_fraction < HOT {
        return format!(
            "No processor is hot: processor {number} has most to do, and spends {:.0} % of its time on packets.",
            100.0 * hot.softirq_fraction
        );
    }
    let begin = format!("Processor {number} spends {:.0} % of its time on packets. ", 100.0 * hot.softirq_fraction);
    begin + &reason(diagnosis, record, hot)
}

fn reason(diagnosis: &Diagnosis, record: &SteerRecord, hot: &ProcessorLoad) -> String {
    let number = hot.processor;
    let fair = 1.0 / diagnosis.processors.len().max(1) as f64;
    if hot.share < UNEVEN * fair {
        return if hot.share < fair / 2.0 {
            format!(
                "They come by other interfaces, or another processor hands them on: {} gives it {:.0} %.",
                diagnosis.interface,
                100.0 * hot.share
            )
        } else {
            "The others have as much: there are more packets than processors can take, however they are spread."
                .to_owned()
        };
    }
    let own = hot.share * diagnosis.packets as f64;
    if let Some(flow) = diagnosis.heavy_flows.first().filter(|flow| flow.packets as f64 >= MOST * own) {
        let part = (100.0 * flow.packets as f64 / own).min(100.0);
        let is_tunnel = TUNNELS.contains(&flow.protocol) || flow.protocol == 17 && TUNNEL_PORTS.contains(&flow.port);
        return match is_tunnel {
            true => format!(
                "One tunnel, {}, makes {part:.0} % of them: a hash of the packets inside divides it (--inner).",
                flow.flow
            ),
            false => format!(
                "One flow, {}, makes {part:.0} % of them: no hash divides it, but others can be kept away from it.",
                flow.flow
            ),
        };
    }
    if hot.share > 0.95 {
        return all_at_one(diagnosis);
    }
    let (buckets, few) = (buckets_of(record, number), diagnosis.buckets_used < 4 * diagnosis.processors.len());
    match few {
        true => format!(
            "There are few flows: {} buckets have packets, and chance puts {:.0} % of the packets there.",
            diagnosis.buckets_used,
            100.0 * hot.share
        ),
        false => format!(
            "The hash is unlucky: {buckets} of {} buckets are there, with {:.0} % of the packets ({:.0} % is even).",
            diagnosis.buckets_used,
            100.0 * hot.share,
            100.0 * fair
        ),
    }
}

/// Says why all packets arrive at one processor.
fn all_at_one(diagnosis: &Diagnosis) -> String {
    let Diagnosis { interface, queues, queue_loads, .. } = diagnosis;
    if *queues == 1 {
        return format!("{interface} has one receive queue, so all packets arrive there.");
    }
    match queue_loads[..] {
        // Records of before have no queues.
        [] => format!(
            "All packets of {interface} arrive there: the interrupts of its queues go to that processor \
             (/proc/interrupts, smp_affinity), or its hash knows one queue."
        ),
        [only] => format!(
            "All packets of {interface} come by receive queue {} of {queues}: its hash knows no other (`ethtool -x \
             {interface}`, `ethtool -n {interface} rx-flow-hash udp4`).",
            only.queue
        ),
        _ => format!(
            "The interrupts of all {queues} receive queues of {interface} go there (/proc/interrupts, smp_affinity)."
        ),
    }
}

/// The number of buckets that most came of at a processor.
fn buckets_of(record: &SteerRecord, processor: u32) -> usize {
    let mut packets: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for found in record.samples.iter().flat_map(|sample| &sample.buckets) {
        let (there, all) = packets.entry(found.bucket).or_default();
        *all += found.packets;
        *there += if found.processor == processor { found.packets } else { 0 };
    }
    packets.values().filter(|&&(there, all)| 2 * there >= all).count()
}

#[cfg(test)]
mod tests {
    use super::super::diagnosis::tests::{options, record};
    use super::super::{SteerRecord, diagnose};
    use core::sync::atomic::AtomicBool;
    use humpyard_traffic::steer_record::{HeavyFlow, QueueSample};

    fn cause(record: &SteerRecord) -> String {
        diagnose(record, options(&[], 1), &AtomicBool::new(false), &mut |_| {}).unwrap().cause
    }

    fn with_flow(mut record: SteerRecord, protocol: u8, port: u16, packets: u64) -> SteerRecord {
        let flow = HeavyFlow { flow: "a > b".to_owned(), protocol, port, packets, bytes: 0 };
        record.samples.iter_mut().for_each(|sample| sample.flows = vec![flow.clone()]);
        record
    }

    #[test]
    fn each_cause_has_its_sentence() {
        let even: Vec<_> = (0..400).map(|bucket| (bucket, bucket % 4, 1)).collect();
        let hot = [0.9, 0.1, 0.1, 0.1];
        let one: Vec<_> = (0..400).map(|bucket| (bucket, 0, 1)).collect();
        let unlucky: Vec<_> =
            (0..400).map(|bucket| (bucket, if bucket < 250 { 0 } else { 1 + bucket % 3 }, 1)).collect();
        let few = [(1, 0, 100), (2, 0, 100), (3, 1, 90)];
        let cases = [
            (record(&even, [0.2; 4]), "No processor is hot"),
            (record(&even, [0.9; 4]), "there are more packets than processors can take"),
            (record(&unlucky, hot), "The hash is unlucky: 250 of 400 buckets are there, with 62 % of the packets"),
            (record(&few, hot), "There are few flows: 3 buckets have packets"),
            (record(&one, hot), "All packets of eth0 arrive there"),
            (with_flow(record(&unlucky, hot), 6, 80, 200), "One flow, a > b, makes 80 % of them"),
            (with_flow(record(&unlucky, hot), 17, 4789, 200), "One tunnel, a > b, makes 80 % of them"),
            (with_flow(record(&unlucky, hot), 47, 0, 200), "One tunnel, a > b"),
        ];
        for (record, expected) in cases {
            let said = cause(&record);
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }

    #[test]
    fn queues_that_all_go_to_one_processor_are_told_from_one_queue() {
        let buckets: Vec<_> = (0..400).map(|bucket| (bucket, 0, 1)).collect();
        let with_queues = |queues: &[u32]| {
            let mut record = record(&buckets, [0.9, 0.1, 0.1, 0.1]);
            let queue = |&queue: &u32| QueueSample { queue, processor: 0, packets: 100, bytes: 0 };
            record.samples.iter_mut().for_each(|sample| sample.queues = queues.iter().map(queue).collect());
            cause(&record)
        };
        assert!(with_queues(&[3]).contains("come by receive queue 3 of 4: its hash knows no other"));
        assert!(with_queues(&[0, 1, 2]).contains("The interrupts of all 4 receive queues of eth0 go there"));
    }

    #[test]
    fn times_of_threads_that_are_not_visible_are_not_known() {
        let mut record = record(&(0..400).map(|bucket| (bucket, 2, 1)).collect::<Vec<_>>(), [0.1, 0.1, 0.9, 0.1]);
        for threads in [1, 0] {
            record.samples.iter_mut().for_each(|sample| sample.napi_threads = Some(threads));
            let is_unknown = threads == 0;
            assert_eq!(cause(&record).contains("threaded NAPI"), is_unknown, "{}", cause(&record));
            let diagnosis = diagnose(&record, options(&[], 1), &AtomicBool::new(false), &mut |_| {}).unwrap();
            assert_eq!((diagnosis.napi_threads, diagnosis.cost_measured), (Some(threads), !is_unknown));
        }
    }

    #[test]
    fn one_queue_is_named() {
        let mut record = record(&(0..400).map(|bucket| (bucket, 2, 1)).collect::<Vec<_>>(), [0.1, 0.1, 0.9, 0.1]);
        record.head.queues = 1;
        assert!(
            cause(&record).ends_with("eth0 has one receive queue, so all packets arrive there."),
            "{}",
            cause(&record)
        );
    }
}
