//! What is to be run, and the options that say so: an option is a field of [`RunConfig`], its default in
//! [`RunConfig::new`] (`defaults.rs`), and an entry of [`OPTIONS`].

use core::time::Duration;
use std::collections::BTreeMap;

use humpyard_core::mechanism::{Limits, Split, WhenFull};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Weight, WorkUnit};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::Overload;
use humpyard_text::quantity::show_duration;
use humpyard_topology::TopologyChoice;
use humpyard_traffic::classify::Granularity;
use humpyard_traffic::rule::parse_local;
use humpyard_traffic::{HashFields, PacketTable, Tunnels};
use ipnet::IpNet;

use crate::LabError;
use crate::choice::assumed::AssumedHost;
use crate::choice::host::{Clock, Host};
use crate::choice::link::{LinkChoice, parse_link, show_link};
use crate::choice::numbers::{parse_speeds, parse_weights};
use crate::choice::order::{OrderChoice, parse_order};
use crate::choice::rate::{LOADS, MULTIPLIERS, Rate};
use crate::choice::rule::RuleChoice;
use crate::choice::service::{ServiceChoice, parse_chain, parse_guarantee};
use crate::choice::split::{parse_split, show_split};
use crate::choice::swap::parse_swap;
use crate::costs::{AUTO, Costs};
use crate::option::Group::First;
use crate::option::Takes::{Number, OneOf, Text, Time, Whole};
use crate::option::Times::{Commas, Once, Several};
use crate::option::{
    CORES, LIVE, LIVE_AND_SIM, LIVE_ONLY, NONE, ORDER, OptionOf, POLICY, RECORDS, RUN, RUN_AND_SIM, RunCommand,
    SERVICES, TRAFFIC, WITH_DISPATCHERS, apply, limit, list, time_of_service,
};
use crate::timeline::TimelineChoice;

