//! What a configuration means: what holds where options, rules and costs each say something.

use core::time::Duration;

use humpyard_core::cost::LinearCost;
use humpyard_core::id::{Id, ServiceId};
use humpyard_core::name::unknown;
use humpyard_core::policy::BuildError;
use humpyard_core::unit::WorkUnit;
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::Overload;
use humpyard_text::quantity::show_duration;
use humpyard_traffic::classify::Granularity;
use humpyard_traffic::source::{QUEUE, is_interface};

use crate::LabError;
use crate::choice::host::{Clock, Host};
use crate::choice::rate::Rate;
use crate::choice::rule::RuleChoice;
use crate::config::RunConfig;

/// Returns the last time given for this service.
fn given(times: &[(String, Duration)], service: &str) -> Option<Duration> {
    times.iter().rev().find(|(name, _)| name == service).map(|&(_, time)| time)
}

/// Returns the policies that a text names: one of `own` that is shown so, or registered ones.
///
/// # Errors
/// Text that names no policies.
pub fn find_named(own: &[PolicySpec], text: &str) -> Result<PolicySpec, BuildError> {
    own.iter().find(|policy| policy.to_string() == text).cloned().map_or_else(|| text.parse(), Ok)
}

impl RunConfig {
    /// Returns the same run under another policy.
    #[must_use]
    pub fn under(&self, policy: PolicySpec) -> Self {
        Self { policy, ..self.clone() }
    }

    /// Returns the policies that a text names: those of the program that are shown so, or registered ones.
    ///
    /// # Errors
    /// Text that names no policies.
    pub fn named(&self, text: &str) -> Result<PolicySpec, BuildError> {
        find_named(&self.own_policies, text)
    }

    /// Returns all inputs; or the description of the table of packets.
    pub fn inputs(&self) -> Vec<String> {
        if let Some(table) = &self.table {
            return vec![table.to_string()];
        }
        core::iter::once(&self.input).chain(&self.more_inputs).cloned().collect()
    }

    /// Returns all inputs, as results name them.
    pub(crate) fn input_name(&self) -> String {
        self.inputs().join(" + ")
    }

    /// Whether an input can be read once only: a pipe, or an interface.
    pub fn reads_once(&self) -> bool {
        self.inputs().iter().any(|input| input == "-" || is_interface(input))
    }

    /// Whether packets come by queues of the kernel, and leave by them.
    pub(crate) fn has_queues(&self) -> bool {
        self.host == Host::Live && self.inputs().iter().any(|input| input.starts_with(QUEUE))
    }

    /// Returns where packets go: those of queues of the kernel go back to their queue.
    pub(crate) fn output_name(&self) -> String {
        if self.has_queues() { self.input_name() } else { self.output.clone() }
    }

    /// Whether packets arrive at an interface.
    pub(crate) fn listens(&self) -> bool {
        self.inputs().iter().any(|input| is_interface(input))
    }

    /// Returns the delay beyond which a packet of the service is late.
    pub(crate) fn tolerance(&self, service: &str) -> Duration {
        let given = |name: &str| given(&self.tolerances, name);
        let by_rule = || self.rules_of(service).find_map(|rule| rule.tolerance);
        given(service).or_else(by_rule).or_else(|| given("")).unwrap_or(TOLERANCE)
    }

    /// Returns the time that a core takes to go over to this service.
    pub(crate) fn switch_cost(&self, service: &str) -> Duration {
        let given = |name: &str| given(&self.switch_costs, name);
        given(service).or_else(|| given("")).or_else(|| self.costs.switch_cost()).unwrap_or(SWITCH_COST)
    }

    /// Shows the times that a core takes to go over to services: once, if all are the same.
    pub(crate) fn show_switch_costs(&self) -> String {
        let costs: Vec<(&str, String)> = self
            .services
            .iter()
            .map(|choice| (choice.name.as_str(), show_duration(self.switch_cost(&choice.name))))
            .collect();
        match costs.as_slice() {
            [(_, first), others @ ..] if others.iter().all(|(_, cost)| cost == first) => first.clone(),
            costs => costs.iter().map(|(name, cost)| format!("{name}={cost}")).collect::<Vec<_>>().join(","),
        }
    }

