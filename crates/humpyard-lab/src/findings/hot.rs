//! Cores without time left while others have some.

use super::facts::{Facts, LENGTHS, OVERLOAD, PolicyFacts, RunFacts, ranked};
use super::split::Figure;
use super::words::{names, part};
use super::{Finding, Topic};
use crate::figures::percent;

/// From here on a core, a dispatcher or a link has no time left.
pub(super) const FULL: f64 = 0.94;
/// A core that is at least this busy counts as full beside a full one, if it stands apart from the others.
pub(super) const NEARLY_FULL: f64 = 0.9;
/// A core that is at least this busy may be overloaded in a short run, which also has the time before its first packet.
pub(super) const BUSY: f64 = 0.8;
/// A core that is busier than the others by this is out of balance.
pub(super) const UNEQUAL: f64 = 0.1;
/// A delay of this part of the run's length shows a queue that grows all the time.
const GROWING: f64 = 0.1;

/// Cores without time left, while others had some.
#[derive(Clone, Copy)]
pub(super) struct Hot {
    /// How many.
    pub(super) cores: usize,
    /// How busy the least busy of them was.
    pub(super) busy: f64,
    /// How busy the others were, on average.
    pub(super) others: f64,
    /// How many were full.
    full: usize,
    /// How busy the least busy of the full ones was.
    full_busy: f64,
}

impl Hot {
    /// `100 %`, or `97 % or more` of several.
    pub(super) fn busy(&self) -> String {
        or_more(self.cores, self.busy)
    }

    /// Describes the cores: `one core busy 100 % of the time`.
    pub(super) fn said(&self) -> String {
        format!("{} busy {} of the time", counted(self.cores), self.busy())
    }

    /// Describes those that were full.
    pub(super) fn full_said(&self) -> String {
        format!("{} busy {} of the time", counted(self.full), or_more(self.full, self.full_busy))
    }

    /// All of these at their most cores and their least busy.
    fn all(hot: &[Self]) -> Self {
        let least = |of: fn(&Self) -> f64| hot.iter().map(of).fold(1.0, f64::min);
        Self {
            cores: hot.iter().map(|hot| hot.cores).max().unwrap_or(0),
            busy: least(|hot| hot.busy),
            others: hot.iter().map(|hot| hot.others).sum::<f64>() / hot.len().max(1) as f64,
            full: hot.iter().map(|hot| hot.full).max().unwrap_or(0),
            full_busy: least(|hot| hot.full_busy),
        }
    }
}

fn counted(cores: usize) -> String {
    if cores == 1 { "one core".to_owned() } else { format!("{cores} cores") }
}

fn or_more(cores: usize, least: f64) -> String {
    let busy = part(least);
    if cores == 1 || busy == "100 %" { busy } else { format!("{busy} or more") }
}

/// The cores of a policy that had no time left while others had.
pub(super) fn hot(policy: &PolicyFacts) -> Option<Hot> {
    let ranks = policy.busy_by_rank();
    let full = full(&ranks);
    (full > 0).then(|| apart(&ranks, full, NEARLY_FULL))?
}

/// The cores of this list, from the busiest, that are full.
fn full(ranks: &[f64]) -> usize {
    ranks.iter().take_while(|busy| **busy >= FULL).count()
}

/// The busiest cores, as far as the widest gap below at least this many of them that are at least this busy. `None`: no core
/// stands apart.
fn apart(ranks: &[f64], at_least: usize, busy: f64) -> Option<Hot> {
    let gap = |cores: usize| ranks[cores - 1] - ranks[cores];
    let cuts = (at_least.max(1)..ranks.len()).filter(|&cores| ranks[cores - 1] >= busy);
    let cores = cuts.reduce(|widest, cores| if gap(cores) > gap(widest) { cores } else { widest })?;
    let others = ranks[cores..].iter().sum::<f64>() / (ranks.len() - cores) as f64;
    let (least, full) = (ranks[cores - 1], full(ranks));
    let full_busy = if full == 0 { least } else { ranks[full - 1] };
    (least - others >= UNEQUAL).then_some(Hot { cores, busy: least, others, full, full_busy })
}

/// The cores of a policy whose queues grew all the time in a run too short to lose packets.
fn growing(facts: &Facts, policy: &PolicyFacts) -> Option<Hot> {
    let is_short = |run: &RunFacts| run.duration_ns < LENGTHS.saturating_mul(facts.tolerance_ns);
    let longest = policy.median(|run| run.max / run.duration_ns.max(1) as f64);
    let is_growing = longest >= GROWING && policy.runs.iter().all(is_short) && policy.is_lossless();
    let ranks = policy.busy_by_rank();
    is_growing.then(|| apart(&ranks, full(&ranks), BUSY))?
}

