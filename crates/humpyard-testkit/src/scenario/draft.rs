//! Converts lines to a history: first parses each line alone, then resolves what they name.

use alloc::collections::{BTreeMap, BTreeSet};

use humpyard_core::config::ServiceConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::hash::mix;
use humpyard_core::id::{ChainId, ClientId, FlowId, Id, ServiceId};
use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, WhenFull};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, WorkUnit};

use super::words::{Words, choose};
use crate::history::{Event, History};

/// The line, from 1, and the error in it.
type Slip = (Option<usize>, String);

/// The possible first words of a line, and whether several such lines are allowed.
const SETTINGS: [(&str, bool); 15] = [
    ("about", false),
    ("cores", false),
    ("contexts", false),
    ("in-flight", false),
    ("unit", false),
    ("weights", false),
    ("order", false),
    ("packets", false),
    ("limits", false),
    ("full", false),
    ("exit", false),
    ("seed", false),
    ("service", true),
    ("chain", true),
    ("at", true),
];

/// A service, as its line says.
#[derive(Clone, Copy, Default)]
struct Service {
    line: usize,
    fixed: Option<u64>,
    per_byte_milli: Option<u64>,
    packet_time: Option<Time>,
    switch_cost: Time,
    tolerance: Option<Time>,
    guarantee_millionths: Option<u32>,
}

/// The content of an event line.
#[derive(Clone, Copy)]
enum Said {
    Sends(Sending),
    Weight(Weight),
    Ends,
}

/// Packets, as their line says.
#[derive(Clone, Copy)]
struct Sending {
    length: u32,
    flow: usize,
    service: Option<usize>,
    chain: Option<usize>,
    part: Part,
    busy: Option<Time>,
    times: u64,
    every: Time,
}

#[derive(Clone, Copy)]
struct EventLine {
    line: usize,
    time: Time,
    client: usize,
    said: Said,
}

/// All lines, each parsed alone.
struct Draft {
    about: String,
    history: History,
    services: Vec<Service>,
    /// The chains, with the numbers of their lines.
    chains: Vec<(usize, Vec<ServiceId>)>,
    events: Vec<EventLine>,
}

/// Returns the summary of a scenario, and its history.
pub(super) fn read(text: &str) -> Result<(String, History), Slip> {
    let mut draft = Draft::new();
    let mut seen = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = Words::of(line);
        let Some(setting) = words.word() else { continue };
        let told = choose("setting", setting, &SETTINGS).and_then(|repeats| {
            if !seen.insert(setting) && !repeats {
                return Err(format!("`{setting}` is set twice"));
            }
            draft.set(number, setting, &mut words)?;
            words.end()
        });
        told.map_err(|message| (Some(number), message))?;
    }
    draft.finish()
}

impl Draft {
    fn new() -> Self {
        let history = History {
            cores: 1,
            contexts: 1,
            in_flight: 1,
            weights: vec![Weight::ONE],
            estimates: Vec::new(),
            longest: 1,
            packets: 4096,
            limits: Limits::default(),
            chains: Vec::new(),
            exit: None,
            split: None,
            flow_order: FlowOrder::Hold,
            unit: WorkUnit::Nanoseconds,
            flows: 1,
            seed: Seed(0),
            events: Vec::new(),
            services: Vec::new(),
        };
        Self { about: String::new(), history, services: Vec::new(), chains: Vec::new(), events: Vec::new() }
    }

