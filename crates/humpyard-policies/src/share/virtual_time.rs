//! Virtual time: the service of all clients, divided by the weights that share it.

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec};
use humpyard_core::policy::BuildError;
use humpyard_core::unit::{Time, Weight, Work, WorkUnit};

use super::tag::{Divisor, Tag, TotalTag};

choice! {
    /// The quantity that makes virtual time grow.
    pub enum Clock {
        /// Time if work is time, else work.
        Auto = "auto",
        /// Time, at the rate of the cores, while any client is in the system.
        Wall = "wall",
        /// The work that is done, estimated at dispatch and corrected at completion. It may go back;
        /// a head that was due stays due.
        Work = "work",
    }
}

/// The greatest sum of weights that leaves room for the arithmetic: more than a million of the
/// greatest weights.
const TOTAL_MAX: u64 = 1 << 52;

/// Virtual time.
#[derive(Debug)]
pub(super) struct VirtualTime {
    /// Its value before `service` is counted.
    tag: TotalTag,
    /// Service that is not counted yet.
    service: Work,
    /// The sum of weights that share it.
    among: Divisor,
    /// Whether this is the sum of the weights of the clients that are not idle.
    shared_by_busy: bool,
    /// Sum of the weights of the clients that are not idle.
    busy: u64,
    /// Whether it grows with time.
    wall: bool,
    /// The time at which `service` was last updated.
    as_of: Time,
    /// Whether each core ever took a packet.
    pulls: IdVec<CoreId, bool>,
    /// The number of cores that ever took a packet.
    pulling: u64,
}

impl VirtualTime {
    /// Creates virtual time shared among `total`: then a client that leaves after more than its share
    /// takes nothing from those that stay. `None`: it is shared among the weights of the clients that
    /// are not idle.
    ///
    /// # Errors
    /// Rejects a clock that does not fit the unit of work, and a total that is too great for the arithmetic.
    pub(super) fn new(
        owner: &str,
        clock: Clock,
        total: Option<u64>,
        config: &SchedulerConfig,
    ) -> Result<Self, BuildError> {
        let time = config.unit == WorkUnit::Nanoseconds;
        if clock == Clock::Wall && !time {
            return Err(BuildError::combination(alloc::format!(
                "{owner}: `clock=wall` needs work in ns; where work is bytes or packets, use `clock=work`"
            )));
        }
        if let Some(total) = total.filter(|&total| total > TOTAL_MAX) {
            return Err(BuildError::bad_value(alloc::format!(
                "{owner}: `total` must be at most {TOTAL_MAX}, not {total}"
            )));
        }
        Ok(Self {
            tag: TotalTag::default(),
            service: 0,
            among: Divisor::new(total.unwrap_or(1)),
            shared_by_busy: total.is_none(),
            busy: 0,
            wall: time && clock != Clock::Work,
            as_of: Time::ZERO,
            pulls: IdVec::from_fn(config.cores, |_| false),
            pulling: 0,
        })
    }

    /// Whether it grows with time.
    #[inline]
    pub(super) fn is_wall(&self) -> bool {
        self.wall
    }

    /// Returns the sum of the weights of the clients that are not idle.
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }

    /// Panics if the number of cores that took a packet is wrong.
    pub(super) fn check(&self) {
        assert_eq!(self.pulls.iter().filter(|&&pulls| pulls).count() as u64, self.pulling, "cores that pull");
    }

    /// Advances it to `now`.
    #[inline]
    pub(super) fn elapse(&mut self, now: Time) {
        if self.wall {
            let cores = if self.busy > 0 { self.pulling } else { 0 };
            self.service = self.service.saturating_add(now.since(self.as_of).as_ns().saturating_mul(cores));
            self.as_of = now;
        }
    }

    /// Returns its value.
    #[inline]
    pub(super) fn tag(&mut self) -> Tag {
        if self.service > 0 {
            self.tag.advance(core::mem::take(&mut self.service), &self.among);
        }
        self.tag.tag
    }

    /// Returns its value as of the last read or change.
    #[inline]
    pub(super) fn last(&self) -> Tag {
        self.tag.tag
    }

    /// Raises it to at least this tag.
    #[inline]
    pub(super) fn reach(&mut self, tag: Tag) {
        if tag > self.tag() {
            self.tag = TotalTag::at(tag);
        }
    }

    /// Begins again when all clients are idle, at the greatest finish tag or later: all debts and
    /// credits are cleared.
    pub(super) fn begin_anew(&mut self, finish_max: Tag) {
        self.tag = TotalTag::at(self.tag().max(finish_max));
    }

    /// Adds the weight of a client that is no longer idle.
    pub(super) fn join(&mut self, now: Time, weight: Weight) {
        self.elapse(now);
        self.set_busy(self.busy + u64::from(weight.get()));
    }

    /// Subtracts the weight of a client that becomes idle.
    pub(super) fn leave(&mut self, now: Time, weight: Weight) {
        self.elapse(now);
        self.set_busy(self.busy - u64::from(weight.get()));
    }

    /// Changes the weight of a client that is not idle.
    pub(super) fn reweigh(&mut self, now: Time, from: Weight, to: Weight) {
        self.elapse(now);
        self.set_busy(self.busy - u64::from(from.get()) + u64::from(to.get()));
    }

    /// Records that a packet goes to this core.
    ///
    /// m counts the cores that ever took a packet here, so it is right if each core has a queue of
    /// its own. If cores leave a queue for good, or flow order keeps them idle, time outruns service,
    /// and `clock=work` is fairer.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Time, core: CoreId, estimate: Work) {
        if !self.pulls[core] {
            self.elapse(now);
            self.pulls[core] = true;
            self.pulling += 1;
        }
        if !self.wall {
            self.tag.advance(estimate, &self.among);
        }
    }

    /// Records that a packet is done.
    #[inline]
    pub(super) fn complete(&mut self, used: Work, estimate: Work) {
        if !self.wall {
            self.tag.correct(used, estimate, &self.among);
        }
    }

    /// Shares it among these weights from now on; there is at least one.
    pub(super) fn share_among(&mut self, weight: u64) {
        self.tag();
        self.tag.rebase(self.among.weight(), weight);
        self.among = Divisor::new(weight);
    }

    fn set_busy(&mut self, weight: u64) {
        self.busy = weight;
        if self.shared_by_busy && weight > 0 {
            self.share_among(weight);
        }
    }
}
