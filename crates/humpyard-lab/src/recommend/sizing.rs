//! How many cores keep a goal, at the traffic and at more of it.

use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::processors;
use serde::Serialize;

use super::evidence::{CORES_MAX, TIMES_CORES, is_possible};
use super::goal::Goal;
use super::search::SEEDS;
use super::trials::{Part, Progress, Trial, Trials};
use crate::LabError;
use crate::choice::assumed::{AssumedHost, HERE};
use crate::config::RunConfig;
use crate::figures::counted;

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
    /// Command that simulates these cores under the first seed. `None`: `cores` is unknown, or the
    /// policy or the input cannot be given on the command line.
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

    /// Returns what the numbers mean and rest on, in words.
    pub fn about(&self) -> String {
        let (block, short) = match self.blocks {
            0 => (String::new(), " (the input is too short to hold blocks out)"),
            blocks => (format!(" or one of {blocks} held-out blocks"), ""),
        };
        let doubts = self.sizes.iter().filter_map(|one| one.not_sure.as_deref()).next();
        let doubt = doubts.map_or_else(String::new, |why| format!(". `?` is not sure: {why}"));
        format!(
            "the fewest cores that keep the goal under all {} seeds; in brackets, the fewest and the most that a seed\
             {block} needs{short}. This is {}{doubt}",
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
            let of_samples: Vec<Option<usize>> = needed.iter().map(|sizes| sizes[at]).collect();
            let cores = greatest(&of_samples[..SEEDS as usize]);
            sizes.push(CoreCount {
                policy: policy.to_string(),
                multiplier,
                cores,
                least: of_samples.iter().flatten().min().copied(),
                most: greatest(&of_samples),
                not_sure: doubt(config, here, greatest(&of_samples).unwrap_or(most_tried)),
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
) -> Result<Vec<Option<usize>>, LabError> {
    let mut guess = trials.config.cores;
    let mut found = Vec::with_capacity(SIZES.len());
    for (at, times) in SIZES.into_iter().enumerate() {
        let cores = fewest(guess.clamp(1, most), most, |cores| {
            if !is_possible(trials, cores) {
                return Ok(false);
            }
            let (part, seed) = match sample {
                Sample::Seed(seed) => (Part::Whole, seed),
                Sample::Block(block) => (Part::HeldOut(block), block as u64),
            };
            let trial = Trial { times, cores, seed, ..Trial::new(policy, part, trials.config) };
            Ok(goal.holds(&trials.run_one(&trial)?))
        })?;
        let growth = SIZES.get(at + 1).map_or(1.0, |next| next / times);
        guess = (cores.unwrap_or(most) as f64 * growth).round() as usize;
        found.push(cores);
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
        (Some(_), Some(2..)) => Some("several dispatchers were never held against live runs".to_owned()),
        (Some(_), _) if cores > here => Some(format!("this machine has {}", counted(here as u64, "processor"))),
        (Some(_), _) => None,
    }
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
    fn numbers_have_their_intervals() {
        let count = |cores, least, most, not_sure: Option<&str>| CoreCount {
            policy: "drr".to_owned(),
            multiplier: 1.0,
            cores,
            least,
            most,
            not_sure: not_sure.map(str::to_owned),
            command: None,
        };
        assert_eq!(count(Some(7), Some(6), Some(8), None).shown(64), "7 (6-8)");
        assert_eq!(count(Some(7), Some(7), Some(7), Some("why")).shown(64), "7?");
        assert_eq!(count(None, Some(60), None, None).shown(64), "over 64 (60-)");
        assert_eq!(count(None, None, None, None).shown(64), "over 64");
    }

    #[test]
    fn the_greatest_is_known_if_all_are() {
        assert_eq!(greatest(&[Some(2), Some(5), Some(3)]), Some(5));
        assert_eq!(greatest(&[Some(2), None]), None);
    }
}
