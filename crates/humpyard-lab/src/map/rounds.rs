//! Rounds of successive halving: each is one sweep of a class on this many cores of a host, with more packets and fewer
//! policies than the one before.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use humpyard_policies::spec::PolicySpec;
use humpyard_traffic::capture::PartialFile;
use serde::{Deserialize, Serialize};

use super::classes::{MapPoint, TrafficClass};
use super::front::{LOSS, P99, REORDERING, Scores, front, medians, scores, survivors};
use super::traffic::{Features, TrafficFigures};
use crate::LabError;
use crate::choice::assumed::IDEAL;
use crate::config::RunConfig;
use crate::control::Control;
use crate::recommend::Skipped;
use crate::run::simulate_anywhere;
use crate::sweep::{Plan, Progress, Swept, read};

/// Packets by which a policy is found to fit.
const FITTING_PACKETS: u64 = 50;
/// Policies that go through all rounds, whatever they do.
const ALWAYS: [&str; 3] = ["hrw", "fcfs", "jsq"];
/// Packets of a flow may leave out of order, at most this part of them, where order must be kept.
const REORDERING_MAX: f64 = 0.001;
/// A policy may lose this part of the packets more than the one that loses least.
const LOSS_MORE: f64 = 0.01;
/// Times the least p99 that a policy counts as, at least, if it loses more or reorders.
pub(super) const PENALTY: f64 = 10.0;

/// Makes the sweep of a plan, which this file has, in this directory.
pub type MakesSweep<'a> = &'a mut dyn FnMut(&Path, &Plan, &Path, Progress<'_>) -> Result<Swept, LabError>;

/// Where policies are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapPlace<'a> {
    pub(super) class: &'a TrafficClass,
    pub(super) cores: usize,
    pub(super) host: &'static str,
}

impl fmt::Display for MapPlace<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}-{}", self.class.name, self.cores, self.host)
    }
}

/// The scores of a policy in a cell, in the last round that it took part in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct PolicyScores {
    pub(super) packets: u64,
    pub(super) scores: Scores,
    /// Whether it is on the Pareto front of the last round.
    pub(super) is_on_front: bool,
    pub(super) times: BestTimes,
}

/// The policies that fit a place, and the others with the reasons.
type Fitting = (Vec<String>, Vec<Skipped>);

/// p99 over the least p99, in the last round that a policy took part in: delays differ with the number of packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct BestTimes {
    /// Of all policies.
    pub(super) any_order: f64,
    /// Of those that keep the order of flows in every cell. `None`: this policy does not.
    pub(super) order_kept: Option<f64>,
}

impl BestTimes {
    /// Before all cells are known.
    const UNKNOWN: Self = Self { any_order: 1.0, order_kept: None };
}

/// One point of a class on this many cores of a host.
#[derive(Clone, Debug)]
pub(super) struct MapCell<'a> {
    pub(super) place: MapPlace<'a>,
    pub(super) point: MapPoint,
    pub(super) features: Features,
    /// By policy. `None`: it does not fit.
    pub(super) found: Vec<Option<PolicyScores>>,
    /// The scores of all rounds, each by policy. `None`: it took no part.
    pub(super) rounds: Vec<Vec<Option<Scores>>>,
}

/// The result of all rounds in a place.
pub(super) struct PlaceFound<'a> {
    pub(super) cells: Vec<MapCell<'a>>,
    pub(super) skipped: Vec<Skipped>,
    /// Simulations of all rounds, and those of them that were made now.
    pub(super) simulations: usize,
    pub(super) simulated: usize,
    /// Policies that fit, and those of them that reached the last round.
    pub(super) fitting: usize,
    pub(super) last: usize,
}

/// The settings of all places.
pub(super) struct Rounds<'a> {
    /// The directory of all sweeps.
    pub(super) directory: PathBuf,
    /// Policies, the simplest first.
    pub(super) policies: &'a [String],
    pub(super) loads: &'a [f64],
    /// Packets of each round.
    pub(super) packets: &'a [u64],
    pub(super) stop: &'a AtomicBool,
}

