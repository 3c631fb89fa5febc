//! The answer of `recommend` as text: one screen, and with `--details` all tables.

use humpyard::lab::recommend::{
    GoalFigure, Measure, Recommendation, SIZES, Sizing, Verification, capital, margin_text, shown,
};
use humpyard::lab::{Offered, cost_sources};

use crate::figures::counted;
use crate::layout::Sheet;

/// The figures of detailed tables, before those of the goal.
const FIGURES: [Measure; 6] =
    [Measure::Late, Measure::P50, Measure::P99, Measure::OutOfOrder, Measure::Loss, Measure::Fairness];

/// Returns the answer; with `details`, all tables too.
pub(super) fn text(said: &Recommendation, details: bool) -> String {
    let mut lines = vec![format!("{}.", capital(&said.reason))];
    lines.extend(policy(said));
    lines.extend(said.not_sure.iter().map(|why| format!("Not sure that it is so live: {why}.")));
    lines.extend(said.close.iter().map(|close| format!("Close: {close}, so a live run may be on the other side.")));
    lines.push(traffic(said));
    lines.extend(
        if details { None } else { said.sureness_in_short() }.map(|sureness| format!("{}.", capital(&sureness))),
    );
    if let Some(sizing) = &said.sizing {
        lines.push(format!("\n{}\n{}.", sizes(sizing), capital(&sizing.about())));
    } else {
        lines.push(format!("{}.", capital(&said.breaks())));
        lines.extend(said.elephant().map(|elephant| format!("{}.", capital(&elephant))));
    }
    if details {
        lines.extend(tables(said));
    }
    if let Some(verified) = &said.verified {
        lines.push(format!("\n{}.\n{}", capital(&verified.finding), verifications(said, verified, details)));
    }
    lines.extend(said.damage.iter().map(|damage| format!("The input ends early: {damage}.")));
    lines.extend(said.remarks.iter().map(|remark| format!("{}.", capital(remark))));
    if details {
        lines.extend(said.cost_lines.iter().map(|costs| format!("\n{}", costs.trim_end())));
    } else if said.cost_lines.is_some() {
        lines.push(
            "Costs were measured: --details and --report show their lines. In a file F, --costs F --host F repeats this."
                .to_owned(),
        );
    }
    lines.extend(commands(said));
    lines.join("\n") + "\n"
}

/// The policy to run and its margin.
fn policy(said: &Recommendation) -> Option<String> {
    let one = said.finalists.iter().find(|one| one.policy == said.policy)?;
    let alike = one.alike().map_or_else(String::new, |alike| format!(" ({alike})"));
    let kept = if one.holds { format!("margin {}", margin_text(one.margin)) } else { "broken".to_owned() };
    Some(format!("Policy `{}`{alike}, {}: {}, {kept}.", one.policy, counted(said.cores as u64, "core"), said.goal))
}

/// The traffic, and what was assumed.
fn traffic(said: &Recommendation) -> String {
    let whole = if said.is_whole_input { "all" } else { "the first" };
    let host = said.host.as_ref().map_or_else(|| "ideal host".to_owned(), |host| format!("host {}", host.name));
    format!(
        "{}: {whole} {} packets, {}; costs {}, {host}, seed {}.",
        said.input,
        said.packets,
        Offered::text(&[said.offered]),
        cost_sources(&said.costs),
        said.seed
    )
}

/// The commands that run the answer.
fn commands(said: &Recommendation) -> Vec<String> {
    let needed = said.cores_needed.as_ref().filter(|needed| needed.cores > said.cores);
    let needed = needed.and_then(|needed| Some((needed.cores, needed.command.as_ref()?)));
    let needed = needed.map(|(cores, command)| format!("\nWith {}:\n  {command}", counted(cores as u64, "core")));
    let run = said.command.iter().filter(|_| said.is_kept()).map(|command| {
        let interfaces = if command.contains(" iface:IN ") { " (IN and OUT are your interfaces)" } else { "" };
        format!("\nTo run it{interfaces}:\n  {command}")
    });
    needed.into_iter().chain(run).collect()
}

