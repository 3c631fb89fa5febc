//! Live network interfaces: where a run takes its packets from the wire, and puts them there.
//!
//! A port is named `KIND:INTERFACE[:name=value,...]`, or `nfqueue:NUMBER`. This crate talks to the kernel, and so has
//! `unsafe` code, each piece with its reason; everything above it has none.

mod assembler;
mod bpf;
mod btf;
mod carrier;
mod ethtool;
mod interface;
mod nfqueue;
mod note;
mod offload;
mod packet_socket;
mod port;
mod ports;
mod privilege;
mod steer;
mod system;
mod tun;
mod xdp;

use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub use self::note::Note;
pub use self::packet_socket::{BUCKETS, FanOutTable};
pub use self::ports::{FannedOut, Ports, absent, mtu, needed, open, open_fanned_out};
pub use self::privilege::{drop_privileges, may_share};
pub use self::steer::{BucketCounters, FLOW_SAMPLE, FlowCount, Hashing, PacketCount, ProcessorCount, processors};

/// Waits until one of these has something to read.
pub(crate) fn wait(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut asked: Vec<PollFd<'_>> =
        descriptors.iter().map(|&descriptor| PollFd::new(descriptor, PollFlags::POLLIN)).collect();
    match poll(&mut asked, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
