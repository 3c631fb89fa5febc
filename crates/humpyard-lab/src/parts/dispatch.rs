//! How packets get to the workers of a live run: by dispatchers, or by the kernel, which gives each
//! worker the packets of its own connections by the table of the steering policy.

use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{CoreView, Steer, View};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_runtime::processors;
use humpyard_traffic::HashFields;
use humpyard_traffic::classify::Granularity;
use humpyard_traffic::tunnel::Tunnels;
use humpyard_wire::{BUCKETS, FannedOut, may_share};

use crate::LabError;
use crate::choice::host::{Clock, Host};
use crate::config::RunConfig;
use crate::option::Values;
use crate::parts::setup;

/// Steering policies that decide by a hash of the connection alone, so that a table by bucket decides
/// alike.
const BY_HASH: [&str; 2] = ["conn", "hrw"];

/// Nanoseconds that a dispatcher takes for a packet from one interface to another; most of them are the
/// kernel's. Measured: docs/speed/interfaces.md has 1,160 (`xdp:`) and 1,390 (`iface:`).
const DISPATCH_NS: f64 = 1_200.0;
/// Nanoseconds that handing a packet to a worker and taking it back adds: an estimate on the safe side.
/// 130 were measured, by `run --input gen:poisson:flows=1000 --rate line --policy drr` with
/// `--workers` 0 and 1.
const HAND_OVER_NS: f64 = 300.0;

/// Most dispatchers of a run.
const DISPATCHERS_MAX: usize = 1024;

/// Sets the dispatchers from `auto` or a number.
pub(crate) fn read(config: &mut RunConfig, given: Values<'_>) -> Result<(), LabError> {
    let number = || given.one().parse().ok().filter(|number| *number <= DISPATCHERS_MAX);
    config.dispatchers = if given.one() == "auto" {
        None
    } else {
        Some(number().ok_or_else(|| {
            LabError::option(format!("@dispatchers takes auto or 0 to {DISPATCHERS_MAX}, not `{}`", given.one()))
        })?)
    };
    Ok(())
}

/// Returns the number of dispatchers of a run. `None`: it is one, or left open.
pub(crate) fn show(config: &RunConfig) -> Option<String> {
    config.dispatchers.filter(|&dispatchers| dispatchers != 1).map(|dispatchers| dispatchers.to_string())
}

/// How a live run is dispatched, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DispatchChoice {
    /// Dispatchers; 0: workers need none.
    pub dispatchers: usize,
    /// Worker threads; 0: the dispatcher does their work.
    pub workers: usize,
    /// The reason, in words.
    pub why: String,
}

/// Chooses the dispatchers and workers of a live run, as far as the configuration leaves them open.
pub fn dispatching(config: &RunConfig) -> DispatchChoice {
    choose(config, processors().len().max(1), may_share())
}

/// Returns the configuration with the dispatchers and workers that were chosen.
pub(crate) fn settled(config: &RunConfig, chosen: &DispatchChoice) -> RunConfig {
    let &DispatchChoice { dispatchers, workers, .. } = chosen;
    RunConfig { dispatchers: Some(dispatchers), cores: workers, chooses_workers: false, ..config.clone() }
}

/// As [`dispatching`], on this number of processors. `may_share`: the process may load a BPF program.
fn choose(config: &RunConfig, processors: usize, may_share: bool) -> DispatchChoice {
    let why_one = match (config.dispatchers, why_not(config)) {
        (Some(0), _) => None,
        (Some(dispatchers), _) => Some((dispatchers, "as asked for".to_owned())),
        (None, Some(why)) => Some((1, why)),
        (None, None) if !may_share => {
            Some((1, "giving each worker its own connections needs CAP_BPF, which this program lacks".to_owned()))
        }
        (None, None) if processors < 2 => Some((1, "there is one processor".to_owned())),
        (None, None) if config.cores < 2 && !config.chooses_workers => Some((1, "there is one worker".to_owned())),
        (None, None) => None,
    };
    let Some((dispatchers, why)) = why_one else {
        let workers = if config.chooses_workers { processors } else { config.cores };
        let why = format!("{} decides by a hash, so each of {workers} workers has its own connections", config.policy);
        return DispatchChoice { dispatchers: 0, workers, why };
    };
    let is_open = config.chooses_workers && config.listens() && !config.policy.allocates() && dispatchers == 1;
    let Some(service_ns) = mean_service_ns(config).filter(|_| is_open) else {
        return DispatchChoice { dispatchers, workers: config.cores, why };
    };
    let workers = workers_for(service_ns, processors);
    let why = match workers {
        0 => format!(
            "{why}; the dispatcher serves packets itself, for {service_ns:.0} ns of service is less than handing over saves"
        ),
        _ => format!("{why}; {workers} workers keep up with the dispatcher at {service_ns:.0} ns of service a packet"),
    };
    DispatchChoice { dispatchers, workers, why }
}

