//! Metrics of a live run, scraped from outside, and `top`, which shows them.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Said, assert_balanced, directory, document, humpyard, make_capture, number, run, sum};

/// More than enough for any machine.
const LONGEST: Duration = Duration::from_secs(30);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";
/// What a server says that was asked in the moment between the end of the run and its own.
const RUN_IS_OVER: &str = "the run is over";

/// A run whose metrics are served.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    /// Starts a run and reads where its metrics are.
    fn start(directory: &Path, words: &str, input: Stdio) -> Self {
        let words = format!("run {words} --metrics 127.0.0.1:0 --json");
        let mut command = humpyard(directory, &words.split_whitespace().collect::<Vec<_>>());
        let mut child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("text");
        let address = line.trim_end().strip_prefix("humpyard: metrics at http://");
        let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
        Self { address: address.unwrap_or_else(|| panic!("no address: {line:?}")).to_owned(), child }
    }

    /// A scrape; none when the run is over, whether the server says so or is gone.
    fn scrape(&self) -> Option<Scrape> {
        let (head, body) = get(&self.address, "/metrics", OPEN_METRICS)?;
        if head.starts_with("HTTP/1.1 503 ") && body.trim_end() == RUN_IS_OVER {
            return None;
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{body}");
        assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
        Some(Scrape::parse(&body))
    }

    /// The snapshot as a document.
    fn snapshot(&self) -> Value {
        let (head, body) = get(&self.address, "/snapshot.json", "*/*").expect("the run goes on");
        assert!(head.contains("Content-Type: application/json"), "{head}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn end(self) -> Value {
        let said = Said::of(self.child.wait_with_output().expect("it ends"));
        assert!(said.code == Some(0) && said.err.is_empty(), "{said:?}");
        said.json()
    }
}

/// Asks a server, and gives head and body; none if nobody answers.
fn get(address: &str, path: &str, accept: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONGEST)).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Metrics by name and labels, as a scraper has them.
struct Scrape {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    /// Reads OpenMetrics line by line, and panics at what it forbids.
    fn parse(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
        let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::new());
        let mut family = String::new();
        for line in body.lines() {
            if let Some(described) = line.strip_prefix("# ") {
                let [what, name, said] = described.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
                assert!(name.starts_with("humpyard_") && is_name(name) && !said.is_empty(), "{line}");
                match what {
                    "HELP" => assert!(said.ends_with('.'), "{line}"),
                    "TYPE" => {
                        let known = types.insert(name.to_owned(), said.to_owned());
                        assert!(known.is_none(), "twice: {line}");
                        family = name.to_owned();
                    }
                    "UNIT" => assert!(name.ends_with(&format!("_{said}")), "{line}"),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (metric, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let name = metric.split('{').next().expect("a name");
            let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("not of {family}: {line}"));
            let allowed: &[&str] = match types[&family].as_str() {
                "counter" => &["_total"],
                "gauge" => &[""],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_count", "_sum"],
                other => panic!("{other}: {line}"),
            };
            assert!(allowed.contains(&suffix), "{line}");
            let value: f64 = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(value >= 0.0 && value.is_finite(), "{line}");
            assert!(samples.insert(metric.to_owned(), value).is_none(), "twice: {line}");
        }
        Self { types, samples }
    }

    fn value(&self, metric: &str) -> f64 {
        *self.samples.get(metric).unwrap_or_else(|| panic!("no {metric} in {:#?}", self.samples))
    }

    /// The sum over the labels.
    fn sum(&self, name: &str) -> f64 {
        let start = format!("{name}{{");
        self.samples.iter().filter(|(metric, _)| metric.starts_with(&start)).map(|(_, value)| value).sum()
    }

    /// Whether it is a counter, or a part of a histogram.
    fn rises(&self, metric: &str) -> bool {
        let name = metric.split('{').next().expect("a name");
        let of = |suffix, kind: &str| {
            name.strip_suffix(suffix).and_then(|family| self.types.get(family)).is_some_and(|found| found == kind)
        };
        of("_total", "counter") || of("_bucket", "histogram") || of("_count", "histogram") || of("_sum", "histogram")
    }
}

fn is_name(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

#[test]
fn counters_of_a_scraped_run_only_rise() {
    for dispatchers in [1, 2] {
        assert_counters_only_rise(dispatchers);
    }
}

fn assert_counters_only_rise(dispatchers: usize) {
    let directory = directory();
    let served = Served::start(
        directory.path(),
        &format!(
            "--input gen:poisson:packets=1000000000 --rate 20000 --for 3s --policy hrw --workers 2 --services \
             udp=forward,other=forward --dispatchers {dispatchers}"
        ),
        Stdio::null(),
    );
    let mut last = served.scrape().expect("the run has begun");
    let (first, mut scrapes) = (last.value("humpyard_packets_received_total"), 1);
    while let Some(now) = served.scrape() {
        assert_eq!(now.samples.len(), last.samples.len());
        assert!(
            now.value(&format!("humpyard_dispatcher_busy_seconds_total{{dispatcher=\"{}\"}}", dispatchers - 1)) > 0.0
        );
        for (metric, &before) in last.samples.iter().filter(|(metric, _)| last.rises(metric)) {
            assert!(now.value(metric) >= before, "{metric}: {before}, then {}", now.value(metric));
        }
        let dropped = now.sum("humpyard_packets_dropped_total");
        let account = now.value("humpyard_packets_processed_total") + now.value("humpyard_packets_held") + dropped;
        assert_eq!(now.value("humpyard_packets_received_total"), account);
        let delayed = now.value("humpyard_service_delay_seconds_bucket{le=\"+Inf\",service=\"udp\"}");
        assert_eq!(delayed, now.value("humpyard_service_delay_seconds_count{service=\"udp\"}"));
        (last, scrapes) = (now, scrapes + 1);
        sleep(Duration::from_millis(100));
    }
    assert!(scrapes > 3, "{scrapes}");
    assert_eq!(last.value("humpyard_build_info{version=\"0.1.0\"}"), 1.0);
    let result = served.end();
    assert_balanced(&result);
    assert!(last.value("humpyard_packets_received_total") > first);
    assert!(last.value("humpyard_packets_received_total") <= number(&result, "/packets/in") as f64);
}

/// A run that has taken in everything, and waits for more, says what its result will say.
#[test]
fn the_last_scrape_is_the_result() {
    for dispatchers in [1, 2] {
        assert_last_scrape_is_result(dispatchers);
    }
}

fn assert_last_scrape_is_result(dispatchers: usize) {
    let directory = directory();
    make_capture(directory.path(), "in.pcap", 700);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let words = format!("--input - --policy hrw --workers 2 --dispatchers {dispatchers}");
    let served = Served::start(directory.path(), &words, reader.into());
    writer.write_all(&std::fs::read(directory.path().join("in.pcap")).expect("a capture")).expect("it is read");
    let started = Instant::now();
    let scrape = loop {
        let scrape = served.scrape().expect("the run goes on");
        if scrape.value("humpyard_packets_processed_total") == 700.0 {
            break scrape;
        }
        assert!(started.elapsed() < LONGEST, "it does not take in its input");
        sleep(Duration::from_millis(20));
    };
    let snapshot = served.snapshot();
    drop(writer);
    let result = served.end();
    for key in ["in", "processed", "forwarded", "held", "generated", "consumed", "held_out"] {
        let path = format!("/packets/{key}");
        assert_eq!(number(&snapshot, &path), number(&result, &path), "{key}");
    }
    for (metric, path) in [
        ("humpyard_packets_received_total", "/packets/in"),
        ("humpyard_packets_forwarded_total", "/packets/forwarded"),
        ("humpyard_processed_bytes_total", "/bytes"),
        ("humpyard_packets_late_total", "/late/count"),
        ("humpyard_packets_lost_total", "/late/lost"),
        ("humpyard_packets_out_of_order_total", "/order/out_of_order"),
        ("humpyard_flows_seen_total", "/flows"),
        ("humpyard_service_packets_total{service=\"forward\"}", "/services/0/packets"),
        ("humpyard_service_processed_bytes_total{service=\"forward\"}", "/services/0/bytes"),
        ("humpyard_core_packets_total{core=\"1\"}", "/cores_detail/1/packets"),
        ("humpyard_core_cold_packets_total{core=\"0\"}", "/cores_detail/0/cold"),
    ] {
        assert_eq!(scrape.value(metric), number(&result, path) as f64, "{metric}");
    }
    assert_eq!(scrape.sum("humpyard_packets_dropped_out_total"), sum(&result, "/packets/dropped_out") as f64);
    let sum_seconds = scrape.value("humpyard_delay_seconds_sum");
    let mean_ns = result.pointer("/delay_ns/mean").and_then(Value::as_f64).expect("a mean");
    assert!((sum_seconds * 1e9 / 700.0 / mean_ns - 1.0).abs() < 1e-6, "{sum_seconds} {mean_ns}");
}

#[test]
fn top_prints_a_screen_of_a_run_and_ends_when_there_is_none() {
    let directory = directory();
    let served = Served::start(
        directory.path(),
        "--input gen:poisson:packets=1000000000 --rate 20000 --for 4s --policy drr --workers 1",
        Stdio::null(),
    );
    let snapshot = document(directory.path(), &format!("top {}", served.address));
    assert_eq!((&snapshot["policy"], number(&snapshot, "/packets/held_out")), (&"drr".into(), 0));
    let said = run(directory.path(), &["top", &served.address, "--once", "--interval", "500ms"]);
    assert!(said.code == Some(0) && said.err.is_empty(), "{said:?}");
    for words in [
        "drr: gen:poisson",
        "drr: dispatcher ",
        " % busy, decisions",
        "kpps",
        "cores",
        "  0 [",
        "forward",
        "decisions p50",
        "flows, 64 known",
        "udp 10.",
    ] {
        assert!(said.out.contains(words), "`{words}` is not in\n{}", said.out);
    }
    assert!(!said.out.contains('\u{1b}'), "{}", said.out);
    let said = run(directory.path(), &["top", &served.address]);
    said.assert_one_line(&["terminal", "--once"]);
    let address = served.address.clone();
    served.end();
    for arguments in [vec!["top", &address], vec!["top", &address, "--once"], vec!["top", &address, "--json"]] {
        let said = run(directory.path(), &arguments);
        assert!(said.code == Some(2) && said.out.is_empty(), "{said:?}");
        said.assert_one_line(&["no run", &address, "humpyard run --metrics"]);
    }
}

/// On a real terminal: it draws, and ends with 0 when the run does.
#[test]
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn top_on_a_terminal_ends_with_the_run() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("SKIPPED top_on_a_terminal_ends_with_the_run: there is no `script`, which gives it a terminal");
        return;
    }
    let directory = directory();
    let words = "--input gen:poisson:packets=1000000000 --rate 20000 --for 2s --policy sfq --workers 1";
    let served = Served::start(directory.path(), words, Stdio::null());
    let top =
        format!("stty rows 24 cols 80; {} top {} --interval 200ms", env!("CARGO_BIN_EXE_humpyard"), served.address);
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &top, "/dev/null"]).stdin(Stdio::null());
    let said = Said::of(command.env("TERM", "xterm").output().expect("it runs"));
    served.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("services") && said.out.contains("is over"), "{said:?}");
}

