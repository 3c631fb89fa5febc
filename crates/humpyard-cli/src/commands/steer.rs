//! `steer`: what arrives at an interface of this machine, why a processor is hot, and what policies would have done.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use humpyard::lab::metrics::{Endpoint, PacketsBy};
use humpyard::lab::parse_duration;
use humpyard::lab::steer::{
    Applied, ApplyOptions, DiagnoseOptions, Diagnosis, LiveFigures, ObserveOptions, RPS, RecordHead, STEER_POLICIES,
    SteerRecord, SteerSample, SteerTarget, Steering, Strain, Undone, caution, check_free, check_policies, diagnose,
    observe, report, undo,
};
use humpyard::policies::spec::PolicySpec;
use humpyard::random::Seed;
use humpyard::traffic::capture::PartialFile;

use crate::arguments::{CommonOptions, metrics_address};
use crate::commands::page::Page;
use crate::commands::run::endpoint;
use crate::failure::Failure;
use crate::figures::{counted, packet_rate, percent, time};
use crate::layout::Sheet;
use crate::options::whole;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// Samples shorter than this cost more than they tell.
const SAMPLE_MIN: Duration = Duration::from_millis(10);

/// Where programs look for the table of a fan-out group.
const MAPS: &str = "/sys/fs/bpf";

/// What a packet is taken to cost a reader.
const COST: Duration = Duration::from_micros(1);

/// The kernel's program compares the guard time in 32 bits of ns.
const GUARD_MAX: Duration = Duration::from_secs(2);

/// A part, such as 20% or 0.2.
fn part(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let part = number.trim().parse::<f64>().map(|number| number / whole);
    part.ok()
        .filter(|part| (0.0..1.0).contains(part))
        .ok_or_else(|| String::from("give a part below 100%, such as 20%"))
}

#[derive(Debug, Args)]
pub(crate) struct SteerArguments {
    /// Watch what arrives at this interface, and change nothing
    #[arg(long, value_name = "IFACE", conflicts_with = "from")]
    pub(crate) observe: Option<String>,
    /// Steer what arrives at cpumap:IFACE, rss:IFACE or rps:IFACE by the policy, after watching it for --for, until
    /// Ctrl-C; or the sockets of another program, by the object fanout:FILE
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["observe", "from"])]
    pub(crate) apply: Option<SteerTarget>,
    /// End the command that steers this interface, and restore what one that ended without a chance to has left
    #[arg(long, value_name = "IFACE", conflicts_with_all = ["observe", "from", "apply"])]
    pub(crate) undo: Option<String>,
    /// Take a record of an interface, as --record writes it, instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "longest", "every", "buckets"])]
    pub(crate) from: Option<String>,
    /// Steer only if the policy is foreseen to make 99 of 100 packets this much faster
    #[arg(long, value_name = "PART", conflicts_with_all = ["observe", "from", "undo"])]
    #[arg(allow_hyphen_values = true, value_parser = part)]
    pub(crate) apply_if: Option<f64>,
    /// End by itself, and with exit code 1, if more packets are dropped than before, or a processor is busier, for this long
    #[arg(long, value_name = "TIME", conflicts_with_all = ["observe", "from", "undo"], allow_hyphen_values = true)]
    pub(crate) rollback: Option<String>,
    /// End after steering for this long
    #[arg(long, value_name = "TIME", conflicts_with_all = ["observe", "from", "undo"], allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// A bucket moves once it has had no packet for this long: longer than any packet waits, so that order holds
    #[arg(long, value_name = "TIME", conflicts_with = "undo", allow_hyphen_values = true, default_value = "1ms")]
    pub(crate) guard: String,
    /// What giving a packet to another processor costs the one that receives it, in what is foreseen
    #[arg(long, value_name = "TIME", conflicts_with = "undo", allow_hyphen_values = true, default_value = "400ns")]
    pub(crate) hand_over: String,
    /// What it costs a processor that has received packets to go on with those that were given to it, in what is foreseen
    #[arg(long, value_name = "TIME", conflicts_with = "undo", allow_hyphen_values = true, default_value = "200ns")]
    pub(crate) resume: String,
    /// The sockets of the fan-out group (fanout:FILE): the threads of the program that reads
    #[arg(long, value_name = "N", conflicts_with_all = ["observe", "from", "undo"])]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) sockets: Option<u16>,
    /// The directory of the BPF file system in which the table of the fan-out group is (/sys/fs/bpf)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["observe", "from", "undo"])]
    pub(crate) maps: Option<PathBuf>,
    /// What a packet costs a reader of the fan-out group (1us)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["observe", "from", "undo"], allow_hyphen_values = true)]
    pub(crate) cost: Option<String>,
    /// How long to watch; Ctrl-C ends it earlier
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, default_value = "60s")]
    pub(crate) longest: String,
    /// How often to look, from 10ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "100ms")]
    pub(crate) every: String,
    /// Buckets into which a hash divides connections: a power of two
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = whole::<u32>(2, 65_536))]
    pub(crate) buckets: u32,
    /// Hash packets in tunnels by the packet inside: GRE, IP in IP, VXLAN, GTP-U
    #[arg(long, conflicts_with = "from")]
    pub(crate) inner: bool,
    /// Write a record to this new file: lines of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<String>,
    /// Write the answer as a page to this file: HTML with plots, which needs no network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "undo"])]
    pub(crate) report: Option<String>,
    /// The steering policies to compare: NAME or NAME:name=value,...; several may be given
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: Vec<String>,
    /// Serve metrics at this address meanwhile, for Prometheus and `humpyard top`; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics_address, conflicts_with_all = ["from", "undo"])]
    pub(crate) metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// `humpyard steer`.
