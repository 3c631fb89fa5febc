//! Helpers shared by the tests of sharing policies.

use alloc::string::String;
use alloc::vec::Vec;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, Id, ServiceId};
use humpyard_core::mechanism::AlwaysReady;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, Share, Ties};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, Work};

use crate::testing::config;

/// PROPORTIONAL_SHARE section 1, set A.
pub(crate) const A: [u32; 3] = [3, 2, 1];
/// Set B: the six clients of the GR3 paper.
pub(crate) const B: [u32; 6] = [12, 3, 3, 2, 2, 2];
/// Set V, with the work of [`v_work`].
pub(crate) const V: [u32; 3] = [2, 1, 1];

/// Returns the work of the nth packet of a client of set V.
pub(crate) fn v_work(client: ClientId, number: u64) -> u32 {
    const WORK: [[u32; 4]; 3] = [[4, 6, 2, 8], [5, 1, 9, 3], [10, 10, 10, 10]];
    WORK[client.index()][number as usize % 4]
}

pub(crate) fn weights_of(weights: &[u32]) -> Vec<Weight> {
    weights.iter().map(|&weight| Weight::new(weight).expect("a positive weight")).collect()
}

/// Returns the clients that a policy serves on one processor, as a string of numbers from 1. All
/// clients are always ready.
pub(crate) fn sequence<Q: Share + Build>(
    params: &Q::Params,
    weights: &[u32],
    slots: usize,
    longest: u64,
    work: impl FnMut(ClientId, u64) -> u32,
) -> String {
    let weights = weights_of(weights);
    let config = SchedulerConfig { longest, ..config(1, weights.len(), &weights) };
    let clients = (0..weights.len()).map(ClientId::from_index);
    let mut ready = AlwaysReady::new(&config, clients, work, || Q::new(params, &config)).expect("valid parameters");
    (0..slots)
        .map(|_| {
            let served = ready.step().next().flatten().expect("work conserving");
            char::from_digit(served.client.0 + 1, 36).expect("few clients")
        })
        .collect()
}

/// Returns the clients that a policy serves on each of several processors, with always-ready
/// clients and packets of work 1.
pub(crate) fn unit_ticks<Q: Share + Build>(
    params: &Q::Params,
    weights: &[u32],
    processors: usize,
    ticks: usize,
) -> Vec<Vec<ClientId>> {
    let weights = weights_of(weights);
    let config = SchedulerConfig { longest: 1, ..config(processors, weights.len(), &weights) };
    let clients = (0..weights.len()).map(ClientId::from_index);
    let mut ready = AlwaysReady::new(&config, clients, |_, _| 1, || Q::new(params, &config)).expect("valid parameters");
    (0..ticks).map(|_| ready.step().map(|served| served.expect("work conserving").client).collect()).collect()
}

/// As [`sequence`], with packets of work 1.
pub(crate) fn unit_sequence<Q: Share + Build>(params: &Q::Params, weights: &[u32], slots: usize) -> String {
    sequence::<Q>(params, weights, slots, 1, |_, _| 1)
}

/// A policy driven by hand on one processor. Clients have a packet waiting from `wake` to `block`.
/// Clients have numbers from 1, as in the specification.
pub(crate) struct Desk<Q> {
    policy: Q,
    /// Returns the estimated and the actual work of the nth packet of a client.
    work: fn(ClientId, u64) -> (Work, Work),
    sent: Vec<u64>,
    /// The client that was served last, if its next head is not offered yet.
    served: Option<ClientId>,
}

impl<Q: Share + Build> Desk<Q> {
    /// Creates a desk with packets of work 1.
    pub(crate) fn new(params: &Q::Params, weights: &[u32]) -> Self {
        Self::with_work(params, weights, 1, |_, _| (1, 1))
    }

    /// Creates a desk with packets of this work, estimated and actual; `longest` is the longest estimate.
    pub(crate) fn with_work(
        params: &Q::Params,
        weights: &[u32],
        longest: Work,
        work: fn(ClientId, u64) -> (Work, Work),
    ) -> Self {
        let weights = weights_of(weights);
        let config = SchedulerConfig { longest, ..config(1, weights.len(), &weights) };
        let policy = Q::new(params, &config).expect("valid parameters");
        Self { policy, work, sent: weights.iter().map(|_| 0).collect(), served: None }
    }