/// Everything that decides what a run does. Times, rates and counts have the units of their types.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunConfig {
    /// The driver.
    pub host: Host,
    /// Where packets come from.
    pub input: String,
    /// Packets in memory, instead of the inputs. `None`: the inputs count.
    pub table: Option<PacketTable>,
    /// Inputs that are merged with it, by the times of their packets.
    pub more_inputs: Vec<String>,
    /// Where packets go. Live only.
    pub output: String,
    /// Whether packets that arrive at the output leave by the input, between two interfaces. Live only.
    pub both_ways: bool,
    /// Whether a live run gives up the privileges of its thread once everything is open.
    pub drop_privileges: bool,
    /// The capture file for packets at which a service panicked. `None`: they are not kept. Live only.
    pub quarantine: Option<String>,
    /// The policies.
    pub policy: PolicySpec,
    /// Policies of the program, which options name as they are shown: see [`RunConfig::named`].
    pub own_policies: Vec<PolicySpec>,
    /// Cores in the simulator; worker threads in a live run, where 0 does everything on one thread.
    pub cores: usize,
    /// Whether a live run of interfaces has as many workers as suit it rather than `cores`.
    pub chooses_workers: bool,
    /// Dispatchers, each with a part of the workers and of the connections; 0: workers need none. `None`: as suits the run.
    pub dispatchers: Option<usize>,
    /// Which cores are near each other. `None`: as on this machine in real time, else all alike.
    pub topology: Option<TopologyChoice>,
    /// Contexts of each processing element: cores in a row that take turns computing.
    pub contexts: usize,
    /// Services whose code each core keeps: going back to one of them takes no time.
    pub services_per_core: usize,
    /// Speed of the first cores in thousandths of what the costs hold for; the others have 1000. In virtual time.
    pub speeds: Vec<u32>,
    /// Time that every packet waits for memory after it was computed, while another context computes. In virtual time.
    pub stall: Duration,
    /// The services. A packet that no rule matches gets the first service of its kind of packets.
    pub services: Vec<ServiceChoice>,
    /// The rules, of which the first that matches counts.
    pub rules: Vec<RuleChoice>,
    /// The prefixes from which the directions of rules are seen.
    pub local: Vec<IpNet>,
    /// What services cost: in virtual time their time, in real time an estimate.
    pub costs: Costs,
    /// The clock of the run. Live only.
    pub clock: Clock,
    /// Services by name, each with those that its packets go through afterwards.
    pub chains: Vec<(String, Vec<String>)>,
    /// Which flows go to several cores. `None`: no flow does.
    pub split: Option<Split>,
    /// The link behind the cores. `None`: packets leave when they are done.
    pub link: Option<LinkChoice>,
    /// Whether the hardware counts what each thread does. Live, in real time.
    pub counters: bool,
    /// Policies that take over during the run, with the time since the start.
    pub swaps: Vec<(Duration, PolicySpec)>,
    /// The file for every event and decision. `None`: no journal is written.
    pub journal: Option<String>,
    /// The timeline. `None`: no timeline is written.
    pub timeline: Option<TimelineChoice>,
    /// When packets arrive; by a virtual clock not [`Rate::Line`].
    pub rate: Rate,
    /// How often the input is played.
    pub rounds: u64,
    /// Reading ends after this many packets. `None`: at the end of the input.
    pub packets: Option<u64>,
    /// The time after which reading ends. Live only.
    pub longest: Option<Duration>,
    /// Packets that arrive within this time after the first are in no figure of delay, lateness, order and fairness.
    pub warm_up: Duration,
    /// Tolerable delay, by service name; the empty name is for all others.
    pub tolerances: Vec<(String, Duration)>,
    /// Time that a core takes to go over to a service, by name; the empty name is for all others. Else as costs say, or
    /// 50 us.
    pub switch_costs: Vec<(String, Duration)>,
    /// Guaranteed share of the cores in millionths, by service name.
    pub guarantees: Vec<(String, u32)>,
    /// Who the clients are. `None`: flows; where a rule names a client or a weight, those of the rules.
    pub clients: Option<Granularity>,
    /// Weights of the first clients, in order of appearance; for services, in their order.
    pub weights: Vec<Weight>,
    /// The unit of work.
    pub unit: WorkUnit,
    /// How the packets of a flow keep their order.
    pub flow_order: OrderChoice,
    /// Most packets held at once.
    pub buffer: usize,
    /// Limits of queues and clients.
    pub limits: Limits,
    /// Most flows known at once.
    pub flows: usize,
    /// Ends a flow without packets in the run for this time. `None`: a flow ends when another needs its place.
    pub flow_timeout: Option<Duration>,
    /// Tunnels that are looked into for the flow of a packet.
    pub tunnels: Tunnels,
    /// What the hashes of connections are computed from, by which policies steer.
    pub hash: HashFields,
    /// Packets handed to a worker and not yet done, at most. In the simulator it is one, unless handing over takes time.
    pub in_flight: u32,
    /// Time to hand a packet to an idle core; up to `in_flight` are handed ahead. `None`: no time, and one packet at a time.
    pub hand_over: Option<Duration>,
    /// How long a simulated core is held when it gives a packet back after a quantum. `None`: no time.
    pub switch_out: Option<Duration>,
    /// The host of a simulation. `None`: the ideal one, on which nothing but the services takes time.
    pub assumed: Option<AssumedHost>,
    /// Whether the cores of a simulation are interrupted as those were on which its costs were measured.
    pub interrupted: bool,
    /// What the run does when the buffer is full. `None`: it waits at a line rate, else it drops.
    pub overload: Option<Overload>,
    /// Which of two equals goes first.
    pub ties: Ties,
    /// Where all randomness comes from.
    pub seed: Seed,
}

/// An option of a run.
pub type RunOption = OptionOf<RunConfig>;

