//! One connection: a request that comes in pieces, and its answer, which goes in pieces.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use httparse::{Request, Status};
use nix::poll::PollFlags;

use super::answer::Answer;

/// The time for reading a request, and for writing its answer.
pub(super) const TIME: Duration = Duration::from_secs(2);
/// The longest request, in bytes.
pub(super) const LONGEST: usize = 8 << 10;
/// The most headers of a request.
pub(super) const HEADERS: usize = 64;

/// One connection. It never blocks, so a slow client keeps no other waiting.
#[derive(Debug)]
pub(super) struct Exchange {
    stream: TcpStream,
    /// When the connection ends if it does not get on.
    end: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The part of the request that has come.
    Reading(Vec<u8>),
    /// The answer, and the bytes of it that were sent.
    Writing(Vec<u8>, usize),
}

/// The side that an exchange waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The client: it has to send or to take something.
    Peer,
    /// Neither: the answer is given.
    Nothing,
}

impl Exchange {
    /// Begins an exchange on a connection that was just accepted.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, end: Instant::now() + TIME, stage: Stage::Reading(Vec::with_capacity(1024)) })
    }

    /// When it is over unless it gets on before.
    pub(super) const fn end(&self) -> Instant {
        self.end
    }

    /// The event that it waits for.
    pub(super) const fn awaits(&self) -> PollFlags {
        match self.stage {
            Stage::Reading(_) => PollFlags::POLLIN,
            Stage::Writing(..) => PollFlags::POLLOUT,
        }
    }

    /// Goes on as far as it can without waiting. A request that is whole is answered by `answer`.
    ///
    /// # Errors
    /// If the client has gone.
    pub(super) fn go_on(&mut self, mut answer: impl FnMut(&Request<'_, '_>) -> Answer) -> io::Result<Next> {
        loop {
            let is_over = match &mut self.stage {
                Stage::Reading(request) => match respond(request, &mut answer) {
                    Some(answer) => {
                        self.stage = Stage::Writing(answer.bytes(), 0);
                        self.end = Instant::now() + TIME;
                        continue;
                    }
                    None => receive(&mut self.stream, request).map(|()| false),
                },
                Stage::Writing(bytes, written) => send(&mut self.stream, bytes, written),
            };
            match is_over {
                Ok(false) => {}
                Ok(true) => return self.stream.shutdown(Shutdown::Write).map(|()| Next::Nothing),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Next::Peer),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Reads the bytes that have come. No byte is an error: the client has gone.
fn receive(stream: &mut TcpStream, request: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 1024];
    let count = stream.read(&mut buffer)?;
    request.extend_from_slice(&buffer[..count]);
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Writes as many bytes as the client takes; whether those were all.
fn send(stream: &mut TcpStream, bytes: &[u8], written: &mut usize) -> io::Result<bool> {
    if *written < bytes.len() {
        match stream.write(&bytes[*written..])? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => *written += count,
        }
    }
    Ok(*written == bytes.len())
}

/// The answer to a request; `None`: it is incomplete.
fn respond(request: &[u8], answer: impl FnOnce(&Request<'_, '_>) -> Answer) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(Status::Complete(_)) => Some(answer(&parsed)),
        Ok(Status::Partial) if request.len() < LONGEST => None,
        Ok(Status::Partial) => Some(Answer::said("431 Request Header Fields Too Large", "the request is too long")),
        Err(_) => Some(Answer::said("400 Bad Request", "that is no request")),
    }
}
