//! A humpyard that routes: hosts of two networks, which have it for their gateway.

use humpyard_testkit::network::{Line, Namespace, turn};

use crate::bridge::transfer;
use crate::data_plane::{DataPlane, number};

/// The Ethernet address of an interface.
fn mac(host: &Namespace, interface: &str) -> String {
    let text = host.ip(&format!("-brief link show dev {interface}"));
    text.split_whitespace().nth(2).expect("an address is the third word").to_owned()
}

/// Has two hosts take humpyard for their gateway: of 10.1.0.2 and fd01::2 the left one, of 10.2.0.2 and fd02::2 the
/// right one. Returns the service that routes between them.
fn gateway(line: &Line) -> String {
    let router = "02:00:00:00:00:01";
    for (host, interface, one, other) in [(&line.left, "va", 1, 2), (&line.right, "vb", 2, 1)] {
        for words in [
            format!("addr add 10.{one}.0.2/24 dev {interface}"),
            format!("addr add fd0{one}::2/64 dev {interface} nodad"),
            format!("neigh add 10.{one}.0.1 lladdr {router} dev {interface}"),
            format!("neigh add fd0{one}::1 lladdr {router} dev {interface}"),
            format!("route add 10.{other}.0.0/24 via 10.{one}.0.1"),
            format!("route add fd0{other}::/64 via fd0{one}::1"),
        ] {
            host.ip(&words);
        }
    }
    let (left, right) = (mac(&line.left, "va"), mac(&line.right, "vb"));
    let routes = format!("10.1.0.0/24={left};fd01::/64={left};10.2.0.0/24={right};fd02::/64={right}");
    format!("forward:routes={routes},router-v4=10.1.0.1,router-v6=fd01::1")
}

#[test]
fn hosts_of_two_networks_reach_each_other_and_see_the_hop_between() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    let forward = gateway(&line);
    let plane = DataPlane::start(
        &line.middle,
        &format!("--input iface:ma --output iface:mb --both-ways --policy hrw --services {forward}"),
    );
    let ping = line.left.run("ping -c 2 -W 20 10.2.0.2");
    assert!(ping.status.success(), "{ping:?}");
    assert!(String::from_utf8_lossy(&ping.stdout).contains("ttl=63"), "{ping:?}");
    let trace = line.left.run("traceroute -n -q 1 -w 20 -m 4 10.2.0.2");
    let hops = String::from_utf8_lossy(&trace.stdout).into_owned();
    let hop =
        |number: usize| hops.lines().nth(number).and_then(|line| line.split_whitespace().nth(1)).map(str::to_owned);
    assert_eq!((hop(1).as_deref(), hop(2).as_deref()), (Some("10.1.0.1"), Some("10.2.0.2")), "{hops}");
    plane.end();
}

/// The link behind the router takes 1,400 bytes, and no host knows that.
#[test]
fn a_host_that_sends_too_long_packets_finds_the_path_mtu() {
    let Some(_turn) = turn() else { return };
    for mode in ["iface:%", "xdp:%", "xdp:%:mode=generic"] {
        let line = Line::make();
        line.middle.ip("link set dev mb mtu 1400");
        let forward = gateway(&line);
        let (input, output) = (mode.replace('%', "ma"), mode.replace('%', "mb"));
        let words = format!("--input {input} --output {output} --both-ways --policy hrw --services {forward}");
        let plane = DataPlane::start(&line.middle, &words);
        for (to, payload, lookup) in [("10.2.0.2", 1472, "route get 10.2.0.2"), ("fd02::2", 1452, "route get fd02::2")]
        {
            // It has 1,500 bytes and may not be fragmented: no answer comes but that of the router.
            let ping = |payload: u32| line.left.run(&format!("ping -M do -c 1 -W 2 -s {payload} {to}"));
            let (first, second) = (ping(payload), ping(payload));
            let text = |output: &std::process::Output| {
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
            };
            assert!(!first.status.success() && text(&first).contains("1400"), "{mode}: {first:?}");
            let is_refused = text(&second).to_lowercase().contains("message too long");
            assert!(is_refused, "the host itself refuses the second: {second:?}");
            assert!(line.left.ip(lookup).contains("mtu 1400"), "{}", line.left.ip(lookup));
            assert!(ping(payload - 100).status.success(), "{mode}: what fits arrives at {to}");
        }
        // The right host offers to take segments of 1,460 bytes.
        line.left.ip("route flush cache");
        transfer(&line.left, &line.right, "10.2.0.2", 10_000_000);
        let packets = plane.end()["packets"].clone();
        assert!(number(&packets["dropped_out"], "too_big") >= 2, "{mode}: {packets}");
    }
}