    fn set(&mut self, line: usize, setting: &str, words: &mut Words<'_>) -> Result<(), String> {
        let history = &mut self.history;
        match setting {
            "about" => self.about = words.rest(),
            "cores" => history.cores = words.number(setting, 1..=65_535)? as usize,
            "contexts" => history.contexts = words.number(setting, 1..=65_535)? as usize,
            "in-flight" => history.in_flight = words.number(setting, 1..=65_535)? as usize,
            "packets" => history.packets = words.number(setting, 1..=1_000_000)? as usize,
            "seed" => history.seed = Seed(words.number(setting, 0..=u64::MAX)?),
            "unit" => history.unit = words.choice(setting, &UNITS)?,
            "order" => history.flow_order = words.choice(setting, &ORDERS)?,
            "full" => history.limits.when_full = words.choice("way", &WAYS)?,
            "weights" => history.weights = weights(words)?,
            "limits" => limits(words, &mut history.limits)?,
            "exit" => history.exit = Some(exit(words)?),
            "service" => self.services.push(service(line, words)?),
            "chain" => self.chains.push((line, chain(words)?)),
            _ => self.events.push(event(line, words)?),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(String, History), Slip> {
        if self.about.is_empty() {
            return Err((None, "a scenario says what it is `about`".into()));
        }
        if self.services.is_empty() {
            self.services.push(Service::default());
        }
        self.estimate()?;
        self.link()?;
        let sent =
            self.events.iter().filter_map(|event| if let Said::Sends(sent) = event.said { Some(sent) } else { None });
        let Some(each) = sent.clone().map(|sent| sent.flow + 1).max() else {
            return Err((None, "no packet arrives: a scenario has a line such as `at 0ns client 0 sends 64`".into()));
        };
        let length_max = sent.map(|sent| sent.length).max().expect("a packet is sent");
        self.history.flows = each * self.history.weights.len();
        let estimates = &self.history.estimates;
        self.history.longest = estimates.iter().map(|estimate| estimate.work(length_max)).max().expect("a service");
        self.happen(each)?;
        self.history.services = self.services();
        Ok((self.about, self.history))
    }

    fn estimate(&mut self) -> Result<(), Slip> {
        let unit = self.history.unit;
        for service in &self.services {
            let said = service.fixed.is_some() || service.per_byte_milli.is_some();
            self.history.estimates.push(match unit {
                WorkUnit::Nanoseconds if said => LinearCost {
                    fixed: service.fixed.unwrap_or(0),
                    per_byte_milli: service.per_byte_milli.unwrap_or(0),
                    cold: 0,
                },
                _ if said => {
                    let message = format!("an estimate of its own is in ns: the unit is {}", unit.name());
                    return Err((Some(service.line), message));
                }
                WorkUnit::Nanoseconds | WorkUnit::Bytes => LinearCost::BYTES,
                WorkUnit::Packets => LinearCost::PACKETS,
            });
        }
        Ok(())
    }

    /// Chains name services.
    fn link(&mut self) -> Result<(), Slip> {
        for (line, chain) in &self.chains {
            for service in chain {
                among("service", service.index(), self.services.len()).map_err(|message| (Some(*line), message))?;
            }
        }
        self.history.chains = self.chains.iter().map(|(_, chain)| chain.clone()).collect();
        Ok(())
    }

    /// Adds the events of each line, by time; each client has `each` flows.
    fn happen(&mut self, each: usize) -> Result<(), Slip> {
        let mut ways = BTreeMap::new();
        for event in &self.events {
            let slip = |message| (Some(event.line), message);
            among("client", event.client, self.history.weights.len()).map_err(slip)?;
            let client = ClientId::from_index(event.client);
            match event.said {
                Said::Weight(weight) => self.history.events.push((event.time, Event::SetWeight(client, weight))),
                Said::Ends => self.history.events.push((event.time, Event::EndClient(client))),
                Said::Sends(sending) => {
                    let packet = packet(&self.history, client, each, &sending).map_err(slip)?;
                    let way = (packet.service, packet.chain);
                    if *ways.entry(packet.flow).or_insert(way) != way {
                        let (flow, rule) = (sending.flow, "packets of one flow are of one service, or one chain");
                        return Err(slip(format!("{rule}: flow {flow} of client {client} is of another")));
                    }
                    send(&mut self.history, event.time, packet, &sending);
                }
            }
        }
        self.history.events.sort_by_key(|&(time, _)| time);
        Ok(())
    }

    fn services(&self) -> Vec<ServiceConfig> {
        let equal = 1_000_000 / self.services.len() as u32;
        let config_of = |(service, said): (usize, &Service)| {
            let longest = || Time::from_ns(self.history.estimates[service].work(self.longest_of(service)));
            ServiceConfig {
                name: "service".to_owned(),
                packet_time: said.packet_time.unwrap_or_else(longest),
                switch_cost: said.switch_cost,
                tolerance: said.tolerance.unwrap_or(Time::MAX),
                guarantee_millionths: said.guarantee_millionths.unwrap_or(equal),
            }
        };
        self.services.iter().enumerate().map(config_of).collect()
    }

    /// Length of the longest packet that comes to a service.
    fn longest_of(&self, service: usize) -> u32 {
        let comes = |packet: &Packet| match self.history.chains.get(packet.chain.index()) {
            Some(chain) => chain.iter().any(|hop| hop.index() == service),
            None => packet.service.index() == service,
        };
        let length = |(_, event): &(Time, Event)| match event {
            Event::Arrive { packet, .. } if comes(packet) => Some(packet.length),
            _ => None,
        };
        self.history.events.iter().filter_map(length).max().unwrap_or(0)
    }
}

const UNITS: [(&str, WorkUnit); 3] =
    [("ns", WorkUnit::Nanoseconds), ("bytes", WorkUnit::Bytes), ("packets", WorkUnit::Packets)];
const ORDERS: [(&str, FlowOrder); 2] = [("hold", FlowOrder::Hold), ("free", FlowOrder::Free)];
const WAYS: [(&str, WhenFull); 2] = [("tail", WhenFull::Tail), ("longest-queue", WhenFull::LongestQueue)];
const PARTS: [(&str, Part); 4] =
    [("whole", Part::Whole), ("first", Part::First), ("middle", Part::Middle), ("last", Part::Last)];

const COUNT: core::ops::RangeInclusive<u64> = 1..=u32::MAX as u64;
/// Most packets of one line: a scenario is small.
const TIMES_MAX: u64 = 10_000;

fn weights(words: &mut Words<'_>) -> Result<Vec<Weight>, String> {
    let mut weights = Vec::new();
    loop {
        let number = words.number("weights", COUNT)?;
        weights.push(Weight::new(number as u32).expect("a number from 1"));
        if words.is_empty() {
            return Ok(weights);
        }
    }
}

fn limits(words: &mut Words<'_>, limits: &mut Limits) -> Result<(), String> {
    while !words.is_empty() {
        let name = words.choice("limit", &[("queue", "queue"), ("client", "client")])?;
        let packets = words.number(name, COUNT)? as u32;
        if name == "queue" { limits.queue = packets } else { limits.client = packets }
    }
    Ok(())
}

fn exit(words: &mut Words<'_>) -> Result<ExitOrder, String> {
    let (mut packets, mut timeout) = (None, None);
    while !words.is_empty() {
        match words.choice("property", &[("packets", "packets"), ("timeout", "timeout")])? {
            "packets" => packets = Some(words.number("packets", 1..=1_000_000)? as u32),
            name => timeout = Some(words.time(name)?),
        }
    }
    let needs = |name: &str| format!("`exit` needs `{name}` too");
    Ok(ExitOrder {
        packets: packets.ok_or_else(|| needs("packets"))?,
        timeout: timeout.ok_or_else(|| needs("timeout"))?,
    })
}

fn service(line: usize, words: &mut Words<'_>) -> Result<Service, String> {
    const PROPERTIES: [&str; 6] = ["fixed", "per-byte", "packet-time", "switch", "tolerance", "guarantee"];
    let mut service = Service { line, ..Service::default() };
    while !words.is_empty() {
        match words.choice("property", &PROPERTIES.map(|name| (name, name)))? {
            name @ "fixed" => service.fixed = Some(words.number(name, 0..=u64::from(u32::MAX))?),
            name @ "per-byte" => service.per_byte_milli = Some(words.thousandths(name)?),
            name @ "packet-time" => service.packet_time = Some(words.time(name)?),
            name @ "switch" => service.switch_cost = words.time(name)?,
            name @ "tolerance" => service.tolerance = Some(words.time(name)?),
            name => service.guarantee_millionths = Some(words.percentage(name)?),
        }
    }
    Ok(service)
}

fn chain(words: &mut Words<'_>) -> Result<Vec<ServiceId>, String> {
    let mut chain = Vec::new();
    loop {
        chain.push(ServiceId(words.number("chain", 0..=65_535)? as u16));
        if words.is_empty() {
            return Ok(chain);
        }
    }
}

fn event(line: usize, words: &mut Words<'_>) -> Result<EventLine, String> {
    let time = words.time("at")?;
    let client = words.word().unwrap_or_default();
    if client != "client" {
        return Err(format!("after its time an event names its `client`, not `{client}`"));
    }
    let client = words.number(client, 0..=u64::from(u32::MAX))? as usize;
    let said = match words.choice("event", &["sends", "weight", "ends"].map(|name| (name, name)))? {
        "sends" => Said::Sends(sending(words)?),
        name @ "weight" => Said::Weight(Weight::new(words.number(name, COUNT)? as u32).expect("a number from 1")),
        _ => Said::Ends,
    };
    Ok(EventLine { line, time, client, said })
}

fn sending(words: &mut Words<'_>) -> Result<Sending, String> {
    const PROPERTIES: [&str; 7] = ["flow", "service", "chain", "part", "busy", "times", "every"];
    let length = words.number("sends", COUNT)? as u32;
    let (mut flow, mut service, mut chain, mut part, mut busy) = (0, None, None, Part::Whole, None);
    let (mut times, mut every) = (None, None);
    while !words.is_empty() {
        match words.choice("property", &PROPERTIES.map(|name| (name, name)))? {
            name @ "flow" => flow = words.number(name, 0..=65_535)? as usize,
            name @ "service" => service = Some(words.number(name, 0..=65_535)? as usize),
            name @ "chain" => chain = Some(words.number(name, 0..=65_535)? as usize),
            name @ "part" => part = words.choice(name, &PARTS)?,
            name @ "busy" => busy = Some(words.time(name)?),
            name @ "times" => times = Some(words.number(name, 1..=TIMES_MAX)?),
            name => every = Some(words.time(name)?),
        }
    }
    if times.is_some() != every.is_some() {
        return Err("`times` needs `every` too, and the other way round".into());
    }
    let (times, every) = (times.unwrap_or(1), every.unwrap_or(Time::ZERO));
    Ok(Sending { length, flow, service, chain, part, busy, times, every })
}

/// Checks that `id` is below the number of these.
fn among(what: &str, id: usize, count: usize) -> Result<(), String> {
    if id < count { Ok(()) } else { Err(format!("there is no {what} {id}: there are {count}, from 0")) }
}

/// Returns the packet of a line; each client has `each` flows.
fn packet(history: &History, client: ClientId, each: usize, sending: &Sending) -> Result<Packet, String> {
    let chained = !history.chains.is_empty();
    if chained && sending.service.is_some() {
        return Err("where there are chains a packet names its `chain`, not its `service`".into());
    }
    let chain = sending.chain.unwrap_or(0);
    if chained || sending.chain.is_some() {
        among("chain", chain, history.chains.len())?;
    }
    let service = sending.service.unwrap_or(0);
    among("service", service, history.estimates.len())?;
    let flow = client.index() * each + sending.flow;
    let key = mix(history.seed.0 ^ mix(flow as u64));
    Ok(Packet {
        key,
        rss: key as u32,
        flow: FlowId::from_index(flow),
        client,
        length: sending.length,
        service: history.chains.get(chain).map_or(ServiceId::from_index(service), |chain| chain[0]),
        chain: ChainId::from_index(chain),
        part: sending.part,
        ..Packet::default()
    })
}

/// Adds the packets of a line; an oracle knows their cost.
fn send(history: &mut History, start: Time, packet: Packet, sending: &Sending) {
    let estimate = history.estimates[packet.service.index()].work(packet.length);
    let busy = sending.busy.unwrap_or(Time::from_ns(estimate));
    let work = if history.unit == WorkUnit::Nanoseconds { busy.as_ns() } else { estimate };
    for nth in 0..sending.times {
        let arrival = start + Time::from_ns(sending.every.as_ns().saturating_mul(nth));
        history.events.push((arrival, Event::Arrive { packet: Packet { arrival, estimate: work, ..packet }, busy }));
    }
}
