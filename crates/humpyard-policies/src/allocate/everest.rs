//! Everest: a service gets a core only when it will need it, from a service that can spare one.
//!
//! **Idea.** Moving a core costs time, so a service requests one only when its queue is longer than
//! its cores can serve in time. A service with an empty queue marks the cores that its arrivals do
//! not need. A marked core continues to serve until another service takes it. If its own service
//! needs it first, the mark is removed. Without any mark, services that hold more than their need
//! and their guarantee must give up cores.
//!
//! **Source.** Everest (paper everest), sections 3 and 4: equations 1 to 3 and 6. Choices that the
//! paper leaves open are in docs/concepts/allocation.md.
//!
//! **Promises.** Isolation: a service that needs them has min(need, guarantee) cores after one
//! switch and one packet, whatever the other services do.
//!
//! **Cost.** O(1) plus the marked cores passed over, while queues are within their limits.
//! O(services) when a service seeks a core; O(services · log c) when one is forced.
//!
//! **Invariants.** Every marked core is in the order of all marks and in the order of its service's
//! marks, longest marked first.
//!
//! **Departures.** The paper's busy loop is event driven here. Need is the larger of the cores for
//! the queue and for the rate; the paper gives no formula. In overload a service takes an extra
//! core at most once per switch time, because two long queues would otherwise move it back and
//! forth. `extra-reclaim=literal` is the paper's text. Cores of unequal speed count by the packets
//! that they serve in time. Of marked cores, one that keeps the code of the service is chosen
//! first. The paper only says that both are possible. `proactive=ewma` is the forecast that the
//! paper tried and dropped, without a formula. It estimates the arrivals that stay unserved until a
//! core comes; they count as if they waited already.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Auto, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::engine::{Engine, Forced, Moment, engine_handlers};
pub use super::engine::{ExtraReclaim, Proactive};

params! {
    /// Parameters of Everest.
    pub struct EverestParams {
        /// When a service in overload may take a core beyond its need and guarantee.
        extra_reclaim: ExtraReclaim = ExtraReclaim::OncePerSwitchTime;
        /// Whether a service requests cores by a forecast of arrivals if a switch and a packet take
        /// longer than its tolerance.
        proactive: Proactive = Proactive::Never;
        /// The time over which the rate of arrivals is measured; `auto` is the switch cost.
        window: Auto = Auto::Auto, unit "ns";
    }
}

/// Everest.
#[derive(Debug)]
pub struct Everest {
    /// Eligible services, marked cores, and shares in overload.
    engine: Engine,
}

impl Build for Everest {
    type Params = EverestParams;
    const INFO: Info = Info {
        name: "everest",
        family: Family::Allocate,
        summary: "a service gets a core when its queue outgrows its tolerance, from a service that can spare one",
        source: "Everest (paper everest), with the choices of docs/concepts/allocation.md",
        promises: &[Promise::Isolation],
        complexity: "O(1); O(services) when a core is sought",
    };
    const VARIANTS: &'static [&'static str] =
        &["extra-reclaim=literal", "extra-reclaim=never", "proactive=ewma,window=5000"];

    fn new(params: &EverestParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let engine = Engine::new("everest", params.extra_reclaim, params.window, config)?;
        Ok(Self { engine: if params.proactive == Proactive::Ewma { engine.looking_ahead(config) } else { engine } })
    }
}

impl Policy for Everest {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.engine.check();
    }
}

impl Allocate for Everest {
    fn heeds_oldest(&self) -> bool {
        false
    }

    // Handlers: cores start by guarantee, arrivals are counted, and the engine selects the idle
    // core that is asked first.
    engine_handlers!();