/// Policies that fit a place, as they are kept in a file.
#[derive(Serialize, Deserialize)]
struct FittingFile {
    /// The plan for which they were found.
    plan: String,
    fitting: Vec<String>,
    skipped: Vec<(String, String)>,
}

impl Rounds<'_> {
    /// Simulates all rounds of a place. `None`: it was ended from outside. `progress` receives the round, from 0,
    /// and how many of its simulations are done, of how many.
    ///
    /// # Errors
    /// A sweep that cannot be made, and files that cannot be written.
    pub(super) fn all<'c>(
        &self,
        place: MapPlace<'c>,
        sweep: MakesSweep<'_>,
        progress: &mut dyn FnMut(usize, usize, usize),
    ) -> Result<Option<PlaceFound<'c>>, LabError> {
        let directory = self.directory.join(place.to_string());
        let Some((mut policies, skipped)) = self.fitting(place, &directory, &mut |done| {
            progress(0, done, self.policies.len() * self.points(place, 0).len() * 2);
        })?
        else {
            return Ok(None);
        };
        let mut found = PlaceFound {
            cells: self.cells(place)?,
            skipped,
            simulations: 0,
            simulated: 0,
            fitting: policies.len(),
            last: policies.len(),
        };
        for round in 0..self.packets.len() {
            let packets = self.packets_of(place, round);
            let text = self.plan_text(place, round, &policies);
            let (file, runs) = (directory.join(format!("{packets}.toml")), directory.join(packets.to_string()));
            write(&file, &text)?;
            let plan = Plan::parse(&file.display().to_string(), &text)?;
            let mut show = |done: usize, all: usize| progress(round, done, all);
            let swept = match sweep(&file, &plan, &runs, &mut show) {
                Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
                swept => swept?,
            };
            if swept.interrupted {
                return Ok(None);
            }
            found.simulations += swept.runs;
            found.simulated += swept.simulated;
            let points = Self::scores(&runs, policies.len(), found.cells.len(), place.class.seeds)?;
            let is_last = round + 1 == self.packets.len();
            self.take(&mut found.cells, &policies, &points, packets, is_last);
            found.last = policies.len();
            let always: Vec<bool> = policies.iter().map(|policy| ALWAYS.contains(&policy.as_str())).collect();
            let mut survive = survivors(&points, &always).into_iter();
            policies.retain(|_| survive.next().unwrap_or(true));
        }
        Ok(Some(found))
    }

    /// Returns the scores of a sweep, medians over the seeds: for each point those of all policies.
    fn scores(runs: &Path, policies: usize, points: usize, seeds: usize) -> Result<Vec<Vec<Scores>>, LabError> {
        let rows: Vec<Scores> = read(runs)?.rows().map(scores).collect();
        let rows: Vec<Scores> = rows.chunks(seeds).map(medians).collect();
        if rows.len() != policies * points {
            return Err(LabError::option(format!("`{}` has another sweep: remove it", runs.display())));
        }
        Ok((0..points).map(|point| rows.iter().skip(point).step_by(points).copied().collect()).collect())
    }

    /// Records the scores of a round.
    fn take(&self, cells: &mut [MapCell<'_>], policies: &[String], points: &[Vec<Scores>], packets: u64, last: bool) {
        for (cell, scores) in cells.iter_mut().zip(points) {
            let mut round = vec![None; self.policies.len()];
            for ((policy, &scores), is_best) in policies.iter().zip(scores).zip(front(scores)) {
                let at = self.policies.iter().position(|known| known == policy);
                let at = at.expect("policies are those of the map");
                let times = BestTimes::UNKNOWN;
                cell.found[at] = Some(PolicyScores { packets, scores, is_on_front: last && is_best, times });
                round[at] = Some(scores);
            }
            cell.rounds.push(round);
        }
    }

    /// Returns the points of a place with what is known of their traffic, and nothing found.
    fn cells<'c>(&self, place: MapPlace<'c>) -> Result<Vec<MapCell<'c>>, LabError> {
        let plan = Plan::parse("map", &self.plan_text(place, 0, &[ALWAYS[0].to_owned()]))?;
        let mut known: Vec<(Vec<String>, TrafficFigures)> = Vec::new();
        let mut cells = Vec::new();
        for (number, point) in self.points(place, 0).into_iter().enumerate() {
            let figures = match known.iter().find(|(inputs, _)| *inputs == point.inputs) {
                Some((_, figures)) => *figures,
                None => TrafficFigures::read(&plan.config(number, 0)?)?,
            };
            known.push((point.inputs.clone(), figures));
            let features = figures.features(point.load, place.cores, place.host != IDEAL);
            let found = vec![None; self.policies.len()];
            cells.push(MapCell { place, point, features, found, rounds: Vec::new() });
        }
        Ok(cells)
    }

    fn packets_of(&self, place: MapPlace<'_>, round: usize) -> u64 {
        (self.packets[round] as f64 * place.class.packets_times).round() as u64
    }

    fn points(&self, place: MapPlace<'_>, round: usize) -> Vec<MapPoint> {
        place.class.points(place.cores, self.loads, self.packets_of(place, round))
    }

    /// Returns the policies that fit a place, as an earlier call found them or by a few packets each. `None`: it was
    /// ended from outside.
    fn fitting(
        &self,
        place: MapPlace<'_>,
        directory: &Path,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Option<Fitting>, LabError> {
        let plan = format!("{}\n{}", env!("CARGO_PKG_VERSION"), self.plan_text(place, 0, self.policies));
        let file = directory.join("fitting.json");
        let kept = fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<FittingFile>(&text).ok());
        let kept = match kept.filter(|kept| kept.plan == plan) {
            Some(kept) => kept,
            None => {
                let config = Plan::parse("map", &self.plan_text(place, 0, &[ALWAYS[0].to_owned()]))?.config(0, 0)?;
                let mut found = FittingFile { plan, fitting: Vec::new(), skipped: Vec::new() };
                for (done, policy) in self.policies.iter().enumerate() {
                    progress(done);
                    match refusal(&config, policy, self.stop) {
                        _ if self.stop.load(Ordering::Relaxed) => return Ok(None),
                        None => found.fitting.push(policy.clone()),
                        Some(because) => found.skipped.push((policy.clone(), because)),
                    }
                }
                let text = serde_json::to_string_pretty(&found);
                write(&file, &text.map_err(|error| LabError::option(error.to_string()))?)?;
                found
            }
        };
        let skipped = kept.skipped.into_iter().map(|(policy, because)| Skipped { policy, because });
        Ok(Some((kept.fitting, skipped.collect())))
    }

    /// Returns the file of a sweep: these policies at all points.
    fn plan_text(&self, place: MapPlace<'_>, round: usize, policies: &[String]) -> String {
        let points = self.points(place, round);
        let (mut loads, mut inputs): (Vec<f64>, Vec<&[String]>) = (Vec::new(), Vec::new());
        for MapPoint { inputs: names, load, .. } in &points {
            if !loads.contains(load) {
                loads.push(*load);
            }
            if !inputs.contains(&names.as_slice()) {
                inputs.push(names);
            }
        }
        debug_assert_eq!(loads.len() * inputs.len(), points.len(), "points are combinations");
        let (cores, host) = (place.cores, place.host);
        let mut text = format!("[options]\ncores = {cores}\ntopology = \"{cores}\"\nhost = \"{host}\"\n");
        text.push_str("flow-order = \"free\"\n");
        for (name, value) in place.class.options(cores, self.packets_of(place, round)) {
            let _ = writeln!(text, "{name} = {}", quoted(&value));
        }
        let _ = writeln!(text, "[axes]\npolicy = {}\nload = {loads:?}\ninput = {}", quoted(policies), quoted(&inputs));
        let _ = writeln!(text, "[repeat]\ntimes = {}", place.class.seeds);
        text
    }
}

