//! A run of several dispatchers: each has the part of a configuration that is its own.

use humpyard_core::random::Seed;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_runtime::{Dispatching, Places, places_of_workers};
use humpyard_topology::TopologyChoice;
use humpyard_traffic::classify::Granularity;

use crate::LabError;
use crate::choice::host::{Clock, Host};
use crate::config::RunConfig;
use crate::journal::{JournalFiles, check_journal, journal_of};
use crate::parts::place::placed_apart;
use crate::parts::{dispatch, setup};

/// The dispatchers of a run, ready, and where their threads sit.
pub(crate) struct SeparateDispatchers {
    /// The part of the configuration that each dispatcher has.
    pub(crate) parts: Vec<RunConfig>,
    pub(crate) dispatchers: Vec<Dispatching<AnySteer, AnyShare, AnyAllocate>>,
    pub(crate) places: Places,
    /// By dispatcher: one more than the largest client number.
    pub(crate) clients: Vec<usize>,
    /// Their journals, where the run has any.
    pub(crate) journals: Option<JournalFiles>,
}

/// Whether packets go anywhere: what goes nowhere needs no writer.
pub(crate) fn writes(config: &RunConfig) -> bool {
    config.output != "null:"
}

/// Returns the part of the configuration that each dispatcher has of its own, as that of a run of one
/// dispatcher, and where the threads sit. In a simulation, threads sit nowhere and all cores are the same.
///
/// # Errors
/// If a part has no place.
pub(crate) fn parts(config: &RunConfig) -> Result<(Vec<RunConfig>, Places), LabError> {
    let alone = config.dispatchers == Some(0);
    let count = if alone { config.cores } else { config.dispatchers.unwrap_or(1) };
    let workers: Vec<usize> =
        (0..count).map(|number| if alone { 0 } else { part(config.cores, count, number) }).collect();
    let (places, topologies) = if alone || config.host == Host::Sim {
        (places_of_workers(count), vec![TopologyChoice::Flat; count])
    } else {
        placed_apart(config, &workers, writes(config))?
    };
    let part_of = |((number, workers), topology)| {
        let buffer = part(config.buffer, count, number).max(1);
        RunConfig {
            dispatchers: Some(1),
            cores: workers,
            // At least one packet, and as many flows more than packets as there are for one alone.
            buffer,
            flows: buffer + config.flows.saturating_sub(config.buffer).div_ceil(count),
            topology: Some(topology),
            seed: seed(config.seed, number),
            journal: config.journal.as_deref().map(|path| journal_of(path, number)),
            ..config.clone()
        }
    };
    Ok((workers.into_iter().enumerate().zip(topologies).map(part_of).collect(), places))
}

/// Makes the dispatchers of a run.
///
/// # Errors
/// Whatever one of them cannot be made for.
pub(crate) fn separate(config: &RunConfig) -> Result<SeparateDispatchers, LabError> {
    // As it was asked for: parts of it say other numbers.
    setup::check_flows(config)?;
    let (parts, places) = parts(config)?;
    let mut clients = Vec::with_capacity(parts.len());
    let mut dispatchers = Vec::with_capacity(parts.len());
    let mut journals = Vec::new();
    for (number, own) in parts.iter().enumerate() {
        if let Some(path) = &config.journal {
            check_journal(path, number, &[Some(&config.output), config.quarantine.as_ref()])?;
        }
        // All of one seed: what services share they know by the hashes of connections.
        let classifier = setup::classifier(&RunConfig { seed: config.seed, ..own.clone() })?;
        let workers = own.cores;
        let (measured, records) = setup::scheduler_config(own, workers.max(1), classifier.clients_max())
            .and_then(|setup| setup::measured(own, &setup))
            .map_err(|error| of_one(error, config, workers))?;
        clients.push(classifier.clients_max());
        let classifier = classifier.with_names(records.names());
        // One that has no worker is one itself.
        journals.extend(records.into_journal().map(|journal| (journal, workers.max(1))));
        dispatchers.push(Dispatching { measured, packets: own.buffer, workers, classifier, replacements: None });
    }
    let manifest = |path| JournalFiles::create(path, &config.policy, config.dispatchers.unwrap_or(1), journals);
    let journals = config.journal.as_deref().map(manifest).transpose()?;
    Ok(SeparateDispatchers { parts, dispatchers, places, clients, journals })
}

