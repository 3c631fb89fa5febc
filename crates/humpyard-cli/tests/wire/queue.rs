//! A router whose firewall hands its packets to humpyard, by a queue of the kernel, and goes by the marks that come back.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use humpyard_testkit::network::{Line, Namespace, turn};

use crate::data_plane::{DataPlane, frames, number};
use crate::refusals::refusal;

/// What a server says, whatever it is called upon for.
const BODY: usize = 300_000;
/// Long enough for a machine that has other things to do, short enough to wait for what does not come.
const PATIENCE: Duration = Duration::from_secs(30);
const IMPATIENCE: Duration = Duration::from_secs(2);

/// The tool that makes a firewall hand packets over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tool {
    Nft,
    Iptables,
}

/// Two hosts, 10.1.0.2 and 10.2.0.2, and a router between them.
struct Network {
    line: Line,
    tool: Tool,
}

impl Network {
    /// None, and loudly said, where the machine's firewall hands nothing over.
    #[expect(clippy::print_stderr, reason = "says what was skipped")]
    fn make() -> Option<Self> {
        let line = Line::make();
        for (host, interface, middle, number, other) in
            [(&line.left, "va", "ma", 1, 2), (&line.right, "vb", "mb", 2, 1)]
        {
            host.silence();
            host.ip(&format!("addr add 10.{number}.0.2/24 dev {interface}"));
            line.middle.ip(&format!("addr add 10.{number}.0.1/24 dev {middle}"));
            host.ip(&format!("route add 10.{other}.0.0/24 via 10.{number}.0.1"));
        }
        good(&line.middle, "sysctl -qw net.ipv4.ip_forward=1");
        let refused = match Self::tool(&line.left) {
            Ok(tool) => return Some(Self { line, tool }),
            Err(refused) => refused,
        };
        assert!(std::env::var("HUMPYARD_REQUIRE_NETNS").as_deref() != Ok("1"), "no queue of the kernel: {refused}");
        eprintln!("SKIPPED: this machine's firewall hands no packets to a queue: {refused}");
        None
    }

    /// What hands packets over on this machine, tried in a namespace where that does nothing else; or why nothing does.
    fn tool(place: &Namespace) -> Result<Tool, String> {
        let mut refused = String::new();
        for (tool, words) in [
            (Tool::Nft, "nft add table inet try; add chain inet try c; add rule inet try c queue num 7"),
            (Tool::Iptables, "iptables -A INPUT -i none -j NFQUEUE --queue-num 7"),
        ] {
            let output = place.run(words);
            if output.status.success() {
                return Ok(tool);
            }
            refused += String::from_utf8_lossy(&output.stderr).trim().lines().next().unwrap_or("");
            refused += "; ";
        }
        Err(refused)
    }

    /// Hands what passes the router from this interface on to a queue.
    fn forward_to(&self, queue: u16, interface: &str, bypass: bool) {
        let (middle, bypass) = (&self.line.middle, if bypass { "bypass" } else { "" });
        match self.tool {
            Tool::Nft => {
                self.chain("gate", 0);
                good(middle, &format!("nft add rule inet gate c iifname {interface} queue num {queue} {bypass}"));
            }
            Tool::Iptables => {
                let bypass = if bypass.is_empty() { "" } else { "--queue-bypass" };
                good(middle, &format!("iptables -A FORWARD -i {interface} -j NFQUEUE --queue-num {queue} {bypass}"));
            }
        }
    }

    /// Hands what passes the router to queue 7, either way.
    fn forward_all(&self, bypass: bool) {
        self.forward_to(7, "ma", bypass);
        self.forward_to(7, "mb", bypass);
    }

    /// Lets connections pass whose mark was kept, before they come to the queue.
    fn pass_marked(&self) {
        let words = match self.tool {
            Tool::Nft => {
                self.chain("gate", 0);
                "nft add rule inet gate c ct mark != 0 accept"
            }
            Tool::Iptables => "iptables -A FORWARD -m connmark ! --mark 0 -j ACCEPT",
        };
        good(&self.line.middle, words);
    }

    fn chain(&self, table: &str, priority: i32) {
        good(&self.line.middle, &format!("nft add table inet {table}"));
        let chain = format!("nft add chain inet {table} c {{ type filter hook forward priority {priority}; }}");
        good(&self.line.middle, &chain);
    }

