//! Finds the host with the most openings, in little memory.

use core::net::IpAddr;

/// Hosts counted at once.
const COUNTED: usize = 16;

/// Counts of hosts by Misra and Gries (1982): of n openings, a host's count misses at most n/17. So a host with
/// more openings than that has a count.
#[derive(Clone, Debug, Default)]
pub(super) struct Frequent {
    /// Hosts with their counts; a place with count 0 is free.
    counts: [(Option<IpAddr>, u64); COUNTED],
}

impl Frequent {
    /// Counts an opening to this host.
    pub(super) fn add(&mut self, host: IpAddr) {
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| *known == Some(host)) {
            *count += 1;
        } else if let Some(free) = self.counts.iter_mut().find(|(_, count)| *count == 0) {
            *free = (Some(host), 1);
        } else {
            for (known, count) in &mut self.counts {
                *count -= 1;
                if *count == 0 {
                    *known = None;
                }
            }
        }
    }

    /// Returns the host with the highest count, which is at most its openings. Among equal counts, the lowest
    /// address wins.
    pub(super) fn first(&self) -> Option<(IpAddr, u64)> {
        let hosts = self.counts.iter().filter_map(|&(host, count)| Some((host?, count)));
        hosts.max_by_key(|&(host, count)| (count, core::cmp::Reverse(host)))
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;

    #[test]
    fn the_most_frequent_is_found_among_many() {
        let host = |number: u64| IpAddr::from(core::net::Ipv4Addr::from(number as u32));
        let mut random = Seed(1).stream("hosts");
        let mut frequent = Frequent::default();
        assert_eq!(frequent.first(), None);
        let mut sent = 0;
        for number in 0..17_000 {
            let flooded = random.below(10) == 0;
            sent += u64::from(flooded);
            frequent.add(if flooded { host(7) } else { host(1000 + number) });
        }
        let (found, count) = frequent.first().unwrap();
        assert_eq!(found, host(7));
        assert!(count <= sent && count >= sent - 1000, "{count} of {sent}");
    }

    #[test]
    fn of_equal_ones_the_lowest_is_first() {
        let hosts = ["10.0.0.2", "10.0.0.1", "2001:db8::1"].map(|host| host.parse().unwrap());
        let mut frequent = Frequent::default();
        hosts.into_iter().for_each(|host| frequent.add(host));
        assert_eq!(frequent.first(), Some((hosts[1], 1)));
    }
}
