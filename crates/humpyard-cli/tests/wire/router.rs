//! A humpyard that routes: hosts of two networks, which have it for their gateway.

use humpyard_testkit::network::{Line, Namespace, turn};

use crate::data_plane::DataPlane;

/// The Ethernet address of an interface.
fn mac(host: &Namespace, interface: &str) -> String {
    let text = host.ip(&format!("-brief link show dev {interface}"));
    text.split_whitespace().nth(2).expect("an address is the third word").to_owned()
}

#[test]
fn hosts_of_two_networks_reach_each_other_and_see_the_hop_between() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    let router = "02:00:00:00:00:01";
    for (host, interface, network, gateway) in
        [(&line.left, "va", "10.1.0", "10.2.0.0/24"), (&line.right, "vb", "10.2.0", "10.1.0.0/24")]
    {
        host.ip(&format!("addr add {network}.2/24 dev {interface}"));
        host.ip(&format!("neigh add {network}.1 lladdr {router} dev {interface}"));
        host.ip(&format!("route add {gateway} via {network}.1"));
    }
    let (left, right) = (mac(&line.left, "va"), mac(&line.right, "vb"));
    let routes = format!("10.1.0.0/24={left};10.2.0.0/24={right}");
    let plane = DataPlane::start(
        &line.middle,
        &format!(
            "--input iface:ma --output iface:mb --both-ways --policy hrw --services forward:routes={routes},router-v4=10.1.0.1"
        ),
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
