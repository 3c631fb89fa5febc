//! Every registered policy, in every scenario.
#![expect(clippy::print_stdout, reason = "what was played, and what was skipped and why, is for a person to read")]

use std::collections::{BTreeMap, BTreeSet};

use humpyard_core::policy::{Family, Promise};
use humpyard_policies::registry::{self, Entry};
use humpyard_testkit::conformance::{Skip, Trial};
use humpyard_testkit::{History, Scenario};

use crate::counting::count_allocations;
use crate::subject::Registered;

/// The results of one policy in all its variants and all scenarios.
#[derive(Default)]
struct Report {
    played: usize,
    /// The number of times that each promise was kept.
    kept: BTreeMap<&'static str, usize>,
    /// The promises that were skipped, with the reason, and where.
    skipped: BTreeMap<(String, Skip), BTreeSet<String>>,
}

impl Report {
    fn skip(&mut self, what: String, why: Skip, scenario: &str) {
        self.skipped.entry((what, why)).or_default().insert(scenario.into());
    }

    fn print(&self, name: &str, scenarios: usize) {
        let kept: Vec<String> = self.kept.iter().map(|(promise, times)| format!("{promise} ({times})")).collect();
        println!("{name}: {} runs kept the contract; {}", self.played, kept.join(", "));
        for ((what, why), whence) in &self.skipped {
            let whence: Vec<&str> = whence.iter().map(String::as_str).collect();
            let whence = if whence.len() == scenarios { "everywhere".into() } else { whence.join(", ") };
            println!("  skipped {what}, {whence}: {why}");
        }
    }
}

/// Whether the reason is valid in this history.
fn is_a_reason(why: &Skip, history: &History, spec: &str) -> bool {
    match why {
        Skip::OwnBound => true,
        Skip::Chains => !history.chains.is_empty(),
        Skip::OneCore => history.cores == 1,
        Skip::OwnCores => spec.contains("allocate="),
        Skip::FewCores => history.cores < history.estimates.len(),
        // Defaults fit every configuration.
        Skip::Refused(_) => spec.contains(':'),
    }
}

fn hold(entry: &Entry, corpus: &[Scenario]) -> Report {
    let mut report = Report::default();
    for subject in Registered::all(entry) {
        let spec = subject.spec.to_string();
        for scenario in corpus {
            let skip = |report: &mut Report, what: String, why: Skip| {
                assert!(is_a_reason(&why, &scenario.history, &spec), "{spec}, {}: {what}: {why}", scenario.name);
                report.skip(what, why, &scenario.name);
            };
            let trial = Trial { subject: &subject, history: &scenario.history, allocations: Some(count_allocations) };
            match trial.hold().unwrap_or_else(|error| panic!("{spec}, {}: {error}", scenario.name)) {
                Err(why) => skip(&mut report, spec.clone(), why),
                Ok(verdicts) => {
                    report.played += 1;
                    for (promise, verdict) in verdicts {
                        match verdict {
                            Ok(()) => *report.kept.entry(promise.text()).or_default() += 1,
                            Err(why) => skip(&mut report, promise.text().into(), why),
                        }
                    }
                }
            }
        }
    }
    report
}

fn hold_family(family: Family) {
    let corpus = Scenario::corpus();
    for entry in registry::entries().into_iter().filter(|entry| entry.info.family == family) {
        let report = hold(&entry, &corpus);
        report.print(entry.info.name, corpus.len());
        assert!(report.played >= corpus.len() / 2, "{} was played only {} times", entry.info.name, report.played);
        for promise in entry.info.promises.iter().filter(|promise| !matches!(promise, Promise::Fair(_))) {
            assert!(report.kept.contains_key(promise.text()), "{}: nothing tests: {}", entry.info.name, promise.text());
        }
    }
}

#[test]
fn steering_policies_keep_their_promises() {
    hold_family(Family::Steer);
}

#[test]
fn sharing_policies_keep_their_promises() {
    hold_family(Family::Share);
}

#[test]
fn allocation_policies_keep_their_promises() {
    hold_family(Family::Allocate);
}

#[test]
fn estimators_keep_their_contract() {
    hold_family(Family::Estimate);
}
