//! The command line, declared.

use core::net::SocketAddr;

use clap::{Args, Parser, Subcommand, ValueEnum};
#[cfg(feature = "top")]
use humpyard::lab::metrics::USUAL_ADDRESS;

use crate::commands::{map::MapArguments, reproduce::ReproduceArguments, steer::SteerArguments, sweep::SweepArguments};
#[cfg(feature = "manual")]
use crate::examples::COMPLETIONS_EXAMPLES;
#[cfg(feature = "top")]
use crate::examples::TOP_EXAMPLES;
use crate::examples::{
    ADMIT_EXAMPLES, CALIBRATE_EXAMPLES, CHECK_EXAMPLES, COMPARE_EXAMPLES, COMPOSE_EXAMPLES, CUT_EXAMPLES, EXAMPLES,
    EXPLAIN_EXAMPLES, MERGE_EXAMPLES, RECOMMEND_EXAMPLES, REPRODUCE_EXAMPLES, RUN_EXAMPLES, SCALE_EXAMPLES,
    SCHEDULE_EXAMPLES, SIM_EXAMPLES, STEER_EXAMPLES, TOPOLOGY_EXAMPLES, VALIDATE_EXAMPLES, WHY_EXAMPLES,
};
use crate::options::{ForCompare, ForRecommend, ForRun, ForSim, ForValidate, ForWhy, OptionsOf, whole};
use crate::output::OutputOptions;

/// Share many cores among packets: try policies in a simulator, run them on real threads, use them in your program.
#[derive(Debug, Parser)]
#[command(name = "humpyard", version, arg_required_else_help = true, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compose traffic, run it live under several policies, and compare them
    #[command(after_help = "Example:\n  humpyard demo --packets 1000000 --workers 1")]
    Demo(DemoArguments),
    /// Run packets through real services on real threads
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    #[cfg(feature = "top")]
    /// Watch a live run that has --metrics: cores, services, queues, drops, ports, flows, policy
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArguments),
    /// Run packets in virtual time, on cores whose work is a cost model
    #[command(after_help = SIM_EXAMPLES)]
    Sim(SimArguments),
    /// Say which flows can be sure of their engines and link, and of what delay, and what would fit of the others
    #[command(after_help = ADMIT_EXAMPLES)]
    Admit(AdmitArguments),
    /// Run several policies on identical arrivals and put them side by side
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Simulate all combinations of options that a file names, into one table
    Sweep(SweepArguments),
    /// Map policies: which one suits which traffic, cores and host, by simulation of all of them
    Map(MapArguments),
    /// Find the policy and its parameters for your traffic and a goal, by simulation, and say what speaks for it
    #[command(after_help = RECOMMEND_EXAMPLES)]
    Recommend(RecommendArguments),
    /// Run policies live and in the simulator on the same arrivals, and say how far the simulator is from the truth
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate(ValidateArguments),
    /// Show the bare sequence of a sharing policy on always-ready clients
    #[command(after_help = SCHEDULE_EXAMPLES)]
    Schedule(ScheduleArguments),
    /// Do figures, tables and claims of the papers again: data, plots, and the outcome of each claim
    #[command(after_help = REPRODUCE_EXAMPLES)]
    Reproduce(ReproduceArguments),
    /// Measure on this machine what services cost, for `--costs`, and how far cores are from each other
    #[command(after_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArguments),
    /// Show which cores are near each other: of this machine, of a file, or of a machine by name
    #[command(after_help = TOPOLOGY_EXAMPLES)]
    Topology(TopologyArguments),
    /// Say whether a configuration file is good, and what it means, without running it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Play a journal again and say whether the same is decided
    #[command(
        after_help = "Examples:\n  humpyard run --input in.pcap --policy hrw --journal hrw.jsonl\n  humpyard replay \
                      hrw.jsonl\n  humpyard replay hrw.jsonl --policy conn\n\nExits with 1 if something is decided otherwise."
    )]
    Replay(ReplayArguments),
    /// Say why a packet was served when it was: what delayed it, what the policy knew, what would have helped
    #[command(after_help = WHY_EXAMPLES)]
    Why(WhyArguments),
    /// Watch an interface of this machine: why a processor is hot, and what other policies would have done
    #[command(after_help = STEER_EXAMPLES)]
    Steer(SteerArguments),
    /// Look into captures, and make new ones
    #[command(
        after_help = "Examples:\n  humpyard trace info in.pcap\n  humpyard trace cut in.pcap --output part.pcapng --packets 1..100\n  \
                      humpyard trace scale --factor 2.5 in.pcap more.pcap"
    )]
    Trace(TraceArguments),
    /// List what there is: policies, services, traffic profiles, cost tables, protocols, documents
    #[command(after_help = "Examples:\n  humpyard list policies\n  humpyard list services --json")]
    List(ListArguments),
    #[cfg(feature = "manual")]
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArguments),
    #[cfg(feature = "manual")]
    /// Print the manual page, or write those of all commands
    #[command(after_help = "Examples:\n  humpyard man > humpyard.1\n  humpyard man --output man1")]
    Man(ManArguments),
    /// Explain a policy, a service, a traffic profile, what a rule can say, or the keys of a result
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArguments),
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct CommonOptions {
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, display_order = 22)]
    pub(crate) seed: u64,
    /// No progress bar
    #[arg(long, display_order = 23)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Order {
    Exit,
    Hold,
    Free,
}

