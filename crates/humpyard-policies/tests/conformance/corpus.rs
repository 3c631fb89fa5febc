//! The scenarios reach what they are about; a scenario that does not would test nothing.

use std::collections::BTreeSet;

use humpyard_core::id::{ClientId, ServiceId};
use humpyard_core::mechanism::{Arrival, DropReason, Event, Record};
use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{Memory, Player, Scenario};

/// Returns the journal of a scenario with this policy.
fn journal(spec: &str, name: &str) -> Vec<Record> {
    let corpus = Scenario::corpus();
    let scenario = corpus.iter().find(|scenario| scenario.name == name).expect("a scenario of this name");
    let spec: PolicySpec = spec.parse().expect("a registered policy");
    let memory = Memory::default();
    let scheduler = spec.build(&scenario.history.config()).expect("a valid set-up");
    Player::new(&scenario.history).run(&mut scheduler.with_journal(Box::new(memory.clone())), &mut ());
    memory.take()
}

fn drops(spec: &str, name: &str) -> BTreeSet<&'static str> {
    let reason = |record: Record| match record.event {
        Event::Arrival { answer: Arrival::Dropped(reason), .. } | Event::Dropped(_, reason) => Some(reason.name()),
        _ => None,
    };
    journal(spec, name).into_iter().filter_map(reason).collect()
}

fn names(reasons: &[DropReason]) -> BTreeSet<&'static str> {
    reasons.iter().map(|reason| reason.name()).collect()
}

/// Returns the services to which cores moved, in order.
fn switches(spec: &str, name: &str) -> Vec<ServiceId> {
    let to = |record: Record| if let Event::Switch(switch) = record.event { Some(switch.to) } else { None };
    journal(spec, name).into_iter().filter_map(to).collect()
}

#[test]
fn buffers_are_full_in_every_way() {
    use DropReason::{BufferFull, ClientFull, PushedOut, QueueFull};
    assert_eq!(drops("drr", "full-drops-the-newcomer"), names(&[BufferFull, QueueFull, ClientFull]));
    assert_eq!(drops("drr", "full-pushes-out"), names(&[QueueFull, ClientFull, PushedOut]));
    assert_eq!(drops("steer=hrw/share=sfq", "full-buffer"), names(&[BufferFull, PushedOut]));
    assert_eq!(drops("drr", "overload-and-drain"), BTreeSet::new());
}

#[test]
fn cores_follow_the_load_and_come_back() {
    let switches = switches("everest", "load-moves");
    let (there, back) = (switches.iter().position(|to| to.0 == 1), switches.iter().rposition(|to| to.0 == 0));
    assert!(there.is_some() && there < back, "{switches:?}");
    assert!(!self::switches("everest", "guarantee-called-in").is_empty());
}

#[test]
fn chains_go_on_and_end_early() {
    let completions = |ended: bool| {
        let on_the_way = move |record: &Record| match record.event {
            Event::Completion { ends, onward, .. } => ends == ended && onward.is_some() != ended,
            _ => false,
        };
        journal("drr", "chains").iter().filter(|&record| on_the_way(record)).count()
    };
    assert!(completions(false) > 50 && completions(true) > 5);
}

#[test]
fn packets_wait_at_the_exit_and_are_given_up() {
    let events = journal("drr", "exit-order");
    let count = |of: fn(&Event) -> bool| events.iter().filter(|record| of(&record.event)).count();
    assert!(count(|event| matches!(event, Event::Exit(_))) > 10);
    assert!(count(|event| matches!(event, Event::Timeout)) > 1);
}

#[test]
fn clients_end_and_return() {
    let ends: Vec<(Time, ClientId)> = journal("drr", "ends-and-returns")
        .into_iter()
        .filter_map(
            |record| if let Event::ClientEnd(client) = record.event { Some((record.now, client)) } else { None },
        )
        .collect();
    let clients: BTreeSet<ClientId> = ends.iter().map(|&(_, client)| client).collect();
    assert_eq!(clients.len(), 3, "{ends:?}");
    assert!(ends.iter().all(|&(time, _)| time > Time::from_ns(2_000)), "{ends:?}");
}

#[test]
fn arrivals_and_completions_meet() {
    let events = journal("drr", "same-instant");
    let instants = |of: fn(&Event) -> bool| -> BTreeSet<Time> {
        events.iter().filter(|record| of(&record.event)).map(|record| record.now).collect()
    };
    let arrivals = instants(|event| matches!(event, Event::Arrival { .. }));
    let completions = instants(|event| matches!(event, Event::Completion { .. }));
    assert!(arrivals.intersection(&completions).count() > 10);
}
