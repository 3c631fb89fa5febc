//! Several ports as one source and one sink.

use std::os::fd::BorrowedFd;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::{NullSink, Sent, Sink};
use humpyard_traffic::source::{Polled, QUEUE, Received, Source, is_interface};

use crate::note::Note;
use crate::packet_socket::{FanOut, FanOutTable};
use crate::port::{Port, PortName, Ways};

/// The ports of a run, open.
pub struct Ports {
    /// Frames from all inputs, in turn; each frame says which it came by.
    pub source: Box<dyn Source + Send>,
    /// Sends each frame where it belongs.
    pub sink: Box<dyn Sink + Send>,
    /// What to say of them before the first packet.
    pub notes: Vec<Note>,
}

/// Whether a run of this input and output needs interfaces.
pub fn needed(inputs: &[String], output: &str) -> bool {
    inputs.iter().any(|input| is_interface(input)) || is_interface(output)
}

/// Opens the interfaces of a run. What comes by an input leaves by the output, and an answer to it (an ICMP error) by that input;
/// with `both_ways` what comes in by the output leaves by the input. What comes by a queue leaves by that queue. Inputs that are no interfaces are read by `read`; an output
/// that is none is made by `create`, and takes everything.
///
/// # Errors
/// A name that is none, an interface that cannot be opened, and inputs and outputs that do not fit together.
pub fn open(
    inputs: &[String],
    output: &str,
    both_ways: bool,
    read: impl FnOnce() -> Result<Box<dyn Source + Send>, TrafficError>,
    create: impl FnOnce(&str) -> Result<Box<dyn Sink + Send>, TrafficError>,
) -> Result<Ports, TrafficError> {
    let plan = Plan::new(inputs, output, both_ways)?;
    let onward_mtu = plan.mtu();
    let open = |(name, ways): &(PortName, Ways)| name.open(Ways { onward_mtu, ..*ways });
    let ports = plan.ports.iter().map(open).collect::<Result<_, _>>()?;
    plan.join(ports, read, || create(output))
}

/// Which of several workers has the packets of a connection that come by an interface.
#[derive(Clone, Debug)]
pub struct FannedOut {
    /// The worker of each of [`BUCKETS`](crate::BUCKETS), into which connections are divided by a hash.
    pub table: Vec<u16>,
    /// How many workers there are.
    pub workers: usize,
    /// What the hash depends on.
    pub seed: Seed,
}

/// Opens the interfaces of a run anew for each of several workers: each has the packets of some connections, in both
/// directions, and its own way out. Inputs are packet sockets, and the output one too, or nowhere. Returns the table by
/// which the kernel chooses the worker, too.
///
/// # Errors
/// As [`open`], for other ports, and if the kernel fans nothing out.
pub fn open_fanned_out(
    inputs: &[String],
    output: &str,
    both_ways: bool,
    fanned_out: &FannedOut,
) -> Result<(Vec<Ports>, FanOutTable), TrafficError> {
    let plan = Plan::new(inputs, output, both_ways)?;
    let FannedOut { table, workers, seed } = fanned_out;
    let mut fan_out = FanOut::new(table, *seed).map_err(|error| {
        TrafficError::usage(format!(
            "sharing interfaces among workers: the program is refused ({error}); it takes CAP_BPF, or --dispatchers 1"
        ))
    })?;
    let mut opened: Vec<Vec<Port>> = (0..*workers).map(|_| Vec::new()).collect();
    for (name, ways) in &plan.ports {
        for (ports, port) in opened.iter_mut().zip(name.open_fanned_out(*ways, &mut fan_out, *workers)?) {
            ports.push(port);
        }
    }
    let read = || Err(TrafficError::usage("workers without a dispatcher take their packets from interfaces"));
    let nowhere = || Ok(Box::new(NullSink::default()) as Box<dyn Sink + Send>);
    let ports = opened.into_iter().map(|ports| plan.join(ports, read, nowhere)).collect::<Result<_, _>>()?;
    Ok((ports, fan_out.into_table()))
}

/// Returns the longest packet that every interface passes on by which the packets of a run leave, in bytes. `None`:
/// they leave by none, or the system does not tell. Opens nothing.
///
/// With `both_ways` that is the lower MTU of the two. It keeps no packet back that could leave: what comes by the
/// narrow interface is no longer.
pub fn mtu(inputs: &[String], output: &str, both_ways: bool) -> Option<usize> {
    Plan::new(inputs, output, both_ways).ok()?.mtu()
}

