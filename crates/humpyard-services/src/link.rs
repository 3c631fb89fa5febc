//! Link headers: where the IP header of a frame starts, and to which stations the frame is addressed.

use core::fmt;
use core::str::FromStr;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::policy::ParameterValue;

use crate::service::DropReason;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the outer tag of equipment older than 802.1ad.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Most VLAN tags to skip. Two are usual; a higher limit would only make the search longer.
const VLAN_TAGS_MAX: usize = 4;

const ETHERNET_BYTES: usize = 14;
const COOKED_BYTES: usize = 16;
const COOKED_2_BYTES: usize = 20;
const LOOPBACK_BYTES: usize = 4;

/// Packet types of a Linux cooked header: to all stations, to a group of stations, sent by the capturing
/// machine.
const COOKED_BROADCAST: u8 = 1;
const COOKED_MULTICAST: u8 = 2;
const COOKED_OUTGOING: u8 = 4;

/// The version of the Internet Protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The IP header that follows a link header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// Where the IP header starts, in bytes from the start of the frame. At least one byte of it was captured.
    pub offset: usize,
    /// The version that the link header names. For raw IP, the version field.
    pub version: IpVersion,
    /// Whether the frame was addressed to a group of stations (multicast or broadcast). Always false for links
    /// without addresses.
    pub group: bool,
}

impl Network {
    /// Finds the IP header of a frame: behind Ethernet with any VLAN tags, Linux cooked headers, BSD loopback,
    /// or no link header.
    ///
    /// # Errors
    /// [`DropReason::NotIp`] if another protocol follows, [`DropReason::Truncated`] if the captured bytes end
    /// first.
    #[inline]
    pub fn find(frame: &Frame) -> Result<Self, DropReason> {
        let data = &frame.data;
        match frame.link {
            LinkType::Ethernet => {
                let ethertype = word(data, 12)?;
                behind_tags(data, ethertype, ETHERNET_BYTES, data[0] & 1 == 1)
            }
            LinkType::LinuxCooked => {
                let protocol = word(data, 14)?;
                behind_tags(data, protocol, COOKED_BYTES, data[0] == 0 && is_cooked_group(data[1]))
            }
            LinkType::LinuxCooked2 => {
                let header = data.get(..COOKED_2_BYTES).ok_or(DropReason::Truncated)?;
                behind_tags(data, word(header, 0)?, COOKED_2_BYTES, is_cooked_group(header[10]))
            }
            LinkType::RawIp => by_version_field(data),
            LinkType::Loopback => by_address_family(data),
            LinkType::Other(_) => Err(DropReason::NotIp),
        }
    }
}

const fn is_cooked_group(packet_type: u8) -> bool {
    matches!(packet_type, COOKED_BROADCAST | COOKED_MULTICAST)
}

/// Returns the 16-bit word at `at`, in network order.
fn word(data: &[u8], at: usize) -> Result<u16, DropReason> {
    match data.get(at..at + 2) {
        Some(bytes) => Ok(u16::from_be_bytes([bytes[0], bytes[1]])),
        None => Err(DropReason::Truncated),
    }
}

/// Skips VLAN tags. `ethertype` is the type of the data at `offset`. If it is a tag, the data are the tag's
/// control information, then the next EtherType.
#[inline]
fn behind_tags(data: &[u8], mut ethertype: u16, mut offset: usize, group: bool) -> Result<Network, DropReason> {
    for _ in 0..=VLAN_TAGS_MAX {
        let version = match ethertype {
            ETHERTYPE_IPV4 => IpVersion::V4,
            ETHERTYPE_IPV6 => IpVersion::V6,
            tag if ETHERTYPES_VLAN.contains(&tag) => {
                ethertype = word(data, offset + 2)?;
                offset += 4;
                continue;
            }
            _ => return Err(DropReason::NotIp),
        };
        return at_least_one_byte(data, Network { offset, version, group });
    }
    Err(DropReason::NotIp)
}

fn by_version_field(data: &[u8]) -> Result<Network, DropReason> {
    let version = match data.first().ok_or(DropReason::Truncated)? >> 4 {
        4 => IpVersion::V4,
        6 => IpVersion::V6,
        _ => return Err(DropReason::NotIp),
    };
    Ok(Network { offset: 0, version, group: false })
}

/// Reads the address family, whose byte order is that of the capturing machine. It is small, so the order
/// shows. IPv4 is 2 everywhere; IPv6 is 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on Darwin, 10 on Linux.
fn by_address_family(data: &[u8]) -> Result<Network, DropReason> {
    let family = *data.first_chunk::<LOOPBACK_BYTES>().ok_or(DropReason::Truncated)?;
    let version = match u32::from_le_bytes(family).min(u32::from_be_bytes(family)) {
        2 => IpVersion::V4,
        10 | 24 | 28 | 30 => IpVersion::V6,
        _ => return Err(DropReason::NotIp),
    };
    at_least_one_byte(data, Network { offset: LOOPBACK_BYTES, version, group: false })
}

