//! The page of the map: the rules first, then the best simple policy of each class, and what was not done.

use core::fmt::Write;

use super::classes::TrafficClass;
use super::front::{LOSS, OBJECTIVES, P99, REORDERING, Scores, front, medians};
use super::rounds::{MapCell, PENALTY};
use super::rule::{Distance, Tree, simplest};
use super::tables::{ElephantCost, elephant_costs};
use super::traffic::{LOOKED_AT, short};
use super::{HOSTS, JudgedRule, RuleFound, WholeMap, example, times_of};
use crate::figures::wrapped;

/// Characters of a line of the page.
const WIDTH: usize = 100;
/// Hashing has lost where its p99 is this many times the best.
const LOST: f64 = 2.0;

/// Returns the rule in words, a line each; what belongs to a line stands further right.
pub(super) fn lines(tree: &Tree<String>) -> Vec<String> {
    let mut lines = Vec::new();
    add_lines(tree, 0, &mut lines);
    lines
}

fn add_lines(tree: &Tree<String>, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    match tree {
        Tree::Use(policy) => lines.push(format!("{indent}use `{policy}`")),
        Tree::If { figure, at_most, then, otherwise } => {
            lines.push(format!("{indent}if {}:", figure.at_most(*at_most)));
            add_lines(then, depth + 1, lines);
            lines.push(format!("{indent}else:"));
            add_lines(otherwise, depth + 1, lines);
        }
    }
}

/// The first line of a page.
pub(super) const TITLE: &str = "# Which policy for which traffic";

/// Returns the page.
pub(super) fn page(map: &WholeMap<'_>) -> String {
    let mut page = format!(
        "{TITLE}\n\nFor engineers who choose a policy. `humpyard map` simulated every policy that fits on every class \
         below, and wrote this page.\n"
    );
    let rules = [("If the order of flows must be kept", &map.order_kept), ("If it need not be kept", &map.any_order)];
    for (heading, rule) in rules {
        let _ = write!(page, "\n## {heading}\n\n");
        add_rule(&mut page, rule.as_ref());
    }
    page.push_str(
        "\nThe rules are in [rule.json](rule.json). A rule names the policy whose p99 of the delay is nearest to the \
         best. Where a simpler policy is within 5 %, the rule names that.\n",
    );
    add_policies(&mut page, map);
    add_elephants(&mut page, &elephant_costs(map));
    add_classes(&mut page, map);
    add_terms(&mut page);
    add_limits(&mut page, map);
    page.lines().map(|line| fitting(line) + "\n").collect()
}

/// Breaks a line of prose or of a list at the width of a page; tables stay as they are.
fn fitting(line: &str) -> String {
    if line.starts_with('|') || line.len() <= WIDTH {
        return line.to_owned();
    }
    let words = line.trim_start();
    let indent = line.len() - words.len();
    let hanging = indent + if words.starts_with("* ") { 2 } else { 0 };
    let lines = wrapped(words, WIDTH - hanging);
    " ".repeat(indent) + &lines.join(&format!("\n{}", " ".repeat(hanging)))
}

fn add_rule(page: &mut String, rule: Option<&RuleFound>) {
    let Some(rule) = rule else {
        page.push_str("No rule: every class is held out.\n");
        return;
    };
    for line in lines(&rule.tree) {
        let depth = line.len() - line.trim_start().len();
        let _ = writeln!(page, "{}* {}", " ".repeat(depth), line.trim_start());
    }
    let said = |JudgedRule { rule, hashing }: JudgedRule| {
        let figures = |Distance { median, p90, .. }: Distance| format!("median {}, p90 {}", short(median), short(p90));
        format!("rule: {}; hashing everywhere: {}; {} cells", figures(rule), figures(hashing), rule.cells)
    };
    match rule.unseen {
        Some(judged) => {
            let _ = write!(page, "\np99 over the best, on classes that the rule has not seen: {}.\n", said(judged));
        }
        None => page.push_str("\nThe rule was not judged on a class that it has not seen: there is one class.\n"),
    }
    if let Some(judged) = rule.captures {
        let _ = write!(page, "\np99 over the best, on captures: {}.\n", said(judged));
    }
}

