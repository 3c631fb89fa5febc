//! Deep packet inspection.

use std::collections::BTreeMap;

use humpyard_core::frame::Frame;
use humpyard_services::{Context, DropReason, Generated, Service, Verdict, prepare};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, captures, count, each_frame, process, service, udp};

fn of_connection(connection: u64) -> Context {
    Context { connection, ..Context::default() }
}

fn verdict(service: &mut dyn Service, frame: &Frame, connection: u64) -> Verdict {
    process(service, &mut frame.clone(), &of_connection(connection)).0
}

/// A query of RFC 1035 for the address of `a.b`.
const QUESTION: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x01b\x00\x00\x01\x00\x01";

/// Returns the protocols found, each with its connections.
fn found(dpi: &dyn Service) -> BTreeMap<String, u64> {
    let named = |name: &str| name.strip_prefix("protocol_").map(ToOwned::to_owned);
    dpi.counters().iter().filter_map(|counter| Some((named(&counter.name)?, counter.count))).collect()
}

/// Captures with known protocols, from the label of their set or their name, and the number of connections of
/// each.
const KNOWN: &[(&str, &[(&str, u64)])] = &[
    ("bittorrent.pcap", &[("bittorrent", 24)]),
    ("bt-http.pcapng", &[("bittorrent", 1)]),
    ("BGP_redist.pcap", &[]),
    ("chrome.pcap", &[("tls", 6)]),
    ("coap_mqtt.pcap", &[("coap", 8), ("mqtt", 1)]),
    ("custom_categories.pcapng", &[("ssh", 2)]),
    ("dns_exfiltration.pcap", &[("dns", 1)]),
    ("dtls2.pcap", &[("dtls", 1)]),
    ("ftp.pcap", &[("ftp", 1)]),
    ("fuzz-2020-02-16-11740.pcap", &[("radius", 53)]),
    ("http_asymmetric.pcapng", &[("http", 2)]),
    ("http2.pcapng", &[("http2", 1)]),
    ("IEC104.pcap", &[("iec104", 2)]),
    ("imap.pcap", &[("imap", 1)]),
    ("irc.pcap", &[("irc", 1)]),
    ("log4j-webapp-exploit.pcap", &[("http", 3), ("ldap", 2)]),
    ("mqtt.pcap", &[("mqtt", 2)]),
    ("mysql.pcapng", &[("mysql", 2)]),
    ("NTPv2.pcap", &[("ntp", 1)]),
    ("NTPv3.pcap", &[("ntp", 1)]),
    ("NTPv4.pcap", &[("ntp", 1)]),
    ("pgsql.pcap", &[("postgresql", 6)]),
    ("quic-29.pcap", &[("quic", 1)]),
    ("quic-34.pcap", &[("quic", 1)]),
    ("safari.pcap", &[("tls", 7)]),
    ("sip.pcap", &[("rtp", 1), ("sip", 2)]),
    ("smbv1.pcap", &[("smb", 1)]),
    ("smb_deletefile.pcap", &[("smb", 1)]),
    ("smtp.pcap", &[("smtp", 1)]),
    ("ssdp-m-search.pcap", &[("ssdp", 1)]),
    ("ssh.pcap", &[("ssh", 2)]),
    ("stun_dtls_rtp_unidir.pcapng", &[("stun", 2)]),
    ("stun_classic.pcap", &[("rtp", 1)]),
    ("tk.pcap", &[("dns", 3)]),
    ("wa_voice.pcap", &[("dhcp", 1), ("dns", 4), ("mdns", 2), ("ssdp", 5), ("stun", 7), ("tls", 2)]),
    ("wireguard.pcap", &[("wireguard", 1)]),
    // Protocols without a signature, and captures with only the first packets of handshakes: nothing is found.
    ("bitcoin.pcap", &[]),
    ("cassandra.pcap", &[]),
    ("dnp3.pcap", &[]),
    ("ethernetIP.pcap", &[]),
    ("munin.pcap", &[]),
    ("openvpn.pcap", &[]),
    ("radius_false_positive.pcapng", &[]),
    ("s7comm.pcap", &[]),
    ("sflow.pcap", &[]),
    ("synscan.pcap", &[]),
    ("tls_false_positives.pcapng", &[]),
];

#[test]
fn real_captures_speak_what_they_are_known_for() {
    let Some(directory) = captures("real_captures_speak_what_they_are_known_for") else { return };
    for &(file, expected) in KNOWN {
        let mut dpi = service("dpi");
        each_frame(&directory.join("protocols").join(file), |frame, context| {
            assert_eq!(process(&mut *dpi, &mut frame.clone(), context).0, Verdict::Forward);
        });
        let expected = expected.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        assert_eq!(found(&*dpi), expected, "{file}");
        let sum: u64 = found(&*dpi).values().sum();
        assert_eq!(sum + count(&*dpi, "unknown") + count(&*dpi, "undecided"), count(&*dpi, "connections"), "{file}");
    }
}