/// Writes texts as TOML, which reads them as JSON has them.
fn quoted(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("texts can be written")
}

/// Writes a file, and the directories that it is in.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        let mut file = PartialFile::create(path)?;
        file.write_all(text.as_bytes()).and_then(|()| file.finish_lasting())
    });
    written.map_err(|error| LabError::option(format!("`{}` cannot be written: {error}", path.display())))
}

/// Why a policy does not fit a configuration, found by a few packets. `None`: it fits.
fn refusal(config: &RunConfig, policy: &str, stop: &AtomicBool) -> Option<String> {
    let policy: PolicySpec = match policy.parse() {
        Ok(policy) => policy,
        Err(error) => return Some(format!("{error}")),
    };
    if policy.allocates() && config.services.len() < 2 {
        return Some("there is one service, so there is nothing to allocate".to_owned());
    }
    let config = RunConfig { policy, packets: Some(FITTING_PACKETS), ..config.clone() };
    let mut progress = |_, _| {};
    simulate_anywhere(&config, &mut Control::new(stop, &mut progress)).err().map(|error| error.to_string())
}

/// Sets for each policy in each cell its p99 over the least p99 of its last round. A policy keeps the order of flows
/// only if it does so in every cell that is not held out, and in this one: where few packets meet, any policy does.
pub(super) fn set_times(cells: &mut [MapCell<'_>]) {
    let keeps_here = |scores: &Scores| scores[REORDERING] <= REORDERING_MAX;
    let policies = cells.first().map_or(0, |cell| cell.found.len());
    let learnt = || cells.iter().filter(|cell| !cell.place.class.is_held_out());
    let keeps_everywhere =
        |at: usize| learnt().filter_map(|cell| cell.found[at].as_ref()).all(|one| keeps_here(&one.scores));
    let keepers: Vec<bool> = (0..policies).map(keeps_everywhere).collect();
    for MapCell { found, rounds, .. } in cells {
        let keeps = |at: usize, scores: &Scores| keepers[at] && keeps_here(scores);
        for round in rounds {
            let took_part = || round.iter().enumerate().filter_map(|(at, scores)| Some((at, scores.as_ref()?)));
            let all = least(took_part().map(|(_, scores)| scores));
            let kept = least(took_part().filter(|&(at, scores)| keeps(at, scores)).map(|(_, scores)| scores));
            for (at, scores) in took_part() {
                let order_kept = keeps(at, scores).then(|| times(scores, kept));
                if let Some(one) = &mut found[at] {
                    one.times = BestTimes { any_order: times(scores, all), order_kept };
                }
            }
        }
    }
}

/// Returns p99 over the least p99. A policy that loses more packets than the least loss counts as [`PENALTY`] times at
/// least.
fn times(scores: &Scores, (p99, loss): (f64, f64)) -> f64 {
    let times = scores[P99].max(1.0) / p99;
    if scores[LOSS] > loss + LOSS_MORE { times.max(PENALTY) } else { times }
}

/// Returns the least p99 of policies that lose about as little as can be, and the least loss.
fn least<'a>(scores: impl Iterator<Item = &'a Scores> + Clone) -> (f64, f64) {
    let loss = scores.clone().map(|one| one[LOSS]).fold(f64::INFINITY, f64::min);
    let lossless = scores.filter(|one| one[LOSS] <= loss + LOSS_MORE);
    (lossless.map(|one| one[P99].max(1.0)).fold(f64::INFINITY, f64::min), loss)
}