pub(crate) fn steer(arguments: &SteerArguments) -> Result<ExitCode, Failure> {
    let stop = stop::on_signal()?;
    check_names(arguments)?;
    // Before a record is read, and before an interface is watched for a minute.
    guard(arguments)?;
    costs_beside(arguments)?;
    if let Some(interface) = &arguments.undo {
        let undone = undo(interface)?;
        Output::of(&arguments.common.output).answer(&undone, || undone_text(&undone))?;
        return Ok(ExitCode::SUCCESS);
    }
    match (&arguments.apply, &arguments.observe, &arguments.from) {
        (Some(target), _, _) => applied(arguments, target, &stop),
        (None, Some(interface), _) => {
            check_policies(&policies(&arguments.policy)?)?;
            let (policies, page) = (policies(&arguments.policy)?, Page::create(arguments.report.as_deref())?);
            let endpoint = arguments.metrics.map(endpoint).transpose()?;
            let record = observed(arguments, interface, endpoint, &stop)?;
            // Ctrl-C ended the observation; the next one ends the rest.
            stop.store(false, Ordering::Relaxed);
            told(arguments, &record, &policies, page, &stop)
        }
        (None, None, Some(file)) => {
            let page = Page::create(arguments.report.as_deref())?;
            told(arguments, &SteerRecord::read(file)?, &policies(&arguments.policy)?, page, &stop)
        }
        (None, None, None) => {
            Err(Failure::new("name an interface (--observe eth0, --apply cpumap:eth0) or a record (--from FILE)"))
        }
    }
}

/// Says what a record comes to.
fn told(
    arguments: &SteerArguments,
    record: &SteerRecord,
    policies: &[PolicySpec],
    page: Page,
    stop: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let diagnosis = diagnosed(arguments, record, policies, stop)?;
    page.write_html(|command| report(&diagnosis, record, command))?;
    Output::of(&arguments.common.output).answer(&diagnosis, || text(&diagnosis))?;
    Ok(ExitCode::SUCCESS)
}

fn diagnosed(
    arguments: &SteerArguments,
    record: &SteerRecord,
    policies: &[PolicySpec],
    stop: &AtomicBool,
) -> Result<Diagnosis, Failure> {
    let progress = Progress::new("replay", arguments.common.quiet);
    let (guard, (hand_over, resume)) = (guard(arguments)?, costs_beside(arguments)?);
    let options = DiagnoseOptions { policies, guard, hand_over, resume, seed: Seed(arguments.common.seed) };
    Ok(diagnose(record, options, stop, &mut |policy| progress.relabel(policy))?)
}

