//! The state that all instances share: mappings between hosts and addresses.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

use humpyard_core::hash::mix;
use humpyard_core::unit::Time;

use super::parameter::{Filter, Map, Nat64Params};
use super::prefix::Prefix;
use super::table::{Rules, Table};
use crate::memory::Memory;
use crate::service::ServiceError;

/// How long later fragments find the first fragment of their packet, in ns (RFC 6146 requires at least 2 s).
const FRAGMENT_NS: u64 = 30_000_000_000;

/// The state that all instances share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) prefix: Prefix,
    pub(super) table: Table,
    /// Whether the prefix may contain private addresses.
    private: bool,
    fixed: Fixed,
    fragments: Mutex<Memory<First>>,
    identification: AtomicU16,
}

impl Shared {
    pub(super) fn new(params: &Nat64Params) -> Result<Self, ServiceError> {
        if let Some(contradiction) = params.contradiction() {
            return Err(ServiceError::new(format!("nat64: {contradiction}")));
        }
        let seconds = |s: u64| Time::from_ns(s * 1_000_000_000);
        let rules = Rules {
            pool: params.pool.addresses(),
            ports: params.ports.0.clone(),
            lifetimes: [params.udp, params.icmp, params.tcp, params.tcp_transitory].map(seconds),
            by_address: params.filter == Filter::AddressDependent,
        };
        let table = Table::new(rules, params.sessions as usize);
        Ok(Self {
            prefix: params.prefix,
            table,
            private: params.private || params.prefix != Prefix::WELL_KNOWN,
            fixed: Fixed::new(&params.map),
            fragments: Mutex::new(Memory::new(params.fragments as usize)),
            identification: AtomicU16::new(1),
        })
    }

    /// Returns whether an IPv4 address represents an IPv6 host, or may represent one.
    pub(super) fn is_ours(&self, address: Ipv4Addr) -> bool {
        self.table.has(address) || self.fixed.v6(address).is_some()
    }

    /// Returns the fixed IPv4 address of this host.
    pub(super) fn fixed_v4(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        self.fixed.v4(address)
    }

    /// Returns the host with this fixed IPv4 address.
    pub(super) fn fixed_v6(&self, address: Ipv4Addr) -> Option<Ipv6Addr> {
        self.fixed.v6(address)
    }

    /// Returns whether the prefix must not contain this IPv4 address (RFC 6052, section 3.1).
    pub(super) const fn is_withheld(&self, address: Ipv4Addr) -> bool {
        !self.private && address.is_private()
    }

    /// Returns the identification for the next IPv4 packet that may be fragmented.
    pub(super) fn identification(&self) -> u16 {
        self.identification.fetch_add(1, Ordering::Relaxed)
    }

    /// Stores the translation of a packet's first fragment, for the later ones.
    pub(super) fn remember(&self, now: Time, of: Whole, place: u128) {
        self.with_first(of, |first| *first = First { of: Some(of), place, seen: now });
    }

    /// Returns the translation of this packet's first fragment. `None`: it is not known.
    pub(super) fn recall(&self, now: Time, of: Whole) -> Option<u128> {
        self.with_first(of, |first| {
            let is_it = first.of == Some(of) && now.since(first.seen) < Time::from_ns(FRAGMENT_NS);
            is_it.then_some(first.place)
        })
    }

    fn with_first<T>(&self, of: Whole, work: impl FnOnce(&mut First) -> T) -> T {
        // No code panics under this lock.
        let mut fragments = self.fragments.lock().unwrap_or_else(PoisonError::into_inner);
        work(fragments.get(of.hash()).0)
    }
}

/// The packet that a fragment belongs to (RFC 791; RFC 8200, section 4.5). IPv4 addresses are in the low bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Whole {
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) identification: u32,
    pub(super) protocol: u8,
}

impl Whole {
    fn hash(&self) -> u64 {
        let fold = |bits: u128| mix((bits >> 64) as u64) ^ bits as u64;
        let rest = u64::from(self.identification) << 8 | u64::from(self.protocol);
        mix(mix(fold(self.source)) ^ mix(fold(self.destination) ^ mix(rest)))
    }
}

/// The stored first fragment of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    of: Option<Whole>,
    place: u128,
    seen: Time,
}

/// Hosts with fixed addresses, found by either address.
#[derive(Debug)]
struct Fixed {
    by_v4: Box<[(Ipv4Addr, Ipv6Addr)]>,
    by_v6: Box<[(Ipv6Addr, Ipv4Addr)]>,
}

impl Fixed {
    fn new(map: &Map) -> Self {
        let mut by_v4 = map.0.clone();
        by_v4.sort_unstable();
        let mut by_v6: Vec<_> = by_v4.iter().map(|&(v4, v6)| (v6, v4)).collect();
        by_v6.sort_unstable();
        Self { by_v4: by_v4.into(), by_v6: by_v6.into() }
    }

    #[inline]
    fn v4(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let at = self.by_v6.binary_search_by_key(&address, |&(v6, _)| v6).ok()?;
        Some(self.by_v6[at].1)
    }

    #[inline]
    fn v6(&self, address: Ipv4Addr) -> Option<Ipv6Addr> {
        let at = self.by_v4.binary_search_by_key(&address, |&(v4, _)| v4).ok()?;
        Some(self.by_v4[at].1)
    }
}
