"""The types of keyword arguments, made of the command line's options by `tests/options.rs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict, Union

if TYPE_CHECKING:
    from .policies import PolicyLike

Text = Union[str, int, float, "PathLike[str]", timedelta]
"""A value as text, or what has one text."""
Texts = Union[Text, Sequence[Union[Text, Mapping[str, Text]]], Mapping[str, Text]]
"""One value or several. A dict is NAME=VALUE for each of its items."""
Swaps = Union[Texts, Mapping[str, "PolicyLike"]]
"""Times, each with the policies that take over."""


class SimulateOptions(TypedDict, total=False):
    """The options of `simulate`."""

    loop: int
    """Play the input this many times, each round a mean gap after the one before."""
    packets: int
    """Read this many packets of the input, from its start, for example 200k [default: all; of recommend 200000]."""
    hand_over: Text
    """Time that a core takes to be handed a packet, beside the work: clients are charged for it, and estimates
    include it. In virtual time it passes, and up to 32 packets are handed to a core ahead, as live [default:
    no time; in virtual time, one packet at a time]."""
    switch_out: Text
    """Time that a core is held, beyond the quantum, when it gives a packet back (`ps`, `shinjuku`, `concord`,
    `srpt`): the timer, and saving the packet's state [default: no time]."""
    rate: Text
    """When packets arrive: `trace` (as captured), `line` (as fast as taken; live only), or packets per second,
    evenly."""
    multiplier: float
    """Play the input this many times faster than captured; bursts stay as they are."""
    load: float
    """Stretch the captured times so that the offered work, by `costs`, is this part of what the cores can do, or
    those of `of`."""
    of: int
    """`load` is of what N cores can do, with their `speeds`, `contexts` and `stall`: so it is the same traffic
    on any number of cores [default: `cores`; of live runs `workers`, of `workers` 0 one]."""
    services: Texts
    """What is done to packets: a service (see `humpyard list services`), or one by kind (tcp, udp, icmp, ipv4,
    ipv6, other) or name: tcp=encrypt,other=forward; or several in a row, through which every packet goes:
    dpi,encrypt [default: forward; pass where packets come by an interface]."""
    chain: Texts
    """Packets of a service go through these services of the run afterwards, one after the other."""
    costs: Text
    """What services cost: table:NAME (measured, predictive, everest, ps-hrw), calibrated (what `humpyard
    calibrate `save`` kept), a file, or auto (calibrated lines, else lines that are measured now, and printed
    for a file) [default: table:measured; of recommend and validate, measured on the input]."""
    rule: Texts
    """A rule, of which the first that matches counts: protocol=tcp,port=80+443,service=web; `humpyard explain
    rule`."""
    local: Texts
    """Prefixes of the local side, from which the direction of a rule is seen."""
    tolerance: Texts
    """Delay beyond which a packet is late, for all services or one [default: 2ms]."""
    switch_cost: Texts
    """Time that a core takes to go over to another service: to each of them, or to one [default: what a cost
    file says, else 50us]."""
    guarantee: Texts
    """Share of the cores that a service is guaranteed; the rest is divided equally."""
    services_per_core: int
    """Services whose code each core keeps, where cores are allocated: going back to one of them takes no time."""
    clients: Text
    """Who the clients of a sharing policy are: flow, connection, service or rule [default: flow; rule where one
    names a client]."""
    weights: Texts
    """Weights of the first clients, in order of appearance; the others have 1."""
    unit: Literal["ns", "bytes", "packets"]
    """The unit of work that is shared."""
    swap: Swaps
    """Other policies of the same families take over at this time of the run; may be given several times."""
    ties: Literal["lowest", "highest"]
    """Which of two equals goes first."""
    topology: Text
    """Which cores are near each other: machine (this one), a file, e5355, epyc-2p, numa4x16, fan-outs from the
    root such as 2x4x2 (with costs: 2x4:2.0,1.2), or flat; `humpyard topology` shows it [default: machine for
    workers, else flat]."""
    contexts: int
    """Cores in a row that are contexts of one processing element, and take turns computing."""
    speeds: Texts
    """Speed of the first cores, by which `costs` are divided in virtual time; the others have 1."""
    stall: Text
    """Time that every packet waits for memory in virtual time, while another context of its element computes."""
    host: Text
    """The host that a simulation assumes: ideal (nothing but the services takes time), here (this machine, as
    `humpyard calibrate `machine` `save`` measured it, else measured now), server-16, appliance-4, or a file
    of `calibrate `machine` `output`` [default: ideal; of recommend and validate here]."""
    interrupted: bool
    """Interrupt cores and dispatcher as they were on the machine that `costs` were measured on (`calibrate
    `machine``)."""
    split: Texts
    """Flows with more than this share of a core are elephants: their packets go to the shorter queue of two
    cores, or of more, and leave in order, as `flow_order` exit says [share=0.5,cores=2,window=1ms where left
    out]."""
    link: Texts
    """The link behind the cores: its rate, with a queue for each client, shared by a policy; a client with more
    packets waiting there is withheld from the cores until it has none [wf2q+ and 64 where left out]."""
    flow_order: Text
    """How flows keep their order: their packets wait for earlier ones when they leave (exit, with bounds:
    exit:packets=4096,time=1s), a client has one packet in service at a time (hold), or they do not (free)
    [default: exit, with room for `buffer` packets and 1s]."""
    buffer: int
    """Most packets held at once."""
    queue_limit: int
    """Most packets waiting in one queue."""
    client_limit: int
    """Most packets of one client waiting in one queue."""
    when_full: Literal["tail", "longest-queue"]
    """Which packet goes when there is no room: the one that arrives, or the newest of the client with most
    packets waiting."""
    flows: int
    """Most flows known at once; the one that is silent longest makes room."""
    flow_timeout: Text
    """End flows that have had no packet in the run for this time, by the times of the packets, for example 60s
    [default: never]."""
    inner: Text
    """Tunnels to look into, for the flow inside: gre, vxlan, gtp-u, ip-in-ip, separated by commas, or all."""
    hash: Literal["ports", "addresses"]
    """What the hash of a connection is computed from, by which policies steer: protocol, addresses and ports, or
    the addresses alone, so that all connections between two hosts have one hash."""
    warmup: Text
    """Leave packets that arrive within this time after the first out of the figures of delay, lateness, order
    and fairness."""
    dispatchers: Text
    """Dispatchers, each with a part of workers and connections; 0: workers need none; auto: 0 where possible,
    else 1. Simulations: dispatchers of the --host; auto: 1."""
    journal: Text
    """Write every event and decision to this file, a line each, for `humpyard replay`."""
    timeline: Text
    """Write what each core did when, drops and queue lengths to this file, for https://ui.perfetto.dev."""
    timeline_packets: int
    """End the timeline after this many packets, served or dropped, of about 200 bytes each."""
    timeline_for: Text
    """End the timeline after this time of the run."""


