//! A humpyard at work in a namespace.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use humpyard_testkit::network::Namespace;
use serde_json::Value;

/// More than enough for any machine.
const LONGEST: Duration = Duration::from_secs(60);

/// The number of that privilege: capabilities(7).
const CAP_NET_ADMIN: u32 = 12;

/// A run that goes on until a signal ends it.
pub(crate) struct DataPlane {
    child: Option<Child>,
    words: String,
    /// What it says, once somebody has listened.
    lines: Option<Lines<BufReader<ChildStderr>>>,
}

impl DataPlane {
    /// Starts `humpyard run` with these words, and waits until it has its ports.
    pub(crate) fn start(place: &Namespace, words: &str) -> Self {
        let mut command = place.command(env!("CARGO_BIN_EXE_humpyard"));
        command.arg("run").args(words.split_whitespace()).arg("--json");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut plane = Self { child: Some(child), words: words.to_owned(), lines: None };
        let started = Instant::now();
        // It gives its privileges up as soon as its ports are open; verdicts on packets of a queue need one all the time.
        let kept = if words.contains("nfqueue:") { 1 << CAP_NET_ADMIN } else { 0 };
        while plane.capabilities() != Some(kept) {
            let child = plane.child.as_mut().expect("it runs");
            if child.try_wait().expect("it can be waited for").is_some() {
                let output = plane.child.take().expect("it ran").wait_with_output();
                panic!("{words}: {output:?}");
            }
            assert!(started.elapsed() < LONGEST, "{words}: it does not start");
            thread::sleep(Duration::from_millis(5));
        }
        // The dispatcher listens a moment later.
        thread::sleep(Duration::from_millis(100));
        plane
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The mask of privileges in effect, once it is the program itself that runs and not `ip`.
    fn capabilities(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        (field("Name:")? == "humpyard").then(|| u64::from_str_radix(field("CapEff:")?, 16).ok())?
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.id().to_string()]).status();
        assert!(sent.expect("there is `kill`").success());
    }

    /// Has it read its configuration again; returns the line that it says to that.
    pub(crate) fn reload(&mut self) -> String {
        let child = self.child.as_mut().expect("it runs");
        let listen = || BufReader::new(child.stderr.take().expect("it is piped")).lines();
        self.lines.get_or_insert_with(listen);
        self.signal("HUP");
        self.lines.as_mut().and_then(Iterator::next).expect("it reports the outcome").expect("text")
    }

    /// Ends it, and gives its document, of which all packets must be accounted for.
    pub(crate) fn end(mut self) -> Value {
        self.signal("TERM");
        let started = Instant::now();
        let child = self.child.take().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        assert!(started.elapsed() < LONGEST, "{}: it does not end", self.words);
        good(&self.words, &output)
    }

    /// Its document when it has ended by itself, of which all packets must be accounted for.
    pub(crate) fn document(self) -> Value {
        let words = self.words.clone();
        good(&words, &self.ended())
    }

    /// What it says when it has ended by itself.
    pub(crate) fn ended(mut self) -> Output {
        let mut child = self.child.take().expect("it runs");
        let started = Instant::now();
        while child.try_wait().expect("it can be waited for").is_none() {
            if started.elapsed() > LONGEST {
                let _ = child.kill();
                panic!("{}: it does not end", self.words);
            }
            thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().expect("it has ended")
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The document of a run that must have gone well.
fn good(words: &str, output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {} {error}", output.status);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let packets = &document["packets"];
    let sum = |values: &Value| {
        values.as_object().expect("reasons").values().map(|count| count.as_u64().expect("a count")).sum()
    };
    let dropped: u64 = sum(&packets["dropped"]);
    let dropped_out: u64 = sum(&packets["dropped_out"]);
    assert_eq!(number(packets, "in"), number(packets, "processed") + number(packets, "held") + dropped, "{packets}");
    assert_eq!(
        number(packets, "processed") + number(packets, "generated"),
        number(packets, "forwarded") + number(packets, "consumed") + number(packets, "held_out") + dropped_out,
        "{packets}"
    );
    document
}

/// Runs `humpyard run` with these words to its end, which must be good.
pub(crate) fn run(place: &Namespace, words: &str) -> Value {
    let output = place
        .command(env!("CARGO_BIN_EXE_humpyard"))
        .arg("run")
        .args(words.split_whitespace())
        .arg("--json")
        .output()
        .expect("the binary starts");
    good(words, &output)
}

/// A whole number of a document.
pub(crate) fn number(document: &Value, key: &str) -> u64 {
    document[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {document}"))
}

/// Frames that were received and that were sent by this interface.
pub(crate) fn frames(document: &Value, port: &str) -> (u64, u64) {
    let of = |way: &str| {
        let ports = document["ports"][way].as_array().expect("ports");
        ports.iter().filter(|counted| counted["port"] == port).map(|counted| number(counted, "frames")).sum()
    };
    (of("received"), of("sent"))
}
