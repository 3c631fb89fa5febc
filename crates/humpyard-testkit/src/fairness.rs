//! Pairwise fairness: how far the service of two clients differs while both have packets.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::mechanism::{Completed, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::{Time, Weight, Work};

use crate::observer::Observer;

/// When a whole packet counts as served.
///
/// The theorems for tags and rounds add up packets in the order in which the server starts them.
/// With one packet in service at a time, counting at completion gives the same values: both counts
/// agree between two packets, and during a packet the later count keeps its earlier value. With
/// several packets in service, each client's count at completion lags by its work in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// When it starts on a core.
    Start,
    /// When it is complete.
    Completion,
}

/// When a client counts as backlogged.
///
/// A client whose last packet is in service has no next packet. With several packets in service at
/// once, others may rightly overtake it then. With one at a time, no decision is made until that
/// packet is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backlog {
    /// While it has a packet waiting.
    Waiting,
    /// While it has a packet waiting or in service.
    Held,
}

/// The largest packets of one client so far, in the unit of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// The greatest cost.
    pub used: Work,
    /// The greatest estimate, of packets waiting too.
    pub estimate: Work,
    /// The greatest distance between the two.
    pub error: Work,
    /// The greatest excess of the cost over the estimate.
    pub overrun: Work,
}

/// A promise: |W_i/w_i − W_j/w_j| ≤ `fixed` + part(i)/w_i + part(j)/w_j over every interval in
/// which both are backlogged.
///
/// If weights change, the weights below `part` are the smallest that each client ever had.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The part that is no client's own.
    pub fixed: Work,
    /// A client's own part, from its largest packets.
    pub part: fn(&Extent) -> Work,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    weight: i128,
    weight_min: i128,
    /// Its service since its weight last changed.
    served: i128,
    waiting: u32,
    in_service: u32,
    extent: Extent,
}

impl Client {
    fn is_backlogged(&self, backlog: Backlog) -> bool {
        self.waiting > 0 || (backlog == Backlog::Held && self.in_service > 0)
    }
}

/// The extremes of W_i/w_i − W_j/w_j, times both weights, since both are backlogged.
#[derive(Clone, Copy, Debug)]
struct Range {
    min: i128,
    max: i128,
}

/// Asserts a fairness bound over every interval, in whole numbers.
#[derive(Debug)]
pub struct Fairness {
    count: Count,
    backlog: Backlog,
    bound: Bound,
    clients: Vec<Client>,
    /// By i, then j < i. `None`: one of them is not backlogged.
    pairs: Vec<Vec<Option<Range>>>,
    /// The greatest part of a bound that was used so far, in millionths.
    tightness_millionths: i128,
}

impl Fairness {
    /// Returns a check for clients with these weights.
    pub fn new(weights: &[Weight], count: Count, backlog: Backlog, bound: Bound) -> Self {
        let clients = weights.iter().map(|&weight| {
            let weight = i128::from(weight.get());
            Client { weight, weight_min: weight, served: 0, waiting: 0, in_service: 0, extent: Extent::default() }
        });
        Self {
            count,
            backlog,
            bound,
            clients: clients.collect(),
            pairs: (0..weights.len()).map(|i| vec![None; i]).collect(),
            tightness_millionths: 0,
        }
    }

    /// Returns the greatest used fraction of a bound, from 0 to 1. Near 0, these histories hardly
    /// test the bound.
    pub fn tightness(&self) -> f64 {
        self.tightness_millionths as f64 / 1e6
    }

    /// Checks every pair with this client.
    fn compare(&mut self, id: ClientId) {
        let id = id.index();
        for other in (0..self.clients.len()).filter(|&other| other != id) {
            self.compare_pair(id.max(other), id.min(other));
        }
    }

    fn compare_pair(&mut self, i: usize, j: usize) {
        let (a, b) = (&self.clients[i], &self.clients[j]);
        if !a.is_backlogged(self.backlog) || !b.is_backlogged(self.backlog) {
            self.pairs[i][j] = None;
            return;
        }
        let ahead = a.served * b.weight - b.served * a.weight;
        let range = self.pairs[i][j].get_or_insert(Range { min: ahead, max: ahead });
        *range = Range { min: range.min.min(ahead), max: range.max.max(ahead) };
        let strayed = range.max - range.min;
        let (allowed, scale) = self.allowed(a, b);
        assert!(
            strayed * scale <= allowed,
            "clients {i} and {j} strayed by {} of work per weight from each other: {} is allowed",
            strayed as f64 / (a.weight * b.weight) as f64,
            allowed as f64 / (a.weight * b.weight * scale) as f64
        );
        if allowed > 0 {
            self.tightness_millionths = self.tightness_millionths.max(1_000_000 * strayed * scale / allowed);
        }
    }