fn add_elephants(page: &mut String, costs: &[ElephantCost<'_>]) {
    if costs.is_empty() {
        return;
    }
    page.push_str("\n## From which elephants on hashing loses\n\n");
    let _ = write!(
        page,
        "Elephants with this part of a core each give plain hashing (`hrw`) {LOST} times the p99 of the best policy, \
         or more: of those that keep the order of flows, and of all. Behind it stands the p99 of hashing over the \
         best, there and at most. The load is {}; [elephants.csv](elephants.csv) has the whole curve.\n\n",
        costs[0].cell.point.load
    );
    page.push_str("| cores | host | elephants | order kept | order free |\n|---|---|---|---|---|\n");
    let key = |cost: &ElephantCost<'_>| (cost.cell.place.cores, cost.cell.place.host, cost.herd.count);
    for curve in costs.chunk_by(|one, other| key(one) == key(other)) {
        let (cores, host, count) = key(&curve[0]);
        let [kept, free] = [true, false].map(|keeps_order| lost(curve, keeps_order));
        let _ = writeln!(page, "| {cores} | {host} | {count} | {kept} | {free} |");
    }
}

/// Says from which part of a core on hashing has lost, and by how much there and at most.
fn lost(curve: &[ElephantCost<'_>], keeps_order: bool) -> String {
    let most = curve.iter().map(|cost| cost.times(keeps_order)).fold(0.0, f64::max);
    match curve.iter().find(|cost| cost.times(keeps_order) >= LOST) {
        Some(first) => format!("{}: {}, {}", first.herd.share, short(first.times(keeps_order)), short(most)),
        None => format!("none tried: {}", short(most)),
    }
}

/// A policy in all classes together.
struct WholePolicy<'a> {
    name: &'a str,
    /// By objective: medians over the cells, with p99 as times the best, and the worst.
    medians: Scores,
    worst: Scores,
}

impl<'a> WholePolicy<'a> {
    /// Returns what a policy did in these cells. `None`: it does not fit some of them.
    fn of(name: &'a str, policy: usize, cells: &[&MapCell<'_>]) -> Option<Self> {
        let scores = |cell: &&MapCell<'_>| {
            let found = cell.found[policy]?;
            let mut scores = found.scores;
            scores[P99] = found.times.any_order;
            Some(scores)
        };
        let scores: Vec<Scores> = cells.iter().map(scores).collect::<Option<_>>()?;
        let worst = scores.iter().copied().reduce(|one, other| core::array::from_fn(|at| one[at].max(other[at])))?;
        Some(Self { name, medians: medians(&scores), worst })
    }

    /// What it is compared by: medians, but the worst loss and reordering.
    fn compared(&self) -> Scores {
        let mut scores = self.medians;
        [LOSS, REORDERING].into_iter().for_each(|at| scores[at] = self.worst[at]);
        scores
    }
}

fn add_policies(page: &mut String, map: &WholeMap<'_>) {
    let load = map.cells.iter().map(|cell| cell.point.load).filter(|&load| load < 1.0).fold(0.0, f64::max);
    let _ = write!(
        page,
        "\n## What each policy costs\n\nAll classes but captures and `elephants` at load {load} together. The tables \
         have the policies that fit everywhere and are on the Pareto front of all figures: none of the others is \
         better by one of them and worse by none. p99 is over the best policy of a cell. Each column has the median, and p99, \
         loss and order also the worst of all cells.\n"
    );
    for host in HOSTS {
        let is_counted = |cell: &&MapCell<'_>| {
            let MapCell { place, point, .. } = cell;
            place.host == host && point.load == load && point.herd.is_none() && !place.class.is_held_out()
        };
        let cells: Vec<&MapCell<'_>> = map.cells.iter().filter(is_counted).collect();
        let all = map.policies.iter().enumerate();
        let mut all: Vec<WholePolicy<'_>> = all.filter_map(|(at, name)| WholePolicy::of(name, at, &cells)).collect();
        let mut on_front = front(&all.iter().map(WholePolicy::compared).collect::<Vec<_>>()).into_iter();
        all.retain(|_| on_front.next().unwrap_or(false));
        all.sort_by(|one, other| one.medians[P99].total_cmp(&other.medians[P99]));
        let _ = write!(
            page,
            "\n{} cells on `{host}`:\n\n| policy | p99 over the best | loss | out of order | moves | unfairness | \
             wasted cores |\n|---|---|---|---|---|---|---|\n",
            cells.len()
        );
        for WholePolicy { name, medians, worst } in &all {
            let both = |at: usize| format!("{}, {}", short(medians[at]), short(worst[at]));
            let [p99, loss, order] = [P99, LOSS, REORDERING].map(both);
            let others = medians[REORDERING + 1..].iter().map(|&figure| short(figure)).collect::<Vec<_>>().join(" | ");
            let _ = writeln!(page, "| `{name}` | {p99} | {loss} | {order} | {others} |");
        }
    }
}