    /// Counts packets behind the queue, by each of these conditions.
    fn count(&self, conditions: &[&str]) {
        self.chain("after", 10);
        for condition in conditions {
            good(&self.line.middle, &format!("nft add rule inet after c {condition} counter"));
        }
    }

    /// What was counted, in the order of the conditions.
    fn counted(&self) -> Vec<u64> {
        let listed = good(&self.line.middle, "nft list table inet after");
        let counts = listed.lines().filter_map(|line| line.split_once("counter packets ")).map(|(_, rest)| rest);
        counts.map(|rest| rest.split(' ').next().expect("a word").parse().expect("a number")).collect()
    }

    /// Begins a run that takes queue 7, with these words beside.
    fn plane(&self, port: &str, words: &str) -> DataPlane {
        DataPlane::start(&self.line.middle, &format!("--input {port} {words}"))
    }

    /// Lets the right host answer one call at this port: it hears `asked`, says `said` and then the body.
    fn serve(&self, port: u16, asked: &'static [u8], said: &'static [u8]) -> thread::JoinHandle<()> {
        let listener = self.line.right.within(|| TcpListener::bind(("10.2.0.2", port)).expect("the port is free"));
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody calls");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time");
            let mut heard = vec![0; asked.len()];
            // Where packets are dropped nothing is heard.
            if stream.read_exact(&mut heard).is_err() {
                return;
            }
            assert_eq!(heard, asked);
            stream.write_all(said).expect("the connection lasts");
            stream.write_all(&body()).expect("the connection lasts");
            stream.shutdown(Shutdown::Write).expect("the connection lasts");
        })
    }

    /// Calls the right host from the left one; what it answers within that time.
    fn call(&self, port: u16, ask: &[u8], patience: Duration) -> std::io::Result<Vec<u8>> {
        let mut stream = self.line.left.within(|| TcpStream::connect(("10.2.0.2", port)))?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(ask)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map(|_| answer)
    }

    /// A socket of the left host by which datagrams go to the right one, of which nobody answers.
    fn datagrams(&self) -> UdpSocket {
        let socket = self.line.left.within(|| {
            let socket = UdpSocket::bind(("10.1.0.2", 0)).expect("a port is free");
            socket.connect(("10.2.0.2", 9)).map(|()| socket)
        });
        // Nobody listens there, and the errors that say so are of no interest.
        good(&self.line.right, "sysctl -qw net.ipv4.icmp_ratelimit=60000 net.ipv4.icmp_ratemask=8");
        socket.expect("there is a route")
    }
}