/// Every option of a run, in the order in which their values are applied: `clock` changes what `rate` and `in-flight`
/// are by default, `costs` may look for those of `services`.
pub const OPTIONS: &[RunOption] = &[
    RunOption::new(
        "input",
        "Where packets come from: a capture (pcap or pcapng, .gz or .zst), `-`, or gen:PROFILE:name=value,...; several are \
         merged by the times of their packets. `run` also takes interfaces (iface:NAME, xdp:NAME, tun:NAME), and queues of \
         the kernel's firewall (nfqueue:NUMBER)",
    )
    .takes(Text("SRC"), Several)
    .required()
    .group(First(1))
    .sets(|config, given| {
        let mut inputs = given.all().map(str::to_owned);
        config.input = inputs.next().unwrap_or_default();
        config.more_inputs = inputs.collect();
        if config.listens() {
            config.services = vec![ServiceChoice::pass()];
        }
    }),
    RunOption::new("loop", "Play the input this many times, each round a mean gap after the one before")
        .takes(Whole("N", 1, u64::MAX), Once)
        .default("1")
        .group(TRAFFIC)
        .reads(|config, given| given.whole().map(|rounds| config.rounds = rounds))
        .shows(|config| Some(config.rounds.to_string())),
    RunOption::new(
        "packets",
        "Read this many packets of the input, from its start, for example 200k [default: all; of recommend 200000]",
    )
    .takes(Whole("N", 1, u64::MAX), Once)
    .group(TRAFFIC)
    .reads(|config, given| given.whole().map(|packets| config.packets = Some(packets)))
    .shows(|config| config.packets.map(|packets| packets.to_string())),
    RunOption::new(
        "hand-over",
        "Time that a core takes to be handed a packet, beside the work: clients are charged for it, and estimates include it. In \
         virtual time it passes, and up to 32 packets are handed to a core ahead, as live [default: no time; in virtual \
         time, one packet at a time]",
    )
    .takes(Time("TIME"), Once)
    .group(CORES)
    .of(LIVE_AND_SIM)
    .reads(|config, given| given.time().map(|time| config.hand_over = Some(time)))
    .shows(|config| config.hand_over.map(show_duration)),
    RunOption::new(
        "switch-out",
        "Time that a core is held, beyond the quantum, when it gives a packet back (`ps`, `shinjuku`, `concord`, \
         `srpt`): the timer, and saving the packet's state [default: no time]",
    )
    .takes(Time("TIME"), Once)
    .group(CORES)
    .of(&[RunCommand::Sim, RunCommand::Compare, RunCommand::Why])
    .reads(|config, given| given.time().map(|time| config.switch_out = Some(time)))
    .shows(|config| config.switch_out.map(show_duration)),
    RunOption::new(
        "clock",
        "The clock of the run: that of the machine, or a virtual one by which work takes what @costs says [default: real]",
    )
    .takes(OneOf(&[Clock::Real.name(), Clock::Virtual.name()]), Once)
    .group(LIVE_ONLY)
    .of(LIVE)
    .sets(|config, given| {
        if given.one() == Clock::Virtual.name() {
            config.clock = Clock::Virtual;
            config.rate = Rate::Trace;
            // As in the simulator.
            config.in_flight = if config.hand_over.is_none() { 1 } else { config.in_flight };
        }
    })
    .shows(|config| live(config).then(|| config.clock.name().to_owned())),
    RunOption::new(
        "in-flight",
        "Packets handed to a worker and not yet done, at most; under a policy with a quantum always 1 [default: 32; by a \
         virtual clock without @hand-over 1]",
    )
    .takes(Whole("PACKETS", 1, 65_536), Once)
    .group(LIVE_ONLY)
    .of(&[RunCommand::Run, RunCommand::Compare, RunCommand::Validate])
    .reads(|config, given| given.whole().map(|packets| config.in_flight = packets))
    .shows(|config| live(config).then(|| config.in_flight.to_string())),
    RunOption::new(
        "overload",
        "What the run does when the buffer is full [default: wait at line rate, else drop]",
    )
    .takes(OneOf(&["wait", "drop"]), Once)
    .group(LIVE_ONLY)
    .of(LIVE)
    .sets(|config, given| {
        config.overload = Some(if given.one() == "wait" { Overload::Wait } else { Overload::Drop });
    }),
    RunOption::new("for", "End reading after this time, for example 10s")
        .takes(Time("TIME"), Once)
        .group(LIVE_ONLY)
        .of(LIVE)
        .reads(|config, given| given.time().map(|time| config.longest = Some(time))),
    RunOption::new(
        "rate",
        "When packets arrive: `trace` (as captured), `line` (as fast as taken; live only), or packets per second, evenly",
    )
    .takes(Time("PPS|line|trace"), Once)
    .group(First(6))
    .reads(|config, given| given.parsed().map(|rate| config.rate = rate)),
    RunOption::new("multiplier", "Play the input this many times faster than captured; bursts stay as they are")
        .takes(Number("F"), Once)
        .group(First(7))
        .excludes(&["rate"])
        .reads(|config, given| {
            given.within(&MULTIPLIERS, "2.5").map(|multiplier| config.rate = Rate::Multiplied(multiplier))
        }),
    RunOption::new(
        "load",
        "Stretch the captured times so that the offered work, by @costs, is this part of what the cores can do, or those of \
         @of",
    )
    .takes(Number("X"), Once)
    .group(First(8))
    .excludes(&["rate", "multiplier"])
    .reads(|config, given| given.within(&LOADS, "0.9").map(|load| config.rate = Rate::Load { load, of: None })),
    RunOption::new(
        "of",
        "@load is of what N cores can do, with their @speeds, @contexts and @stall: so it is the same traffic on any \
         number of cores [default: @cores; of live runs @workers, of @workers 0 one]",
    )
    .takes(Whole("N", 1, 16_384), Once)
    .group(First(9))
    .excludes(&["rate", "multiplier"])
    .reads(|config, given| match &mut config.rate {
        Rate::Load { of, .. } => given.whole().map(|cores| *of = Some(cores)),
        _ => Err(LabError::of_option("of", "says of how many cores @load is: give @load, too, or leave out @of")),
    }),
    RunOption::new(
        "services",
        "What is done to packets: a service (see `humpyard list services`), or one by kind (tcp, udp, icmp, ipv4, ipv6, other) \
         or name: tcp=encrypt,other=forward; or several in a row, through which every packet goes: dpi,encrypt [default: \
         forward; pass where packets come by an interface]",
    )
    .takes(Text("[NAME=]SERVICE,..."), Several)
    .group(First(5))
    .reads(|config, given| {
        (config.services, config.chains) = ServiceChoice::parse_all(&given.all().collect::<Vec<_>>())?;
        Ok(())
    })
    .shows(|config| {
        let name = |choice: &ServiceChoice| choice.matches.map_or(choice.name.clone(), |kind| kind.name().to_owned());
        Some(list(config.services.iter().map(|choice| format!("{}={}", name(choice), choice.work))))
    }),
    RunOption::new(
        "chain",
        "Packets of a service go through these services of the run afterwards, one after the other",
    )
    .takes(Text("SERVICE=NEXT+NEXT"), Commas)
    .group(SERVICES)
    .reads(|config, given| given.by_service(parse_chain).map(|chains| config.chains = chains))
    .shows(|config| {
        Some(list(config.chains.iter().map(|(first, then)| format!("{first}={}", then.join("+")))))
    }),
    RunOption::new(
        "costs",
        "What services cost: table:NAME (measured, predictive, everest, ps-hrw), calibrated (what `humpyard calibrate @save` \
         kept), a file, or auto (calibrated lines, else lines that are measured now, and printed for a file) [default: table:measured; of recommend and validate, measured on the input]",
    )
    .takes(Text("table:NAME|calibrated|FILE|auto"), Once)
    .group(First(10))
    .reads(|config, given| {
        let works = config.services.iter().map(|choice| &choice.work);
        config.costs = if given.one() == AUTO { Costs::auto(works) } else { given.parsed() }?;
        Ok(())
    })
    .shows(|config| Some(config.costs.to_string())),
    RunOption::new(
        "rule",
        "A rule, of which the first that matches counts: protocol=tcp,port=80+443,service=web; `humpyard explain rule`",
    )
    .takes(Text("NAME=VALUE,..."), Several)
    .group(SERVICES)
    .reads(|config, given| given.each(|text| text.parse()).map(|rules| config.rules = rules))
    .shows(|config| Some(config.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(";"))),
    RunOption::new("local", "Prefixes of the local side, from which the direction of a rule is seen")
        .takes(Text("PREFIX,..."), Once)
        .group(SERVICES)
        .reads(|config, given| {
 config.local = parse_local(given.one())?;
 Ok(())
})
        .shows(|config| Some(list(config.local.iter().map(ToString::to_string)))),
    RunOption::new("tolerance", "Delay beyond which a packet is late, for all services or one [default: 2ms]")
        .takes(Time("[SERVICE=]TIME"), Commas)
        .group(SERVICES)
        .reads(|config, given| given.by_service(time_of_service).map(|times| config.tolerances = times))
        .shows(|config| {
            Some(list(config.services.iter().map(|choice| {
                format!("{}={}", choice.name, show_duration(config.tolerance(&choice.name)))
            })))
        }),
    RunOption::new(
        "switch-cost",
        "Time that a core takes to go over to another service: to each of them, or to one [default: what a cost file says, \
         else 50us]",
    )
    .takes(Time("[SERVICE=]TIME"), Commas)
    .group(SERVICES)
    .reads(|config, given| given.by_service(time_of_service).map(|times| config.switch_costs = times))
    .shows(|config| Some(config.show_switch_costs())),
    RunOption::new("guarantee", "Share of the cores that a service is guaranteed; the rest is divided equally")
        .takes(Text("SERVICE=SHARE"), Commas)
        .group(SERVICES)
        .reads(|config, given| given.by_service(parse_guarantee).map(|shares| config.guarantees = shares))
        .shows(|config| {
            Some(list(config.services.iter().filter_map(|choice| {
                let share = config.guarantee(&choice.name)?;
                Some(format!("{}={}", choice.name, f64::from(share) / 1e6))
            })))
        }),
    RunOption::new(
        "services-per-core",
        "Services whose code each core keeps, where cores are allocated: going back to one of them takes no time",
    )
    .takes(Whole("N", 1, 65_535), Once)
    .default("1")
    .group(SERVICES)
    .reads(|config, given| given.whole().map(|services| config.services_per_core = services))
    .shows(|config| Some(config.services_per_core.to_string())),
    RunOption::new(
        "clients",
        "Who the clients of a sharing policy are: flow, connection, service or rule [default: flow; rule where one names a \
         client]",
    )
    .takes(Text("KIND"), Once)
    .group(POLICY)
    .reads(|config, given| given.parsed().map(|clients| config.clients = Some(clients)))
    .shows(|config| Some(config.granularity().name().to_owned())),
    RunOption::new("weights", "Weights of the first clients, in order of appearance; the others have 1")
        .takes(Text("W,W,..."), Once)
        .group(POLICY)
        .reads(|config, given| parse_weights(given.one()).map(|weights| config.weights = weights))
        .shows(|config| Some(list(config.weights.iter().map(|weight| weight.get().to_string())))),
    RunOption::new("unit", "The unit of work that is shared")
        .takes(
            OneOf(&[WorkUnit::Nanoseconds.name(), WorkUnit::Bytes.name(), WorkUnit::Packets.name()]),
            Once,
        )
        .default(WorkUnit::Nanoseconds.name())
        .group(POLICY)
        .sets(|config, given| {
            let units = [WorkUnit::Nanoseconds, WorkUnit::Bytes, WorkUnit::Packets];
            config.unit = units.into_iter().find(|unit| unit.name() == given.one()).unwrap_or(config.unit);
        }),
    RunOption::new(
        "swap",
        "Other policies of the same families take over at this time of the run; may be given several times",
    )
    .takes(Time("TIME=SPEC"), Several)
    .group(POLICY)
    .reads(|config, given| {
        config.swaps = given.each(|swap| parse_swap(config, swap))?;
        Ok(())
    })
    .shows(|config| Some(list(config.swaps.iter().map(|(at, policy)| format!("{}={policy}", show_duration(*at)))))),
    RunOption::new("ties", "Which of two equals goes first")
        .takes(OneOf(&["lowest", "highest"]), Once)
        .default("lowest")
        .group(POLICY)
        .sets(|config, given| {
            config.ties = if given.one() == "highest" { Ties::Highest } else { Ties::Lowest };
        })
        .shows(|config| Some(if config.ties == Ties::Lowest { "lowest" } else { "highest" }.to_owned())),
    RunOption::new(
        "topology",
        "Which cores are near each other: machine (this one), a file, e5355, epyc-2p, numa4x16, fan-outs from the root such as \
         2x4x2 (with costs: 2x4:2.0,1.2), or flat; `humpyard topology` shows it [default: machine for workers, else flat]",
    )
    .takes(Text("machine|FILE|NAME|TREE|flat"), Once)
    .group(CORES)
    .reads(|config, given| given.parsed().map(|topology| config.topology = Some(topology)))
    .shows(|config| Some(config.topology_name().to_owned())),
    RunOption::new("contexts", "Cores in a row that are contexts of one processing element, and take turns computing")
        .takes(Whole("N", 1, 65_535), Once)
        .default("1")
        .group(CORES)
        .reads(|config, given| given.whole().map(|contexts| config.contexts = contexts))
        .shows(|config| Some(config.contexts.to_string())),
    RunOption::new(
        "speeds",
        "Speed of the first cores, by which @costs are divided in virtual time; the others have 1",
    )
    .takes(Text("X,X,..."), Once)
    .group(CORES)
    .reads(|config, given| parse_speeds(given.one()).map(|speeds| config.speeds = speeds))
    .shows(|config| Some(list(config.speeds.iter().map(|&speed| (f64::from(speed) / 1000.0).to_string())))),
    RunOption::new(
        "stall",
        "Time that every packet waits for memory in virtual time, while another context of its element computes",
    )
    .takes(Time("TIME"), Once)
    .default("0ns")
    .group(CORES)
    .reads(|config, given| given.time().map(|time| config.stall = time))
    .shows(|config| Some(show_duration(config.stall))),
    RunOption::new(
        "host",
        "The host that a simulation assumes: ideal (nothing but the services takes time), here (this machine, as \
         `humpyard calibrate @machine @save` measured it, else measured now), server-16, appliance-4, or a file of `calibrate \
         @machine @output` [default: ideal; of recommend and validate here]",
    )
    .takes(Text("ideal|here|NAME|FILE"), Once)
    .group(CORES)
    .of(&[RunCommand::Sim, RunCommand::Compare, RunCommand::Recommend, RunCommand::Validate, RunCommand::Why])
    .reads(|config, given| {
        config.assumed = AssumedHost::find(given.one())?;
        Ok(())
    })
    .shows(|config| config.assumed.as_ref().map(|host| host.name.clone())),
    RunOption::new(
        "interrupted",
        "Interrupt cores and dispatcher as they were on the machine that @costs were measured on (`calibrate @machine`)",
    )
    .group(CORES)
    .of(&[RunCommand::Sim, RunCommand::Why])
    .sets(|config, _| config.interrupted = true)
    .shows(|config| config.interrupted.then(|| true.to_string())),
    RunOption::new(
        "split",
        "Flows with more than this share of a core are elephants: their packets go to the shorter queue of two cores, or of \
         more, and leave in order, as @flow-order exit says [share=0.5,cores=2,window=1ms where left out]",
    )
    .takes(Text("share=X,cores=N,window=TIME"), Once)
    .group(ORDER)
    .reads(|config, given| parse_split(given.one()).map(|split| config.split = Some(split)))
    .shows(|config| config.split.map(show_split)),
    RunOption::new(
        "link",
        "The link behind the cores: its rate, with a queue for each client, shared by a policy; a client with more packets \
         waiting there is withheld from the cores until it has none [wf2q+ and 64 where left out]",
    )
    .takes(Text("RATE[:queue=PACKETS,share=SPEC]"), Once)
    .group(ORDER)
    .reads(|config, given| parse_link(given.one()).map(|link| config.link = Some(link)))
    .shows(|config| config.link.as_ref().map(show_link)),
    RunOption::new(
        "flow-order",
        "How flows keep their order: their packets wait for earlier ones when they leave (exit, with bounds: \
         exit:packets=4096,time=1s), a client has one packet in service at a time (hold), or they do not (free) [default: \
         exit, with room for @buffer packets and 1s]",
    )
    .takes(Text("exit|hold|free"), Once)
    .group(ORDER)
    .reads(|config, given| parse_order(given.one()).map(|order| config.flow_order = order))
    .shows(|config| Some(config.flow_order.show(config.buffer))),
    RunOption::new("buffer", "Most packets held at once")
        .takes(Whole("PACKETS", 1, 16_777_216), Once)
        .default("4096")
        .group(ORDER)
        .reads(|config, given| given.whole().map(|packets| config.buffer = packets))
        .shows(|config| Some(config.buffer.to_string())),
    RunOption::new("queue-limit", "Most packets waiting in one queue")
        .takes(Whole("PACKETS", 1, u32::MAX as u64), Once)
        .group(ORDER)
        .reads(|config, given| given.whole().map(|packets| config.limits.queue = packets))
        .shows(|config| Some(limit(config.limits.queue))),
    RunOption::new("client-limit", "Most packets of one client waiting in one queue")
        .takes(Whole("PACKETS", 1, u32::MAX as u64), Once)
        .group(ORDER)
        .reads(|config, given| given.whole().map(|packets| config.limits.client = packets))
        .shows(|config| Some(limit(config.limits.client))),
    RunOption::new(
        "when-full",
        "Which packet goes when there is no room: the one that arrives, or the newest of the client with most packets waiting",
    )
    .takes(OneOf(&[WhenFull::Tail.name(), WhenFull::LongestQueue.name()]), Once)
    .default(WhenFull::Tail.name())
    .group(ORDER)
    .sets(|config, given| {
        let named = [WhenFull::Tail, WhenFull::LongestQueue].into_iter().find(|which| which.name() == given.one());
        config.limits.when_full = named.unwrap_or_default();
    })
    .shows(|config| Some(config.limits.when_full.name().to_owned())),
    RunOption::new("flows", "Most flows known at once; the one that is silent longest makes room")
        .takes(Whole("FLOWS", 2, 33_554_432), Once)
        .default("65536")
        .group(TRAFFIC)
        .reads(|config, given| given.whole().map(|flows| config.flows = flows))
        .shows(|config| Some(config.flows.to_string())),
    RunOption::new(
        "flow-timeout",
        "End flows that have had no packet in the run for this time, by the times of the packets, for example 60s [default: \
         never]",
    )
    .takes(Time("TIME"), Once)
    .group(TRAFFIC)
    .reads(|config, given| given.time().map(|time| config.flow_timeout = Some(time)))
    .shows(|config| Some(config.flow_timeout.map_or_else(|| NONE.to_owned(), show_duration))),
    RunOption::new(
        "inner",
        "Tunnels to look into, for the flow inside: gre, vxlan, gtp-u, ip-in-ip, separated by commas, or all",
    )
    .takes(Text("LIST"), Once)
    .default(NONE)
    .group(TRAFFIC)
    .reads(|config, given| given.parsed().map(|tunnels| config.tunnels = tunnels))
    .shows(|config| Some(config.tunnels.to_string())),
    RunOption::new(
        "hash",
        "What the hash of a connection is computed from, by which policies steer: protocol, addresses and ports, or \
         the addresses alone, so that all connections between two hosts have one hash",
    )
    .takes(OneOf(&[HashFields::Ports.name(), HashFields::Addresses.name()]), Once)
    .default(HashFields::Ports.name())
    .group(TRAFFIC)
    .reads(|config, given| given.parsed().map(|fields| config.hash = fields))
    .shows(|config| (config.hash != HashFields::Ports).then(|| config.hash.name().to_owned())),
    RunOption::new(
        "warmup",
        "Leave packets that arrive within this time after the first out of the figures of delay, lateness, order and fairness",
    )
    .takes(Time("TIME"), Once)
    .default("0ns")
    .group(TRAFFIC)
    .reads(|config, given| given.time().map(|time| config.warm_up = time))
    .shows(|config| Some(show_duration(config.warm_up))),
    RunOption::new(
        "output",
        "Where packets go: a capture file (.pcap or .pcapng, .gz or .zst), `-`, null:, or an interface (iface:NAME). Packets \
         of nfqueue:NUMBER go back to that queue",
    )
    .takes(Text("DST"), Once)
    .default("null:")
    .group(First(2))
    .of(RUN)
    .sets(|config, given| config.output = given.one().to_owned())
    .shows(|config| live(config).then(|| config.output_name())),
    RunOption::new("both-ways", "Between two interfaces: packets that arrive at the output leave by the input")
        .group(LIVE_ONLY)
        .of(RUN)
        .sets(|config, _| config.both_ways = true)
        .shows(|config| live(config).then(|| config.both_ways.to_string())),
    RunOption::new("keep-privileges", "Keep the privileges of the user once interfaces are open")
        .group(LIVE_ONLY)
        .of(RUN)
        .sets(|config, _| config.drop_privileges = false),
    RunOption::new(
        "dispatchers",
        "Dispatchers, each with a part of workers and connections; 0: workers need none; auto: 0 where possible, \
         else 1. Simulations: dispatchers of the --host; auto: 1",
    )
    .takes(Text("N|auto"), Once)
    .default("auto")
    .group(CORES)
    .of(WITH_DISPATCHERS)
    .reads(crate::parts::dispatch::read)
    .shows(crate::parts::dispatch::show),
    RunOption::new(
        "quarantine",
        "Where packets go at which a service panicked, as they arrived: a capture file; a .pcapng takes all link types",
    )
    .takes(Text("FILE"), Once)
    .group(RECORDS)
    .of(RUN)
    .sets(|config, given| config.quarantine = Some(given.one().to_owned()))
    .shows(|config| live(config).then(|| config.quarantine.clone().unwrap_or_else(|| NONE.to_owned()))),
    RunOption::new(
        "counters",
        "Let the hardware count cycles, instructions and cache misses of each thread; where it cannot, one line says why",
    )
    .group(RECORDS)
    .of(RUN)
    .sets(|config, _| config.counters = true)
    .shows(|config| live(config).then(|| config.counters.to_string())),
    RunOption::new("journal", "Write every event and decision to this file, a line each, for `humpyard replay`")
        .takes(Text("FILE"), Once)
        .group(RECORDS)
        .of(RUN_AND_SIM)
        .sets(|config, given| config.journal = Some(given.one().to_owned())),
    RunOption::new(
        "timeline",
        "Write what each core did when, drops and queue lengths to this file, for https://ui.perfetto.dev",
    )
    .takes(Text("FILE"), Once)
    .group(RECORDS)
    .of(RUN_AND_SIM)
    .reads(|config, given| TimelineChoice::of_file(given.one()).map(|timeline| config.timeline = Some(timeline))),
    RunOption::new(
        "timeline-packets",
        "End the timeline after this many packets, served or dropped, of about 200 bytes each",
    )
    .takes(Whole("N", 1, u64::MAX), Once)
    .default("100000")
    .group(RECORDS)
    .of(RUN_AND_SIM)
    .needs("timeline")
    .reads(|config, given| {
        given.whole().map(|packets| config.timeline.iter_mut().for_each(|timeline| timeline.packets = packets))
    }),
    RunOption::new("timeline-for", "End the timeline after this time of the run")
        .takes(Time("TIME"), Once)
        .group(RECORDS)
        .of(RUN_AND_SIM)
        .needs("timeline")
        .reads(|config, given| {
            given.time().map(|time| config.timeline.iter_mut().for_each(|timeline| timeline.longest = Some(time)))
        }),
];