/// Says which interfaces of a run this machine does not have, after checking all that can be checked without them: names,
/// parameters, and whether inputs and outputs fit together. Opens nothing. A TUN device that is not there is made when the run starts.
///
/// # Errors
/// As [`open`], but for interfaces that cannot be opened.
pub fn absent(inputs: &[String], output: &str, both_ways: bool) -> Result<Vec<String>, TrafficError> {
    let plan = Plan::new(inputs, output, both_ways)?;
    plan.ports.iter().try_for_each(|(name, _)| name.check())?;
    let absent = plan.ports.iter().filter(|(name, _)| name.is_absent());
    Ok(absent.map(|(name, _)| name.name()).collect())
}

/// Which ports there are to be, and how frames go between them.
struct Plan {
    /// Each once, in the order named.
    ports: Vec<(PortName, Ways)>,
    /// The interfaces that frames come by; none if they come from elsewhere.
    inputs: Vec<Input>,
    /// The port of the output; none if it is no interface.
    output: Option<usize>,
}

/// An interface that frames come by.
#[derive(Clone, Copy)]
struct Input {
    port: usize,
    /// The port by which they leave. `None`: that is no interface.
    onward: Option<usize>,
    /// The port by which answers leave, likewise.
    back: Option<usize>,
}

impl Plan {
    fn new(inputs: &[String], output: &str, both_ways: bool) -> Result<Self, TrafficError> {
        let mut plan = Self { ports: Vec::new(), inputs: Vec::new(), output: None };
        let is_wire = is_interface(output);
        let is_queue = |name: &str| name.starts_with(QUEUE);
        if inputs.iter().any(|input| is_queue(input)) {
            plan.add_queues(inputs, output, both_ways)?;
            return Ok(plan);
        }
        if is_queue(output) {
            return Err(TrafficError::usage(format!(
                "--output {output}: by a queue leaves what came by it, and nothing else: say --input {output}, without --output"
            )));
        }
        if inputs.iter().any(|input| is_interface(input)) {
            if let Some(other) = inputs.iter().find(|input| !is_interface(input)) {
                return Err(TrafficError::usage(format!(
                    "`{other}` is no interface, and another input is: a run takes its packets from one or the other"
                )));
            }
            for input in inputs {
                plan.add_input(input, is_wire)?;
            }
        }
        if is_wire {
            let onward = plan.port(output, Ways { receives: both_ways, sends: true, ..Ways::default() })?;
            plan.output = Some(onward);
            plan.inputs.iter_mut().for_each(|input| input.onward = Some(onward));
        }
        if both_ways {
            plan.add_way_back(output)?;
        }
        plan.check()?;
        Ok(plan)
    }

    /// The lowest MTU of the ports by which frames leave that are no answers.
    fn mtu(&self) -> Option<usize> {
        let onward = self.inputs.iter().filter_map(|input| input.onward).chain(self.output);
        onward.filter_map(|port| self.ports[port].0.mtu()).min()
    }

