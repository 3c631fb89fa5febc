//! What a service asks for: the cores its arrivals and its queue need, and the queue its cores serve in time.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::policy::{Auto, ServiceSetup};
use humpyard_core::unit::Time;

/// What is known of the demand of one service.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Time of a packet (t), in ns.
    pub(super) packet_time: u64,
    /// Packets that a core serves in time behind the first (c = floor(D/t) − 1).
    in_time: u64,
    /// Cores of the machine.
    cores: u32,
    /// Over how long arrivals are counted (Δ), in ns.
    window: u64,
    /// The arrivals of the latest window: as many as tell that every core is needed, at most.
    arrivals: Latest,
    /// Cores for the latest rate that was asked for.
    for_rate: u64,
    /// The work of a window, in ns, for which that is so: from and to.
    same_rate: (u64, u64),
}

/// The latest of many times, in order.
#[derive(Clone, Debug)]
struct Latest {
    /// A power of two of places, of which `len` are in use from `first` on, round the end.
    times: Vec<Time>,
    first: usize,
    len: usize,
    most: usize,
}

impl Latest {
    fn new(most: usize) -> Self {
        Self { times: vec![Time::ZERO; most.next_power_of_two()], first: 0, len: 0, most }
    }

    /// Adds a time, instead of the first if there are as many as may be.
    #[inline]
    fn push(&mut self, time: Time) {
        if self.len == self.most {
            self.first += 1;
            self.len -= 1;
        }
        let mask = self.times.len() - 1;
        self.times[(self.first + self.len) & mask] = time;
        self.len += 1;
    }

    /// Takes out the times that are so long ago or longer.
    #[inline]
    fn forget(&mut self, now: Time, ns: u64) {
        let mask = self.times.len() - 1;
        while self.len > 0 && now.since(self.times[self.first & mask]).as_ns() >= ns {
            self.first += 1;
            self.len -= 1;
        }
    }
}

impl Demand {
    /// The demand of a service on so many cores, before its first packet.
    pub(super) fn new(service: &ServiceSetup<'_>, window: Auto, cores: usize) -> Self {
        let packet_time = service.packet_time.as_ns().max(1);
        let window = match window {
            Auto::Auto => service.switch_cost.as_ns(),
            Auto::Given(window) => window,
        };
        let window = window.max(WINDOW_MIN);
        let all_needed = (cores as u64).saturating_mul(window).div_ceil(packet_time) + 1;
        Self {
            packet_time,
            in_time: packets_in_time(service.tolerance, packet_time),
            cores: cores as u32,
            window,
            arrivals: Latest::new(all_needed.min(ARRIVALS_MAX) as usize),
            for_rate: 0,
            same_rate: (0, 0),
        }
    }

    #[inline]
    pub(super) fn count_arrival(&mut self, now: Time) {
        self.arrivals.forget(now, self.window);
        self.arrivals.push(now);
    }

    /// Cores that the rate needs: ⌈R·t⌉.
    #[inline]
    fn for_rate(&mut self, now: Time) -> u64 {
        // Arrivals in (now − Δ, now] count.
        self.arrivals.forget(now, self.window);
        let work = self.arrivals.len as u64 * self.packet_time;
        // A division costs as much as all the rest, and the answer is seldom another.
        if work < self.same_rate.0 || work > self.same_rate.1 {
            self.for_rate = work.div_ceil(self.window);
            let most = self.for_rate * self.window;
            self.same_rate = ((most + 1).saturating_sub(self.window), most);
        }
        self.for_rate
    }

    /// Cores of so many that the rate does not need: ⌊cores − R·t⌋, and all if none is needed (equation 6).
    #[inline]
    pub(super) fn spare(&mut self, now: Time, cores: u32) -> u32 {
        u64::from(cores).saturating_sub(self.for_rate(now)) as u32
    }

    /// Cores that queue and rate ask for, at most all.
    pub(super) fn needed(&mut self, now: Time, backlog: u32) -> u32 {
        let for_queue = match (backlog, self.in_time) {
            (0, _) => 0,
            (_, 0) => u64::from(self.cores),
            (backlog, in_time) => u64::from(backlog).div_ceil(in_time),
        };
        self.for_rate(now).max(for_queue).min(u64::from(self.cores)) as u32
    }

    /// The longest queue that so many cores serve in time (equation 3).
    #[inline]
    pub(super) fn limit(&self, cores: u32) -> u64 {
        u64::from(cores) * self.in_time
    }
}

/// c = floor(D/t) − 1, at least 0.
fn packets_in_time(tolerance: Time, packet_time: u64) -> u64 {
    (tolerance.as_ns() / packet_time).saturating_sub(1).min(u64::from(u32::MAX))
}

/// The shortest window, in ns.
const WINDOW_MIN: u64 = 1_000;
/// The longest window, in ns: eleven days.
pub(super) const WINDOW_MAX: u64 = 1_000_000_000_000_000;
/// Most arrivals remembered per service; beyond that the rate is taken for at most this many per window.
const ARRIVALS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{TABLE_2, service, us};

    #[test]
    fn packets_in_time_of_the_specification() {
        assert_eq!(TABLE_2.map(|time| packets_in_time(us(500), time)), [26, 36, 106, 48, 50, 279]);
        assert_eq!(TABLE_2.map(|time| packets_in_time(us(2000), time)), [108, 149, 430, 197, 204, 1122]);
        assert_eq!(packets_in_time(us(1), 18_220), 0);
    }

    /// Equation 6: 200,000 packets a second of 18.22 us need 3.644 cores; of six two can be spared.
    #[test]
    fn spare_cores_of_the_specification() {
        let mut demand = Demand::new(&service(18_220, 2_000, 1_000_000), Auto::Given(2_000_000), 16);
        for arrival in 1..=400 {
            demand.count_arrival(Time::from_ns(arrival * 5_000));
        }
        assert_eq!(demand.spare(us(2000), 6), 2);
        assert_eq!(demand.spare(us(2000), 3), 0);
        // A trickle keeps its last core, silence does not.
        assert_eq!(demand.spare(us(3999), 1), 0);
        assert_eq!(demand.spare(us(4000), 1), 1);
    }

    #[test]
    fn the_latest_times_are_kept() {
        let mut latest = Latest::new(3);
        for time in 1..10 {
            latest.push(us(time));
            assert_eq!(latest.len as u64, time.min(3));
        }
        latest.forget(us(10), 3_000);
        assert_eq!(latest.len, 2, "8 and 9");
        latest.forget(us(10), 1_001);
        assert_eq!(latest.len, 1, "9");
        latest.forget(us(10), 1_000);
        assert_eq!(latest.len, 0);
    }

    #[test]
    fn cores_for_the_rate_are_what_a_division_says() {
        for window in [1_000, 18_220, 40_000] {
            let mut demand = Demand::new(&service(18_220, 2_000, 1_000_000), Auto::Given(window), 4);
            for step in 0..2000 {
                let now = Time::from_ns(step * step % 9_001 + 9_001 * step);
                if step % 3 > 0 {
                    demand.count_arrival(now);
                }
                let found = demand.for_rate(now);
                assert_eq!(found, (demand.arrivals.len as u64 * 18_220).div_ceil(window));
            }
        }
    }
}