/// The file from which options of a run are taken.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigOption {
    /// Take options from this file: a key for each, by its long name; what is given here counts. `humpyard check` explains it
    // Read before the other options are.
    #[arg(long, value_name = "FILE.toml", display_order = 20)]
    pub(crate) config: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TiesOption {
    Lowest,
    Highest,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum HeavyOption {
    First,
    Last,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) options: OptionsOf<ForRun>,
    #[command(flatten)]
    pub(crate) file: ConfigOption,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    /// The policies: NAME, NAME:name=value,... or steer=NAME/share=NAME
    #[arg(long, value_name = "SPEC", display_order = 3)]
    pub(crate) policy: String,
    /// Worker threads; 0 does everything on one thread [default: 2; where packets come by interfaces as many as suit the machine
    /// and the services, which the start tells]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024), display_order = 4)]
    pub(crate) workers: Option<u16>,
    /// Serve metrics at this address during the run, for Prometheus and `humpyard top`; port 0 is any free port, which
    /// the run prints
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics_address, help_heading = "Live")]
    pub(crate) metrics: Option<SocketAddr>,
}

/// An address at which metrics are served.
pub(crate) fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| String::from("give an address and a port, such as 127.0.0.1:9464 or [::1]:9464"))
}

#[cfg(feature = "top")]
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// Where the run serves its metrics
    #[arg(value_name = "HOST:PORT", default_value = USUAL_ADDRESS)]
    pub(crate) address: String,
    /// How often to look, from 100ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "1s")]
    pub(crate) interval: String,
    /// Print one screen as text, of one interval, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one snapshot as JSON, and end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimArguments {
    #[command(flatten)]
    pub(crate) options: OptionsOf<ForSim>,
    #[command(flatten)]
    pub(crate) file: ConfigOption,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    /// The policies: NAME, NAME:name=value,... or steer=NAME/share=NAME
    #[arg(long, value_name = "SPEC", display_order = 3)]
    pub(crate) policy: String,
    /// Simulated cores; 0, with --host: the dispatcher serves all packets
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=16_384), display_order = 4)]
    pub(crate) cores: u16,
}

