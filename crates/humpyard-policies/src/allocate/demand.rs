//! The demand of a service: the cores that its arrivals and its queue need, and the queue that its
//! cores serve in time.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::ServiceConfig;
use humpyard_core::policy::Auto;
use humpyard_core::unit::Time;

/// The state of the demand of one service.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Time per packet (t), in ns.
    pub(super) packet_time: u64,
    /// The packets that a core serves in time behind the first (c = floor(D/t) − 1).
    in_time: u64,
    /// The cores of the machine.
    cores: u32,
    /// The time over which arrivals are counted (Δ), in ns.
    window: u64,
    /// The arrivals of the latest window: at most as many as show that every core is needed.
    arrivals: Latest,
    /// The time before which no arrival leaves the window.
    complete_until: Time,
    /// The cores for the latest computed rate.
    for_rate: u64,
    /// The range of the work per window, in ns, with the same number of cores: from and to.
    same_rate: (u64, u64),
    /// The arrivals expected before a core requested now can help. `None`: the policy does not look ahead.
    forecast: Option<Forecast>,
}

/// A forecast of arrivals by a moving average of past windows: each window counts half as much as the next.
#[derive(Clone, Copy, Debug)]
struct Forecast {
    /// The time by which a core arrives too late if it is requested when a queue is too long, in
    /// ns: t_sw + t − D.
    horizon: u64,
    /// The length of a window, in ns.
    window: u64,
    /// The start of the current window.
    from: Time,
    /// The number of packets in the current window.
    count: u64,
    /// The mean packets of past windows, in 256ths.
    mean: u64,
}

impl Forecast {
    /// Adds completed windows to the mean.
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

    /// Returns the packets expected within the horizon.
    fn expected(self, now: Time) -> u64 {
        let packets = u128::from(self.at(now).mean) * u128::from(self.horizon) / (256 * u128::from(self.window));
        u64::try_from(packets).unwrap_or(u64::MAX)
    }
}

/// The latest of many times, in order.
#[derive(Clone, Debug)]
struct Latest {
    /// A ring buffer whose size is a power of two: `len` places are in use, starting at `first`.
    times: Vec<Time>,
    first: usize,
    len: usize,
    most: usize,
}

impl Latest {
    fn new(most: usize) -> Self {
        Self { times: vec![Time::ZERO; most.next_power_of_two()], first: 0, len: 0, most }
    }

    /// Appends a time. If the buffer is full, it replaces the first.
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

    /// Returns the first time.
    #[inline]
    fn first(&self) -> Option<Time> {
        (self.len > 0).then(|| self.times[self.first & (self.times.len() - 1)])
    }

    /// Removes the times that are at least `ns` nanoseconds ago.
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
    /// Returns the demand of a service on `cores` cores of usual speed.
    #[cfg(test)]
    fn new(service: &ServiceConfig, window: Auto, cores: usize) -> Self {
        Self::of_packets(service, service.packet_time.as_ns().max(1), window, cores)
    }

    /// Returns the demand of a service before its first packet. Each of the `cores` cores takes
    /// `packet_time` ns per packet.
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

    /// Enables the forecast if a core arrives too late when it is requested at a long queue.
    pub(super) fn look_ahead(&mut self, service: &ServiceConfig) {
        let ahead = service.switch_cost.as_ns().saturating_add(self.packet_time);
        let horizon = ahead.saturating_sub(service.tolerance.as_ns());
        let forecast = Forecast { horizon, window: self.window, from: Time::ZERO, count: 0, mean: 0 };
        self.forecast = (horizon > 0).then_some(forecast);
    }

    /// Returns the expected growth of the queue of `cores` cores until another core can help.
    #[inline]
    pub(super) fn growth(&self, now: Time, cores: u32) -> u64 {
        let Some(forecast) = self.forecast else { return 0 };
        let served = u64::from(cores) * (forecast.horizon / self.packet_time);
        forecast.expected(now).saturating_sub(served)
    }

