//! The rules of a run, with all names found: which packets get which service, and belong to which client.

use core::time::Duration;
use std::collections::{HashMap, HashSet};

use humpyard_core::id::{ChainId, ClientId, Id, ServiceId};
use humpyard_core::name::unknown;
use humpyard_core::unit::Weight;
use humpyard_services::prepare;
use humpyard_traffic::classify::Granularity;
use humpyard_traffic::rule::{Conditions, Outcome, Rule};

use crate::LabError;
use crate::choice::rule::RuleChoice;
use crate::choice::service::ServiceChoice;
use crate::config::RunConfig;

/// The rules of a run, with all names found.
#[derive(Debug)]
pub(crate) struct Ruled {
    /// Those of the run, then those of the services' kinds.
    pub(crate) rules: Vec<Rule>,
    /// The clients of rules, in order.
    pub(crate) clients: Vec<String>,
    /// Their ids, by name.
    client_ids: HashMap<String, ClientId>,
    /// What each rule's chain adds to those of the services, in order of their ids.
    pub(crate) chains: Vec<Vec<ServiceId>>,
}

impl Ruled {
    /// Finds all names.
    ///
    /// # Errors
    /// A name that there is not, a rule that contradicts itself or another, a service that no packet gets.
    pub(crate) fn new(config: &RunConfig) -> Result<Self, LabError> {
        let mut ruled = Self { rules: Vec::new(), clients: Vec::new(), client_ids: HashMap::new(), chains: Vec::new() };
        check_weights(config)?;
        let said = Said::of(config);
        for (at, rule) in config.rules.iter().enumerate() {
            ruled
                .add(config, &said, rule)
                .map_err(|error| LabError::option(format!("rule {}, `{rule}`: {error:#}", at + 1)))?;
        }
        let is_kind = |choice: &ServiceChoice| choice.matches.is_some();
        let reached = if config.services.iter().all(is_kind) { HashSet::new() } else { ruled.reached(config) };
        for (id, choice) in config.services.iter().enumerate() {
            let service = ServiceId::from_index(id);
            match choice.matches {
                Some(kind) => {
                    let client = ruled.client(&choice.name);
                    let chain = ChainId(service.0);
                    let (weight, link_weight) = (Weight::ONE, Weight::ONE);
                    let outcome = Outcome { service, client, chain, weight, link_weight };
                    ruled.rules.push(Rule { conditions: Conditions::of(kind), outcome });
                }
                None if reached.contains(&service) => {}
                None => return Err(unreached(&choice.name, service)),
            }
        }
        Ok(ruled)
    }

