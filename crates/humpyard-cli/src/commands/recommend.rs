//! `recommend`: which policy, for this traffic and this goal.

use core::num::NonZeroUsize;
use core::time::Duration;
use std::env;
use std::process::ExitCode;
use std::thread;

use humpyard::lab::recommend::{
    Advice, Finalist, Measure, RecommendOptions, Recommendation, Variation, margin_text, recommend as search, shown,
};
use humpyard::lab::{AUTO, Host, Rate, cost_sources};
use humpyard::policies::spec::PolicySpec;

use crate::arguments::RecommendArguments;
use crate::commands::configuration::configuration;
use crate::commands::costs::{costs, measure_for, works};
use crate::commands::page::Page;
use crate::failure::Failure;
use crate::figures::percent;
use crate::layout::Sheet;
use crate::output;
use crate::progress::Progress;
use crate::stop;

/// `humpyard recommend`.
pub(crate) fn recommend(arguments: &RecommendArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.traffic.common;
    let mut options = options(arguments)?;
    measure_for(&mut options.config, common.quiet)?;
    let page = Page::create(arguments.report.as_deref())?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("recommend", common.quiet);
    let mut recommendation = search(&options, &stop, &mut |done, all, what| {
        progress.relabel_if_new(what);
        progress.count(done as u64, &format!("of {all} simulations"), Some(done as f64 / all as f64));
    })?;
    drop(progress);
    recommendation.command = Some(live_command(&typed(), &options, &recommendation.policy));
    page.write_html(|command| recommendation.html(command))?;
    if common.json {
        output::print_json(&recommendation)?;
    } else {
        output::tell(&text(&recommendation))?;
    }
    Ok(ExitCode::from(u8::from(recommendation.advice == Advice::NoPolicyHolds)))
}

/// Packets of the input that are looked at, unless more or fewer are asked for.
const PACKETS: u64 = 200_000;

/// What is asked for.
fn options(arguments: &RecommendArguments) -> Result<RecommendOptions, Failure> {
    let goal = arguments.goal.parse()?;
    let candidates = arguments.candidate.iter().map(|text| text.parse());
    let policies = candidates.collect::<Result<Vec<PolicySpec>, _>>()?;
    let any = policies.first().cloned().map_or_else(|| "hrw".parse(), Ok)?;
    let mut config = configuration(Host::Sim, any, arguments.workers, &arguments.traffic)?;
    if !config.swaps.is_empty() {
        return Err(Failure::new("--swap makes another policy take over, and one is looked for: leave it out"));
    }
    if arguments.traffic.costs.is_none() {
        config.costs = costs(AUTO, works(&config.services))?;
    }
    // All packets that are looked at are read once; a command that runs them again names how many.
    let packets = config.packets.take().unwrap_or(PACKETS);
    let threads = arguments.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    Ok(RecommendOptions {
        config,
        goal,
        policies,
        packets,
        budget: arguments.budget,
        threads: threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN),
    })
}