/// What a command of these words says, which must go well.
fn good(place: &Namespace, words: &str) -> String {
    let output = place.run(words);
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Bytes of which no two neighbours are the same.
fn body() -> Vec<u8> {
    (0..BODY).map(|at| (at ^ at >> 8) as u8).collect()
}

const GET: &[u8] = b"GET /body HTTP/1.1\r\nHost: 10.2.0.2\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nContent-Type: application/octet-stream\r\n\r\n";
const SSH: &[u8] = b"SSH-2.0-client_1.0\r\n";
const BITTORRENT: &[u8] = b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0";

#[test]
fn the_kernel_goes_by_the_marks_of_protocols() {
    let Some(_turn) = turn() else { return };
    let Some(network) = Network::make() else { return };
    network.forward_all(true);
    network.count(&[
        "meta mark 7",
        "tcp dport 80 meta mark 7",
        "tcp sport 80 meta mark 7",
        "tcp dport 80 meta mark 0",
        "tcp sport 80 meta mark 0",
        "tcp dport 22 meta mark 0",
        "tcp dport 6881",
    ]);
    let words = "--policy hrw --workers 2 --services l7-filter:fwmark=http=7,drop=bittorrent";
    let plane = network.plane("nfqueue:7", words);
    let servers =
        [network.serve(80, GET, OK), network.serve(22, SSH, SSH), network.serve(6881, BITTORRENT, BITTORRENT)];
    let answer = |said: &[u8]| [said, &body()].concat();
    assert!(network.call(80, GET, PATIENCE).expect("it answers") == answer(OK), "HTTP is not what it was");
    assert!(network.call(22, SSH, PATIENCE).expect("it answers") == answer(SSH), "SSH is not what it was");
    assert!(network.call(6881, BITTORRENT, IMPATIENCE).is_err(), "BitTorrent is dropped");
    let document = plane.end();
    for server in servers.into_iter().take(2) {
        server.join().expect("the server is content");
    }
    let [marked, there, back, plain_there, plain_back, ssh, bittorrent] = network.counted()[..] else { panic!() };
    let counters = &document["services"][0]["counters"];
    assert_eq!(marked, number(counters, "marked_packets"), "{document}");
    assert_eq!(marked, there + back, "no other packet has the mark");
    assert!(there > 2 && back > 10, "{there} {back}");
    // Before the verdict there are two of the handshake one way and one the other, or more where they were said again.
    assert!((2..6).contains(&plain_there) && (1..4).contains(&plain_back), "{plain_there} {plain_back}");
    assert!(ssh > 3);
    let dropped = number(&document["packets"]["dropped_out"], "protocol_denied");
    assert!(dropped > 0 && bittorrent > 0, "{document}");
    let packets = &document["packets"];
    assert_eq!(number(packets, "in"), number(packets, "forwarded") + dropped, "{packets}");
    assert_eq!(frames(&document, "nfqueue:7"), (number(packets, "in"), number(packets, "forwarded")));
    assert_eq!(number(&document["ports"]["sent"][0], "discarded"), dropped, "{document}");
    assert_eq!(document["options"]["output"], "nfqueue:7");
}

#[test]
fn marked_connections_need_not_come_by_the_queue_again() {
    let Some(_turn) = turn() else { return };
    let Some(network) = Network::make() else { return };
    network.pass_marked();
    network.forward_all(true);
    network.count(&["meta mark 7 ct mark set meta mark", "tcp sport 80"]);
    let plane = network.plane("nfqueue:7", "--policy fcfs --workers 1 --services l7-filter:fwmark=http=0x7");
    let server = network.serve(80, GET, OK);
    assert!(network.call(80, GET, PATIENCE).expect("it answers") == [OK, &body()].concat());
    server.join().expect("the server is content");
    let document = plane.end();
    let [marked, back] = network.counted()[..] else { panic!() };
    let taken = number(&document["packets"], "in");
    assert!(marked >= 1 && taken < 40, "{taken} of {back} came by the queue");
    assert!(back > 10, "{back}");
}

/// What a service changes goes on changed: one router encrypts what its queue hands over, and decrypts it by another.
#[test]
fn what_services_change_goes_on_changed() {
    let Some(_turn) = turn() else { return };
    let Some(network) = Network::make() else { return };
    network.forward_to(7, "ma", false);
    let line = &network.line;
    let words = match network.tool {
        Tool::Nft => {
            good(&line.right, "nft add table inet gate");
            good(&line.right, "nft add chain inet gate c { type filter hook input priority 0; }");
            "nft add rule inet gate c queue num 8"
        }
        Tool::Iptables => "iptables -A INPUT -j NFQUEUE --queue-num 8",
    };
    good(&line.right, words);
    network.count(&["meta l4proto esp", "ip protocol icmp"]);
    let encrypts = network.plane("nfqueue:7", "--policy hrw --workers 2 --services encrypt");
    let decrypts = DataPlane::start(&line.right, "--input nfqueue:8 --policy fcfs --workers 0 --services decrypt");
    let ping = line.left.run("ping -c 3 -i 0.2 -s 1200 -W 20 10.2.0.2");
    assert!(ping.status.success(), "{ping:?}");
    let [changed, back] = network.counted()[..] else { panic!() };
    assert!(changed >= 3 && back >= 3, "{changed} there, {back} back");
    let (encrypted, decrypted) = (encrypts.end(), decrypts.end());
    assert_eq!(number(&encrypted["packets"], "forwarded"), changed);
    assert_eq!(number(&decrypted["packets"], "forwarded"), changed);
}

#[test]
fn more_than_fits_is_dropped_and_each_packet_has_one_verdict() {
    let Some(_turn) = turn() else { return };
    let Some(network) = Network::make() else { return };
    network.forward_to(7, "ma", false);
    network.count(&["udp dport 9"]);
    let plane =
        network.plane("nfqueue:7:length=64", "--policy drr --workers 1 --buffer 8 --in-flight 1 --services dpi");
    let socket = network.datagrams();
    let ended = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let (started, payload) = (Instant::now(), [0; 1000]);
            while started.elapsed() < Duration::from_millis(1500) {
                // What the sender's own queue has no room for is as good as sent.
                let _ = socket.send(&payload);
            }
        });
        thread::sleep(Duration::from_millis(700));
        // In the middle of it.
        let ended = plane.end();
        flood.join().expect("it sends");
        ended
    });
    let packets = &ended["packets"];
    let reasons = packets["dropped"].as_object().expect("reasons").iter();
    // The kernel gives no verdict on what it dropped itself.
    let by_run = reasons.filter(|(reason, _)| !reason.starts_with("port_"));
    let dropped: u64 = by_run.filter_map(|(_, count)| count.as_u64()).sum();
    assert!(dropped > 0, "no overload: {packets}");
    assert_eq!((number(packets, "held"), number(packets, "held_out")), (0, 0), "{packets}");
    assert_eq!(network.counted(), [number(packets, "forwarded")], "{ended}");
    assert_eq!(number(&ended["ports"]["sent"][0], "discarded"), dropped, "{ended}");
    assert!(number(&ended["ports"]["received"][0], "missed") > 0, "64 packets are soon there: {ended}");
    let table = network.line.middle.within(|| fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue"));
    assert_eq!(table.expect("the kernel tells"), "", "the queue is given back");
}

