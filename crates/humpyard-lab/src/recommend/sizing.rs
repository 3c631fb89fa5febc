//! How many cores keep a goal, at the traffic and at more of it.

use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::processors;
use serde::Serialize;

use super::evidence::{CORES_MAX, TIMES_CORES, is_possible};
use super::goal::Goal;
use super::search::SEEDS;
use super::trials::{Part, Progress, Trial, Trials};
use super::words::{brings_packets, remedy_in_recommend};
use crate::LabError;
use crate::choice::assumed::{AssumedHost, HERE};
use crate::config::RunConfig;
use crate::figures::{counted, percent};

/// Multiples of the traffic for which cores are counted.
pub const SIZES: [f64; 4] = [1.0, 1.5, 2.0, 3.0];

/// The fewest cores that keep a goal, by policy and traffic.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sizing {
    /// Numbers of cores, by policy, the best first, and then by multiple of the traffic.
    pub sizes: Vec<CoreCount>,
    /// Number of seeds under which the whole input was simulated.
    pub seeds: u64,
    /// Number of blocks held out of the search, each of which was simulated by itself. 0: the input
    /// is too short.
    pub blocks: usize,
    /// The most cores that were tried.
    pub most_tried: usize,
    /// The basis of the numbers, in words: the simulated host, and whether live runs have checked
    /// it.
    pub rests_on: String,
}

/// The fewest cores with which a policy keeps a goal at a multiple of the traffic.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreCount {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Multiple of the requested traffic. 2: the same packets at twice the rate.
    pub multiplier: f64,
    /// The fewest cores that keep the goal on the whole input under every seed. `None`:
    /// `most_tried` cores are too few.
    pub cores: Option<usize>,
    /// The fewest cores that keep the goal under the easiest seed or block. `None`: `most_tried`
    /// cores are too few for all of them.
    pub least: Option<usize>,
    /// The fewest cores that keep the goal under the hardest seed or block. `None`: `most_tried`
    /// cores are too few for one of them.
    pub most: Option<usize>,
    /// Why a live run may need another number of cores. `None`: no reason is known; see `rests_on`.
    pub not_sure: Option<String>,
    /// Why more cores do not help, in words: a dispatcher, or the reader of several, has no time left. `None`: they may
    /// help, or `cores` is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Command that simulates these cores under the first seed. `None`: `cores` is unknown, or the
    /// policy or the input cannot be given on the command line, or the host has too few processors for the cores and
    /// several dispatchers: then a larger one was simulated.
    pub command: Option<String>,
}

impl CoreCount {
    /// Returns the number with its interval, and a question mark where nobody is sure: `7 (6-8)?`.
    pub fn shown(&self, most_tried: usize) -> String {
        let range = match (self.least, self.most) {
            (least, most) if least == most => String::new(),
            (Some(least), Some(most)) => format!(" ({least}-{most})"),
            (Some(least), None) => format!(" ({least}-)"),
            (None, _) => String::new(),
        };
        let cores = self.cores.map_or_else(|| format!("over {most_tried}"), |cores| cores.to_string());
        format!("{cores}{range}{}", if self.not_sure.is_some() { "?" } else { "" })
    }
}

impl Sizing {
    /// Returns a number of cores as people read it.
    pub(super) fn cores(&self, cores: Option<usize>) -> String {
        cores.map_or_else(|| format!("over {}", self.most_tried), |cores| cores.to_string())
    }

    /// Returns why more cores do not help, if that is the reason wherever the number is not known.
    fn limit(&self) -> Option<&str> {
        let mut unknown = self.sizes.iter().filter(|size| size.cores.is_none()).map(|size| size.limit.as_deref());
        let first = unknown.next()?;
        first.filter(|_| unknown.all(|limit| limit.is_some()))
    }

