//! The service errors of a sharing policy over many random draws of the weights, with one heavy
//! client. These are the experiments of the GR3 paper (Caprita, Chan, Nieh, Stein, Zheng. Group
//! ratio round-robin. USENIX ATC 2005, figures 4 to 11).

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, Id};
use humpyard_core::mechanism::AlwaysReady;
use humpyard_core::policy::{BuildError, Share, Ties};
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Weight;
use humpyard_policies::registry::{AnyShare, ShareVisitor};
use humpyard_policies::spec::PolicySpec;

use super::direct::Direct;
use super::errors::{Errors, Fraction, Peak, check_bounds};
use super::{check_policy, setup};

/// The position of the heavy client: its number, and so its time of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heavy {
    /// Before all other clients.
    First,
    /// After all other clients.
    Last,
}

/// The random numbers in proportion to which clients get weights. The paper says no law.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WeightLaw {
    /// Uniform between 0 and 1: that of PROPORTIONAL_SHARE section 5.1.
    #[default]
    Uniform,
    /// Uniform between 0.5 and 1.5.
    NearMean,
    /// The square of a uniform number.
    Squared,
    /// Exponential, as if the sum were cut at random places.
    Exponential,
    /// Uniform integers from 1 to 40, as the weights of the paper's processes that send messages.
    UpTo40,
}

impl WeightLaw {
    /// Draws a number. All laws except `Exponential` give whole numbers, so they are the same on
    /// every machine.
    fn draw(self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform => random.bits() >> 11,
            Self::NearMean => (1 << 52) + (random.bits() >> 11),
            Self::Squared => (random.bits() >> 38).pow(2),
            Self::Exponential => (random.exponential(1.0) * f64::from(1_u32 << 31)) as u64,
            Self::UpTo40 => 1 + random.below(40),
        }
    }
}

/// Random weights: one heavy client, and the others by chance.
///
/// The heavy client has round(skew × S) of the weights' sum S, at least 1. The rest R goes to the
/// others by random numbers u_1, u_2, .. of a law: together the first j have floor(R (u_1 + .. +
/// u_j) / (u_1 + u_2 + ..)). A client with 0 gets 1 from the next client that has more than 1.
/// that gets 1 from the next client that has more than 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SkewedWeights {
    clients: usize,
    /// The weight of the heavy client.
    heaviest: u32,
    /// The sum of all other weights.
    rest: u32,
    heavy: Heavy,
    law: WeightLaw,
}

impl SkewedWeights {
    /// Returns weights of `clients` clients, 2 or more, that add up to `total`; the heavy client
    /// has the part `skew`.
    ///
    /// # Errors
    /// The skew is not from 0 to 1, or leaves the others less than 1 each.
    pub fn new(clients: usize, total: u32, skew: f64, heavy: Heavy) -> Result<Self, BuildError> {
        if !(0.0..=1.0).contains(&skew) {
            return Err(BuildError::set_up(format!(
                "the skew, the part of the heavy client, is from 0 to 1, not {skew}"
            )));
        }
        if clients < 2 {
            return Err(BuildError::set_up(format!(
                "one client is heavy among others: 2 clients or more, not {clients}"
            )));
        }
        let heaviest = ((f64::from(total) * skew).round() as u32).max(1);
        let rest = total.saturating_sub(heaviest);
        if (rest as usize) < clients - 1 {
            return Err(BuildError::set_up(format!(
                "weights of {clients} clients that add up to {total}, of which one has {heaviest}, leave the others less than 1 \
                 each: have fewer clients, a greater total, or less skew"
            )));
        }
        Ok(Self { clients, heaviest, rest, heavy, law: WeightLaw::default() })
    }

    /// Sets the law that divides the weights of the other clients.
    #[must_use]
    pub fn by(self, law: WeightLaw) -> Self {
        Self { law, ..self }
    }

    /// Returns the sum of the weights.
    pub fn total(&self) -> u32 {
        self.heaviest + self.rest
    }

