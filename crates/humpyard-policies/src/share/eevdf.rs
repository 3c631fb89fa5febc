//! Earliest eligible virtual deadline first: serves, of the clients that are owed service, the one
//! with the earliest deadline.
//!
//! **Idea.** A client's eligible time is the service that it has received, in work over weight.
//! Virtual time is the weighted mean of all eligible times, so the service owed to clients (their
//! lags) always sums to zero. A client that is owed service is eligible. A client requests service
//! in slices. The deadline of a slice is the time at which it would be done at the client's share.
//! The eligible client with the least deadline is served. Unlike a finish tag, a deadline needs no
//! estimate. A client that leaves keeps its lag, so no client gains by leaving and coming back.
//!
//! **Source.** Stoica, Abdel-Wahab. Earliest eligible virtual deadline first. Old Dominion University TR-95-22, 1995.
//! PROPORTIONAL_SHARE section 2.8.
//!
//! **Promises.** Work conserving. Let packets and slices have one unit, on one core with clients that stay: a
//! client is then less than one unit behind or ahead of its share of the service. Clients that come and go
//! bring their lags, which the others share: then the distance may be greater.
//!
//! **Cost.** O(log n) in the clients. A pick moves the clients that have become eligible, each once per packet.
//! It also moves those at the front that are no longer eligible because others came or left.
//!
//! **Invariants.** The lags of the clients that are not idle sum to exactly 0: the weighted sum of
//! their eligible times is virtual time times the sum of their weights. A client whose head may be
//! served is in `heads`. A client that waits to become eligible is ahead of virtual time, or was
//! when virtual time last advanced.
//!
//! **Departures.** The estimate is charged at dispatch and corrected at completion. If packets in service keep
//! all eligible clients from being served, as on several cores, the client with the least eligible time is
//! served. The stored lag of an idle client is rounded to a unit of 2^-32 of work; the sum stays exact. A slice
//! does not end before its packet: each packet begins another slice.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::eligible::{Eligible, Standing};
use super::tag::{ClientDivisor, Divisor, ExactTag, Tag, TotalTag};

params! {
    /// Parameters of earliest eligible virtual deadline first.
    pub struct EevdfParams {
        /// The work that a client requests at a time. With smaller requests the weights decide the
        /// order more, and the eligible times less. `auto` is the longest packet.
        slice: Auto = Auto::Auto, unit "work";
    }
}

/// Virtual time before any service: far from both ends of its range, because clients that are owed
/// service are before it.
const ORIGIN: Tag = 1 << 94;

/// The state of one client: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Client {
    /// Its eligible time: the service that it has received. While it is idle, that time relative to
    /// a virtual time of `ORIGIN`.
    eligible: ExactTag,
    weight: ClientDivisor,
    /// Whether it has packets.
    busy: bool,
}

impl Client {
    #[inline]
    fn weight(&self) -> u64 {
        self.weight.weight().get().into()
    }

    /// Returns the deadline of its next slice.
    #[inline]
    fn deadline(&self, slice: Work) -> Tag {
        let mut deadline = self.eligible;
        deadline.advance(slice, &self.weight.divisor());
        deadline.tag()
    }

    /// Charges the work `used`, of which `before` was charged earlier.
    #[inline]
    fn charge(&mut self, used: Work, before: Work) {
        self.eligible.correct(used, before, &self.weight.divisor());
    }
}

/// Virtual time: the weighted mean of the eligible times of the clients that are not idle.
#[derive(Debug)]
struct Mean {
    now: TotalTag,
    /// Sum of the weights.
    weight: u64,
    /// The sum of the weights as a divisor, or 1.
    among: Divisor,
}

impl Mean {
    fn new() -> Self {
        Self { now: TotalTag::at(ORIGIN), weight: 0, among: Divisor::new(1) }
    }

    /// Returns the service that the client is behind, in units of 2^-32 of work, rounded down:
    /// virtual time is a fraction.
    #[inline]
    fn lag(&self, client: &Client) -> i128 {
        self.fraction(client.weight()) - ahead_of(self.now.tag, client)
    }

    /// Returns the eligible time of a client with this weight and this lag.
    #[inline]
    fn lagging(&self, lag: i128, weight: &Divisor) -> ExactTag {
        ahead(self.now.tag, self.fraction(weight.weight()) - lag, weight)
    }

    /// Returns the part of the remainder for a client of this weight.
    #[inline]
    fn fraction(&self, weight: u64) -> i128 {
        let remainder = u128::from(self.now.remainder()) * u128::from(weight);
        // Without weights, there is no remainder.
        if remainder == 0 { 0 } else { quotient(remainder as i128, &self.among).0 }
    }