    /// Returns what the numbers mean and rest on, in words.
    pub fn about(&self) -> String {
        let (block, short) = match self.blocks {
            0 => (String::new(), " (the input is too short to hold blocks out)"),
            blocks => (format!(" or one of {blocks} held-out blocks"), ""),
        };
        let doubts = self.sizes.iter().filter_map(|one| one.not_sure.as_deref()).next();
        let doubt = doubts.map_or_else(String::new, |why| format!(". `?` is not sure: {why}"));
        let limit = self.limit().map_or_else(String::new, |why| format!(". `over {}`: {why}", self.most_tried));
        format!(
            "the fewest cores that keep the goal under all {} seeds; in brackets, the fewest and the most that a seed\
             {block} needs{short}{limit}. This is {}{doubt}",
            self.seeds, self.rests_on
        )
    }
}

/// Packets that a number of cores is found for.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sample {
    /// All of the input, under this seed.
    Seed(u64),
    /// A block that was held out, under a seed of its own.
    Block(usize),
}

/// What a sample needs at one multiple of the traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Needed {
    /// The fewest cores that keep the goal. `None`: the most that were tried are too few.
    cores: Option<usize>,
    /// With the most cores that were tried, fraction of the time during which the dispatcher or the reader worked.
    /// `None`: it had time left, or the goal was kept.
    full: Option<f64>,
}

/// Finds the fewest cores that keep a goal under these policies.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn sizing(
    trials: &Trials<'_>,
    goal: &Goal,
    policies: &[&PolicySpec],
    progress: Progress<'_>,
) -> Result<Sizing, LabError> {
    let blocks = trials.division.held_out().len();
    let samples: Vec<Sample> = (0..SEEDS).map(Sample::Seed).chain((0..blocks).map(Sample::Block)).collect();
    let most_tried = (trials.config.cores * TIMES_CORES).min(CORES_MAX);
    let asked: Vec<(&PolicySpec, Sample)> =
        policies.iter().flat_map(|policy| samples.iter().map(move |&sample| (*policy, sample))).collect();
    let needed = trials.each(&asked, "how many cores", progress, |&(policy, sample)| {
        needed(trials, goal, policy, sample, most_tried)
    })?;
    let (config, here) = (trials.config, processors().len().max(1));
    let host = config.assumed.as_ref();
    let mut sizes = Vec::with_capacity(policies.len() * SIZES.len());
    for (policy, needed) in policies.iter().zip(needed.chunks(samples.len())) {
        for (at, multiplier) in SIZES.into_iter().enumerate() {
            let of_samples: Vec<Option<usize>> = needed.iter().map(|sizes| sizes[at].cores).collect();
            let cores = greatest(&of_samples[..SEEDS as usize]);
            let full = needed[..SEEDS as usize].iter().filter_map(|sizes| sizes[at].full).reduce(f64::max);
            sizes.push(CoreCount {
                policy: policy.to_string(),
                multiplier,
                cores,
                least: of_samples.iter().flatten().min().copied(),
                most: greatest(&of_samples),
                not_sure: doubt(config, here, greatest(&of_samples).unwrap_or(most_tried)),
                limit: full.filter(|_| cores.is_none()).map(|busy| limit(config, busy, most_tried)),
                command: None,
            });
        }
    }
    Ok(Sizing { sizes, seeds: SEEDS, blocks, most_tried, rests_on: rests_on(host, here) })
}

/// Returns the greatest number. `None`: one of them is not known.
fn greatest(cores: &[Option<usize>]) -> Option<usize> {
    cores.iter().copied().try_fold(0, |most, cores| Some(most.max(cores?)))
}

/// Returns the fewest cores that a sample needs at each multiple of the traffic.
fn needed(
    trials: &Trials<'_>,
    goal: &Goal,
    policy: &PolicySpec,
    sample: Sample,
    most: usize,
) -> Result<Vec<Needed>, LabError> {
    let mut guess = trials.config.cores;
    let mut found = Vec::with_capacity(SIZES.len());
    for (at, times) in SIZES.into_iter().enumerate() {
        let mut full = None;
        let cores = fewest(guess.clamp(1, most), most, |cores| {
            if !is_possible(trials, cores) {
                return Ok(false);
            }
            let (part, seed) = match sample {
                Sample::Seed(seed) => (Part::Whole, seed),
                Sample::Block(block) => (Part::HeldOut(block), block as u64),
            };
            let trial = Trial { times, cores, seed, ..Trial::new(policy, part, trials.config) };
            let figures = trials.run_one(&trial)?;
            let holds = goal.holds(&figures);
            if cores == most && !holds {
                full = figures.full_dispatcher();
            }
            Ok(holds)
        })?;
        let growth = SIZES.get(at + 1).map_or(1.0, |next| next / times);
        guess = (cores.unwrap_or(most) as f64 * growth).round() as usize;
        found.push(Needed { cores, full });
    }
    Ok(found)
}

