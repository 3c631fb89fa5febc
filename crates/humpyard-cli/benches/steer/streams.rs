//! TCP connections from the sender's namespace to the receiver's.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::bed::Bed;
use crate::traffic::STREAMS;

const RECEIVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 9, 1, 2), 5_001);
/// How long a connection waits before it looks whether all is over.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes that are written and read at once.
const PIECE: usize = 1 << 16;

/// Sends by all connections as fast as TCP does, until `over`; `received` counts bytes.
pub(crate) fn send(bed: &Bed, received: &AtomicU64, over: &AtomicBool) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("TCP: {error}");
    let listener = bed.right().within(|| TcpListener::bind(RECEIVER)).map_err(failed)?;
    let connect = || TcpStream::connect_timeout(&SocketAddr::from(RECEIVER), Duration::from_secs(10));
    let pairs = (0..STREAMS).map(|_| Ok((bed.left().within(connect)?, listener.accept()?.0)));
    let pairs: Vec<(TcpStream, TcpStream)> = pairs.collect::<Result<_, _>>().map_err(failed)?;
    thread::scope(|scope| {
        for (sender, receiver) in &pairs {
            scope.spawn(|| {
                bed.on_first();
                write(sender, over);
            });
            scope.spawn(|| {
                bed.on_second();
                read(receiver, received, over);
            });
        }
    });
    Ok(())
}

fn write(mut stream: &TcpStream, over: &AtomicBool) {
    let piece = vec![7; PIECE];
    let _ = stream.set_write_timeout(Some(PATIENCE));
    while !over.load(Ordering::Relaxed) {
        match stream.write(&piece) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
}

fn read(mut stream: &TcpStream, received: &AtomicU64, over: &AtomicBool) {
    let mut piece = vec![0; PIECE];
    let _ = stream.set_read_timeout(Some(PATIENCE));
    while !over.load(Ordering::Relaxed) {
        match stream.read(&mut piece) {
            Ok(bytes) => _ = received.fetch_add(bytes as u64, Ordering::Relaxed),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
}

/// Segments that the sender's namespace has sent, and those of them that it sent again.
pub(crate) fn segments(bed: &Bed) -> Result<[u64; 2], String> {
    let text = bed.left().within(|| std::fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.map_err(|error| format!("/proc/net/snmp: {error}"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = lines.next().zip(lines.next()).ok_or("the kernel counts no segments")?;
    let value = |wanted: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    Ok(["OutSegs", "RetransSegs"].map(value))
}
