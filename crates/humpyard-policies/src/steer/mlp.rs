//! Minimum load with a penalty: as minimum load, but the element chosen last counts as slightly more loaded.
//!
//! **Idea.** While loads are nearly equal, consecutive packets go to different elements. So the
//! start of the next unit need not wait behind the end of this one.
//!
//! **Source.** Yim (paper content-based). STEERING section 10.
//!
//! **Promises.** While a thread that may serve the packet is idle, the packet goes to an idle
//! thread: of the least loaded element, penalty included, that has one. No order.
//!
//! **Cost.** O(N) in the eligible threads.
//!
//! **Invariants.** Those of `ml`; the element chosen last exists.
//!
//! **Departures.** The paper gives no penalty. By default it is half the least load of a packet,
//! which only breaks ties. With a penalty of at least the load of a unit's first packet, elements
//! are merely taken in turn. For a packet that finds no idle thread, see `ml`.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, ElementId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{
    Build, BuildError, Family, Info, ParameterValue, Policy, Promise, Reach, Steer, Target, View,
};
use humpyard_core::unit::{Time, Work};

use super::element_loads::{ElementLoads, PartLoads, element_handlers};
use super::ml::Full;

/// The load that the penalty adds to the element chosen last.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub enum Penalty {
    /// Half the least load of a packet.
    Auto,
    /// This load.
    Given(f64),
}

impl ParameterValue for Penalty {
    const ACCEPTS: &'static str = "`auto` or a number from 0 to 1000000";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            _ => text.parse().ok().filter(|penalty| (0.0..=1e6).contains(penalty)).map(Self::Given),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Given(penalty) => penalty.to_string(),
        }
    }
}

params! {
    /// Parameters of minimum load with a penalty.
    pub struct MlpParams {
        /// Load of a packet that begins a unit (SOP).
        first: u64 = 3, in 0..=1_000_000;
        /// Load of a packet that neither begins nor ends its unit (MOP).
        middle: u64 = 1, in 0..=1_000_000;
        /// Load of a packet that ends a unit (EOP).
        last: u64 = 2, in 0..=1_000_000;
        /// Load of a packet that is a unit; by default as one that begins it, for it bears the headers.
        whole: u64 = 3, in 0..=1_000_000;
        /// What to do with a packet if no thread is idle: it joins the least loaded thread, waits
        /// for its element, or waits for any thread.
        full: Full = Full::Bind;
        /// The load that is added to the element that was chosen last, to a thousandth; `auto` is
        /// half the least load of a packet.
        alpha: Penalty = Penalty::Auto;
    }
}

/// Minimum load with a penalty.
#[derive(Debug)]
pub struct Mlp {
    loads: ElementLoads,
    /// The penalty alpha, in thousandths.
    penalty_permille: u64,
    /// The element of the last packet.
    last: Option<ElementId>,
}

impl Build for Mlp {
    type Params = MlpParams;
    const INFO: Info = Info {
        name: "mlp",
        family: Family::Steer,
        summary: "as ml, but the element chosen last counts as more loaded",
        source: "Yim (paper content-based): minimum load with a penalty",
        promises: &[Promise::Fair(
            "a packet finds no element with an idle thread and less load, penalty included, than its own",
        )],
        complexity: "O(N)",
    };
    const VARIANTS: &'static [&'static str] = &["alpha=1", "alpha=3,full=element", "full=hold"];

    fn new(params: &MlpParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let &MlpParams { first, middle, last, whole, full, alpha } = params;
        let parts = PartLoads { first, middle, last, whole };
        let penalty_permille = match alpha {
            Penalty::Auto => parts.least() * 500,
            Penalty::Given(alpha) => (alpha * 1000.0 + 0.5) as u64,
        };
        Ok(Self { loads: ElementLoads::new(parts, full, config), penalty_permille, last: None })
    }
}

impl Policy for Mlp {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.loads.check();
    }
}

impl Steer for Mlp {
    // The reach, and the handlers that add each packet to the load of its element and remove it.
    element_handlers!();