class RunOptions(TypedDict, total=False):
    """The options of `run`."""

    loop: int
    """Play the input this many times, each round a mean gap after the one before."""
    packets: int
    """Read this many packets of the input, from its start, for example 200k [default: all; of recommend 200000]."""
    hand_over: Text
    """Time that a core takes to be handed a packet, beside the work: clients are charged for it, and estimates
    include it. In virtual time it passes, and up to 32 packets are handed to a core ahead, as live [default:
    no time; in virtual time, one packet at a time]."""
    clock: Literal["real", "virtual"]
    """The clock of the run: that of the machine, or a virtual one by which work takes what `costs` says
    [default: real]."""
    in_flight: int
    """Packets handed to a worker and not yet done, at most; under a policy with a quantum always 1 [default: 32;
    by a virtual clock without `hand_over` 1]."""
    overload: Literal["wait", "drop"]
    """What the run does when the buffer is full [default: wait at line rate, else drop]."""
    for_: Text
    """End reading after this time, for example 10s."""
    rate: Text
    """When packets arrive: `trace` (as captured), `line` (as fast as taken; live only), or packets per second,
    evenly."""
    multiplier: float
    """Play the input this many times faster than captured; bursts stay as they are."""
    load: float
    """Stretch the captured times so that the offered work, by `costs`, is this part of what the cores can do, or
    those of `of`."""
    of: int
    """`load` is of what N cores can do, with their `speeds`, `contexts` and `stall`: so it is the same traffic
    on any number of cores [default: `cores`; of live runs `workers`, of `workers` 0 one]."""
    services: Texts
    """What is done to packets: a service (see `humpyard list services`), or one by kind (tcp, udp, icmp, ipv4,
    ipv6, other) or name: tcp=encrypt,other=forward; or several in a row, through which every packet goes:
    dpi,encrypt [default: forward; pass where packets come by an interface]."""
    chain: Texts
    """Packets of a service go through these services of the run afterwards, one after the other."""
    costs: Text
    """What services cost: table:NAME (measured, predictive, everest, ps-hrw), calibrated (what `humpyard
    calibrate `save`` kept), a file, or auto (calibrated lines, else lines that are measured now, and printed
    for a file) [default: table:measured; of recommend and validate, measured on the input]."""
    rule: Texts
    """A rule, of which the first that matches counts: protocol=tcp,port=80+443,service=web; `humpyard explain
    rule`."""
    local: Texts
    """Prefixes of the local side, from which the direction of a rule is seen."""
    tolerance: Texts
    """Delay beyond which a packet is late, for all services or one [default: 2ms]."""
    switch_cost: Texts
    """Time that a core takes to go over to another service: to each of them, or to one [default: what a cost
    file says, else 50us]."""
    guarantee: Texts
    """Share of the cores that a service is guaranteed; the rest is divided equally."""
    services_per_core: int
    """Services whose code each core keeps, where cores are allocated: going back to one of them takes no time."""
    clients: Text
    """Who the clients of a sharing policy are: flow, connection, service or rule [default: flow; rule where one
    names a client]."""
    weights: Texts
    """Weights of the first clients, in order of appearance; the others have 1."""
    unit: Literal["ns", "bytes", "packets"]
    """The unit of work that is shared."""
    swap: Swaps
    """Other policies of the same families take over at this time of the run; may be given several times."""
    ties: Literal["lowest", "highest"]
    """Which of two equals goes first."""
    topology: Text
    """Which cores are near each other: machine (this one), a file, e5355, epyc-2p, numa4x16, fan-outs from the
    root such as 2x4x2 (with costs: 2x4:2.0,1.2), or flat; `humpyard topology` shows it [default: machine for
    workers, else flat]."""
    contexts: int
    """Cores in a row that are contexts of one processing element, and take turns computing."""
    speeds: Texts
    """Speed of the first cores, by which `costs` are divided in virtual time; the others have 1."""
    stall: Text
    """Time that every packet waits for memory in virtual time, while another context of its element computes."""
    split: Texts
    """Flows with more than this share of a core are elephants: their packets go to the shorter queue of two
    cores, or of more, and leave in order, as `flow_order` exit says [share=0.5,cores=2,window=1ms where left
    out]."""
    link: Texts
    """The link behind the cores: its rate, with a queue for each client, shared by a policy; a client with more
    packets waiting there is withheld from the cores until it has none [wf2q+ and 64 where left out]."""
    flow_order: Text
    """How flows keep their order: their packets wait for earlier ones when they leave (exit, with bounds:
    exit:packets=4096,time=1s), a client has one packet in service at a time (hold), or they do not (free)
    [default: exit, with room for `buffer` packets and 1s]."""
    buffer: int
    """Most packets held at once."""
    queue_limit: int
    """Most packets waiting in one queue."""
    client_limit: int
    """Most packets of one client waiting in one queue."""
    when_full: Literal["tail", "longest-queue"]
    """Which packet goes when there is no room: the one that arrives, or the newest of the client with most
    packets waiting."""
    flows: int
    """Most flows known at once; the one that is silent longest makes room."""
    flow_timeout: Text
    """End flows that have had no packet in the run for this time, by the times of the packets, for example 60s
    [default: never]."""
    inner: Text
    """Tunnels to look into, for the flow inside: gre, vxlan, gtp-u, ip-in-ip, separated by commas, or all."""
    hash: Literal["ports", "addresses"]
    """What the hash of a connection is computed from, by which policies steer: protocol, addresses and ports, or
    the addresses alone, so that all connections between two hosts have one hash."""
    warmup: Text
    """Leave packets that arrive within this time after the first out of the figures of delay, lateness, order
    and fairness."""
    output: Text
    """Where packets go: a capture file (.pcap or .pcapng, .gz or .zst), `-`, null:, or an interface
    (iface:NAME). Packets of nfqueue:NUMBER go back to that queue."""
    both_ways: bool
    """Between two interfaces: packets that arrive at the output leave by the input."""
    keep_privileges: bool
    """Keep the privileges of the user once interfaces are open."""
    dispatchers: Text
    """Dispatchers, each with a part of workers and connections; 0: workers need none; auto: 0 where possible,
    else 1. Simulations: dispatchers of the --host; auto: 1."""
    quarantine: Text
    """Where packets go at which a service panicked, as they arrived: a capture file; a .pcapng takes all link
    types."""
    counters: bool
    """Let the hardware count cycles, instructions and cache misses of each thread; where it cannot, one line
    says why."""
    journal: Text
    """Write every event and decision to this file, a line each, for `humpyard replay`."""
    timeline: Text
    """Write what each core did when, drops and queue lengths to this file, for https://ui.perfetto.dev."""
    timeline_packets: int
    """End the timeline after this many packets, served or dropped, of about 200 bytes each."""
    timeline_for: Text
    """End the timeline after this time of the run."""