fn add_classes(page: &mut String, map: &WholeMap<'_>) {
    page.push_str(
        "\n## The best simple policy of each class\n\nFor all cores, hosts and loads of a class together. Each policy \
         has its mean p99 over the best (geometric) behind it, and so has plain hashing.\n\n\
         | class | order kept | order free | hashing, order kept and free |\n|---|---|---|---|\n",
    );
    for class in map.classes {
        let cells: Vec<&MapCell<'_>> = map.cells.iter().filter(|cell| cell.place.class.name == class.name).collect();
        let best = [true, false].map(|keeps_order| best(map, &cells, keeps_order));
        let hashing = [true, false].map(|keeps_order| {
            let logarithms = cells.iter().map(|cell| times_of(cell, 0, keeps_order).ln());
            short((logarithms.sum::<f64>() / cells.len().max(1) as f64).exp())
        });
        let [kept, free] = best;
        let _ = writeln!(page, "| {} | {kept} | {free} | {}, {} |", class.name, hashing[0], hashing[1]);
    }
    page.push_str("\nThe classes:\n\n");
    for TrafficClass { name, about, .. } in map.classes {
        let _ = writeln!(page, "* `{name}`: {about}.");
    }
}

/// Returns the simplest policy that is near the best in these cells, with its mean p99 over the best.
fn best(map: &WholeMap<'_>, cells: &[&MapCell<'_>], keeps_order: bool) -> String {
    let examples: Vec<_> = cells.iter().map(|cell| example(cell, 1.0, keeps_order)).collect();
    let found = simplest(&examples.iter().collect::<Vec<_>>());
    found.map_or_else(
        || "none fits everywhere".to_owned(),
        |(sum, policy)| format!("`{}` {}", map.policies[policy], short((sum / cells.len() as f64).exp())),
    )
}

fn add_terms(page: &mut String) {
    let _ = write!(
        page,
        "\n## What the figures mean\n\n[map.csv](map.csv) has a line for each cell and policy:\n\n\
         * `packets`: packets of the simulation that the line is of.\n"
    );
    for objective in &OBJECTIVES {
        let _ = writeln!(page, "* `{}`: {}.", objective.key, objective.about);
    }
    page.push_str(
        "* `front`: 1 if no policy of the last round is better by one of these figures and worse by none, beyond \
         tolerances.\n\
         * `times`: p99 over the least p99 of the policy's last round.\n\
         * `times_order_kept`: the same, among policies that keep the order of flows; `NaN` if this one does not.\n",
    );
    let _ = write!(
        page,
        "\nThe largest flow's part of a core's work is its part of all work, times the load, times the cores. Flows a \
         core are those among the first {LOOKED_AT} packets. `ideal` is a host without a dispatcher, where nothing but \
         the services takes time; `server-16` has a dispatcher. A policy keeps order if at most 0.1 % of the \
         packets leave out of order in every cell of this map; where few packets meet, any policy does. A \
         policy that loses 1 % more of the packets than the one that loses least counts \
         as {PENALTY} times the best p99 at least. Where a rule names a policy that does not fit, hashing is used.\n"
    );
}

fn add_limits(page: &mut String, map: &WholeMap<'_>) {
    let rounds: Vec<String> = map.packets.iter().map(ToString::to_string).collect();
    let _ = write!(
        page,
        "\n## What was done, and what was not\n\n\
         * {} simulations in {} cells, in rounds of {} packets (10/3 times as many for `heavy-tailed`). Each directory \
         of `rounds` has one sweep for each round.\n\
         * Of {} policies that fit a class, cores and host, {} reached the last round, summed over all of them. The \
         others have the figures of their last round in map.csv, and are compared with the best of that round.\n\
         * One seed; `elephants`, `few-elephants` and `long-flows` have the medians of three, with a third of the \
         packets each. Differences of a few percent mean nothing.\n\
         * Packets leave as soon as they are done (`--flow-order free`). With `exit`, the default of `humpyard sim`, \
         they wait for their turn, which is not in this map.\n\
         * No real machine was measured. Wasted cores are a spread of utilization: no figure counts cores that are \
         idle while packets wait.\n",
        map.simulations,
        map.cells.len(),
        rounds.join(", "),
        map.fitting,
        map.last
    );
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for skipped in map.skipped.values().flatten() {
        let said = format!("`{}`: {}", skipped.policy, skipped.because);
        match reasons.iter_mut().find(|(known, _)| *known == said) {
            Some((_, count)) => *count += 1,
            None => reasons.push((said, 1)),
        }
    }
    if !reasons.is_empty() {
        let _ = write!(
            page,
            "\nPolicies that were skipped, each with the reason and the number of places (of {}):\n\n",
            map.skipped.len()
        );
        reasons.into_iter().for_each(|(said, count)| page.push_str(&format!("* {said} ({count})\n")));
    }
}
