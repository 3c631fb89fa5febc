//! A journal has all decisions: the same run writes the same journal, and a fresh scheduler that
//! replays it gives the same answers.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::mechanism::{Event, Record};
use humpyard_core::unit::WorkUnit;
use humpyard_policies::registry;
use humpyard_policies::spec::{AnyScheduler, PolicySpec};
use humpyard_testkit::{History, Memory, Player, Shape, explain};
use proptest::prelude::*;

use crate::shapes::{cases, every_shape};

fn scheduler(spec: &str, history: &History) -> AnyScheduler {
    let spec: PolicySpec = spec.parse().expect("a registered policy");
    spec.build(&history.config()).expect("a valid set-up")
}

fn journal(spec: &str, history: &History) -> Result<Vec<Record>, TestCaseError> {
    let memory = Memory::default();
    let mut scheduler = scheduler(spec, history).with_journal(Box::new(memory.clone()));
    explain(history, || Player::new(history).run(&mut scheduler, &mut ()))
        .map_err(|failure| TestCaseError::fail(format!("{spec}: {failure}")))?;
    Ok(memory.take())
}

/// Returns the record with another answer. `None`: the record has no answer.
fn contradicted(record: &Record) -> Option<Record> {
    let mut other = record.clone();
    match &mut other.event {
        Event::Next { answer: Some(given), .. } => given.slot.0 += 1,
        Event::Completion { used, .. } => *used += 1,
        Event::Core(core) => core.0 += 1,
        Event::Exit(place) => place.0 += 1,
        _ => return None,
    }
    Some(other)
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn the_same_run_writes_the_same_and_replays(shape in every_shape()) {
        let history = History::generate(&Shape { services: shape.services.min(shape.cores), ..shape });
        let mut specs: Vec<String> = registry::entries().into_iter().flat_map(|entry| entry.specs()).collect();
        specs.push("estimate=least-squares/allocate=static/steer=ps-hrw/share=gr3".into());
        for spec in specs {
            let records = journal(&spec, &history)?;
            prop_assert_eq!(&records, &journal(&spec, &history)?, "{}", spec);
            let mut fresh = scheduler(&spec, &history);
            for record in &records {
                if let Err(divergence) = fresh.replay(record) {
                    return Err(TestCaseError::fail(format!("{spec}: {divergence:?}\n{history}")));
                }
            }
        }
    }

    #[test]
    fn a_false_answer_is_found(shape in every_shape(), place in any::<prop::sample::Index>()) {
        let history = History::generate(&shape);
        let records = journal("drr", &history)?;
        let answered: Vec<usize> = (0..records.len()).filter(|&at| contradicted(&records[at]).is_some()).collect();
        prop_assume!(!answered.is_empty());
        let at = *place.get(&answered);
        let mut fresh = scheduler("drr", &history);
        for record in &records[..at] {
            prop_assert!(fresh.replay(record).is_ok());
        }
        let divergence = fresh.replay(&contradicted(&records[at]).expect("just seen")).expect_err("a false answer");
        prop_assert!(divergence.found.contains(&format!("{:?}", records[at].event)), "{divergence:?}");
    }
}

#[test]
fn a_journal_is_text_and_back() {
    for seed in 0..20 {
        let history =
            History::generate(&Shape { seed, cores: 2, chains: true, weights_change: true, ..Shape::default() });
        for record in journal("drr", &history).expect("a valid run") {
            let text = serde_json::to_string(&record).expect("a record is text");
            let back: Record = serde_json::from_str(&text).expect("text is a record");
            assert_eq!(back, record, "{text}");
        }
    }
}

/// At one instant a service has a packet for its idle core, and loses that core, its last. The
/// policy must be asked for the service again.
#[test]
fn a_service_that_has_just_lost_its_last_core_is_served() {
    let shape = Shape {
        seed: 17_908_910_917_985_852_090,
        cores: 4,
        clients: 6,
        services: 2,
        events: 71,
        in_flight: 3,
        error_permille: 500,
        chains: true,
        unit: WorkUnit::Nanoseconds,
        ..Shape::default()
    };
    journal("everest-ld", &History::generate(&shape)).expect("every packet is served");
}

#[test]
fn configurations_read_back_as_written() {
    let shape = Shape { seed: 3, cores: 4, services: 2, unit: WorkUnit::Nanoseconds, ..Shape::default() };
    let text = serde_json::to_string(&History::generate(&shape).config()).expect("a configuration is text");
    let back: SchedulerConfig = serde_json::from_str(&text).expect("text is a configuration");
    assert_eq!(serde_json::to_string(&back).expect("it is again"), text);
    let least: SchedulerConfig = serde_json::from_str("{\"cores\":4}").expect("the rest has defaults");
    assert_eq!(format!("{least:?}"), format!("{:?}", SchedulerConfig::new(4)));
    assert!(serde_json::from_str::<SchedulerConfig>("{\"coers\":4}").is_err());
}