/// Returns the mean time of services for a packet, in ns. `None`: the costs are not known.
fn mean_service_ns(config: &RunConfig) -> Option<f64> {
    let costs = setup::costs(config).ok()?;
    let all: f64 = costs.iter().map(|cost| cost.work(setup::TYPICAL_BYTES) as f64).sum();
    (!costs.is_empty()).then(|| all / costs.len() as f64)
}

/// Returns the number of workers with which one dispatcher forwards most packets a second. 0: the
/// dispatcher is as fast if it serves packets itself. Else there are as many as keep up with it; where
/// there are too few processors for that, one worker sits on the dispatcher's.
fn workers_for(service_ns: f64, processors: usize) -> usize {
    let served = HAND_OVER_NS + service_ns;
    let handed_over = DISPATCH_NS + HAND_OVER_NS;
    let alone = 1.0 / (DISPATCH_NS + service_ns);
    let all = (1.0 / handed_over).min(processors as f64 / (handed_over + service_ns));
    if processors < 2 || all < 1.1 * alone {
        return 0;
    }
    let needed = (served / handed_over).ceil() as usize;
    if needed < processors { needed } else { processors }
}

/// Returns why this run needs a dispatcher. `None`: it needs none.
pub(crate) fn why_not(config: &RunConfig) -> Option<String> {
    if config.host != Host::Live || config.clock == Clock::Virtual {
        return Some("a run by a virtual clock has no threads".to_owned());
    }
    let inputs = config.inputs();
    if let Some(input) = inputs.iter().find(|input| !input.starts_with("iface:")) {
        return Some(format!("the kernel gives workers the packets of iface: alone, and the input is {input}"));
    }
    if config.output != "null:" && !config.output.starts_with("iface:") {
        return Some(format!("{} takes one writer; iface: takes one for each worker", config.output));
    }
    why_one_sees_all(config)
}

/// Returns why policies or options need a dispatcher that sees all packets. `None`: they need none.
fn why_one_sees_all(config: &RunConfig) -> Option<String> {
    if config.policy.allocates() || !config.policy.steering().is_some_and(|name| BY_HASH.contains(&name)) {
        return Some(format!("{} needs a view of all cores; conn and hrw decide by a hash alone", config.policy));
    }
    let by_order = matches!(config.granularity(), Granularity::Flow | Granularity::Connection);
    let parts = [
        ("--timeline", config.timeline.is_some()),
        ("--swap", !config.swaps.is_empty()),
        ("--link", config.link.is_some()),
        ("--contexts", config.contexts > 1),
        ("--split", config.split.is_some()),
        ("--inner", config.tunnels != Tunnels::NONE),
        ("--hash addresses", config.hash == HashFields::Addresses),
        ("--weights", !config.weights.is_empty() && by_order),
        ("--topology", config.topology.is_some()),
    ];
    let used = parts.iter().find(|(_, is_used)| *is_used);
    used.map(|(option, _)| format!("{option} needs a dispatcher, which sees all packets"))
}

