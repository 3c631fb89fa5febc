//! `recommend`: which policy, for this traffic and this goal.

use core::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;

use humpyard::lab::calibrate::INPUT;
use humpyard::lab::recommend::{
    Advice, Goal, RecommendOptions, Recommendation, TrialPlace, baseline, larger_host, recommend as search, verify,
    why_not_verified,
};
use humpyard::lab::report::ReportFile;
use humpyard::lab::{AUTO, AssumedHost, Control, Host, RunConfig, check, of_this_machine, spelled};
use humpyard::policies::spec::PolicySpec;
use humpyard::text::quantity::show_duration;

use crate::arguments::RecommendArguments;
use crate::caller::{self, named};
use crate::commands::configuration::configuration;
use crate::commands::costs::{costs, lines_measured_on_traffic, measure_on_traffic, measured_for, works};
use crate::commands::page::{Page, quoted};
use crate::commands::recommendation::text;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// `humpyard recommend`.
pub(crate) fn recommend(arguments: &RecommendArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let mut options = options(arguments)?;
    Output::of(&common.output).warn(&Goal::doubts(&arguments.goal));
    options.elsewhere = caller::caller().and_then(|caller| caller.elsewhere());
    if options.elsewhere.is_some() {
        may_travel(&options)?;
    }
    let why_not = why_not_verified(&options.config).map(|why| spelled(&why, "--"));
    if arguments.verify
        && let Some(why) = &why_not
    {
        return Err(Failure::new(format!("--verify: {why}")));
    }
    let verifies = why_not.is_none() && !arguments.no_verify && !arguments.size;
    let cost_lines = measured_costs(arguments, &mut options, verifies)?;
    let page = Page::create(arguments.report.as_deref())?;
    let plot = arguments.plot.as_deref().map(ReportFile::create).transpose()?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("recommend", common.quiet);
    let mut recommendation = search(&options, &stop, &mut |done, all, what| {
        progress.relabel_if_new(what);
        progress.count(done as u64, &format!("of {all} simulations"), Some(done as f64 / all as f64));
    })?;
    recommendation.cost_lines = cost_lines;
    if verifies {
        let mut show = |packets, part| progress.update(packets, part);
        let mut control = Control::new(&stop, &mut show);
        let verified = verify(&options.config, &recommendation, &mut control, |what| progress.relabel(what))?;
        recommendation.verified = Some(verified);
    } else if let Some(why) = why_not.filter(|_| !arguments.size) {
        recommendation.remarks.push(format!("nothing was run live: {why}"));
    }
    drop(progress);
    with_commands(&mut recommendation, &typed(), &options);
    page.write_html(|command| recommendation.html(command))?;
    if let Some(plot) = plot {
        plot.write(&recommendation.load_plot().svg().file())?;
    }
    Output::of(&common.output).answer(&recommendation, || text(&recommendation, arguments.details))?;
    for warning in recommendation.verified.iter().flat_map(|verified| &verified.warnings) {
        output::say(&format!("humpyard: {warning}"));
    }
    if let Some(damage) = &recommendation.damage {
        output::say(&format!("humpyard: {damage}"));
    }
    let kept = recommendation.verified.as_ref().is_none_or(|verified| verified.holds);
    let is_sound = recommendation.advice != Advice::NoPolicyHolds && kept && recommendation.damage.is_none();
    Ok(ExitCode::from(u8::from(!is_sound)))
}

/// Reads the input of a search, for a program that has its trials made by several processes.
///
/// # Errors
/// Options that are wrong, those that measure this machine, and an input that cannot be read.
pub(crate) fn place(arguments: &RecommendArguments) -> Result<TrialPlace, Failure> {
    let options = options(arguments)?;
    may_travel(&options)?;
    Ok(TrialPlace::read(&options)?)
}

/// Checks that nothing is measured: other machines have other costs.
fn may_travel(options: &RecommendOptions) -> Result<(), Failure> {
    let config = &options.config;
    if let Some(option) = of_this_machine(config) {
        return Err(Failure::new(format!(
            "--{option} is what was measured on this machine, and an executor has others: name a file or a table"
        )));
    }
    if config.table.is_some() {
        return Err(Failure::new("a table does not travel to workers: leave out executor, or name a capture"));
    }
    if config.reads_once() {
        return Err(Failure::new(
            "--input is read by every worker, which pipes and interfaces do not allow: use a file",
        ));
    }
    Ok(())
}

/// Measures what was not given: services, threads and, if live runs are wanted, plain hashing on this traffic. Returns
/// the lines of costs. `None`: they were given.
fn measured_costs(
    arguments: &RecommendArguments,
    options: &mut RecommendOptions,
    runs_live: bool,
) -> Result<Option<String>, Failure> {
    let quiet = arguments.common.quiet;
    let config = &mut options.config;
    if arguments.options.one("costs").is_some() || config.assumed.is_none() || config.reads_once() {
        return measured_for(config, quiet);
    }
    check(config)?;
    measure_on_traffic(config, quiet)?;
    if runs_live {
        let stop = stop::on_signal()?;
        let progress = Progress::new("hashing", quiet);
        let mut show = |packets, part| progress.update(packets, part);
        let mut control = Control::new(&stop, &mut show);
        options.baseline = Some(baseline(options, &mut control, |what| progress.relabel(what))?);
    }
    Ok(Some(lines_measured_on_traffic(&options.config)))
}

