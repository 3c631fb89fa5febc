//! The command line, declared.

use core::net::SocketAddr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use humpyard::lab::metrics::USUAL_ADDRESS;
use humpyard::lab::timeline::TIMELINE_PACKETS;

/// Share many cores among packets: try policies in a simulator, run them on real threads, use them in your program.
#[derive(Debug, Parser)]
#[command(name = "humpyard", version, arg_required_else_help = true, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  humpyard demo
  humpyard run --input in.pcap --output out.pcap --policy hrw --workers 2
  humpyard sim --input in.pcap --policy drr --cores 4 --load 0.9
  humpyard compare --input in.pcap --policy rr --policy hrw --policy hrw/drr --cores 8 --load 0.8
  humpyard sim --input gen:onoff:packets=1M --policy hrw --cores 16
  humpyard schedule --policy sfq --weights 12,3,3,2,2,2 --slots 24
  humpyard explain drr

Exit codes: 0 done, 1 it ran but a check failed or the input was damaged, 2 bad usage or input.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compose traffic, run it live under several policies, and compare them
    #[command(after_help = "Example:\n  humpyard demo --packets 1000000 --workers 1")]
    Demo(DemoArguments),
    /// Run packets through real services on real threads
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
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
    /// Find the policy and its parameters for your traffic and a goal, by simulation, and say what speaks for it
    #[command(after_help = RECOMMEND_EXAMPLES)]
    Recommend(RecommendArguments),
    /// Run policies live and in the simulator on the same arrivals, and say how far the simulator is from the truth
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate(ValidateArguments),
    /// Show the bare sequence of a sharing policy on always-ready clients
    #[command(after_help = SCHEDULE_EXAMPLES)]
    Schedule(ScheduleArguments),
    /// Do figures, tables and claims of the papers again: data, plots, and a verdict on each claim
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
    /// Look into captures, and make new ones
    #[command(
        after_help = "Examples:\n  humpyard trace info in.pcap\n  humpyard trace cut in.pcap --output part.pcapng --packets 1..100\n  \
                      humpyard trace scale --factor 2.5 in.pcap more.pcap"
    )]
    Trace(TraceArguments),
    /// List what there is: policies, services, traffic profiles, cost tables, protocols
    #[command(after_help = "Examples:\n  humpyard list policies\n  humpyard list services --json")]
    List(ListArguments),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArguments),
    /// Print the manual page, or write those of all commands
    #[command(after_help = "Examples:\n  humpyard man > humpyard.1\n  humpyard man --output man1")]
    Man(ManArguments),
    /// Explain a policy, a service, a traffic profile or what a rule can say
    #[command(
        after_help = "Examples:\n  humpyard explain drr\n  humpyard explain forward\n  humpyard explain poisson\n  humpyard explain rule"
    )]
    Explain(ExplainArguments),
}

const RUN_EXAMPLES: &str = "Examples:
  humpyard run --input in.pcap --output out.pcap --policy hrw --workers 2 --json
  humpyard run --input in.pcapng.zst --policy drr --workers 0
  humpyard run --input gen:messages:packets=1000000 --policy conn --rate 200k --for 5s
  humpyard run --input in.pcap --policy rr --services 'forward:routes=10.0.0.0/8=out;::/0=out'
  humpyard run --input in.pcap --policy hrw --output out.pcap --services tcp=encrypt,other=fec
  humpyard run --input in.pcap --policy rr --services ipv4=fec,other=fec-decode --chain ipv4=other
  humpyard run --input in.pcap --policy conn --services dpi --json
  humpyard run --input in.pcap --policy hrw --output out.pcap --quarantine bad.pcapng
  humpyard run --input in.pcap --policy drr --output out.pcap --clock virtual --load 0.9
  humpyard run --input in.pcap --policy conn --services encrypt --split share=0.3,cores=2
  humpyard run --input in.pcap --policy h-cahrw --topology machine --counters
  humpyard run --input gen:poisson --policy drr --rate 200k --for 60s --metrics 127.0.0.1:9464
  humpyard run --input iface:eth0 --output iface:eth1 --both-ways --policy hrw
  humpyard run --input in.pcap --policy efq --services encrypt --link 100Mbit:queue=16
  humpyard run --input nfqueue:7 --policy hrw --services 'l7-filter:fwmark=http=7;tls=8,drop=bittorrent'