    /// The ports as one source and one sink. Where frames come by none they are read by `read`, and where they go to none `create`
    /// makes the output.
    fn join(
        &self,
        ports: Vec<Port>,
        read: impl FnOnce() -> Result<Box<dyn Source + Send>, TrafficError>,
        create: impl FnOnce() -> Result<Box<dyn Sink + Send>, TrafficError>,
    ) -> Result<Ports, TrafficError> {
        let (mut sources, mut sinks, mut sink_of, mut notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for port in ports {
            notes.extend(port.notes);
            sources.push(port.source);
            sink_of.push(sinks.len());
            sinks.extend(port.sink);
        }
        if self.output.is_none() && !self.has_queues() {
            sinks.push(create()?);
        }
        let last = sinks.len() - 1;
        let by = |port: Option<usize>| port.map_or(last, |port| sink_of[port]);
        let way = |input: &Input| Way { onward: by(input.onward), back: by(input.back) };
        let mut ways: Vec<Way> = self.inputs.iter().map(way).collect();
        let source: Box<dyn Source + Send> = if ways.is_empty() {
            ways.push(Way { onward: by(self.output), back: by(self.output) });
            read()?
        } else {
            let taken = self.inputs.iter().filter_map(|input| sources[input.port].take());
            Box::new(Inputs::new(taken.collect()))
        };
        Ok(Ports { source, sink: Box::new(Outputs { sinks, ways }), notes })
    }

    /// Adds queues, each of which is input and output.
    fn add_queues(&mut self, inputs: &[String], output: &str, both_ways: bool) -> Result<(), TrafficError> {
        if let Some(other) = inputs.iter().find(|input| !input.starts_with(QUEUE)) {
            return Err(TrafficError::usage(format!(
                "`{other}` is no queue, and another input is, by which its packets must leave again: take queues alone"
            )));
        }
        if both_ways {
            return Err(TrafficError::usage(
                "--both-ways is for interfaces: packets of either way leave by the queue that they came by; leave it out",
            ));
        }
        for input in inputs {
            self.add_input(input, true)?;
        }
        if output != "null:" && !inputs.iter().any(|input| input == output) {
            return Err(TrafficError::usage(format!(
                "--output {output}: packets leave by the queue that they came by, {}; leave out --output",
                inputs[0]
            )));
        }
        for input in &mut self.inputs {
            (input.onward, input.back) = (Some(input.port), Some(input.port));
        }
        Ok(())
    }

    /// Whether packets come by queues.
    fn has_queues(&self) -> bool {
        self.ports.iter().any(|(name, _)| name.is_queue())
    }

    /// Adds an input, by which answers leave if the output is an interface too.
    fn add_input(&mut self, name: &str, answers: bool) -> Result<(), TrafficError> {
        let port = self.port(name, Ways { receives: true, sends: answers, ..Ways::default() })?;
        if self.inputs.iter().any(|known| known.port == port) {
            return Err(TrafficError::usage(format!("`{name}` is an input twice")));
        }
        self.inputs.push(Input { port, onward: None, back: answers.then_some(port) });
        Ok(())
    }

    /// Refuses ports between which no packet can pass, or that take packets from each other.
    fn check(&self) -> Result<(), TrafficError> {
        let names = || self.ports.iter().map(|(name, _)| name);
        if let (Some(bare), Some(framed)) = (names().find(|name| name.is_bare()), names().find(|name| !name.is_bare()))
        {
            return Err(TrafficError::usage(format!(
                "packets of {} have no Ethernet header and those of {} have: take ports of one sort",
                bare.name(),
                framed.name()
            )));
        }
        for (at, name) in names().enumerate() {
            if let Some(other) = names().skip(at + 1).find(|other| other.interface() == name.interface()) {
                return Err(TrafficError::usage(format!(
                    "{} and {} are one interface: name it one way",
                    name.name(),
                    other.name()
                )));
            }
        }
        Ok(())
    }

    /// Makes the output an input, whose frames leave by the input there is.
    fn add_way_back(&mut self, output: &str) -> Result<(), TrafficError> {
        let refuse = |why: String| Err(TrafficError::usage(format!("--both-ways {why}")));
        match (self.output, self.inputs.as_slice()) {
            (None, _) => refuse(format!("takes an interface for an output, which `{output}` is not")),
            (Some(port), &[Input { port: input, .. }]) if port != input => {
                self.inputs.push(Input { port, onward: Some(input), back: Some(port) });
                Ok(())
            }
            (Some(_), [_]) => refuse(format!("is between two interfaces, and `{output}` is input and output")),
            _ => refuse("takes one interface for an input, by which what comes back can leave".to_owned()),
        }
    }

    /// The place of this port, which is used these ways too.
    fn port(&mut self, text: &str, ways: Ways) -> Result<usize, TrafficError> {
        let name = PortName::parse(text)?;
        let known = self.ports.iter().position(|(known, _)| known.name() == name.name());
        let place = known.unwrap_or(self.ports.len());
        if known.is_none() {
            self.ports.push((name, Ways::default()));
        }
        let used = &mut self.ports[place].1;
        used.receives |= ways.receives;
        used.sends |= ways.sends;
        Ok(place)
    }
}

/// Frames looked for at one input before the next has its turn.
const TURN: u32 = 32;

/// Several inputs, each in its turn.
struct Inputs {
    sources: Vec<Box<dyn Source + Send>>,
    description: String,
    /// Whose turn it is, and for how many more frames.
    turn: usize,
    left: u32,
}

impl Inputs {
    fn new(sources: Vec<Box<dyn Source + Send>>) -> Self {
        let names: Vec<&str> = sources.iter().map(|source| source.description()).collect();
        Self { description: names.join(" + "), sources, turn: 0, left: TURN }
    }

    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.sources.len();
        self.left = TURN;
    }
}