/// The policies whose queues grew all the time on some cores.
pub(super) fn all_growing(facts: &Facts) -> Vec<&PolicyFacts> {
    let is_overload = facts.load.is_some_and(|load| load >= OVERLOAD);
    if facts.line_rate || is_overload || facts.too_few_packets().is_some() {
        return Vec::new();
    }
    facts.policies.iter().filter(|policy| growing(facts, policy).is_some()).collect()
}

/// Cores that are overloaded in runs that end before packets are lost.
pub(super) fn overloaded(facts: &Facts) -> Vec<Finding> {
    let group = all_growing(facts);
    if group.is_empty() {
        return Vec::new();
    }
    let hot: Vec<Hot> = group.iter().filter_map(|policy| growing(facts, policy)).collect();
    let waited = group.iter().map(|policy| policy.greatest(|run| run.queue_max as f64)).fold(0.0, f64::max);
    let waited = format!("up to {waited:.0} of {} packets waited at once", facts.packets);
    let text = match facts.held(group[0]) {
        Some(held) => format!("{held}, and {waited}. {}", facts.hold_remedy()),
        None => format!(
            "{}: {waited}, and a longer run would lose packets.{}",
            facts.overloaded_cores(&group, &hot),
            facts.few_flows(&group)
        ),
    };
    // Where only some policies overload cores, what differs comes first.
    let all = group.len() == facts.policies.len();
    vec![Finding::new(if all { Topic::Imbalance } else { Topic::Delay }, text)]
}

impl Facts {
    /// Says which policies lost packets by overloading some cores, and what the others lost.
    pub(super) fn say_imbalance(&self, group: &[&PolicyFacts]) -> String {
        let hot: Vec<Hot> = group.iter().filter_map(|policy| hot(policy)).collect();
        let overloaded = self.overloaded_cores(group, &hot);
        let comma = if overloaded.contains(", the slowest (") { "," } else { "" };
        let lost = self.range(group, Figure::Lost);
        format!("{overloaded}{comma} and lost {lost} of the packets{}.{}", self.against(group), self.few_flows(group))
    }

    /// `hrw overloaded 2 of 8 cores (busy 94 % or more, the others 1 %)`.
    fn overloaded_cores(&self, group: &[&PolicyFacts], hot: &[Hot]) -> String {
        let all = Hot::all(hot);
        let is_slowest = group.iter().zip(hot).all(|(policy, hot)| self.is_slowest_hot(policy, hot.cores));
        let slowest = if is_slowest { ", the slowest" } else { "" };
        let cores =
            if all.cores == 1 { "one core".to_owned() } else { format!("{} of {} cores", all.cores, self.cores) };
        let others = if all.cores + 1 == self.cores { "other" } else { "others" };
        format!("{} overloaded {cores}{slowest} (busy {}, the {others} {})", names(group), all.busy(), part(all.others))
    }

    /// Says that flows are fewer than cores, or names the heaviest.
    fn few_flows(&self, group: &[&PolicyFacts]) -> String {
        match self.flows {
            flows if flows < self.cores as u64 => {
                format!(" The traffic has only {flows} flows for {} cores.", self.cores)
            }
            _ => self.say_elephant(group),
        }
    }

    /// Names the heaviest flow where it had more packets than a core's equal share, so that its core is the overloaded one.
    fn say_elephant(&self, group: &[&PolicyFacts]) -> String {
        let heaviest = group.iter().flat_map(|policy| &policy.runs).filter_map(|run| run.heaviest.as_ref());
        let Some(heaviest) = heaviest.max_by(|a, b| a.fraction.total_cmp(&b.fraction)) else { return String::new() };
        if heaviest.fraction * self.cores as f64 <= 1.0 {
            return String::new();
        }
        format!(" The flow {} alone had {} of the packets that left.", heaviest.flow, percent(heaviest.fraction))
    }