Without --rate packets come as fast as they are taken, so delay is mostly time in the buffer (--buffer);
give a rate to measure delay. By a virtual clock services do their work on one thread, each packet keeps its worker busy for as
long as --costs says, and packets come as captured unless a rate is given: the figures are exactly those of `sim`. Ctrl-C ends reading: what is held is served and written, and the summary is printed.";

const TOP_EXAMPLES: &str = "Examples:
  humpyard top
  humpyard top '[::1]:9464' --interval 500ms
  humpyard top 127.0.0.1:9464 --once
  humpyard top --json | jq .packets

In another terminal: humpyard run --input SRC --policy drr --metrics 127.0.0.1:9464
Keys: q ends, p pauses, left and right choose the column by which services are sorted. Rates, delays and the late fraction are
those of the last interval. Top flows are those of the latest 1024 sampled packets, one in 64. Ends with 0 when the run does.";

const SIM_EXAMPLES: &str = "Examples:
  humpyard sim --input in.pcap --policy hrw --cores 8 --load 0.9
  humpyard sim --input gen:poisson:packets=1M --policy drr --costs table:predictive --load 0.95
  humpyard sim --input in.pcap --policy static --services tcp=forward,other=forward --cores 4
  humpyard sim --input in.pcap --policy drr --load 0.9 --timeline drr.perfetto-trace
  humpyard sim --input in.pcap --policy efq --load 0.9 --services fec --link 500Mbit:share=drr
  humpyard sim --input in.pcap --policy hrw --load 0.9 --services encrypt:cipher=cast-128

The same input, options and seed give the same result, byte for byte, but for `measured` and `environment`.";

const ADMIT_EXAMPLES: &str = "Examples:
  humpyard admit --cores 2 --costs table:predictive --flow name=video,service=encrypt,rate=10Mbit,length=500,burst=8k
  humpyard admit --cores 4 --costs calibrated --link 1Gbit --flows flows.toml --json
  humpyard admit --topology network.toml --costs table:predictive --flows flows.csv

A file of flows has a table [[flow]] for each, or is CSV with a line of names: service, rate (bits per second, 10Mbit), length (mean,
in bytes), burst (what may come at once, in bytes), and if they are told name, longest (packet), from and to (nodes of a --topology).
A topology has [[node]] with name, engines and speed, and [[link]] with from, to, rate, delay, and both-ways = false where it is not.
Exits with 1 if a flow is refused.";

const COMPARE_EXAMPLES: &str = "Examples:
  humpyard compare --input in.pcap --policy rr --policy conn --policy hrw --cores 8 --load 0.8
  humpyard compare --live --input in.pcap --policy rr --policy hrw --workers 2 --repeat 7
  humpyard compare --input in.pcap --policy drr --policy sfq --load 0.9 --report report.html

With --repeat the policies are run in turn, so that what changes in the machine meets all alike, and on identical arrivals
within a repetition. Tables have the median and the range; --json has for each figure the values, the median, the range and a
confidence interval of the median by order statistics: 95 % from 6 repetitions on, the range at its own level below.";

const RECOMMEND_EXAMPLES: &str = "Examples:
  humpyard recommend --input in.pcap --workers 8 --goal 'late<0.1%@2ms'
  humpyard recommend --input in.pcap --workers 8 --load 0.8 --goal 'late<0.1%@20us'
  humpyard recommend --input in.pcap --workers 4 --services dpi --rate 2M --goal 'p99<500us,ooo<0.01%'
  humpyard recommend --input gen:onoff:packets=20k --workers 4 --load 0.7 --goal 'loss<0.1%,min=p99' --report recommendation.html

A goal is a list of bounds: late (delayed beyond what is tolerated, @TIME says what, or dropped), mean, p50, p90, p99, p999, max (delays),
ooo (out of order), loss, fairness (Jain), throughput. Among policies that keep all bounds the one with the greatest margin wins, or
the best in min=FIGURE or max=FIGURE. The traffic is fixed first: the input as captured, or as --multiplier, --rate or --load says; it
stays the same on other cores. Candidates are all policies that fit, some with several parameters; all are simulated on a part of the
input that has its peaks, the better half on twice as much, and so on. Finalists run on all of it under three seeds, of which the worst
counts. Blocks that are held out of the search say how sure the choice is. Every command that is printed can be typed. The same input,
options, costs and seed give the same answer. Costs that are measured are printed: keep them in a file for --costs FILE. Exits with 1 if no policy keeps the goal.";

const VALIDATE_EXAMPLES: &str = "Examples:
  humpyard validate --input in.pcap --policy hrw --policy drr
  humpyard validate --input gen:imix:packets=200k --services encrypt --workers 1 --report validation.html
  humpyard validate --input gen:poisson:packets=100k --policy rr --rate 200k --json