impl Source for Inputs {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        loop {
            match self.poll(frame)? {
                Polled::Frame => return Ok(true),
                Polled::End => return Ok(false),
                Polled::NotYet => crate::wait(&self.descriptors())
                    .map_err(|error| TrafficError::unreadable(&self.description, error))?,
            }
        }
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        self.poll_burst(core::slice::from_mut(frame)).1
    }

    fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        let (mut filled, mut empty) = (0, 0);
        while filled < frames.len() && empty < self.sources.len() {
            let most = (frames.len() - filled).min(self.left as usize);
            let rest = &mut frames[filled..filled + most];
            let (more, found) = self.sources[self.turn].poll_burst(rest);
            rest[..more].iter_mut().for_each(|frame| frame.port = self.turn as u16);
            filled += more;
            self.left -= more as u32;
            if let Err(error) = found {
                return (filled, Err(error));
            }
            if more < most || self.left == 0 {
                empty = if more == 0 { empty + 1 } else { 0 };
                self.pass_on();
            }
        }
        (filled, Ok(if filled == frames.len() { Polled::Frame } else { Polled::NotYet }))
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sources.iter().flat_map(|source| source.descriptors()).collect()
    }

    fn waiting(&self) -> Option<u64> {
        self.sources.iter().map(|source| source.waiting()).sum()
    }

    fn hold(&mut self, frames: u64) {
        let each = frames / self.sources.len() as u64;
        self.sources.iter_mut().for_each(|source| source.hold(each));
    }

    fn close(&mut self) -> Result<(), TrafficError> {
        self.sources.iter_mut().try_for_each(Source::close)
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        let all: Result<Vec<_>, _> = self.sources.iter_mut().map(Source::received).collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

/// Where the frames of an input go.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The output.
    onward: usize,
    /// That of answers.
    back: usize,
}

/// The output of each input.
struct Outputs {
    sinks: Vec<Box<dyn Sink + Send>>,
    /// By input.
    ways: Vec<Way>,
}

