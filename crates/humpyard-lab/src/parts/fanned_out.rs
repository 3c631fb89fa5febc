//! A live run without a dispatcher: each worker reads, serves and writes the packets of its own connections, and the kernel
//! gives it these by the table of the steering policy.

use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{CoreView, Steer, View};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_runtime::processors;
use humpyard_traffic::classify::Granularity;
use humpyard_traffic::tunnel::Tunnels;
use humpyard_wire::{BUCKETS, FannedOut};

use crate::LabError;
use crate::choice::host::{Clock, Host};
use crate::config::RunConfig;
use crate::parts::setup;

/// The steering policies that decide by a hash of the connection alone, so that a table by bucket says what they say.
const BY_HASH: [&str; 2] = ["conn", "hrw"];

/// How a live run is dispatched, and why so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dispatching {
    /// Dispatchers; 0: workers need none.
    pub dispatchers: usize,
    /// In words, for who starts the run.
    pub why: String,
}

/// Chooses how a live run is dispatched where that is left open. `reloads`: whether the run may be told of another
/// configuration, which a dispatcher takes up.
pub fn dispatching(config: &RunConfig, reloads: bool) -> Dispatching {
    if let Some(dispatchers) = config.dispatchers {
        return Dispatching { dispatchers, why: "as asked for".to_owned() };
    }
    match why_not(config) {
        Some(why) => Dispatching { dispatchers: 1, why },
        None if config.cores < 2 => Dispatching { dispatchers: 1, why: "there is nothing to share".to_owned() },
        None if reloads => Dispatching {
            dispatchers: 1,
            why: "a run with --config takes up another one, for which it has one".to_owned(),
        },
        None if processors().len() < 2 => Dispatching { dispatchers: 1, why: "there is one processor".to_owned() },
        None => Dispatching {
            dispatchers: 0,
            why: format!(
                "{} decides by a hash, so {} workers each read, serve and write the packets of their own connections",
                config.policy, config.cores
            ),
        },
    }
}

/// Why this run needs a dispatcher; none if workers can do without.
pub(crate) fn why_not(config: &RunConfig) -> Option<String> {
    if config.host != Host::Live || config.clock == Clock::Virtual {
        return Some("the run has no threads".to_owned());
    }
    let inputs = config.inputs();
    if let Some(input) = inputs.iter().find(|input| !input.starts_with("iface:")) {
        return Some(format!("packets come by {input}, and the kernel shares among workers those of iface:"));
    }
    if config.output != "null:" && !config.output.starts_with("iface:") {
        return Some(format!("packets go to {}, which has one writer: iface: has one for each worker", config.output));
    }
    if config.policy.allocates() || !config.policy.steering().is_some_and(|name| BY_HASH.contains(&name)) {
        return Some(format!("{} looks at all cores: conn and hrw decide by a hash alone", config.policy));
    }
    let by_order = matches!(config.granularity(), Granularity::Flow | Granularity::Connection);
    let parts = [
        ("--journal", config.journal.is_some()),
        ("--timeline", config.timeline.is_some()),
        ("--swap", !config.swaps.is_empty()),
        ("--link", config.link.is_some()),
        ("--contexts", config.contexts > 1),
        ("--split", config.split.is_some()),
        ("--inner", config.tunnels != Tunnels::NONE),
        ("--weights", !config.weights.is_empty() && by_order),
        ("--topology", config.topology.is_some()),
    ];
    let used = parts.iter().find(|(_, is_used)| *is_used);
    used.map(|(option, _)| format!("{option} needs one that sees all packets"))
}

/// Refuses a run without dispatchers where there cannot be one.
pub(crate) fn refuse(config: &RunConfig) -> Result<(), LabError> {
    if config.cores == 0 {
        return Err(LabError::option(
            "@dispatchers 0 is for workers, of which there are none: have @workers 1 or more",
        ));
    }
    why_not(config).map_or(Ok(()), |why| Err(LabError::option(format!("@dispatchers 0: {why}; have @dispatchers 1"))))
}