#[derive(Debug, Args)]
pub(crate) struct AdmitArguments {
    /// A flow; may be given several times. They are admitted in the order given, while there is room
    #[arg(long, value_name = "service=S,rate=R,length=L,burst=B,...")]
    pub(crate) flow: Vec<String>,
    /// A file of flows, which are admitted after those of --flow
    #[arg(long, value_name = "FILE.toml|FILE.csv")]
    pub(crate) flows: Option<String>,
    /// Engines
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub(crate) cores: u16,
    /// Speed of the first engines, by which --costs are divided; the others have 1. The slowest counts for all
    #[arg(long, value_name = "X,X,...")]
    pub(crate) speeds: Option<String>,
    /// What services cost, as in `humpyard sim`: table:NAME, calibrated, a file, or auto
    #[arg(long, value_name = "table:NAME|calibrated|FILE|auto", default_value = "table:measured")]
    pub(crate) costs: String,
    /// Bits per second of the link behind the engines, 1Gbit for example [default: as many as come]
    #[arg(long, value_name = "RATE")]
    pub(crate) link: Option<String>,
    /// The part of the engines that stays free
    #[arg(long, value_name = "X", default_value_t = 0.05, allow_negative_numbers = true)]
    pub(crate) margin: f64,
    /// Packets that meet a cold engine: all of them, which is sure, a part that was measured, or none
    #[arg(long, value_name = "worst|X|none", default_value = "worst")]
    pub(crate) cold: String,
    /// How far packets are from what they are estimated to take, as a part of it [default: 0.05, compress=0.25]
    #[arg(long, value_name = "[SERVICE=]X", value_delimiter = ',')]
    pub(crate) error: Vec<String>,
    /// How flows keep their order, as in runs: with hold a flow has one packet in service at a time, and so no more than one engine
    #[arg(long, value_enum, default_value_t = Order::Exit)]
    pub(crate) flow_order: Order,
    /// Time that an engine takes to be handed a packet, beside the work [default: as --costs say, else 0ns]
    #[arg(long, value_name = "TIME")]
    pub(crate) hand_over: Option<String>,
    /// Packets that an engine has at a time, done or not; give `run` the same
    #[arg(long, value_name = "PACKETS", default_value_t = 1, value_parser = whole::<u32>(1, 65_536))]
    pub(crate) in_flight: u32,
    /// Other work on the engines: at most a part of any time, and a time at once, 0.02:500us for example [default: as
    /// --costs say for the margin, else nothing]
    #[arg(long, value_name = "PART:TIME", allow_hyphen_values = true)]
    pub(crate) taken: Option<String>,
    /// Nodes and links instead of one router: each flow gets the path and the node where it is processed that are shortest
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["cores", "speeds", "link"])]
    pub(crate) topology: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// A configuration file
    #[arg(value_name = "FILE.toml", required_unless_present = "schema")]
    pub(crate) file: Option<String>,
    /// Check it for this command; may be given several times
    #[arg(long = "for", value_enum, value_name = "COMMAND")]
    pub(crate) commands: Vec<Configured>,
    /// Print the JSON schema of configuration files, by which editors complete and check them
    #[arg(long, conflicts_with_all = ["file", "commands"])]
    pub(crate) schema: bool,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// The commands that take a configuration file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Configured {
    Run,
    Sim,
    Compare,
}

