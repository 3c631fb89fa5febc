//! Quick fair queueing, by its definition.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};

/// Fraction bits of a tag.
const FRACTION: u32 = 32;
/// Slots that a client may be behind virtual time, and that a group's first bucket may be behind
/// its last.
const BEHIND_MAX: i128 = 32;
const BUCKETS: i128 = 64;

/// A tag: whole units of 2^-32, and the remainder of the last division.
#[derive(Clone, Copy, Debug, Default)]
struct Exact {
    tag: i128,
    remainder: i128,
}

impl Exact {
    fn add(&mut self, work: i128, weight: i128) {
        let total = (work << FRACTION) + self.remainder;
        *self = Self { tag: self.tag + total.div_euclid(weight), remainder: total.rem_euclid(weight) };
        if self.tag < 0 {
            *self = Self::default();
        }
    }
}

/// Where the head of a client waits: its group, the beginning of its bucket, and how many clients
/// came to buckets before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    group: u32,
    bucket: i128,
    came: u64,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    weight: i128,
    start: Exact,
    in_service: i128,
    raised: bool,
    busy: bool,
    place: Option<Place>,
}

/// Quick fair queueing, as PROPORTIONAL_SHARE section 2.12 defines it. Among the groups that have
/// begun, it serves the one with the least finish, and checks every client to find it. It keeps no
/// bitmap, no list and no state of groups.
///
/// Tags are rounded where those of the fast version are: at every change of the sum of the weights.
/// So both make the same decisions.
#[derive(Clone, Debug)]
pub struct NaiveQfq {
    longest: i128,
    virtual_time: Exact,
    /// The sum of the weights when virtual time last grew.
    shared_among: i128,
    uncounted: i128,
    came: u64,
    clients: Vec<Client>,
}

impl NaiveQfq {
    /// Returns clients with these weights, whose packets cost at most `longest`.
    pub fn new(weights: &[Weight], longest: Work) -> Self {
        let client = |weight: &Weight| Client {
            weight: weight.get().into(),
            start: Exact::default(),
            in_service: 0,
            raised: false,
            busy: false,
            place: None,
        };
        Self {
            longest: i128::from(longest),
            virtual_time: Exact::default(),
            shared_among: 1,
            uncounted: 0,
            came: 0,
            clients: weights.iter().map(client).collect(),
        }
    }

    fn weight(&self) -> i128 {
        self.clients.iter().filter(|client| client.busy).map(|client| client.weight).sum()
    }

    fn advance(&mut self) {
        let weight = self.weight();
        if self.uncounted > 0 && weight > 0 {
            self.virtual_time.remainder = self.virtual_time.remainder * weight / self.shared_among;
            self.virtual_time.add(self.uncounted, weight);
            self.shared_among = weight;
            self.uncounted = 0;
        }
    }

    /// The slots of a group are two to the power of this long, in units of 2^-32: group 0 is that of the greatest weight.
    fn shift(&self, group: u32) -> u32 {
        let longest = self.longest as u64;
        (if longest > 1 { (longest - 1).ilog2() + 1 } else { 0 }) + group
    }

    /// Returns the lowest group whose slots hold L/w.
    fn home(&self, weight: i128) -> u32 {
        (0..).find(|&group| self.longest << FRACTION <= weight << self.shift(group)).expect("a long slot")
    }

    fn slot(&self, group: u32, tag: i128) -> i128 {
        tag >> self.shift(group) << self.shift(group)
    }

    /// The beginning of the first bucket of a group.
    fn first(&self, group: u32) -> Option<i128> {
        self.clients.iter().filter_map(|client| client.place).filter(|at| at.group == group).map(|at| at.bucket).min()
    }

    fn insert(&mut self, id: ClientId) {
        let Client { weight, start, .. } = self.clients[id.index()];
        let now = self.virtual_time.tag;
        let home = self.home(weight);
        let least = (self.slot(home, now) - (BEHIND_MAX << self.shift(home))).max(0);
        if start.tag < least {
            self.clients[id.index()].start = Exact { tag: least, remainder: 0 };
        }
        let start = start.tag.max(least);
        let fits = |group: &u32| self.slot(*group, start) <= self.slot(*group, now) + (1 << self.shift(*group));
        let group = (home..).find(fits).expect("a long slot");
        let last = self.first(group).map_or(i128::MAX, |first| first + ((BUCKETS - 1) << self.shift(group)));
        let bucket = self.slot(group, start).min(last);
        self.came += 1;
        self.clients[id.index()].place = Some(Place { group, bucket, came: self.came });
    }

    /// Returns the place of the client to be served: in the first bucket of a group.
    fn next(&self) -> Option<Place> {
        let places = || self.clients.iter().filter_map(|client| client.place);
        let started = places().filter(|at| at.bucket <= self.virtual_time.tag);
        let finish = |at: &Place| self.first(at.group).expect("it waits") + (2 << self.shift(at.group));
        started.min_by_key(|at| (finish(at), at.group, at.bucket, at.came))
    }

    /// Advances virtual time to the beginning of the first bucket, if no client is eligible.
    fn skip(&mut self) {
        let first = self.clients.iter().filter_map(|client| client.place).map(|at| at.bucket).min();
        if let (None, Some(tag)) = (self.next(), first) {
            self.virtual_time = Exact { tag, remainder: 0 };
        }
    }
}

impl Policy for NaiveQfq {}

impl Share for NaiveQfq {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        if waiting > 0 {
            return;
        }
        self.advance();
        let client = &mut self.clients[id.index()];
        if client.start.tag < self.virtual_time.tag {
            client.start = Exact { tag: self.virtual_time.tag, remainder: 0 };
            client.raised = true;
        }
    }

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.advance();
        self.clients[id.index()].busy = true;
        self.insert(id);
        if self.clients.iter().all(|client| client.in_service == 0) {
            self.skip();
        }
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.insert(id);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.advance();
        self.skip();
        let next = self.next()?;
        self.clients.iter().position(|client| client.place == Some(next)).map(ClientId::from_index)
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let work = i128::from(sent.estimate);
        self.uncounted += work;
        let client = &mut self.clients[id.index()];
        client.start.add(work, client.weight);
        client.in_service += work;
        (client.place, client.raised) = (None, false);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let more = i128::from(used) - i128::from(sent.estimate);
        self.uncounted += more;
        let client = &mut self.clients[id.index()];
        client.in_service -= i128::from(sent.estimate);
        if more > 0 || !client.raised {
            client.start.add(more, client.weight);
        }
        if more != 0 && client.place.take().is_some() {
            self.insert(id);
        }
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.advance();
        self.clients[id.index()].busy = false;
        if self.weight() == 0 {
            self.uncounted = 0;
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id.index()].start = Exact::default();
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let queued = self.clients[id.index()].place.take().is_some();
        if self.clients[id.index()].busy {
            self.advance();
        }
        let client = &mut self.clients[id.index()];
        client.start.add(-client.in_service, client.weight);
        client.start.remainder = 0;
        client.weight = weight.get().into();
        client.start.add(client.in_service, client.weight);
        if queued {
            self.insert(id);
        }
    }
}
