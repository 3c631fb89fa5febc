//! An event loop of your own: one thread polls three connections and serves their requests in the order that `drr`
//! chooses.
//!
//! The loop reads all that has come, serves one request, and polls again. It sleeps only if no request waits.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use humpyard::config::SchedulerConfig;
use humpyard::id::{ClientId, CoreId, FlowId};
use humpyard::mechanism::Arrival;
use humpyard::packet::Packet;
use humpyard::policies::spec::PolicySpec;
use humpyard::unit::{Time, Weight};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Bytes of each request of a connection, and requests of it: 60,000 bytes each.
const REQUESTS: [(u32, usize); 3] = [(1500, 40), (300, 200), (600, 100)];
/// The core of the scheduler that this thread is.
const CORE: CoreId = CoreId(0);

/// Our end of a connection, and the bytes of a request that has not come in full.
struct Connection {
    stream: UnixStream,
    partial: Vec<u8>,
    is_open: bool,
}

impl Connection {
    /// Reads what has come, without waiting, and returns the requests that are complete, each of `length` bytes.
    fn read(&mut self, length: usize) -> Result<Vec<Vec<u8>>, std::io::Error> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(read) => {
                    self.partial.extend_from_slice(&buffer[..read]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let complete = self.partial.len() / length * length;
            let requests: Vec<u8> = self.partial.drain(..complete).collect();
            return Ok(requests.chunks_exact(length).map(<[u8]>::to_vec).collect());
        }
    }
}

/// Opens the connections. The other ends have sent all requests, and close.
fn connections() -> Result<Vec<Connection>, std::io::Error> {
    let open = |&(length, count): &(u32, usize)| {
        let (ours, mut theirs) = UnixStream::pair()?;
        theirs.write_all(&vec![7; length as usize * count])?;
        ours.set_nonblocking(true)?;
        Ok(Connection { stream: ours, partial: Vec::new(), is_open: true })
    };
    REQUESTS.iter().map(open).collect()
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut connections = connections()?;
    let config = SchedulerConfig { flows: 3, ..SchedulerConfig::new(1).with_clients(vec![Weight::ONE; 3]) };
    let mut scheduler = "drr".parse::<PolicySpec>()?.build(&config)?;
    let (mut requests, mut served, mut halfway) = (HashMap::new(), [0u32; 3], None);
    let began = Instant::now();
    let now = || Time::from_ns(began.elapsed().as_nanos() as u64);
    while !requests.is_empty() || connections.iter().any(|connection| connection.is_open) {
        // Some policies have timers, for which the loop wakes up. `drr` has none.
        let timeout = match scheduler.next_timeout() {
            _ if !requests.is_empty() => PollTimeout::ZERO,
            Some(at) => PollTimeout::try_from(at.since(now()).as_ns().div_ceil(1_000_000))?,
            None => PollTimeout::NONE,
        };
        let open: Vec<usize> = (0..connections.len()).filter(|&number| connections[number].is_open).collect();
        let mut polled: Vec<PollFd<'_>> =
            open.iter().map(|&number| PollFd::new(connections[number].stream.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut polled, timeout)?;
        let ready: Vec<bool> = polled.iter().map(|polled| polled.any().unwrap_or(false)).collect();
        for (number, _) in open.into_iter().zip(ready).filter(|&(_, is_ready)| is_ready) {
            let length = REQUESTS[number].0;
            for request in connections[number].read(length as usize)? {
                let id = number as u32;
                let packet = Packet { client: ClientId(id), flow: FlowId(id), length, ..Packet::default() };
                let Arrival::Queued(slot) = scheduler.on_arrival(now(), &packet) else { panic!("there is room") };
                requests.insert(slot, request);
            }
        }
        if scheduler.next_timeout().is_some_and(|at| at <= now()) {
            scheduler.on_timeout(now());
        }
        // One request, then the loop polls again, so that requests of other connections can go first.
        let start = now();
        if let Some(dispatch) = scheduler.next(start, CORE) {
            let request = requests.remove(&dispatch.slot).expect("a request of ours");
            assert!(request.iter().all(|&byte| byte == 7), "the request is whole"); // Your work would stand here.
            served[dispatch.packet.client.0 as usize] += dispatch.packet.length;
            scheduler.on_completion(now(), dispatch.slot, now().since(start));
        }
        // The effects are drops, packets at an exit and switches of cores. This scheduler has none,
        // other schedulers have.
        while scheduler.next_effect().is_some() {}
        if halfway.is_none() && served.iter().sum::<u32>() >= 90_000 {
            halfway = Some(served);
        }
    }
    let halfway = halfway.ok_or("fewer bytes than were sent")?;
    println!("bytes served halfway: {halfway:?}; in the end: {served:?}");
    assert!(halfway.iter().all(|bytes| bytes.abs_diff(30_000) <= 3_000), "each connection has a third");
    assert_eq!(served, [60_000; 3], "every request is served");
    Ok(())
}