Each policy runs live; the simulator then hears of when each packet reached the scheduler and of what it took, once as it was
measured, packet by packet, and once by the straight line of its service: of --costs, by default auto, measured before the run; with
--costs fitted through what the run took. Without a rate half of what the machine takes is offered. Aims: 10 % for throughput and utilization, 25 % for p99, as measured. Exits
with 1 if one is missed. Leave the machine alone meanwhile.";

const SCHEDULE_EXAMPLES: &str = "Examples:
  humpyard schedule --policy sfq --weights 12,3,3,2,2,2 --slots 24
  humpyard schedule --policy drr --weights 3,2,1 --slots 12 --processors 2 --json
  humpyard schedule --policy wrr --weights 12,3,3,2,2,2 --slots 48 --plot wrr.svg
  humpyard schedule --policy gr3 --clients 8192 --total 262144 --skew 0.1 --draws 100
  humpyard schedule --policy sfq --clients 8192 --total 262144 --skew 0.1 --draws 100 --ties highest
  humpyard schedule --policy gr3mp --clients 512 --total 16384 --draws 100 --processors 8 --json

With --clients weights are random: the heavy client has round(H S), the others divide the rest by numbers that are uniform \
between 0 and 1, and each has 1 at least. A draw has the same weights whatever the policy, the processors, the number of draws \
and of threads. The service error of a client is its service less its weight's share of all service so far, exactly. Figures 4 \
to 11 of the paper of gr3 are such runs, of 32 to 8192 clients and totals from 16384 to 262144.";

const REPRODUCE_EXAMPLES: &str = "Examples:
  humpyard reproduce gr3-fig9
  humpyard reproduce 'gr3-fig?' --out reproduction
  humpyard reproduce all --full
  humpyard list experiments

Each experiment writes data.csv, data.parquet, plots (SVG) and verdicts.json into a directory of its own below --out, where \
index.html and REPRODUCTION.md show all experiments that were ever written there, each with its scale and seed. What was done when \
a run is ended (Ctrl-C) is not done again by the same command. Files that are not of an earlier run are not written over. Exits with 1 if a claim fails; times, and figures that the papers do not say enough of, are measured, and cannot fail.";

const CALIBRATE_EXAMPLES: &str = "Examples:
  humpyard calibrate --output here.toml
  humpyard calibrate --save && humpyard sim --input YOUR.pcap --policy hrw --cores 8 --load 0.9 --costs calibrated
  humpyard sim --input in.pcap --policy hrw --cores 8 --load 0.9 --costs here.toml
  humpyard sim --input in.pcap --policy hrw --services firewall:rules=deny+tcp --costs auto
  humpyard calibrate --quick --services forward,encrypt,encrypt:cipher=cast-128 --json
  humpyard calibrate --matrix --plot plots
  humpyard calibrate --services none --matrix-output cores.toml && humpyard topology cores.toml

Times are those of one core, to which the measurement is pinned: leave the machine alone meanwhile. Packets of an inverse
(decrypt, decompress, fec-decode) are what its service makes of the others. The line has a confidence interval of 95 %.";

const TOPOLOGY_EXAMPLES: &str = "Examples:
  humpyard topology
  humpyard topology e5355 --json
  humpyard topology epyc-2p --plot epyc.svg
  humpyard topology 2x4x2 --output mine.toml
  humpyard sim --input in.pcap --policy ps-hrw --cores 8 --topology e5355 --costs ps-hrw

Live, a worker has the place in the tree of the processor on which it sits. `humpyard calibrate --matrix` measures the ways
between cores, and --matrix-output FILE of it writes a topology with what was measured.";

const CHECK_EXAMPLES: &str = "Examples:
  humpyard check run.toml
  humpyard check run.toml --for sim --json
  humpyard check --schema > humpyard.schema.json

