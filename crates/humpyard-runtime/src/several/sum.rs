//! The combined outcome of the threads of a run.

use core::time::Duration;

use humpyard_core::measure::{Histogram, LostOutside, Measured};
use humpyard_core::mechanism::{Account, TakenOver};
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_traffic::flow::Heaviest;
use humpyard_traffic::pace::ClockJumps;
use humpyard_traffic::sink::Sent;
use humpyard_traffic::source::{Received, Source};

use super::reader::HasRead;
use super::writer::{HasWritten, Shared};
use super::{Ends, InParts};
use crate::counters::Counters;
use crate::loss;
use crate::outcome::{OutAccount, Outcome, Part};
use crate::placement::Seat;

/// Adds the frames received to the sums of the interfaces with the same names.
pub(super) fn add_received(sum: &mut Vec<Received>, more: &[Received]) {
    for one in more {
        match sum.iter_mut().find(|known| known.port == one.port) {
            Some(known) => known.add(one),
            None => sum.push(one.clone()),
        }
    }
}

/// Adds the frames sent to the sums of the interfaces with the same names.
pub(super) fn add_sent(sum: &mut Vec<Sent>, more: &[Sent]) {
    for one in more {
        match sum.iter_mut().find(|known| known.port == one.port) {
            Some(known) => known.add(one),
            None => sum.push(one.clone()),
        }
    }
}

/// What is known of a run in addition to the results of its threads.
pub(super) struct Summed {
    pub(super) interrupted: bool,
    pub(super) wall: Duration,
    pub(super) workers: Vec<usize>,
}

/// Returns the results of the threads as one outcome.
pub(super) fn sum_up<S: Steer, Q: Share, A: Allocate>(
    ends: Ends<S, Q, A>,
    seats: Vec<Seat>,
    quarantine: Option<Shared>,
    summed: Summed,
) -> InParts<S, Q, A> {
    let (mut received, mut lost) = (Vec::new(), LostOutside::default());
    let (mut jumps, mut damage, mut dealt) = (ClockJumps::default(), None, None);
    if let Some(HasRead { mut source, jumps: jumped, damage: damaged, dealt: given, warm_up }) = ends.read {
        source.close()?;
        received = source.received()?;
        lost.before = warm_up.lost(loss::received(&received));
        (jumps, damage, dealt) = (jumped, damaged, Some(given));
    }
    let (mut sent, mut written) = (Vec::new(), None);
    if let Some(HasWritten { mut sink, written: taken, failed, warm_up }) = ends.written {
        failed.map_or(Ok(()), Err)?;
        sink.close()?;
        sent = sink.sent();
        lost.behind = warm_up.lost(loss::sent(&sent));
        sink.finish()?;
        written = Some(taken);
    }
    if let Some(quarantine) = quarantine.and_then(Shared::into_inner) {
        quarantine.finish()?;
    }
    let mut sum = Outcome {
        measured: Vec::new(),
        out: OutAccount::default(),
        link: None,
        skipped: 0,
        unaccounted: None,
        received,
        sent,
        lost,
        loads: Vec::new(),
        counters: Counters::default(),
        panic: None,
        damage,
        interrupted: summed.interrupted,
        overdue_max: Time::ZERO,
        taken_over: Vec::new(),
        swap_pause_max: Duration::ZERO,
        replacements: 0,
        wall: summed.wall,
        decision: Histogram::new(),
        flows: 0,
        heaviest: Heaviest::default(),
        clock_jumps: jumps,
        seats,
    };
    let (mut account, mut all_given) = (Account::default(), 0);
    for (number, one) in ends.dispatchers.into_iter().enumerate() {
        let written = written.as_ref().map(|written: &Vec<u64>| written[number]);
        // With its own ports, the dispatcher got all frames that came by them.
        let by_ports = one.received.iter().map(|port| port.frames).sum();
        let given = dealt.as_ref().map_or(by_ports, |dealt: &Vec<u64>| dealt[number]);
        all_given += given;
        if let Some(what) = unaccounted(&one, given, written) {
            sum.unaccounted.get_or_insert(format!("dispatcher {number}: {what}"));
        }
        account.add(one.measured.account());
        sum.out.add(&one.out);
        if dealt.is_none() {
            add_received(&mut sum.received, &one.received);
            add_sent(&mut sum.sent, &one.sent);
            sum.lost.before += one.lost.before;
            sum.lost.behind += one.lost.behind;
            sum.interrupted |= one.interrupted;
            sum.damage = sum.damage.or(one.damage);
        }
        sum.skipped += one.skipped;
        sum.counters.merge(one.counters);
        sum.panic = [sum.panic, one.panic].into_iter().flatten().min_by_key(|panic| panic.packet);
        sum.overdue_max = sum.overdue_max.max(one.overdue_max);
        add_taken_over(&mut sum.taken_over, one.taken_over);
        sum.swap_pause_max = sum.swap_pause_max.max(one.swap_pause_max);
        sum.replacements = sum.replacements.max(one.replacements);
        sum.loads.extend(one.loads);
        sum.decision.add(&one.decision);
        sum.flows += one.flows;
        sum.heaviest.merge(&one.heaviest);
        // A dispatcher without workers is a worker itself.
        let workers = summed.workers[number].max(1);
        sum.measured.push(Part { measured: one.measured, out: one.out, flows: one.flows, workers });
    }
    if dealt.is_some() {
        sum.out.on_sent(&sum.sent);
    }
    if !account.balances() || !sum.out.balances() || account.arrived + sum.skipped != all_given {
        sum.unaccounted.get_or_insert(format!("{all_given} read, {account:?}, {:?}", sum.out));
    }
    Ok(sum)
}

/// Adds the policies that took over at one more dispatcher; the same took over there in the same
/// order. Each takeover has the time of the last dispatcher.
fn add_taken_over(sum: &mut Vec<TakenOver>, more: Vec<TakenOver>) {
    for (known, one) in sum.iter_mut().zip(&more) {
        known.at = known.at.max(one.at);
    }
    // At the end of a run, one dispatcher may have made a takeover that another has not.
    sum.extend(more.into_iter().skip(sum.len()));
}

/// Checks the accounts of a dispatcher that got `dealt` frames, of which `written` were written.
/// Returns the contradictions. `None`: all balance.
fn unaccounted<S: Steer, Q: Share, A: Allocate>(
    one: &Outcome<Measured<S, Q, A>>,
    dealt: u64,
    written: Option<u64>,
) -> Option<String> {
    let account = one.measured.account();
    if account.arrived + one.skipped != dealt {
        return Some(format!(
            "it was given {dealt} packets, {} arrived and {} were left",
            account.arrived, one.skipped
        ));
    }
    if !account.balances() || !one.out.balances() || account.processed != one.out.processed {
        return Some(format!("{account:?}, {:?}", one.out));
    }
    let written = written.filter(|&written| written != one.out.forwarded)?;
    Some(format!("it forwarded {} packets, and {written} were written", one.out.forwarded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_in_force_when_the_last_has_it() {
        let at = |ns, policy: &str| TakenOver { at: Time::from_ns(ns), policy: policy.into() };
        let mut sum = Vec::new();
        add_taken_over(&mut sum, vec![at(5, "drr")]);
        add_taken_over(&mut sum, vec![at(3, "drr"), at(9, "wfq")]);
        add_taken_over(&mut sum, vec![at(7, "drr"), at(8, "wfq")]);
        let found: Vec<(u64, &str)> = sum.iter().map(|one| (one.at.as_ns(), &*one.policy)).collect();
        assert_eq!(found, [(7, "drr"), (9, "wfq")]);
    }
}
