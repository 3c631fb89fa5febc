//! What a run does unless told otherwise.

use core::time::Duration;

use humpyard_core::mechanism::Limits;
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::WorkUnit;
use humpyard_policies::spec::PolicySpec;
use humpyard_traffic::{HashFields, Tunnels};

use crate::choice::host::{Clock, Host};
use crate::choice::order::OrderChoice;
use crate::choice::rate::Rate;
use crate::choice::service::ServiceChoice;
use crate::config::RunConfig;
use crate::costs::Costs;

/// Most packets held at once, unless told otherwise.
pub(crate) const BUFFER: usize = 4096;
/// Most flows known at once, unless told otherwise.
const FLOWS: usize = 65_536;
/// Packets in flight per worker, unless told otherwise: enough to keep a worker busy, few enough for the policy to matter.
pub(crate) const IN_FLIGHT: u32 = 32;

impl RunConfig {
    /// Returns the defaults, for this driver, input and policy.
    pub fn new(host: Host, input: &str, policy: PolicySpec) -> Self {
        Self {
            host,
            input: input.to_owned(),
            table: None,
            more_inputs: Vec::new(),
            output: "null:".to_owned(),
            both_ways: false,
            drop_privileges: false,
            quarantine: None,
            policy,
            cores: 2,
            chooses_workers: false,
            dispatchers: None,
            topology: None,
            contexts: 1,
            services_per_core: 1,
            speeds: Vec::new(),
            stall: Duration::ZERO,
            chains: Vec::new(),
            split: None,
            link: None,
            counters: false,
            swaps: Vec::new(),
            journal: None,
            timeline: None,
            services: vec![ServiceChoice::forward()],
            rules: Vec::new(),
            local: Vec::new(),
            costs: Costs::default(),
            clock: Clock::Real,
            rate: if host == Host::Live { Rate::Line } else { Rate::Trace },
            rounds: 1,
            packets: None,
            longest: None,
            warm_up: Duration::ZERO,
            tolerances: Vec::new(),
            switch_costs: Vec::new(),
            guarantees: Vec::new(),
            clients: None,
            weights: Vec::new(),
            unit: WorkUnit::Nanoseconds,
            flow_order: OrderChoice::default(),
            buffer: BUFFER,
            limits: Limits::default(),
            flows: FLOWS,
            flow_timeout: None,
            tunnels: Tunnels::NONE,
            hash: HashFields::default(),
            in_flight: IN_FLIGHT,
            hand_over: None,
            switch_out: None,
            assumed: None,
            interrupted: false,
            overload: None,
            ties: Ties::Lowest,
            seed: Seed(1),
            own_policies: Vec::new(),
        }
    }
}