/// Watches an interface, then steers it.
fn applied(arguments: &SteerArguments, target: &SteerTarget, stop: &AtomicBool) -> Result<ExitCode, Failure> {
    let [policy] = &policies(&arguments.policy)?[..] else {
        return Err(Failure::new("--apply steers by one policy: name it, such as --policy rss++"));
    };
    let time = |option: &str, text: &Option<String>| text.as_deref().map(|text| positive(option, text)).transpose();
    let (rollback, until) = (time("rollback", &arguments.rollback)?, time("until", &arguments.until)?);
    let guard = guard(arguments)?;
    check_options(arguments, target)?;
    target.check()?;
    if let Some(interface) = target.interface() {
        check_policies(core::slice::from_ref(policy))?;
        check_free(interface)?;
    }
    let endpoint = arguments.metrics.map(endpoint).transpose()?;
    let (before, cost_ns) = match target.interface() {
        Some(interface) => watched(arguments, interface, (target, policy), stop)?,
        None => (Strain::default(), fanout_cost(arguments)?),
    };
    let options = ApplyOptions {
        target: target.clone(),
        observe: ObserveOptions { longest: until, ..observe_options(arguments, target.interface().unwrap_or(""))? },
        policy: policy.clone(),
        sockets: arguments.sockets.unwrap_or(0).into(),
        maps: arguments.maps.clone().unwrap_or_else(|| PathBuf::from(MAPS)),
        cost_ns,
        guard,
        rollback,
        before,
    };
    let steering = Steering::begin(options)?;
    output::say(&format!(
        "humpyard: {target} is steered by {policy} ({} buckets); Ctrl-C ends it{}. Changed:",
        arguments.buckets,
        target.interface().map_or(String::new(), |interface| format!(", and {interface} is as before"))
    ));
    steering.changed().iter().for_each(|line| output::say(&format!("humpyard: {line}")));
    if let SteerTarget::CpuMap(interface) = target {
        let caution = caution(interface);
        caution.iter().for_each(|caution| output::say(&format!("humpyard: {caution}")));
    }
    let progress = Progress::new(&policy.to_string(), arguments.common.quiet);
    let figures = LiveFigures::new(&target.to_string(), &policy.to_string(), target.packets_by());
    let _serving = endpoint.map(|endpoint| figures.serve(endpoint)).transpose()?;
    let mut packets = 0;
    let applied = steering.run(stop, &mut |steered| {
        figures.add(steered.sample, steered.table);
        figures.set_moves(steered.moves);
        packets += steered.sample.buckets.iter().map(|bucket| bucket.packets).sum::<u64>();
        progress.update(packets, None);
    })?;
    drop(progress);
    Output::of(&arguments.common.output).answer(&applied, || applied_text(&applied))?;
    Ok(ExitCode::from(u8::from(applied.rolled_back.is_some())))
}

/// Rejects options that do nothing with this target.
fn check_options(arguments: &SteerArguments, target: &SteerTarget) -> Result<(), Failure> {
    if arguments.inner && matches!(target, SteerTarget::Rss(_) | SteerTarget::Rps(_)) {
        return Err(Failure::new(format!("--inner: the hash of {target} is not humpyard's: take cpumap:")));
    }
    let of_readers = [
        ("sockets", arguments.sockets.is_some()),
        ("maps", arguments.maps.is_some()),
        ("cost", arguments.cost.is_some()),
    ];
    let given = of_readers.iter().find(|(_, is_given)| *is_given && target.interface().is_some());
    if let Some((option, _)) = given {
        return Err(Failure::new(format!("--{option}: only fanout:FILE has readers; leave it out with {target}")));
    }
    if arguments.record.is_some() && target.interface().is_none() {
        return Err(Failure::new("--record: with fanout:FILE no interface is watched"));
    }
    Ok(())
}