const fn at_least_one_byte(data: &[u8], network: Network) -> Result<Network, DropReason> {
    if network.offset < data.len() { Ok(network) } else { Err(DropReason::Truncated) }
}

/// Turns the link header of a received frame into that of the answer. `router` is the address of the answering
/// station, if the received header does not have it.
pub(crate) fn answer(header: &mut [u8], link: LinkType, router: Mac) {
    match link {
        LinkType::Ethernet => {
            if let Some((destination, source)) = header.get_mut(..12).map(|macs| macs.split_at_mut(6)) {
                destination.swap_with_slice(source);
            }
        }
        // Cooked headers carry only the sender's address; the sender is now the router.
        LinkType::LinuxCooked => {
            if let Some(header) = header.first_chunk_mut::<COOKED_BYTES>() {
                header[..2].copy_from_slice(&[0, COOKED_OUTGOING]);
                header[4..6].copy_from_slice(&[0, 6]);
                header[6..14].copy_from_slice(&router.padded());
            }
        }
        LinkType::LinuxCooked2 => {
            if let Some(header) = header.first_chunk_mut::<COOKED_2_BYTES>() {
                header[10..12].copy_from_slice(&[COOKED_OUTGOING, 6]);
                header[12..20].copy_from_slice(&router.padded());
            }
        }
        LinkType::RawIp | LinkType::Loopback | LinkType::Other(_) => {}
    }
}

/// Changes the version in a link header: the IP packet at `offset` has now the other version.
///
/// The address family of IPv6 in a loopback header differs between systems; this writes that of Darwin.
pub(crate) fn announce(data: &mut [u8], link: LinkType, offset: usize, version: IpVersion) {
    let ethertype = match version {
        IpVersion::V4 => ETHERTYPE_IPV4,
        IpVersion::V6 => ETHERTYPE_IPV6,
    };
    let at = match link {
        LinkType::RawIp | LinkType::Other(_) => return,
        LinkType::Loopback => {
            let known = by_address_family(data).is_ok_and(|network| network.version == version);
            if let Some(family) = data.first_chunk_mut::<LOOPBACK_BYTES>().filter(|_| !known) {
                let small: u32 = if version == IpVersion::V4 { 2 } else { 30 };
                let is_little = family[0] != 0;
                *family = if is_little { small.to_le_bytes() } else { small.to_be_bytes() };
            }
            return;
        }
        LinkType::LinuxCooked2 if offset == COOKED_2_BYTES => 0,
        LinkType::Ethernet | LinkType::LinuxCooked | LinkType::LinuxCooked2 => offset.saturating_sub(2),
    };
    if let Some(field) = data.get_mut(at..at + 2) {
        field.copy_from_slice(&ethertype.to_be_bytes());
    }
}

/// Writes new addresses into an Ethernet frame. Other links have no destination, and stay as they are.
#[inline]
pub(crate) fn readdress(frame: &mut Frame, destination: Mac, source: Mac) {
    if frame.link == LinkType::Ethernet
        && let Some(macs) = frame.data.first_chunk_mut::<12>()
    {
        macs[..6].copy_from_slice(&destination.0);
        macs[6..].copy_from_slice(&source.0);
    }
}

/// A MAC address. As text: six bytes in hexadecimal with colons or hyphens between, such as `02:00:00:00:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Returns whether it addresses a group of stations (multicast or broadcast) instead of one.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Returns the eight address bytes of a cooked header.
    const fn padded(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        [a, b, c, d, e, f, 0, 0]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The error for text that is not a MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a MAC address; accepted: six bytes in hexadecimal, such as 02:00:00:00:00:01")]
pub struct MacError(());

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let mut mac = [0; 6];
        let mut bytes = text.split([':', '-']);
        for byte in &mut mac {
            let digits =
                bytes.next().filter(|digits| digits.len() == 2 && !digits.starts_with('+')).ok_or(MacError(()))?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| MacError(()))?;
        }
        if bytes.next().is_some() { Err(MacError(())) } else { Ok(Self(mac)) }
    }
}

