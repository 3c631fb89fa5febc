//! Whether a machine is still the one that was validated: the live figures of now beside those of a
//! saved validation.

use core::fmt::Display;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};

use super::{BOUND_MAX, Compared, PolicyValidation, Validation, as_options, signed};
use crate::LabError;
use crate::choice::rate::Rate;
use crate::figures::percent;

/// What a saved validation found live.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct SavedValidation {
    input: String,
    workers: usize,
    /// `None`: one, or an older version saved it.
    #[serde(default)]
    dispatchers: Option<usize>,
    #[serde(default)]
    offered_pps: Option<f64>,
    /// The rate that was given. `None`: the validation found it, or an older version saved it.
    #[serde(default)]
    rate: Option<String>,
    policies: Vec<SavedPolicy>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct SavedPolicy {
    policy: String,
    figures: Vec<SavedFigure>,
    #[serde(default)]
    costs: Vec<SavedCost>,
    #[serde(default)]
    host: Option<BTreeMap<String, serde_json::Value>>,
}

/// What was known of a service.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct SavedCost {
    spec: String,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct SavedFigure {
    figure: String,
    live: f64,
    spread: f64,
}

/// A live figure of now, compared with that of a saved validation.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Name of the figure: `throughput`, `utilization`, `p50`, `p99` or `loss`.
    pub figure: &'static str,
    /// Value in the saved validation, in packets per second, ns, or as a fraction.
    pub was: f64,
    /// Value now, in the unit of `was`.
    pub is: f64,
    /// `is` minus `was`, as a fraction of `was`; for `loss`, the difference itself.
    pub drift: f64,
    /// The drift that is accepted at most: the aim of an error or, if greater, the larger spread,
    /// up to twice the aim.
    pub bound: f64,
    /// Whether `drift` is beyond `bound`.
    pub has_drifted: bool,
}

impl SavedValidation {
    /// Reads what `humpyard validate --json` printed.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else.
    pub fn read(path: &str) -> Result<Self, LabError> {
        let text = fs::read_to_string(path).map_err(|error| {
            LabError::option(match error.kind() {
                ErrorKind::NotFound => format!("@against {path}: there is no such file"),
                ErrorKind::InvalidData => format!(
                    "@against {path}: this is no saved validation; give a file that `humpyard validate --json` wrote"
                ),
                _ => format!("@against {path}: {error}"),
            })
        })?;
        let refused = |why: &dyn Display| {
            LabError::option(format!(
                "@against {path}: this is not what `humpyard validate --json` printed ({why}); save that to a file"
            ))
        };
        let saved: Self = serde_json::from_str(&text).map_err(|error| refused(&error))?;
        match saved.offered_pps {
            _ if saved.policies.is_empty() => Err(refused(&"it has no policies")),
            Some(pps) if !OFFERED.contains(&pps) => Err(refused(&format_args!("`offered_pps` is {pps}"))),
            _ => Ok(saved),
        }
    }

