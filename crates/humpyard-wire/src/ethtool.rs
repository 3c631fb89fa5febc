//! What a driver tells of its interface, and what can be set there.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::interface::named_request;
use crate::system::checked;

const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Asks the driver of an interface one thing; `data` begins with the number of the command, and is filled in.
pub(crate) fn ask_driver<T>(asking: &OwnedFd, interface: &str, data: &mut T) -> io::Result<()> {
    let mut request = named_request(interface)?;
    request.ifr_ifru.ifru_data = core::ptr::from_mut(data).cast();
    // SAFETY: the request has a name that ends with a zero and points to what the driver reads and fills in; both
    // outlive the call. Every caller's data are laid out as the command says, in full.
    checked(unsafe { libc::ioctl(asking.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
    Ok(())
}