impl ParameterValue for Mac {
    const ACCEPTS: &'static str = "the MAC address of one station";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|mac: &Self| !mac.is_group())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(link: LinkType, data: &[u8]) -> Result<(usize, IpVersion, bool), DropReason> {
        let frame = Frame { link, data: data.to_vec(), ..Frame::default() };
        Network::find(&frame).map(|n| (n.offset, n.version, n.group))
    }

    fn ethernet(first: u8, tail: &[u8]) -> Vec<u8> {
        let mut data = vec![0; 12];
        data[0] = first;
        data.extend(tail);
        data
    }

    #[test]
    fn behind_ethernet() {
        use DropReason::{NotIp, Truncated};
        use IpVersion::{V4, V6};
        let find = |first, tail: &[u8]| find(LinkType::Ethernet, &ethernet(first, tail));
        assert_eq!(find(2, &[0x08, 0x00, 0x45]), Ok((14, V4, false)));
        assert_eq!(find(1, &[0x86, 0xdd, 0x60]), Ok((14, V6, true)));
        assert_eq!(find(0xff, &[0x81, 0x00, 0, 5, 0x08, 0x00, 0x45]), Ok((18, V4, true)));
        assert_eq!(find(2, &[0x88, 0xa8, 0, 5, 0x81, 0x00, 0, 6, 0x86, 0xdd, 0x60]), Ok((22, V6, false)));
        assert_eq!(find(2, &[0x81, 0x00].repeat(12)), Err(NotIp));
        assert_eq!(find(2, &[0x08, 0x06, 0]), Err(NotIp));
        for short in [&[][..], &[8], &[8, 0], &[0x81, 0], &[0x81, 0, 0, 5, 8], &[0x81, 0, 0, 5, 8, 0]] {
            assert_eq!(find(2, short), Err(Truncated), "{short:?}");
        }
    }

    #[test]
    fn behind_cooked_headers() {
        use IpVersion::{V4, V6};
        let mut cooked = [0; 21];
        cooked[14] = 0x08;
        assert_eq!(find(LinkType::LinuxCooked, &cooked), Ok((16, V4, false)));
        cooked[1] = COOKED_BROADCAST;
        assert_eq!(find(LinkType::LinuxCooked, &cooked), Ok((16, V4, true)));
        cooked[14..20].copy_from_slice(&[0x81, 0, 0, 5, 0x86, 0xdd]);
        assert_eq!(find(LinkType::LinuxCooked, &cooked), Ok((20, V6, true)));
        assert_eq!(find(LinkType::LinuxCooked, &cooked[..20]), Err(DropReason::Truncated));
        let mut cooked = [0; 21];
        cooked[..2].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(find(LinkType::LinuxCooked2, &cooked), Ok((20, V6, false)));
        cooked[10] = COOKED_MULTICAST;
        assert_eq!(find(LinkType::LinuxCooked2, &cooked), Ok((20, V6, true)));
        assert_eq!(find(LinkType::LinuxCooked2, &cooked[..19]), Err(DropReason::Truncated));
    }

    #[test]
    fn without_addresses() {
        use IpVersion::{V4, V6};
        assert_eq!(find(LinkType::RawIp, &[0x45]), Ok((0, V4, false)));
        assert_eq!(find(LinkType::RawIp, &[0x60]), Ok((0, V6, false)));
        assert_eq!(find(LinkType::RawIp, &[0x50]), Err(DropReason::NotIp));
        assert_eq!(find(LinkType::RawIp, &[]), Err(DropReason::Truncated));
        assert_eq!(find(LinkType::Loopback, &[2, 0, 0, 0, 0x45]), Ok((4, V4, false)));
        assert_eq!(find(LinkType::Loopback, &[0, 0, 0, 30, 0x60]), Ok((4, V6, false)));
        assert_eq!(find(LinkType::Loopback, &[7, 0, 0, 0, 0x60]), Err(DropReason::NotIp));
        assert_eq!(find(LinkType::Loopback, &[2, 0, 0, 0]), Err(DropReason::Truncated));
        assert_eq!(find(LinkType::Other(105), &[0x45; 60]), Err(DropReason::NotIp));
    }

    #[test]
    fn mac_addresses_as_text() {
        let mac: Mac = "02:00:5e:10:00:Ff".parse().unwrap();
        assert_eq!(mac, Mac([2, 0, 0x5e, 0x10, 0, 0xff]));
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        assert_eq!("02-00-5e-10-00-ff".parse(), Ok(mac));
        for bad in
            ["", "02:00:5e:10:00", "02:00:5e:10:00:ff:00", "2:0:5e:10:0:ff", "+2:00:5e:10:00:ff", "02:00:5e:10:00:gg"]
        {
            assert_eq!(bad.parse::<Mac>(), Err(MacError(())), "{bad}");
        }
        assert!(!mac.is_group());
        assert!(Mac([0xff; 6]).is_group());
    }
}