    /// Returns the policy itself.
    pub(crate) fn policy(&mut self) -> &mut Q {
        &mut self.policy
    }

    fn head(&self, client: ClientId) -> Packet {
        let estimate = (self.work)(client, self.sent[client.index()]).0;
        Packet { client, estimate, ..Packet::default() }
    }

    /// Wakes these clients: they have packets from now on.
    pub(crate) fn wake(&mut self, clients: &[u32]) {
        for client in clients.iter().map(|client| ClientId(client - 1)) {
            let head = self.head(client);
            self.policy.on_arrival(Time::ZERO, client, &head, 0);
            self.policy.on_wake(Time::ZERO, client, &head);
            self.policy.check();
        }
    }

    /// Blocks the client that was served last: it has no packets left.
    pub(crate) fn block(&mut self, client: u32) {
        let client = ClientId(client - 1);
        assert_eq!(self.served.take(), Some(client), "only who was served last has become idle");
        self.policy.on_idle(Time::ZERO, client);
        self.policy.check();
    }

    pub(crate) fn set_weight(&mut self, client: u32, weight: u32) {
        self.offer();
        let weight = Weight::new(weight).expect("a positive weight");
        self.policy.set_weight(Time::ZERO, ClientId(client - 1), weight);
        self.policy.check();
    }

    fn offer(&mut self) {
        if let Some(client) = self.served.take() {
            let head = self.head(client);
            // The packet arrived while the one before it was waiting: clients that are awake never
            // have an empty queue.
            self.policy.on_arrival(Time::ZERO, client, &head, 1);
            self.policy.on_head(Time::ZERO, client, &head);
        }
    }

    /// Serves one packet. Returns its client and its work.
    pub(crate) fn step(&mut self) -> (ClientId, Work) {
        self.offer();
        let client = self.policy.pick(Time::ZERO, CoreId(0)).expect("work conserving");
        let sent = self.head(client);
        let used = (self.work)(client, self.sent[client.index()]).1;
        self.sent[client.index()] += 1;
        self.policy.on_dispatch(Time::ZERO, CoreId(0), client, &sent);
        self.policy.on_completion(Time::ZERO, CoreId(0), client, &sent, used);
        self.policy.check();
        self.served = Some(client);
        (client, used)
    }

    /// Serves `steps` packets. Returns their clients.
    pub(crate) fn serve(&mut self, steps: usize) -> String {
        (0..steps).map(|_| char::from_digit(self.step().0.0 + 1, 36).expect("few clients")).collect()
    }
}

/// Returns the least and the greatest service error, times the sum of the weights, over `slots`
/// packets of work 1.
pub(crate) fn unit_errors<Q: Share + Build>(params: &Q::Params, weights: &[u32], slots: usize) -> (i128, i128) {
    let mut desk = Desk::<Q>::new(params, weights);
    let numbers: Vec<u32> = (1..=weights.len() as u32).collect();
    desk.wake(&numbers);
    let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
    let mut served: Vec<i128> = weights.iter().map(|_| 0).collect();
    let (mut least, mut greatest) = (0, 0);
    for slot in 0..slots as i128 {
        let client = desk.step().0.index();
        let weight = i128::from(weights[client]);
        least = least.min(served[client] * total - slot * weight);
        served[client] += 1;
        greatest = greatest.max(served[client] * total - (slot + 1) * weight);
    }
    (least, greatest)
}