impl Sink for Outputs {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        let Way { onward, back } = self.ways[usize::from(frame.port)];
        self.sinks[if frame.answer { back } else { onward }].write(frame)
    }

    fn discard(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        self.sinks[self.ways[usize::from(frame.port)].onward].discard(frame)
    }

    fn send(&mut self) -> Result<(), TrafficError> {
        self.sinks.iter_mut().try_for_each(|sink| sink.send())
    }

    fn flush(&mut self) -> Result<(), TrafficError> {
        self.sinks.iter_mut().try_for_each(|sink| sink.flush())
    }

    fn close(&mut self) -> Result<(), TrafficError> {
        self.sinks.iter_mut().try_for_each(|sink| sink.close())
    }

    fn sent(&self) -> Vec<Sent> {
        self.sinks.iter().flat_map(|sink| sink.sent()).collect()
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        self.sinks.into_iter().map(|sink| sink.finish()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;

    fn plan(inputs: &[&str], output: &str, both_ways: bool) -> Result<Plan, String> {
        let inputs: Vec<String> = inputs.iter().map(|&input| input.to_owned()).collect();
        Plan::new(&inputs, output, both_ways).map_err(|error| error.to_string())
    }

    /// The ports, each with whether it receives and sends, and for each input its port and where its frames leave.
    type Shape = (Vec<(String, bool, bool)>, Vec<(usize, Option<usize>)>);

    fn shape(plan: &Plan) -> Shape {
        let ports = plan.ports.iter().map(|(name, ways)| (name.name(), ways.receives, ways.sends));
        (ports.collect(), plan.inputs.iter().map(|input| (input.port, input.onward)).collect())
    }

    #[test]
    fn interfaces_that_are_not_there_are_named_and_the_rest_is_checked() {
        let missing = |inputs: &[&str], output: &str| {
            let inputs: Vec<String> = inputs.iter().map(|&input| input.to_owned()).collect();
            absent(&inputs, output, false)
        };
        assert_eq!(missing(&["iface:lo"], "null:").unwrap(), Vec::<String>::new());
        assert_eq!(missing(&["iface:nosuch0", "iface:lo"], "xdp:nosuch1").unwrap(), ["iface:nosuch0", "xdp:nosuch1"]);
        assert_eq!(missing(&["tun:nosuch0"], "null:").unwrap(), Vec::<String>::new(), "it is made");
        assert_eq!(missing(&["nfqueue:7"], "null:").unwrap(), Vec::<String>::new());
        let refused = |input: &str| missing(&[input], "null:").unwrap_err().to_string();
        assert!(refused("iface:nosuch0:ring=1").contains("`ring` takes"));
        assert!(refused("xdp:nosuch0:mode=fast").contains("`mode` takes"));
        assert!(refused("nfqueue:eth0").contains("`eth0` is not a queue number"));
    }

    #[test]
    fn packets_fit_every_interface_that_they_leave_by() {
        let mtu = |inputs: &[&str], output: &str, both_ways| {
            let inputs: Vec<String> = inputs.iter().map(|&input| input.to_owned()).collect();
            mtu(&inputs, output, both_ways)
        };
        assert_eq!(mtu(&["tun:a:mtu=1400"], "tun:b:mtu=9000", false), Some(9000));
        assert_eq!(mtu(&["tun:a:mtu=1400"], "tun:b:mtu=9000", true), Some(1400));
        assert_eq!(mtu(&["in.pcap"], "tun:b", false), Some(1500));
        assert_eq!(mtu(&["in.pcap"], "iface:lo", false), Some(Interface::find("iface:lo", "lo").unwrap().mtu));
        assert_eq!(mtu(&["tun:a"], "null:", false), None);
        assert_eq!(mtu(&["nfqueue:7"], "null:", false), None);
        assert_eq!(mtu(&["iface:lo"], "iface:nosuch0", false), None);
    }

    #[test]
    fn frames_go_one_way_and_answers_back() {
        let (ports, inputs) = shape(&plan(&["iface:a", "iface:b:timeout=5"], "iface:c", false).unwrap());
        let port = |name: &str, receives, sends| (name.to_owned(), receives, sends);
        assert_eq!(ports, [port("iface:a", true, true), port("iface:b", true, true), port("iface:c", false, true)]);
        assert_eq!(inputs, [(0, Some(2)), (1, Some(2))]);
        let (ports, inputs) = shape(&plan(&["iface:a"], "out.pcap", false).unwrap());
        assert_eq!((ports, inputs), (vec![port("iface:a", true, false)], vec![(0, None)]));
        let (ports, inputs) = shape(&plan(&["in.pcap", "gen:poisson"], "iface:a", false).unwrap());
        assert_eq!((ports, inputs), (vec![port("iface:a", false, true)], vec![]));
    }

    #[test]
    fn both_ways_is_between_two_interfaces() {
        let (ports, inputs) = shape(&plan(&["iface:a"], "iface:b", true).unwrap());
        assert!(ports.iter().all(|&(_, receives, sends)| receives && sends));
        assert_eq!(inputs, [(0, Some(1)), (1, Some(0))]);
        let refused = |inputs: &[&str], output| plan(inputs, output, true).err().unwrap();
        assert!(refused(&["iface:a"], "null:").contains("`null:` is not"));
        assert!(refused(&["iface:a"], "iface:a:timeout=2").contains("is input and output"));
        assert!(refused(&["iface:a", "iface:b"], "iface:c").contains("takes one interface"));
        assert!(refused(&["in.pcap"], "iface:c").contains("takes one interface"));
    }

    #[test]
    fn what_comes_by_a_queue_leaves_by_it() {
        for output in ["null:", "nfqueue:1"] {
            let (ports, inputs) = shape(&plan(&["nfqueue:0:length=5", "nfqueue:1"], output, false).unwrap());
            assert_eq!(ports, [("nfqueue:0".to_owned(), true, true), ("nfqueue:1".to_owned(), true, true)]);
            assert_eq!(inputs, [(0, Some(0)), (1, Some(1))]);
        }
        let refused = |inputs: &[&str], output, both_ways| plan(inputs, output, both_ways).err().unwrap();
        assert!(refused(&["nfqueue:0", "tun:a"], "null:", false).contains("`tun:a` is no queue"));
        assert!(refused(&["nfqueue:0"], "out.pcap", false).contains("leave out --output"));
        assert!(refused(&["nfqueue:0"], "null:", true).contains("--both-ways is for interfaces"));
        assert!(refused(&["in.pcap"], "nfqueue:0", false).contains("say --input nfqueue:0"));
        assert!(refused(&["nfqueue:0", "nfqueue:0"], "null:", false).contains("twice"));
    }

    #[test]
    fn inputs_that_do_not_fit_together_are_refused() {
        let refused = |inputs: &[&str]| plan(inputs, "null:", false).err().unwrap();
        assert!(refused(&["iface:a", "in.pcap"]).contains("`in.pcap` is no interface"));
        assert!(refused(&["iface:a", "iface:a"]).contains("twice"));
        assert!(refused(&["iface:a", "xdp:a"]).contains("iface:a and xdp:a are one interface"));
        let mixed = plan(&["tun:a"], "iface:b", false).err().unwrap();
        assert!(mixed.contains("packets of tun:a have no Ethernet header"), "{mixed}");
    }
}
