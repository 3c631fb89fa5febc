//! A network interface of this machine: its number, what it is and what it passes on.

use core::cell::Cell;
use core::mem;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use humpyard_traffic::TrafficError;
use nix::net::if_::{if_nameindex, if_nametoindex};

use crate::system::{checked, option, socket};

/// The longest header of a frame that does not count for the MTU: Ethernet and two VLAN tags, in bytes.
pub(crate) const LINK_HEADER_MAX: usize = 14 + 2 * 4;

/// A network interface, by name and number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: i32,
    /// The longest packet that it passes on, in bytes, without the Ethernet header.
    pub(crate) mtu: usize,
    /// Whether it has been set up.
    pub(crate) is_up: bool,
    /// Whether its frames begin with an Ethernet header.
    pub(crate) is_ethernet: bool,
}

impl Interface {
    /// Looks an interface up; `port` is how the user names it.
    pub(crate) fn find(port: &str, name: &str) -> Result<Self, TrafficError> {
        let refuse = |reason: String| TrafficError::unusable(port, reason);
        let index = if_nametoindex(name).map_err(|_| refuse(unknown(name)))?;
        let told = |error: io::Error| refuse(format!("the system does not tell what interface that is: {error}"));
        let asking = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(told)?;
        let mtu = request(&asking, name, libc::SIOCGIFMTU).map_err(told)?;
        let flags = request(&asking, name, libc::SIOCGIFFLAGS).map_err(told)?;
        let hardware = request(&asking, name, libc::SIOCGIFHWADDR).map_err(told)?;
        // SAFETY: the kernel has filled in the member of the union that each request is about; all are plain numbers.
        let (mtu, flags, family) =
            unsafe { (mtu.ifr_ifru.ifru_mtu, flags.ifr_ifru.ifru_flags, hardware.ifr_ifru.ifru_hwaddr.sa_family) };
        Ok(Self {
            name: name.to_owned(),
            index: i32::try_from(index).map_err(|_| refuse("its number is too great".to_owned()))?,
            mtu: usize::try_from(mtu).unwrap_or(0),
            is_up: i32::from(flags) & libc::IFF_UP != 0,
            is_ethernet: matches!(family, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
        })
    }

    /// Looks up an interface of Ethernet frames that is up.
    pub(crate) fn ready(port: &str, name: &str) -> Result<Self, TrafficError> {
        let interface = Self::find(port, name)?;
        if !interface.is_ethernet {
            return Err(TrafficError::unusable(
                port,
                format!("`{name}` has no Ethernet frames; tun:NAME takes bare IP packets"),
            ));
        }
        if !interface.is_up {
            return Err(TrafficError::unusable(port, format!("`{name}` is down: ip link set {name} up")));
        }
        Ok(interface)
    }

    /// The longest frame that it passes on, in bytes.
    pub(crate) const fn frame_bytes_max(&self) -> usize {
        self.mtu + LINK_HEADER_MAX
    }
}

/// Whether an interface that was opened is still there: it may be removed, or given to another network namespace, while
/// a run goes on.
#[derive(Debug)]
pub(crate) struct Presence {
    name: String,
    index: u32,
    /// It has been down, as it is before it goes away.
    was_down: Cell<bool>,
    is_lost: Cell<bool>,
}

impl Presence {
    pub(crate) fn of(interface: &Interface) -> Self {
        Self {
            name: interface.name.clone(),
            index: interface.index.unsigned_abs(),
            was_down: Cell::new(false),
            is_lost: Cell::new(false),
        }
    }

    /// Looks for the interface once its socket has had an error, as it has when the interface goes down, and not again
    /// when it goes away. Call it each time before waiting for the socket: until the error is read, it wakes the
    /// waiting thread again and again.
    pub(crate) fn look(&self, socket: &OwnedFd) {
        let error: io::Result<i32> = option(socket, libc::SOL_SOCKET, libc::SO_ERROR);
        if !matches!(error, Ok(0)) {
            self.was_down.set(true);
        }
        // Another of that name is not the one that the socket is bound to.
        if self.was_down.get() && if_nametoindex(self.name.as_str()) != Ok(self.index) {
            self.is_lost.set(true);
        }
    }

