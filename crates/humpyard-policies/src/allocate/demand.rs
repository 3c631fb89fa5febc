//! What a service asks for: the cores its arrivals and its queue need, and the queue its cores serve in time.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::ServiceConfig;
use humpyard_core::policy::Auto;
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
    /// Before this time none of them is to be forgotten.
    complete_until: Time,
    /// Cores for the latest rate that was asked for.
    for_rate: u64,
    /// The work of a window, in ns, for which that is so: from and to.
    same_rate: (u64, u64),
    /// What is expected to arrive before a core that is asked for now can help, where that is asked about.
    forecast: Option<Forecast>,
}

/// How many packets will come, by a moving average of the windows before: each counts half as much as the next.
#[derive(Clone, Copy, Debug)]
struct Forecast {
    /// By how much a core that is asked for when a queue is too long comes too late, in ns: t_sw + t − D.
    horizon: u64,
    /// Length of a window, in ns.
    window: u64,
    /// When the present one began.
    from: Time,
    /// Packets of it.
    count: u64,
    /// Mean packets of those before, in 256ths.
    mean: u64,
}

impl Forecast {
    /// The windows that are over are part of the mean.
    #[must_use]
    fn at(mut self, now: Time) -> Self {
        let over = now.since(self.from).as_ns() / self.window;
        if over > 0 {
            let silent = u32::try_from(over - 1).unwrap_or(u32::MAX);
            self.mean = ((self.mean + 256 * self.count) / 2).checked_shr(silent).unwrap_or(0);
            self.count = 0;
            self.from += Time::from_ns(over * self.window);
        }
        self
    }

    /// Packets within the horizon.
    fn expected(self, now: Time) -> u64 {
        let packets = u128::from(self.at(now).mean) * u128::from(self.horizon) / (256 * u128::from(self.window));
        u64::try_from(packets).unwrap_or(u64::MAX)
    }
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

    /// The first time.
    #[inline]
    fn first(&self) -> Option<Time> {
        (self.len > 0).then(|| self.times[self.first & (self.times.len() - 1)])
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
    /// The demand of a service on so many cores of usual speed.
    #[cfg(test)]
    fn new(service: &ServiceConfig, window: Auto, cores: usize) -> Self {
        Self::of_packets(service, service.packet_time.as_ns().max(1), window, cores)
    }

    /// The demand of a service whose packets take each of so many cores so long, in ns, before its first packet.
    pub(super) fn of_packets(service: &ServiceConfig, packet_time: u64, window: Auto, cores: usize) -> Self {
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
            complete_until: Time::MAX,
            for_rate: 0,
            same_rate: (0, 0),
            forecast: None,
        }
    }

    /// Looks ahead, if a core that is asked for when the queue is too long comes too late.
    pub(super) fn look_ahead(&mut self, service: &ServiceConfig) {
        let ahead = service.switch_cost.as_ns().saturating_add(self.packet_time);
        let horizon = ahead.saturating_sub(service.tolerance.as_ns());
        let forecast = Forecast { horizon, window: self.window, from: Time::ZERO, count: 0, mean: 0 };
        self.forecast = (horizon > 0).then_some(forecast);
    }

    /// By how much the queue of so many cores is expected to grow before another core can help.
    #[inline]
    pub(super) fn growth(&self, now: Time, cores: u32) -> u64 {
        let Some(forecast) = self.forecast else { return 0 };
        let served = u64::from(cores) * (forecast.horizon / self.packet_time);
        forecast.expected(now).saturating_sub(served)
    }

    /// Work that arrived in the latest window, in packets, and the length of the window, in ns.
    pub(super) fn latest(&mut self, now: Time) -> (u64, u64) {
        self.forget(now);
        (self.arrivals.len as u64, self.window)
    }

    #[inline(always)]
    pub(super) fn count_arrival(&mut self, now: Time) {
        self.forget(now);
        if self.arrivals.len == 0 {
            self.complete_until = now + Time::from_ns(self.window);
        }
        self.arrivals.push(now);
        if let Some(forecast) = &mut self.forecast {
            *forecast = forecast.at(now);
            forecast.count += 1;
        }
    }

    /// Arrivals in (now − Δ, now] count from now on.
    #[inline]
    fn forget(&mut self, now: Time) {
        if now >= self.complete_until {
            self.arrivals.forget(now, self.window);
            self.complete_until = self.arrivals.first().map_or(Time::MAX, |first| first + Time::from_ns(self.window));
        }
    }

    /// Cores that the rate needs: ⌈R·t⌉.
    #[inline]
    fn for_rate(&mut self, now: Time) -> u64 {
        self.forget(now);
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
pub(super) fn packets_in_time(tolerance: Time, packet_time: u64) -> u64 {
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

    /// D = 500 us, t_sw = 2 ms, t = 20 us: a core comes 1.52 ms too late.
    #[test]
    fn what_is_expected_before_a_core_can_help() {
        let service = ServiceConfig { switch_cost: us(2_000), ..service(20_000, 500, 1_000_000) };
        let mut demand = Demand::new(&service, Auto::Auto, 16);
        assert_eq!(demand.growth(us(0), 0), 0, "nobody looks ahead");
        demand.look_ahead(&service);
        (0..800).for_each(|packet| demand.count_arrival(Time::from_ns(packet * 5_000)));
        // 400 packets in each of two windows, of which the mean has half and a quarter: 300, and 228 of them in 1.52 ms.
        assert_eq!(demand.growth(us(4_000), 0), 228);
        assert_eq!(demand.growth(us(4_000), 2), 228 - 2 * 76);
        assert_eq!(demand.growth(us(4_000), 3), 0);
        assert_eq!(demand.growth(us(6_000), 0), 114, "a silent window");
        let service = ServiceConfig { tolerance: us(2_020), ..service };
        let mut enough = Demand::new(&service, Auto::Auto, 16);
        enough.look_ahead(&service);
        assert!(enough.forecast.is_none(), "D = t_sw + t");
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
