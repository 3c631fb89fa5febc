//! The thread that answers requests.

use core::time::Duration;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use httparse::{Request, Status};
use humpyard_runtime::{Watch, WatchError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::document::Snapshot;
use super::open_metrics::{OPEN_METRICS, PLAIN, open_metrics, plain};
use crate::LabError;
use crate::config::RunConfig;

/// An address on which metrics can be asked for; nobody answers before [`Self::serve`].
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

/// What is known of a run beforehand.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The policies it begins with, and those that take over, in order.
    pub policies: Vec<String>,
    /// Where packets come from.
    pub input: String,
    /// Where they go.
    pub output: String,
}

impl About {
    /// What this configuration says.
    pub fn of(config: &RunConfig) -> Self {
        let mut swaps: Vec<_> = config.swaps.iter().collect();
        swaps.sort_by_key(|(at, _)| *at);
        let swaps = swaps.into_iter().map(|(_, policy)| policy.to_string());
        Self {
            policies: core::iter::once(config.policy.to_string()).chain(swaps).collect(),
            input: config.input_name(),
            output: config.output_name(),
        }
    }

    /// The policies that decide when so many have taken over.
    pub(super) fn policy(&self, swaps: u64) -> &str {
        let last = self.policies.len().saturating_sub(1);
        let at = usize::try_from(swaps).map_or(last, |swaps| swaps.min(last));
        self.policies.get(at).map_or("", String::as_str)
    }
}

impl Endpoint {
    /// Takes the address; port 0 is any that is free.
    ///
    /// # Errors
    /// If the address cannot be taken, with what to do.
    pub fn bind(address: SocketAddr) -> Result<Self, LabError> {
        let taken = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(Self { address: listener.local_addr()?, listener })
        });
        taken.map_err(|error| {
            let said = match error.kind() {
                io::ErrorKind::AddrInUse => "that port is in use: give another, or 0 for any that is free".to_owned(),
                io::ErrorKind::AddrNotAvailable => {
                    "this machine has no such address: give one of its own, such as 127.0.0.1 or [::1]".to_owned()
                }
                io::ErrorKind::PermissionDenied => "this user may not take that port: give one from 1024 on".to_owned(),
                _ => error.to_string(),
            };
            LabError::option(format!("metrics at {address}: {said}"))
        })
    }

    /// The address that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests on a thread of its own, of the run that has the other half of this watch, until the run is over or
    /// what this gives is dropped.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn serve(self, watch: Watch, about: About) -> Result<Serving, LabError> {
        let cannot = |error| LabError::option(format!("cannot serve metrics: {error}"));
        let (ended, end) = io::pipe().map_err(cannot)?;
        let server = Server { listener: self.listener, ended, watch, about };
        let thread = thread::Builder::new().name("metrics".into()).spawn(move || server.work()).map_err(cannot)?;
        Ok(Serving { end: Some(end), thread: Some(thread) })
    }
}

/// Metrics are served until this is dropped.
#[derive(Debug)]
pub struct Serving {
    /// The thread ends when this is closed.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end = None;
        // A defect of metrics is none of the run.
        self.thread.take().map(JoinHandle::join);
    }
}

struct Server {
    listener: TcpListener,
    ended: PipeReader,
    watch: Watch,
    about: About,
}

/// How long the run may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// How long reading a request, and writing the answer, may take.
const EXCHANGE: Duration = Duration::from_secs(2);
/// The longest request, in bytes.
const LONGEST: usize = 8 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;