#[cfg(feature = "manual")]
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(feature = "manual")]
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// A journal, as --journal writes it
    #[arg(value_name = "FILE")]
    pub(crate) journal: String,
    /// Ask these policies instead of those that wrote it: where do they decide otherwise?
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArguments {
    #[command(flatten)]
    pub(crate) options: OptionsOf<ForWhy>,
    #[command(flatten)]
    pub(crate) file: ConfigOption,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    /// Explain the slowest packet of this flow, as `trace info` shows it, with or without its protocol; <> has both ways
    #[arg(long, value_name = "SRC:PORT > DST:PORT", conflicts_with = "packet", display_order = 0)]
    pub(crate) flow: Option<String>,
    /// Explain this packet, by its number from 1 [default: the packet whose delay is the p99 of the run]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, u64::MAX), display_order = 0)]
    pub(crate) packet: Option<u64>,
    /// Read this journal, which `run` or `sim` wrote with --journal, instead of simulating a run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "policy", "cores", "config"], display_order = 1)]
    pub(crate) journal: Option<String>,
    /// The policies: NAME, NAME:name=value,... or steer=NAME/share=NAME
    #[arg(long, value_name = "SPEC", required_unless_present = "journal", display_order = 3)]
    pub(crate) policy: Option<String>,
    /// Simulated cores; 0, with --host: the dispatcher serves all packets [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=16_384), display_order = 4)]
    pub(crate) cores: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    #[command(flatten)]
    pub(crate) options: OptionsOf<ForCompare>,
    #[command(flatten)]
    pub(crate) file: ConfigOption,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    /// A policy; give several
    #[arg(long, value_name = "SPEC", required = true, display_order = 3)]
    pub(crate) policy: Vec<String>,
    /// Compare on real threads instead of in virtual time
    #[arg(long, display_order = 11)]
    pub(crate) live: bool,
    /// Simulated cores
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "live", value_parser = clap::value_parser!(u16).range(1..=16_384), display_order = 4)]
    pub(crate) cores: u16,
    /// Worker threads, with --live
    #[arg(long, value_name = "N", default_value_t = 2, requires = "live", value_parser = clap::value_parser!(u16).range(0..=1024), display_order = 4)]
    pub(crate) workers: u16,
    /// Run each policy this many times, in turn, each time with the next seed; tables then have medians and ranges
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1, 10_000), display_order = 12)]
    pub(crate) repeat: u32,
    /// Write a page of findings, plots and tables to this file (HTML, which fetches nothing)
    #[arg(long, value_name = "FILE", display_order = 13)]
    pub(crate) report: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RecommendArguments {
    #[command(flatten)]
    pub(crate) options: OptionsOf<ForRecommend>,
    #[command(flatten)]
    pub(crate) file: ConfigOption,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    /// Bounds such as late<0.1%@2ms, p99<500us, p99[dpi]<500us, loss[client3]<1%, and min=p99 or the like: see below
    #[arg(long, value_name = "BOUND,...")]
    pub(crate) goal: String,
    /// Cores of the simulation, and workers of the recommended command
    #[arg(long, visible_alias = "cores", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Try this policy; may be given several times [default: all that fit]
    #[arg(long, value_name = "SPEC")]
    pub(crate) candidate: Vec<String>,
    /// Simulations of these packets that the search may take, about: more begins with more of the input [default: 84]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub(crate) budget: Option<u32>,
    /// Threads; they change nothing but the time it takes [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Run the recommended policy and plain hashing live, too [default: where the workers fit this machine, on the host `here`]
    #[arg(long, conflicts_with = "no_verify")]
    pub(crate) verify: bool,
    /// Run nothing live at the end
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Count the cores that keep the goal at 1, 1.5, 2 and 3 times the traffic, and run nothing live
    #[arg(long, conflicts_with = "verify")]
    pub(crate) size: bool,
    /// Print all tables, too: finalists, more traffic, other cores, and the costs that were measured
    #[arg(long)]
    pub(crate) details: bool,
    /// Write a page with a plot of the delay over load and all tables to this file (HTML, which fetches nothing)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<String>,
    /// Draw the delay over load of the winner, the runner-up and plain hashing in this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArguments {
    #[command(flatten)]
    pub(crate) options: OptionsOf<ForValidate>,
    #[command(flatten)]
    pub(crate) file: ConfigOption,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    /// A policy; give several [default: hrw, rr, fcfs, drr]
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: Vec<String>,
    /// Worker threads; 0 does everything on one thread [default: one for each processor beside dispatchers and reader]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) workers: Option<u16>,
    /// Warn where live figures have drifted from those that `humpyard validate --json` of the same input printed to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<String>,
    /// Write a page with all figures to this file (HTML, which fetches nothing)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Packets of each run [default: as many as come in a second]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, 1_000_000_000))]
    pub(crate) packets: Option<u64>,
    /// Run each policy this many times, in turn, each time with the next seed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1, 1000))]
    pub(crate) repeat: u32,
    /// Write a page of findings, plots and tables to this file; null: writes none
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) report: String,
    /// Worker threads; 0 does everything on one thread [default: one for each processor but that of the dispatcher]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) workers: Option<u16>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// The services, with parameters if they like: forward,encrypt:cipher=cast-128,spi=300; or all, or none
    #[arg(long, value_name = "SERVICE,...", default_value = "all")]
    pub(crate) services: String,
    /// How long it is to take, about: more is more exact
    #[arg(long, value_name = "S", default_value_t = 12.0)]
    pub(crate) seconds: f64,
    /// Take no more than 3 seconds
    #[arg(long, conflicts_with = "seconds")]
    pub(crate) quick: bool,
    /// Write the costs to this file, for `--costs FILE` of `sim`, `run` and `compare` (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Keep the costs for this user, for `--costs calibrated`
    #[arg(long)]
    pub(crate) save: bool,
    /// Measure the ways between all pairs of cores, too: the round trip of a cache line, and handing over a packet
    #[arg(long)]
    pub(crate) matrix: bool,
    /// Measure what the machine adds to the work, too: how threads are interrupted, and what it takes to hand a packet over
    #[arg(long)]
    pub(crate) machine: bool,
    /// Write the ways between cores to this file with the tree of this machine, for `--topology FILE` (TOML); implies --matrix
    #[arg(long, value_name = "FILE")]
    pub(crate) matrix_output: Option<String>,
    /// Write plots (SVG), and a page with them and the papers' figures, into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TopologyArguments {
    /// machine (this one: the processors that may be used), a file, e5355, epyc-2p, numa4x16, or fan-outs such as 2x4x2
    #[arg(value_name = "SOURCE", default_value = "machine")]
    pub(crate) source: String,
    /// Write it to this file, for `--topology FILE` (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Draw what it costs cores to talk as a heat map in this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleArguments {
    /// A sharing policy
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: String,
    /// Weights of the clients, numbered from 1
    #[arg(long, value_name = "W,W,...", required_unless_present = "clients")]
    pub(crate) weights: Option<String>,
    /// Steps to show; of random weights the steps of each draw [default: until the schedule repeats: --total / --processors]
    #[arg(long, value_name = "N", required_unless_present = "clients", value_parser = whole::<u32>(1, 100_000_000))]
    pub(crate) slots: Option<u32>,
    /// Processors, each of which serves one unit of work per step
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) processors: u16,
    /// Clients in order of arrival, for example 2,1,3
    #[arg(long, value_name = "C,C,...")]
    pub(crate) order: Option<String>,
    /// Draw the service error of each client over time in this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<String>,
    /// Which of two equals goes first
    #[arg(long, value_enum, default_value_t = TiesOption::Lowest)]
    pub(crate) ties: TiesOption,
    /// Clients with random weights instead of --weights, one of them heavy; only the extremes of their errors are shown
    #[arg(long, value_name = "N", conflicts_with_all = ["weights", "order", "plot"], requires = "total", value_parser = whole::<u32>(2, 1_048_576))]
    pub(crate) clients: Option<u32>,
    /// What random weights add up to
    #[arg(long, value_name = "S", requires = "clients", conflicts_with = "weights", value_parser = whole::<u32>(2, 1_073_741_824))]
    pub(crate) total: Option<u32>,
    /// The part of the total that the heavy client has, from 0 to 1; above 1 / --processors it cannot be served as much
    #[arg(
        long,
        value_name = "H",
        requires = "clients",
        conflicts_with = "weights",
        default_value_t = 0.1,
        allow_negative_numbers = true
    )]
    pub(crate) skew: f64,
    /// How often random weights are drawn
    #[arg(long, value_name = "K", requires = "clients", conflicts_with = "weights", default_value_t = 100, value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub(crate) draws: u32,
    /// Whether the heavy client is number 1 and arrives before all others, or is the last and arrives behind them
    #[arg(long, value_enum, requires = "clients", conflicts_with = "weights", default_value_t = HeavyOption::First)]
    pub(crate) heavy: HeavyOption,
    /// Threads among which draws are divided, which changes nothing else [default: one for each core]
    #[arg(long, value_name = "N", requires = "clients", conflicts_with = "weights", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Say what is in a capture
    #[command(
        after_help = "Examples:\n  humpyard trace info in.pcap\n  zcat in.pcap.gz | humpyard trace info - --json"
    )]
    Info(TraceInfoArguments),
    /// Compose a capture: arrival times of one source, flow sizes of a law, packets of a real capture
    #[command(after_help = COMPOSE_EXAMPLES)]
    Compose(TraceComposeArguments),
    /// Write a capture with this many times as many flows, each of them as it was
    #[command(after_help = SCALE_EXAMPLES)]
    Scale(TraceScaleArguments),
    /// Write a part of a capture: of its time, its packets, its flows, its bytes
    #[command(after_help = CUT_EXAMPLES)]
    Cut(TraceCutArguments),
    /// Write several captures as one, by the times of their packets
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(TraceMergeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct TraceCutArguments {
    /// A capture, `-`, or gen:PROFILE:name=value,...
    #[arg(value_name = "SRC")]
    pub(crate) input: String,
    /// Where packets go: a capture file (.pcap or .pcapng, .gz or .zst), `-`, or null:
    #[arg(long, value_name = "DST")]
    pub(crate) output: String,
    /// From so long after the first packet on
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Until before so long after the first packet
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// By their numbers from 1, both included: 10..20, 10.. or ..20
    #[arg(long, value_name = "FIRST..LAST")]
    pub(crate) packets: Option<String>,
    /// Packets of this kind: tcp, udp, icmp, ipv4, ipv6, other
    #[arg(long = "match", value_name = "KIND")]
    pub(crate) matches: Option<String>,
    /// Packets of this flow, as `trace info` shows it; with <> instead of > those of both directions
    #[arg(long, value_name = "FLOW")]
    pub(crate) flow: Option<String>,
    /// Tunnels to look into for kind and flow: gre, vxlan, gtp-u, ip-in-ip, separated by commas, or all
    #[arg(long, value_name = "LIST", default_value = "none")]
    pub(crate) inner: String,
    /// Bytes kept of each packet, at most
    #[arg(long, value_name = "BYTES", value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub(crate) snap: Option<u32>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TraceMergeArguments {
    /// Captures, one of which may be `-`
    #[arg(value_name = "SRC", required = true, num_args = 2..)]
    pub(crate) inputs: Vec<String>,
    /// Where packets go: a capture file (.pcap or .pcapng, .gz or .zst), `-`, or null:
    #[arg(long, value_name = "DST")]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TraceInfoArguments {
    /// A capture, `-`, or gen:PROFILE:name=value,...
    #[arg(value_name = "SRC")]
    pub(crate) input: String,
    /// Flows that have had no packet for so long have ended, for example 60s: what comes later is another flow
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) flow_timeout: Option<String>,
    /// Tunnels to look into, for the flow inside: gre, vxlan, gtp-u, ip-in-ip, separated by commas, or all
    #[arg(long, value_name = "LIST", default_value = "none")]
    pub(crate) inner: String,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TraceComposeArguments {
    /// When packets come: a capture, or gen:PROFILE:name=value,...
    #[arg(long, value_name = "SRC", default_value = "gen:poisson")]
    pub(crate) arrivals: String,
    /// How many packets flows have: constant:packets=N, geometric:mean=X, pareto:shape=A,mean=X,max=N, or `capture` for as many as in the payloads
    #[arg(long, value_name = "LAW", default_value = "pareto")]
    pub(crate) flows: String,
    /// What packets carry: a capture, or gen:PROFILE:name=value,...
    #[arg(long, value_name = "SRC")]
    pub(crate) payloads: String,
    /// How many flows go on at a time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = whole::<u64>(1, 1_048_576))]
    pub(crate) concurrent: u64,
    /// Where packets go: a capture file (.pcap or .pcapng, .gz or .zst), or `-`
    #[arg(long, value_name = "DST")]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TraceScaleArguments {
    /// How many times as many flows there are to be: 0.0001 to 256
    #[arg(long, value_name = "S")]
    pub(crate) factor: f64,
    /// What is scaled: a capture file, or gen:PROFILE:name=value,...
    #[arg(value_name = "SRC")]
    pub(crate) input: String,
    /// Where packets go: a capture file (.pcap or .pcapng, .gz or .zst), or `-`
    #[arg(value_name = "DST")]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// What to list [default: all but protocols]
    #[arg(value_enum)]
    pub(crate) what: Option<Listed>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Listed {
    Policies,
    Services,
    Experiments,
    Profiles,
    Costs,
    Protocols,
    Documents,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// A policy, a service, an experiment, a traffic profile, a cost table, a document of --json, or `rule`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}
