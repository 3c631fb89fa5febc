//! The offered load: every packet that arrived, accepted or not.

use alloc::vec::Vec;

use crate::cost::LinearCost;
use crate::id::{ChainId, Id, ServiceId};
use crate::unit::Time;

/// Packets as they arrived, accepted or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offered {
    /// Packets that arrived.
    pub packets: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// When the first packet arrived. `None`: no packet did.
    pub first: Option<Time>,
    /// When the last packet arrived.
    pub last: Time,
    /// Work of these packets on warm cores, in the unit of the costs; 0 if no costs are known.
    pub work: u128,
    /// Services that these packets need: one each, or those of their chains; 0 if no costs are
    /// known.
    pub services: u64,
}

impl Offered {
    /// Counts a packet that arrives.
    #[inline]
    pub fn on_packet(&mut self, at: Time, length: u32) {
        self.packets += 1;
        self.bytes += u64::from(length);
        if self.first.is_none_or(|first| at < first) {
            self.first = Some(at);
        }
        self.last = self.last.max(at);
    }

    /// Counts a packet of this work that arrives, not before another.
    #[inline(always)]
    fn on_packet_in_order(&mut self, at: Time, length: u32, work: u64) {
        if self.packets == 0 {
            self.first = Some(at);
        }
        self.packets += 1;
        self.bytes += u64::from(length);
        self.last = at;
        self.work += u128::from(work);
        self.services += 1;
    }

    /// Adds the load offered to another dispatcher.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            first: self.first.into_iter().chain(other.first).min(),
            last: self.last.max(other.last),
            work: self.work + other.work,
            services: self.services + other.services,
        }
    }

    /// Returns the time from the first arrival to the last.
    pub fn span(&self) -> Time {
        self.first.map_or(Time::ZERO, |first| self.last.since(first))
    }

    /// Returns the packets per second: n packets have n - 1 gaps. `None`: all packets arrived at
    /// once.
    pub fn packets_per_second(&self) -> Option<f64> {
        let span = self.span().as_ns();
        (span > 0).then(|| self.packets.saturating_sub(1) as f64 * 1e9 / span as f64)
    }

    /// Returns the bits per second at that rate, with packets of the mean length.
    pub fn bits_per_second(&self) -> Option<f64> {
        Some(self.packets_per_second()? * 8.0 * self.bytes as f64 / self.packets as f64)
    }
}

/// The costs of the packets of each chain of services on warm cores.
#[derive(Clone, Debug, Default)]
pub(super) struct OfferedCosts {
    /// By service.
    costs: Vec<LinearCost>,
    /// The services of each chain; empty if each packet has one service.
    chains: Vec<Vec<ServiceId>>,
}

impl OfferedCosts {
    pub(super) fn new(costs: &[LinearCost], chains: &[Vec<ServiceId>]) -> Self {
        Self { costs: costs.to_vec(), chains: chains.to_vec() }
    }

    /// Adds the work of a packet.
    #[inline]
    fn add_work(&self, offered: &mut Offered, length: u32, chain: ChainId, service: ServiceId) {
        match self.chains.get(chain.index()) {
            None => self.add_service(offered, length, service),
            Some(services) => self.add_services(offered, length, services),
        }
    }

    #[inline]
    fn add_service(&self, offered: &mut Offered, length: u32, service: ServiceId) {
        offered.services += 1;
        offered.work += u128::from(self.costs[service.index()].work(length));
    }

    #[inline(never)]
    fn add_services(&self, offered: &mut Offered, length: u32, services: &[ServiceId]) {
        services.iter().for_each(|&service| self.add_service(offered, length, service));
    }
}

impl super::Measurements {
    /// Sets the costs of the services, so that the offered work is known.
    #[must_use]
    pub fn with_costs(mut self, costs: &[LinearCost], chains: &[Vec<ServiceId>]) -> Self {
        self.costs = Some(OfferedCosts::new(costs, chains));
        self
    }

    /// A packet arrived for this service, the first of its chain, accepted or not.
    #[inline]
    pub fn on_offer(&mut self, at: Time, length: u32, chain: ChainId, service: ServiceId) {
        self.offered.on_packet(at, length);
        if let Some(costs) = &self.costs {
            costs.add_work(&mut self.offered, length, chain, service);
        }
    }

    /// As [`Measurements::on_offer`](super::Measurements::on_offer) of a packet of this work that arrives, not
    /// before another.
    #[inline(always)]
    pub(super) fn on_offer_of(&mut self, at: Time, length: u32, work: u64) {
        self.offered.on_packet_in_order(at, length, work);
    }

    /// The costs by which offered work is counted, if packets go through one service each.
    pub(super) fn offered_by(&self) -> Option<&[LinearCost]> {
        let costs = self.costs.as_ref()?;
        costs.chains.is_empty().then_some(&costs.costs)
    }

    /// Returns the load offered so far.
    pub fn offered(&self) -> Offered {
        self.offered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn offered(times: &[u64]) -> Offered {
        let mut offered = Offered::default();
        times.iter().for_each(|&time| offered.on_packet(Time::from_ns(time), 125));
        offered
    }

    #[test]
    fn packets_are_one_more_than_gaps() {
        let second = offered(&[500, 1_000_000_500, 2_000_000_500]);
        assert_eq!(second.span(), Time::from_ns(2_000_000_000));
        assert_eq!((second.packets_per_second(), second.bits_per_second()), (Some(1.0), Some(1000.0)));
        assert_eq!(offered(&[]).packets_per_second(), None);
        assert_eq!(offered(&[7, 7]).bits_per_second(), None);
    }

    #[test]
    fn dispatchers_share_one_clock() {
        let both = offered(&[1_000, 2_000]).and(offered(&[500, 1_500])).and(Offered::default());
        assert_eq!((both.packets, both.bytes, both.first), (4, 500, Some(Time::from_ns(500))));
        assert_eq!(both.packets_per_second(), Some(2e6));
    }

    #[test]
    fn a_chain_asks_for_all_its_services() {
        let cost = |fixed| LinearCost { fixed, per_byte_milli: 0, cold: 1000 };
        let chains = [vec![ServiceId(0), ServiceId(1)], vec![ServiceId(1)]];
        let costs = OfferedCosts::new(&[cost(5), cost(70)], &chains);
        let mut sum = Offered::default();
        costs.add_work(&mut sum, 100, ChainId(0), ServiceId(0));
        costs.add_work(&mut sum, 100, ChainId(1), ServiceId(1));
        assert_eq!((sum.work, sum.services), (145, 3));
        let alone = OfferedCosts::new(&[cost(5), cost(70)], &[]);
        let mut sum = Offered::default();
        alone.add_work(&mut sum, 100, ChainId(0), ServiceId(1));
        assert_eq!((sum.work, sum.services), (70, 1));
    }
}
