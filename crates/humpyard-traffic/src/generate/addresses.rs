//! Addresses and ports of generated flows. They look random, so that linear hashes such as Toeplitz spread
//! them, too.

use humpyard_core::hash::mix;
use humpyard_core::random::Seed;

use super::packet::{Endpoint, Side};
use super::permutation::Permutation;
use super::ports::PortLaw;
use super::protocol::Protocol;

/// Hosts of a side: all addresses of its prefix except the first and the last.
const CLIENTS: u64 = (1 << 24) - 2;
const SERVERS: u64 = (1 << 20) - 2;
/// Number of flows with different pairs of addresses.
const FLOWS_MAX: u64 = CLIENTS * SERVERS;
// The maximum of the parameter `flows` of the profiles.
const _: () = assert!(1 << 28 <= FLOWS_MAX);

/// The endpoints of flows by number, for one kind of flows.
///
/// The first 2^24 - 2 flows have different clients, and the first [`FLOWS_MAX`] different pairs of client and
/// server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    clients: Permutation,
    servers: u64,
    ports: u64,
}

impl Addresses {
    /// Returns the endpoints of the flows called `name`, from a random stream of their own.
    pub(super) fn new(seed: Seed, name: &str) -> Self {
        let mut random = seed.stream(&format!("traffic/{name}/addresses"));
        Self { clients: Permutation::new(CLIENTS, &mut random), servers: random.bits(), ports: random.bits() }
    }

    /// Returns client and server of a flow; the server's port is usual for the protocol.
    pub(super) fn ends(&self, flow: u64, protocol: Protocol) -> (Endpoint, Endpoint) {
        let port = PortLaw::of(protocol).map_or(0, |law| law.server((self.draw(flow) >> 32) as u32));
        self.ends_at(flow, protocol, port)
    }

    /// Returns client and server of a flow; the server has this port.
    pub(super) fn ends_at(&self, flow: u64, protocol: Protocol, port: u16) -> (Endpoint, Endpoint) {
        // Flows with the same client have consecutive servers.
        let server = mix(self.servers ^ (flow % CLIENTS)) % SERVERS + flow / CLIENTS;
        let server = Endpoint { side: Side::Server, host: 1 + (server % SERVERS) as u32, port };
        (self.client(flow, protocol), server)
    }

    /// Returns the client of a flow. For protocols without ports, the port is the identifier of its echos.
    pub(super) fn client(&self, flow: u64, protocol: Protocol) -> Endpoint {
        let draw = self.draw(flow) as u32;
        let port = PortLaw::of(protocol).map_or(draw as u16, |law| law.client(draw));
        Endpoint { side: Side::Client, host: self.client_host(flow), port }
    }

    /// Returns the host number of a flow's client.
    pub(super) fn client_host(&self, flow: u64) -> u32 {
        1 + self.clients.of(flow % CLIENTS) as u32
    }

    /// Returns one of several servers, which clients share.
    pub(super) fn server(&self, number: u64, port: u16) -> Endpoint {
        Endpoint { side: Side::Server, host: 1 + (mix(self.servers ^ number) % SERVERS) as u32, port }
    }

    /// Returns random bits of a flow: the upper half for the server's port, the lower half for the client's.
    fn draw(&self, flow: u64) -> u64 {
        mix(self.ports ^ flow)
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Pair = (([u8; 4], u16), ([u8; 4], u16));

    fn pair(addresses: &Addresses, flow: u64) -> Pair {
        let (client, server) = addresses.ends(flow, Protocol::Tcp);
        ((client.ipv4(), client.port), (server.ipv4(), server.port))
    }

    proptest! {
        #[test]
        fn flows_that_differ_have_addresses_that_differ(seed: u64, flows in prop::collection::btree_set(0..FLOWS_MAX, 2..50)) {
            let addresses = Addresses::new(Seed(seed), "test");
            let hosts: BTreeSet<_> = flows.iter().map(|&flow| {
                let (client, server) = addresses.ends(flow, Protocol::Udp);
                (client.host, server.host)
            }).collect();
            prop_assert_eq!(hosts.len(), flows.len());
        }

        /// Consecutive flows of one client are the difficult case.
        #[test]
        fn flows_of_one_client_have_servers_of_their_own(seed: u64, client in 0..CLIENTS, first in 0..SERVERS - 1_000) {
            let addresses = Addresses::new(Seed(seed), "test");
            let flows = (first..first + 1_000).map(|turn| addresses.ends(client + turn * CLIENTS, Protocol::Tcp));
            let (clients, servers): (BTreeSet<_>, BTreeSet<_>) = flows.map(|(client, server)| (client.host, server.host)).unzip();
            prop_assert_eq!((clients.len(), servers.len()), (1, 1_000));
        }

        #[test]
        fn addresses_are_private(seed: u64, flow: u64) {
            let (client, server) = Addresses::new(Seed(seed), "test").ends(flow, Protocol::Icmp);
            for end in [client, server] {
                prop_assert!(Ipv4Addr::from(end.ipv4()).is_private());
                prop_assert!(Ipv6Addr::from(end.ipv6()).is_unique_local());
            }
            prop_assert!(client.ipv4()[0] == 10 && server.ipv4()[0] == 172);
        }
    }

    #[test]
    fn a_seed_and_a_name_give_one_sequence() {
        let sequence = |seed, name| -> Vec<_> {
            let addresses = Addresses::new(Seed(seed), name);
            (0..100).map(|flow| pair(&addresses, flow)).collect()
        };
        assert_eq!(sequence(1, "a"), sequence(1, "a"));
        assert_ne!(sequence(1, "a"), sequence(2, "a"));
        assert_ne!(sequence(1, "a"), sequence(1, "b"));
    }
}
