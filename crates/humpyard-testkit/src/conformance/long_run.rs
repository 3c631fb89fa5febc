//! Shares in the long run against the fluid share: the part of the work that a weight is worth.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::mechanism::{Never, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::Share;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight};

use crate::{Event, History, Player, ServiceCount, Shape};

/// Feasible on three cores: no weight is above a third of the sum, 24.
const WEIGHTS: [u32; 7] = [7, 5, 4, 3, 2, 2, 1];

/// Clients that have packets waiting from the start and to the end, on three cores.
#[derive(Clone, Debug)]
pub struct LongRun {
    /// The history; its clients keep their order, unless it is changed.
    pub history: History,
}

impl LongRun {
    /// Draws `packets` packets of each client for each unit of its weight. Costs differ from
    /// estimates by up to half: at random, or for each client always in the same direction.
    ///
    /// # Panics
    /// Never: the weights are positive.
    pub fn new(seed: u64, packets: usize, biased: bool) -> Self {
        let mut history = History::generate(&Shape { clients: WEIGHTS.len(), cores: 3, events: 0, ..Shape::default() });
        history.weights = WEIGHTS.iter().map(|&weight| Weight::new(weight).expect("positive")).collect();
        history.packets = packets * WEIGHTS.iter().sum::<u32>() as usize;
        let mut random = Seed(seed).stream("test/long-run");
        for (client, weight) in WEIGHTS.iter().enumerate() {
            let error = |drawn: u64| if biased { [500, 1500, 1000][client % 3] } else { 500 + drawn };
            for _ in 0..packets * *weight as usize {
                let length = 64 + random.below(1437) as u32;
                let packet = Packet { client: ClientId::from_index(client), length, ..Packet::default() };
                let busy = Time::from_ns(history.estimates[0].work(length) * error(random.below(1001)) / 1000);
                history.events.push((Time::ZERO, Event::Arrive { packet, busy }));
            }
        }
        Self { history }
    }

    /// Returns the greatest difference of a client's share of the work from its fluid share, relative to the latter.
    ///
    /// # Panics
    /// If the scheduler breaks a rule.
    pub fn greatest_deviation<Q: Share>(&self, scheduler: &mut Scheduler<Never, Q, Never>) -> f64 {
        let mut count = ServiceCount::new(WEIGHTS.len());
        Player::new(&self.history).without_checks().run_until(self.end(), scheduler, &mut count);
        let total: u32 = WEIGHTS.iter().sum();
        let entitled = WEIGHTS.iter().map(|&weight| f64::from(weight) / f64::from(total));
        count.shares().zip(entitled).map(|(share, entitled)| (share / entitled - 1.0).abs()).fold(0.0, f64::max)
    }

    /// Returns the work of a client of weight 1 until the end, by its fluid share.
    pub fn fluid_work(&self) -> f64 {
        let total: u32 = WEIGHTS.iter().sum();
        self.end().as_ns() as f64 * self.history.cores as f64 / f64::from(total)
    }

    /// A third of the work. Until then no client runs out of packets, though some packets cost half
    /// of others.
    fn end(&self) -> Time {
        let busy = |event: &Event| if let Event::Arrive { busy, .. } = event { busy.as_ns() } else { 0 };
        let work: u64 = self.history.events.iter().map(|(_, event)| busy(event)).sum();
        Time::from_ns(work / 3 / self.history.cores as u64)
    }
}
