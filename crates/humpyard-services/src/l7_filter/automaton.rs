//! The automata of all signatures. They read each byte once, and keep at most two states per stream.
//!
//! Each transport has two automata: one of the signatures that count at all ports, and one of those that count
//! only at some. The second kind is vague: in one automaton with the first it would need 140 MB, instead of 20
//! MB for all.

use core::fmt;
use std::sync::OnceLock;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::util::syntax;
use regex_automata::{Anchored, MatchKind};

use super::matched::Matched;
use super::table::{Signature, Transport, table};

/// The automata of all transports, built once per program.
pub(super) struct Automata {
    anywhere: [One; 3],
    at_ports: [One; 3],
    /// The ports at which signatures of each transport count, ascending.
    ports: [Vec<u16>; 3],
}

/// One automaton.
struct One {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
    /// The signature of each of its patterns.
    signatures: Vec<u16>,
}

/// The position in a stream: the states of its automata. `None`: nothing can match any more.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Position {
    anywhere: Option<StateID>,
    at_ports: Option<StateID>,
}

impl fmt::Debug for Automata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Automata").field("bytes", &self.bytes()).finish()
    }
}

/// Returns the automata of the table.
pub(super) fn automata() -> &'static Automata {
    static AUTOMATA: OnceLock<Automata> = OnceLock::new();
    AUTOMATA.get_or_init(|| {
        let ports = |transport| {
            let own = table().signatures.iter().filter(|signature| signature.transport == transport);
            let mut ports: Vec<u16> = own.flat_map(|signature| signature.ports.iter().copied()).collect();
            ports.sort_unstable();
            ports.dedup();
            ports
        };
        Automata {
            anywhere: Transport::ALL.map(|transport| One::new(transport, |signature| signature.ports.is_empty())),
            at_ports: Transport::ALL.map(|transport| One::new(transport, |signature| !signature.ports.is_empty())),
            ports: Transport::ALL.map(ports),
        }
    })
}

impl Automata {
    /// Returns the position before the first byte of a stream of this transport between these ports.
    #[inline]
    pub(super) fn start(&self, transport: Transport, ports: (u16, u16)) -> Position {
        let known = &self.ports[transport as usize];
        let counts = known.binary_search(&ports.0).is_ok() || known.binary_search(&ports.1).is_ok();
        Position {
            anywhere: Some(self.anywhere[transport as usize].start),
            at_ports: counts.then_some(self.at_ports[transport as usize].start),
        }
    }

    /// Reads more bytes, and adds the signatures that match by now.
    #[inline]
    pub(super) fn read(&self, transport: Transport, position: &mut Position, bytes: &[u8], matched: &mut Matched) {
        let read = |one: &One, state: Option<StateID>, matched: &mut Matched| one.read(state?, bytes, matched);
        position.anywhere = read(&self.anywhere[transport as usize], position.anywhere, matched);
        position.at_ports = read(&self.at_ports[transport as usize], position.at_ports, matched);
    }

    /// Returns the memory of all tables, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.anywhere.iter().chain(&self.at_ports).map(|one| one.dfa.memory_usage()).sum()
    }
}

impl One {
    fn new(transport: Transport, is_in: impl Fn(&Signature) -> bool) -> Self {
        let own = table().signatures.iter().enumerate();
        let own = own.filter(|(_, signature)| signature.transport == transport && is_in(signature));
        let (signatures, patterns): (Vec<u16>, Vec<&str>) =
            own.map(|(number, signature)| (number as u16, signature.pattern)).unzip();
        let config = dense::Config::new().start_kind(StartKind::Anchored).match_kind(MatchKind::All);
        let bytes = syntax::Config::new().unicode(false).utf8(false).dot_matches_new_line(true);
        let mut builder = dense::Builder::new();
        builder.configure(config).syntax(bytes).thompson(thompson::Config::new().utf8(false));
        let dfa = builder.build_many(&patterns).expect("the signatures are fixed, and a test builds them");
        let start = dfa.start_state(&start::Config::new().anchored(Anchored::Yes));
        Self { start: start.expect("it was built for anchored searches"), dfa, signatures }
    }

    #[inline]
    fn read(&self, mut state: StateID, bytes: &[u8], matched: &mut Matched) -> Option<StateID> {
        for &byte in bytes {
            state = self.dfa.next_state(state, byte);
            if self.dfa.is_special_state(state) {
                if self.dfa.is_dead_state(state) {
                    return None;
                }
                self.note(state, matched);
            }
        }
        // The automaton reports a match one byte after its end. No signature of a stream is anchored at the
        // end.
        self.note(self.dfa.next_eoi_state(state), matched);
        Some(state)
    }

    /// Adds the signatures that match in this state.
    #[inline]
    fn note(&self, state: StateID, matched: &mut Matched) {
        if self.dfa.is_match_state(state) {
            for at in 0..self.dfa.match_len(state) {
                matched.insert(usize::from(self.signatures[self.dfa.match_pattern(state, at).as_usize()]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_small_enough() {
        let bytes = automata().bytes();
        assert!(bytes < 24 << 20, "{bytes} bytes");
    }

    /// Returns whether a signature matches a payload in pieces of this length. Both ports are the signature's
    /// first port.
    fn matches(number: usize, payload: &[u8], piece: usize) -> bool {
        let signature = &table().signatures[number];
        let port = signature.ports.first().copied().unwrap_or(0);
        let mut matched = Matched::new(table().signatures.len());
        let mut position = automata().start(signature.transport, (port, port));
        for bytes in payload.chunks(piece) {
            automata().read(signature.transport, &mut position, bytes, &mut matched);
        }
        matched.iter().any(|found| found == number)
    }

    /// Checks examples as a whole, and those of streams also in pieces of any length.
    #[test]
    fn examples_match_as_the_table_says() {
        for example in &table().examples {
            let signature = &table().signatures[example.signature];
            let pieces = if signature.transport == Transport::Tcp { &[65_536, 1, 3][..] } else { &[65_536] };
            for &piece in pieces {
                let found = matches(example.signature, &example.bytes, piece);
                assert_eq!(found, example.matches, "{}: {}", signature.pattern, example.bytes.escape_ascii());
            }
        }
    }

    /// A signature that matched no bytes would match every stream.
    #[test]
    fn nothing_says_nothing() {
        for number in 0..table().signatures.len() {
            let signature = &table().signatures[number];
            let mut matched = Matched::new(table().signatures.len());
            let port = signature.ports.first().copied().unwrap_or(0);
            let mut position = automata().start(signature.transport, (port, port));
            automata().read(signature.transport, &mut position, b"", &mut matched);
            assert!(matched.iter().all(|found| found != number), "{}", signature.pattern);
            let vague = !signature.ports.is_empty();
            assert!(vague || !matches(number, &[0xa5; 600], 600), "{}", signature.pattern);
        }
    }
}