#[cfg(test)]
mod tests {
    use super::super::classes::classes;
    use super::*;

    #[test]
    fn the_best_loses_little_and_may_have_to_keep_order_in_every_cell() {
        let of = |p99, loss, reordering| [p99, loss, reordering, 0.0, 0.0, 0.0];
        let classes = classes();
        let place = MapPlace { class: &classes[0], cores: 4, host: IDEAL };
        let cell = |scores: [Scores; 5]| {
            let (is_on_front, times) = (false, BestTimes::UNKNOWN);
            let found = scores.map(|scores| Some(PolicyScores { packets: 9, scores, is_on_front, times }));
            let point = place.class.points(4, &[0.5], 100).remove(0);
            let features = Features::default();
            MapCell { place, point, features, found: found.into(), rounds: vec![scores.map(Some).into()] }
        };
        let calm = [of(90.0, 0.0, 0.0); 5];
        let busy = [
            of(200.0, 0.0, 0.0),
            of(100.0, 0.009, 0.2),
            of(50.0, 0.02, 0.0),
            of(300.0, 0.0, 0.001),
            of(150.0, 0.0, 0.002),
        ];
        let mut cells = [cell(calm), cell(busy)];
        set_times(&mut cells);
        let times = |cell: &MapCell<'_>| cell.found.iter().flatten().map(|one| one.times).collect::<Vec<_>>();
        let [any, kept] = [0, 1].map(|which| {
            cells.each_ref().map(|cell| {
                let of = |one: BestTimes| if which == 0 { Some(one.any_order) } else { one.order_kept };
                times(cell).into_iter().map(of).collect::<Vec<_>>()
            })
        });
        // The third has the least delay, for it drops what would wait.
        assert_eq!(any, [vec![Some(1.0); 5], [2.0, 1.0, PENALTY, 3.0, 1.5].map(Some).into()]);
        // The second and the last keep order where all do, and not where it matters.
        let calm = vec![Some(1.0), None, Some(1.0), Some(1.0), None];
        assert_eq!(kept, [calm, vec![Some(1.0), None, Some(PENALTY), Some(1.5), None]]);
        // One that drops out is compared with what the others did in its last round, not with what they do later.
        let mut later = cell(busy);
        later.rounds.push(vec![Some(of(4000.0, 0.0, 0.0)), Some(of(2000.0, 0.0, 0.2)), None, None, None]);
        let mut cells = [later];
        set_times(&mut cells);
        let any: Vec<f64> = times(&cells[0]).into_iter().map(|one| one.any_order).collect();
        assert_eq!(any, [2.0, 1.0, PENALTY, 3.0, 1.5]);
    }