/// Returns the greatest part of a bound on lags that was used: 3wσ + (more.0) w/W + more.1, with σ
/// the least power of two not below L/w. Up to `clients` clients of random weights stay, with
/// packets of any length up to L, which is 10; `more` takes L. Every interval counts.
pub(crate) fn most_of_bound_used<Q: Share + Build>(
    params: &Q::Params,
    name: &str,
    clients: u64,
    more: fn(i128) -> (i128, i128),
) -> f64 {
    const LONGEST: u64 = 10;
    let work = |client: ClientId, number| {
        let work = 1 + mix(u64::from(client.0) << 32 | number) % LONGEST;
        (if client.0.is_multiple_of(3) { LONGEST } else { work }, work)
    };
    let mut most: f64 = 0.0;
    for weights in random_weights(name, 200, clients, 1000) {
        let mut desk = Desk::<Q>::with_work(params, &weights, LONGEST, work);
        desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
        let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
        let bounds: Vec<i128> = weights
            .iter()
            .map(|&weight| {
                let weight = i128::from(weight);
                let sigma = (0..).map(|bits| 1 << bits).find(|sigma| sigma * weight >= i128::from(LONGEST) << 32);
                let (shared, own) = more(LONGEST.into());
                ((3 * weight * sigma.expect("a slot")) >> 32) * total + shared * weight + own * total
            })
            .collect();
        // The service to which each client is entitled beyond what it had, times the sum of the
        // weights: now, and the least so far.
        let mut lags: Vec<(i128, i128)> = weights.iter().map(|_| (0, 0)).collect();
        for _ in 0..2000 {
            let (served, work) = desk.step();
            for (client, (lag, least)) in lags.iter_mut().enumerate() {
                *lag += i128::from(weights[client]) * i128::from(work);
                *lag -= if client == served.index() { i128::from(work) * total } else { 0 };
                *least = (*least).min(*lag);
                most = most.max((*lag - *least) as f64 / bounds[client] as f64);
            }
        }
    }
    most
}

/// Returns `sets` random sets of at most `clients` weights up to a limit, which is at most `weight`.
pub(crate) fn random_weights(name: &str, sets: u64, clients: u64, weight: u64) -> impl Iterator<Item = Vec<u32>> {
    let mut random = Seed(1).stream(name);
    (0..sets).map(move |_| {
        let weight = 1 + random.below(weight);
        (0..1 + random.below(clients)).map(|_| 1 + random.below(weight) as u32).collect()
    })
}

/// Returns the least and the greatest service error over `packets` packets of work 1.
/// PROPORTIONAL_SHARE section 5.5: 30 clients with weights up to 40. Each blocks after one in
/// twenty of its own packets, and wakes at one in fifty of all packets. A client's error restarts
/// when it wakes.
pub(crate) fn churn_errors<Q: Share + Build>(params: &Q::Params, seed: u64, packets: usize) -> (f64, f64) {
    const CLIENTS: usize = 30;
    let mut random = Seed(seed).stream("churn");
    let weights: Vec<u32> = (0..CLIENTS).map(|_| 1 + random.below(40) as u32).collect();
    let mut desk = Desk::<Q>::new(params, &weights);
    let mut errors = [Some(0.0); CLIENTS];
    desk.wake(&(1..=CLIENTS as u32).collect::<Vec<_>>());
    let (mut least, mut greatest) = (0.0f64, 0.0f64);
    for _ in 0..packets {
        let served = desk.step().0.index();
        let awake = weights.iter().zip(&errors).filter(|(_, error)| error.is_some());
        let total: u32 = awake.map(|(weight, _)| weight).sum();
        for (error, &weight) in errors.iter_mut().zip(&weights) {
            let Some(error) = error else { continue };
            *error -= f64::from(weight) / f64::from(total);
        }
        let error = errors[served].as_mut().expect("only who is awake is served");
        // The error before the packet was served, and after.
        least = least.min(*error + f64::from(weights[served]) / f64::from(total));
        *error += 1.0;
        greatest = greatest.max(*error);
        if random.below(20) == 0 && errors.iter().flatten().count() > 1 {
            desk.block(served as u32 + 1);
            errors[served] = None;
        }
        for (client, error) in errors.iter_mut().enumerate() {
            if error.is_none() && client != served && random.below(50) == 0 {
                desk.wake(&[client as u32 + 1]);
                *error = Some(0.0);
            }
        }
    }
    (least, greatest)
}

/// Lets one of two equal clients be served alone for ten quanta, then wakes the other. Returns the
/// clients that a policy serves in the next `steps` steps.
pub(crate) fn after_ten_alone<Q: Share + Build>(params: &Q::Params, steps: usize) -> String {
    let mut desk = Desk::<Q>::new(params, &[1, 1]);
    desk.wake(&[1]);
    assert_eq!(desk.serve(10), "1111111111");
    desk.wake(&[2]);
    desk.serve(steps)
}