/// What was typed behind `recommend`.
fn typed() -> Vec<String> {
    env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Options that `run` does not have: those with a value, and flags.
const OWN: [&str; 8] =
    ["--goal", "--workers", "--cores", "--candidate", "--packets", "--budget", "--threads", "--report"];
const OWN_FLAGS: [&str; 2] = ["--json", "--quiet"];

/// The command that runs this policy live on the same input.
fn live_command(typed: &[String], options: &RecommendOptions, policy: &str) -> String {
    let mut words = vec!["humpyard".to_owned(), "run".to_owned()];
    let mut rest = typed.iter();
    while let Some(word) = rest.next() {
        let name = word.split('=').next().unwrap_or_default();
        if OWN.contains(&name) {
            if name == word {
                rest.next();
            }
        } else if !OWN_FLAGS.contains(&name) {
            words.push(word.clone());
        }
    }
    let is_typed = |name: &str| typed.iter().any(|word| word == name || word.starts_with(&format!("{name}=")));
    let mut add = |name: &str, value: String| words.extend([name.to_owned(), value]);
    add("--policy", policy.to_owned());
    add("--workers", options.config.cores.to_string());
    if options.config.rate == Rate::Trace && !is_typed("--rate") {
        add("--rate", "trace".to_owned());
    }
    if let Some(tolerance) = options.goal.tolerance().filter(|_| !is_typed("--tolerance")) {
        add("--tolerance", duration(tolerance));
    }
    if !is_typed("--costs") && options.config.costs.is_auto() {
        add("--costs", AUTO.to_owned());
    }
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

/// A time as options take it.
fn duration(time: Duration) -> String {
    let ns = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let found = units.into_iter().find(|(_, unit)| ns.is_multiple_of(*unit));
    found.map_or_else(|| format!("{ns}ns"), |(name, unit)| format!("{}{name}", ns / unit))
}

/// The figures of which tables tell.
const FIGURES: [Measure; 6] =
    [Measure::Late, Measure::P50, Measure::P99, Measure::OutOfOrder, Measure::Loss, Measure::Fairness];

fn text(said: &Recommendation) -> String {
    let whole = if said.is_whole_input { "all" } else { "the first" };
    let mut lines = vec![
        format!("{}.", capital(&said.reason)),
        format!(
            "{} of {}: {whole} {} packets, {} cores, costs {}, seed {}.\n",
            said.goal,
            said.input,
            said.packets,
            said.cores,
            cost_sources(&said.costs),
            said.seed
        ),
        format!("{}\nOf each figure the worst of {} seeds.\n", finalists(&said.finalists), said.search.seeds),
    ];
    lines.extend(said.sureness().map(|sureness| format!("{}.\n", capital(&sureness))));
    lines.push(format!("Another load, or other cores:\n{}", variations(said)));
    if let Some(needed) = &said.cores_needed {
        lines.push(format!("The fewest cores found to keep the goal: {}, with `{}`.", needed.cores, needed.policy));
    }
    lines.extend(said.damage.iter().map(|damage| format!("The input ends early: {damage}.")));
    lines.extend(said.remarks.iter().map(|remark| format!("{}.", capital(remark))));
    lines.extend(said.command.iter().map(|command| format!("\nTo run it:\n  {command}")));
    lines.join("\n") + "\n"
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn finalists(finalists: &[Finalist]) -> String {
    let mut headings = vec!["policy", "goal", "margin"];
    headings.extend(FIGURES.map(Measure::name));
    let mut rows = Sheet::of_figures(&headings);
    for one in finalists {
        let mut row = vec![one.policy.clone(), kept(one.holds), margin_text(one.margin)];
        row.extend(FIGURES.map(|figure| shown(figure, one.figures.of_measure(figure))));
        rows.add_row(row);
    }
    rows.to_string()
}

/// A row for each load and number of cores, a column for each policy.
fn variations(said: &Recommendation) -> String {
    let all: Vec<&Variation> = said.loads.iter().chain(&said.other_cores).collect();
    let place = |one: &Variation| (one.load, one.cores);
    let policies: Vec<&str> =
        all.iter().take_while(|one| place(one) == place(all[0])).map(|one| one.policy.as_str()).collect();
    let mut headings = vec!["load", "cores"];
    headings.extend(&policies);
    let mut rows = Sheet::of_figures(&headings);
    for of_place in all.chunks(policies.len().max(1)) {
        let mut row = vec![percent(of_place[0].load), of_place[0].cores.to_string()];
        row.extend(of_place.iter().map(|one| {
            format!("{}, {}, p99 {}", kept(one.holds), margin_text(one.margin), shown(Measure::P99, one.figures.p99_ns))
        }));
        rows.add_row(row);
    }
    rows.to_string()
}

fn kept(holds: bool) -> String {
    if holds { "kept" } else { "broken" }.to_owned()
}

#[cfg(test)]
mod tests {
    use humpyard::lab::RunConfig;

    use super::*;

    #[test]
    fn the_command_has_what_was_typed_and_the_policy() {
        let mut config = RunConfig::new(Host::Sim, "in.pcap", "hrw".parse().expect("a policy"));
        config.cores = 8;
        let goal = "late<0.1%@2ms".parse().expect("a goal");
        let options = RecommendOptions {
            config,
            goal,
            policies: Vec::new(),
            packets: 1,
            budget: None,
            threads: NonZeroUsize::MIN,
        };
        let command = |typed: &str| {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            live_command(&words, &options, "ps-hrw:beta=0.5")
        };
        assert_eq!(
            command("--input in.pcap --goal late<0.1%@2ms --workers=8 --json --services dpi --report r.html"),
            "humpyard run --input in.pcap --services dpi --policy 'ps-hrw:beta=0.5' --workers 8 --rate trace --tolerance 2ms"
        );
        let command = command("--input=in.pcap --rate trace --tolerance web=1ms --cores 8 --quiet");
        assert!(!command.contains("2ms") && command.matches("--rate").count() == 1, "{command}");
    }

    #[test]
    fn times_are_as_short_as_they_can_be() {
        let times = [2_000_000_000, 1_500_000, 500_000, 7].map(|ns| duration(Duration::from_nanos(ns)));
        assert_eq!(times, ["2s", "1500us", "500us", "7ns"]);
    }
}