/// Packets of the input that are looked at, unless more or fewer are asked for.
const PACKETS: u64 = 200_000;

/// What is asked for.
fn options(arguments: &RecommendArguments) -> Result<RecommendOptions, Failure> {
    let goal = arguments.goal.parse()?;
    let candidates = arguments.candidate.iter().map(|text| named(text));
    let policies = candidates.collect::<Result<Vec<PolicySpec>, _>>()?;
    let any = policies.first().cloned().map_or_else(|| "hrw".parse(), Ok)?;
    let mut config = configuration(Host::Sim, any, arguments.workers, &arguments.options, &arguments.common)?;
    if !config.swaps.is_empty() {
        return Err(Failure::new("--swap makes another policy take over, and one is looked for: leave it out"));
    }
    if arguments.options.one("costs").is_none() {
        config.costs = costs(AUTO, works(&config.services))?;
    }
    if arguments.options.one("host").is_none() {
        config.assumed = Some(AssumedHost::here()?);
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
        size: arguments.size,
        baseline: None,
        elsewhere: None,
    })
}

/// What was typed behind `recommend`.
fn typed() -> Vec<String> {
    caller::typed().iter().skip(2).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Options that commands do not take over as they were typed: those with a value, and flags.
const OWN: [&str; 15] = [
    "--goal",
    "--plot",
    "--host",
    "--workers",
    "--cores",
    "--candidate",
    "--packets",
    "--budget",
    "--threads",
    "--report",
    "--rate",
    "--multiplier",
    "--load",
    "--of",
    "--tolerance",
];
/// Options of packets from a file or a generator, which interfaces do without.
const OF_A_FILE: [&str; 2] = ["--input", "--loop"];
const OWN_FLAGS: [&str; 6] = ["--json", "--quiet", "--verify", "--no-verify", "--size", "--details"];

/// What commands are made of: what was asked for, and of how many packets.
struct Asked<'a> {
    typed: &'a [String],
    options: &'a RecommendOptions,
    /// The packets that were looked at, where the input has more.
    packets: Option<u64>,
}

impl Asked<'_> {
    /// The command that runs a policy live on the same traffic. Workers without a dispatcher get it by interfaces alone,
    /// which the user is to name.
    fn live(&self, policy: &str) -> String {
        let has_dispatcher = self.options.config.dispatchers != Some(0);
        let mut words = self.words("run", has_dispatcher.then_some(1.0));
        if !has_dispatcher {
            add(&mut words, "input", "iface:IN");
            add(&mut words, "output", "iface:OUT");
        }
        add(&mut words, "policy", policy);
        add(&mut words, "workers", &self.options.config.cores.to_string());
        quoted(&words)
    }

    /// The command that simulates a policy on this many cores, with the same packets that many times faster.
    fn simulated(&self, policy: &str, cores: usize, times: f64) -> String {
        let mut words = self.words("sim", Some(times));
        if let Some(host) = &self.options.config.assumed {
            add(&mut words, "host", &host.name);
        }
        add(&mut words, "policy", policy);
        add(&mut words, "cores", &cores.to_string());
        quoted(&words)
    }

    /// A command, but for its policy and cores, with the same packets that many times faster. It names the rate of the
    /// traffic, so that it is the same for any number of cores. `None`: without packets.
    fn words(&self, command: &str, times: Option<f64>) -> Vec<String> {
        let mut words = vec!["humpyard".to_owned(), command.to_owned()];
        let mut rest = self.typed.iter();
        while let Some(word) = rest.next() {
            let name = word.split('=').next().unwrap_or_default();
            if OWN.contains(&name) || times.is_none() && OF_A_FILE.contains(&name) {
                if name == word {
                    rest.next();
                }
            } else if !OWN_FLAGS.contains(&name) {
                words.push(word.clone());
            }
        }
        let config = &self.options.config;
        if let Some(times) = times {
            for (name, value) in config.rate.fixed(config.cores).times(times).options() {
                add(&mut words, name, &value);
            }
            if let Some(packets) = self.packets {
                add(&mut words, "packets", &packets.to_string());
            }
        }
        for tolerance in self.tolerances() {
            add(&mut words, "tolerance", &tolerance);
        }
        let is_typed = |name: &str| self.typed.iter().any(|word| word.split('=').next() == Some(name));
        if !is_typed("--costs") {
            // Costs that were measured are in no file yet, so the command measures them again.
            if [AUTO, INPUT].contains(&config.costs.name.as_str()) {
                add(&mut words, "costs", AUTO);
            }
        }
        words
    }

    /// The tolerances of the run, with that of the goal.
    fn tolerances(&self) -> Vec<String> {
        let given = &self.options.config.tolerances;
        let of_goal = self.options.goal.tolerance().filter(|_| !given.iter().any(|(service, _)| service.is_empty()));
        let of_services = given.iter().map(|(service, time)| match service.as_str() {
            "" => show_duration(*time),
            service => format!("{service}={}", show_duration(*time)),
        });
        of_services.chain(of_goal.map(show_duration)).collect()
    }
}