impl Server {
    fn work(mut self) {
        while self.wait() {
            match self.listener.accept() {
                // Whoever asked has gone, or is too slow: that is theirs.
                Ok((stream, _)) => drop(self.exchange(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // There are too many open files, for example: that may pass.
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Waits until somebody comes; false if it is over.
    fn wait(&self) -> bool {
        let mut waited = [&self.listener.as_fd(), &self.ended.as_fd()].map(|of| PollFd::new(*of, PollFlags::POLLIN));
        // An interruption is as good as somebody who went away again.
        let _ = poll(&mut waited, PollTimeout::NONE);
        !waited[1].any().unwrap_or(true)
    }

    fn exchange(&mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        let mut request = Vec::with_capacity(LONGEST);
        let end = Instant::now() + EXCHANGE;
        let answer = loop {
            if let Some(answer) = self.answer(&request) {
                break answer;
            }
            self.read_some(&mut stream, &mut request, end)?;
        };
        write(&mut stream, &answer.bytes(), Instant::now() + EXCHANGE)?;
        stream.shutdown(Shutdown::Write)
    }

    /// Reads what there is, if it comes in time and before the end; the connection is over if there is no more.
    fn read_some(&self, stream: &mut TcpStream, request: &mut Vec<u8>, end: Instant) -> io::Result<()> {
        stream.set_read_timeout(Some(until(end)?))?;
        let longest = PollTimeout::try_from(until(end)?).unwrap_or(PollTimeout::MAX);
        let mut waited = [&stream.as_fd(), &self.ended.as_fd()].map(|of| PollFd::new(*of, PollFlags::POLLIN));
        if poll(&mut waited, longest)? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if waited[1].any().unwrap_or(true) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..count]);
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// The answer to a request; none while that is incomplete.
    fn answer(&mut self, request: &[u8]) -> Option<Answer> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut parsed = Request::new(&mut headers);
        match parsed.parse(request) {
            Ok(Status::Complete(_)) => Some(self.answer_parsed(&parsed)),
            Ok(Status::Partial) if request.len() < LONGEST => None,
            Ok(Status::Partial) => Some(Answer::said("431 Request Header Fields Too Large", "the request is too long")),
            Err(_) => Some(Answer::said("400 Bad Request", "that is no request")),
        }
    }

    fn answer_parsed(&mut self, request: &Request<'_, '_>) -> Answer {
        let head = match request.method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Answer::said("405 Method Not Allowed", "there is only GET"),
        };
        let path = request.path.unwrap_or_default();
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let answer = match path {
            "/metrics" => self.snapshot().map(|snapshot| {
                let text = open_metrics(snapshot);
                if wants_plain(request) { Answer::of(PLAIN, plain(&text)) } else { Answer::of(OPEN_METRICS, text) }
            }),
            "/snapshot.json" => self.snapshot().map(|snapshot| {
                // Its keys are strings and its numbers finite.
                Answer::of("application/json", serde_json::to_string(&snapshot).unwrap_or_default())
            }),
            _ => Ok(Answer::said("404 Not Found", "there are /metrics and /snapshot.json")),
        };
        let answer = answer.unwrap_or_else(|error| Answer::said("503 Service Unavailable", &error.to_string()));
        Answer { head, ..answer }
    }

    fn snapshot(&mut self) -> Result<Snapshot, WatchError> {
        Ok(Snapshot::of(&self.about, *self.watch.ask(ANSWER)?))
    }
}

/// Writes all, if it is taken in time.
fn write(stream: &mut TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(until(end)?))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// The time until this end, which has not come.
fn until(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Whether whoever asks knows text and not OpenMetrics: a browser, or a scraper of before.
fn wants_plain(request: &Request<'_, '_>) -> bool {
    let accept = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accept: Vec<_> = accept.map(|header| String::from_utf8_lossy(header.value).to_ascii_lowercase()).collect();
    let says = |kind| accept.iter().any(|accepted| accepted.contains(kind));
    says("text/") && !says("application/openmetrics-text")
}

/// An answer.
#[derive(Debug)]
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
    /// Only what stands before the body was asked for.
    head: bool,
}

impl Answer {
    fn of(content_type: &'static str, body: String) -> Self {
        Self { status: "200 OK", content_type, body, head: false }
    }

    fn said(status: &'static str, what: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{what}\n"), head: false }
    }

    fn bytes(self) -> Vec<u8> {
        let Self { status, content_type, body, head } = self;
        let length = body.len();
        let start = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
             Connection: close\r\n\r\n"
        );
        let mut bytes = start.into_bytes();
        if !head {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use humpyard_runtime::watch;

    use super::*;

    fn here() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    fn about() -> About {
        About { policies: vec!["drr".into(), "sfq".into()], ..About::default() }
    }

    /// What is answered to this, sent as it is.
    fn told(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // A server that has heard enough may have closed.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn requests_that_are_none_are_told_so() {
        let endpoint = Endpoint::bind(here()).unwrap();
        let address = endpoint.address();
        let (watch, watched) = watch();
        drop(watched);
        let serving = endpoint.serve(watch, about()).unwrap();
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\u{7}\r\n\r\n", "400"),
            ("GET /metrics HTTP/1.1\r\n\r\n", "503"),
            ("GET /snapshot.json?x=1 HTTP/1.0\r\n\r\n", "503"),
        ] {
            let answer = told(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(2 * LONGEST));
        assert!(matches!(told(address, &long).get(..12), None | Some("HTTP/1.1 431")));
        drop(serving);
        assert!(TcpStream::connect(address).is_err(), "nobody answers any more");
    }

    /// Somebody who connects and says nothing keeps others waiting for two seconds, and not the end of the run.
    #[test]
    fn whoever_says_nothing_is_left_behind() {
        let endpoint = Endpoint::bind(here()).unwrap();
        let address = endpoint.address();
        let serving = endpoint.serve(watch().0, about()).unwrap();
        let _silent = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
        let started = Instant::now();
        assert!(told(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(started.elapsed() < 4 * EXCHANGE, "{:?}", started.elapsed());
        let _silent = TcpStream::connect(address).unwrap();
        thread::sleep(EXCHANGE / 10);
        let started = Instant::now();
        drop(serving);
        assert!(started.elapsed() < EXCHANGE / 2, "{:?}", started.elapsed());
    }

    #[test]
    fn addresses_that_cannot_be_taken_are_told_with_what_to_do() {
        let taken = Endpoint::bind(here()).unwrap();
        for (address, words) in [(taken.address(), "in use"), ("192.0.2.1:9464".parse().unwrap(), "no such address")] {
            let said = Endpoint::bind(address).unwrap_err().to_string();
            assert!(said.contains(words) && said.contains(&address.to_string()) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn the_policy_is_the_last_that_took_over() {
        assert_eq!([0, 1, 9].map(|swaps| about().policy(swaps).to_owned()), ["drr", "sfq", "sfq"]);
        assert_eq!(About::default().policy(0), "");
    }

    #[test]
    fn who_asks_gets_the_text_that_it_knows() {
        for (accept, plain) in [
            ("", false),
            ("Accept: */*", false),
            ("Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", false),
            ("accept: text/plain", true),
            ("Accept: text/html,application/xml;q=0.9,*/*;q=0.8", true),
        ] {
            let text = format!("GET /metrics HTTP/1.1\r\n{accept}{}\r\n", if accept.is_empty() { "" } else { "\r\n" });
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = Request::new(&mut headers);
            assert!(request.parse(text.as_bytes()).unwrap().is_complete());
            assert_eq!(wants_plain(&request), plain, "{accept}");
        }
    }
}