    /// The bound times both weights and times the second number, which makes it whole.
    fn allowed(&self, a: &Client, b: &Client) -> (i128, i128) {
        let part = |client: &Client| i128::from((self.bound.part)(&client.extent));
        let scale = a.weight_min * b.weight_min;
        let own = part(a) * b.weight_min + part(b) * a.weight_min;
        (a.weight * b.weight * (i128::from(self.bound.fixed) * scale + own), scale)
    }

    /// Intervals that the client has part in are over.
    fn part(&mut self, id: ClientId) {
        let id = id.index();
        for other in (0..self.clients.len()).filter(|&other| other != id) {
            self.pairs[id.max(other)][id.min(other)] = None;
        }
    }
}

impl Observer for Fairness {
    fn on_accept(&mut self, _: Time, packet: &Packet) {
        let client = &mut self.clients[packet.client.index()];
        client.waiting += 1;
        client.extent.estimate = client.extent.estimate.max(packet.estimate);
        self.compare(packet.client);
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, dispatch: &Dispatch, used: Work) {
        let id = dispatch.packet.client;
        let client = &mut self.clients[id.index()];
        client.extent.serve(dispatch.packet.estimate, used);
        client.in_service += 1;
        if self.count == Count::Start {
            client.served += i128::from(used);
        }
        // The packet was waiting when it was chosen: its service belongs to the interval that it may end.
        self.compare(id);
        self.clients[id.index()].waiting -= 1;
        self.compare(id);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, completed: &Completed, _: Time) {
        let id = completed.packet.client;
        let client = &mut self.clients[id.index()];
        if self.count == Count::Completion {
            client.served += i128::from(completed.used);
        }
        self.compare(id);
        self.clients[id.index()].in_service -= 1;
        self.clients[id.index()].waiting += u32::from(completed.onward.is_some());
        self.compare(id);
    }

    fn on_drop(&mut self, _: Time, packet: &Packet) {
        self.clients[packet.client.index()].waiting -= 1;
        self.compare(packet.client);
    }

    fn on_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let client = &mut self.clients[id.index()];
        client.weight = i128::from(weight.get());
        client.weight_min = client.weight_min.min(client.weight);
        client.served = 0;
        self.part(id);
        self.compare(id);
    }
}

impl Extent {
    fn serve(&mut self, estimate: Work, used: Work) {
        self.used = self.used.max(used);
        self.error = self.error.max(used.abs_diff(estimate));
        self.overrun = self.overrun.max(used.saturating_sub(estimate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::id::Slot;

    const LONGEST: Bound = Bound { fixed: 0, part: |extent| extent.used };
    const CORE: CoreId = CoreId(0);

    fn packet(client: u32) -> Packet {
        Packet { client: ClientId(client), estimate: 10, ..Packet::default() }
    }

    fn serve(fairness: &mut Fairness, client: u32) {
        let packet = packet(client);
        fairness.on_dispatch(Time::ZERO, CORE, &Dispatch { slot: Slot(0), packet, cold: false, moved: None }, 10);
        fairness.on_completion(
            Time::ZERO,
            CORE,
            &Completed { packet, used: 10, onward: None, ends: false, exit: None },
            Time::from_ns(10),
        );
    }

    /// Returns two clients with packets of 10 waiting, after they were served in this order.
    fn serve_in_turn(count: Count, weights: [u32; 2], served: &[u32]) -> Fairness {
        let weights = weights.map(|weight| Weight::new(weight).expect("positive"));
        let mut fairness = Fairness::new(&weights, count, Backlog::Held, LONGEST);
        for client in [0, 1] {
            (0..=served.len()).for_each(|_| fairness.on_accept(Time::ZERO, &packet(client)));
        }
        served.iter().for_each(|&client| serve(&mut fairness, client));
        fairness
    }

    #[test]
    fn turns_in_proportion_pass() {
        for count in [Count::Start, Count::Completion] {
            assert_eq!(serve_in_turn(count, [1, 1], &[0, 1, 1, 0, 0, 1]).tightness(), 1.0);
            serve_in_turn(count, [2, 1], &[0, 1, 0, 0, 1, 0, 0, 0, 1]);
        }
    }

    #[test]
    #[should_panic(expected = "strayed by 30 of work per weight")]
    fn three_in_a_row_are_too_many() {
        serve_in_turn(Count::Start, [1, 1], &[0, 1, 0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "strayed")]
    fn an_interval_may_begin_anywhere() {
        // From the first packet on 1 is never behind by more than 10; from the third on it gains 30.
        serve_in_turn(Count::Completion, [1, 1], &[0, 0, 1, 1, 1]);
    }

    #[test]
    fn an_idle_client_is_not_behind() {
        let weights = [Weight::ONE; 2];
        let mut fairness = Fairness::new(&weights, Count::Start, Backlog::Held, LONGEST);
        for client in [0, 0, 0, 0, 0, 0, 1, 1, 1] {
            fairness.on_accept(Time::ZERO, &packet(client));
            serve(&mut fairness, client);
        }
        assert_eq!(fairness.tightness(), 0.0);
    }
}
