//! Sprayer: packets that change the state of a connection go to its own core, all others to every core in turn.
//!
//! **Idea.** Most network functions write a connection's state when it begins or ends, and only
//! read it in between. So the packets that change it meet on one core. The others, nearly all, are
//! spread as evenly as possible: one connection can use all cores.
//!
//! **Source.** Sadok, Campista, Costa. A case for spraying packets in software middleboxes. HotNets
//! 2018, as described in MODERN.
//!
//! **Promises.** Packets that change a connection are at its home, its core of highest random
//! weight. Of n other consecutive packets of a service, any two of its cores get counts that differ
//! by at most one. No order: the exit restores it (`--flow-order exit`).
//!
//! **Cost.** O(1); O(N) for a packet that changes a connection. No state per connection.
//!
//! **Departures.** Each service has its own turn over the cores that may serve it. The packet says
//! whether it changes its connection: a TCP packet with SYN, FIN or RST does, and so does the first
//! packet of a flow of another protocol.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score};
use humpyard_core::id::{CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;

use super::bid::{Exact, highest};

params! {
    /// Parameters of sprayer: none.
    pub struct SprayerParams {}
}

/// Sprayer.
#[derive(Debug)]
pub struct Sprayer {
    /// The salt of each core.
    salts: Vec<u64>,
    /// By service: the index of the next packet's core among the cores that may serve it.
    next: Vec<usize>,
}

impl Build for Sprayer {
    type Params = SprayerParams;
    const INFO: Info = Info {
        name: "sprayer",
        family: Family::Steer,
        summary: "packets that change a connection on its own core, all others on every core in turn",
        source: "Sadok, Campista, Costa. A case for spraying packets in software middleboxes. HotNets 2018",
        promises: &[Promise::Fair(
            "packet counts of two cores differ by at most 1, but for packets that change connections",
        )],
        complexity: "O(1); O(N) for a packet that changes a connection",
    };

    fn new(_: &SprayerParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { salts: (0..config.cores as u64).map(salt).collect(), next: vec![0; config.services.len()] })
    }
}

impl Policy for Sprayer {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Sprayer {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        if packet.changes_connection {
            return Target::Core(self.home(packet.key, view.eligible));
        }
        let next = &mut self.next[packet.service.index()];
        let place = if *next < view.eligible.len() { *next } else { 0 };
        *next = place + 1;
        Target::Core(view.eligible[place])
    }
}

impl Sprayer {
    /// Returns the core with the highest hash, as in `hrw`.
    fn home(&self, key: u64, eligible: &[CoreId]) -> CoreId {
        let bid = |&core: &CoreId| (core, Exact::new(score(key, self.salts[core.index()]), 1));
        highest(eligible.iter().map(bid)).expect("at least one core is eligible")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::hrw::{Hrw, HrwParams};
    use crate::steer::testing::{cores_of, keys, targets, views};
    use crate::testing::config;

    fn steered(policy: &mut Sprayer, key: u64, changes_connection: bool) -> CoreId {
        let (cores, eligible) = (views(&[0; 4]), cores_of([0, 1, 2, 3]));
        let view = View { as_of: Time::ZERO, cores: &cores, eligible: &eligible };
        let packet = Packet { key, changes_connection, ..Packet::default() };

        policy.steer(Time::ZERO, &packet, &view).core().expect("a core")
    }

    #[test]
    fn what_changes_a_connection_is_at_its_home_and_takes_no_turn() {
        let mut policy = Sprayer::new(&SprayerParams {}, &config(4, 1, &[])).unwrap();
        let keys = keys(100);
        let homes = targets::<Hrw>(&HrwParams::default(), 4, &keys);
        for (i, (key, home)) in keys.into_iter().zip(homes).enumerate() {
            assert_eq!(steered(&mut policy, key, true), home);
            assert_eq!(steered(&mut policy, key, false), CoreId(i as u16 % 4));
            assert_eq!(steered(&mut policy, key, true), home, "also at its end");
        }
    }

    #[test]
    fn one_connection_has_all_cores() {
        assert_eq!(targets::<Sprayer>(&SprayerParams {}, 3, &[7; 7]), cores_of([0, 1, 2, 0, 1, 2, 0]));
        assert_eq!(targets::<Sprayer>(&SprayerParams {}, 1, &[1, 2, 3]), cores_of([0, 0, 0]));
    }
}