    /// Moves the weighted sum of eligible times forward by `ahead`, and sets the sum of weights.
    #[inline]
    fn change(&mut self, ahead: i128, weight: u64) {
        self.weight = weight;
        if self.among.weight() != weight.max(1) {
            self.among = Divisor::new(weight.max(1));
        }
        let (quotient, remainder) = quotient(i128::from(self.now.remainder()) + ahead, &self.among);
        let tag = self.now.tag.checked_add_signed(quotient).expect("virtual time is far from the ends of its range");
        self.now = TotalTag::with_remainder(tag, remainder);
    }
}

/// Returns the service that the client is ahead of a virtual time without a remainder, in units of
/// 2^-32 of work.
#[inline]
fn ahead_of(now: Tag, client: &Client) -> i128 {
    let ahead = client.eligible.tag() as i128 - now as i128;
    ahead * i128::from(client.weight()) + i128::from(client.eligible.remainder())
}

/// Returns the eligible time of a client of this weight that is this much service ahead.
#[inline]
fn ahead(now: Tag, ahead: i128, weight: &Divisor) -> ExactTag {
    let (quotient, remainder) = quotient(ahead, weight);
    let tag = now.checked_add_signed(quotient).expect("eligible times are far from the ends of their range");
    ExactTag::with_remainder(tag, remainder as u32)
}

/// Returns the quotient, rounded down, and the remainder.
#[inline]
fn quotient(number: i128, divisor: &Divisor) -> (i128, u64) {
    // The number almost always fits 64 bits, where the division needs only multiplications.
    if let Ok(number) = i64::try_from(number) {
        let (quotient, remainder) = divisor.divide(number.unsigned_abs());
        return match (number < 0, remainder) {
            (false, _) => (quotient.into(), remainder),
            (true, 0) => (-i128::from(quotient), 0),
            (true, _) => (-i128::from(quotient) - 1, divisor.weight() - remainder),
        };
    }
    let divisor = i128::from(divisor.weight());
    (number.div_euclid(divisor), number.rem_euclid(divisor) as u64)
}

/// Earliest eligible virtual deadline first.
#[derive(Debug)]
pub struct Eevdf {
    slice: Work,
    /// Virtual time, over the weights of the clients that are not idle.
    mean: Mean,
    /// The clients whose head may be served: early ones by eligible time, eligible ones by deadline.
    heads: Eligible<ClientId>,
    clients: IdVec<ClientId, Client>,
}

impl Build for Eevdf {
    type Params = EevdfParams;
    const INFO: Info = Info {
        name: "eevdf",
        family: Family::Share,
        summary: "of the clients that are owed service, the one whose next slice is due first; debts outlast idleness",
        source: "Stoica, Abdel-Wahab. Earliest eligible virtual deadline first. ODU TR-95-22, 1995",
        promises: &[Promise::WorkConserving, Promise::Fair("unit packets: -1 < error < 1")],
        complexity: "O(log n)",
    };
    const VARIANTS: &'static [&'static str] = &["slice=1"];

    fn new(params: &EevdfParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let slice = match params.slice {
            Auto::Auto => config.longest,
            Auto::Given(slice) => slice,
        };
        let clients = IdVec::from_fn(config.clients, |id| Client {
            eligible: ExactTag::at(ORIGIN),
            weight: ClientDivisor::new(config.weight(id)),
            busy: false,
        });
        let heads = Eligible::new(config.clients, config.ties);
        Ok(Self { slice, mean: Mean::new(), heads, clients })
    }
}

impl Policy for Eevdf {
    fn check(&self) {
        let now = self.mean.now.tag;
        let busy = || self.clients.ids().filter(|&id| self.clients[id].busy);
        let weight: u64 = busy().map(|id| self.clients[id].weight()).sum();
        assert_eq!(weight, self.mean.weight, "weights of the clients that are not idle");
        let ahead: i128 = busy().map(|id| ahead_of(now, &self.clients[id])).sum();
        assert_eq!(ahead, i128::from(self.mean.now.remainder()), "the sum of lags is not 0");
        for id in self.clients.ids() {
            let client = &self.clients[id];
            match self.heads.standing(id) {
                None => {}
                Some(Standing::Early(tag)) => {
                    assert_eq!(tag, client.eligible.tag(), "eligible time of client {id}")
                }
                Some(Standing::Due(tag)) => assert_eq!(tag, client.deadline(self.slice), "deadline of client {id}"),
            }
            assert!(client.busy || !self.heads.contains(id), "client {id} is idle and has a head");
        }
    }
}