/// Watches an interface, and returns how it was and what a packet costs, if the policy is worth it.
fn watched(
    arguments: &SteerArguments,
    interface: &str,
    (target, policy): (&SteerTarget, &PolicySpec),
    stop: &AtomicBool,
) -> Result<(Strain, f64), Failure> {
    let record = observed(arguments, interface, None, stop)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::new("ended while watching: nothing was steered"));
    }
    let diagnosis = diagnosed(arguments, &record, core::slice::from_ref(policy), stop)?;
    // Of sets of processors the simulator knows the one with all of them.
    let name = if matches!(target, SteerTarget::Rps(_)) { RPS.to_owned() } else { policy.to_string() };
    let foreseen = diagnosis.policies.iter().find(|foreseen| foreseen.policy == name);
    if arguments.apply_if.is_some() && foreseen.is_none() {
        return Err(Failure::new(format!(
            "RPS is on at {interface} already: --apply-if cannot foresee what it changes"
        )));
    }
    let foreseen = foreseen.map_or(0.0, |foreseen| foreseen.margin);
    if let Some(wanted) = arguments.apply_if.filter(|&wanted| foreseen < wanted) {
        return Err(Failure::new(format!(
            "not steered: by {name} 99 of 100 packets would take {:.0} % less, and --apply-if asks for {:.0} %",
            100.0 * foreseen,
            100.0 * wanted
        )));
    }
    Ok((Strain::of(&record.samples), diagnosis.cost_ns))
}

/// What a packet costs a reader of a fan-out group, in ns, and a check of what else it takes to steer one.
fn fanout_cost(arguments: &SteerArguments) -> Result<f64, Failure> {
    if arguments.sockets.is_none() {
        return Err(Failure::new("--apply fanout: needs the number of sockets of the group, such as --sockets 4"));
    }
    if arguments.apply_if.is_some() || arguments.rollback.is_some() {
        return Err(Failure::new("--apply-if and --rollback need an interface: what readers drop is not known here"));
    }
    let cost = arguments.cost.as_deref().map(|cost| positive("cost", cost)).transpose()?;
    Ok(cost.unwrap_or(COST).as_nanos() as f64)
}

fn undone_text(undone: &Undone) -> String {
    let Undone { interface, target, policy, ended, restored, .. } = undone;
    let what = match ended {
        Some(process) => format!("Process {process} steered {target} by {policy}, and has ended."),
        None => format!("A command that steered {target} by {policy} had ended without a chance to undo it."),
    };
    let lines: String = restored.iter().map(|line| format!("{line}\n")).collect();
    format!("{what} {interface} is as it was.\n{lines}")
}

fn applied_text(applied: &Applied) -> String {
    let Applied { interface, policy, seconds, packets, moves, pending, before, meanwhile, rolled_back, .. } = applied;
    let mut rows = Sheet::of_figures(&["", "dropped", "busiest processor"]);
    for (name, strain) in [("before", before), ("steered", meanwhile)] {
        rows.add_row([name.to_owned(), percent(strain.dropped_fraction), percent(strain.busiest_fraction)]);
    }
    let ended = match rolled_back {
        Some(why) => format!("Ended by itself, for it was worse than before: {why}."),
        None => "Ended.".to_owned(),
    };
    let said = format!(
        "{interface} was steered by {policy} for {seconds:.1} s: {}, {} to another {}, {pending} of them not yet \
         done.\n\n",
        counted(*packets, "packet"),
        counted(*moves, "move"),
        if applied.target.starts_with("fanout:") { "socket" } else { "processor" }
    );
    if applied.target.starts_with("fanout:") {
        return said + "Ended. The readers keep the table as it is now, and the next command takes it over.\n";
    }
    let handed = applied.handed_over.map_or(String::new(), |handed| {
        format!(
            "Handed to processors: {}, {} dropped on the way, {} behind a later one of the same bucket.\n\n",
            counted(handed.packets, "packet"),
            handed.dropped,
            handed.overtaken
        )
    });
    format!("{said}{handed}{rows}\n\n{ended} {interface} is as it was.\n")
}

fn guard(arguments: &SteerArguments) -> Result<Duration, Failure> {
    let guard = duration("guard", &arguments.guard)?;
    match guard > GUARD_MAX {
        true => Err(Failure::new(format!("--guard: give at most {}s", GUARD_MAX.as_secs()))),
        false => Ok(guard),
    }
}

/// The most that --hand-over and --resume take.
const COST_BESIDE_MAX: Duration = Duration::from_millis(1);

