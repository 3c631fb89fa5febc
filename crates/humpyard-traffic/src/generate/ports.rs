//! Laws of ports: their frequencies among the connections of captures.
//!
//! Source: the unicast connections of 387 captures with TCP (23,843 connections) and 366 with UDP (3,774), of
//! homes, offices, factories and single applications. Each capture has the same weight. `cargo run --release -p
//! humpyard-traffic --example port_law -- DIRECTORY ...` prints the ports of captures. Server ports with a
//! share below 2 % form one range here, that of registered ports.

use super::protocol::Protocol;

/// The law of a protocol's ports.
#[derive(Debug)]
pub(super) struct PortLaw {
    servers: &'static [Share],
    clients: &'static [Share],
}

/// The share of connections, in thousandths, whose port is from `first` to `last`, uniformly distributed.
#[derive(Debug)]
struct Share {
    thousandths: u32,
    first: u16,
    last: u16,
}

const fn one(thousandths: u32, port: u16) -> Share {
    Share { thousandths, first: port, last: port }
}

const fn range(thousandths: u32, first: u16, last: u16) -> Share {
    Share { thousandths, first, last }
}

const TCP: PortLaw = PortLaw {
    servers: &[
        one(300, 443),
        one(230, 80),
        one(42, 50_443),
        one(42, 8_443),
        one(34, 9_292),
        one(26, 62_910),
        range(326, 1_024, 49_151),
    ],
    clients: &[
        range(155, 1_024, 32_767),
        range(370, 32_768, 49_151),
        range(440, 49_152, 60_999),
        range(35, 61_000, 65_535),
    ],
};

const UDP: PortLaw = PortLaw {
    servers: &[
        one(431, 53),
        one(160, 123),
        one(55, 443),
        one(33, 69),
        one(32, 80),
        one(20, 8_765),
        range(269, 1_024, 49_151),
    ],
    clients: &[
        range(245, 1_024, 32_767),
        range(325, 32_768, 49_151),
        range(405, 49_152, 60_999),
        range(25, 61_000, 65_535),
    ],
};

impl PortLaw {
    /// Returns the law of a protocol. `None`: it has no ports.
    pub(super) const fn of(protocol: Protocol) -> Option<&'static Self> {
        match protocol {
            Protocol::Tcp => Some(&TCP),
            Protocol::Udp => Some(&UDP),
            Protocol::Icmp => None,
        }
    }

    /// Returns a server's port for 32 random bits.
    pub(super) fn server(&self, draw: u32) -> u16 {
        pick(self.servers, draw)
    }

    /// Returns a client's port for 32 random bits.
    pub(super) fn client(&self, draw: u32) -> u16 {
        pick(self.clients, draw)
    }
}

/// Picks a share by the upper half of the draw, and a port in it by the lower half.
fn pick(shares: &[Share], draw: u32) -> u16 {
    let (mut part, place) = (((draw >> 16) * 1_000) >> 16, draw & 0xffff);
    let found = shares.iter().find(|share| {
        let is_it = part < share.thousandths;
        part = part.wrapping_sub(share.thousandths);
        is_it
    });
    let Share { first, last, .. } = found.unwrap_or(&shares[shares.len() - 1]);
    first + ((place * u32::from(last - first + 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;

    #[test]
    fn shares_are_of_a_thousand() {
        for law in [TCP, UDP] {
            for shares in [law.servers, law.clients] {
                assert_eq!(shares.iter().map(|share| share.thousandths).sum::<u32>(), 1_000);
            }
        }
    }

    #[test]
    fn ports_come_as_often_as_the_law_says() {
        let mut random = Seed(1).stream("test");
        for shares in [TCP.servers, TCP.clients, UDP.servers, UDP.clients] {
            let n = 200_000;
            let ports: Vec<u16> = (0..n).map(|_| pick(shares, random.bits() as u32)).collect();
            for (at, share) in shares.iter().enumerate() {
                // Another share's range may contain the port, too.
                let also = |port: u16| shares[..at].iter().any(|other| other.first == port && other.last == port);
                let inside = |port: &&u16| (share.first..=share.last).contains(*port) && !also(**port);
                let found = ports.iter().filter(inside).count() as f64 / f64::from(n);
                assert!((found - f64::from(share.thousandths) / 1e3).abs() < 0.005, "{share:?} {found}");
            }
            assert!(
                [shares[shares.len() - 1].first, shares[shares.len() - 1].last]
                    .iter()
                    .all(|port| { ports.iter().any(|found| found.abs_diff(*port) < 100) })
            );
        }
    }
}