class CompareOptions(TypedDict, total=False):
    """The options of `compare`."""

    loop: int
    """Play the input this many times, each round a mean gap after the one before."""
    packets: int
    """Read this many packets of the input, from its start, for example 200k [default: all; of recommend 200000]."""
    hand_over: Text
    """Time that a core takes to be handed a packet, beside the work: clients are charged for it, and estimates
    include it. In virtual time it passes, and up to 32 packets are handed to a core ahead, as live [default:
    no time; in virtual time, one packet at a time]."""
    switch_out: Text
    """Time that a core is held, beyond the quantum, when it gives a packet back (`ps`, `shinjuku`, `concord`,
    `srpt`): the timer, and saving the packet's state [default: no time]."""
    clock: Literal["real", "virtual"]
    """The clock of the run: that of the machine, or a virtual one by which work takes what `costs` says
    [default: real]."""
    in_flight: int
    """Packets handed to a worker and not yet done, at most; under a policy with a quantum always 1 [default: 32;
    by a virtual clock without `hand_over` 1]."""
    overload: Literal["wait", "drop"]
    """What the run does when the buffer is full [default: wait at line rate, else drop]."""
    for_: Text
    """End reading after this time, for example 10s."""
    rate: Text
    """When packets arrive: `trace` (as captured), `line` (as fast as taken; live only), or packets per second,
    evenly."""
    multiplier: float
    """Play the input this many times faster than captured; bursts stay as they are."""
    load: float
    """Stretch the captured times so that the offered work, by `costs`, is this part of what the cores can do, or
    those of `of`."""
    of: int
    """`load` is of what N cores can do, with their `speeds`, `contexts` and `stall`: so it is the same traffic
    on any number of cores [default: `cores`; of live runs `workers`, of `workers` 0 one]."""
    services: Texts
    """What is done to packets: a service (see `humpyard list services`), or one by kind (tcp, udp, icmp, ipv4,
    ipv6, other) or name: tcp=encrypt,other=forward; or several in a row, through which every packet goes:
    dpi,encrypt [default: forward; pass where packets come by an interface]."""
    chain: Texts
    """Packets of a service go through these services of the run afterwards, one after the other."""
    costs: Text
    """What services cost: table:NAME (measured, predictive, everest, ps-hrw), calibrated (what `humpyard
    calibrate `save`` kept), a file, or auto (calibrated lines, else lines that are measured now, and printed
    for a file) [default: table:measured; of recommend and validate, measured on the input]."""
    rule: Texts
    """A rule, of which the first that matches counts: protocol=tcp,port=80+443,service=web; `humpyard explain
    rule`."""
    local: Texts
    """Prefixes of the local side, from which the direction of a rule is seen."""
    tolerance: Texts
    """Delay beyond which a packet is late, for all services or one [default: 2ms]."""
    switch_cost: Texts
    """Time that a core takes to go over to another service: to each of them, or to one [default: what a cost
    file says, else 50us]."""
    guarantee: Texts
    """Share of the cores that a service is guaranteed; the rest is divided equally."""
    services_per_core: int
    """Services whose code each core keeps, where cores are allocated: going back to one of them takes no time."""
    clients: Text
    """Who the clients of a sharing policy are: flow, connection, service or rule [default: flow; rule where one
    names a client]."""
    weights: Texts
    """Weights of the first clients, in order of appearance; the others have 1."""
    unit: Literal["ns", "bytes", "packets"]
    """The unit of work that is shared."""
    swap: Swaps
    """Other policies of the same families take over at this time of the run; may be given several times."""
    ties: Literal["lowest", "highest"]
    """Which of two equals goes first."""
    topology: Text
    """Which cores are near each other: machine (this one), a file, e5355, epyc-2p, numa4x16, fan-outs from the
    root such as 2x4x2 (with costs: 2x4:2.0,1.2), or flat; `humpyard topology` shows it [default: machine for
    workers, else flat]."""
    contexts: int
    """Cores in a row that are contexts of one processing element, and take turns computing."""
    speeds: Texts
    """Speed of the first cores, by which `costs` are divided in virtual time; the others have 1."""
    stall: Text
    """Time that every packet waits for memory in virtual time, while another context of its element computes."""
    host: Text
    """The host that a simulation assumes: ideal (nothing but the services takes time), here (this machine, as
    `humpyard calibrate `machine` `save`` measured it, else measured now), server-16, appliance-4, or a file
    of `calibrate `machine` `output`` [default: ideal; of recommend and validate here]."""
    split: Texts
    """Flows with more than this share of a core are elephants: their packets go to the shorter queue of two
    cores, or of more, and leave in order, as `flow_order` exit says [share=0.5,cores=2,window=1ms where left
    out]."""
    link: Texts
    """The link behind the cores: its rate, with a queue for each client, shared by a policy; a client with more
    packets waiting there is withheld from the cores until it has none [wf2q+ and 64 where left out]."""
    flow_order: Text
    """How flows keep their order: their packets wait for earlier ones when they leave (exit, with bounds:
    exit:packets=4096,time=1s), a client has one packet in service at a time (hold), or they do not (free)
    [default: exit, with room for `buffer` packets and 1s]."""
    buffer: int
    """Most packets held at once."""
    queue_limit: int
    """Most packets waiting in one queue."""
    client_limit: int
    """Most packets of one client waiting in one queue."""
    when_full: Literal["tail", "longest-queue"]
    """Which packet goes when there is no room: the one that arrives, or the newest of the client with most
    packets waiting."""
    flows: int
    """Most flows known at once; the one that is silent longest makes room."""
    flow_timeout: Text
    """End flows that have had no packet in the run for this time, by the times of the packets, for example 60s
    [default: never]."""
    inner: Text
    """Tunnels to look into, for the flow inside: gre, vxlan, gtp-u, ip-in-ip, separated by commas, or all."""
    hash: Literal["ports", "addresses"]
    """What the hash of a connection is computed from, by which policies steer: protocol, addresses and ports, or
    the addresses alone, so that all connections between two hosts have one hash."""
    warmup: Text
    """Leave packets that arrive within this time after the first out of the figures of delay, lateness, order
    and fairness."""
    dispatchers: Text
    """Dispatchers, each with a part of workers and connections; 0: workers need none; auto: 0 where possible,
    else 1. Simulations: dispatchers of the --host; auto: 1."""