/// Finds the fewest cores, up to `most`, that are enough, from a guess on: by steps that double, then by halving. If more
/// cores do not always do what fewer do, it is a number of which one less is not enough. `None`: `most` are not enough.
pub(super) fn fewest(
    guess: usize,
    most: usize,
    mut is_enough: impl FnMut(usize) -> Result<bool, LabError>,
) -> Result<Option<usize>, LabError> {
    let (mut without, mut enough) = (0, None);
    let (mut cores, mut step) = (guess, 1);
    while enough.is_none_or(|enough| cores > without && cores < enough) {
        let is_down = if is_enough(cores)? {
            enough = Some(cores);
            true
        } else {
            without = cores;
            false
        };
        match (is_down, enough) {
            // Looked for below from the first that is enough on, until one is not.
            (true, _) if without == 0 => cores = if step < cores { cores - step } else { cores / 2 },
            (_, None) if without == most => return Ok(None),
            (_, None) => cores = (cores + step).min(most),
            (_, Some(enough)) => cores = without + (enough - without) / 2,
        }
        step *= 2;
    }
    Ok(enough)
}

/// Returns why a run of this configuration on this many cores is beyond what was validated. `here` is the number of
/// this machine's processors.
pub(super) fn doubt(config: &RunConfig, here: usize, cores: usize) -> Option<String> {
    match (&config.assumed, config.dispatchers) {
        (None, _) => None,
        (Some(host), _) if host.name != HERE => Some(format!("the host `{host}` was never held against live runs")),
        (Some(_), Some(0)) => Some("cores without a dispatcher were never held against live runs".to_owned()),
        (Some(_), Some(2..)) => Some(
            "where the threads of several dispatchers share two processors, predictions missed live runs; with a \
             processor for each they were never held against live runs"
                .to_owned(),
        ),
        (Some(_), _) if cores > here => Some(format!("this machine has {}", counted(here as u64, "processor"))),
        (Some(_), _) => None,
    }
}

/// Says that the threads that bring packets are busy for this part of the time, whatever cores there are.
fn limit(config: &RunConfig, busy: f64, most_tried: usize) -> String {
    let dispatchers = config.dispatchers.unwrap_or(1);
    format!(
        "with {most_tried} cores {} busy {} of the time, so more cores do not help; {}",
        brings_packets(dispatchers),
        percent(busy),
        remedy_in_recommend(dispatchers)
    )
}

/// Returns what these numbers rest on.
fn rests_on(host: Option<&AssumedHost>, here: usize) -> String {
    match host {
        None => {
            "the papers' machine (--host ideal): nothing but the services takes time, so a real machine needs more \
                 cores"
                .to_owned()
        }
        Some(host) if host.name == HERE => format!(
            "this machine of {} as it was measured; no live run has checked the numbers: `humpyard validate` does",
            counted(here as u64, "processor")
        ),
        Some(host) => format!("the host `{host}` ({}), which was never held against live runs", host.source),
    }
}

#[cfg(test)]
mod tests {
    use super::super::trials::larger_host;
    use super::*;
    use crate::choice::host::Host;
    use crate::costs::MachineCosts;

    #[test]
    fn the_fewest_cores_are_found_from_any_guess() {
        for needed in 1..=40 {
            for guess in 1..=40 {
                let mut tried = Vec::new();
                let found = fewest(guess, 40, |cores| {
                    tried.push(cores);
                    Ok(cores >= needed)
                });
                assert_eq!(found.expect("no failure"), Some(needed), "from {guess}: {tried:?}");
                assert!(tried.len() <= 12, "{needed} from {guess}: {tried:?}");
            }
        }
        assert_eq!(fewest(3, 40, |_| Ok(false)).expect("no failure"), None);
        assert!(fewest(3, 40, |_| Err(LabError::option("no"))).is_err());
    }

