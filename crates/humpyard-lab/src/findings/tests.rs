//! Results with the sentence that a careful engineer writes first. The sentences were written before the rules.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::collections::BTreeMap;

use humpyard_core::random::Seed;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::facts::{Facts, Place, PolicyFacts, RunFacts};
use super::{Finding, Topic, found};
use crate::meaning::TOLERANCE;
use crate::{Control, Host, RunConfig};

/// Facts of policies with these runs, of a simulation with four cores.
pub(super) fn facts(policies: &[(&str, &[RunFacts])]) -> Facts {
    let policy = |(name, runs): &(&str, &[RunFacts])| PolicyFacts { name: (*name).to_owned(), runs: runs.to_vec() };
    Facts {
        cores: 4,
        packets: 10_000,
        flows: 100,
        repetitions: policies.first().map_or(0, |(_, runs)| runs.len() as u32),
        buffer: 64,
        promised: "exit".to_owned(),
        tolerance_ns: TOLERANCE.as_nanos() as u64,
        policies: policies.iter().map(policy).collect(),
        ..Facts::default()
    }
}

/// A run of a second, with cores that are equally busy, and nothing wrong.
pub(super) fn run() -> RunFacts {
    RunFacts {
        packets: 10_000,
        p50: 10_000.0,
        p99: 50_000.0,
        max: 900_000.0,
        pps: 1e4,
        jain: 1.0,
        busy: vec![0.5; 4],
        duration_ns: 1_000_000_000,
        queue_max: 20,
        ..RunFacts::default()
    }
}

/// A run that lost this many of its 10,000 packets there.
pub(super) fn lost(place: Place, packets: u64) -> RunFacts {
    RunFacts { lost: BTreeMap::from([(place, packets)]), late: packets as f64 / 1e4, ..run() }
}

/// What a rule says, in one text.
pub(super) fn said(found: &[Finding]) -> String {
    found.iter().map(|finding| format!("{:?}: {}", finding.topic, finding.text)).collect::<Vec<_>>().join(" ")
}

/// Results, one a line: what was run, its figures, and the first finding.
const CORPUS: &str = include_str!("corpus.jsonl");

/// Results whose first sentence a reader wrote who had seen neither the rules nor what they say, with its topics.
const READER: &str = include_str!("reader.jsonl");

#[derive(Deserialize)]
struct Case {
    about: String,
    topic: Topic,
    first: String,
    facts: Facts,
}

#[derive(Deserialize)]
struct Read {
    reader: String,
    topic: Vec<Topic>,
    facts: Facts,
}

fn cases<T: DeserializeOwned>(corpus: &str) -> Vec<T> {
    corpus.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn the_first_finding_is_what_a_careful_engineer_writes_first() {
    let cases: Vec<Case> = cases(CORPUS);
    assert!(cases.len() >= 60);
    let wrong = cases.iter().filter_map(|case| {
        let first = &found(&case.facts)[0];
        let agrees = first.topic == case.topic && first.text.starts_with(&case.first);
        (!agrees).then(|| format!("{}\n  {:?} {}\n  {first:?}", case.about, case.topic, case.first))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn the_first_finding_is_about_what_a_fresh_reader_puts_first() {
    let cases: Vec<Read> = cases(READER);
    assert_eq!(cases.len(), 20);
    let wrong = cases.iter().filter_map(|case| {
        let first = &found(&case.facts)[0];
        (!case.topic.contains(&first.topic)).then(|| format!("{:?} {}\n  {first:?}", case.topic, case.reader))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of 20:\n{}", wrong.len(), wrong.join("\n"));
}

/// Words of a sentence, without figures and without the caveat behind a difference.
fn words(sentence: &str) -> usize {
    let is_word = |word: &&str| word.chars().any(char::is_alphabetic);
    sentence.replace(", too few to tell", "").split(' ').filter(is_word).count()
}

#[test]
fn every_sentence_is_short_and_whole() {
    let mine = cases::<Case>(CORPUS).into_iter().map(|case| case.facts);
    for facts in mine.chain(cases::<Read>(READER).into_iter().map(|case| case.facts)) {
        for Finding { text, .. } in found(&facts) {
            assert!(text.split(". ").all(|sentence| words(sentence) <= 25), "{text}");
            assert!(text.ends_with('.') && !text.contains("  ") && !text.contains("NaN"), "{text}");
        }
    }
}

/// Runs of one policy, each of its own traffic, with loss, lateness, disorder and delays that vary from run to run.
fn runs_alike(count: u64) -> Vec<RunFacts> {
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
    let mut control = Control::new(&stop, &mut progress);
    let mut config = RunConfig::new(Host::Sim, "gen:poisson:packets=1200,pps=31M", "fcfs".parse().unwrap());
    config.tolerances = vec![(String::new(), Duration::from_micros(1))];
    config.buffer = 40;
    let run =
        |seed| RunFacts::of(&crate::run(&RunConfig { seed: Seed(seed), ..config.clone() }, &mut control).unwrap());
    (1..=count).map(run).collect()
}

#[test]
fn a_policy_and_its_like_have_a_winner_on_no_more_pages_than_stated() {
    const PAGES: usize = 200;
    let pool = runs_alike(500);
    for figure in [RunFacts::lost, |run: &RunFacts| run.late, |run: &RunFacts| run.p99] {
        assert!(pool.iter().any(|run| figure(run) != figure(&pool[0])), "the runs vary");
    }
    let mut draws = Seed(1).stream("pages");
    for repetitions in [1, 2, 7, 12] {
        let mut named = 0;
        for _ in 0..PAGES {
            let mut draw = || (0..repetitions).map(|_| pool[draws.below(500) as usize].clone()).collect::<Vec<_>>();
            let facts = facts(&[("a", &draw()), ("b", &draw())]);
            let found = found(&facts);
            named += usize::from(found.iter().any(|finding| finding.text.contains("(95 % confidence)")));
            for Finding { text, .. } in &found {
                let ranks = ["shortest", "highest", "sooner", "most evenly", "; a lost", "; b lost"];
                let is_ranked = ranks.iter().any(|word| text.contains(word));
                let caveats = ["in this one run", "too few to tell", "not tested", "(95 % confidence)"];
                assert!(!is_ranked || caveats.iter().any(|caveat| text.contains(caveat)), "{repetitions}: {text}");
            }
        }
        // At most 5 % of the pages; where repetitions are few, none at all.
        assert!(
            named <= if repetitions < 7 { 0 } else { PAGES / 20 },
            "{named} of {PAGES} at {repetitions} repetitions"
        );
    }
}