/// Asserts that the clients of set V get equal service per weight up to `apart`, on one core. Every
/// packet is estimated at 10, and completion corrects the charge of dispatch.
pub(crate) fn assert_wrong_estimates_are_corrected<Q: Share + Build>(params: &Q::Params, apart: u64) {
    let mut desk = Desk::<Q>::with_work(params, &V, 10, |client, number| (10, v_work(client, number).into()));
    desk.wake(&[1, 2, 3]);
    let mut served = [0; 3];
    for _ in 0..3000 {
        let (client, work) = desk.step();
        served[client.index()] += work;
    }
    let shares = served.iter().zip(V).map(|(served, weight)| served / u64::from(weight));
    assert!(shares.clone().max().zip(shares.min()).is_some_and(|(most, least)| most - least <= apart), "{served:?}");
}

/// Asserts that the highest of three equal clients is served first if ties go to the higher.
pub(crate) fn assert_ties_may_go_to_the_higher<Q: Share + Build>(params: &Q::Params) {
    let config = SchedulerConfig { ties: Ties::Highest, ..config(1, 3, &[]) };
    let mut policy = Q::new(params, &config).expect("valid parameters");
    for id in (0..3).map(ClientId) {
        policy.on_wake(Time::ZERO, id, &Packet { estimate: 1, ..Packet::default() });
    }
    assert_eq!(policy.pick(Time::ZERO, CoreId(0)), Some(ClientId(2)));
}

/// Returns the configuration of one core with this many clients, and a service for each tolerance in ns.
pub(crate) fn with_tolerances(tolerances: &[u64], clients: usize) -> SchedulerConfig {
    let service = |&tolerance: &u64| ServiceConfig { tolerance: Time::from_ns(tolerance), ..ServiceConfig::default() };
    SchedulerConfig { services: tolerances.iter().map(service).collect(), ..config(1, clients, &[]) }
}

/// Offers one head of each client, from client 0. Returns the clients in the order in which they are
/// served, from 0.
pub(crate) fn served_once<Q: Share>(policy: &mut Q, heads: &[Packet]) -> Vec<u32> {
    let ids = (0..heads.len()).map(ClientId::from_index);
    ids.zip(heads).for_each(|(id, head)| policy.on_wake(head.arrival, id, head));
    let now = heads.iter().map(|head| head.arrival).max().expect("a head");
    let mut next = || {
        let id = policy.pick(now, CoreId(0))?;
        policy.on_dispatch(now, CoreId(0), id, &heads[id.index()]);
        policy.on_idle(now, id);
        Some(id.0)
    };
    core::iter::from_fn(&mut next).collect()
}

/// Asserts that, of the heads that are offered, the one with the least key is always picked, and of
/// equal ones that of the lower client. Clients wake, continue and become idle at random.
pub(crate) fn assert_the_least_is_picked<Q: Share + Build>(
    params: &Q::Params,
    tolerances: &[u64],
    key: impl Fn(&Packet) -> u128,
) {
    const CLIENTS: usize = 20;
    let mut policy = Q::new(params, &with_tolerances(tolerances, CLIENTS)).expect("valid parameters");
    let mut random = Seed(5).stream("heads");
    let mut heads: [Option<Packet>; CLIENTS] = [None; CLIENTS];
    for step in 0..20_000 {
        let now = Time::from_ns(step);
        let head = Packet {
            arrival: Time::from_ns(step - random.below(step.min(1000) + 1)),
            service: ServiceId::from_index(random.below(tolerances.len() as u64) as usize),
            estimate: 1 + random.below(100),
            ..Packet::default()
        };
        let at = random.below(CLIENTS as u64) as usize;
        if heads[at].is_none() {
            policy.on_wake(now, ClientId::from_index(at), &head);
            heads[at] = Some(head);
        }
        let offered = heads.iter().enumerate().filter_map(|(at, head)| Some((key(head.as_ref()?), at)));
        let least = offered.min().expect("one was offered").1;
        assert_eq!(policy.pick(now, CoreId(0)), Some(ClientId::from_index(least)), "at step {step}");
        if random.below(3) > 0 {
            let (id, sent) = (ClientId::from_index(least), heads[least].take().expect("it was offered"));
            policy.on_dispatch(now, CoreId(0), id, &sent);
            policy.on_completion(now, CoreId(0), id, &sent, sent.estimate);
            if random.below(2) > 0 {
                policy.on_head(now, id, &head);
                heads[least] = Some(head);
            } else {
                policy.on_idle(now, id);
            }
        }
        policy.check();
    }
}
