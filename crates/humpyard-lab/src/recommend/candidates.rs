//! Which policies are tried: every registered one, some with other parameters, and some side by side.

use humpyard_core::policy::Family;
use humpyard_policies::registry::entries;
use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use crate::config::RunConfig;
use crate::dispatchers::host_of_several;
use crate::parts::several;
use crate::{LabError, parts};

/// Plain hashing: what every network card does, and what others are held against. It is the first candidate.
pub(super) const HASHING: &str = "hrw";

/// The simplest, in this order: of equals the earlier candidate wins.
const SIMPLE: [&str; 8] = [HASHING, "fcfs", "conn", "rr", "jsq", "drr", "sfq", "static"];

/// Parameters that are tried beside the defaults.
const PARAMETERS: [(&str, &[&str]); 12] = [
    ("conn", &["hash=mix"]),
    ("rss++", &["interval=1000", "interval=1000,load=work"]),
    ("jsq2", &["pair=packet"]),
    ("hrw-kencl", &["interval=1000"]),
    ("ps-hrw", &["beta=0.5", "guard=true", "weight=work"]),
    ("flow-slice", &["delta=20000", "delta=1000000"]),
    ("drr", &["surplus=true"]),
    ("efq", &["eligible=false"]),
    ("lap", &["hysteresis=0", "hysteresis=2"]),
    ("darc", &["slowdown=0,drift=0"]),
    ("everest", &["proactive=ewma", "extra-reclaim=never"]),
    ("seda", &["every=100"]),
];

/// Policies of several families: queues by core or by service, each shared.
const COMPOSED: [&str; 12] = [
    "hrw/drr",
    "hrw/sfq",
    "hrw/efq",
    "ps-hrw/drr",
    "ps-hrw/sfq",
    "jsq2/drr",
    "jsq/sfq",
    "flow-slice/drr",
    "static/hrw",
    "static/drr",
    "everest/drr",
    "everest/sfq",
];

/// Policies that the simulator alone can run: they know what comes before it does, or need a service of their own.
const SIMULATED: [&str; 2] = ["t-opt", "scr"];

/// Gains nothing unless a batch has a cost of its own, so it is tried only then.
const BATCHES: &str = "batch";

/// A policy that is not tried, and the reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// The reason, in one line.
    pub because: String,
}

/// Returns the policies that are tried: these. If no registered policy is among them, all registered ones come first.
pub(super) fn tried(config: &RunConfig, policies: &[PolicySpec]) -> Vec<PolicySpec> {
    let is_own = |policy: &PolicySpec| policy.own().next().is_some();
    let mut registered = if policies.iter().all(is_own) { grid() } else { Vec::new() };
    if !registered.is_empty() && parts::setup::has_batches(config) {
        registered.push(BATCHES.to_owned());
    }
    registered.iter().filter_map(|text| text.parse().ok()).chain(policies.iter().cloned()).collect()
}

/// Every policy that might be tried, as text, [`HASHING`] first; without [`BATCHES`].
pub(crate) fn grid() -> Vec<String> {
    let registered = entries().into_iter().filter(|entry| entry.info.family != Family::Estimate);
    let mut all: Vec<String> = SIMPLE.map(str::to_owned).into();
    let others = registered.map(|entry| entry.info.name);
    let is_left_out = |name: &&str| SIMPLE.contains(name) || SIMULATED.contains(name) || *name == BATCHES;
    all.extend(others.filter(|name| !is_left_out(name)).map(str::to_owned));
    for (policy, parameters) in PARAMETERS {
        all.extend(parameters.iter().map(|parameters| format!("{policy}:{parameters}")));
    }
    all.extend(COMPOSED.map(str::to_owned));
    all
}

/// Returns the place of a policy among the candidates, the simplest of which is first. Other policies come last.
pub(super) fn simplicity(policy: &PolicySpec) -> usize {
    let is_it = |text: &String| text.parse::<PolicySpec>().is_ok_and(|known| known == *policy);
    let grid = grid();
    grid.iter().position(is_it).unwrap_or(grid.len())
}

/// Those of these policies that fit a configuration, each once, and the others.
///
/// # Errors
/// A configuration that no policy fits.
pub(super) fn fitting(
    config: &RunConfig,
    policies: &[PolicySpec],
) -> Result<(Vec<PolicySpec>, Vec<Skipped>), LabError> {
    let clients = parts::classifier(config)?.clients_max();
    let (mut fitting, mut skipped) = (Vec::new(), Vec::new());
    for policy in policies {
        if fitting.contains(policy) {
            continue;
        }
        match refusal(config, clients, policy) {
            None => fitting.push(policy.clone()),
            Some(because) => skipped.push(Skipped { policy: policy.to_string(), because }),
        }
    }
    match (fitting.is_empty(), skipped.first()) {
        (true, Some(Skipped { policy, because })) => {
            Err(LabError::option(format!("no policy fits this configuration; `{policy}`: {because}")))
        }
        _ => Ok((fitting, skipped)),
    }
}