    #[test]
    fn numbers_beyond_what_was_validated_are_not_sure() {
        let host = |name: &str| AssumedHost {
            name: name.to_owned(),
            source: "a table".to_owned(),
            draw: 0,
            machine: MachineCosts::default(),
        };
        let on = |host: Option<AssumedHost>, dispatchers| {
            let config = RunConfig::new(Host::Sim, "gen:poisson", "hrw".parse().expect("a policy"));
            RunConfig { assumed: host, dispatchers, ..config }
        };
        assert_eq!(doubt(&on(None, None), 2, 64), None);
        assert_eq!(doubt(&on(Some(host(HERE)), Some(1)), 2, 2), None);
        assert_eq!(doubt(&on(Some(host(HERE)), None), 2, 3).as_deref(), Some("this machine has 2 processors"));
        for (host, dispatchers) in [(host("server-16"), None), (host(HERE), Some(0)), (host(HERE), Some(2))] {
            let why = doubt(&on(Some(host), dispatchers), 2, 1);
            assert!(why.is_some_and(|why| why.contains("never held against live runs")), "{dispatchers:?}");
        }
        assert!(rests_on(None, 2).starts_with("the papers' machine"));
        assert!(rests_on(Some(&host("server-16")), 2).contains("a table"));
    }

    #[test]
    fn a_larger_box_has_a_processor_for_each_thread() {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", "hrw".parse().expect("a policy"));
        config.assumed = AssumedHost::find("server-16").expect("a host");
        (config.cores, config.dispatchers) = (4, Some(2));
        assert_eq!([13, 14, 16, 17].map(|cores| larger_host(&config, cores)), [None, Some(17), Some(19), None]);
        // What was asked for is simulated as it is.
        config.cores = 14;
        assert_eq!(larger_host(&config, 14), None);
        // The host is too small for what was asked for, and so it is for fewer cores.
        config.cores = 20;
        assert_eq!([16, 14, 13].map(|cores| larger_host(&config, cores)), [Some(19), Some(17), None]);
        (config.cores, config.dispatchers) = (4, None);
        assert_eq!(larger_host(&config, 16), None);
    }

    #[test]
    fn numbers_have_their_intervals() {
        let count = |cores, least, most, not_sure: Option<&str>| CoreCount {
            policy: "drr".to_owned(),
            multiplier: 1.0,
            cores,
            least,
            most,
            not_sure: not_sure.map(str::to_owned),
            limit: None,
            command: None,
        };
        assert_eq!(count(Some(7), Some(6), Some(8), None).shown(64), "7 (6-8)");
        assert_eq!(count(Some(7), Some(7), Some(7), Some("why")).shown(64), "7?");
        assert_eq!(count(None, Some(60), None, None).shown(64), "over 64 (60-)");
        assert_eq!(count(None, None, None, None).shown(64), "over 64");
    }

    #[test]
    fn a_limit_is_told_if_it_is_that_of_all() {
        let size = |cores, limit: Option<&str>| CoreCount {
            policy: "drr".to_owned(),
            multiplier: 1.0,
            cores,
            least: cores,
            most: cores,
            not_sure: None,
            limit: limit.map(str::to_owned),
            command: None,
        };
        let says = |sizes: Vec<CoreCount>| {
            let sizing = Sizing { sizes, seeds: 3, blocks: 0, most_tried: 16, rests_on: "a table".to_owned() };
            sizing.about().contains("`over 16`: it is full")
        };
        let full = || size(None, Some("it is full"));
        assert!(says(vec![size(Some(2), None), full(), full()]));
        assert!(!says(vec![full(), size(None, None)]) && !says(vec![size(Some(2), None)]));
    }

    #[test]
    fn the_greatest_is_known_if_all_are() {
        assert_eq!(greatest(&[Some(2), Some(5), Some(3)]), Some(5));
        assert_eq!(greatest(&[Some(2), None]), None);
    }
}
