//! Packets: when they arrive, and how long they take.

use humpyard_core::hash::mix;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;

/// A packet of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RivalJob {
    pub(super) arrival: Time,
    /// Its service time, in ns.
    pub(super) work: u64,
    /// 0: short; 1: long.
    pub(super) kind: usize,
    /// Its connection, and the hash of it. Poisson packets have a connection each.
    pub(super) connection: usize,
    pub(super) key: u64,
}

/// A distribution of service times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ServiceTimes {
    /// Exponential, with a mean of 1 us.
    Exponential,
    /// Short packets of `short` ns, and in a thousand `long_per_mille` long ones of `long` ns.
    Two { name: &'static str, short: u64, long: u64, long_per_mille: u64 },
}

pub(super) const EXP: ServiceTimes = ServiceTimes::Exponential;
pub(super) const BI1: ServiceTimes =
    ServiceTimes::Two { name: "bi1", short: 1_000, long: 100_000, long_per_mille: 500 };
pub(super) const BI2: ServiceTimes = ServiceTimes::Two { name: "bi2", short: 500, long: 500_000, long_per_mille: 5 };

impl ServiceTimes {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exp",
            Self::Two { name, .. } => name,
        }
    }

    /// Returns the mean, in ns.
    fn mean(self) -> f64 {
        match self {
            Self::Exponential => 1e3,
            Self::Two { short, long, long_per_mille, .. } => {
                (short * (1_000 - long_per_mille) + long * long_per_mille) as f64 / 1e3
            }
        }
    }

    /// Draws a service time in ns, and the kind of packet.
    fn draw(self, random: &mut Random) -> (u64, usize) {
        match self {
            Self::Exponential => ((random.exponential(self.mean()) as u64).max(1), 0),
            Self::Two { short, long, long_per_mille, .. } => {
                if random.below(1_000) < long_per_mille {
                    (long, 1)
                } else {
                    (short, 0)
                }
            }
        }
    }
}

/// Draws packets that come as a Poisson process, and that take `cores` cores this part of their time.
pub(super) fn poisson(times: ServiceTimes, cores: usize, load: f64, packets: usize, seed: Seed) -> Vec<RivalJob> {
    let mut random = seed.stream(&format!("rivals/{}/{load}", times.name()));
    let gap = times.mean() / (cores as f64 * load);
    let mut at = 0.0;
    let job = |connection| {
        at += random.exponential(gap);
        let (work, kind) = times.draw(&mut random);
        RivalJob { arrival: Time::from_ns(at as u64), work, kind, connection, key: mix(connection as u64) }
    };
    (0..packets).map(job).collect()
}

/// Draws packets of connections of which the n-th has 1/n as many as the first; each takes `work` ns.
pub(super) fn skewed(
    (connections, work): (usize, u64),
    cores: usize,
    load: f64,
    packets: usize,
    seed: Seed,
) -> Vec<RivalJob> {
    let mut random = seed.stream(&format!("rivals/skewed/{load}"));
    let hash = mix(random.bits());
    let mut sum = 0.0;
    let until = |rank: usize| {
        sum += 1.0 / rank as f64;
        sum
    };
    let sums: Vec<f64> = (1..=connections).map(until).collect();
    let gap = work as f64 / (cores as f64 * load);
    let mut at = 0.0;
    let job = |_| {
        at += random.exponential(gap);
        let drawn = random.unit() * sum;
        let connection = sums.partition_point(|&until| until < drawn).min(connections - 1);
        RivalJob { arrival: Time::from_ns(at as u64), work, kind: 0, connection, key: mix(hash ^ connection as u64) }
    };
    (0..packets).map(job).collect()
}

/// Draws packets that take `work` ns each, as many as `cores` cores can serve. The first connection has this share of
/// them, and the others have the rest, each as much.
pub(super) fn one_heavy(
    (connections, work): (usize, u64),
    share: f64,
    cores: usize,
    packets: usize,
    seed: Seed,
) -> Vec<RivalJob> {
    let mut random = seed.stream(&format!("rivals/heavy/{share}"));
    let hash = mix(random.bits());
    let gap = work as f64 / cores as f64;
    let job = |number: usize| {
        let is_heavy = random.unit() < share;
        let connection = if is_heavy { 0 } else { 1 + random.below(connections as u64 - 1) as usize };
        let arrival = Time::from_ns((number as f64 * gap) as u64);
        RivalJob { arrival, work, kind: 0, connection, key: mix(hash ^ connection as u64) }
    };
    (0..packets).map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_those_asked_for() {
        for times in [EXP, BI1] {
            let jobs = poisson(times, 16, 0.8, 100_000, Seed(1));
            let work = jobs.iter().map(|job| job.work).sum::<u64>() as f64;
            let load = work / 16.0 / jobs.last().unwrap().arrival.as_ns() as f64;
            assert!((load - 0.8).abs() < 0.02, "{}: {load}", times.name());
        }
        let long = poisson(BI2, 16, 0.8, 100_000, Seed(1)).iter().filter(|job| job.kind == 1).count();
        assert!((400..600).contains(&long), "{long} long ones of 500 expected");
    }

    #[test]
    fn the_first_connection_has_twice_the_packets_of_the_second() {
        let jobs = skewed((100, 5_200), 8, 0.5, 100_000, Seed(1));
        let count = |of| jobs.iter().filter(|job| job.connection == of).count() as f64;
        assert!((count(0) / count(1) - 2.0).abs() < 0.1 && (count(0) / count(9) - 10.0).abs() < 1.0);
        let load = 100_000.0 * 5_200.0 / 8.0 / jobs.last().unwrap().arrival.as_ns() as f64;
        assert!((load - 0.5).abs() < 0.01, "{load}");
    }

    #[test]
    fn the_heavy_connection_has_its_share() {
        let jobs = one_heavy((100, 100), 0.4, 8, 100_000, Seed(1));
        let heavy = jobs.iter().filter(|job| job.connection == 0).count() as f64;
        assert!((heavy / 4e4 - 1.0).abs() < 0.02 && jobs.iter().all(|job| job.connection < 100));
        // 8 cores serve 80 packets in a microsecond.
        assert_eq!(jobs[80].arrival, Time::from_ns(1_000));
        assert!(one_heavy((100, 100), 0.0, 8, 1_000, Seed(1)).iter().all(|job| job.connection > 0));
    }
}