    /// Returns the share of the cores that a service is guaranteed, in millionths. `None`: no share is given.
    pub(crate) fn guarantee(&self, service: &str) -> Option<u32> {
        let given = self.guarantees.iter().rev().find(|(given, _)| given == service).map(|&(_, share)| share);
        given.or_else(|| self.rules_of(service).find_map(|rule| rule.guarantee))
    }

    fn rules_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a RuleChoice> {
        self.rules.iter().filter(move |rule| self.service_of(rule) == service)
    }

    /// Returns the name of the service of a rule: the first of the run, if the rule names none.
    pub(crate) fn service_of<'a>(&'a self, rule: &'a RuleChoice) -> &'a str {
        rule.service.as_deref().unwrap_or_else(|| self.services.first().map_or("", |choice| &choice.name))
    }

    /// Returns the id of the service of this name.
    ///
    /// # Errors
    /// No such service; the message names those there are.
    pub(crate) fn find_service(&self, name: &str) -> Result<ServiceId, LabError> {
        let names = || self.services.iter().map(|choice| choice.name.as_str());
        let found = names().position(|known| known == name).map(ServiceId::from_index);
        found.ok_or_else(|| LabError::option(self.no_service(name)))
    }

    /// Returns the message that the run has no service of this name.
    pub(crate) fn no_service(&self, name: &str) -> String {
        let names = self.services.iter().map(|choice| choice.name.as_str());
        format!("{}; @services adds one: {name}=SERVICE", unknown("service of this run", name, names))
    }

    /// Whether the run goes by a virtual clock: then packets take what the costs say.
    pub(crate) fn is_virtual(&self) -> bool {
        self.host == Host::Sim || self.clock == Clock::Virtual
    }

    /// Whether the offered work is known: in virtual time by the costs, in real time only where a load is asked for, which goes
    /// by the costs, too.
    pub(crate) fn knows_work(&self) -> bool {
        self.is_virtual() || matches!(self.rate, Rate::Load { .. })
    }

    /// Returns what the run does when the buffer is full. A wire does not wait.
    pub(crate) fn overload(&self) -> Overload {
        let waits = self.rate == Rate::Line && !self.listens();
        self.overload.unwrap_or(if waits { Overload::Wait } else { Overload::Drop })
    }

    /// Returns who the clients are.
    pub fn granularity(&self) -> Granularity {
        let named =
            || self.rules.iter().any(|rule| rule.client.is_some() || rule.weight.or(rule.link_weight).is_some());
        self.clients.unwrap_or_else(|| if named() { Granularity::Rule } else { Granularity::Flow })
    }

    /// Returns the name of the topology.
    pub(crate) fn topology_name(&self) -> &str {
        match &self.topology {
            Some(topology) => topology.name(),
            None if self.host == Host::Live && self.clock == Clock::Real => "machine",
            None => "flat",
        }
    }

    /// Returns what a packet of each service is estimated to cost, in the unit of the run.
    pub(crate) fn estimates(&self, costs: &[LinearCost]) -> Vec<LinearCost> {
        match self.unit {
            WorkUnit::Nanoseconds => {
                let hand_over = self.hand_over.map_or(0, |hand_over| hand_over.as_nanos() as u64);
                costs.iter().map(|&cost| LinearCost { fixed: cost.fixed + hand_over, ..cost }).collect()
            }
            WorkUnit::Bytes => vec![LinearCost::BYTES; costs.len()],
            WorkUnit::Packets => vec![LinearCost::PACKETS; costs.len()],
        }
    }
}

/// Time of a switch that is neither given nor measured.
const SWITCH_COST: Duration = Duration::from_micros(50);
/// Delay beyond which a packet is late by default: the Everest paper's.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(2);