/// Which worker has which packets, as the steering policy has it: it is asked for a key of each bucket.
pub(crate) fn fanned_out(config: &RunConfig) -> Result<FannedOut, LabError> {
    let workers = config.cores;
    let setup = setup::scheduler_config(config, workers, 1)?;
    let mut policy = config.policy.build_steer(&setup)?.expect("a policy that steers");
    let cores = IdVec::from_fn(workers, |_| CoreView::default());
    let eligible: Vec<CoreId> = (0..workers).map(CoreId::from_index).collect();
    let view = View { as_of: Time::ZERO, cores: &cores, eligible: &eligible };
    let mut keys = Seed(config.seed.0).stream("fan-out/buckets");
    let table = (0..BUCKETS).map(|_| {
        let key = keys.bits();
        let packet = Packet { key, rss: (key >> 32) as u32, ..Packet::default() };
        let target = policy.steer(Time::ZERO, &packet, &view).core();
        target.map_or(0, |core| core.0)
    });
    Ok(FannedOut { table: table.collect(), workers, seed: config.seed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(policy: &str) -> RunConfig {
        let config = RunConfig::new(Host::Live, "iface:a", policy.parse().unwrap());
        RunConfig { cores: 4, dispatchers: None, output: "iface:b".to_owned(), ..config }
    }

    #[test]
    fn hash_policies_between_interfaces_need_no_dispatcher() {
        for policy in ["conn", "hrw", "steer=hrw/share=drr"] {
            assert_eq!(why_not(&config(policy)), None, "{policy}");
        }
        assert_eq!(why_not(&RunConfig { output: "null:".to_owned(), ..config("hrw") }), None);
        let why = |config: &RunConfig| why_not(config).unwrap();
        assert!(why(&config("rss++")).contains("rss++ looks at all cores"));
        assert!(why(&config("drr")).contains("conn and hrw"));
        assert!(why(&config("allocate=static/steer=hrw")).contains("all cores"));
        assert!(why(&RunConfig { input: "xdp:a".to_owned(), ..config("hrw") }).contains("iface:"));
        assert!(why(&RunConfig { output: "out.pcap".to_owned(), ..config("hrw") }).contains("out.pcap"));
        assert!(why(&RunConfig { journal: Some("j".into()), ..config("hrw") }).contains("--journal"));
        assert!(why(&RunConfig { clock: Clock::Virtual, ..config("hrw") }).contains("threads"));
    }

    #[test]
    fn what_was_asked_for_is_kept() {
        let asked = RunConfig { dispatchers: Some(3), ..config("hrw") };
        assert_eq!(dispatching(&asked, false).dispatchers, 3);
        assert_eq!(dispatching(&config("hrw"), true).dispatchers, 1);
        assert_eq!(dispatching(&RunConfig { cores: 0, ..config("hrw") }, false).dispatchers, 1);
        assert!(refuse(&RunConfig { cores: 0, ..config("hrw") }).unwrap_err().to_string().contains("workers 1"));
        assert!(refuse(&config("drr")).unwrap_err().to_string().contains("dispatchers 1"));
    }

    /// Each worker has its part of the buckets, within five standard deviations of a fair draw.
    #[test]
    fn the_table_is_the_policys() {
        for policy in ["conn", "hrw"] {
            let FannedOut { table, workers, .. } = fanned_out(&config(policy)).unwrap();
            assert_eq!((table.len(), workers), (BUCKETS, 4));
            for worker in 0..4 {
                let count = table.iter().filter(|&&other| other == worker).count() as f64;
                let mean = BUCKETS as f64 / 4.0;
                assert!((count - mean).abs() < 5.0 * (mean * 0.75).sqrt(), "{policy} {worker}: {count}");
            }
        }
    }
}