    /// The weight of the heavy client.
    pub fn heaviest(&self) -> u32 {
        self.heaviest
    }

    /// Draws the weights, in the order of the clients. O(clients)
    pub fn draw(&self, random: &mut Random) -> Vec<Weight> {
        let others = raise_zeros(self.divide_rest(random));
        let weights: Vec<u32> = match self.heavy {
            Heavy::First => [self.heaviest].into_iter().chain(others).collect(),
            Heavy::Last => others.into_iter().chain([self.heaviest]).collect(),
        };
        weights.into_iter().map(|weight| Weight::new(weight).expect("all have 1 at least")).collect()
    }

    /// Divides the rest with whole numbers, without rounding.
    fn divide_rest(&self, random: &mut Random) -> Vec<u32> {
        let mut sum = 0;
        let sums: Vec<u128> = (1..self.clients)
            .map(|_| {
                sum += u128::from(self.law.draw(random));
                sum
            })
            .collect();
        let mut given = 0;
        let more = |sum_here: u128| {
            let until = (sum_here * u128::from(self.rest)).checked_div(sum).unwrap_or(0) as u32;
            until - core::mem::replace(&mut given, until)
        };
        sums.into_iter().map(more).collect()
    }
}

/// Gives 1 to each client with 0, from the next in a circle that has more than 1. Such a client
/// must exist.
fn raise_zeros(mut weights: Vec<u32>) -> Vec<u32> {
    let clients = weights.len();
    let mut giver = 0;
    for poor in 0..clients {
        if weights[poor] > 0 {
            continue;
        }
        giver = giver.max(poor);
        while weights[giver % clients] <= 1 {
            giver += 1;
        }
        weights[giver % clients] -= 1;
        weights[poor] = 1;
    }
    weights
}

/// The experiment.
#[derive(Clone, Debug)]
pub struct DrawsRequest {
    /// A sharing policy.
    pub policy: PolicySpec,
    /// The law of the weights.
    pub weights: SkewedWeights,
    /// How often weights are drawn.
    pub draws: u32,
    /// Processors, each of which serves one unit of work in a slot; errors are taken between slots.
    pub processors: usize,
    /// Slots of each draw. `None`: enough to serve as much work as the weights add up to; after
    /// these the schedules of most policies repeat.
    pub slots: Option<u64>,
    /// The order of two equals.
    pub ties: Ties,
    /// The seed of weights and random policies: each draw has its own stream.
    pub seed: Seed,
    /// Threads among which draws are divided; the results do not depend on them.
    pub threads: NonZeroUsize,
}

impl DrawsRequest {
    /// Slots of each draw.
    pub fn slots(&self) -> u64 {
        self.slots.unwrap_or_else(|| u64::from(self.weights.total()).div_ceil(self.processors as u64))
    }
}

/// The least or the greatest error of all. Of equal errors it is that of the first draw, and the
/// first in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Extreme {
    /// The service error.
    pub error: Fraction,
    /// The draw with the error, from 1.
    pub draw: u32,
    /// The client with the error.
    pub client: ClientId,
    /// The weight of that client.
    pub weight: Weight,
    /// Slots of the draw before the error.
    pub slots: u64,
}

/// The extremes of single draws: their mean and their standard deviation.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; 0 of one draw.
    pub deviation: f64,
}

/// The service errors over all draws.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Draws {
    /// The furthest any client was behind its share.
    pub least: Extreme,
    /// The greatest lead of any client over its share.
    pub greatest: Extreme,
    /// How far the draws differ in how far clients were behind.
    pub least_spread: Spread,
    /// How far they differ in how far clients were ahead.
    pub greatest_spread: Spread,
    /// The most draws from its run queue for one pick; only for a policy with such a queue:
    /// `gr3mp`.
    pub queue_draws_max: Option<u32>,
}