impl Share for Eevdf {
    #[inline]
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.join(id);
        self.on_head(now, id, head);
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.file(id);
    }

    #[inline]
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        let now = self.mean.now.tag;
        // Virtual time may have gone back: then the first clients may have to wait again.
        while let Some((_, id)) = self.heads.first_due()
            && self.clients[id].eligible.tag() > now
        {
            self.heads.leave(id);
            self.file(id);
        }
        let (clients, slice) = (&self.clients, self.slice);
        let due = self.heads.choose(now, |id, _| clients[id].deadline(slice));
        due.or_else(|| self.heads.first_early().map(|(_, id)| id))
    }

    #[inline]
    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id];
        client.eligible.advance(sent.estimate, &client.weight.divisor());
        self.mean.now.advance(sent.estimate, &self.mean.among);
        self.heads.leave(id);
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        if used == sent.estimate {
            return;
        }
        let client = &mut self.clients[id];
        client.charge(used, sent.estimate);
        self.mean.now.correct(used, sent.estimate, &self.mean.among);
        self.file_again(id);
    }

    #[inline]
    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.leave(id);
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id].eligible = ExactTag::at(ORIGIN);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let to = ClientDivisor::new(weight);
        let client = &mut self.clients[id];
        if client.busy {
            let lagging = self.mean.lagging(self.mean.lag(client), &to.divisor());
            let before = ahead_of(self.mean.now.tag, client);
            let others = self.mean.weight - client.weight();
            (client.eligible, client.weight) = (lagging, to);
            let change = ahead_of(self.mean.now.tag, client) - before;
            self.mean.change(change, others + client.weight());
            self.file_again(id);
        } else {
            client.eligible = ahead(ORIGIN, ahead_of(ORIGIN, client), &to.divisor());
            client.weight = to;
        }
    }
}

impl Eevdf {
    /// Adds a client that was idle, with the lag that it left with.
    fn join(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.busy = true;
        client.eligible = self.mean.lagging(-ahead_of(ORIGIN, client), &client.weight.divisor());
        let weight = self.mean.weight + client.weight();
        self.mean.change(ahead_of(self.mean.now.tag, client), weight);
    }

    /// Makes a client idle; it keeps its lag.
    fn leave(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.busy = false;
        let (lag, before) = (self.mean.lag(client), ahead_of(self.mean.now.tag, client));
        client.eligible = ahead(ORIGIN, -lag, &client.weight.divisor());
        self.mean.change(-before, self.mean.weight - client.weight());
    }

    /// Files a client whose head may be served.
    #[inline]
    fn file(&mut self, id: ClientId) {
        let client = &self.clients[id];
        let eligible = client.eligible.tag();
        if eligible > self.mean.now.tag {
            self.heads.enter_early(id, eligible, 0);
        } else {
            self.heads.enter_due(id, client.deadline(self.slice), 0);
        }
    }

    /// Files a client whose eligible time has changed, if its head may be served.
    fn file_again(&mut self, id: ClientId) {
        if self.heads.contains(id) {
            self.heads.leave(id);
            self.file(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, Desk, V, after_ten_alone, assert_ties_may_go_to_the_higher, assert_wrong_estimates_are_corrected,
        churn_errors, random_weights, sequence, unit_errors, unit_sequence, v_work, weights_of,
    };
    use crate::testing::config;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;
    use humpyard_core::random::{Random, Seed};

    const EEVDF: EevdfParams = EevdfParams { slice: Auto::Auto };
    const CORE: CoreId = CoreId(0);

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Eevdf>(&EEVDF, &A, 12), "121213121213");
        assert_eq!(unit_sequence::<Eevdf>(&EEVDF, &B, 48), "121314151612131412131516".repeat(2));
        assert_eq!(sequence::<Eevdf>(&EEVDF, &V, 14, 10, v_work), "12131122113112");
        let slice = EevdfParams { slice: Auto::Given(10) };
        assert_eq!(sequence::<Eevdf>(&slice, &V, 14, 1, v_work), "12131122113112");
    }

    /// PROPORTIONAL_SHARE section 1, multiplied by the sum of the weights, 24.
    #[test]
    fn error_range_on_b() {
        assert_eq!(unit_errors::<Eevdf>(&EEVDF, &B, 48), (-22, 18));
    }