    /// Returns the number of packets that arrived in the latest window, and the length of the
    /// window, in ns.
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

    /// Limits the arrivals to those in (now − Δ, now].
    #[inline]
    fn forget(&mut self, now: Time) {
        if now >= self.complete_until {
            self.arrivals.forget(now, self.window);
            self.complete_until = self.arrivals.first().map_or(Time::MAX, |first| first + Time::from_ns(self.window));
        }
    }

    /// Returns the cores that the rate needs: ⌈R·t⌉.
    #[inline]
    fn for_rate(&mut self, now: Time) -> u64 {
        self.forget(now);
        let work = self.arrivals.len as u64 * self.packet_time;
        // A division costs as much as all the rest, and the result rarely changes.
        if work < self.same_rate.0 || work > self.same_rate.1 {
            self.for_rate = work.div_ceil(self.window);
            let most = self.for_rate * self.window;
            self.same_rate = ((most + 1).saturating_sub(self.window), most);
        }
        self.for_rate
    }

    /// Returns the number of the `cores` cores that the rate does not need: ⌊cores − R·t⌋, or all
    /// if it needs none (equation 6).
    #[inline]
    pub(super) fn spare(&mut self, now: Time, cores: u32) -> u32 {
        u64::from(cores).saturating_sub(self.for_rate(now)) as u32
    }

    /// Returns the cores that queue and rate need, at most all.
    pub(super) fn needed(&mut self, now: Time, backlog: u32) -> u32 {
        let for_queue = match (backlog, self.in_time) {
            (0, _) => 0,
            (_, 0) => u64::from(self.cores),
            (backlog, in_time) => u64::from(backlog).div_ceil(in_time),
        };
        self.for_rate(now).max(for_queue).min(u64::from(self.cores)) as u32
    }

    /// Returns the longest queue that `cores` cores serve in time (equation 3).
    #[inline]
    pub(super) fn limit(&self, cores: u32) -> u64 {
        u64::from(cores) * self.in_time
    }
}

/// Returns c = floor(D/t) − 1, at least 0.
pub(super) fn packets_in_time(tolerance: Time, packet_time: u64) -> u64 {
    (tolerance.as_ns() / packet_time).saturating_sub(1).min(u64::from(u32::MAX))
}

/// The shortest window, in ns.
const WINDOW_MIN: u64 = 1_000;
/// The longest window, in ns: eleven days.
pub(super) const WINDOW_MAX: u64 = 1_000_000_000_000_000;
/// The most arrivals remembered per service. At higher rates, this many per window count.
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

    /// Equation 6: 200,000 packets a second of 18.22 us need 3.644 cores; two of six can be spared.
    #[test]
    fn spare_cores_of_the_specification() {
        let mut demand = Demand::new(&service(18_220, 2_000, 1_000_000), Auto::Given(2_000_000), 16);
        for arrival in 1..=400 {
            demand.count_arrival(Time::from_ns(arrival * 5_000));
        }
        assert_eq!(demand.spare(us(2000), 6), 2);
        assert_eq!(demand.spare(us(2000), 3), 0);
        // With sparse arrivals a service keeps its last core, without arrivals it does not.
        assert_eq!(demand.spare(us(3999), 1), 0);
        assert_eq!(demand.spare(us(4000), 1), 1);
    }

    /// D = 500 us, t_sw = 2 ms, t = 20 us: a requested core is 1.52 ms late.
    #[test]
    fn what_is_expected_before_a_core_can_help() {
        let service = ServiceConfig { switch_cost: us(2_000), ..service(20_000, 500, 1_000_000) };
        let mut demand = Demand::new(&service, Auto::Auto, 16);
        assert_eq!(demand.growth(us(0), 0), 0, "nobody looks ahead");
        demand.look_ahead(&service);
        (0..800).for_each(|packet| demand.count_arrival(Time::from_ns(packet * 5_000)));
        // 400 packets in each of two windows, weighted by a half and a quarter: the mean is 300, of
        // which 228 arrive in 1.52 ms.
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