/// Asks a sharing policy for the schedules of random weights, with always-ready clients and packets
/// of one unit of work. Returns the bounds of the service errors. Calls `progress` on this thread
/// with the number of finished draws.
///
/// # Errors
/// The policy is not a sharing policy alone, or rejects the configuration, or there is too much
/// work for exact errors.
pub fn draws(request: &DrawsRequest, mut progress: impl FnMut(u32)) -> Result<Draws, BuildError> {
    check_policy(&request.policy)?;
    // The work of all draws together, so that the sums of errors and of their squares are exact
    // too.
    let work = request.slots().saturating_mul(request.processors as u64);
    check_bounds(u64::from(request.weights.total()), work.saturating_mul(u64::from(request.draws)))?;
    let next = AtomicU32::new(0);
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..request.threads.get().min(request.draws as usize) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(draw) = take(next, request.draws) {
                    if sender.send((draw, Drawn::of(request, draw))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut all: Option<Drawn> = None;
        let mut refused: Option<(u32, BuildError)> = None;
        for (done, (draw, drawn)) in (1..).zip(finished) {
            match drawn {
                Ok(drawn) => all = Some(all.map_or(drawn, |all| all.merged(drawn))),
                Err(error) if refused.as_ref().is_none_or(|&(first, _)| draw < first) => {
                    // Draws are taken in order, so all draws before this one are reported too.
                    next.store(request.draws, Ordering::Relaxed);
                    refused = Some((draw, error));
                }
                Err(_) => {}
            }
            progress(done);
        }
        match (refused, all) {
            (Some((_, error)), _) => Err(error),
            (None, Some(all)) => Ok(all.result(u64::from(request.weights.total()))),
            (None, None) => Err(BuildError::set_up("there is nothing to say without a draw: have one or more")),
        }
    })
}

/// Returns the number of the next draw, from 1. `None`: all draws are taken.
fn take(next: &AtomicU32, draws: u32) -> Option<u32> {
    let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| (taken < draws).then_some(taken + 1));
    taken.ok().map(|before| before + 1)
}

/// An extreme of one draw or several.
#[derive(Clone, Copy)]
struct Found {
    peak: Peak,
    weight: Weight,
    draw: u32,
}

/// Sums over draws, exact, so that their order does not matter: of extremes times the sum of the weights.
#[derive(Clone, Copy)]
struct Sums {
    draws: u32,
    sum: i128,
    squares: i128,
}

impl Sums {
    const fn of(scaled: i64) -> Self {
        let scaled = scaled as i128;
        Self { draws: 1, sum: scaled, squares: scaled * scaled }
    }

    const fn merged(self, other: Self) -> Self {
        Self { draws: self.draws + other.draws, sum: self.sum + other.sum, squares: self.squares + other.squares }
    }

    fn spread(self, total_weight: u64) -> Spread {
        let (draws, total) = (f64::from(self.draws), total_weight as f64);
        // Multiplied by the number of draws squared, in whole numbers: the variance is exactly 0 if
        // all errors are equal.
        let variance = (i128::from(self.draws) * self.squares - self.sum * self.sum) as f64;
        let degrees = draws * (draws - 1.0).max(1.0);
        Spread { mean: self.sum as f64 / draws / total, deviation: (variance / degrees).sqrt() / total }
    }
}

/// The results of one or more draws.
#[derive(Clone, Copy)]
struct Drawn {
    least: Found,
    greatest: Found,
    least_sums: Sums,
    greatest_sums: Sums,
    queue_draws_max: Option<u32>,
}

impl Drawn {
    fn of(request: &DrawsRequest, draw: u32) -> Result<Self, BuildError> {
        let mut random = request.seed.stream(&format!("schedule/draw/{draw}"));
        let weights = request.weights.draw(&mut random);
        let setup = setup(&weights, request.processors, request.ties, Seed(random.bits()));
        let policy = request.policy.build_share(&setup)?;
        let slots = request.slots();
        let Seen { extremes, queue_draws_max } = if can_be_direct(&policy, &setup) {
            Seen::directly(policy, &setup, slots)
        } else {
            Seen::through_the_mechanism(request, &setup, slots)?
        };
        let [least, greatest] = extremes.map(|peak| Found { peak, weight: weights[peak.client.index()], draw });
        let [least_sums, greatest_sums] = [least, greatest].map(|found| Sums::of(found.peak.scaled));
        Ok(Self { least, greatest, least_sums, greatest_sums, queue_draws_max })
    }