/// Reads --hand-over and --resume.
fn costs_beside(arguments: &SteerArguments) -> Result<(Duration, Duration), Failure> {
    let read = |option: &str, text: &str| match duration(option, text)? {
        time if time > COST_BESIDE_MAX => {
            Err(Failure::new(format!("--{option}: give at most 1ms, the time of one packet")))
        }
        time => Ok(time),
    };
    Ok((read("hand-over", &arguments.hand_over)?, read("resume", &arguments.resume)?))
}

fn duration(option: &str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text).map_err(|error| Failure::new(format!("--{option}: {error}")))
}

/// A time above 0.
fn positive(option: &str, text: &str) -> Result<Duration, Failure> {
    let time = duration(option, text)?;
    match time.is_zero() {
        true => Err(Failure::new(format!("--{option}: give a time above 0, such as 30s; not `{text}`"))),
        false => Ok(time),
    }
}

/// Rejects what cannot be the name of an interface: a target is none.
fn check_names(arguments: &SteerArguments) -> Result<(), Failure> {
    let SteerArguments { observe, undo, apply, .. } = arguments;
    let of_target = apply.as_ref().and_then(SteerTarget::interface);
    let names = [("observe", observe.as_deref()), ("undo", undo.as_deref()), ("apply", of_target)];
    for (option, name) in names.into_iter().filter_map(|(option, name)| Some((option, name?))) {
        if name.is_empty() || name.contains([':', '/']) || name.contains(char::is_whitespace) {
            let of = if option == "apply" {
                "a target has the name of an interface behind its colon"
            } else {
                "give the name of an interface"
            };
            return Err(Failure::new(format!("--{option}: {of}, such as eth0; not `{name}`")));
        }
    }
    Ok(())
}

fn policies(given: &[String]) -> Result<Vec<PolicySpec>, Failure> {
    let names: Vec<&str> = match given {
        [] => STEER_POLICIES.to_vec(),
        _ => given.iter().map(String::as_str).collect(),
    };
    names.into_iter().map(|name| name.parse().map_err(Failure::from)).collect()
}

fn observe_options(arguments: &SteerArguments, interface: &str) -> Result<ObserveOptions, Failure> {
    let (every, longest) = (duration("every", &arguments.every)?, duration("for", &arguments.longest)?);
    if every < SAMPLE_MIN {
        return Err(Failure::new(format!("--every: give 10ms at least; not `{}`", arguments.every)));
    }
    if longest < every {
        let SteerArguments { every, longest, .. } = arguments;
        return Err(Failure::new(format!(
            "--for: give the time of a sample at least, --every {every}; not `{longest}`"
        )));
    }
    if !arguments.buckets.is_power_of_two() {
        let next = arguments.buckets.next_power_of_two();
        return Err(Failure::new(format!("--buckets: give a power of two, such as {next}")));
    }
    Ok(ObserveOptions {
        interface: interface.to_owned(),
        every,
        longest: Some(longest),
        bucket_bits: arguments.buckets.trailing_zeros(),
        inner: arguments.inner,
        seed: Seed(arguments.common.seed),
    })
}

fn observed(
    arguments: &SteerArguments,
    interface: &str,
    endpoint: Option<Endpoint>,
    stop: &AtomicBool,
) -> Result<SteerRecord, Failure> {
    let figures = LiveFigures::new(interface, "now", PacketsBy::ReceivingProcessor);
    let _serving = endpoint.map(|endpoint| figures.serve(endpoint)).transpose()?;
    let options = observe_options(arguments, interface)?;
    let longest = options.longest.unwrap_or(Duration::MAX);
    let mut file = arguments.record.as_deref().map(create).transpose()?;
    let progress = Progress::new(interface, arguments.common.quiet);
    let mut packets = 0;
    let mut show = |_: &RecordHead, sample: &SteerSample| {
        figures.add(sample, None);
        packets += sample.buckets.iter().map(|bucket| bucket.packets).sum::<u64>();
        progress.update(packets, Some(sample.time_ns as f64 / longest.as_nanos() as f64));
    };
    let named = arguments.record.as_deref().zip(file.as_mut().map(|file| file as &mut dyn Write));
    let record = observe(&options, stop, named, &mut show)?;
    if record.samples.is_empty() {
        return Err(Failure::new("ended before the first sample: nothing is known of the interface"));
    }
    if let Some((name, file)) = arguments.record.as_deref().zip(file) {
        let whole = file.into_inner().map_err(|error| error.into_error());
        whole.and_then(PartialFile::finish).map_err(|error| unwritable(name, &error))?;
    }
    Ok(record)
}