A file has a key for every option of `run`, `sim` and `compare`, by its long name; those of another command do not count:
  input = \"in.pcap\"
  policy = \"everest\"
  cores = 8
  tolerance = { web = \"2ms\" }
  services = { web = \"forward\", rest = \"forward\" }
  [[rule]]
  port = [80, 443]
  service = \"web\"
  [[rule]]
  service = \"rest\"

Without --for the file is checked for `run` and for `sim`: for one of them alone if it says workers or cores, and for
`compare` if it has several policies. An option that is typed beside --config counts, and replaces all that the file says of
it: --rule all of its rules. File names are seen from the directory in which humpyard runs.";

const COMPLETIONS_EXAMPLES: &str = "Examples:
  humpyard completions bash > ~/.local/share/bash-completion/completions/humpyard
  humpyard completions fish > ~/.config/fish/completions/humpyard.fish
  humpyard completions zsh > _humpyard";

/// The groups of options in the help of `run`, `sim` and `compare`, behind those that one needs first.
const TRAFFIC: &str = "Traffic";
const POLICY: &str = "Policy";
const SERVICES: &str = "Services and costs";
const CORES: &str = "Cores";
const ORDER: &str = "Order and buffers";
const RECORDS: &str = "Output and records";
const LIVE: &str = "Live";

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct CommonOptions {
    /// Print one JSON document on the standard output
    #[arg(long, display_order = 21)]
    pub(crate) json: bool,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, display_order = 22)]
    pub(crate) seed: u64,
    /// No progress bar
    #[arg(long, display_order = 23)]
    pub(crate) quiet: bool,
}