    fn add(&mut self, config: &RunConfig, said: &Said<'_>, rule: &RuleChoice) -> Result<(), LabError> {
        if rule.conditions.is_none() {
            return Err(LabError::option("no packet can match: two of its conditions exclude each other; drop one"));
        }
        if rule.conditions.needs_local() && config.local.is_empty() {
            return Err(LabError::option(
                "a direction is seen from the local prefixes: give them, @local 10.0.0.0/8 for example",
            ));
        }
        let service = match (&rule.service, config.services.as_slice()) {
            (Some(name), _) => config.find_service(name)?,
            (None, [_]) => ServiceId(0),
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|choice| choice.name.as_str()).collect();
                return Err(LabError::option(format!(
                    "it must say which service: service={}",
                    names.join(" or service=")
                )));
            }
        };
        said.check(config, rule)?;
        let chain = match &rule.chain {
            None => ChainId(service.0),
            Some(then) => {
                let then = then.iter().map(|name| config.find_service(name));
                self.chains.push(core::iter::once(Ok(service)).chain(then).collect::<Result<_, _>>()?);
                ChainId::from_index(config.services.len() + self.chains.len() - 1)
            }
        };
        let client = self.client(client_name(config, rule));
        let weight = rule.weight.unwrap_or(Weight::ONE);
        let link_weight = rule.link_weight.unwrap_or(weight);
        let outcome = Outcome { service, client, chain, weight, link_weight };
        self.rules.push(Rule { conditions: rule.conditions.clone(), outcome });
        Ok(())
    }

    fn client(&mut self, name: &str) -> ClientId {
        if let Some(&known) = self.client_ids.get(name) {
            return known;
        }
        let new = ClientId::from_index(self.clients.len());
        self.clients.push(name.to_owned());
        self.client_ids.insert(name.to_owned(), new);
        new
    }

    /// The services that packets can get by rules, chains and marks.
    fn reached(&self, config: &RunConfig) -> HashSet<ServiceId> {
        let by_chain =
            config.chains.iter().flat_map(|(_, then)| then).filter_map(|name| config.find_service(name).ok());
        let by_rule = self.rules.iter().map(|rule| rule.outcome.service);
        let marked = config.services.iter().filter_map(|choice| prepare(&choice.work).ok());
        let marked = marked.flat_map(|made| made.refers_to().to_vec());
        by_chain.chain(by_rule).chain(self.chains.iter().flatten().copied()).chain(marked).collect()
    }

    /// The weights of the clients: those of the rules where clients are those of the rules.
    pub(crate) fn weights(&self, config: &RunConfig) -> Vec<Weight> {
        self.reweighed(config, config.weights.clone(), |rule| rule.weight)
    }

    /// Their weights at the link behind the cores.
    pub(crate) fn link_weights(&self, config: &RunConfig) -> Vec<Weight> {
        self.reweighed(config, self.weights(config), |rule| rule.link_weight)
    }

    /// These weights, but for clients of rules that say another.
    fn reweighed(
        &self,
        config: &RunConfig,
        mut weights: Vec<Weight>,
        said: fn(&RuleChoice) -> Option<Weight>,
    ) -> Vec<Weight> {
        if config.granularity() == Granularity::Rule {
            for rule in &config.rules {
                let client = self.client_ids.get(client_name(config, rule)).map(|client| client.index());
                if let (Some(client), Some(weight)) = (client, said(rule)) {
                    weights.resize(weights.len().max(client + 1), Weight::ONE);
                    weights[client] = weight;
                }
            }
        }
        weights
    }
}

/// Says that no packet gets a service, and what to do.
fn unreached(name: &str, service: ServiceId) -> LabError {
    let kinds = ["any", "tcp", "udp", "icmp", "ipv4", "ipv6", "other"];
    LabError::option(format!(
        "no packet gets the service `{name}`: add a rule with service={name}, or a mark such as l7-filter:service=http={}; or as \
         a kind of packet: {}",
        service.index(),
        unknown("kind", name, kinds)
    ))
}

fn client_name<'a>(config: &'a RunConfig, rule: &'a RuleChoice) -> &'a str {
    rule.client.as_deref().unwrap_or_else(|| config.service_of(rule))
}

/// Flows and connections are weighed by number, or by rules.
fn check_weights(config: &RunConfig) -> Result<(), LabError> {
    let by_number = matches!(config.granularity(), Granularity::Flow | Granularity::Connection);
    let weighs = |rule: &RuleChoice| rule.weight.or(rule.link_weight).is_some();
    if by_number && !config.weights.is_empty() && config.rules.iter().any(weighs) {
        return Err(LabError::option("@weights and the weights of rules both say what flows weigh: drop one of them"));
    }
    Ok(())
}

/// What rules say of services and of clients, which must be the same in all of them.
#[derive(Default)]
struct Said<'a> {
    tolerances: HashMap<&'a str, Once<Duration>>,
    guarantees: HashMap<&'a str, Once<u32>>,
    weights: HashMap<&'a str, Once<Weight>>,
    link_weights: HashMap<&'a str, Once<Weight>>,
}

/// What was said first, and whether something else was said, too.
struct Once<T> {
    first: T,
    differs: bool,
}

/// Takes notice of what a rule says, if it says something.
fn note<'a, T: PartialEq>(said: &mut HashMap<&'a str, Once<T>>, name: &'a str, value: Option<T>) {
    if let Some(value) = value {
        let differs = said.get(name).is_some_and(|once| once.first != value);
        said.entry(name).or_insert(Once { first: value, differs }).differs |= differs;
    }
}

