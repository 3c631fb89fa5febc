//! TUN devices: IP packets of the kernel's own stack, without any link.
//!
//! What the kernel routes to the device comes in; what goes out the kernel receives as if it came from a network. A device
//! that does not exist is made, and goes with the run; one that was made before (`ip tuntap add NAME mode tun`) stays.
//! The kernel completes checksums and cuts big packets itself before it hands them over.
//!
//! # Source
//! `Documentation/networking/tuntap.rst` of the kernel.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::SystemTime;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::params;
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::{Sent, Sink};
use humpyard_traffic::source::{Polled, Received, Source};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::interface::{gone, refused};

params! {
    /// Parameters of a TUN device.
    pub(crate) struct TunParams {
        /// The longest packet.
        mtu: u64 = 1_500, in 68..=65_535, unit "bytes";
        /// Packets that the kernel holds until somebody looks.
        queue: u64 = 1_000, in 1..=1_000_000, unit "packets";
    }
}

/// The kernel never hands over more at once.
const PACKET_BYTES_MAX: usize = 65_535;

/// An open device, for both directions.
#[derive(Clone)]
pub(crate) struct Tun {
    port: String,
    name: String,
    device: Arc<SyncDevice>,
    mtu: usize,
}

impl Tun {
    /// Makes the device, or takes the one there is; `port` is how the user names it.
    ///
    /// # Errors
    /// If another program has it, it is no TUN device, or the privilege is missing.
    pub(crate) fn open(port: &str, name: &str, params: &TunParams) -> Result<Self, TrafficError> {
        let builder = DeviceBuilder::new().name(name).layer(Layer::L3).mtu(params.mtu as u16);
        let built = builder.with(|only| {
            only.tx_queue_len(params.queue as u32);
        });
        let device = built.build_sync().map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => {
                TrafficError::unusable(port, format!("another program has `{name}`: end that, or take another name"))
            }
            Some(libc::EINVAL) => {
                TrafficError::unusable(port, format!("`{name}` exists but is not a TUN device: use another name"))
            }
            Some(libc::EACCES) => TrafficError::unusable(
                port,
                "/dev/net/tun cannot be opened: run as root, or let this user read and write it",
            ),
            Some(libc::ENOENT) => TrafficError::unusable(port, "this system has no TUN devices: modprobe tun"),
            _ => refused(port, "making a TUN device", &error),
        })?;
        device.set_nonblocking(true).map_err(|error| refused(port, "setting up a TUN device", &error))?;
        Ok(Self { port: port.to_owned(), name: name.to_owned(), device: Arc::new(device), mtu: params.mtu as usize })
    }

    /// Packets from the kernel.
    pub(crate) fn source(&self) -> TunSource {
        let received = Received { port: self.port.clone(), ..Received::default() };
        TunSource { tun: self.clone(), missed_before: missed(&self.name), received }
    }

    /// Packets to the kernel.
    pub(crate) fn sink(&self) -> TunSink {
        TunSink { tun: self.clone(), sent: Sent { port: self.port.clone(), ..Sent::default() } }
    }
}

/// Packets that the kernel could not queue for this device since that was made: its transmissions dropped.
fn missed(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|counts| counts.split_whitespace().nth(DROPPED)?.parse().ok()).unwrap_or(0)
}

/// Which of the numbers behind a device's name is that of transmissions dropped: the fourth of the second eight.
const DROPPED: usize = 8 + 3;

/// The packets that the kernel sends by the device.
pub(crate) struct TunSource {
    tun: Tun,
    /// What the kernel had dropped before this run.
    missed_before: u64,
    received: Received,
}

impl Source for TunSource {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        while self.poll(frame)? != Polled::Frame {
            crate::wait(&self.descriptors()).map_err(|error| TrafficError::unreadable(&self.tun.port, error))?;
        }
        Ok(true)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        frame.data.resize(PACKET_BYTES_MAX.min(self.tun.mtu), 0);
        match self.tun.device.recv(&mut frame.data) {
            Ok(bytes) => {
                frame.data.truncate(bytes);
                frame.wire_length = bytes as u32;
                frame.link = LinkType::RawIp;
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                frame.time = Time::from_ns(now.as_nanos() as u64);
                self.received.frames += 1;
                Ok(Polled::Frame)
            }
            Err(error) if is_passing(&error) => Ok(Polled::NotYet),
            Err(error) if is_gone(&error) => Err(gone(&self.tun.port)),
            Err(error) => Err(TrafficError::unreadable(&self.tun.port, error)),
        }
    }

    fn description(&self) -> &str {
        &self.tun.port
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.tun.device.as_fd()]
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        self.received.missed = missed(&self.tun.name).saturating_sub(self.missed_before);
        Ok(vec![self.received.clone()])
    }
}

/// The packets that the kernel receives by the device.
pub(crate) struct TunSink {
    tun: Tun,
    sent: Sent,
}

impl Sink for TunSink {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        if frame.link != LinkType::RawIp {
            return Err(TrafficError::output(
                &self.tun.port,
                "the packets have a link header, which this device does not take; use iface:NAME",
            ));
        }
        if frame.data.len() > self.tun.mtu {
            self.sent.too_long += 1;
            return Ok(());
        }
        match self.tun.device.send(&frame.data) {
            Ok(_) => self.sent.frames += 1,
            Err(error) if is_down(&error) || is_gone(&error) => self.sent.down += 1,
            Err(error) if is_passing(&error) => self.sent.full += 1,
            Err(error) => return Err(TrafficError::unwritable(&self.tun.port, error)),
        }
        Ok(())
    }

    fn sent(&self) -> Vec<Sent> {
        vec![self.sent.clone()]
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(self.sent.frames)
    }
}

/// Whether the device is there and only down.
fn is_down(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
}

/// Whether the device was removed.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

/// Whether there is nothing now, and may be later.
fn is_passing(error: &io::Error) -> bool {
    is_down(error)
        || matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}