/// `fail-open` decides whether packets that wait in the queue at the end of a run pass.
#[test]
fn what_nobody_took_is_left_as_told() {
    let Some(_turn) = turn() else { return };
    for fail_open in [false, true] {
        // A run that continues may take packets before it sees the signal that ends it.
        let left_some = (0..20).any(|_| {
            let Some(network) = Network::make() else { return true };
            leaves_packets(&network, fail_open)
        });
        assert!(left_some, "twenty runs took all packets after the signal that ends them");
    }
}

/// Sends packets to a stopped run, ends it, checks its counts, and returns whether it left any packet in the queue.
fn leaves_packets(network: &Network, fail_open: bool) -> bool {
    const SENT: u64 = 10;
    network.forward_to(7, "ma", false);
    network.count(&["udp dport 9"]);
    let plane = network.plane(&format!("nfqueue:7:fail-open={fail_open}"), "--policy fcfs --workers 0");
    plane.signal("STOP");
    let socket = network.datagrams();
    for _ in 0..SENT {
        socket.send(b"left").expect("there is a route");
    }
    plane.signal("TERM");
    plane.signal("CONT");
    let document = plane.document();
    let port = &document["ports"]["received"][0];
    let [frames, left, passed, missed] = ["frames", "left", "passed", "missed"].map(|count| number(port, count));
    let waited = SENT - frames;
    assert_eq!([left, passed, missed], if fail_open { [0, waited, 0] } else { [waited, 0, 0] }, "{document}");
    assert_eq!(network.counted(), [frames + passed]);
    let packets = &document["packets"];
    assert_eq!(number(packets, "in"), frames + left);
    assert_eq!(packets["dropped"]["port_left"].as_u64().unwrap_or(0), left);
    waited > 0
}

#[test]
fn queues_that_cannot_be_are_told_in_one_line() {
    let Some(_turn) = turn() else { return };
    let Some(network) = Network::make() else { return };
    let middle = &network.line.middle;
    let humpyard = env!("CARGO_BIN_EXE_humpyard");
    let plane = network.plane("nfqueue:7", "--policy hrw");
    for (words, expected) in [
        ("--input nfqueue:7", "another program has queue 7: end that, or take another number"),
        ("--input nfqueue:ma", "`ma` is not a queue number: use nfqueue:0 to nfqueue:65535"),
        ("--input nfqueue:8:length=0", "`length` takes 1 to 1000000"),
        ("--input nfqueue:8 --output iface:ma", "leave out --output"),
        ("--input nfqueue:8 --both-ways", "leave it out"),
        ("--input nfqueue:8 --input tun:hy0", "`tun:hy0` is no queue"),
        ("--input gen:imix --output nfqueue:8", "say --input nfqueue:8, without --output"),
        ("--input nfqueue:8 --rate 1000", "--rate does not apply to live interfaces"),
    ] {
        let said = refusal(middle, humpyard, &format!("run {words} --policy hrw"));
        assert!(said.contains(expected), "{words}: {said}");
    }
    plane.end();
    let words = format!("--inh-caps=-all --bounding-set=-all {humpyard} run --input nfqueue:7 --policy hrw");
    let said = refusal(middle, "setpriv", &words);
    assert!(said.contains("run it as root") && said.contains("CAP_NET_ADMIN (setcap cap_net_admin+ep)"), "{said}");
}