impl<'a> Said<'a> {
    fn of(config: &'a RunConfig) -> Self {
        let mut said = Self::default();
        let by_rule = config.granularity() == Granularity::Rule;
        for rule in &config.rules {
            let (service, client) = (config.service_of(rule), client_name(config, rule));
            note(&mut said.tolerances, service, rule.tolerance);
            note(&mut said.guarantees, service, rule.guarantee);
            if by_rule {
                note(&mut said.weights, client, rule.weight);
                note(&mut said.link_weights, client, rule.link_weight);
            }
        }
        said
    }

    /// Refuses a rule that says something else of its service or its client than another one.
    fn check(&self, config: &RunConfig, rule: &RuleChoice) -> Result<(), LabError> {
        fn differ<T>(said: &HashMap<&str, Once<T>>, name: &str, value: Option<T>) -> bool {
            value.is_some() && said.get(name).is_some_and(|once| once.differs)
        }
        let (service, client) = (config.service_of(rule), client_name(config, rule));
        if differ(&self.tolerances, service, rule.tolerance) || differ(&self.guarantees, service, rule.guarantee) {
            return Err(LabError::option(format!(
                "another rule gives the service `{service}` another tolerance or guarantee: name two services that do the same"
            )));
        }
        if differ(&self.weights, client, rule.weight) || differ(&self.link_weights, client, rule.link_weight) {
            return Err(LabError::option(format!(
                "another rule gives the client `{client}` another weight: name two clients"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::host::Host;

    fn config(services: &[&str], rules: &[&str]) -> RunConfig {
        let mut config = RunConfig::new(Host::Sim, "gen:messages", "static".parse().unwrap());
        let service = |text: &&str| ServiceChoice::parse(text).unwrap();
        config.services = services.iter().map(service).collect();
        config.rules = rules.iter().map(|text| text.parse().unwrap()).collect();
        config
    }

    #[test]
    fn names_are_found() {
        let mut config = config(
            &["web=forward", "bulk=forward", "other=forward"],
            &[
                "port=80,service=web,client=alice,weight=7",
                "port=443,service=web",
                "port=20,service=bulk,client=alice,chain=web+other",
            ],
        );
        let ruled = Ruled::new(&config).unwrap();
        assert_eq!(ruled.clients, ["alice", "web", "other"]);
        assert_eq!(ruled.chains, [[1, 0, 2].map(ServiceId)]);
        let outcomes: Vec<(u16, u32, u16)> = ruled
            .rules
            .iter()
            .map(|rule| (rule.outcome.service.0, rule.outcome.client.0, rule.outcome.chain.0))
            .collect();
        assert_eq!(outcomes, [(0, 0, 0), (0, 1, 0), (1, 0, 3), (2, 2, 2)]);
        assert_eq!(config.granularity(), Granularity::Rule);
        assert_eq!(ruled.weights(&config), [Weight::new(7).unwrap()]);
        assert_eq!(ruled.link_weights(&config), ruled.weights(&config));
        config.rules[0].link_weight = Weight::new(2);
        assert_eq!(ruled.link_weights(&config), [Weight::new(2).unwrap()]);
    }

    #[test]
    fn slips_are_told() {
        let said = |services: &[&str], rules: &[&str]| Ruled::new(&config(services, rules)).unwrap_err().to_string();
        let two = &["web=forward", "other=forward"];
        assert!(
            said(two, &["port=80,service=wep"])
                .contains("rule 1, `port=80,service=wep`: no service of this run `wep`; did you mean `web`?")
        );
        assert!(said(two, &["port=80"]).contains("it must say which service: service=web or service=other"));
        assert!(said(two, &[]).contains("no packet gets the service `web`"));
        assert!(said(&["tpc=forward", "other=forward"], &[]).contains("did you mean `tcp`?"));
        assert!(said(two, &["port=80,protocol=icmp,service=web"]).contains("no packet can match"));
        assert!(said(two, &["direction=in,service=web"]).contains("local"));
        let twice = said(two, &["port=1,service=web,tolerance=1ms", "port=2,service=web,tolerance=2ms"]);
        assert!(twice.contains("another tolerance"), "{twice}");
        let twice = said(two, &["port=1,service=web,client=a,weight=1", "port=2,service=web,client=a,weight=2"]);
        assert!(twice.contains("the client `a` another weight"), "{twice}");
    }
}
