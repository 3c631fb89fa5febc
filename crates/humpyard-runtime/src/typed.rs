//! Runs of policies that were chosen by name. The most common compositions have a loop compiled for
//! their policies alone, so no call has to look up its policy. The simulator does the same
//! (`humpyard-sim/src/typed.rs`).

use humpyard_core::measure::Measured;
use humpyard_core::mechanism::Never;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer, OneOf};
use humpyard_policies::share::{drr::Drr, fcfs::Fcfs};
use humpyard_policies::steer::{conn::Conn, hrw::Hrw};

use crate::dispatcher::run_as;
use crate::live::Live;
use crate::outcome::{Outcome, Part, RunError};
use crate::several::{Dispatching, InParts, Several, run_several_as};

type AnyLive<'a> = Live<'a, AnySteer, AnyShare, AnyAllocate>;
type AnySeveral<'a> = Several<'a, AnySteer, AnyShare, AnyAllocate>;
type AnyMeasured = Measured<AnySteer, AnyShare, AnyAllocate>;

/// As [`run`](crate::run()), for policies chosen by name. The most common compositions have their
/// own loop, which does the same in less time.
///
/// # Errors
/// As [`run`](crate::run()).
pub fn run_named(live: AnyLive<'_>) -> Result<Outcome<AnyMeasured>, RunError> {
    if !live.becomes_plain() {
        return run_as::<false, _, _, _>(live);
    }
    match live.measured.scheduler().policies() {
        (Some(AnySteer::Hrw(_)), AnyShare::Fcfs(_), None) => run_of::<Hrw, Fcfs, Never>(live),
        (Some(AnySteer::Conn(_)), AnyShare::Fcfs(_), None) => run_of::<Conn, Fcfs, Never>(live),
        (None, AnyShare::Drr(_), None) => run_of::<Never, Drr, Never>(live),
        (None, AnyShare::Fcfs(_), None) => run_of::<Never, Fcfs, Never>(live),
        _ => run_as::<false, _, _, _>(live),
    }
}

/// As [`run_several`](crate::run_several()), for policies chosen by name; every dispatcher has the
/// same policies.
///
/// # Errors
/// As [`run_several`](crate::run_several()).
///
/// # Panics
/// As [`run_several`](crate::run_several()).
pub fn run_several_named(several: AnySeveral<'_>) -> InParts<AnySteer, AnyShare, AnyAllocate> {
    if !several.becomes_plain() {
        return run_several_as::<false, _, _, _>(several);
    }
    let policies = several.dispatchers.first().map(|first| first.measured.scheduler().policies());
    match policies {
        Some((Some(AnySteer::Hrw(_)), AnyShare::Fcfs(_), None)) => run_several_of::<Hrw, Fcfs, Never>(several),
        Some((Some(AnySteer::Conn(_)), AnyShare::Fcfs(_), None)) => run_several_of::<Conn, Fcfs, Never>(several),
        _ => run_several_as::<false, _, _, _>(several),
    }
}

/// Runs policies that are known to be of these types, each the only one of its family.
fn run_of<S, Q, A>(live: AnyLive<'_>) -> Result<Outcome<AnyMeasured>, RunError>
where
    S: Steer + OneOf<AnySteer>,
    Q: Share + OneOf<AnyShare>,
    A: Allocate + OneOf<AnyAllocate>,
{
    let typed = Live {
        measured: live.measured.retype(S::of, Q::of, A::of),
        packets: live.packets,
        workers: live.workers,
        seats: live.seats,
        hardware: live.hardware,
        services: live.services,
        classifier: live.classifier,
        input: live.input,
        sink: live.sink,
        link: None,
        quarantine: live.quarantine,
        overload: live.overload,
        clock: live.clock,
        swaps: Vec::new(),
        replacements: None,
        longest: live.longest,
        stop: live.stop,
        progress: live.progress,
        loads: live.loads,
        watched: live.watched,
    };
    let outcome = run_as::<true, _, _, _>(typed)?;
    Ok(outcome.map(|measured| measured.retype(S::into, Q::into, A::into)))
}

/// As [`run_of`], with several dispatchers.
fn run_several_of<S, Q, A>(several: AnySeveral<'_>) -> InParts<AnySteer, AnyShare, AnyAllocate>
where
    S: Steer + OneOf<AnySteer> + Send,
    Q: Share + OneOf<AnyShare> + Send,
    A: Allocate + OneOf<AnyAllocate> + Send,
{
    let typed = |one: Dispatching<AnySteer, AnyShare, AnyAllocate>| Dispatching {
        measured: one.measured.retype(S::of, Q::of, A::of),
        packets: one.packets,
        workers: one.workers,
        classifier: one.classifier,
        replacements: None,
    };
    let typed = Several {
        dispatchers: several.dispatchers.into_iter().map(typed).collect(),
        places: several.places,
        feed: several.feed,
        hardware: several.hardware,
        services: several.services,
        quarantine: several.quarantine,
        overload: several.overload,
        warm_up: several.warm_up,
        longest: several.longest,
        stop: several.stop,
        progress: several.progress,
        loads: several.loads,
        watched: several.watched,
    };
    let any = |part: Part<S, Q, A>| Part {
        measured: part.measured.retype(S::into, Q::into, A::into),
        out: part.out,
        flows: part.flows,
        workers: part.workers,
    };
    let outcome = run_several_as::<true, _, _, _>(typed)?;
    Ok(outcome.map(|parts| parts.into_iter().map(any).collect()))
}