    /// The extremes of both; the order in which draws are done does not matter.
    fn merged(self, other: Self) -> Self {
        let least = |found: &Found| (found.peak.scaled, found.draw);
        let greatest = |found: &Found| (-found.peak.scaled, found.draw);
        Self {
            least: core::cmp::min_by_key(self.least, other.least, least),
            greatest: core::cmp::min_by_key(self.greatest, other.greatest, greatest),
            least_sums: self.least_sums.merged(other.least_sums),
            greatest_sums: self.greatest_sums.merged(other.greatest_sums),
            queue_draws_max: self.queue_draws_max.max(other.queue_draws_max),
        }
    }

    fn result(self, total_weight: u64) -> Draws {
        let extreme = |found: Found| Extreme {
            error: Errors::exact(found.peak.scaled, total_weight),
            draw: found.draw,
            client: found.peak.client,
            weight: found.weight,
            slots: found.peak.slots,
        };
        Draws {
            least: extreme(self.least),
            greatest: extreme(self.greatest),
            least_spread: self.least_sums.spread(total_weight),
            greatest_spread: self.greatest_sums.spread(total_weight),
            queue_draws_max: self.queue_draws_max,
        }
    }
}

/// Whether the policy can run without the mechanism: it distinguishes clients, and the
/// configuration needs no check.
fn can_be_direct(policy: &AnyShare, setup: &SchedulerConfig) -> bool {
    let has_clients = !policy.merges_clients() && !policy.serves_services();
    has_clients && (1..=usize::from(u16::MAX)).contains(&setup.cores) && setup.clients <= DIRECT_MAX
}

/// With more clients, the mechanism checks whether there is memory for them.
const DIRECT_MAX: usize = 1 << 20;

/// The results of one schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    /// The least and the greatest error.
    extremes: [Peak; 2],
    queue_draws_max: Option<u32>,
}

impl Seen {
    fn through_the_mechanism(request: &DrawsRequest, setup: &SchedulerConfig, slots: u64) -> Result<Self, BuildError> {
        let clients = (0..setup.clients).map(ClientId::from_index);
        let mut ready = AlwaysReady::new(setup, clients, |_, _| 1, || request.policy.build_share(setup))?;
        let mut errors = Errors::new(&setup.weights);
        let mut served = Vec::with_capacity(setup.cores);
        for _ in 0..slots {
            served.clear();
            served.extend(ready.step().flatten().map(|served| served.client));
            errors.on_slot(&served);
        }
        Ok(Self { extremes: errors.extremes(), queue_draws_max: ready.share().draws_max() })
    }

    fn directly(policy: AnyShare, setup: &SchedulerConfig, slots: u64) -> Self {
        let run = DirectRun { setup, slots };
        if let AnyShare::Gr3mp(policy) = policy {
            let (extremes, policy) = run.of(policy);
            return Self { extremes, queue_draws_max: Some(policy.draws_max()) };
        }
        Self { extremes: policy.visit(run), queue_draws_max: None }
    }
}

/// A run of slots with a policy that is called by its own type.
#[derive(Clone, Copy)]
struct DirectRun<'a> {
    setup: &'a SchedulerConfig,
    slots: u64,
}

impl DirectRun<'_> {
    /// Returns the least and the greatest error, and the policy at the end.
    fn of<Q: Share>(self, policy: Q) -> ([Peak; 2], Q) {
        let mut direct = Direct::new(policy, self.setup.clients, self.setup.cores);
        let mut errors = Errors::new(&self.setup.weights);
        let mut served = Vec::with_capacity(self.setup.cores);
        for _ in 0..self.slots {
            served.clear();
            direct.step(|client| served.push(client));
            errors.on_slot(&served);
        }
        (errors.extremes(), direct.into_policy())
    }
}

