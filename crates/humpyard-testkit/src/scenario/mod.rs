//! Scenarios: small histories that a person writes and reads in seconds, one in each file.
//!
//! A scenario consists of lines of words; `#` begins a comment. The first word of a line names its
//! setting. Settings that are left out have their defaults, which are at the end of the comments
//! here:
//!
//! ```text
//! about     what the scenario is about, in one sentence: the only required line, besides one packet
//! cores     2          # 1
//! contexts  2          # of each element: 1
//! in-flight 2          # most packets that a core gets before it has finished the first: 1
//! unit      bytes      # of work: ns (the default), bytes or packets
//! weights   1 3 10     # one for each client, from client 0: one client of weight 1
//! order     free       # hold (the default) or free: whether a client may be on several cores at once
//! packets   20         # most packets held: 4096
//! limits    queue 9 client 3     # most packets waiting in a queue, and of a client in it: none
//! full      longest-queue        # which packet to drop without room: tail (the default) or longest-queue
//! exit      packets 8 timeout 50us         # packets are put back in order when they leave: no exit
//! seed      3          # with an even seed the cores that the scheduler names ask, with an odd one all: 0
//! service   fixed 300 per-byte 0.5 packet-time 1us switch 20us tolerance 100us guarantee 50%
//! chain     0 1 0      # the services of chain 0, then a line for chain 1: no chains
//!
//! at 5us  client 0 sends 1000 flow 1 service 0 part first busy 2us times 40 every 10us
//! at 9us  client 0 weight 5
//! at 9us  client 1 ends
//! ```
//!
//! There is a `service` line for each service, from service 0. Its values and defaults are:
//!
//! * The estimate is `fixed` + `per-byte` times the length, in ns; if neither is given, 1 ns a
//!   byte.
//! * `packet-time` is the estimate of the longest packet, `switch` is 0, and there is no
//!   `tolerance`.
//! * Guarantees are equal.
//!
//! A packet has its length in bytes. By default it belongs to flow 0, goes to service 0 or through
//! chain 0, is whole, is sent once, and keeps a core busy for its estimate. Packets of one flow
//! have one service or one chain. A client ends if it is idle at that time. With chains or an exit,
//! services consume the packets whose length is a multiple of 5. Events may be in any order; those
//! of one instant happen in the order of their lines.

mod draft;
mod words;

use core::fmt;

use crate::history::History;

/// The scenarios with these names, each with the text of its file.
macro_rules! scenarios {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../corpus/", $name, ".txt")))),+]
    };
}

/// The corpus, by name. It is part of the program, so that the suite runs without a source tree.
const CORPUS: [(&str, &str); 24] = scenarios![
    "chains",
    "chains-with-cores",
    "ends-and-returns",
    "exit-order",
    "extreme-weights",
    "full-buffer",
    "full-drops-the-newcomer",
    "full-pushes-out",
    "guarantee-called-in",
    "heavy-and-light",
    "jumbo-and-tiny",
    "load-moves",
    "more-cores-than-clients",
    "one-of-each",
    "one-queue-free",
    "one-queue-in-order",
    "overload-and-drain",
    "parts",
    "same-instant",
    "silent-service",
    "ties",
    "wakes-late",
    "weight-changes",
    "wrong-estimates",
];

/// A history with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Its name: that of its file.
    pub name: String,
    /// What it is about, in one sentence.
    pub about: String,
    /// The history.
    pub history: History,
}

/// Why a scenario cannot be read: the error, its place, and the accepted values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    scenario: String,
    /// The line, from 1. `None`: something is missing.
    line: Option<usize>,
    message: String,
}

impl Scenario {
    /// Returns the scenario that this text describes.
    ///
    /// # Errors
    /// A word is unknown; the error has its line, and the accepted words.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        draft::read(text)
            .map(|(about, history)| Self { name: name.into(), about, history })
            .map_err(|(line, message)| ScenarioError { scenario: name.into(), line, message })
    }

    /// Returns every scenario of the test kit, the files in `crates/humpyard-testkit/corpus`, by name.
    ///
    /// # Panics
    /// If one of them cannot be read.
    pub fn corpus() -> Vec<Self> {
        let parse = |(name, text): &(&str, &str)| Self::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        CORPUS.iter().map(parse).collect()
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.scenario)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl core::error::Error for ScenarioError {}