/// The same bytes prove a protocol at one port, and nothing at others; a port alone proves nothing.
#[test]
fn ports_are_a_hint_and_never_enough() {
    let ntp = [&[0x23][..], &[0; 47]].concat();
    for (ports, payload, protocol) in [
        ((40_000, 123), &ntp[..], Some("ntp")),
        ((123, 40_000), &ntp, Some("ntp")),
        ((40_000, 124), &ntp, None),
        ((40_000, 123), b"no clock", None),
        ((40_000, 53), QUESTION, Some("dns")),
        ((40_000, 5300), QUESTION, Some("dns")),
        ((40_000, 53), b"no question at all", None),
        ((40_000, 5353), QUESTION, Some("dns")),
        ((40_000, 5353), b"\0\0\0\0\0\x01\0\0\0\0\0\0\x05_http", Some("mdns")),
    ] {
        let dpi = &mut *service("dpi");
        verdict(dpi, &udp(ports, payload), 1);
        let expected = protocol.map(|protocol| (protocol.to_owned(), 1)).into_iter().collect();
        assert_eq!(found(dpi), expected, "{ports:?} {payload:?}");
    }
}

/// RTP has two fixed bytes, so it needs six packets in a row.
#[test]
fn what_chance_could_make_must_be_seen_again_and_again() {
    let rtp = |number: u8| udp((5004, 5004), &[0x80, 0, 0, number, 0, 0, 0, number, 1, 2, 3, 4, 9, 9]);
    let dpi = &mut *service("dpi");
    (0..5).for_each(|number| assert_eq!(verdict(dpi, &rtp(number), 1), Verdict::Forward));
    assert_eq!((found(dpi).len(), count(dpi, "undecided")), (0, 1));
    verdict(dpi, &rtp(5), 1);
    assert_eq!(found(dpi), [("rtp".to_owned(), 1)].into());
    // With an interruption, it is not found.
    let dpi = &mut *service("dpi:packets=8");
    for number in 0..8 {
        verdict(dpi, &if number == 4 { udp((5004, 5004), b"something else") } else { rtp(number) }, 1);
    }
    assert_eq!((found(dpi).len(), count(dpi, "unknown")), (0, 1));
}

#[test]
fn connections_are_looked_into_until_it_is_known_and_no_further() {
    let dpi = &mut *service("dpi:packets=3,bytes=20");
    for _ in 0..10 {
        verdict(dpi, &udp((40_000, 53), QUESTION), 1);
        verdict(dpi, &udp((40_000, 4000), &[0xaa; 100]), 2);
        verdict(dpi, &udp((40_000, 4000), b""), 3);
    }
    assert_eq!((count(dpi, "connections"), count(dpi, "unknown"), count(dpi, "undecided")), (3, 1, 1));
    assert_eq!((count(dpi, "examined_packets"), count(dpi, "examined_bytes")), (4, 80));
}

#[test]
fn protocols_that_are_denied_are_dropped() {
    let dpi = &mut *service("dpi:deny=ntp; dns");
    assert_eq!(verdict(dpi, &udp((40_000, 53), b"what is this"), 1), Verdict::Forward);
    assert_eq!(verdict(dpi, &udp((40_000, 53), QUESTION), 1), Verdict::Drop(DropReason::ProtocolDenied));
    assert_eq!(verdict(dpi, &udp((53, 40_000), b""), 1), Verdict::Drop(DropReason::ProtocolDenied));
    assert_eq!(verdict(dpi, &udp((40_000, 4000), b"another"), 2), Verdict::Forward);
    let error = prepare(&"dpi:deny=dsn".parse().unwrap()).unwrap_err().to_string();
    assert!(
        error.starts_with("dpi: `deny`: no protocol `dsn`; did you mean `dns`? There are: bittorrent, http"),
        "{error}"
    );
}

#[test]
fn memory_is_bounded() {
    let dpi = &mut *service("dpi:connections=64");
    for connection in 0..10_000 {
        verdict(dpi, &udp((40_000, 4000), b"what is this"), humpyard_core::hash::mix(connection));
    }
    assert_eq!((count(dpi, "connections"), count(dpi, "undecided")), (10_000, 10_000));
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(frames in proptest::collection::vec(arbitrary_frame(), 1..20)) {
        let mut dpi = service("dpi");
        for frame in frames {
            let before = frame.clone();
            let mut frame = frame;
            let verdict = dpi.process(&mut frame, &Context::default(), &mut Generated::default());
            prop_assert_eq!((verdict, frame), (Verdict::Forward, before));
        }
    }
}