/// Begins a record, which gets its name when it is whole.
fn create(name: &str) -> Result<BufWriter<PartialFile>, Failure> {
    if Path::new(name).is_file() {
        return Err(Failure::new(format!("--record: `{name}` exists: name another file, or remove it")));
    }
    PartialFile::create(Path::new(name)).map(BufWriter::new).map_err(|error| unwritable(name, &error))
}

fn unwritable(name: &str, error: &io::Error) -> Failure {
    Failure::new(format!("--record: `{name}` cannot be written: {error}"))
}

fn text(diagnosis: &Diagnosis) -> String {
    let Diagnosis { interface, seconds, packets, buckets, buckets_used, .. } = diagnosis;
    let heading = format!(
        "{interface}: {} in {seconds:.1} s ({}), in {buckets_used} of {buckets} buckets; {}, {}",
        counted(*packets, "packet"),
        packet_rate(*packets as f64 / seconds),
        match diagnosis.queues {
            0 => "receive queues unknown".to_owned(),
            queues => counted(queues as u64, "receive queue"),
        },
        match (diagnosis.rps, diagnosis.napi_threads) {
            (true, None) => "RPS on",
            (false, None) => "RPS off",
            (true, Some(_)) => "RPS on, threaded NAPI",
            (false, Some(_)) => "RPS off, threaded NAPI",
        }
    );
    let mut said = vec![heading, processors(diagnosis), format!("Cause: {}", diagnosis.cause)];
    if !diagnosis.heavy_flows.is_empty() {
        said.push(heavy_flows(diagnosis));
    }
    said.push(foreseen(diagnosis));
    said.push(format!("Advice: {}", diagnosis.advice));
    said.join("\n\n") + "\n"
}

fn processors(diagnosis: &Diagnosis) -> String {
    let mut rows = Sheet::of_figures(&["processor", "packets", "softirq", "busy", "dropped"]);
    for one in &diagnosis.processors {
        let parts = [one.share, one.softirq_fraction, one.busy_fraction].map(percent);
        rows.add_row([vec![one.processor.to_string()], parts.to_vec(), vec![one.dropped.to_string()]].concat());
    }
    rows.to_string()
}

fn heavy_flows(diagnosis: &Diagnosis) -> String {
    let mut rows = Sheet::of_figures(&["heavy flow", "packets"]);
    for flow in &diagnosis.heavy_flows {
        let part = (flow.packets as f64 / diagnosis.packets as f64).min(1.0);
        rows.add_row([flow.flow.clone(), percent(part)]);
    }
    rows.to_string()
}

fn foreseen(diagnosis: &Diagnosis) -> String {
    let mut rows = Sheet::of_figures(&["policy", "imbalance", "p99", "dropped", "moves", "reordered", "margin"]);
    for one in &diagnosis.policies {
        rows.add_row([
            one.policy.clone(),
            format!("{:.2}", one.imbalance),
            time(one.p99_ns as f64),
            percent(one.dropped_fraction),
            one.moves.to_string(),
            percent(one.reordered_fraction),
            percent(one.margin),
        ]);
    }
    let cost = match diagnosis.cost_measured {
        true => format!("{} a packet, measured", time(diagnosis.cost_ns)),
        false => {
            let why = match diagnosis.napi_threads {
                Some(0) => "the time of the threads that take packets is not known",
                _ => "the kernel's time was too short to be measured",
            };
            format!("{} a packet, assumed: {why}", time(diagnosis.cost_ns))
        }
    };
    let [hand_over, resume, sample] =
        [diagnosis.hand_over_ns, diagnosis.resume_ns, diagnosis.sample_ns as f64].map(time);
    let basis = format!("{cost}; {hand_over} to give it on, {resume} to go on after receiving; samples of {sample}");
    format!("What policies would have done, by simulation ({basis}):\n\n{rows}")
}