/// Options of `run`, `sim` and `compare`. Each is a key of configuration files, too.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrafficOptions {
    /// Take options from this file: a key for each, by its long name; what is given here counts. `humpyard check` explains it
    // Read before the other options are.
    #[arg(long, value_name = "FILE.toml", display_order = 20)]
    pub(crate) config: Option<String>,
    /// Where packets come from: a capture (pcap or pcapng, .gz or .zst), `-`, or gen:PROFILE:name=value,...; several are merged
    /// by the times of their packets. `run` takes interfaces too (iface:NAME, xdp:NAME, tun:NAME), and queues of the kernel's firewall
    /// (nfqueue:NUMBER)
    #[arg(long, value_name = "SRC", required = true, display_order = 1)]
    pub(crate) input: Vec<String>,
    /// Play the input so many times, each round a mean gap after the one before
    #[arg(long = "loop", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), help_heading = TRAFFIC)]
    pub(crate) rounds: u64,
    /// Read this many packets of the input, from its start [default: all; of recommend 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = TRAFFIC)]
    pub(crate) packets: Option<u64>,
    /// When packets arrive: `trace` (as captured), `line` (as fast as taken; live only), or packets per second, evenly
    #[arg(long, value_name = "PPS|line|trace", allow_negative_numbers = true, display_order = 6)]
    pub(crate) rate: Option<String>,
    /// Play the input this many times faster than captured; bursts stay as they are
    #[arg(long, value_name = "F", conflicts_with = "rate", allow_negative_numbers = true, display_order = 7)]
    pub(crate) multiplier: Option<f64>,
    /// Stretch the captured times so that the offered work, by --costs, is this part of what the cores can do, or those of --of
    #[arg(long, value_name = "X", conflicts_with_all = ["rate", "multiplier"], allow_negative_numbers = true, display_order = 8)]
    pub(crate) load: Option<f64>,
    /// --load is of what N cores can do, with their --speeds, --contexts and --stall: so it is the same traffic on any number of
    /// cores [default: --cores; of live runs --workers, of --workers 0 one]
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "multiplier"], value_parser = clap::value_parser!(u16).range(1..=16_384), display_order = 9)]
    pub(crate) of: Option<u16>,
    /// What is done to packets: a service (see `humpyard list services`), or one by kind (tcp, udp, icmp, ipv4, ipv6, other) or
    /// name: tcp=encrypt,other=forward; or several in a row, through which every packet goes: dpi,encrypt [default: forward; pass where packets come by an interface]
    #[arg(long, value_name = "[NAME=]SERVICE,...", display_order = 5)]
    pub(crate) services: Vec<String>,
    /// Who the clients of a sharing policy are: flow, connection, service or rule [default: flow; rule where one names a client]
    #[arg(long, value_name = "KIND", help_heading = POLICY)]
    pub(crate) clients: Option<String>,
    /// Weights of the first clients, in order of appearance; the others have 1
    #[arg(long, value_name = "W,W,...", help_heading = POLICY)]
    pub(crate) weights: Option<String>,
    /// A rule, of which the first that matches counts: protocol=tcp,port=80+443,service=web; `humpyard explain rule`
    #[arg(long, value_name = "NAME=VALUE,...", help_heading = SERVICES)]
    pub(crate) rule: Vec<String>,
    /// Prefixes of the local side, from which the direction of a rule is seen
    #[arg(long, value_name = "PREFIX,...", help_heading = SERVICES)]
    pub(crate) local: Option<String>,
    /// What services cost: table:NAME (measured, predictive, everest, ps-hrw), calibrated (what `humpyard calibrate --save` kept), a
    /// file, or auto (calibrated lines, else lines that are measured now, and printed for a file). `validate` also takes fitted: lines
    /// through its live run [default: table:measured; of recommend and validate auto]
    #[arg(long, value_name = "table:NAME|calibrated|FILE|auto", display_order = 10)]
    pub(crate) costs: Option<String>,
    /// Delay beyond which a packet is late, for all services or one [default: 2ms]
    #[arg(long, value_name = "[SERVICE=]TIME", allow_hyphen_values = true, value_delimiter = ',', help_heading = SERVICES)]
    pub(crate) tolerance: Vec<String>,
    /// What it takes a core to go over to another service: to each of them, or to one [default: what a cost file says, else 50us]
    #[arg(long, value_name = "[SERVICE=]TIME", allow_hyphen_values = true, value_delimiter = ',', help_heading = SERVICES)]
    pub(crate) switch_cost: Vec<String>,
    /// Share of the cores that a service is guaranteed; the rest is divided equally
    #[arg(long, value_name = "SERVICE=SHARE", value_delimiter = ',', help_heading = SERVICES)]
    pub(crate) guarantee: Vec<String>,
    /// Which cores are near each other: machine (this one), a file, e5355, epyc-2p, numa4x16, fan-outs from the root such as 2x4x2
    /// (with costs: 2x4:2.0,1.2), or flat; `humpyard topology` shows it [default: machine for workers, else flat]
    #[arg(long, value_name = "machine|FILE|NAME|TREE|flat", help_heading = CORES)]
    pub(crate) topology: Option<String>,
    /// So many cores in a row are contexts of one processing element, and take turns computing
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), help_heading = CORES)]
    pub(crate) contexts: u16,
    /// Of how many services each core keeps the code, where cores are allocated: to go back to one of them takes no time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), help_heading = SERVICES)]
    pub(crate) services_per_core: u16,
    /// Speed of the first cores, by which --costs are divided in virtual time; the others have 1
    #[arg(long, value_name = "X,X,...", help_heading = CORES)]
    pub(crate) speeds: Option<String>,
    /// What every packet waits for memory in virtual time, while another context of its element computes
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "0ns", help_heading = CORES)]
    pub(crate) stall: String,
    /// Packets of a service go through these services of the run afterwards, one after the other
    #[arg(long, value_name = "SERVICE=NEXT+NEXT", value_delimiter = ',', help_heading = SERVICES)]
    pub(crate) chain: Vec<String>,
    /// Flows with more than this share of a core are elephants: their packets go to the shorter queue of two cores, or of more, and
    /// leave in order, as --flow-order exit says [share=0.5,cores=2,window=1ms where left out]
    #[arg(long, value_name = "share=X,cores=N,window=TIME", help_heading = ORDER)]
    pub(crate) split: Option<String>,
    /// The link behind the cores: its rate, with a queue for each client, shared by a policy; whoever has more packets
    /// waiting there is withheld from the cores until it has none [wf2q+ and 64 where left out]
    #[arg(long, value_name = "RATE[:queue=PACKETS,share=SPEC]", help_heading = ORDER)]
    pub(crate) link: Option<String>,
    /// The unit of work that is shared
    #[arg(long, value_enum, default_value_t = Unit::Ns, help_heading = POLICY)]
    pub(crate) unit: Unit,
    /// How flows keep their order: their packets wait for earlier ones when they leave (exit; at most so many, each so long:
    /// exit:packets=4096,time=1s), a client has one packet in service at a time (hold), or they do not (free) [default: exit, with
    /// room for --buffer packets and 1s]
    #[arg(long, value_name = "exit|hold|free", default_value = "exit", hide_default_value = true, help_heading = ORDER)]
    pub(crate) flow_order: String,
    /// Most packets held at once
    #[arg(long, value_name = "PACKETS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=16_777_216), help_heading = ORDER)]
    pub(crate) buffer: u32,
    /// Most packets waiting in one queue
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..), help_heading = ORDER)]
    pub(crate) queue_limit: Option<u32>,
    /// Most packets of one client waiting in one queue
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..), help_heading = ORDER)]
    pub(crate) client_limit: Option<u32>,
    /// Which packet goes when there is no room: the one that comes, or the newest of the client with most packets waiting
    #[arg(long, value_enum, default_value_t = WhenFullOption::Tail, help_heading = ORDER)]
    pub(crate) when_full: WhenFullOption,
    /// Other policies of the same families take over at this time of the run; may be given several times
    #[arg(long, value_name = "TIME=SPEC", allow_hyphen_values = true, help_heading = POLICY)]
    pub(crate) swap: Vec<String>,
    /// Most flows known at once; the longest silent makes room
    #[arg(long, value_name = "FLOWS", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(2..=33_554_432), help_heading = TRAFFIC)]
    pub(crate) flows: u32,
    /// End flows that have had no packet under way for so long, by the times of the packets, for example 60s [default: never]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = TRAFFIC)]
    pub(crate) flow_timeout: Option<String>,
    /// Tunnels to look into, for the flow inside: gre, vxlan, gtp-u, ip-in-ip, separated by commas, or all
    #[arg(long, value_name = "LIST", default_value = "none", help_heading = TRAFFIC)]
    pub(crate) inner: String,
    /// Leave packets that come within so long after the first out of the figures of delay, lateness, order and fairness
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "0ns", help_heading = TRAFFIC)]
    pub(crate) warmup: String,
    /// Which of two equals goes first
    #[arg(long, value_enum, default_value_t = TiesOption::Lowest, help_heading = POLICY)]
    pub(crate) ties: TiesOption,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// Options of live runs.
