//! A map of policies: which one suits which traffic, cores and host, by simulation of all that fit.
//!
//! Classes of traffic are crossed with loads, cores and hosts. On each class, cores and host, [rounds](self) of
//! simulations with more and more packets leave fewer and fewer policies. Their figures become a table, a curve over
//! elephants, a rule that names a policy by figures of the traffic, and a page. All of it is the same, byte for byte,
//! for any number of threads and interruptions.

mod classes;
mod front;
mod known;
mod page;
mod rounds;
mod rule;
mod tables;
mod traffic;

use core::sync::atomic::AtomicBool;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use humpyard_core::frame::Frame;
use humpyard_core::name::unknown;
use serde::Serialize;

use crate::LabError;
use crate::choice::assumed::IDEAL;
use crate::choice::host::Host;
use crate::config::RunConfig;
use crate::parts::setup::source;
use crate::recommend::{Skipped, grid};
use classes::{TrafficClass, classes};
use rounds::{MapCell, MapPlace, PENALTY, Rounds, set_times, write};
use rule::{Distance, Example, Tree, learn};

pub(crate) use known::KnownMap;
pub use known::{NearBest, NearBestOfClass};
pub use rounds::MakesSweep;
pub(crate) use traffic::TrafficFigures;

/// Hosts: one on which nothing but the services takes time, and one with a dispatcher.
const HOSTS: [&str; 2] = [IDEAL, "server-16"];
/// Cores of a whole map, and of a quick one.
const CORES: [&[usize]; 2] = [&[4, 16, 64], &[4]];
/// Loads, likewise.
const LOADS: [&[f64]; 2] = [&[0.3, 0.5, 0.7, 0.9, 1.0, 1.2], &[0.5, 0.9]];
/// Packets of a simulation in each round, likewise.
const PACKETS: [&[u64]; 2] = [&[30_000, 100_000, 300_000], &[10_000]];

/// What is mapped.
#[derive(Clone, Debug)]
pub struct MapOptions {
    /// Where files go.
    pub directory: PathBuf,
    /// Whether it has fewer loads and packets, and 4 cores alone.
    pub is_quick: bool,
    /// Captures. The rule is judged on them, and not learnt from them.
    pub captures: Vec<String>,
    /// Names of classes. Empty: all classes. Captures are added to them.
    pub only: Vec<String>,
    /// Packets of a simulation, in one round. `None`: those of all rounds.
    pub packets: Option<u64>,
}

/// The result of a map.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Mapped {
    /// The directory of its files.
    pub directory: String,
    /// Classes of traffic.
    pub classes: usize,
    /// Classes, cores, hosts and loads that policies were compared in.
    pub cells: usize,
    /// Simulations that are done.
    pub simulations: usize,
    /// Simulations that were made now.
    pub simulated: usize,
    /// The rule that keeps the order of flows, in words. Empty: there is none.
    pub order_kept: Vec<String>,
    /// The rule that need not keep it, in words. Empty: there is none.
    pub any_order: Vec<String>,
    /// Whether it was ended from outside: then there is neither page nor rule yet.
    pub interrupted: bool,
}

/// Receives the number of simulations done, the part of the map that is done (0 to 1), and the place that is simulated.
pub type Progress<'a> = &'a mut dyn FnMut(usize, f64, &str);

/// All that the files of a map contain.
struct WholeMap<'a> {
    classes: &'a [TrafficClass],
    policies: &'a [String],
    cells: Vec<MapCell<'a>>,
    order_kept: Option<RuleFound>,
    any_order: Option<RuleFound>,
    /// Policies that fit a class, cores and host, and those of them that reached the last round, summed up.
    fitting: usize,
    last: usize,
    skipped: BTreeMap<String, Vec<Skipped>>,
    simulations: usize,
    packets: &'a [u64],
}

/// A rule, and how far it is from the best.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct RuleFound {
    tree: Tree<String>,
    /// On each class, the distance of the rule that was learnt from the other classes. `None`: there is one class.
    unseen: Option<JudgedRule>,
    /// On captures. `None`: there is none.
    captures: Option<JudgedRule>,
}

/// How far a rule is from the best, and plain hashing everywhere beside it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct JudgedRule {
    rule: Distance,
    hashing: Distance,
}