#[test]
fn metrics_that_cannot_be_are_refused_before_anything_is_done() {
    let directory = directory();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("an address").to_string();
    for (address, words) in [
        ("9464", "127.0.0.1:9464"),
        ("somewhere:9464", "127.0.0.1:9464"),
        ("192.0.2.1:9464", "no such address"),
        (taken.as_str(), "in use"),
    ] {
        let arguments = ["run", "--input", "gen:poisson:packets=9", "--policy", "hrw", "--output", "out.pcap"];
        let said = run(directory.path(), &[&arguments[..], &["--metrics", address]].concat());
        assert!(said.code == Some(2) && said.out.is_empty(), "{said:?}");
        said.assert_one_line(&[words, "metrics"]);
        assert!(!directory.path().join("out.pcap").exists(), "{address}");
    }
    for (arguments, words) in [
        (vec!["top", "nowhere"], "no address"),
        (vec!["top", "--interval", "1ms"], "100ms"),
        (vec!["top", "--interval", "x"], "--interval"),
    ] {
        let said = run(directory.path(), &arguments);
        assert_eq!(said.code, Some(2), "{said:?}");
        said.assert_one_line(&[words]);
    }
}

/// What answers is something else.
#[test]
fn top_says_so_where_something_else_answers() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address").to_string();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("somebody comes");
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").expect("it is read");
    });
    let said = run(Path::new("."), &["top", &address, "--json"]);
    answers.join().expect("it answers");
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&["no run of humpyard"]);
}