#[derive(Debug, Args)]
pub(crate) struct LiveOptions {
    /// Which time the run goes by: that of the machine, or a virtual one in which work takes what --costs says [default: real]
    #[arg(long, value_enum, help_heading = LIVE)]
    pub(crate) clock: Option<ClockOption>,
    /// Packets handed to a worker and not yet done, at most [default: 32, by a virtual clock 1 without --hand-over]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = LIVE)]
    pub(crate) in_flight: Option<u32>,
    /// What it takes a core to be handed a packet, beside the work: clients are charged for it, and estimates have it in them. In
    /// virtual time it takes as long, and up to 32 packets are handed to a core ahead, as live [default: no time; in virtual time, one
    /// at a time]
    #[arg(long, value_name = "TIME", help_heading = LIVE)]
    pub(crate) hand_over: Option<String>,
    /// What to do when the buffer is full [default: wait at line rate, else drop]
    #[arg(long, value_enum, help_heading = LIVE)]
    pub(crate) overload: Option<OverloadOption>,
    /// End reading after so long, for example 10s
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, help_heading = LIVE)]
    pub(crate) longest: Option<String>,
}

/// Options of a timeline.
#[derive(Debug, Args)]
pub(crate) struct TimelineOptions {
    /// Write what each core did when, drops and queue lengths to this file, for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE", help_heading = RECORDS)]
    pub(crate) timeline: Option<String>,
    /// End the timeline after so many packets, served or dropped, of about 200 bytes each
    #[arg(long, value_name = "N", default_value_t = TIMELINE_PACKETS, requires = "timeline", value_parser = clap::value_parser!(u64).range(1..), help_heading = RECORDS)]
    pub(crate) timeline_packets: u64,
    /// End the timeline after so much time of the run
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "timeline", help_heading = RECORDS)]
    pub(crate) timeline_for: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Unit {
    Ns,
    Bytes,
    Packets,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WhenFullOption {
    Tail,
    LongestQueue,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Order {
    Exit,
    Hold,
    Free,
}

/// Options that are part of another one now, by long name, and what says the same.
const MOVED: [(&str, &str); 2] = [
    ("reorder", "--flow-order exit:time=TIME, or nothing: flows keep their order"),
    ("reorder-buffer", "--flow-order exit:packets=PACKETS"),
];

/// What says the same as an option that is part of another one now, by its long name.
pub(crate) fn moved(option: &str) -> Option<&'static str> {
    MOVED.iter().find(|(name, _)| *name == option).map(|&(_, instead)| instead)
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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClockOption {
    Real,
    Virtual,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OverloadOption {
    Wait,
    Drop,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
    #[command(flatten)]
    pub(crate) timeline: TimelineOptions,
    /// The policies: NAME, NAME:name=value,... or steer=NAME/share=NAME
    #[arg(long, value_name = "SPEC", display_order = 3)]
    pub(crate) policy: String,
    /// Worker threads; 0 does everything on one thread
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=1024), display_order = 4)]
    pub(crate) workers: u16,
    /// Dispatchers, among which the workers are divided: each has all packets of some connections, and a scheduler of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = LIVE)]
    pub(crate) dispatchers: u16,
    /// Where packets go: a capture file (.pcap or .pcapng, .gz or .zst), `-`, null:, or an interface (iface:NAME). What comes
    /// by nfqueue:NUMBER leaves by it
    #[arg(long, value_name = "DST", default_value = "null:", display_order = 2)]
    pub(crate) output: String,
    /// Between two interfaces: what comes in by the output leaves by the input
    #[arg(long, help_heading = LIVE)]
    pub(crate) both_ways: bool,
    /// Keep the privileges of the user once interfaces are open
    #[arg(long, help_heading = LIVE)]
    pub(crate) keep_privileges: bool,
    /// Where packets go at which a service panicked, as they came in: a capture file; a .pcapng takes all link types
    #[arg(long, value_name = "FILE", help_heading = RECORDS)]
    pub(crate) quarantine: Option<String>,
    /// Have the hardware count cycles, instructions and cache misses of each thread, where it does: else one line says why not
    #[arg(long, help_heading = RECORDS)]
    pub(crate) counters: bool,
    /// Write everything that is told and decided to this file, a line each, for `humpyard replay`
    #[arg(long, value_name = "FILE", help_heading = RECORDS)]
    pub(crate) journal: Option<String>,
    /// Serve metrics of the run at this address while it goes on, for Prometheus and `humpyard top`; port 0 is any, and is told
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics_address, help_heading = LIVE)]
    pub(crate) metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) live: LiveOptions,
}

