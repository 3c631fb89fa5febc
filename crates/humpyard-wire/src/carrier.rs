//! Whether the other end of an interface's cable is up.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::ethtool::ask_driver;
use crate::interface::{Interface, has_carrier};
use crate::system::socket;

const GET_LINK: u32 = 0x0a;
/// Time between two questions to the driver, which take a lock of the whole system.
const ASKED_EVERY: Duration = Duration::from_millis(10);

/// Tells whether an interface and the other end of its cable are up.
pub(crate) struct Carrier {
    /// By which the system is asked: not every socket of a port can.
    asking: OwnedFd,
    /// When the driver was asked last.
    asked: Option<Instant>,
}

impl Carrier {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { asking: socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?, asked: None })
    }

    /// Returns whether both ends are up. The system hears of a change some time after the driver; so the driver is
    /// asked too, now and then, and the system hears of it then.
    #[cold]
    pub(crate) fn is_on(&mut self, interface: &Interface) -> bool {
        if !has_carrier(&self.asking, &interface.name) {
            return false;
        }
        if self.asked.is_some_and(|asked| asked.elapsed() < ASKED_EVERY) {
            return true;
        }
        self.asked = Some(Instant::now());
        // The command, and whether there is a link.
        let mut answer = [GET_LINK, 1];
        ask_driver(&self.asking, &interface.name, &mut answer).is_err() || answer[1] != 0
    }
}
