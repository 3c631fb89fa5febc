//! The table of signatures, read from `signatures.txt`, which describes its own format.

use std::sync::OnceLock;

/// The unit of bytes that a signature is matched against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    /// The stream of one side of a TCP connection.
    Tcp,
    /// One UDP datagram.
    Udp,
    /// The payload of an IP packet of another protocol; `ports` are protocol numbers.
    Ip,
}

impl Transport {
    pub(super) const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Ip];

    fn of(word: &str) -> Option<Self> {
        match word {
            "tcp" => Some(Self::Tcp),
            "udp" => Some(Self::Udp),
            "ip" => Some(Self::Ip),
            _ => None,
        }
    }
}

/// A protocol of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Protocol {
    pub(super) name: &'static str,
    /// The specification of its messages.
    pub(super) source: &'static str,
}

/// One way to recognize a protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    /// The index of its protocol.
    pub(super) protocol: u8,
    pub(super) transport: Transport,
    /// The ports at which it counts; empty: all ports.
    pub(super) ports: Vec<u16>,
    /// Datagrams in a row that must match.
    pub(super) times: u8,
    /// A regular expression over bytes, without its anchor at the first byte.
    pub(super) pattern: &'static str,
}

impl Signature {
    /// Returns whether it counts between these ports.
    #[inline]
    pub(super) fn is_at(&self, ports: (u16, u16)) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|&port| port == ports.0 || port == ports.1)
    }
}

/// Bytes that a signature must match, or must not match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Example {
    /// The index of the signature.
    pub(super) signature: usize,
    pub(super) matches: bool,
    pub(super) bytes: Vec<u8>,
}

/// All signatures, in the order of the file.
#[derive(Clone, Default, Debug)]
pub(super) struct Table {
    pub(super) protocols: Vec<Protocol>,
    pub(super) signatures: Vec<Signature>,
    pub(super) examples: Vec<Example>,
}

/// Returns the table, which is read once per program.
pub(super) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let table = Table::parse(include_str!("signatures.txt"));
        table.expect("the table is part of the program, and a test reads it")
    })
}

impl Table {
    fn parse(text: &'static str) -> Result<Self, String> {
        let mut table = Self::default();
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            table.read(line).map_err(|error| format!("line {number}: {error}"))?;
        }
        Ok(table)
    }

    fn read(&mut self, line: &'static str) -> Result<(), String> {
        let (word, rest) = line.split_once([' ', '\t']).ok_or_else(|| format!("`{line}` says nothing"))?;
        let rest = rest.trim_start();
        match word {
            "protocol" => self.protocols.push(Protocol { name: rest, source: "" }),
            "source" => self.protocols.last_mut().ok_or("a source of no protocol")?.source = rest,
            "is" | "not" => {
                let signature = self.signatures.len().checked_sub(1).ok_or("an example of no signature")?;
                self.examples.push(Example { signature, matches: word == "is", bytes: bytes(rest)? });
            }
            _ => {
                let transport = Transport::of(word).ok_or_else(|| format!("no word `{word}`"))?;
                let protocol = self.protocols.len().checked_sub(1).ok_or("a signature of no protocol")?;
                let protocol = u8::try_from(protocol).map_err(|_| "more than 256 protocols")?;
                self.signatures.push(signature(protocol, transport, rest)?);
            }
        }
        Ok(())
    }

    /// Returns the index of the protocol of this name.
    pub(super) fn protocol(&self, name: &str) -> Option<usize> {
        self.protocols.iter().position(|protocol| protocol.name == name)
    }
}

/// Reads the part of a signature behind its transport.
fn signature(protocol: u8, transport: Transport, mut rest: &'static str) -> Result<Signature, String> {
    let (mut ports, mut times) = (Vec::new(), 1);
    while let Some((word, behind)) = rest.split_once(' ') {
        if let Some(list) = word.strip_prefix('@').filter(|list| list.starts_with(|c: char| c.is_ascii_digit())) {
            let numbers = list.split(',').map(str::parse).collect::<Result<_, _>>();
            ports = numbers.map_err(|_| format!("no ports: `{list}`"))?;
        } else if let Some(number) = word.strip_prefix('x').and_then(|number| number.parse().ok()) {
            times = number;
        } else {
            break;
        }
        rest = behind.trim_start();
    }
    Ok(Signature { protocol, transport, ports, times, pattern: rest })
}