    #[test]
    fn the_file_of_a_sweep_has_a_cell_for_each_policy_and_point() {
        let (policies, stop) = (["hrw".to_owned(), "jsq".to_owned()], AtomicBool::new(false));
        let (directory, loads, packets) = (PathBuf::new(), &[0.5, 0.9][..], &[1000][..]);
        let rounds = Rounds { directory, policies: &policies, loads, packets, stop: &stop };
        for class in &classes() {
            let place = MapPlace { class, cores: 4, host: "server-16" };
            let plan = Plan::parse("map", &rounds.plan_text(place, 0, &policies)).expect("a plan");
            let points = rounds.points(place, 0);
            assert_eq!(plan.cells(), 2 * points.len(), "{place}");
            let config = plan.config(points.len() + 1, 0).expect("a cell");
            assert_eq!((config.policy.to_string().as_str(), config.inputs().len()), ("jsq", points[1].inputs.len()));
            assert_eq!(config.inputs()[0], points[1].inputs[0], "{place}");
        }
    }

    #[test]
    fn allocations_do_not_fit_one_service() {
        let (policies, stop) = (["hrw".to_owned()], AtomicBool::new(false));
        let rounds =
            Rounds { directory: PathBuf::new(), policies: &policies, loads: &[0.5], packets: &[1000], stop: &stop };
        let classes = classes();
        let refused = |name: &str, policy: &str| {
            let class = classes.iter().find(|class| class.name == name).expect("a class");
            let plan = rounds.plan_text(MapPlace { class, cores: 4, host: IDEAL }, 0, &policies);
            let config = Plan::parse("map", &plan).and_then(|plan| plan.config(0, 0)).expect("a cell");
            refusal(&config, policy, &stop)
        };
        assert!(refused("uniform", "everest").expect("it does not fit").contains("nothing to allocate"));
        assert_eq!(refused("tenants", "everest"), None);
        assert_eq!(refused("uniform", "jsq"), None);
    }
}