    /// PROPORTIONAL_SHARE sections 2.8 and 8.
    #[test]
    fn unit_errors_are_below_one() {
        for weights in random_weights("eevdf/few", 300, 12, 3000).chain(random_weights("eevdf/many", 100, 200, 60)) {
            let total: u32 = weights.iter().sum();
            let (least, greatest) = unit_errors::<Eevdf>(&EEVDF, &weights, 2 * total as usize);
            let total = i128::from(total);
            assert!(-total < least && greatest < total, "{least} to {greatest} of {total}: {weights:?}");
        }
    }

    /// PROPORTIONAL_SHARE section 2.5: a client that was alone for ten quanta does not wait for a
    /// client that comes then.
    #[test]
    fn use_of_idle_capacity_is_forgiven() {
        assert_eq!(after_ten_alone::<Eevdf>(&EEVDF, 6), "121212");
    }

    /// Returns a lag in units of 2^-32 of work.
    fn lag(policy: &Eevdf, number: u32) -> i128 {
        policy.mean.lag(&policy.clients[ClientId(number - 1)])
    }

    /// Half a unit of work.
    const HALF: i128 = 1 << 31;

    #[test]
    fn who_leaves_takes_its_lag_along() {
        let mut desk = Desk::<Eevdf>::new(&EEVDF, &[1, 1, 2]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(1), "1");
        assert_eq!([1, 2].map(|client| lag(desk.policy(), client)), [-HALF, HALF]);
        desk.block(1);
        // The remaining client is owed nothing.
        assert_eq!(lag(desk.policy(), 2), 0);
        desk.wake(&[3]);
        assert_eq!(desk.serve(3), "323");
        // The returning client owes half a unit. All present clients share it, itself too: it gets a quarter.
        desk.wake(&[1]);
        let lags = [1, 2, 3].map(|client| lag(desk.policy(), client));
        assert_eq!(lags.map(|lag| lag * 4 / HALF), [-3, 1, 2]);
        assert_eq!(desk.serve(4), "3231");
    }

    #[test]
    fn a_client_that_has_ended_leaves_no_lag() {
        let mut desk = Desk::<Eevdf>::new(&EEVDF, &[1, 1]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(1), "1");
        desk.block(1);
        desk.policy().on_client_end(Time::ZERO, ClientId(0));
        desk.wake(&[1]);
        assert_eq!(lag(desk.policy(), 1), 0);
    }

    #[test]
    fn a_new_weight_keeps_the_lag() {
        let mut desk = Desk::<Eevdf>::new(&EEVDF, &[3, 2, 1]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(4), "1212");
        let before = [1, 2, 3].map(|client| lag(desk.policy(), client));
        for weight in [7, 1000, 1] {
            desk.set_weight(2, weight);
            let after = [1, 2, 3].map(|client| lag(desk.policy(), client));
            let rounding = before.iter().zip(after).map(|(before, after)| (before - after).abs()).max();
            assert!(rounding <= Some(3), "{before:?} and {after:?} at {weight}");
        }
        assert_eq!(desk.serve(10), "1313112131");
    }

    #[test]
    fn an_idle_client_of_a_new_weight_keeps_its_lag() {
        let mut desk = Desk::<Eevdf>::new(&EEVDF, &[1, 1]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(1), "1");
        desk.block(1);
        desk.set_weight(1, 3);
        desk.wake(&[1]);
        assert_eq!([1, 2].map(|client| lag(desk.policy(), client)), [-HALF / 4, HALF / 4]);
    }

    /// On one core, the estimate charged at dispatch and its correction add up to the work used.
    #[test]
    fn wrong_estimates_are_corrected() {
        assert_wrong_estimates_are_corrected::<Eevdf>(&EEVDF, 20);
        let estimated = |client, number| (10, u64::from(v_work(client, number)));
        let fourteen = |desk: &mut Desk<Eevdf>| desk.serve(14);
        let mut desk = Desk::<Eevdf>::with_work(&EEVDF, &V, 10, estimated);
        desk.wake(&[1, 2, 3]);
        assert_eq!(fourteen(&mut desk), "12131122113112");
    }

    /// The bounds are at most twice those of PROPORTIONAL_SHARE section 5.5.
    #[test]
    fn errors_of_clients_that_come_and_go() {
        for seed in 0..10 {
            let (least, greatest) = churn_errors::<Eevdf>(&EEVDF, seed, 20_000);
            assert!(least > -3.0 && greatest < 1.8, "seed {seed}: {least} to {greatest}");
        }
    }

