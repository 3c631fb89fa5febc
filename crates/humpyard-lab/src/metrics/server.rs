//! The thread that answers requests.

use core::time::Duration;
use std::io::{self, PipeReader, PipeWriter};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use httparse::Request;
use humpyard_runtime::{Watch, WatchError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::about::About;
use super::answer::Answer;
use super::document::Snapshot;
use super::exchange::{Exchange, Next};
use crate::LabError;

/// An address on which metrics can be asked for; nobody answers before [`Self::serve`].
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
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
    pub fn serve(self, mut watch: Watch, about: About) -> Result<Serving, LabError> {
        self.serve_snapshots(move || Ok(Snapshot::of(&about, *watch.ask(ANSWER)?)))
    }

    /// Answers requests by snapshots that this gives.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn serve_snapshots(
        self,
        snapshot: impl FnMut() -> Result<Snapshot, WatchError> + Send + 'static,
    ) -> Result<Serving, LabError> {
        let cannot = |error| LabError::option(format!("cannot serve metrics: {error}"));
        let (ended, end) = io::pipe().map_err(cannot)?;
        let mut server = Server { listener: self.listener, ended, snapshot };
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

struct Server<S> {
    listener: TcpListener,
    ended: PipeReader,
    /// Gives what there is now.
    snapshot: S,
}

/// How long the run may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// The most connections at a time. Where one more comes, the oldest ends.
const MOST: usize = 64;

impl<S: FnMut() -> Result<Snapshot, WatchError>> Server<S> {
    fn work(&mut self) {
        let mut exchanges = Vec::with_capacity(MOST);
        while let Some(comes) = self.wait(&mut exchanges) {
            if comes {
                self.accept(&mut exchanges);
            }
        }
    }

    /// Waits for clients and goes on with those that are here; whether a new one has come. `None`: the run is over.
    fn wait(&mut self, exchanges: &mut Vec<Exchange>) -> Option<bool> {
        let mut waited: Vec<PollFd<'_>> =
            [self.ended.as_fd(), self.listener.as_fd()].map(|of| PollFd::new(of, PollFlags::POLLIN)).into();
        waited.extend(exchanges.iter().map(|exchange| PollFd::new(exchange.as_fd(), exchange.awaits())));
        // An interruption is as good as somebody who went away again.
        let _ = poll(&mut waited, longest(exchanges));
        let mut ready = waited.iter().map(|of| of.any().unwrap_or(true));
        let (ended, comes) = (ready.next()?, ready.next()?);
        let mut ready = ready.collect::<Vec<_>>().into_iter();
        if ended {
            return None;
        }
        // In this order: a request that came in time counts, however long others took.
        exchanges.retain_mut(|exchange| !ready.next().unwrap_or(false) || self.go_on(exchange));
        exchanges.retain(|exchange| exchange.end() > Instant::now());
        Some(comes)
    }

    /// Accepts new clients, at most as many as there can be at a time.
    fn accept(&mut self, exchanges: &mut Vec<Exchange>) {
        for _ in 0..MOST {
            match self.listener.accept().and_then(|(stream, _)| Exchange::new(stream)) {
                Ok(mut exchange) => {
                    if !self.go_on(&mut exchange) {
                        continue;
                    }
                    if exchanges.len() == MOST {
                        exchanges.remove(0);
                    }
                    exchanges.push(exchange);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // There are too many open files, for example: that may pass.
                Err(_) => return thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Goes on with an exchange; whether it lasts. A client that has gone does not concern the others.
    fn go_on(&mut self, exchange: &mut Exchange) -> bool {
        exchange.go_on(|request| self.answer(request)).is_ok_and(|next| next == Next::Peer)
    }

    fn answer(&mut self, request: &Request<'_, '_>) -> Answer {
        let head = match request.method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Answer::said("405 Method Not Allowed", "there is only GET"),
        };
        let path = request.path.unwrap_or_default();
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let answer = match path {
            "/metrics" => (self.snapshot)().map(|snapshot| Answer::metrics(snapshot, request)),
            "/snapshot.json" => (self.snapshot)().map(|snapshot| Answer::document(&snapshot)),
            _ => Ok(Answer::said("404 Not Found", "there are /metrics and /snapshot.json")),
        };
        let answer = answer.unwrap_or_else(|error| Answer::said("503 Service Unavailable", &error.to_string()));
        if head { answer.without_body() } else { answer }
    }
}

/// How long to wait until the first of these is over.
fn longest(exchanges: &[Exchange]) -> PollTimeout {
    let Some(first) = exchanges.iter().map(Exchange::end).min() else { return PollTimeout::NONE };
    // Rounded up, or the last millisecond would be spent asking.
    let left = first.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use humpyard_runtime::watch;

    use super::super::exchange::LONGEST;
    use super::*;

    fn here() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    fn about() -> About {
        About { policy: "drr".into(), ..About::default() }
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

    /// More silent connections than there can be keep nobody waiting: the oldest end for the newest. Nobody waits for the end of
    /// the run, either.
    #[test]
    fn silent_clients_keep_no_others_waiting() {
        let endpoint = Endpoint::bind(here()).unwrap();
        let address = endpoint.address();
        let serving = endpoint.serve(watch().0, about()).unwrap();
        let mut silent: Vec<TcpStream> = (0..4 * MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        for _ in 0..8 {
            assert!(told(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        }
        assert!(is_ended(&mut silent[0]));
        drop(serving);
        assert!(silent.iter_mut().all(is_ended));
    }

    /// Whether the other side has ended this connection, sooner or later.
    fn is_ended(stream: &mut TcpStream) -> bool {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let ended = stream.read(&mut [0; 1]);
        ended.map_or_else(|error| error.kind() == io::ErrorKind::ConnectionReset, |count| count == 0)
    }

    /// A request in pieces is answered; one that never gets on ends its connection.
    #[test]
    fn slow_clients_have_some_time() {
        let endpoint = Endpoint::bind(here()).unwrap();
        let address = endpoint.address();
        let _serving = endpoint.serve(watch().0, about()).unwrap();
        let [mut slow, mut silent] = [(), ()].map(|()| TcpStream::connect(address).unwrap());
        for piece in ["GET /", " HTTP/1.1\r\nhost: here\r\n", "\r\n"] {
            slow.write_all(piece.as_bytes()).unwrap();
            assert!(told(address, "HEAD / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        }
        let mut answer = String::new();
        slow.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.ends_with("there are /metrics and /snapshot.json\n"));
        assert!(is_ended(&mut silent));
    }

    #[test]
    fn addresses_that_cannot_be_taken_are_told_with_what_to_do() {
        let taken = Endpoint::bind(here()).unwrap();
        for (address, words) in [(taken.address(), "in use"), ("192.0.2.1:9464".parse().unwrap(), "no such address")] {
            let said = Endpoint::bind(address).unwrap_err().to_string();
            assert!(said.contains(words) && said.contains(&address.to_string()) && !said.contains('\n'), "{said}");
        }
    }
}
