//! The fields of a packet from which the hashes of its connection are computed.

use core::str::FromStr;

use crate::error::{TrafficError, by_name};
use crate::header::{FlowKey, Network};

/// The fields from which the hashes of a connection are computed.
///
/// Network cards hash addresses alone for fragments, for protocols without ports, and if RSS is configured
/// without ports. Packets that are not IP have neither ports nor an IP protocol: both choices hash them alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HashFields {
    /// The protocol, both addresses and both ports: each connection has a hash of its own.
    #[default]
    Ports,
    /// Both addresses: all connections between two hosts have one hash.
    Addresses,
}

impl HashFields {
    const NAMES: [(&'static str, Self); 2] = [("ports", Self::Ports), ("addresses", Self::Addresses)];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ports => Self::NAMES[0].0,
            Self::Addresses => Self::NAMES[1].0,
        }
    }

    /// Returns the key to hash for a flow: the same for both directions, and without the fields that do not
    /// count.
    #[inline]
    pub(crate) fn of(self, key: &FlowKey) -> FlowKey {
        match (self, key.network) {
            (Self::Ports, _) | (_, Network::Other { .. }) => key.connection(),
            (Self::Addresses, Network::Ipv4 | Network::Ipv6) => {
                FlowKey { protocol: 0, source_port: 0, destination_port: 0, ..*key }.connection()
            }
        }
    }
}

impl FromStr for HashFields {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Self, TrafficError> {
        by_name("fields to hash", text, &Self::NAMES)
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;
    use crate::header::KeyHasher;

    fn key(network: Network, protocol: u8, (source, from): (u8, u16), (destination, to): (u8, u16)) -> FlowKey {
        FlowKey {
            network,
            protocol,
            source: [source; 16],
            destination: [destination; 16],
            source_port: from,
            destination_port: to,
        }
    }

    #[test]
    fn connections_between_two_hosts_have_one_hash_of_addresses() {
        let hasher = KeyHasher::new(Seed(1)).with_fields(HashFields::Addresses);
        for network in [Network::Ipv4, Network::Ipv6] {
            let web = key(network, 6, (1, 5000), (2, 80));
            let hashes = hasher.steering(&web);
            // The lower endpoint of the second is the other host, if ports count.
            for other in [key(network, 6, (1, 5001), (2, 80)), key(network, 17, (2, 53), (1, 53))] {
                assert_eq!(hasher.steering(&other), hashes);
                assert_eq!(hasher.steering(&other.reversed()), hashes);
            }
            let elsewhere = hasher.steering(&key(network, 6, (1, 5000), (3, 80)));
            assert!(elsewhere.key != hashes.key && elsewhere.rss != hashes.rss);
            // As the hash of a fragment, which has no ports.
            let fragment = KeyHasher::new(Seed(1)).steering(&key(network, 6, (2, 0), (1, 0)));
            assert_eq!(hashes.rss, fragment.rss);
        }
    }

    #[test]
    fn connections_have_hashes_of_their_own_by_ports() {
        let (plain, by_ports) = (KeyHasher::new(Seed(1)), KeyHasher::new(Seed(1)).with_fields(HashFields::Ports));
        let web = key(Network::Ipv4, 6, (1, 5000), (2, 80));
        assert_eq!(by_ports.steering(&web), plain.steering(&web));
        assert_eq!(by_ports.steering(&web.reversed()), plain.steering(&web));
        let next = by_ports.steering(&key(Network::Ipv4, 6, (1, 5001), (2, 80)));
        assert!(next.key != plain.steering(&web).key && next.rss != plain.steering(&web).rss);
    }

    #[test]
    fn what_is_not_ip_has_the_same_hashes_either_way() {
        let arp = key(Network::Other { link: 1, ether_type: 0x0806 }, 0, (1, 0), (2, 0));
        let by_addresses = KeyHasher::new(Seed(1)).with_fields(HashFields::Addresses);
        assert_eq!(by_addresses.steering(&arp), KeyHasher::new(Seed(1)).steering(&arp));
    }

    #[test]
    fn names_read_back() {
        for fields in [HashFields::Ports, HashFields::Addresses] {
            assert_eq!(fields.name().parse::<HashFields>().unwrap(), fields);
        }
        let error = "adresses".parse::<HashFields>().unwrap_err().to_string();
        assert!(error.contains("did you mean `addresses`?"), "{error}");
    }
}
