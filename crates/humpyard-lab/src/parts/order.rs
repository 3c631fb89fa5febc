//! Whether policies can keep flows in order as a run is asked to.

use humpyard_policies::spec::PolicySpec;
use humpyard_services::prepare;
use humpyard_traffic::classify::Granularity;

use crate::LabError;
use crate::choice::order::OrderChoice;
use crate::config::RunConfig;

/// Rejects what cannot keep its promise: `hold` under policies where holding clients does not keep flows in order, and flows that are
/// split without an exit.
pub(crate) fn check_order(config: &RunConfig, cores: usize) -> Result<(), LabError> {
    let order = config.flow_order;
    if config.split.is_some() && order.exit(config.buffer).is_none() {
        return Err(LabError::option(format!(
            "@flow-order {}: packets of flows that are split (@split) are put back in order at the exit: use @flow-order exit",
            order.name()
        )));
    }
    if order != OrderChoice::Hold || cores == 1 {
        return Ok(());
    }
    if config.granularity() == Granularity::Service
        && config.services.iter().any(|choice| prepare(&choice.work).is_ok_and(|made| !made.refers_to().is_empty()))
    {
        return Err(LabError::option(
            "@flow-order hold: with @clients service, a mark moves a flow to the queue of another service while its earlier packets \
             wait in the first: use @flow-order exit, or other clients",
        ));
    }
    let mut policies = core::iter::once(&config.policy).chain(config.swaps.iter().map(|(_, policy)| policy));
    policies.find_map(cannot_hold).map_or(Ok(()), |why| {
        Err(LabError::option(format!("@flow-order hold: {why}: use @flow-order exit, which keeps the order of flows")))
    })
}

/// Returns why flows may lose their order under this policy though each client has one packet in service at a time.
fn cannot_hold(policy: &PolicySpec) -> Option<String> {
    if policy.holds_flows() {
        return None;
    }
    Some(if policy.steers() {
        format!("`{policy}` may send packets of one flow to several cores, whose queues know nothing of each other")
    } else {
        format!("`{policy}` serves packets in order of arrival, of any client, and holds none back")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    use crate::choice::host::Host;
    use crate::choice::service::ServiceChoice;

    fn refusal(policy: &str, cores: usize) -> Option<String> {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", policy.parse().unwrap());
        assert!(check_order(&config, cores).is_ok(), "{policy}: the default holds for all");
        config.flow_order = OrderChoice::Hold;
        check_order(&config, cores).err().map(|error| error.to_string())
    }

    #[test]
    fn holding_is_refused_where_it_keeps_no_order() {
        for policy in ["drr", "hrw", "conn", "steer=hrw/share=drr", "everest/drr", "lap"] {
            assert_eq!(refusal(policy, 4), None, "{policy}");
        }
        for policy in ["fcfs", "rr", "everest", "steer=jsq/share=drr", "ps-hrw"] {
            assert!(refusal(policy, 4).is_some_and(|why| why.contains("flow-order exit")), "{policy}");
            assert_eq!(refusal(policy, 1), None, "{policy}: one core keeps every order");
        }
    }

    #[test]
    fn holding_is_refused_where_a_policy_takes_over_that_keeps_no_order() {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", "drr".parse().unwrap());
        config.flow_order = OrderChoice::Hold;
        config.swaps = vec![(Duration::ZERO, "fcfs".parse().unwrap())];
        assert!(check_order(&config, 2).unwrap_err().to_string().contains("`fcfs` serves packets in order of arrival"));
    }

    #[test]
    fn holding_is_refused_where_marks_move_flows_between_clients() {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", "drr".parse().unwrap());
        config.flow_order = OrderChoice::Hold;
        config.clients = Some(Granularity::Service);
        config.services = [("a", "l7-filter:service=http=1"), ("b", "forward")]
            .map(|(name, work)| ServiceChoice { name: name.into(), matches: None, work: work.parse().unwrap() })
            .into();
        let said = check_order(&config, 2).unwrap_err().to_string();
        assert!(said.contains("a mark moves a flow"), "{said}");
        config.clients = Some(Granularity::Flow);
        assert!(check_order(&config, 2).is_ok());
    }

    #[test]
    fn split_flows_need_the_exit() {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", "hrw".parse().unwrap());
        config.split = Some(humpyard_core::mechanism::Split::default());
        assert!(check_order(&config, 2).is_ok());
        for order in [OrderChoice::Hold, OrderChoice::Free] {
            config.flow_order = order;
            assert!(check_order(&config, 2).is_err(), "{order:?}");
        }
    }
}
