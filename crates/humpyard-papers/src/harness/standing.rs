//! Counts the claims of each paper by outcome.

use std::collections::BTreeSet;

use super::claim::claims;
use super::judged::ClaimVerdict;
use super::outcome::Outcome;
use super::page::Shown;

/// The counts of a paper's claims.
pub(super) struct Standing {
    /// The paper's name in `claims.toml`; `all` stands for the five papers.
    pub(super) paper: &'static str,
    /// All claims, those of each outcome, and those that were not run.
    pub(super) counts: [usize; 6],
}

impl Standing {
    /// The head of a table of counts.
    pub(super) const HEAD: [&str; 7] =
        ["paper", "claims", "holds", "contradicted", "depends on the seed", "not testable here", "not run"];
}

/// The claims that are not those of the five papers.
const APART: &str = "rivals";

/// Counts each claim once, paper by paper, then those of the five papers together, then the others.
pub(super) fn standings(shown: &[Shown]) -> Vec<Standing> {
    let judged: Vec<&ClaimVerdict> = shown.iter().flat_map(|one| &one.document.claims).collect();
    let mut papers: Vec<&'static str> = claims().iter().map(|claim| claim.paper.as_str()).collect();
    papers.dedup();
    let (apart, five): (Vec<_>, Vec<_>) = papers.into_iter().partition(|&paper| paper == APART);
    let mut standings: Vec<Standing> = five.into_iter().map(|paper| standing(paper, &judged)).collect();
    let mut all = [0; 6];
    for standing in &standings {
        all.iter_mut().zip(standing.counts).for_each(|(sum, count)| *sum += count);
    }
    standings.push(Standing { paper: "all", counts: all });
    standings.extend(apart.into_iter().map(|paper| standing(paper, &judged)));
    standings
}

fn standing(paper: &'static str, judged: &[&ClaimVerdict]) -> Standing {
    let of_paper = || claims().iter().filter(|claim| claim.paper == paper);
    let found = || judged.iter().filter(|verdict| verdict.paper == paper);
    let of = |outcome| found().filter(|verdict| verdict.outcome == outcome).count();
    let [holds, contradicted, depends, _] = Outcome::ALL.map(of);
    // A claim that cannot be tested needs no run.
    let untestable = of_paper().filter(|claim| claim.untestable.is_some()).count();
    let run: BTreeSet<&str> = found().map(|verdict| verdict.claim.as_str()).collect();
    let missing = of_paper().filter(|claim| claim.untestable.is_none() && !run.contains(claim.id.as_str())).count();
    Standing { paper, counts: [of_paper().count(), holds, contradicted, depends, untestable, missing] }
}
