//! Fetching a snapshot from a run.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use super::document::Snapshot;

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The text is no address.
    #[error("`{0}` is no address: give a host and a port, such as 127.0.0.1:9464 or [::1]:9464")]
    Address(String),
    /// Nobody answers there.
    #[error("{address}: {error}")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// A run is there, and busy.
    #[error("{0}: the run did not answer in time")]
    Late(String),
    /// What answers is something else.
    #[error("{0}: what answers there is no run of humpyard")]
    Other(String),
}

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// How the run stands whose metrics are at this address.
///
/// # Errors
/// If there is no such address, nobody answers there in time, or it is not such a run.
pub fn fetch(address: &str) -> Result<Snapshot, FetchError> {
    let unreachable = |error| FetchError::Unreachable { address: address.to_owned(), error };
    let other = || FetchError::Other(address.to_owned());
    let answer = get(address)?.map_err(unreachable)?;
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(body)) = response.parse(&answer) else { return Err(other()) };
    match response.code {
        Some(200) => serde_json::from_slice(&answer[body..]).map_err(|_| other()),
        Some(503) => Err(FetchError::Late(address.to_owned())),
        _ => Err(other()),
    }
}

/// Everything that is answered; the server ends the connection behind it.
fn get(address: &str) -> Result<io::Result<Vec<u8>>, FetchError> {
    let wrong = || FetchError::Address(address.to_owned());
    let addresses: Vec<_> = address.to_socket_addrs().map_err(|_| wrong())?.collect();
    let mut last = Err(wrong());
    for resolved in addresses {
        last = Ok(TcpStream::connect_timeout(&resolved, PATIENCE).and_then(|stream| exchange(stream, address)));
        if let Ok(Ok(_)) = last {
            break;
        }
    }
    last
}

fn exchange(mut stream: TcpStream, address: &str) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream
        .write_all(format!("GET /snapshot.json HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(answer)
}