/// Returns the bytes of an example.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let hexadecimal = |text: Option<&str>| text.and_then(|text| u8::from_str_radix(text, 16).ok());
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let escape = rest.as_bytes().get(1);
        let (byte, read) = match (first, escape) {
            (b'\\', Some(b'x')) => (hexadecimal(rest.get(2..4)).ok_or_else(|| format!("no byte: `{rest}`"))?, 4),
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'\\')) => (b'\\', 2),
            (b'\\', _) => return Err(format!("no byte: `{rest}`")),
            (b'{', _) => match repeated(rest) {
                Some((count, byte, read)) => {
                    bytes.extend(core::iter::repeat_n(byte, count));
                    rest = &rest[read..];
                    continue;
                }
                None => (b'{', 1),
            },
            (byte, _) => (byte, 1),
        };
        bytes.push(byte);
        rest = &rest[read..];
    }
    Ok(bytes)
}

/// Reads `{40x00}`. Returns the count, the byte, and the length of the text. `None`: the brace is an ordinary
/// character.
fn repeated(text: &str) -> Option<(usize, u8, usize)> {
    let end = text.find('}')?;
    let (count, byte) = text[1..end].split_once('x')?;
    let byte = u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2)?;
    Some((count.parse().ok()?, byte, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let table = table();
        assert!(table.protocols.len() >= 80, "{}", table.protocols.len());
        for (number, protocol) in table.protocols.iter().enumerate() {
            let Protocol { name, source } = protocol;
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b"-0123456789".contains(&b)), "{name}");
            assert!(source.len() > 3, "{name} has no source");
            assert_eq!(table.protocol(name), Some(number), "{name} is there twice");
            let own = |at: usize| usize::from(table.signatures[at].protocol) == number;
            let has = |matches| table.examples.iter().any(|e| e.matches == matches && own(e.signature));
            assert!(has(true) && has(false), "{name} lacks an example");
        }
        for (number, signature) in table.signatures.iter().enumerate() {
            let Signature { transport, times, pattern, .. } = signature;
            assert!(table.examples.iter().any(|e| e.matches && e.signature == number), "{pattern} lacks an example");
            assert!(*times == 1 || *transport == Transport::Udp, "{pattern}: only datagrams are counted");
            assert!(!pattern.contains(r"\z") || *transport == Transport::Udp, "{pattern}: a stream has no end");
        }
    }

    #[test]
    fn how_examples_are_written() {
        assert_eq!(bytes(r"a\x00\r\n\\{3x41}{x}").unwrap(), b"a\0\r\n\\AAA{x}");
        assert!(bytes(r"\xg0").is_err() && bytes(r"\q").is_err());
    }

    #[test]
    fn slips_are_told_with_their_line() {
        for (text, expected) in [
            ("protocol a\nudd b", "line 2: no word `udd`"),
            ("tcp b", "line 1: a signature of no protocol"),
            ("\nis b", "line 2: an example of no signature"),
            ("protocol a\ntcp @5x b", "line 2: no ports: `5x`"),
            ("protocol", "line 1: `protocol` says nothing"),
        ] {
            assert_eq!(Table::parse(text).unwrap_err(), expected);
        }
        let parsed = Table::parse("protocol a\nudp @5,6 x3 x b").unwrap();
        let signature = &parsed.signatures[0];
        assert_eq!((&signature.ports[..], signature.times, signature.pattern), (&[5, 6][..], 3, "x b"));
        assert!(signature.is_at((1, 6)) && signature.is_at((5, 1)) && !signature.is_at((1, 2)));
    }
}
