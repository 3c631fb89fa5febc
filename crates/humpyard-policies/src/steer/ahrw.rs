//! Adjusted highest random weight: rendezvous hashing in which a long queue lowers a core's bid.
//!
//! **Idea.** Each core bids its hash of the connection, divided by the queue length that the packet
//! would find, itself included. While queues are equal, a connection stays on its core. When they
//! differ, packets go to cores with short queues.
//!
//! **Source.** Guo, Liao, Bhuyan, Liu, Ding. An adaptive hash-based multilayer scheduler for
//! L7-filter. ANCS 2009, as described in Guo, Bhuyan. PS-HRW. STEERING section 3.
//!
//! **Promises.** With equal queues every connection is on its `hrw` core, so each core has 1/N of them on
//! average. If a core is removed while queues stay the same, only its connections move. No order.
//!
//! **Cost.** O(N) in the eligible cores, no state per connection; `form=log` takes a logarithm for each core.
//!
//! **Departures.** The paper divides by the queue Q, which is 0/0 for idle cores, and multiplies by
//! the shortest queue. Here the divisor is Q + 1, without a common factor. Dividing a uniform hash
//! is steep: if one core of N has weight w and the others have weight 1, it gets w^(N-1)/N of the
//! connections. So the policy is close to the shortest queue. `form=log` gives that core exactly w
//! / (N - 1 + w).

use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score};
use humpyard_core::id::{CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use super::bid::{Cost, Exact, highest, length};

choice! {
    /// How a queue enters the bid.
    pub enum Form {
        /// Hash divided by length.
        Paper = "paper",
        /// -1 / (length · ln hash): shares are exactly proportional to 1 / length.
        Log = "log",
    }
}

params! {
    /// Parameters of adjusted highest random weight.
    pub struct AhrwParams {
        /// How a queue enters the bid: the hash over its length, or such that shares are proportional to 1/length.
        form: Form = Form::Paper;
    }
}

/// Adjusted highest random weight.
#[derive(Debug)]
pub struct Ahrw {
    form: Form,
    /// The salt of each core.
    salts: Vec<u64>,
}

impl Build for Ahrw {
    type Params = AhrwParams;
    const INFO: Info = Info {
        name: "ahrw",
        family: Family::Steer,
        summary: "each packet to the core with the highest hash over queue length",
        source: "Guo et al. An adaptive hash-based multilayer scheduler for L7-filter. ANCS 2009",
        promises: &[Promise::Fair("equal queues: each core has 1/N of the connections, in the mean")],
        complexity: "O(N)",
    };
    const VARIANTS: &'static [&'static str] = &["form=log"];

    fn new(params: &AhrwParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { form: params.form, salts: (0..config.cores as u64).map(salt).collect() })
    }
}

impl Policy for Ahrw {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Ahrw {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let score = |core: CoreId| score(packet.key, self.salts[core.index()]);
        let cores = view.eligible.iter().copied();
        let winner = match self.form {
            Form::Paper => highest(cores.map(|core| (core, Exact::new(score(core), length(view, core))))),
            Form::Log => highest(cores.map(|core| (core, Cost::log(score(core), 1.0, length(view, core) as f64)))),
        };
        Target::Core(winner.expect("at least one core is eligible"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::hrw::{Hrw, HrwParams};
    use crate::steer::testing::{cores_of, keys, shares, targets, targets_behind};
    use humpyard_core::hash::unit_score;

    const PAPER: AhrwParams = AhrwParams { form: Form::Paper };
    const LOG: AhrwParams = AhrwParams { form: Form::Log };

    /// Returns the share of one core that has one packet while the other `cores - 1` are idle: w = 1/2.
    fn share_at_half(params: &AhrwParams, cores: usize, keys: &[u64]) -> f64 {
        let mut lengths = [0; 16];
        lengths[0] = 1;
        shares(&targets_behind::<Ahrw>(params, &lengths[..cores], keys), cores)[0]
    }

    #[test]
    fn example_of_the_specification() {
        let lengths = [2, 0, 1, 3];
        for (core, expected) in [0.1593, 0.5255, 0.2943, 0.2389].into_iter().enumerate() {
            let found = unit_score(score(12345, salt(core as u64))) / f64::from(lengths[core] + 1);
            assert!((found - expected).abs() < 5e-5, "core {core} bids {found}, not {expected}");
        }
        assert_eq!(targets_behind::<Ahrw>(&PAPER, &lengths, &[12345]), cores_of([1]));
        assert_eq!(targets::<Ahrw>(&PAPER, 4, &[12345]), cores_of([3]), "as hrw");
    }

    #[test]
    fn equal_queues_leave_connections_on_their_hrw_core() {
        let keys = keys(10_000);
        let hrw = targets::<Hrw>(&HrwParams::default(), 8, &keys);
        for params in [PAPER, LOG] {
            for length in [0, 1, 7, u32::MAX] {
                assert_eq!(targets_behind::<Ahrw>(&params, &[length; 8], &keys), hrw);
            }
        }
    }

    #[test]
    fn a_hash_over_length_is_steep() {
        let keys = keys(200_000);
        for (cores, expected, tolerance) in [(2, 0.25, 4e-3), (4, 0.031, 2e-3), (8, 0.00098, 3e-4), (16, 2e-6, 2e-5)] {
            let share = share_at_half(&PAPER, cores, &keys);
            assert!((share - expected).abs() < tolerance, "{cores} cores: {share}");
        }
    }

    #[test]
    fn shares_of_the_log_form_are_proportional() {
        let keys = keys(200_000);
        for (cores, expected) in [(2, 0.333), (4, 0.143), (8, 0.067), (16, 0.032)] {
            let share = share_at_half(&LOG, cores, &keys);
            assert!((share - expected).abs() < 4e-3, "{cores} cores: {share}");
        }
        let lengths = [0, 1, 2, 5];
        let whole: f64 = lengths.iter().map(|&length| 1.0 / f64::from(length + 1)).sum();
        let found = shares(&targets_behind::<Ahrw>(&LOG, &lengths, &keys), 4);
        for (share, length) in found.into_iter().zip(lengths) {
            let expected = 1.0 / f64::from(length + 1) / whole;
            assert!((share - expected).abs() < 4e-3, "behind {length}: {share}, not {expected}");
        }
    }

    #[test]
    fn an_endless_queue_is_never_joined_while_another_is_short() {
        for params in [PAPER, LOG] {
            let found = targets_behind::<Ahrw>(&params, &[3, u32::MAX, 0], &keys(10_000));
            assert!(!found.contains(&CoreId(1)));
        }
    }
}