    // A specialised loop calls this with a known cause, and inlines only that arm.
    #[inline(always)]
    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        let moment = Moment::new(now, machine);
        match cause {
            Cause::Arrival(service) if moment.backlog(service) == 0 => {
                self.engine.refresh(moment, service);
                None
            }
            Cause::Arrival(service) if self.engine.note(moment, service, &Forced) => {
                self.engine.find_core(moment, service, &Forced)
            }
            Cause::Idle(core) => self.engine.on_idle(moment, machine.core(core).service, &Forced),
            Cause::Arrival(_) | Cause::Completion(_) | Cause::Timeout => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{
        Outcome, Scenario, assert_a_guarantee_is_there_after_one_switch_and_one_packet, service, us,
    };
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::config::ServiceConfig;

    const A: ServiceId = ServiceId(0);

    /// n packets of A arrive together at time 0; A holds two of three cores, B the third.
    fn burst(packets: usize, tolerance_us: u64, switch_cost_us: u64) -> Outcome {
        let service =
            |guarantee| ServiceConfig { switch_cost: us(switch_cost_us), ..service(10_000, tolerance_us, guarantee) };
        let services = [service(666_667), service(333_333)];
        Scenario { cores: 3, services: &services, arrivals: &vec![(Time::ZERO, A); packets] }.run::<Everest>()
    }

    /// Calculated by hand: the number of late packets and the last completion.
    #[test]
    fn the_worked_example() {
        for (packets, late, last_us) in [(25, 0, 100), (26, 1, 110), (28, 3, 110), (30, 5, 120)] {
            let outcome = burst(packets, 100, 50);
            let last = outcome.completions.last().map(|&(time, _)| time);
            assert_eq!((outcome.late, last, outcome.switches), (late, Some(us(last_us)), 1), "{packets} packets");
        }
    }

    /// Equations 4 and 5: the packet that makes a service request a core is in time if and only if
    /// D ≥ t_sw + t.
    #[test]
    fn the_last_moment_to_fetch_a_core() {
        let outcome = burst(21, 100, 90);
        assert_eq!((outcome.late, outcome.switches), (0, 1));
        assert_eq!(burst(18, 100, 50).switches, 0, "no core is fetched for a short queue");
    }

    /// Equation 5 to the nanosecond, with one core. The packet that makes A take the idle core of B is done
    /// after a switch and a packet. It is in time if and only if the tolerance is at least that.
    #[test]
    fn a_fetched_core_is_in_time_to_the_nanosecond() {
        for (tolerance_ns, packets, late) in [(109_999, 11, 1), (110_000, 12, 0)] {
            let service = ServiceConfig {
                switch_cost: us(100),
                tolerance: Time::from_ns(tolerance_ns),
                ..service(10_000, 0, 500_000)
            };
            let services = vec![service; 2];
            let run = |packets: usize| {
                let arrivals = vec![(Time::ZERO, A); packets];
                Scenario { cores: 2, services: &services, arrivals: &arrivals }.run::<Everest>()
            };
            let outcome = run(packets);
            assert_eq!((outcome.late, outcome.switches), (late, 1), "D = {tolerance_ns} ns");
            assert_eq!(outcome.completions.last().map(|&(time, _)| time), Some(us(110)));
            let fewer = run(packets - 1);
            assert_eq!((fewer.late, fewer.switches), (0, 0), "one packet less fetches none");
        }
    }

    /// D < t_sw + t: with a forecast, a service requests a core before its queue is too long, and
    /// fewer packets are late.
    #[test]
    fn a_forecast_asks_earlier() {
        let service = ServiceConfig { switch_cost: us(400), ..service(10_000, 200, 500_000) };
        // For 2 ms the load fills one core, then it is three times as much.
        let slow = (0..200).map(|number| (us(10 * number), A));
        let fast = (0..600).map(|number| (us(2_000) + Time::from_ns(3_333 * number), A));
        let arrivals: Vec<_> = slow.chain(fast).collect();
        let scenario = Scenario { cores: 6, services: &vec![service; 2], arrivals: &arrivals };
        let [reactive, proactive] = [Proactive::Never, Proactive::Ewma].map(|proactive| {
            scenario.run_with::<Everest>(&EverestParams { proactive, ..EverestParams::default() }, true)
        });
        assert!(proactive.late <= reactive.late, "{} after {}", proactive.late, reactive.late);
        assert!(proactive.switches >= reactive.switches);
    }

    #[test]
    fn a_guarantee_is_there_after_one_switch_and_one_packet() {
        assert_a_guarantee_is_there_after_one_switch_and_one_packet::<Everest>();
    }
}