/// What keeps one of several dispatchers from being made may be that it has but a part of the workers.
pub(crate) fn of_one(error: LabError, config: &RunConfig, workers: usize) -> LabError {
    match (config.dispatchers, error) {
        (Some(dispatchers @ 2..), error @ (LabError::Policy(_) | LabError::Option(_))) => LabError::option(format!(
            "{error:#}; with @dispatchers {dispatchers} each has a part of the workers of its own, one of them {workers}: have \
             more of them, or one dispatcher"
        )),
        (_, other) => other,
    }
}

/// Returns the part of `all` that one of several gets: parts differ by one at most, and the first are larger.
const fn part(all: usize, several: usize, number: usize) -> usize {
    all / several + if number < all % several { 1 } else { 0 }
}

/// What a dispatcher draws from: the first from what a dispatcher alone would.
fn seed(seed: Seed, number: usize) -> Seed {
    if number == 0 { seed } else { Seed(seed.stream(&format!("dispatcher/{number}")).bits()) }
}

/// Refuses several dispatchers where there cannot be, and what there is for one alone.
pub(crate) fn refuse(config: &RunConfig) -> Result<(), LabError> {
    let (dispatchers, workers) = (config.dispatchers.unwrap_or(1), config.cores);
    let refuse = |why: String| Err(LabError::option(format!("@dispatchers {dispatchers} {why}")));
    let is_simulated = config.host == Host::Sim;
    if dispatchers != 1 && is_simulated && config.assumed.is_none() {
        let why = "needs a host with a dispatcher, and the ideal one has none: give @host, server-16 for example";
        return refuse(why.to_owned());
    }
    if dispatchers != 1 && is_simulated && !config.speeds.is_empty() {
        return refuse("does not go with @speeds: have one dispatcher".to_owned());
    }
    if dispatchers != 1 && is_simulated && has_quantum(config)? {
        return refuse(format!(
            "does not go with `{}`, which gives packets back after a quantum: that is simulated on the ideal host \
             alone, which has no dispatcher",
            config.policy
        ));
    }
    match dispatchers {
        0 => return dispatch::refuse(config),
        1 => return Ok(()),
        _ => {}
    }
    if !is_simulated && config.clock == Clock::Virtual {
        return refuse(
            "are threads, which a virtual clock has none of: leave out one of @dispatchers and @clock".to_owned(),
        );
    }
    if dispatchers > workers {
        let option = if is_simulated { "cores" } else { "workers" };
        return refuse(format!(
            "need a worker each, and there are @{option} {workers}: have {dispatchers} {option}, or fewer dispatchers"
        ));
    }
    let by_order = matches!(config.granularity(), Granularity::Flow | Granularity::Connection);
    for (option, is_used, instead) in [
        ("@timeline", config.timeline.is_some(), "record a run of one dispatcher"),
        ("@swap", !config.swaps.is_empty(), "have one dispatcher"),
        ("@link", config.link.is_some(), "one link has one sender, so have one dispatcher"),
        ("@contexts", config.contexts > 1, "have one dispatcher"),
        ("@topology in a simulation", is_simulated && config.topology.is_some(), "have one dispatcher"),
        (
            "@weights",
            !config.weights.is_empty() && by_order,
            "no dispatcher sees all clients in their order: weigh them by @rule, or take @clients service",
        ),
        (
            "@input nfqueue:NUMBER",
            config.has_queues(),
            "have one dispatcher for each queue, and let the kernel spread packets over queues (--queue-balance)",
        ),
    ] {
        if is_used {
            return refuse(format!("do not go with {option}: {instead}"));
        }
    }
    Ok(())
}