fn add(words: &mut Vec<String>, name: &str, value: &str) {
    words.extend([format!("--{name}"), value.to_owned()]);
}

/// Names the command of everything that can be done again on the command line, which has no table of packets, and none
/// of the policies of a program.
fn with_commands(said: &mut Recommendation, typed: &[String], options: &RecommendOptions) {
    let packets = (!said.is_whole_input).then_some(said.packets);
    let asked = Asked { typed, options, packets };
    let RunConfig { table, own_policies, .. } = &options.config;
    let is_typable = |policy: &str| table.is_none() && own_policies.iter().all(|own| own.to_string() != policy);
    let simulated = |policy: &str, cores, times| {
        let is_on_host = larger_host(&options.config, cores).is_none();
        (is_on_host && is_typable(policy)).then(|| asked.simulated(policy, cores, times))
    };
    said.command = is_typable(&said.policy).then(|| asked.live(&said.policy));
    for varied in said.more_traffic.iter_mut().chain(&mut said.other_cores) {
        varied.command = simulated(&varied.policy, varied.cores, varied.multiplier);
    }
    for size in said.sizing.iter_mut().flat_map(|sizing| &mut sizing.sizes) {
        size.command = size.cores.and_then(|cores| simulated(&size.policy, cores, size.multiplier));
    }
    if let Some(needed) = &mut said.cores_needed {
        needed.command = simulated(&needed.policy, needed.cores, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use humpyard::lab::Rate;

    use super::*;

    fn options(rate: Rate) -> RecommendOptions {
        let mut config = RunConfig::new(Host::Sim, "in.pcap", "hrw".parse().expect("a policy"));
        (config.cores, config.rate) = (8, rate);
        let goal = "late<0.1%@2ms".parse().expect("a goal");
        let (policies, threads) = (Vec::new(), NonZeroUsize::MIN);
        RecommendOptions {
            config,
            goal,
            policies,
            packets: 1,
            budget: None,
            threads,
            size: false,
            baseline: None,
            elsewhere: None,
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_has_what_was_typed_and_the_policy() {
        let typed =
            words("--input in.pcap --goal late<0.1%@2ms --workers=8 --json --services dpi --report r.html --packets 7");
        let mut options = options(Rate::Trace);
        let asked = Asked { typed: &typed, options: &options, packets: None };
        assert_eq!(
            asked.live("ps-hrw:beta=0.5"),
            "humpyard run --input in.pcap --services dpi --rate trace --tolerance 2ms --policy 'ps-hrw:beta=0.5' --workers 8"
        );
        assert_eq!(
            Asked { packets: Some(7), ..asked }.simulated("drr", 10, 1.5),
            "humpyard sim --input in.pcap --services dpi --multiplier 1.5 --packets 7 --tolerance 2ms --policy drr --cores 10"
        );
        options.config.tolerances = vec![("web".to_owned(), Duration::from_millis(1))];
        let typed = words("--input=in.pcap --tolerance web=1ms --cores 8 --quiet --seed 3");
        let command = Asked { typed: &typed, options: &options, packets: None }.live("drr");
        assert!(command.contains("--seed 3 --rate trace --tolerance 'web=1ms' --tolerance 2ms --policy"), "{command}");
        options.config.costs.name = INPUT.to_owned();
        let command = Asked { typed: &typed, options: &options, packets: None }.live("drr");
        assert!(command.contains("--costs auto --policy drr"), "costs that were measured are in no file: {command}");
    }

    #[test]
    fn other_cores_have_the_same_traffic() {
        let typed = words("--input in.pcap --load 0.8 --rate=5 --goal x");
        let rate_of = |rate, times| {
            let options = options(rate);
            let command = Asked { typed: &typed, options: &options, packets: None }.simulated("hrw", 10, times);
            let rest = command.strip_prefix("humpyard sim --input in.pcap ").expect("a command");
            rest.split(" --tolerance").next().unwrap_or_default().to_owned()
        };
        let load = |of| Rate::Load { load: 0.8, of };
        assert_eq!(rate_of(load(None), 1.0), "--load 0.8 --of 8");
        assert_eq!(rate_of(load(Some(4)), 2.0), "--load 1.6 --of 4");
        assert_eq!(rate_of(Rate::PacketsPerSecond(2e6), 1.5), "--rate 3000000");
        assert_eq!(rate_of(Rate::Multiplied(10.0), 3.0), "--multiplier 30");
        assert_eq!(rate_of(Rate::Trace, 1.0), "--rate trace");
    }
}
