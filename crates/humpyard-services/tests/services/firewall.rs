//! The packet filter.

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::id::FlowId;
use humpyard_core::packet::Part;
use humpyard_services::{Context, Counter, DropReason, Generated, Service, Verdict, prepare};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, captures, each_frame, framed, process, service, udp, udp_v6};

fn verdict(service: &mut dyn Service, frame: &Frame, connection: u64) -> Verdict {
    process(service, &mut frame.clone(), &Context { connection, ..Context::default() }).0
}

const DENIED: Verdict = Verdict::Drop(DropReason::RuleDenied);

/// A worked example, from 198.51.100.7 to 203.0.113.9: the first rule that matches decides, whatever follows.
#[test]
fn the_first_rule_that_matches_decides() {
    let firewall = &mut *service(
        "firewall:rules=deny+udp+dport=53+from=198.51.100.0/24;allow+udp+dport=53;deny+udp+port=1000-2000;allow+from=2001:db8::/32,otherwise=deny",
    );
    let default = Verdict::Drop(DropReason::DefaultDenied);
    for (frame, expected) in [
        (udp((5000, 53), b""), DENIED),
        (udp((53, 5000), b""), default),
        (udp((5000, 1500), b""), DENIED),
        (udp((1000, 5000), b""), DENIED),
        (udp((2001, 5000), b""), default),
        (udp_v6((5000, 53), b""), Verdict::Forward),
        (udp_v6((5000, 1000), b""), DENIED),
        (udp_v6((5000, 99), b""), Verdict::Forward),
    ] {
        assert_eq!(verdict(firewall, &frame, 1), expected);
    }
    let expected = [
        ("rule_1 deny+udp+dport=53+from=198.51.100.0/24", 1),
        ("rule_2 allow+udp+dport=53", 1),
        ("rule_3 deny+udp+port=1000-2000", 3),
        ("rule_4 allow+from=2001:db8::/32", 1),
        ("otherwise", 2),
    ];
    assert_eq!(firewall.counters(), expected.map(|(name, count)| Counter::new(name, count)));
}

#[test]
fn directions_and_state() {
    let (out, reply) = (udp((5000, 53), b""), {
        let mut reply = udp((53, 5000), b"");
        let (source, destination) = (reply.data[26..30].to_vec(), reply.data[30..34].to_vec());
        reply.data[26..30].copy_from_slice(&destination);
        reply.data[30..34].copy_from_slice(&source);
        reply
    });
    for state in [false, true] {
        let spec = format!("firewall:rules=allow+out;deny+in,inside=198.51.100.0/24,state={state}");
        let factory = prepare(&spec.parse().unwrap()).unwrap();
        let (mut one, mut other) = (factory.make(), factory.make());
        assert_eq!(verdict(&mut *one, &reply, 7), DENIED);
        assert_eq!(verdict(&mut *one, &out, 7), Verdict::Forward);
        // The reply comes to another worker.
        assert_eq!(verdict(&mut *other, &reply, 7), if state { Verdict::Forward } else { DENIED });
        assert_eq!(verdict(&mut *other, &reply, 8), DENIED);
    }
}

/// A packet in parts of 64 bytes: its start decides it, and at its end it is forwarded or dropped as a whole.
#[test]
fn packets_in_parts() {
    for (ports, expected) in [((5000, 53), DENIED), ((5000, 99), Verdict::Forward)] {
        let firewall = &mut *service("firewall:rules=deny+dport=53");
        let plain = udp(ports, &[7; 300]);
        let parts: Vec<&[u8]> = plain.data.chunks(64).collect();
        for (number, bytes) in parts.iter().enumerate() {
            let last = number + 1 == parts.len();
            let part = if number == 0 {
                Part::First
            } else if last {
                Part::Last
            } else {
                Part::Middle
            };
            let context = Context { part, flow: FlowId(3), ..Context::default() };
            let mut frame = framed(LinkType::Ethernet, bytes);
            let (verdict, _) = process(firewall, &mut frame, &context);
            assert_eq!(verdict, if last { expected } else { Verdict::Consume });
            if verdict == Verdict::Forward {
                assert_eq!(frame, plain);
            }
        }
        // A part whose packet's start was not seen, or is too old.
        let context = Context { part: Part::Last, flow: FlowId(3), ..Context::default() };
        let (verdict, _) = process(firewall, &mut framed(LinkType::Ethernet, b"end"), &context);
        assert_eq!(verdict, Verdict::Drop(DropReason::StartMissing));
    }
}

/// Rules count their decisions, and every packet is decided; the expected counts are by hand.
#[test]
fn real_traffic_is_counted_by_rule() {
    let Some(directory) = captures("real_traffic_is_counted_by_rule") else { return };
    let mut firewall = service("firewall:rules=allow+tcp;deny+udp,otherwise=deny");
    let (mut all, mut not_ip, mut tcp, mut udp) = (0, 0, 0, 0);
    each_frame(&directory.join("industrial/right.pcap"), |frame, context| {
        all += 1;
        let is_v4 = |protocol| u64::from(frame.data[12..14] == [8, 0] && frame.data[23] == protocol);
        (tcp, udp) = (tcp + is_v4(6), udp + is_v4(17));
        let verdict = process(&mut *firewall, &mut frame.clone(), context).0;
        not_ip += u64::from(verdict == Verdict::Drop(DropReason::NotIp));
    });
    let counts: Vec<u64> = firewall.counters().iter().map(|counter| counter.count).collect();
    assert_eq!(counts.iter().sum::<u64>() + not_ip, all);
    // `forward` counts the same.
    assert_eq!((all, not_ip), (35_067, 12_171));
    assert_eq!(counts[..2], [tcp, udp]);
}

#[test]
fn rules_of_a_file_follow_those_of_the_command_line() {
    let file = std::env::temp_dir().join(format!("humpyard-firewall-{}", std::process::id()));
    std::fs::write(&file, "allow udp dport=53 # names\ndeny udp\n").unwrap();
    let firewall = &mut *service(&format!("firewall:rules=deny+sport=9,file={}", file.display()));
    for (ports, expected) in [((9, 53), DENIED), ((8, 53), Verdict::Forward), ((8, 54), DENIED)] {
        assert_eq!(verdict(firewall, &udp(ports, b""), 1), expected);
    }
    std::fs::remove_file(&file).unwrap();
    let error = prepare(&format!("firewall:file={}", file.display()).parse().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("firewall: `file`: cannot read `"), "{error}");
    let error = prepare(&"firewall:inside=10/8".parse().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("firewall: `inside`: `10/8` is no prefix"), "{error}");
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(frames in proptest::collection::vec((arbitrary_frame(), 0u8..4, 0u32..3), 1..20)) {
        let mut firewall = service("firewall:rules=deny+tcp+in+port=1-100;allow+udp+out+from=::/0+sport=7,state=true,connections=8");
        for (mut frame, part, flow) in frames {
            let part = [Part::Whole, Part::First, Part::Middle, Part::Last][usize::from(part)];
            let context = Context { part, flow: FlowId(flow), connection: u64::from(flow), ..Context::default() };
            let _ = firewall.process(&mut frame, &context, &mut Generated::default());
        }
    }
}