/// Whether the policy has cores give back packets after a quantum.
pub(crate) fn has_quantum(config: &RunConfig) -> Result<bool, LabError> {
    let setup = setup::scheduler_config(config, config.cores.max(1), 1)?;
    Ok(config.policy.build(&setup)?.quantum().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::assumed::AssumedHost;

    fn config(policy: &str, workers: usize, dispatchers: usize) -> RunConfig {
        let config = RunConfig::new(Host::Live, "gen:poisson", policy.parse().unwrap());
        RunConfig { cores: workers, dispatchers: Some(dispatchers), ..config }
    }

    #[test]
    fn nothing_is_left_over() {
        for all in 0..40 {
            for several in 1..9 {
                let parts: Vec<usize> = (0..several).map(|number| part(all, several, number)).collect();
                assert_eq!(parts.iter().sum::<usize>(), all);
                assert!(parts[0] - parts[several - 1] <= 1, "{parts:?}");
            }
        }
    }

    #[test]
    fn each_has_its_workers_packets_and_flows() {
        let mut config = config("steer=hrw/share=drr", 5, 3);
        (config.buffer, config.flows) = (100, 101);
        let apart = separate(&config).unwrap();
        let few = separate(&RunConfig { flows: 100, ..config.clone() }).err().unwrap().to_string();
        assert!(few.contains("flows (100) must be greater than buffer (100)"), "{few}");
        let of = |one: &Dispatching<_, _, _>| (one.workers, one.packets, one.classifier.flows().capacity());
        let all: Vec<_> = apart.dispatchers.iter().map(of).collect();
        assert_eq!(all, [(2, 34, 35), (2, 33, 34), (1, 33, 34)]);
        assert!(apart.dispatchers.iter().all(|one| one.measured.scheduler().cores() == one.workers));
        assert_eq!(apart.places.dispatchers.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2]);
        assert!(apart.places.writer.is_none());
    }

    #[test]
    fn each_draws_from_a_seed_of_its_own() {
        let seeds: Vec<Seed> = (0..4).map(|number| seed(Seed(7), number)).collect();
        assert_eq!(seeds[0], Seed(7));
        assert!((0..4).all(|at| seeds[..at].iter().all(|other| *other != seeds[at])), "{seeds:?}");
    }

    #[test]
    fn what_is_for_one_alone_is_refused() {
        let said = |config: &RunConfig| refuse(config).unwrap_err().to_string();
        assert!(refuse(&config("hrw", 0, 1)).is_ok() && refuse(&config("hrw", 2, 2)).is_ok());
        assert!(said(&config("hrw", 2, 0)).contains("the input is gen:poisson"));
        assert!(said(&config("hrw", 2, 3)).contains("workers 2: have 3 workers"));
        assert!(said(&config("hrw", 0, 2)).contains("workers 0"));
        let by_virtual_clock = RunConfig { clock: Clock::Virtual, ..config("hrw", 2, 2) };
        assert!(said(&by_virtual_clock).contains("clock"));
        let weighed = RunConfig { weights: vec![humpyard_core::unit::Weight::ONE], ..config("drr", 2, 2) };
        assert!(said(&weighed).contains("weights"));
        assert!(refuse(&RunConfig { clients: Some(Granularity::Service), ..weighed }).is_ok());
        let queued = RunConfig { input: "nfqueue:3".to_owned(), ..config("hrw", 2, 2) };
        assert!(said(&queued).contains("--queue-balance"));
        let mut services = config("static", 4, 2);
        services.services = crate::ServiceChoice::parse_list("tcp=forward,udp=forward,other=forward").unwrap();
        let told = separate(&services).err().unwrap().to_string();
        assert!(told.contains("dispatchers 2") && told.contains("3 services need at least 3 cores"), "{told}");
    }

    #[test]
    fn a_simulation_of_several_dispatchers_needs_their_host() {
        let said = |config: &RunConfig| refuse(config).unwrap_err().to_string();
        let ideal =
            |policy, workers, dispatchers| RunConfig { host: Host::Sim, ..config(policy, workers, dispatchers) };
        for dispatchers in [0, 2] {
            assert!(said(&ideal("hrw", 4, dispatchers)).contains("give host"), "{dispatchers}");
        }
        let assumed = AssumedHost::find("server-16").unwrap();
        let on_host = |policy, workers, dispatchers| RunConfig {
            assumed: assumed.clone(),
            ..ideal(policy, workers, dispatchers)
        };
        assert!(refuse(&on_host("drr", 4, 2)).is_ok() && refuse(&on_host("hrw", 4, 0)).is_ok());
        assert!(said(&on_host("hrw", 2, 3)).contains("cores 2: have 3 cores"));
        assert!(said(&on_host("drr", 4, 0)).contains("drr needs a view of all cores"));
        assert!(said(&on_host("hrw", 0, 0)).contains("give cores 1 or more"));
        let flat = RunConfig { topology: Some(TopologyChoice::Flat), ..on_host("hrw", 4, 2) };
        assert!(said(&flat).contains("topology in a simulation"));
        for dispatchers in [0, 2] {
            let slow = RunConfig { speeds: vec![250], ..on_host("hrw", 4, dispatchers) };
            assert!(said(&slow).contains("speeds"), "{dispatchers}");
            let quantum = said(&on_host("shinjuku", 4, dispatchers));
            assert!(quantum.contains("with `shinjuku`") && !quantum.contains("use"), "{quantum}");
        }
    }
}