/// By IPv6, where the machine has it.
#[test]
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn metrics_are_served_by_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED metrics_are_served_by_ipv6: this machine has none");
        return;
    }
    let free = TcpListener::bind("[::1]:0").and_then(|listener| listener.local_addr()).expect("a port").to_string();
    let directory = directory();
    let words =
        format!("run --input gen:poisson:packets=1000000000 --rate 1000 --for 2s --policy hrw --metrics {free}");
    let mut child = humpyard(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    let mut child = child.stdout(Stdio::null()).spawn().expect("it starts");
    let started = Instant::now();
    let said = loop {
        let said = run(directory.path(), &["top", &free, "--json"]);
        if said.code == Some(0) || started.elapsed() > LONGEST {
            break said;
        }
    };
    assert_eq!(said.json()["policy"], "hrw");
    assert!(child.wait().expect("it ends").success());
}

/// The judges: Prometheus and its tool. `make test` fetches them.
#[test]
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn prometheus_reads_them() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/metrics-check");
    let mut path = env::var("PATH").unwrap_or_default();
    if let Ok(fetched) = env::var("HUMPYARD_PROMETHEUS") {
        path = format!("{path}:{fetched}/usr/bin");
    }
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let mut command = Command::new(script);
    command.args([env!("CARGO_BIN_EXE_humpyard"), &free.port().to_string()]).env("PATH", path).stdin(Stdio::null());
    let said = Said::of(command.output().expect("there is a shell"));
    if said.code == Some(77) {
        eprintln!("SKIPPED prometheus_reads_them: {}", said.err.trim_end());
        return;
    }
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
}
