//! The scheduler of Linux 2.4, counted as the kernel does.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    nice: i64,
    /// Ticks left. `None`: the client was never there.
    counter: Option<i64>,
    /// Work done of its present tick, or beyond its last.
    done: i64,
    ready: bool,
    core: Option<CoreId>,
}

/// The scheduler of Linux 2.4 with ticks of work. When an epoch begins, it recomputes every
/// client's counter.
#[derive(Clone, Debug)]
pub struct NaiveLinux24 {
    tick: i64,
    clients: Vec<Client>,
    last: Vec<Option<ClientId>>,
}

/// Returns the nice value that has as many ticks as the weight, up to 11.
fn nice(weight: Weight) -> i64 {
    (20 - 4 * (i64::from(weight.get().min(11)) - 1)).min(19)
}

impl Client {
    fn ticks(&self) -> i64 {
        (20 - self.nice) / 4 + 1
    }

    fn goodness(&self, id: ClientId, core: CoreId, last: &[Option<ClientId>]) -> i64 {
        match self.counter {
            Some(counter) if counter > 0 => {
                let same_core = last.len() > 1 && self.core == Some(core);
                let same_memory = last[core.index()] == Some(id);
                counter + 20 - self.nice + if same_core { 15 } else { 0 } + i64::from(same_memory)
            }
            _ => 0,
        }
    }

    /// Adds work, or takes it back if it is negative.
    fn run(&mut self, work: i64, tick: i64) {
        let counter = self.counter.as_mut().expect("it is there");
        self.done += work;
        while self.done >= tick && *counter > 0 {
            self.done -= tick;
            *counter -= 1;
        }
        while self.done < 0 {
            self.done += tick;
            *counter += 1;
        }
    }

    fn begin_epoch(&mut self, tick: i64) {
        let ticks = self.ticks();
        if let Some(counter) = &mut self.counter {
            *counter = *counter / 2 + ticks;
            self.run(0, tick);
        }
    }
}

impl NaiveLinux24 {
    /// Returns clients with these weights, on `cores` cores, with `tick` work in a tick.
    pub fn new(weights: &[Weight], cores: usize, tick: Work) -> Self {
        let client = |&weight: &Weight| Client { nice: nice(weight), counter: None, done: 0, ready: false, core: None };
        Self {
            tick: i64::try_from(tick).expect("a tick of less than 2^63"),
            clients: weights.iter().map(client).collect(),
            last: vec![None; cores],
        }
    }
}

impl Policy for NaiveLinux24 {}

impl Share for NaiveLinux24 {
    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        let client = &mut self.clients[id.index()];
        let ticks = client.ticks();
        client.counter.get_or_insert(ticks);
        client.ready = true;
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.clients[id.index()].ready = true;
    }

    fn pick(&mut self, _: Time, core: CoreId) -> Option<ClientId> {
        if !self.clients.iter().any(|client| client.ready) {
            return None;
        }
        loop {
            let (mut best, mut most) = (None, 0);
            for (id, client) in self.clients.iter().enumerate().filter(|(_, client)| client.ready) {
                let id = ClientId::from_index(id);
                let goodness = client.goodness(id, core, &self.last);
                if goodness > most {
                    (best, most) = (Some(id), goodness);
                }
            }
            if best.is_some() {
                return best;
            }
            self.clients.iter_mut().for_each(|client| client.begin_epoch(self.tick));
        }
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.last[core.index()] = Some(id);
        let client = &mut self.clients[id.index()];
        client.ready = false;
        client.core = Some(core);
        client.run(sent.estimate as i64, self.tick);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.clients[id.index()].run(used as i64 - sent.estimate as i64, self.tick);
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        let client = &mut self.clients[id.index()];
        *client = Client { counter: None, done: 0, core: None, ..*client };
        self.last.iter_mut().filter(|last| **last == Some(id)).for_each(|last| *last = None);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        self.clients[id.index()].nice = nice(weight);
    }
}
