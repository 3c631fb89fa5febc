//! Simulations of policies that were chosen by name. The most common compositions have a loop
//! compiled for their policies alone, so no call has to look up its policy.

use humpyard_core::mechanism::Never;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_policies::allocate::everest::Everest;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer, OneOf};
use humpyard_policies::share::{drr::Drr, efq::Efq, fcfs::Fcfs, gr3::Gr3};
use humpyard_policies::steer::{hrw::Hrw, ps_hrw::PsHrw, rss_plus_plus::RssPlusPlus};

use crate::driver::SimulationError;
use crate::simulate::{Outcome, Simulation, run, simulate_with};
use crate::timing::Timing;

type AnySimulation<'a> = Simulation<'a, AnySteer, AnyShare, AnyAllocate>;
type AnyOutcome = Outcome<AnySteer, AnyShare, AnyAllocate>;

/// As [`simulate_with`], for policies chosen by name. The most common compositions have a loop
/// compiled for their policies alone, which does the same in less time.
///
/// # Errors
/// As [`simulate`](crate::simulate).
pub fn simulate_named(simulation: AnySimulation<'_>, timing: Timing) -> Result<AnyOutcome, SimulationError> {
    if !simulation.is_plain(&timing) {
        return simulate_with(simulation, timing);
    }
    let policies = simulation.measured.scheduler().policies();
    match policies {
        (None, AnyShare::Fcfs(_), None) => run_as::<Never, Fcfs, Never>(simulation, timing),
        (None, AnyShare::Drr(_), None) => run_as::<Never, Drr, Never>(simulation, timing),
        (None, AnyShare::Gr3(_), None) => run_as::<Never, Gr3, Never>(simulation, timing),
        (None, AnyShare::Efq(_), None) => run_as::<Never, Efq, Never>(simulation, timing),
        (Some(AnySteer::Hrw(_)), AnyShare::Fcfs(_), None) => run_as::<Hrw, Fcfs, Never>(simulation, timing),
        (Some(AnySteer::PsHrw(_)), AnyShare::Fcfs(_), None) => run_as::<PsHrw, Fcfs, Never>(simulation, timing),
        (Some(AnySteer::RssPlusPlus(_)), AnyShare::Fcfs(_), None) => {
            run_as::<RssPlusPlus, Fcfs, Never>(simulation, timing)
        }
        (None, AnyShare::Fcfs(_), Some(AnyAllocate::Everest(_))) => run_as::<Never, Fcfs, Everest>(simulation, timing),
        _ => simulate_with(simulation, timing),
    }
}

/// Runs a simulation whose policies have exactly these types.
fn run_as<S, Q, A>(simulation: AnySimulation<'_>, timing: Timing) -> Result<AnyOutcome, SimulationError>
where
    S: Steer + OneOf<AnySteer>,
    Q: Share + OneOf<AnyShare>,
    A: Allocate + OneOf<AnyAllocate>,
{
    let typed = Simulation {
        measured: simulation.measured.retype(S::of, Q::of, A::of),
        cores: simulation.cores,
        costs: simulation.costs,
        link: None,
        swaps: Vec::new(),
        classifier: simulation.classifier,
        source: simulation.source,
        pacer: simulation.pacer,
        stop: simulation.stop,
        progress: simulation.progress,
    };
    let outcome = run::<true, _, _, _>(typed, timing)?;
    Ok(Outcome {
        measured: outcome.measured.retype(S::into, Q::into, A::into),
        link: None,
        damage: outcome.damage,
        interrupted: outcome.interrupted,
        wall: outcome.wall,
        taken_over: outcome.taken_over,
        swap_pause_max: outcome.swap_pause_max,
        decision: outcome.decision,
        flows: outcome.flows,
        heaviest: outcome.heaviest,
        clock_jumps: outcome.clock_jumps,
        dispatcher: outcome.dispatcher,
        read: outcome.read,
    })
}