    /// Nothing, as long as it is there.
    ///
    /// # Errors
    /// If it was not there any more when it was looked for.
    pub(crate) fn check(&self, port: &str) -> Result<(), TrafficError> {
        if self.is_lost.get() { Err(gone(port)) } else { Ok(()) }
    }
}

/// What to say of an interface that is there no more.
pub(crate) fn gone(port: &str) -> TrafficError {
    TrafficError::unusable(port, "the interface is gone: start again once it is back")
}

/// What to say of an interface that there is not.
fn unknown(name: &str) -> String {
    let names: Vec<String> = match if_nameindex() {
        Ok(all) => all.iter().map(|interface| interface.name().to_string_lossy().into_owned()).collect(),
        Err(_) => Vec::new(),
    };
    humpyard_core::name::unknown("interface", name, names.iter().map(String::as_str))
}

/// A request about an interface, with nothing but its name.
pub(crate) fn named_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: a request is numbers and bytes, of which all may be zero.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Asks the system one thing about an interface.
fn request(asking: &OwnedFd, name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = named_request(name)?;
    // SAFETY: the request has its full size, a name that ends with a zero, and outlives the call.
    checked(unsafe { libc::ioctl(asking.as_raw_fd(), what as _, &raw mut request) })?;
    Ok(request)
}

/// Returns whether an interface and the other end of its cable are up. `false` also if there is no interface of this
/// name.
pub(crate) fn has_carrier(asking: &OwnedFd, name: &str) -> bool {
    let flags = request(asking, name, libc::SIOCGIFFLAGS);
    // SAFETY: the kernel has filled in the member of the union that the request is about, a plain number.
    flags.is_ok_and(|flags| i32::from(unsafe { flags.ifr_ifru.ifru_flags }) & libc::IFF_RUNNING != 0)
}

/// What a system call that needs a privilege failed with, and the way out.
pub(crate) fn refused(port: &str, doing: &str, error: &io::Error) -> TrafficError {
    // An error with the verifier's words has no number.
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let reason = match error.raw_os_error() {
        _ if is_denied => {
            let (names, set) = needed(port);
            format!(
                "{doing} needs a privilege that this program has not: run it as root, or give it {names} (setcap {set}+ep)"
            )
        }
        _ => format!("{doing} failed: {error}"),
    };
    TrafficError::unusable(port, reason)
}

/// The capabilities that a kind of port needs, for people and for setcap(8).
fn needed(port: &str) -> (&'static str, &'static str) {
    match port.split(':').next() {
        Some("iface") => ("CAP_NET_RAW", "cap_net_raw"),
        Some("tun" | "nfqueue") => ("CAP_NET_ADMIN", "cap_net_admin"),
        Some("xdp") => ("CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF", "cap_net_raw,cap_net_admin,cap_bpf"),
        // Those that steer: the verifier trusts their pointers by CAP_PERFMON alone.
        _ => ("CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON", "cap_net_admin,cap_bpf,cap_perfmon"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_known() {
        let interface = Interface::find("iface:lo", "lo").unwrap();
        assert!(interface.index > 0 && interface.mtu >= 1500 && interface.is_ethernet, "{interface:?}");
    }

    #[test]
    fn an_unknown_interface_is_told_with_those_there_are() {
        let error = Interface::find("iface:l0", "l0").unwrap_err().to_string();
        assert!(error.starts_with("iface:l0: ") && error.contains("`lo`"), "{error}");
        assert!(Interface::find("iface:", "").is_err());
        assert!(Interface::find("iface:x", &"x".repeat(400)).is_err());
    }

    #[test]
    fn a_missing_privilege_is_told_with_the_remedy() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let text = refused("iface:lo", "opening it", &error).to_string();
        assert!(text.contains("run it as root") && text.contains("CAP_NET_RAW (setcap cap_net_raw+ep)"), "{text}");
        let text = refused("xdp:lo", "opening it", &error).to_string();
        assert!(text.contains("cap_net_raw,cap_net_admin,cap_bpf+ep"), "{text}");
    }
}