impl RunConfig {
    /// Applies values of options, by name; a flag has none.
    ///
    /// # Errors
    /// An unknown option, and a value that an option does not take.
    pub fn apply(&mut self, given: &BTreeMap<&str, Vec<String>>) -> Result<(), LabError> {
        apply(OPTIONS, self, given)
    }

    /// Returns what holds beside policy, input, cores and seed, by option.
    pub(crate) fn options(&self) -> BTreeMap<&'static str, String> {
        let shown = OPTIONS.iter().filter_map(|option| Some((option.name, option.shown(self)?)));
        shown.chain(self.rate.options()).collect()
    }
}

fn live(config: &RunConfig) -> bool {
    config.host == Host::Live
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::IN_FLIGHT;
    use crate::timeline::TIMELINE_PACKETS;

    fn applied(given: &[(&'static str, &[&str])]) -> Result<RunConfig, LabError> {
        let mut config = RunConfig::new(Host::Live, "gen:poisson", "drr".parse().expect("a policy"));
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let given = given.iter().map(|&(name, texts)| (name, owned(texts))).collect();
        config.apply(&given).map(|()| config)
    }

    #[test]
    fn defaults_are_what_holds_where_nothing_is_given() {
        let untouched = applied(&[]).unwrap();
        for option in OPTIONS {
            if let (Some(default), None) = (option.default, option.needs) {
                let config = applied(&[(option.name, &[default])]).unwrap();
                assert_eq!(config.options(), untouched.options(), "{}", option.name);
            }
        }
        let timeline = applied(&[("timeline", &["a"]), ("timeline-packets", &["100000"])]).unwrap();
        assert_eq!(timeline.timeline.unwrap().packets, TIMELINE_PACKETS);
    }

    #[test]
    fn names_are_those_of_options() {
        for (at, option) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..at].iter().all(|other| other.name != option.name), "{} twice", option.name);
            let others = option.excludes.iter().chain(&option.needs);
            for other in others {
                assert!(OPTIONS[..at].iter().any(|known| known.name == *other), "{}: {other}", option.name);
            }
        }
    }

    #[test]
    fn what_depends_on_other_options_is_applied_behind_them() {
        let config = applied(&[("rate", &["5k"]), ("clock", &["virtual"]), ("in-flight", &["4"])]).unwrap();
        assert_eq!((config.rate, config.in_flight), (Rate::PacketsPerSecond(5e3), 4));
        let config = applied(&[("clock", &["virtual"])]).unwrap();
        assert_eq!((config.rate, config.in_flight), (Rate::Trace, 1));
        let config = applied(&[("clock", &["virtual"]), ("hand-over", &["1us"])]).unwrap();
        assert_eq!(config.in_flight, IN_FLIGHT);
        let config = applied(&[("of", &["8"]), ("load", &["0.5"])]).unwrap();
        assert_eq!(config.rate, Rate::Load { load: 0.5, of: Some(8) });
        assert_eq!(applied(&[("load", &["90%"])]).unwrap().rate, Rate::Load { load: 0.9, of: None });
        let config = applied(&[("services", &["dpi,encrypt"])]).unwrap();
        assert_eq!(config.chains, [("dpi".to_owned(), vec!["encrypt".to_owned()])]);
        let config = applied(&[("input", &["a.pcap", "iface:eth0"])]).unwrap();
        assert_eq!((config.services[0].name.as_str(), config.more_inputs.len()), ("pass", 1));
    }

    #[test]
    fn slips_are_told() {
        for (name, text, said) in [
            ("bufer", "1", "no option `bufer`; did you mean `buffer`?"),
            ("buffer", "0", "buffer takes 1 to 16777216, not `0`"),
            ("when-full", "tall", "when-full: no value `tall`; did you mean `tail`?"),
            ("hash", "adresses", "hash: no value `adresses`; did you mean `addresses`?"),
            ("load", "many", "load takes a number, not `many`"),
            ("load", "many%", "load takes a number, not `many%`"),
            ("load", "1e9", "load takes a number from 0.000001 to 1000, 0.9 for example, not 1000000000.0"),
            ("of", "2", "of says of how many cores load is: give load, too, or leave out of"),
            ("weights", "3,0", "weights takes whole numbers from 1 to 4294967295, separated by commas, not `0`"),
            ("guarantee", "tcp=2", "guarantee reads SERVICE=SHARE with a share from 0 to 1, not `tcp=2`"),
            ("tolerance", "=2ms", "tolerance: reads TIME or SERVICE=TIME, not `=2ms`"),
            ("stall", "5", "stall: "),
            ("timeline", "-", "timeline takes the name of a file"),
        ] {
            let error = applied(&[(name, &[text])]).unwrap_err().to_string();
            assert!(error.starts_with(said), "{name}: {error}");
        }
        let twice = applied(&[("tolerance", &["tcp=1ms", "tcp=2ms"])]).unwrap_err().to_string();
        assert_eq!(twice, "tolerance `tcp=2ms`: `tcp` is given twice: give it once");
    }
}