/// Why a policy does not fit, if it does not.
fn refusal(config: &RunConfig, clients: usize, policy: &PolicySpec) -> Option<String> {
    if policy.allocates() && config.services.len() < 2 {
        return Some("there is one service, so there is nothing to allocate".to_owned());
    }
    let config = &RunConfig { policy: policy.clone(), ..config.clone() };
    let built = if host_of_several(config).is_some() {
        several::refuse(config).and_then(|()| several::separate(config).map(drop))
    } else {
        let setup = parts::scheduler_config(config, config.cores, clients);
        setup.and_then(|setup| parts::scheduler(config, &setup)).map(drop)
    };
    built.err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use humpyard_core::policy::Build;
    use humpyard_policies::own::OwnPolicy;
    use humpyard_policies::share::drr::{Drr, DrrParams};

    use super::*;
    use crate::choice::host::Host;
    use crate::choice::service::ServiceChoice;
    use crate::costs::Costs;

    #[test]
    fn everything_that_is_tried_can_be_named() {
        let grid = grid();
        assert_eq!(grid[0], HASHING);
        for text in &grid {
            assert!(text.parse::<PolicySpec>().is_ok(), "{text}");
        }
        let mut once = grid.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), grid.len());
    }

    #[test]
    fn plain_hashing_is_the_simplest() {
        let place = |text: &str| simplicity(&text.parse().expect("a policy"));
        assert_eq!((place("hrw"), place("fcfs")), (0, 1));
        assert!(place("drr") < place("drr:surplus=true") && place("drr") < place("hrw/drr"));
        assert_eq!(place("drr:quantum=77"), grid().len());
    }

    #[test]
    fn policies_of_cores_are_tried_where_there_are_services() {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", "hrw".parse().expect("a policy"));
        config.cores = 4;
        let grid = tried(&config, &[]);
        let (alone, skipped) = fitting(&config, &grid).expect("some fit");
        assert!(alone.iter().all(|policy| !policy.allocates()), "{skipped:?}");
        config.services = ServiceChoice::parse_list("tcp=forward,other=forward").expect("services");
        let (two, skipped) = fitting(&config, &grid).expect("some fit");
        assert!(two.iter().any(PolicySpec::allocates));
        let refused: Vec<&str> = skipped.iter().map(|skipped| skipped.policy.as_str()).collect();
        assert_eq!(refused, Vec::<&str>::new(), "{skipped:?}");
    }

    #[test]
    fn a_policy_counts_once_and_one_fits() {
        let config = RunConfig::new(Host::Sim, "gen:poisson", "hrw".parse().expect("a policy"));
        let named = |text: &str| text.parse::<PolicySpec>().expect("a policy");
        assert_eq!(fitting(&config, &["hrw", "steer=hrw", "drr"].map(named)).expect("they fit").0.len(), 2);
        assert!(fitting(&config, &[named("everest")]).unwrap_err().to_string().contains("nothing to allocate"));
    }

    #[test]
    fn own_policies_are_tried_beside_all_or_those_that_are_named() {
        let own = |name| OwnPolicy::share(name, |config| Drr::new(&DrrParams::default(), config)).map(PolicySpec::from);
        let (mine, drr) = (own("mine").expect("a policy"), "drr".parse::<PolicySpec>().expect("a policy"));
        let config = RunConfig::new(Host::Sim, "gen:poisson", drr.clone());
        let beside_all = tried(&config, core::slice::from_ref(&mine));
        assert_eq!((beside_all.len(), beside_all.last()), (grid().len() + 1, Some(&mine)));
        assert_eq!(tried(&config, &[mine.clone(), drr.clone()]), [mine, drr]);
    }
    #[test]
    fn batches_are_tried_where_they_have_a_cost() {
        let batch: PolicySpec = "batch".parse().expect("a policy");
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", batch.clone());
        assert!(!tried(&config, &[]).contains(&batch));
        let costs = "version = 1\n[services.forward]\nfixed_ns = 100\nper_batch_ns = 800";
        config.costs = Costs::parse("c.toml", costs).expect("costs");
        assert_eq!(tried(&config, &[]).last(), Some(&batch));
    }
}