/// Maps policies, and writes the files of the map into its directory. `sweep` makes the simulations.
///
/// # Errors
/// A class that does not exist, a capture that cannot be read, and files that cannot be written.
pub fn map(
    options: &MapOptions,
    stop: &AtomicBool,
    sweep: MakesSweep<'_>,
    progress: Progress<'_>,
) -> Result<Mapped, LabError> {
    let classes = chosen(options)?;
    check_page(&options.directory.join("index.md"))?;
    let scale = usize::from(options.is_quick);
    let own = options.packets.map(|packets| [packets]);
    let packets = own.as_ref().map_or(PACKETS[scale], |packets| packets.as_slice());
    let policies = grid();
    let rounds =
        Rounds { directory: options.directory.join("rounds"), policies: &policies, loads: LOADS[scale], packets, stop };
    let places: Vec<MapPlace<'_>> = classes
        .iter()
        .flat_map(|class| CORES[scale].iter().map(move |&cores| (class, cores)))
        .flat_map(|(class, cores)| HOSTS.map(|host| MapPlace { class, cores, host }))
        .collect();
    let mut whole = WholeMap {
        classes: &classes,
        policies: &policies,
        cells: Vec::new(),
        order_kept: None,
        any_order: None,
        fitting: 0,
        last: 0,
        skipped: BTreeMap::new(),
        simulations: 0,
        packets,
    };
    let (mut simulated, mut shown) = (0, 0);
    for (number, &place) in places.iter().enumerate() {
        let (before, name) = (whole.simulations, place.to_string());
        let mut show = |round: usize, done: usize, all: usize| {
            let part = (round as f64 + done as f64 / all.max(1) as f64) / packets.len() as f64;
            shown = shown.max(before + done);
            progress(before + done, (number as f64 + part) / places.len() as f64, &name);
        };
        show(0, 0, 1);
        let Some(found) = rounds.all(place, &mut *sweep, &mut show)? else {
            return Ok(Mapped { simulations: shown, ..mapped(options, &whole, simulated, true) });
        };
        whole.cells.extend(found.cells);
        whole.skipped.insert(place.to_string(), found.skipped);
        whole.simulations += found.simulations;
        whole.fitting += found.fitting;
        whole.last += found.last;
        simulated += found.simulated;
    }
    set_times(&mut whole.cells);
    whole.order_kept = rule(&whole, true);
    whole.any_order = rule(&whole, false);
    whole.write(&options.directory)?;
    Ok(mapped(options, &whole, simulated, false))
}

fn mapped(options: &MapOptions, whole: &WholeMap<'_>, simulated: usize, interrupted: bool) -> Mapped {
    let words = |rule: &Option<RuleFound>| rule.as_ref().map_or_else(Vec::new, |rule| page::lines(&rule.tree));
    Mapped {
        directory: options.directory.display().to_string(),
        classes: whole.classes.len(),
        cells: whole.cells.len(),
        simulations: whole.simulations,
        simulated,
        order_kept: words(&whole.order_kept),
        any_order: words(&whole.any_order),
        interrupted,
    }
}

/// Returns the classes that the options name.
fn chosen(options: &MapOptions) -> Result<Vec<TrafficClass>, LabError> {
    let all = classes();
    let names = || all.iter().map(|class| class.name.as_str());
    if let Some(other) = options.only.iter().find(|name| names().all(|known| known != name.as_str())) {
        return Err(LabError::option(format!("@only: {}", unknown("class of traffic", other, names()))));
    }
    let mut chosen = all.clone();
    chosen.retain(|class| options.only.is_empty() || options.only.contains(&class.name));
    for path in &options.captures {
        let capture = TrafficClass::capture(path)?;
        if !Path::new(path).is_file() {
            return Err(LabError::option(format!("@capture: there is no file `{path}`")));
        }
        if chosen.iter().any(|class| class.name == capture.name) {
            return Err(LabError::of_option("capture", format!("`{path}` has the name of another: rename it")));
        }
        check_capture(path)?;
        chosen.push(capture);
    }
    Ok(chosen)
}