    /// Checks that the validation that is asked for is the saved one.
    ///
    /// # Errors
    /// Another input, number of workers or of dispatchers, other services, and policies that were not validated.
    pub fn check(
        &self,
        input: &str,
        (workers, dispatchers): (usize, usize),
        services: &[String],
        policies: &[String],
    ) -> Result<(), LabError> {
        let had = self.dispatchers.unwrap_or(1);
        if self.input != input || (self.workers, had) != (workers, dispatchers) {
            let several = if had == dispatchers { String::new() } else { format!(" and @dispatchers {had}") };
            return Err(LabError::option(format!(
                "@against: the saved validation is of {} with @workers {}{several}; ask for the same",
                self.input, self.workers
            )));
        }
        // All policies had the same services.
        let first = self.policies.first();
        let saved: Vec<&str> = first.iter().flat_map(|one| &one.costs).map(|cost| cost.spec.as_str()).collect();
        if let Some(other) = services.iter().find(|service| !saved.is_empty() && !saved.contains(&service.as_str())) {
            return Err(LabError::option(format!(
                "@against: the saved validation is of the services {}, not {other}; ask for the same",
                saved.join(", ")
            )));
        }
        let known = |policy: &&String| !self.policies.iter().any(|saved| saved.policy == **policy);
        match policies.iter().find(known) {
            None => Ok(()),
            Some(policy) => Err(LabError::option(format!(
                "@against: the saved validation does not have {policy}, only {}",
                self.policies.iter().map(|saved| saved.policy.as_str()).collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    /// Returns the rate to offer, in packets per second: that which the saved validation found.
    ///
    /// # Errors
    /// A rate is given, and the saved validation found its own; or the other way round; or another one was given.
    pub(super) fn rate(&self, rate: Rate) -> Result<Option<f64>, LabError> {
        match (self.offered_pps, rate) {
            (found @ Some(_), Rate::Line) => Ok(found),
            (None, Rate::Line) => Err(LabError::option(
                "@against: the saved validation was given a rate; give the same (@rate, @multiplier or @load)",
            )),
            (Some(found), _) => Err(LabError::option(format!(
                "@against: the saved validation found its rate, {found} packets/s; omit @rate, @multiplier and @load"
            ))),
            (None, now) => match &self.rate {
                Some(saved) if *saved != as_options(now) => Err(LabError::option(format!(
                    "@against: the saved validation is at {saved}, not {}; ask for the same",
                    as_options(now)
                ))),
                _ => Ok(None),
            },
        }
    }

    /// Compares the live figures of now with the saved ones.
    pub fn drifts(&self, now: &Validation) -> Vec<Drift> {
        now.policies.iter().flat_map(|policy| self.drifts_of(policy)).collect()
    }

    fn drifts_of(&self, now: &PolicyValidation) -> Vec<Drift> {
        let Some(saved) = self.policies.iter().find(|saved| saved.policy == now.policy) else { return Vec::new() };
        let drift = |figure: &Compared| {
            let was = saved.figures.iter().find(|was| was.figure == figure.figure)?;
            let relative = figure.figure != "loss" && was.live != 0.0;
            let drift = if relative { figure.live / was.live - 1.0 } else { figure.live - was.live };
            let bound = figure.spread.max(was.spread).clamp(figure.aim, BOUND_MAX * figure.aim);
            Some(Drift {
                policy: now.policy.clone(),
                figure: figure.figure,
                was: was.live,
                is: figure.live,
                drift,
                bound,
                has_drifted: drift.abs() > bound,
            })
        };
        now.figures.iter().filter_map(drift).collect()
    }

    /// Says which of the host's times under this policy has changed most, if one did by half or more.
    pub fn changed_time(&self, now: &PolicyValidation) -> Option<String> {
        let saved = self.policies.iter().find(|saved| saved.policy == now.policy)?.host.as_ref()?;
        let host = now.host.as_ref()?.machine.host.as_ref()?;
        let changed = host.times().filter_map(|(key, ns)| {
            let was = saved.get("host")?.get(key)?.as_f64()?;
            (ns.max(was) > LEAST).then(|| (key, was, ns, (ns.max(1.0) / was.max(1.0)).ln().abs()))
        });
        let (key, was, ns, by) = changed.max_by(|one, other| one.3.total_cmp(&other.3))?;
        (by > CHANGED.ln()).then(|| format!("{key} was {was:.0} and is {ns:.0}"))
    }
}

/// Rates that a validation can have found, in packets per second.
const OFFERED: RangeInclusive<f64> = 1.0..=1e9;
/// Times below this do not matter, in ns.
const LEAST: f64 = 50.0;
/// Ratio of two times from which the change is said.
const CHANGED: f64 = 1.5;

impl Drift {
    /// Says it in a sentence without a full stop.
    pub fn says(&self) -> String {
        format!(
            "the machine has drifted: live {} under {} differs by {} from the saved validation, more than {}",
            self.figure,
            self.policy,
            signed(self.drift),
            percent(self.bound)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::validated;
    use super::*;

    fn saved(text: &str) -> SavedValidation {
        serde_json::from_str(text).unwrap()
    }

    const SAVED: &str = r#"{"input": "in.pcap", "workers": 1, "policies": [{"policy": "drr", "figures": [
        {"figure": "throughput", "live": 1.0, "spread": 0.0}, {"figure": "p99", "live": 0.5, "spread": 0.3}]}]}"#;

    #[test]
    fn a_figure_that_moved_by_more_than_its_spread_has_drifted() {
        let drifts = saved(SAVED).drifts_of(&validated([0.0, 0.0]));
        let found: Vec<_> = drifts.iter().map(|drift| (drift.figure, drift.drift, drift.has_drifted)).collect();
        assert_eq!(found, [("throughput", 0.0, false), ("p99", 1.0, true)]);
        assert_eq!(
            drifts[1].says(),
            "the machine has drifted: live p99 under drr differs by +100.0 % from the saved validation, more than 30.0 %"
        );
    }

    #[test]
    fn another_validation_is_refused() {
        let check = |input: &str, workers, policy: &str| {
            saved(SAVED).check(input, (workers, 1), &[], &[policy.to_owned()]).map_err(|error| error.to_string())
        };
        assert_eq!(check("in.pcap", 1, "drr"), Ok(()));
        assert!(check("other.pcap", 1, "drr").unwrap_err().contains("is of in.pcap with"));
        assert!(check("in.pcap", 2, "drr").is_err() && check("in.pcap", 1, "hrw").unwrap_err().contains("only drr"));
        let several = saved(SAVED).check("in.pcap", (1, 2), &[], &[]).unwrap_err().to_string();
        assert!(several.contains("is of in.pcap with workers 1 and dispatchers 1; ask"), "{several}");
        assert!(SavedValidation::read("no-such.json").is_err());
    }

    #[test]
    fn other_services_and_rates_are_refused() {
        let of = |costs: &str| {
            saved(&SAVED.replace(r#""policy": "drr","#, &format!(r#""policy": "drr", "costs": {costs},"#)))
        };
        let check =
            |saved: &SavedValidation| saved.check("in.pcap", (1, 1), &["encrypt".to_owned()], &["drr".to_owned()]);
        assert!(check(&of(r#"[{"spec": "encrypt"}]"#)).is_ok() && check(&of("[]")).is_ok());
        let said = check(&of(r#"[{"spec": "forward"}]"#)).unwrap_err().to_string();
        assert!(said.contains("of the services forward, not encrypt"), "{said}");
        let given = Rate::PacketsPerSecond(1e3);
        assert_eq!(saved(SAVED).rate(given).unwrap(), None);
        assert!(saved(SAVED).rate(Rate::Line).unwrap_err().to_string().contains("was given a rate"));
        let at = saved(&SAVED.replacen('{', r#"{"rate": "load=0.8", "#, 1));
        assert_eq!(at.rate(Rate::Load { load: 0.8, of: None }).unwrap(), None);
        let said = at.rate(given).unwrap_err().to_string();
        assert!(said.contains("is at load=0.8, not rate=1000; ask for the same"), "{said}");
        let found = saved(&SAVED.replacen('{', r#"{"offered_pps": 5e4, "#, 1));
        assert_eq!(found.rate(Rate::Line).unwrap(), Some(5e4));
        assert!(found.rate(given).unwrap_err().to_string().contains("found its rate, 50000 packets/s"));
    }
}
