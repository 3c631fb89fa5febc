//! Live network interfaces: where a run takes its packets from the wire, and puts them there.
//!
//! A port is named `KIND:INTERFACE[:name=value,...]`, or `nfqueue:NUMBER`. This crate talks to the kernel, and so has
//! `unsafe` code, each piece with its reason; everything above it has none.
//!
//! [`open`] opens the [`Ports`] of a run: a source and a sink of `humpyard-traffic`. It needs the privileges of the
//! kernel's sockets; [`drop_privileges`] gives them up afterwards.
//!
//! ```
//! let read = || humpyard_traffic::open("gen:poisson:packets=10", humpyard_core::random::Seed(1));
//! let input = ["iface:no-such-0".to_owned()];
//! assert!(humpyard_wire::needed(&input, "out.pcap"));
//! assert!(!humpyard_wire::needed(&["in.pcap".to_owned()], "out.pcap"));
//!
//! let opened = humpyard_wire::open(&input, "null", false, read, humpyard_traffic::create);
//! let error = opened.err().expect("there is no such interface");
//! assert!(error.to_string().contains("no-such-0"), "{error}");
//! ```

mod assembler;
mod bpf;
mod btf;
mod carrier;
mod connection_hash;
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
pub use self::steer::{
    BareProgram, BucketCounters, CPU_MAP_SIZE, FLOW_SAMPLE, FlowCount, HandOver, Hashing, IndirectionTable,
    NapiThreads, PacketCount, PinnedTable, ProcessorCount, ReceiveSteering, ThreadTime, processors, receive_masks,
};

/// Waits until one of these has something to read.
pub(crate) fn wait(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut asked: Vec<PollFd<'_>> =
        descriptors.iter().map(|&descriptor| PollFd::new(descriptor, PollFlags::POLLIN)).collect();
    match poll(&mut asked, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