/// An address at which metrics are served.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| String::from("give an address and a port, such as 127.0.0.1:9464 or [::1]:9464"))
}

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
    pub(crate) traffic: TrafficOptions,
    #[command(flatten)]
    pub(crate) timeline: TimelineOptions,
    /// The policies: NAME, NAME:name=value,... or steer=NAME/share=NAME
    #[arg(long, value_name = "SPEC", display_order = 3)]
    pub(crate) policy: String,
    /// Simulated cores
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16_384), display_order = 4)]
    pub(crate) cores: u16,
    /// What it takes a core to be handed a packet, beside the work: clients are charged for it, and estimates have it in them. In
    /// virtual time it takes as long, and up to 32 packets are handed to a core ahead, as live [default: no time; in virtual time, one
    /// at a time]
    #[arg(long, value_name = "TIME", help_heading = CORES)]
    pub(crate) hand_over: Option<String>,
    /// Interrupt cores and dispatcher as they were on the machine that --costs were measured on (`calibrate --machine`)
    #[arg(long, help_heading = CORES)]
    pub(crate) interrupted: bool,
    /// Write everything that is told and decided to this file, a line each, for `humpyard replay`
    #[arg(long, value_name = "FILE", help_heading = RECORDS)]
    pub(crate) journal: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AdmitArguments {
    /// A flow; may be given several times. They are admitted in the order given, while there is room
    #[arg(long, value_name = "service=S,rate=R,length=L,burst=B,...")]
    pub(crate) flow: Vec<String>,
    /// Flows of a file, after those that are given here
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
    /// What it takes an engine to be handed a packet, beside the work; `run` is told the same [default: as --costs say, else 0ns]
    #[arg(long, value_name = "TIME")]
    pub(crate) hand_over: Option<String>,
    /// Packets that an engine has at a time, done or not; `run` is told the same
    #[arg(long, value_name = "PACKETS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) in_flight: u32,
    /// What else runs on the engines: no more than a part of any time, and so much at once, 0.02:500us for example [default: as
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

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

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
pub(crate) struct CompareArguments {
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
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
    /// Run each policy so many times, in turn, each time with the next seed; tables then have medians and ranges
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), display_order = 12)]
    pub(crate) repeat: u32,
    /// Write a page of findings, plots and tables to this file (HTML, which fetches nothing)
    #[arg(long, value_name = "FILE", display_order = 13)]
    pub(crate) report: Option<String>,
    #[command(flatten)]
    pub(crate) live_options: LiveOptions,
}