    fn steer(&mut self, _: Time, _: &Packet, view: &View<'_>) -> Target {
        let penalty = |element| if self.last == Some(element) { self.penalty_permille } else { 0 };
        let target = self.loads.steer(view, |element, load| 1000 * load + penalty(element));
        self.last = self.loads.joined(target).or(self.last);
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::ml::{Ml, MlParams};
    use crate::steer::testing::Threads;
    use humpyard_core::packet::Part;
    use humpyard_core::random::Seed;

    fn fresh(alpha: Penalty, elements: usize, contexts: usize) -> Threads<Mlp> {
        Threads::new(&MlpParams { alpha, ..MlpParams::default() }, elements, contexts)
    }

    /// Two elements, units of two packets: after S on 0 and E on 1 the loads are 3 and 2, and equal
    /// with the penalty.
    #[test]
    fn example_of_the_specification() {
        let mut threads = fresh(Penalty::Given(1.0), 2, 4);
        let visited = [Part::First, Part::Last, Part::First].map(|part| threads.arrive_on_element(part));
        assert_eq!(visited, [0, 1, 0]);
        assert_eq!(threads.policy.loads.loads(), [6, 2]);
    }

    #[test]
    fn by_default_the_penalty_decides_between_equals_alone() {
        let visited = |alpha| {
            let mut threads = fresh(alpha, 2, 4);
            [Part::First, Part::First, Part::First, Part::Last, Part::Last].map(|part| threads.arrive_on_element(part))
        };
        assert_eq!(visited(Penalty::Auto), [0, 1, 0, 1, 1], "element 1 has 3, later 5, of 6");
        assert_eq!(visited(Penalty::Given(0.0)), [0, 1, 0, 1, 1], "as ml");
        let mut threads = fresh(Penalty::Auto, 2, 4);
        threads.arrive(Part::First);
        threads.arrive(Part::First);
        threads.complete(CoreId(0));
        threads.complete(CoreId(4));
        assert_eq!(threads.arrive_on_element(Part::First), 0, "element 1 was chosen last");
        threads.complete(CoreId(0));
        assert_eq!(threads.arrive_on_element(Part::First), 1, "element 0 was chosen last");
    }

    #[test]
    fn without_a_penalty_it_is_minimum_load() {
        let mut random = Seed(7).stream("test");
        let mut penalised = fresh(Penalty::Given(0.0), 3, 2);
        let mut plain: Threads<Ml> = Threads::new(&MlParams::default(), 3, 2);
        for _ in 0..2000 {
            if random.below(2) == 0 {
                let part = [Part::First, Part::Middle, Part::Last, Part::Whole][random.below(4) as usize];
                assert_eq!(penalised.arrive(part), plain.arrive(part));
            } else if let Some(core) = plain.busy_from(CoreId(random.below(6) as u16)) {
                penalised.complete(core);
                plain.complete(core);
            }
            penalised.policy.check();
        }
    }

    /// With a penalty of at least the load of a unit's start, elements are taken in turn while
    /// loads differ by at most that.
    #[test]
    fn a_great_penalty_takes_elements_in_turn() {
        let mut threads = fresh(Penalty::Given(3.0), 2, 4);
        for _ in 0..6 {
            let unit = [Part::First, Part::Last, Part::First, Part::Last];
            assert_eq!(unit.map(|part| threads.arrive_on_element(part)), [0, 1, 0, 1]);
            [0, 4, 1, 5].into_iter().for_each(|core| threads.complete(CoreId(core)));
        }
    }

    #[test]
    fn a_packet_that_is_held_chooses_no_element() {
        let params = MlpParams { full: Full::Hold, ..MlpParams::default() };
        let mut threads: Threads<Mlp> = Threads::new(&params, 2, 1);
        assert_eq!([0; 2].map(|_| threads.arrive_on_element(Part::Whole)), [0, 1]);
        assert_eq!(threads.arrive(Part::Whole), Target::Hold);
        threads.complete(CoreId(0));
        threads.complete(CoreId(1));
        assert_eq!(threads.arrive_on_element(Part::Whole), 0, "element 1 is still the last");
    }
}