    /// Whether the busiest cores, this many, are the slowest, in every run of a policy.
    fn is_slowest_hot(&self, policy: &PolicyFacts, cores: usize) -> bool {
        let slow = ranked(&self.speeds);
        if slow.first() == slow.last() {
            return false;
        }
        policy.runs.iter().all(|run| {
            let least = ranked(&run.busy).get(cores.saturating_sub(1)).copied().unwrap_or(FULL);
            let speeds = |is_hot: bool| {
                let of = run.busy.iter().zip(&self.speeds);
                of.filter(move |(busy, _)| (**busy >= least) == is_hot).map(|(_, speed)| *speed)
            };
            speeds(true).fold(0.0, f64::max) < speeds(false).fold(f64::INFINITY, f64::min)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{HeaviestFlow, Place};
    use super::super::tests::{facts, lost, run, said};
    use super::*;

    fn apart_of(busy: &[f64]) -> Option<(usize, String, String)> {
        let policy = PolicyFacts { name: "a".to_owned(), runs: vec![RunFacts { busy: busy.to_vec(), ..run() }] };
        hot(&policy).map(|hot| (hot.cores, hot.busy(), part(hot.others)))
    }

    #[test]
    fn cores_that_stand_apart_are_hot_together() {
        let of = |cores: usize, busy: &str, others: &str| Some((cores, busy.to_owned(), others.to_owned()));
        assert_eq!(apart_of(&[1.0, 0.0, 0.0, 0.9396, 0.0, 0.0, 0.0, 0.056]), of(2, "94 % or more", "1 %"));
        assert_eq!(apart_of(&[0.93, 0.18, 0.21, 1.0, 0.18]), of(2, "93 % or more", "19 %"));
        assert_eq!(apart_of(&[1.0, 0.84, 0.7, 0.64]), of(1, "100 %", "73 %"));
        assert_eq!(apart_of(&[1.0, 0.91, 0.75, 0.7]), of(2, "91 % or more", "72 %"));
        assert_eq!(apart_of(&[1.0, 0.95, 0.94, 0.3]), of(3, "94 % or more", "30 %"));
        assert_eq!(apart_of(&[0.93, 0.1, 0.1, 0.1]), None, "no core is full");
        assert_eq!(apart_of(&[0.97, 0.92, 0.9, 0.88]), None, "no core stands apart");
        assert_eq!(apart_of(&[1.0; 4]), None);
    }

    #[test]
    fn the_slowest_cores_are_named() {
        let one = RunFacts { busy: vec![0.4, 0.4, 0.4, 1.0], ..lost(Place::Buffer, 500) };
        let runs = [one];
        let of = |speeds: &[f64]| {
            let facts = Facts { speeds: speeds.to_vec(), ..facts(&[("a", &runs)]) };
            facts.say_imbalance(&facts.all())
        };
        assert!(of(&[1.0, 1.0, 1.0, 0.5]).contains("one core, the slowest (busy 100 %, the others 40 %), and lost"));
        assert!(!of(&[0.5, 1.0, 1.0, 1.0]).contains("slowest") && !of(&[]).contains("slowest"));
    }

    #[test]
    fn an_elephant_that_overloads_a_core_is_named() {
        let of = |fraction: f64| {
            let heaviest = Some(HeaviestFlow { flow: "udp 10.0.0.1:7 > 10.0.0.2:9".to_owned(), fraction });
            let one = RunFacts { heaviest, busy: vec![1.0, 0.2, 0.2, 0.2], ..lost(Place::Buffer, 500) };
            let facts = facts(&[("a", &[one])]);
            facts.say_imbalance(&facts.all())
        };
        let named = " The flow udp 10.0.0.1:7 > 10.0.0.2:9 alone had 60.0 % of the packets that left.";
        assert!(of(0.6).ends_with(named), "{}", of(0.6));
        assert!(!of(0.25).contains("alone"), "a quarter of the packets is the share of one core of four");
    }

    #[test]
    fn a_core_that_a_longer_run_would_overload_is_named() {
        let short = RunFacts { duration_ns: 1_000_000, max: 200_000.0, queue_max: 3000, ..run() };
        let growing = RunFacts { busy: vec![0.87, 0.1, 0.1, 0.1], ..short.clone() };
        let of = |run: &RunFacts| said(&overloaded(&facts(&[("a", core::slice::from_ref(run))])));
        let text = "Imbalance: a overloaded one core (busy 87 %, the others 10 %): up to 3000 of 10000 packets waited at once, and a \
                    longer run would lose packets.";
        assert_eq!(of(&growing), text);
        let others = [
            RunFacts { max: 90_000.0, ..growing.clone() },
            RunFacts { duration_ns: 20_000_000, max: 2e7, ..growing.clone() },
            RunFacts { lost: lost(Place::Buffer, 500).lost, ..growing.clone() },
            short,
        ];
        assert!(others.iter().all(|other| of(other).is_empty()));
        let both = facts(&[("a", core::slice::from_ref(&growing)), ("b", &[run()])]);
        assert!(said(&overloaded(&both)).starts_with("Delay: a overloaded one core"));
        assert_eq!(overloaded(&Facts { load: Some(1.2), ..both }), [], "all cores are overloaded");
    }
}