/// Rejects a directory whose page is not that of a map.
fn check_page(path: &Path) -> Result<(), LabError> {
    match fs::read(path) {
        Ok(text) if !text.starts_with(page::TITLE.as_bytes()) => Err(LabError::option(format!(
            "@out: {} is not the page of a map, and would be overwritten: name another directory",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Reads a capture to its end: one that is damaged or empty is refused before the map takes hours.
fn check_capture(path: &str) -> Result<(), LabError> {
    let refused = |why: String| LabError::of_option("capture", why);
    let mut source = source(&RunConfig::new(Host::Sim, path, "hrw".parse()?))?;
    let (mut frame, mut packets) = (Frame::default(), 0_u64);
    while source.next(&mut frame).map_err(|damage| refused(damage.to_string()))? {
        packets += 1;
    }
    if packets == 0 { Err(refused(format!("there is no packet in `{path}`"))) } else { Ok(()) }
}

/// Returns what policies did in a cell: its logarithms count for a rule that keeps order, or for one that need not.
fn example(cell: &MapCell<'_>, weight: f64, keeps_order: bool) -> Example {
    let times = |at: usize| {
        let times = cell.found[at].map(|found| found.times)?;
        if keeps_order { times.order_kept } else { Some(times.any_order) }
    };
    let logarithm = |at| times(at).map_or(f64::INFINITY, f64::ln);
    let logarithms = (0..cell.found.len()).map(logarithm).collect();
    Example { features: cell.features, weight, logarithms }
}

/// Returns the p99 of a policy over the least p99 in a cell. For a policy that does not fit, it is that of hashing, the
/// first policy.
fn times_of(cell: &MapCell<'_>, policy: usize, keeps_order: bool) -> f64 {
    let found = cell.found[policy].or(cell.found[0]).map(|found| found.times);
    let times = found.and_then(|times| if keeps_order { times.order_kept } else { Some(times.any_order) });
    times.unwrap_or(PENALTY)
}

/// Learns a rule from all classes but captures, and judges it. `None`: there is nothing to learn from.
fn rule(map: &WholeMap<'_>, keeps_order: bool) -> Option<RuleFound> {
    let learnt: Vec<&TrafficClass> = map.classes.iter().filter(|class| !class.is_held_out()).collect();
    let of_class = |cell: &MapCell<'_>, class: &TrafficClass| cell.place.class.name == class.name;
    let mut examples: Vec<(&MapCell<'_>, Example)> = Vec::new();
    for class in &learnt {
        let cells: Vec<_> = map.cells.iter().filter(|cell| of_class(cell, class)).collect();
        let weight = 1.0 / (cells.len() * learnt.len()) as f64;
        examples.extend(cells.into_iter().map(|cell| (cell, example(cell, weight, keeps_order))));
    }
    let without = |class: Option<&TrafficClass>| {
        let seen = examples.iter().filter(|(cell, _)| class.is_none_or(|class| !of_class(cell, class)));
        learn(&seen.map(|(_, example)| example).collect::<Vec<_>>())
    };
    let tree = without(None)?;
    let unseen = if learnt.len() > 1 {
        let trees: Vec<Option<Tree<usize>>> = thread::scope(|scope| {
            let learners: Vec<_> = learnt.iter().map(|class| scope.spawn(|| without(Some(class)))).collect();
            learners.into_iter().map(|learner| learner.join().ok().flatten()).collect()
        });
        let judged = learnt.iter().zip(&trees).filter_map(|(class, tree)| Some((class, tree.as_ref()?)));
        let judged = judged.flat_map(|(class, tree)| {
            map.cells.iter().filter(|cell| of_class(cell, class)).map(move |cell| (cell, tree))
        });
        judge(judged, keeps_order)
    } else {
        None
    };
    let held_out = map.cells.iter().filter(|cell| cell.place.class.is_held_out());
    let captures = judge(held_out.map(|cell| (cell, &tree)), keeps_order);
    Some(RuleFound { tree: tree.map(&|&policy| map.policies[policy].clone()), unseen, captures })
}

/// Judges rules, each on a cell. `None`: there is no cell.
fn judge<'a>(cells: impl Iterator<Item = (&'a MapCell<'a>, &'a Tree<usize>)>, keeps_order: bool) -> Option<JudgedRule> {
    let times = |(cell, tree): (&MapCell<'_>, &Tree<usize>)| {
        (times_of(cell, *tree.names(&cell.features), keeps_order), times_of(cell, 0, keeps_order))
    };
    let (rule, hashing): (Vec<f64>, Vec<f64>) = cells.map(times).unzip();
    Some(JudgedRule { rule: Distance::of(rule)?, hashing: Distance::of(hashing)? })
}

impl WholeMap<'_> {
    /// Writes the files of the map.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn write(&self, directory: &Path) -> Result<(), LabError> {
        write(&directory.join("map.csv"), &tables::map(self).csv())?;
        write(&directory.join("elephants.csv"), &tables::elephants(self).csv())?;
        let rules = BTreeMap::from([("order_kept", &self.order_kept), ("any_order", &self.any_order)]);
        let rules = serde_json::to_string_pretty(&rules).map_err(|error| LabError::option(error.to_string()))?;
        write(&directory.join("rule.json"), &(rules + "\n"))?;
        write(&directory.join("known.json"), &KnownMap::of(self).text())?;
        write(&directory.join("index.md"), &page::page(self))
    }
}