/// Rejects a run without dispatchers that needs one.
pub(crate) fn refuse(config: &RunConfig) -> Result<(), LabError> {
    if config.cores == 0 {
        let (threads, option) = if config.host == Host::Sim { ("cores", "@cores") } else { ("workers", "@workers") };
        return Err(LabError::option(format!("@dispatchers 0 needs {threads}: give {option} 1 or more")));
    }
    let why = if config.host == Host::Sim { why_one_sees_all(config) } else { why_not(config) };
    why.map_or(Ok(()), |why| Err(LabError::option(format!("@dispatchers 0: {why}; use @dispatchers 1"))))
}

/// Returns the worker of each bucket, for which the steering policy is asked with a key of the bucket: its
/// leading bits are the bucket, so that a policy that decides by as many buckets has the same.
pub(crate) fn fanned_out(config: &RunConfig) -> Result<FannedOut, LabError> {
    let workers = config.cores;
    let setup = setup::scheduler_config(config, workers, 1)?;
    let mut policy = config.policy.build_steer(&setup)?.expect("a policy that steers");
    let cores = IdVec::from_fn(workers, |_| CoreView::default());
    let eligible: Vec<CoreId> = (0..workers).map(CoreId::from_index).collect();
    let view = View { as_of: Time::ZERO, cores: &cores, eligible: &eligible };
    let mut keys = Seed(config.seed.0).stream("fan-out/buckets");
    let bits = BUCKETS.trailing_zeros();
    let table = (0..BUCKETS as u64).map(|bucket| {
        let key = bucket << (u64::BITS - bits) | keys.bits() >> bits;
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
        assert!(why(&config("rss++")).contains("rss++ needs a view of all cores"));
        assert!(why(&config("drr")).contains("conn and hrw"));
        assert!(why(&config("allocate=static/steer=hrw")).contains("all cores"));
        assert!(why(&RunConfig { input: "xdp:a".to_owned(), ..config("hrw") }).contains("iface:"));
        assert!(why(&RunConfig { output: "out.pcap".to_owned(), ..config("hrw") }).contains("out.pcap"));
        assert!(why(&RunConfig { contexts: 2, ..config("hrw") }).contains("--contexts"));
        assert!(why(&RunConfig { hash: HashFields::Addresses, ..config("hrw") }).contains("--hash addresses"));
        assert_eq!(why_not(&RunConfig { journal: Some("j".into()), ..config("hrw") }), None);
        assert!(why(&RunConfig { clock: Clock::Virtual, ..config("hrw") }).contains("threads"));
    }

    #[test]
    fn what_was_asked_for_is_kept() {
        let chosen = |config: &RunConfig| {
            let DispatchChoice { dispatchers, workers, .. } = choose(config, 8, true);
            (dispatchers, workers)
        };
        assert_eq!(chosen(&RunConfig { dispatchers: Some(3), ..config("hrw") }), (3, 4));
        assert_eq!(chosen(&config("hrw")), (0, 4));
        assert_eq!(chosen(&RunConfig { cores: 0, ..config("hrw") }), (1, 0));
        let open = |policy| RunConfig { chooses_workers: true, ..config(policy) };
        assert_eq!(chosen(&open("hrw")), (0, 8));
        assert_eq!(chosen(&open("drr")), (1, 0), "a packet that is passed on is not worth handing over");
        let mut slow = open("drr");
        slow.services = crate::ServiceChoice::parse_list("encrypt:cipher=cast-128").unwrap();
        assert_eq!(chosen(&slow), (1, 6));
        assert_eq!(choose(&slow, 2, true).workers, 2);
        assert_eq!(choose(&slow, 1, true).workers, 0);
        assert_eq!(choose(&open("hrw"), 8, false).dispatchers, 1);
        assert_eq!(chosen(&RunConfig { input: "gen:poisson".to_owned(), ..open("drr") }), (1, 4));
        let refused = |config: &RunConfig| refuse(config).unwrap_err().to_string();
        assert!(refused(&RunConfig { cores: 0, ..config("hrw") }).contains("workers 1"));
        assert!(refused(&config("drr")).contains("dispatchers 1"));
    }

    /// Each worker has its part of the buckets, within five standard deviations of a fair draw.
    #[test]
    fn the_table_is_the_policys() {
        for policy in ["conn", "hrw", "hrw:buckets=4096"] {
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