#[derive(Debug, Args)]
pub(crate) struct RecommendArguments {
    /// What is wanted: bounds such as late<0.1%@2ms, p99<500us, ooo<0.01%, loss<0.1%, fairness>0.95, and min=p99 or the like
    #[arg(long, value_name = "BOUND,...")]
    pub(crate) goal: String,
    /// Cores of the simulation, workers of the command that comes of it
    #[arg(long, visible_alias = "cores", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Try this policy; may be given several times [default: all that fit]
    #[arg(long, value_name = "SPEC")]
    pub(crate) candidate: Vec<String>,
    /// Simulations of these packets that the search may take, about: more begins with more of the input [default: 72]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget: Option<u32>,
    /// Threads; they change nothing but the time it takes [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Write a page with the finalists, more traffic and other cores to this file (HTML, which fetches nothing)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<String>,
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArguments {
    /// A policy; give several [default: hrw, rr, fcfs, drr]
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: Vec<String>,
    /// Worker threads; 0 does everything on one thread [default: one for each processor but that of the dispatcher]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) workers: Option<u16>,
    /// Packets handed to a worker and not yet done, at most, live and in the simulator [default: 32]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) in_flight: Option<u32>,
    /// Write a page with all figures to this file (HTML, which fetches nothing)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<String>,
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Packets of each run [default: as many as come in a second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) packets: Option<u64>,
    /// Run each policy so many times, in turn, each time with the next seed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Write a page of findings, plots and tables to this file; null: writes none
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) report: String,
    /// Worker threads; 0 does everything on one thread
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) workers: u16,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// Experiments by name, by pattern (`gr3-*`), or `all`
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// A fixed part of each, within a minute or so [default]
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// All of each, which may take an hour
    #[arg(long)]
    pub(crate) full: bool,
    /// The directory for data, plots and pages
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    pub(crate) out: String,
    /// Threads; they change nothing but the time it takes [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
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
    #[arg(long, value_name = "N", required_unless_present = "clients", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
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
    /// Instead of --weights: so many clients with random weights, one of them heavy; only the extremes of their errors are shown
    #[arg(long, value_name = "N", conflicts_with_all = ["weights", "order", "plot"], requires = "total", value_parser = clap::value_parser!(u32).range(2..=1_048_576))]
    pub(crate) clients: Option<u32>,
    /// What random weights add up to
    #[arg(long, value_name = "S", requires = "clients", conflicts_with = "weights", value_parser = clap::value_parser!(u32).range(2..=1_073_741_824))]
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
    #[arg(long, value_name = "K", requires = "clients", conflicts_with = "weights", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
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
    /// Write a capture with so many times as many flows, each of them as it was
    #[command(after_help = SCALE_EXAMPLES)]
    Scale(TraceScaleArguments),
    /// Write a part of a capture: of its time, its packets, its flows, its bytes
    #[command(after_help = CUT_EXAMPLES)]
    Cut(TraceCutArguments),
    /// Write several captures as one, by the times of their packets
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(TraceMergeArguments),
}

const CUT_EXAMPLES: &str = "Examples:
  humpyard trace cut in.pcap --output part.pcapng --from 1s --to 2.5s
  humpyard trace cut in.pcap --output part.pcap.zst --packets 10..20 --snap 96
  humpyard trace cut in.pcap --output one.pcap --match udp --flow 'udp 10.0.0.1:5000 <> 10.0.0.2:53'

Times count from the first packet of the capture. Whatever is asked for must all hold. Outputs have times in ns. An output
appears under its name when it is complete.";

const MERGE_EXAMPLES: &str = "Examples:
  humpyard trace merge in.pcap in.pcapng.zst --output both.pcapng

Packets of one time go in the order in which their captures are named. A capture whose clock goes back stays in its own order.
Captures of different link types need a .pcapng.";

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
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
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

const COMPOSE_EXAMPLES: &str = "Examples:
  humpyard trace compose --payloads in.pcap --output out.pcap --flows pareto:mean=12
  humpyard trace compose --payloads in.pcap --output out.pcap --arrivals gen:onoff:packets=1M
  humpyard trace compose --payloads in.pcap --output out.pcapng.zst --flows capture
  humpyard sim --policy hrw --input gen:compose:arrivals=gen:onoff,payloads=in.pcap

Of the arrivals only the times count; they rule how many packets there are. As an input, write `;` for `,` inside.";

const SCALE_EXAMPLES: &str = "Examples:
  humpyard trace scale --factor 2.5 in.pcap out.pcap
  humpyard trace scale --factor 0.1 in.pcap out.pcapng.zst
  humpyard sim --policy hrw --input gen:scale:factor=4,input=in.pcap

The mean rate becomes so many times what it was, its standard deviation the square root of that. Copies have addresses of
their own, by /24 (IPv6: by the third to fifth byte). Memory does not depend on the length of the capture.";

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
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
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
#[command(arg_required_else_help = true)]
pub(crate) struct ListArguments {
    /// What to list
    #[arg(value_enum)]
    pub(crate) what: Listed,
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
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// A policy, a service, an experiment, a traffic profile, a cost table, or `rule`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}
