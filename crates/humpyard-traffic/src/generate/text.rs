//! Payloads of generated packets: prose and messages written for this purpose, about a yard where trains are
//! sorted.

use std::io::Write;

/// Prose to fill payloads with.
const PROSE: &str = "\
The engine pushes the long train up the hump, and at the top each car is on its own. \
Nobody asks a car where it comes from; what counts is where it goes, and how heavy it is. \
A switch has two positions and a lamp, and the lamp is never wrong twice on one day. \
Cars of one customer stay together if they can, since a wheel that knows the track runs lighter. \
When a track is full the next car waits, and behind it waits everything else. \
The master of the yard keeps a list, and the list is shorter than the train. \
Rain makes the rails quick; the retarders close a little later then, and open a little sooner. \
Four tracks lead north, four lead south, and one leads to the workshop, which is always busy. \
A tank car may not stand beside the signal house, whatever the timetable says about it. \
In the night shift the yard sounds like a slow clock that somebody winds up with a hammer. \
Two short whistles mean that the last car is over; one long one, that somebody has counted wrong. \
To share nine tracks among twenty trains is arithmetic; to share them fairly is a trade. \
The empty flat car went round three times before a clerk found that it had been promised to no one. \
Whoever waits longest goes first, unless the one behind him is due to leave before he could arrive. \
A good dispatcher moves few cars, and an excellent one moves them only once. \
Grain, gravel, timber, glass: the scale under the track writes down a number and does not judge. \
The foreman says that a yard is a queue with weather, and he has worked in both. \
Between two trains there is a minute in which every rail is free, and it belongs to the painter. \
An old brakeman can tell the load of a car by the sound it makes on the third joint. \
What was coupled in the morning is uncoupled at noon, and nobody has yet thanked the hook. \
Track seven slopes the wrong way by a hand's width, so cars for track seven get a harder push. \
The book of delays has a column for reasons, and the most frequent reason is the previous delay. \
If all switches fail at once, the rule is to stop; if one fails, the rule is to know which. \
At six the local comes in with eleven cars, of which ten are always late and one is always early. \
";

/// Returns at least `length` bytes of prose.
pub(super) fn prose(length: usize) -> Vec<u8> {
    PROSE.bytes().cycle().take(length.max(PROSE.len())).collect()
}

/// An application: the form of its messages, and its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Application {
    /// Requests for documents, with headers.
    Web,
    /// Short lines, one command each.
    Control,
    /// Measurements.
    Telemetry,
    /// Records of what happened.
    Log,
}

impl Application {
    /// The applications over TCP.
    pub(super) const OVER_TCP: [Self; 3] = [Self::Web, Self::Web, Self::Control];
    /// The applications over UDP.
    pub(super) const OVER_UDP: [Self; 3] = [Self::Telemetry, Self::Log, Self::Control];

    pub(super) const fn port(self) -> u16 {
        match self {
            Self::Web => 8080,
            Self::Control => 7070,
            Self::Telemetry => 1883,
            Self::Log => 514,
        }
    }

    /// Writes the head of message `number` of a conversation; prose follows it.
    pub(super) fn head(self, out: &mut Vec<u8>, from_server: bool, conversation: u64, number: u32) {
        out.clear();
        // Writing to a vector cannot fail.
        let _ = match (self, from_server) {
            (Self::Web, false) => web_request(out, conversation, number),
            (Self::Web, true) => write!(
                out,
                "HTTP/1.1 200 OK\r\nServer: hump/1.0\r\nContent-Type: text/plain\r\nX-Train: {conversation}-{number}\r\n\r\n"
            ),
            (Self::Control, false) => writeln!(out, "SET SWITCH {} {} SEQ {number}", conversation % 97, number % 2),
            (Self::Control, true) => writeln!(out, "OK SEQ {number} LAMP GREEN"),
            (Self::Telemetry, false) => writeln!(
                out,
                "{{\"scale\":{},\"car\":{number},\"weight_kg\":{},\"speed_mm_s\":{}}}",
                conversation % 12,
                18_000 + (conversation * 31 + u64::from(number) * 977) % 62_000,
                700 + (conversation + u64::from(number) * 53) % 900
            ),
            (Self::Telemetry, true) => writeln!(out, "{{\"seen\":{number}}}"),
            (Self::Log, _) => writeln!(
                out,
                "<134>1 yard{} switcher {conversation} - car {number} rolled to track {}",
                conversation % 5,
                number % 24
            ),
        };
    }
}

/// One request in a hundred looks like those that intrusion detectors search for.
fn web_request(out: &mut Vec<u8>, conversation: u64, number: u32) -> std::io::Result<()> {
    const SUSPICIOUS: [&str; 4] = [
        "/tracks/../../../etc/passwd",
        "/cars?id=1'%20OR%20'1'='1",
        "/scripts/cmd.exe?/c+dir",
        "/list?q=<script>x</script>",
    ];
    let draw = conversation.wrapping_mul(2_654_435_761).wrapping_add(u64::from(number) * 7_919) >> 4;
    match draw % 100 {
        0 => write!(out, "GET {}", SUSPICIOUS[(draw / 100 % 4) as usize])?,
        1..=30 => write!(out, "POST /trains/{}/cars", conversation % 1_000)?,
        _ => write!(out, "GET /tracks/{}/cars?from={number}", conversation % 24)?,
    }
    write!(
        out,
        " HTTP/1.1\r\nHost: yard{}.example\r\nUser-Agent: switcher/1.0\r\nAccept: text/plain\r\n\r\n",
        conversation % 5
    )
}