/// All tables.
fn tables(said: &Recommendation) -> Vec<String> {
    let mut lines = vec![format!("\n{}\nOf each figure the worst of {} seeds.\n", finalists(said), said.search.seeds)];
    lines.extend(said.sureness().map(|sureness| format!("{}.\n", capital(&sureness))));
    lines.push(format!(
        "The same packets faster, and on other numbers of cores, under the first seed:\n{}",
        variations(said)
    ));
    lines.push("The command of each row is in --json, and on the page of --report.".to_owned());
    if let Some(needed) = &said.cores_needed {
        lines.push(format!("The fewest cores found to keep the goal: {}, with `{}`.", needed.cores, needed.policy));
    }
    if !said.search.likely.is_empty() {
        let likely = said.search.likely.join(", ");
        lines.push(format!("Tried in all rounds, because the map has them near the best on such traffic: {likely}."));
    }
    lines.extend(said.baseline.iter().map(|baseline| format!("{}.", capital(&baseline.says()))));
    lines.extend(said.host.iter().map(|host| format!("Simulated on the host `{host}` ({}).", host.source)));
    lines
}

fn finalists(said: &Recommendation) -> String {
    let columns = said.columns(&FIGURES);
    let mut rows = sheet(&["policy", "goal", "margin"], &columns);
    for one in &said.finalists {
        let mut row = vec![one.policy.clone(), kept(one.holds), margin_text(one.margin)];
        row.extend(columns.iter().map(|figure| figure.shown(&one.figures)));
        rows.add_row(row);
    }
    let alike = said.finalists.iter().filter_map(|one| Some(format!("`{}`, {}.", one.policy, one.alike()?)));
    let alike: Vec<String> = alike.collect();
    format!("{rows}{}{}", if alike.is_empty() { "" } else { "\n" }, alike.join("\n"))
}

/// Returns an empty table with these headings, and these figures behind them.
fn sheet(headings: &[&str], figures: &[GoalFigure]) -> Sheet {
    let figures: Vec<String> = figures.iter().map(ToString::to_string).collect();
    let headings: Vec<&str> = headings.iter().copied().chain(figures.iter().map(String::as_str)).collect();
    Sheet::of_figures(&headings)
}

/// A row for what is promised of each policy, and one for what was measured.
fn verifications(said: &Recommendation, verified: &Verification, details: bool) -> String {
    let columns = said.columns(if details { &FIGURES } else { &[] });
    let mut rows = sheet(&["policy", "", "goal"], &columns);
    for one in &verified.policies {
        for (name, goal, figures) in one.rows() {
            let mut row = vec![one.policy.clone(), name.to_owned(), goal];
            row.extend(columns.iter().map(|figure| figure.shown(figures)));
            rows.add_row(row);
        }
    }
    rows.to_string()
}

/// A row for each policy, in each place.
fn variations(said: &Recommendation) -> String {
    let mut rows = Sheet::of_figures(&["traffic", "cores", "policy", "goal", "margin", "p99"]);
    for one in said.more_traffic.iter().chain(&said.other_cores) {
        rows.add_row([
            format!("x{}", one.multiplier),
            one.cores.to_string(),
            one.policy.clone(),
            kept(one.holds),
            margin_text(one.margin),
            shown(Measure::P99, one.figures.p99_ns),
        ]);
    }
    rows.to_string()
}

/// A row for each policy, and a column for each multiple of the traffic.
fn sizes(sizing: &Sizing) -> String {
    let multiples = SIZES.map(|multiple| format!("x{multiple}"));
    let headings: Vec<&str> = ["cores for"].into_iter().chain(multiples.iter().map(String::as_str)).collect();
    let mut rows = Sheet::of_figures(&headings);
    for of_policy in sizing.sizes.chunks(SIZES.len()) {
        let cells = of_policy.iter().map(|size| size.shown(sizing.most_tried));
        rows.add_row(of_policy.first().map(|size| size.policy.clone()).into_iter().chain(cells));
    }
    rows.to_string()
}

fn kept(holds: bool) -> String {
    if holds { "kept" } else { "broken" }.to_owned()
}