    /// Returns the least and the greatest lag. A client blocks after one in `block` of its own
    /// packets; an idle client wakes after one in `wake` of all packets.
    fn lags_under_churn(weights: &[u32], block: u64, wake: u64, random: &mut Random) -> (f64, f64) {
        let mut desk = Desk::<Eevdf>::new(&EEVDF, weights);
        let mut awake: Vec<bool> = weights.iter().map(|_| false).collect();
        let (mut least, mut greatest) = (0, 0);
        for _ in 0..3000 {
            for (client, awake) in awake.iter_mut().enumerate() {
                if !*awake && random.below(wake) == 0 {
                    desk.wake(&[client as u32 + 1]);
                    *awake = true;
                }
            }
            if !awake.contains(&true) {
                continue;
            }
            let (client, _) = desk.step();
            for (id, _) in awake.iter().enumerate().filter(|(_, awake)| **awake) {
                let lag = lag(desk.policy(), id as u32 + 1);
                (least, greatest) = (lag.min(least), lag.max(greatest));
            }
            if random.below(block) == 0 {
                awake[client.index()] = false;
                desk.block(client.0 + 1);
            }
        }
        let unit = (1u64 << 32) as f64;
        (least as f64 / unit, greatest as f64 / unit)
    }

    /// PROPORTIONAL_SHARE sections 2.8 and 5.5.
    #[test]
    fn lags_are_below_one_under_churn() {
        let mut random = Seed(1).stream("eevdf/churn");
        for _ in 0..100 {
            let weights: Vec<u32> = (0..30).map(|_| 1 + random.below(40) as u32).collect();
            let (least, greatest) = lags_under_churn(&weights, 20, 50, &mut random);
            assert!(-1.0 < least && greatest < 1.0, "{least} to {greatest}: {weights:?}");
        }
    }

    /// Section 2.8 claims the same for any churn. But the waiting clients share the lags that
    /// clients bring: if a few clients come and go all the time, a client can be owed two packets.
    #[test]
    fn debtors_that_come_back_leave_others_further_behind() {
        let mut random = Seed(1).stream("eevdf/violent");
        let lags = random_weights("eevdf/violent", 300, 5, 1000).map(|weights| {
            let (least, greatest) = lags_under_churn(&weights, 2, 3, &mut random);
            assert!(-1.0 < least && greatest < 2.5, "{least} to {greatest}: {weights:?}");
            greatest
        });
        assert!(lags.fold(0.0, f64::max) > 1.0);
    }

    /// Three packets are in service at once, at most one per client. The heaviest client is owed
    /// more than it can get, and all others still get their part of the rest.
    #[test]
    fn several_cores_are_never_idle() {
        let weights = weights_of(&[100, 2, 1, 1, 1]);
        let mut policy = Eevdf::new(&EEVDF, &config(3, 5, &weights)).unwrap();
        let packet = Packet { estimate: 1, ..Packet::default() };
        for client in (0..5).map(ClientId) {
            policy.on_wake(Time::ZERO, client, &packet);
        }
        let (mut in_service, mut served) = (Vec::new(), [0; 5]);
        for _ in 0..3000 {
            if in_service.len() == 3 {
                let client = in_service.remove(0);
                policy.on_completion(Time::ZERO, CORE, client, &packet, 1);
                policy.on_head(Time::ZERO, client, &packet);
            }
            let client = policy.pick(Time::ZERO, CORE).expect("somebody waits");
            assert_eq!(policy.pick(Time::ZERO, CORE), Some(client), "asked again");
            assert!(!in_service.contains(&client));
            policy.on_dispatch(Time::ZERO, CORE, client, &packet);
            policy.check();
            served[client.index()] += 1;
            in_service.push(client);
        }
        assert!(served[0] >= 990 && served.iter().sum::<u32>() == 3000, "{served:?}");
        assert!(served[1].abs_diff(800) <= 10 && served[2].abs_diff(400) <= 10, "{served:?}");
    }

    /// A client that returns with a large positive lag moves virtual time back: others are no
    /// longer eligible.
    #[test]
    fn virtual_time_goes_back() {
        let mut desk = Desk::<Eevdf>::new(&EEVDF, &[1, 1, 1]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(2), "12");
        let now = desk.policy().mean.now.tag;
        desk.policy().clients[ClientId(2)].eligible = ExactTag::at(ORIGIN - (3 << 32));
        desk.wake(&[3]);
        assert_eq!(now - desk.policy().mean.now.tag, 1 << 32, "three units over three clients");
        assert_eq!(desk.serve(5), "33312");
    }

    #[test]
    fn ties_may_go_to_the_higher() {
        assert_ties_may_go_to_the_higher::<Eevdf>(&EEVDF);
    }
}