#[cfg(test)]
mod tests {
    use humpyard_core::cost::LinearCost;
    use humpyard_core::id::{ChainId, ClientId, FlowId, ServiceId};
    use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, WhenFull};
    use humpyard_core::packet::Part;
    use humpyard_core::unit::{Time, Weight, WorkUnit};

    use std::path::Path;

    use super::*;
    use crate::history::Event;

    fn read(text: &str) -> History {
        Scenario::parse("test", text).unwrap_or_else(|error| panic!("{error}")).history
    }

    fn refused(text: &str) -> String {
        Scenario::parse("test", text).unwrap_err().to_string()
    }

    #[test]
    fn the_corpus_is_what_is_in_the_directory() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let files = directory.read_dir().unwrap().map(|file| file.unwrap().path());
        let mut names: Vec<String> =
            files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, CORPUS.map(|(name, _)| name));
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let scenario = Scenario::parse("least", "about one packet\nat 0ns client 0 sends 64").unwrap();
        assert_eq!((scenario.name.as_str(), scenario.about.as_str()), ("least", "one packet"));
        let history = scenario.history;
        assert_eq!((history.cores, history.contexts, history.in_flight, history.packets), (1, 1, 1, 4096));
        assert_eq!(
            (history.weights.as_slice(), history.estimates.as_slice()),
            (&[Weight::ONE][..], &[LinearCost::BYTES][..])
        );
        assert_eq!((history.limits, history.exit, history.longest), (Limits::default(), None, 64));
        assert_eq!(history.arrivals(), 1);
        assert_eq!(history.config().services[0].guarantee_millionths, 1_000_000);
        assert!(matches!(history.events[0].1, Event::Arrive { busy, .. } if busy == Time::from_ns(64)));
    }

    #[test]
    fn every_setting_is_read() {
        let history = read(
            "about everything\ncores 4 # and a comment\ncontexts 2\nin-flight 3\nweights 1 1000000\norder free\npackets 20\n\
             limits client 3 queue 9\nfull longest-queue\nexit packets 8 timeout 50us\nseed 7\n\
             service fixed 300 per-byte 0.5 packet-time 1us switch 20us tolerance 1ms guarantee 33.3%\nservice\n\
             chain 0\nchain 1 0\nat 1s client 0 sends 1000",
        );
        assert_eq!((history.cores, history.contexts, history.in_flight, history.packets), (4, 2, 3, 20));
        assert_eq!(history.weights, [Weight::ONE, Weight::new(1_000_000).unwrap()]);
        assert_eq!(history.flow_order, FlowOrder::Free);
        assert_eq!(
            history.limits,
            Limits::default().with_queue(9).with_client(3).with_when_full(WhenFull::LongestQueue)
        );
        assert_eq!(history.exit, Some(ExitOrder { packets: 8, timeout: Time::from_ns(50_000) }));
        assert_eq!(history.seed.0, 7);
        assert_eq!(history.chains, [vec![ServiceId(0)], vec![ServiceId(1), ServiceId(0)]]);
        assert_eq!(history.estimates, [LinearCost { fixed: 300, per_byte_milli: 500, cold: 0 }, LinearCost::BYTES]);
        assert_eq!(history.longest, 1000);
        let config = history.config();
        let (first, second) = (&config.services[0], &config.services[1]);
        assert_eq!((first.packet_time, first.switch_cost), (Time::from_ns(1000), Time::from_ns(20_000)));
        assert_eq!((first.tolerance, first.guarantee_millionths), (Time::from_ns(1_000_000), 333_000));
        assert_eq!((second.tolerance, second.guarantee_millionths), (Time::MAX, 500_000));
    }

    #[test]
    fn packets_are_read_and_repeated_in_order_of_time() {
        let history = read(
            "about packets\nunit packets\nweights 1 1\nchain 0\nchain 0 0\n\
             at 2us client 1 sends 101 flow 1 chain 1 part last busy 70ns times 2 every 5us\n\
             at 2us client 0 weight 9\nat 3us client 0 ends",
        );
        let times: Vec<u64> = history.events.iter().map(|(time, _)| time.as_ns()).collect();
        assert_eq!(times, [2000, 2000, 3000, 7000]);
        let Event::Arrive { packet, busy } = history.events[3].1 else { panic!("the second packet comes last") };
        assert_eq!((packet.flow, packet.client, packet.length), (FlowId(3), ClientId(1), 101));
        assert_eq!((packet.chain, packet.service, packet.part), (ChainId(1), ServiceId(0), Part::Last));
        assert_eq!((packet.arrival, packet.estimate, busy), (Time::from_ns(7000), 1, Time::from_ns(70)));
        assert_eq!(history.flows_of(ClientId(1)).collect::<Vec<_>>(), [FlowId(2), FlowId(3)]);
        assert_eq!(history.events[1].1, Event::SetWeight(ClientId(0), Weight::new(9).unwrap()));
        assert_eq!((history.events[2].1, history.unit), (Event::EndClient(ClientId(0)), WorkUnit::Packets));
    }

    #[test]
    fn a_slip_is_told_with_its_place_and_what_is_accepted() {
        for (line, message) in [
            ("corse 2", "no setting `corse`; did you mean `cores`? There are: about, cores, contexts,"),
            ("cores", "`cores` takes a whole number from 1 to 65535, and there is none"),
            ("cores two", "`cores` takes a whole number from 1 to 65535, not `two`"),
            ("cores 0", "`cores` takes a whole number from 1 to 65535, not `0`"),
            ("cores 2 3", "`3` is one word too many: the line ends before it"),
            ("unit bits", "no unit `bits`; did you mean `bytes`? There are: ns, bytes, packets"),
            ("order fee", "no order `fee`; did you mean `free`? There are: hold, free"),
            ("full head", "no way `head`; there are: tail, longest-queue"),
            ("limits queue", "`queue` takes a whole number from 1 to 4294967295, and there is none"),
            ("limits quota 3", "no limit `quota`; there are: queue, client"),
            ("exit packets 3", "`exit` needs `timeout` too"),
            ("weights 1 0", "`weights` takes a whole number from 1 to 4294967295, not `0`"),
            (
                "service per-byte 1.2345",
                "`per-byte` takes a number of at most 3 decimals such as 2 or 0.5, not `1.2345`",
            ),
            ("service guarantee 0.5", "`guarantee` takes a percentage such as 40% or 33.3%, not `0.5`"),
            ("service switch 5", "`switch` takes a time such as 250ns, 3us, 10ms or 1s, not `5`"),
            ("chain 0 1", "there is no service 1: there are 1, from 0"),
            ("at 3 client 0 ends", "`at` takes a time such as 250ns, 3us, 10ms or 1s, not `3`"),
            ("at 3us cleint 0 ends", "after its time an event names its `client`, not `cleint`"),
            ("at 3us client 0 stops", "no event `stops`; there are: sends, weight, ends"),
            ("at 3us client 1 ends", "there is no client 1: there are 1, from 0"),
            (
                "at 3us client 0 sends 9 flwo 1",
                "no property `flwo`; did you mean `flow`? There are: flow, service, chain,",
            ),
            ("at 3us client 0 sends 9 service 1", "there is no service 1: there are 1, from 0"),
            ("at 3us client 0 sends 9 chain 0", "there is no chain 0: there are 0, from 0"),
            (
                "at 3us client 0 sends 9 part most",
                "no part `most`; did you mean `last`? There are: whole, first, middle, last",
            ),
            ("at 3us client 0 sends 9 times 2", "`times` needs `every` too, and the other way round"),
        ] {
            let error = refused(&format!("about a slip\n{line}\nat 0ns client 0 sends 64"));
            assert!(error.starts_with(&format!("test, line 2: {message}")), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_together_is_refused() {
        for (lines, message) in [
            ("cores 2\ncores 2", "line 3: `cores` is set twice"),
            ("unit bytes\nservice fixed 3", "line 3: an estimate of its own is in ns: the unit is bytes"),
            (
                "chain 0\nat 0ns client 0 sends 9 service 0",
                "line 3: where there are chains a packet names its `chain`, not its `service`",
            ),
            (
                "service\nservice\nat 0ns client 0 sends 9 service 1",
                "line 5: packets of one flow are of one service, or one chain: flow 0 of client 0 is of another",
            ),
        ] {
            let error = refused(&format!("about a slip\n{lines}\nat 0ns client 0 sends 64"));
            assert!(error.starts_with(&format!("test, {message}")), "{error}");
        }
        assert_eq!(refused("at 0ns client 0 sends 64"), "test: a scenario says what it is `about`");
        assert_eq!(
            refused("about nothing"),
            "test: no packet arrives: a scenario has a line such as `at 0ns client 0 sends 64`"
        );
    }

    #[test]
    fn the_corpus_is_read() {
        let corpus = Scenario::corpus();
        assert!(corpus.len() >= 16, "{} scenarios", corpus.len());
        for scenario in corpus {
            assert!(!scenario.about.is_empty(), "{}", scenario.name);
            assert!(scenario.history.events.is_sorted_by_key(|(time, _)| *time), "{}", scenario.name);
        }
    }
}