impl ShareVisitor for DirectRun<'_> {
    type Answer = [Peak; 2];

    fn visit<Q: Share>(self, policy: Q) -> [Peak; 2] {
        self.of(policy).0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ScheduleRequest, schedule};
    use super::*;
    use humpyard_policies::registry::Entry;

    fn request(policy: &str, clients: usize, total: u32, draws: u32) -> DrawsRequest {
        DrawsRequest {
            policy: policy.parse().unwrap(),
            weights: SkewedWeights::new(clients, total, 0.1, Heavy::First).unwrap(),
            draws,
            processors: 1,
            slots: None,
            ties: Ties::Lowest,
            seed: Seed(1),
            threads: NonZeroUsize::new(2).unwrap(),
        }
    }

    fn range(request: &DrawsRequest) -> (f64, f64) {
        let found = draws(request, |_| ()).unwrap();
        (found.least.error.value(), found.greatest.error.value())
    }

    /// Coefficients of variation are those of the textbook: 1/√3, 1/√12, 2/√5, 1, and
    /// √(1599/12)/20.5.
    #[test]
    fn laws_differ_in_how_far_weights_lie_apart() {
        let laws = [
            (WeightLaw::Uniform, 0.577),
            (WeightLaw::NearMean, 0.289),
            (WeightLaw::Squared, 0.894),
            (WeightLaw::Exponential, 1.0),
            (WeightLaw::UpTo40, 0.563),
        ];
        for (law, expected) in laws {
            let weights = SkewedWeights::new(4001, 40_000_000, 0.1, Heavy::First).unwrap().by(law);
            let drawn = weights.draw(&mut Seed(1).stream("laws"));
            let of: Vec<f64> = drawn[1..].iter().map(|weight| f64::from(weight.get())).collect();
            let mean = of.iter().sum::<f64>() / of.len() as f64;
            let variance = of.iter().map(|weight| (weight - mean).powi(2)).sum::<f64>() / of.len() as f64;
            let found = variance.sqrt() / mean;
            assert!((found / expected - 1.0).abs() < 0.05, "{law:?}: {found}");
        }
    }

    #[test]
    fn weights_follow_the_law() {
        let mut random = Seed(1).stream("test");
        for (clients, total, skew) in
            [(2, 2, 0.0), (32, 16_384, 0.1), (1000, 1000, 0.001), (900, 1000, 0.1), (7, 100, 0.94)]
        {
            for heavy in [Heavy::First, Heavy::Last] {
                let law = SkewedWeights::new(clients, total, skew, heavy).unwrap();
                assert_eq!(law.heaviest(), ((f64::from(total) * skew).round() as u32).max(1));
                for _ in 0..20 {
                    let weights = law.draw(&mut random);
                    assert_eq!(weights.len(), clients);
                    assert_eq!(weights.iter().map(|weight| weight.get()).sum::<u32>(), total, "{weights:?}");
                    let place = if heavy == Heavy::First { 0 } else { clients - 1 };
                    assert_eq!(weights[place].get(), law.heaviest());
                }
            }
        }
        assert_eq!(raise_zeros(vec![0, 3, 0, 1, 2, 0]), [1, 1, 1, 1, 1, 1]);
        assert_eq!(raise_zeros(vec![1, 0, 0, 3, 9]), [1, 1, 1, 1, 9]);
        assert_eq!(raise_zeros(vec![9, 2, 0]), [8, 2, 1]);
    }

    /// All others have the same mean, and as many are above it as below.
    #[test]
    fn the_rest_is_divided_evenly() {
        let law = SkewedWeights::new(11, 110_000, 0.1, Heavy::First).unwrap();
        let mut random = Seed(2).stream("test");
        let mut sums = [0u64; 10];
        let mut above = 0;
        for _ in 0..1000 {
            for (sum, weight) in sums.iter_mut().zip(&law.draw(&mut random)[1..]) {
                *sum += u64::from(weight.get());
                above += u32::from(weight.get() > 9900);
            }
        }
        // The expected value is 9,900 for each. The deviation is about 5,800 for one, and 180 for
        // the mean of 1,000.
        for sum in sums {
            assert!((9_200_000..10_600_000).contains(&sum), "{sums:?}");
        }
        assert!((4500..5500).contains(&above), "{above} of 10,000 above the mean");
    }

    #[test]
    fn what_is_no_law_is_refused() {
        let refused =
            |clients, total, skew| SkewedWeights::new(clients, total, skew, Heavy::First).unwrap_err().to_string();
        for skew in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(refused(3, 100, skew).contains("from 0 to 1, not"), "{skew}");
        }
        assert!(refused(1, 100, 0.1).contains("2 clients or more"));
        assert!(refused(101, 100, 0.0).contains("leave the others less than 1 each"));
        assert!(refused(3, 100, 1.0).contains("of which one has 100"));
        let none = draws(&request("drr", 2, 10, 0), |_| ()).unwrap_err().to_string();
        assert!(none.contains("have one or more"), "{none}");
        let other = draws(&request("hrw", 2, 10, 1), |_| ()).unwrap_err().to_string();
        assert!(other.contains("a sharing policy alone"), "{other}");
    }

    /// PROPORTIONAL_SHARE section 5.1, figure 4: the heavy client is first, and gets all its slots
    /// in a row.
    #[test]
    fn wrr_is_as_far_ahead_as_its_bound_says() {
        for (clients, total) in [(32, 1 << 14), (512, 1 << 14), (32, 1 << 16)] {
            let request = request("wrr", clients, total, 4);
            let found = draws(&request, |_| ()).unwrap();
            let (heaviest, total) = (i128::from(request.weights.heaviest()), i128::from(total));
            let Fraction { numerator, denominator } = found.greatest.error;
            assert_eq!(numerator * total, heaviest * (total - heaviest) * denominator, "{found:?}");
            let greatest = found.greatest;
            assert_eq!((greatest.draw, greatest.client, i128::from(greatest.slots)), (1, ClientId(0), heaviest));
        }
    }

    /// The same, figure 6: a heavy client that loses ties falls behind by its part of all clients.
    #[test]
    fn sfq_is_behind_by_the_clients() {
        for clients in [32, 512] {
            let (least, greatest) = range(&DrawsRequest { ties: Ties::Highest, ..request("sfq", clients, 1 << 14, 5) });
            let by_clients = -0.1 * clients as f64;
            assert!((by_clients..by_clients + 1.2).contains(&least), "{least} of {clients}");
            assert!((0.0..=1.0).contains(&greatest), "{greatest}");
        }
    }

    #[test]
    fn wf2q_plus_stays_within_one() {
        let (least, greatest) = range(&request("wf2q+", 128, 1 << 14, 5));
        assert!(least > -1.0 && greatest < 1.0, "{least} to {greatest}");
    }

    /// The same, figures 9 to 11.
    #[test]
    fn gr3_stays_within_a_few_slots_on_one_processor_and_on_eight() {
        let (least, greatest) = range(&request("gr3", 32, 1 << 14, 100));
        assert!((-3.0..=-2.2).contains(&least) && (2.4..=3.5).contains(&greatest), "{least} to {greatest}");
        let found = draws(&DrawsRequest { processors: 8, ..request("gr3mp", 128, 1 << 14, 40) }, |_| ()).unwrap();
        let (least, greatest) = (found.least.error.value(), found.greatest.error.value());
        assert!((-3.0..0.0).contains(&least) && (0.0..3.5).contains(&greatest), "{least} to {greatest}");
        assert!(matches!(found.queue_draws_max, Some(2..=7)), "{found:?}");
    }

    /// Every policy, in each of its variants, makes the same decisions with and without the
    /// mechanism.
    #[test]
    fn without_the_mechanism_all_is_the_same() {
        let mut compared = 0;
        for spec in AnyShare::entries().iter().flat_map(Entry::specs) {
            for (seed, ties) in (1..=3).flat_map(|seed| [(seed, Ties::Lowest), (seed, Ties::Highest)]) {
                for (clients, total, processors) in [(2, 9, 1), (7, 200, 1), (40, 900, 1), (7, 200, 3), (3, 50, 4)] {
                    let base = request(&spec, clients, total, 1);
                    let request = DrawsRequest { processors, ties, seed: Seed(seed), ..base };
                    compared += usize::from(is_the_same_either_way(&request));
                }
            }
        }
        let merging = 1;
        assert!(compared >= (AnyShare::entries().len() - merging) * 6 * 3, "{compared} compared");
    }

    /// Whether the policy can also run without the mechanism; then the results must agree.
    fn is_the_same_either_way(request: &DrawsRequest) -> bool {
        let mut random = request.seed.stream("either way");
        let weights = request.weights.draw(&mut random);
        let setup = setup(&weights, request.processors, request.ties, Seed(random.bits()));
        let Ok(policy) = request.policy.build_share(&setup) else { return false };
        if !can_be_direct(&policy, &setup) {
            return false;
        }
        let slots = 2 * request.slots() + 3;
        let mechanism = Seen::through_the_mechanism(request, &setup, slots).unwrap();
        assert_eq!(Seen::directly(policy, &setup, slots), mechanism, "{request:?}");
        assert!(mechanism.extremes[1].slots > 0, "nobody was served: {request:?}");
        true
    }

    /// The results of a draw equal those of `schedule` for its weights.
    #[test]
    fn a_draw_is_a_schedule() {
        for (policy, processors) in [("sfq", 1), ("gr3mp", 3), ("fcfs", 2)] {
            let request = DrawsRequest { processors, ..request(policy, 20, 600, 1) };
            let found = draws(&request, |_| ()).unwrap();
            let mut random = Seed(1).stream("schedule/draw/1");
            let weights = request.weights.draw(&mut random);
            let alone = schedule(&ScheduleRequest {
                policy: request.policy.clone(),
                order: (0..20).map(ClientId::from_index).collect(),
                processors,
                slots: request.slots() as usize,
                ties: Ties::Lowest,
                seed: Seed(random.bits()),
                weights,
            });
            let alone = alone.unwrap();
            assert_eq!((alone.error_min, alone.error_max), (found.least.error, found.greatest.error), "{policy}");
            assert_eq!(alone.slots.len(), 600usize.div_ceil(processors));
        }
    }

    #[test]
    fn draws_are_alike_or_not() {
        let found = draws(&request("wrr", 32, 1 << 14, 5), |_| ()).unwrap();
        assert_eq!(found.greatest_spread, Spread { mean: found.greatest.error.value(), deviation: 0.0 });
        let Spread { mean, deviation } = found.least_spread;
        assert!(deviation > 0.0 && found.least.error.value() < mean && mean < 0.0, "{found:?}");
        let one = draws(&request("wrr", 32, 1 << 14, 1), |_| ()).unwrap();
        assert_eq!(one.least_spread, Spread { mean: one.least.error.value(), deviation: 0.0 });
    }

    #[test]
    fn threads_change_nothing() {
        let on = |threads| {
            let threads = NonZeroUsize::new(threads).unwrap();
            let mut progress = Vec::new();
            let found = draws(&DrawsRequest { threads, ..request("gr3", 32, 2048, 9) }, |done| progress.push(done));
            assert_eq!(progress, (1..=9).collect::<Vec<_>>());
            found.unwrap()
        };
        let one = on(1);
        assert_eq!(on(2), one);
        assert_eq!(on(20), one);
    }
}
