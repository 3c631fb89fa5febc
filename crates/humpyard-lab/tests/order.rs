//! Flows leave in the order in which they came, whatever the policy, unless that is asked otherwise.

use core::sync::atomic::AtomicBool;

use humpyard_core::policy::Family;
use humpyard_core::random::Seed;
use humpyard_lab::{Control, Host, Rate, RunConfig, RunResult, ServiceChoice, parse_order, run};
use humpyard_policies::registry::entries;

const CORES: usize = 4;
const PACKETS: u64 = 500;
const CLIENTS: [&str; 3] = ["flow", "service", "connection"];

/// A simulation of several services, whose packets take very different times, at nine tenths of what the cores can do.
fn simulated(policy: &str, order: &str, seed: u64) -> RunResult {
    let input = format!("gen:poisson:packets={PACKETS},flows=20,mix=services");
    let mut config = RunConfig::new(Host::Sim, &input, policy.parse().expect("a policy"));
    config.services = ServiceChoice::parse_list("tcp=encrypt,udp=forward,other=dpi").expect("services");
    config.costs = "table:measured".parse().expect("costs");
    config.cores = CORES;
    config.rate = Rate::Load { load: 0.9, of: None };
    config.clients = Some(CLIENTS[seed as usize % CLIENTS.len()].parse().expect("clients"));
    config.flow_order = parse_order(order).expect("an order of flows");
    config.seed = Seed(seed);
    run(&config, &mut Control::new(&AtomicBool::new(false), &mut |_, _| {})).expect("a run")
}

fn policies() -> impl Iterator<Item = &'static str> {
    entries().into_iter().filter(|entry| entry.info.family != Family::Estimate).map(|entry| entry.info.name)
}

#[test]
fn no_packet_misses_its_turn_below_a_load_of_one_under_any_policy() {
    let (mut waited, mut tried) = (0, 0);
    for policy in policies() {
        for seed in 0..10 {
            let result = simulated(policy, "exit", seed);
            let exit = result.exit.expect("the exit is in force");
            let what = format!("{policy}, seed {seed}: {exit:?}");
            assert_eq!(result.packets.processed, PACKETS, "{what}");
            assert_eq!((exit.missed_turn, exit.given_up, result.summary.order.out_of_order), (0, 0, 0), "{what}");
            assert_eq!(result.summary.order.promised, "exit");
            waited += exit.waited;
        }
        tried += 1;
    }
    assert!(tried >= 55 && waited > 1000, "{tried} policies, {waited} packets waited");
}

/// The bounds are those that were given, and a packet that leaves out of order is counted as beyond them.
#[test]
fn who_leaves_out_of_order_missed_its_turn_beyond_the_bounds() {
    let mut missed = 0;
    for policy in policies() {
        let result = simulated(policy, "exit:packets=1,time=2us", 1);
        let exit = result.exit.expect("the exit is in force");
        assert_eq!(result.packets.processed, PACKETS, "{policy}");
        assert_eq!(result.summary.order.out_of_order, exit.missed_turn, "{policy}: {exit:?}");
        missed += exit.missed_turn;
    }
    assert!(missed > 20, "{missed}");
}

#[test]
fn holding_keeps_order_where_it_is_not_refused_and_free_keeps_none() {
    for (order, policy) in [("hold", "drr"), ("hold", "hrw"), ("hold", "steer=conn/share=sfq"), ("hold", "everest/drr")]
    {
        let result = simulated(policy, order, 0);
        assert_eq!((result.summary.order.out_of_order, result.exit), (0, None), "{policy}");
        assert_eq!(result.summary.order.promised, order);
    }
    for policy in ["drr", "fcfs", "rr"] {
        let result = simulated(policy, "free", 1);
        assert!(result.summary.order.out_of_order > 0 && result.exit.is_none(), "{policy}");
        assert_eq!(result.summary.order.promised, "free");
    }
}
