//! VLAN tags of frames that come in, where no program of ours can put them back: the driver is to leave them in.
//!
//! # Source
//! `include/uapi/linux/ethtool.h` of the kernel.

use core::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use crate::ethtool::ask_driver;
use crate::interface::Interface;
use crate::privilege;
use crate::system::socket;

const GET_DRIVER: u32 = 0x03;
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
/// The driver takes VLAN tags out of frames that come in: `rxvlan` of ethtool(8).
const TAKES_TAGS_OUT: u32 = 1 << 8;
/// The driver of virtual cables. It gives frames as the other end sends them, whatever its own `rxvlan` is.
const VIRTUAL_CABLE: &[u8] = b"veth";

/// Switches of an interface (`struct ethtool_value`).
#[repr(C)]
struct Flags {
    command: u32,
    flags: u32,
}

/// What a driver says of itself (`struct ethtool_drvinfo`).
#[repr(C)]
struct Driver {
    command: u32,
    name: [u8; 32],
    rest: [u8; 160],
}

/// What becomes of tags.
#[derive(Debug)]
pub(super) enum Tags {
    /// The driver leaves them in frames: as it does anyway, or as long as this lives.
    Stay(#[expect(dead_code, reason = "held open: dropping it puts the switch back")] Option<Restored>),
    /// They are lost, for this reason, which says what to do.
    Lost(String),
}

impl Tags {
    /// Has the driver leave the tags in frames.
    pub(super) fn of(interface: &Interface) -> Self {
        let name = &interface.name;
        if is_virtual_cable(&interface.name) {
            return Self::Lost(format!(
                "VLAN tags are lost that the other end of `{name}` leaves to its driver: \
                 there, say ethtool -K NAME txvlan off"
            ));
        }
        match Restored::switch_off(interface) {
            Ok(restored) => Self::Stay(restored),
            Err(error) => Self::Lost(format!(
                "VLAN tags are lost that the driver of `{name}` takes out of frames, for rxvlan cannot be switched off \
                 ({error}): use iface:{name} for frames with tags"
            )),
        }
    }
}

/// Whether an interface is an end of a virtual cable (veth).
pub(crate) fn is_virtual_cable(interface: &str) -> bool {
    let Ok(asking) = socket(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return false };
    let mut driver = Driver { command: GET_DRIVER, name: [0; 32], rest: [0; 160] };
    ask_driver(&asking, interface, &mut driver).is_ok()
        && driver.name.split(|&byte| byte == 0).next() == Some(VIRTUAL_CABLE)
}

/// A switch that is off, and on again when this is dropped.
#[derive(Debug)]
pub(super) struct Restored {
    /// Its end is the word to switch on.
    until: Option<Sender<Infallible>>,
    waiting: Option<JoinHandle<()>>,
}

impl Restored {
    /// Switches `rxvlan` off. `None`: it is off already.
    ///
    /// A thread waits to switch it on. It has a privilege that the rest of the program gives up meanwhile.
    fn switch_off(interface: &Interface) -> io::Result<Option<Self>> {
        let switch = Switch::of(interface)?;
        if switch.flags()? & TAKES_TAGS_OUT == 0 {
            return Ok(None);
        }
        // First, so that the switch is not left off if there is no thread.
        let restored = Self::waiting(Switch::of(interface)?)?;
        switch.set(false)?;
        if switch.flags()? & TAKES_TAGS_OUT != 0 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it stays on"));
        }
        Ok(Some(restored))
    }

    /// Starts the thread.
    fn waiting(switch: Switch) -> io::Result<Self> {
        let (until, end) = mpsc::channel::<Infallible>();
        let wait = move || {
            // If that fails, it has more than it needs.
            let _ = privilege::keep_only_network_administration();
            let _ = end.recv();
            // The interface may be gone; there is nothing to put back then.
            let _ = switch.set(true);
        };
        let waiting = thread::Builder::new().name("rxvlan".to_owned()).spawn(wait)?;
        Ok(Self { until: Some(until), waiting: Some(waiting) })
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        self.until = None;
        if let Some(waiting) = self.waiting.take() {
            // It does not panic.
            let _ = waiting.join();
        }
    }
}

/// `rxvlan` of an interface.
struct Switch {
    asking: OwnedFd,
    interface: String,
}

impl Switch {
    fn of(interface: &Interface) -> io::Result<Self> {
        Ok(Self { asking: socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?, interface: interface.name.clone() })
    }

    fn flags(&self) -> io::Result<u32> {
        let mut flags = Flags { command: GET_FLAGS, flags: 0 };
        ask_driver(&self.asking, &self.interface, &mut flags)?;
        Ok(flags.flags)
    }

    fn set(&self, is_on: bool) -> io::Result<()> {
        let others = self.flags()? & !TAKES_TAGS_OUT;
        let flags = others | if is_on { TAKES_TAGS_OUT } else { 0 };
        ask_driver(&self.asking, &self.interface, &mut Flags { command: SET_FLAGS, flags })
    }
}

#[cfg(test)]
mod tests {
    use humpyard_testkit::network::{Namespace, join, turn};

    use super::*;

    #[test]
    fn attributes_are_laid_out_as_the_kernel_reads_them() {
        assert_eq!((size_of::<Flags>(), size_of::<Driver>()), (8, 196));
    }

    #[test]
    fn what_is_switched_off_is_switched_on_again() {
        let Some(_turn) = turn() else { return };
        let (one, other) = (Namespace::make(), Namespace::make());
        join(&one, "a", &other, "b");
        one.within(|| {
            let interface = Interface::ready("xdp:a", "a").unwrap();
            let switch = Switch::of(&interface).unwrap();
            let is_on = || switch.flags().unwrap() & TAKES_TAGS_OUT != 0;
            assert!(is_on());
            let restored = Restored::switch_off(&interface).unwrap().expect("it was on");
            // The thread that waits needs nothing of this one.
            privilege::drop_privileges(&[]).unwrap();
            assert!(!is_on());
            assert!(Restored::switch_off(&interface).unwrap().is_none(), "it is off already");
            drop(restored);
            assert!(is_on());
        });
    }

    #[test]
    fn a_virtual_cable_says_what_to_do_at_its_other_end() {
        let Some(_turn) = turn() else { return };
        let (one, other) = (Namespace::make(), Namespace::make());
        join(&one, "a", &other, "b");
        let tags = one.within(|| Tags::of(&Interface::ready("xdp:a", "a").unwrap()));
        assert!(matches!(&tags, Tags::Lost(why) if why.contains("txvlan off")), "{tags:?}");
    }
}
