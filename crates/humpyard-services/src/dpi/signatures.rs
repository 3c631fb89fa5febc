//! The signatures: each is one way to recognize a protocol from the start of a payload.
//!
//! A pattern is a regular expression over bytes, anchored at the first byte of the TCP or UDP payload. A
//! pattern that other traffic may match by chance has ports. At one of these ports, a single packet is enough;
//! elsewhere, `elsewhere` gives the number of packets, or forbids a match. A port without a pattern proves
//! nothing. If several signatures match, the first counts.

/// The transport of a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signature {
    /// The protocol, as in results.
    pub(super) protocol: &'static str,
    pub(super) transport: Transport,
    /// Ports of either side at which one packet is enough.
    pub(super) ports: &'static [u16],
    /// Packets needed at other ports; 0: never enough.
    pub(super) elsewhere: u8,
    pub(super) pattern: &'static str,
    /// The specification of the format, for readers of the table.
    #[cfg_attr(not(test), expect(dead_code, reason = "for people"))]
    pub(super) source: &'static str,
}

use Transport::{Tcp, Udp};

/// Returns a signature for which one packet is enough at any port.
const fn sure(protocol: &'static str, transport: Transport, pattern: &'static str, source: &'static str) -> Signature {
    Signature { protocol, transport, ports: &[], elsewhere: 1, pattern, source }
}

/// Returns a signature that matches only at its ports.
const fn at(
    ports: &'static [u16],
    protocol: &'static str,
    transport: Transport,
    pattern: &'static str,
    source: &'static str,
) -> Signature {
    Signature { protocol, transport, ports, elsewhere: 0, pattern, source }
}

/// All signatures, the more specific first.
pub(super) const SIGNATURES: &[Signature] = &[
    // Protocols of text lines, with requests and answers.
    sure("bittorrent", Tcp, r"\x13BitTorrent protocol|GET /announce\?info_hash=", "BEP 3"),
    sure("bittorrent", Udp, r"d1:(?:ad2:id20:|rd2:id20:|eli20[0-9]e)|BT-SEARCH \* HTTP/1\.1\r\n", "BEP 5, BEP 14"),
    sure(
        "http",
        Tcp,
        r"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|PROPFIND) [^\r\n ]+ HTTP/1\.[01]\r\n|HTTP/1\.[01] [1-5][0-9][0-9][ \r]",
        "RFC 9112, sections 3 and 4",
    ),
    sure("http2", Tcp, r"PRI \* HTTP/2\.0\r\n\r\nSM\r\n\r\n", "RFC 9113, section 3.4"),
    sure(
        "ssdp",
        Udp,
        r"(?:M-SEARCH|NOTIFY) \* HTTP/1\.1\r\n|HTTP/1\.1 200 OK\r\n",
        "UPnP device architecture 2.0, section 1",
    ),
    sure(
        "rtsp",
        Tcp,
        r"(?:OPTIONS|DESCRIBE|ANNOUNCE|SETUP|PLAY|PAUSE|TEARDOWN|RECORD|[GS]ET_PARAMETER|REDIRECT) [^\r\n ]+ RTSP/[12]\.0\r\n|RTSP/[12]\.0 [1-5][0-9][0-9] ",
        "RFC 2326, RFC 7826",
    ),
    sure("sip", Udp, SIP, "RFC 3261, section 7"),
    sure("sip", Tcp, SIP, "RFC 3261, section 7"),
    sure("ssh", Tcp, r"SSH-(?:2\.0|1\.[0-9]{1,2})-[!-~]", "RFC 4253, section 4.2"),
    sure(
        "smtp",
        Tcp,
        r"(?:HELO|EHLO|helo|ehlo) [^\r\n]+\r?\n|220[ -][^\r\n]*(?:SMTP|Postfix|Sendmail)",
        "RFC 5321, section 4",
    ),
    at(&[25, 465, 587], "smtp", Tcp, r"220[ -]|554[ -]", "RFC 5321, section 4"),
    sure("ftp", Tcp, r"220[ -][^\r\n]*(?:FTP|ftp)", "RFC 959, section 5"),
    at(&[21], "ftp", Tcp, r"220[ -]|(?:USER|AUTH|FEAT)[ \r]|(?:331|530|421) ", "RFC 959, section 5"),
    sure("pop3", Tcp, r"\+OK [^\r\n]*(?:POP|pop)|(?:CAPA|STLS)\r\n|APOP [!-~]+ [0-9a-f]{32}\r\n", "RFC 1939, RFC 2449"),
    at(&[110], "pop3", Tcp, r"\+OK[ \r]|-ERR[ \r]|(?:USER|AUTH)[ \r]", "RFC 1939"),
    sure(
        "imap",
        Tcp,
        r"\* (?:OK|PREAUTH|BYE) [^\r\n]*(?:IMAP|imap)|[A-Za-z0-9.]{1,8} (?:CAPABILITY|capability|STARTTLS|LOGIN [^ \r\n]+ )",
        "RFC 9051, sections 6 and 7",
    ),
    at(&[143], "imap", Tcp, r"\* (?:OK|PREAUTH|BYE) ", "RFC 9051, section 7.1"),
    sure("irc", Tcp, r"(?:NICK|nick) [!-~]+\r?\n|:[!-~]+ (?:NOTICE (?:AUTH|\*)|00[1-5]) ", "RFC 2812, section 3.1"),
    sure("xmpp", Tcp, r"(?:<\?xml [^>]*\?>\s*)?<stream:stream ", "RFC 6120, section 4"),
    sure("syslog", Udp, r"<[0-9]{1,3}>(?:1 [0-9]{4}-|[A-Z][a-z][a-z] [ 0-9][0-9] [0-9][0-9]:)", "RFC 3164, RFC 5424"),
    sure("tftp", Udp, r"\x00[\x01\x02][!-~]+\x00(?:octet|OCTET|netascii|NETASCII)\x00", "RFC 1350, section 5"),
    sure("git", Tcp, r"[0-9a-f]{4}git-(?:upload|receive)-pack ", "Git protocol, pack-protocol"),
    // Binary protocols with a number, length or name that random bytes hardly have.
    sure(
        "tls",
        Tcp,
        r"\x16\x03[\x00-\x04][\x00-\x48].[\x01\x02]\x00..\x03[\x00-\x04]",
        "RFC 5246, RFC 8446, section 5.1",
    ),
    sure("dtls", Udp, r"\x16\xfe[\xfd\xff]\x00\x00.{8}[\x01-\x03]\x00", "RFC 6347, RFC 9147, section 4"),
    sure(
        "quic",
        Udp,
        r"[\xc0-\xff](?:\x00\x00\x00\x01|\x6b\x33\x43\xcf|\xff\x00\x00[\x16-\x22]|[QT]0[0-9][0-9])[\x00-\x14]|[\x09\x0d].{8}Q0[0-4][0-9]",
        "RFC 9000, section 17.2; RFC 9369",
    ),
    sure("stun", Udp, STUN, "RFC 8489, section 5"),
    sure("stun", Tcp, STUN, "RFC 8489, section 5"),
    sure("dhcp", Udp, r"[\x01\x02][\x01-\x20][\x00-\x10].{233}\x63\x82\x53\x63", "RFC 2131, section 3"),
    sure(
        "mqtt",
        Tcp,
        r"\x10(?:[\x00-\x7f]|[\x80-\xff][\x00-\x7f])\x00(?:\x04MQTT[\x04\x05]|\x06MQIsdp\x03)",
        "MQTT 5.0, section 3.1",
    ),
    sure(
        "snmp",
        Udp,
        r"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01(?:[\x00\x01]\x04[\x00-\x40]|\x03\x30)",
        "RFC 1157, RFC 3416, RFC 3412",
    ),
    sure(
        "ldap",
        Tcp,
        r"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x84.{4})\x02\x01[\x01-\x7f](?:\x60[\x07-\xff]|\x61[\x07-\xff]|\x42\x00|\x63\x84)",
        "RFC 4511, section 4",
    ),
    sure("bgp", Tcp, r"\xff{16}[\x00-\x10].[\x01-\x05]", "RFC 4271, section 4.1"),
    sure("smb", Tcp, r"\x00[\x00\x01]..[\xfe\xff]SMB", "MS-CIFS, MS-SMB2, section 2.1"),
    sure(
        "rdp",
        Tcp,
        r"\x03\x00[\x00\x01].[\x06-\xff][\xd0\xe0]\x00\x00.{3}(?:Cookie: mst|[\x01-\x03]\x00\x08\x00)",
        "MS-RDPBCGR, section 2.2.1",
    ),
    sure("mysql", Tcp, r"[\x20-\xff]\x00\x00\x00\x0a[0-9]{1,2}\.[0-9]", "MySQL client/server protocol, handshake v10"),
    sure(
        "postgresql",
        Tcp,
        r"\x00\x00\x00\x08\x04\xd2\x16[\x2f\x30]|\x00\x00..\x00\x03\x00\x00(?:user|database)\x00",
        "PostgreSQL frontend/backend protocol 3.0",
    ),
    sure("telnet", Tcp, r"(?:\xff[\xfb-\xfe][\x00-\x31]){2}", "RFC 854, RFC 855"),
    sure(
        "wireguard",
        Udp,
        r"(?:\x01\x00\x00\x00.{144}|\x02\x00\x00\x00.{88})\z",
        "WireGuard protocol, messages 1 and 2",
    ),
    sure("netbios-ns", Udp, r".{4}\x00[\x00\x01]\x00[\x00\x01]\x00.\x00.\x20[A-P]{32}", "RFC 1002, section 4.2"),
    // Formats with few fixed bytes: they need a port, or several packets.
    at(&[5353], "mdns", Udp, r"..[\x00\x80-\x87]\x00\x00.\x00.\x00.\x00.[\x01-\x3f]", "RFC 6762, section 18"),
    at(&[5355], "llmnr", Udp, r"..[\x00-\x07\x80-\x87].\x00\x01\x00.\x00.\x00.[\x01-\x3f]", "RFC 4795, section 2.1"),
    Signature {
        protocol: "dns",
        transport: Udp,
        ports: &[53],
        elsewhere: 1,
        pattern: DNS,
        source: "RFC 1035, section 4.1",
    },
    at(
        &[53],
        "dns",
        Udp,
        r"..[\x00-\x07\x28-\x2f\x80-\x87\xa8-\xaf].\x00[\x00\x01]\x00.\x00.\x00.",
        "RFC 1035, section 4.1",
    ),
    at(&[53], "dns", Tcp, r"....[\x00-\x07\x80-\x87].\x00[\x00\x01]..\x00.\x00.", "RFC 7766, section 8"),
    at(
        &[123],
        "ntp",
        Udp,
        r"[\x09-\x0f\x11-\x17\x19-\x1f\x21-\x27\x49-\x67\x89-\xa7\xc9-\xe7].{11}",
        "RFC 5905, section 7.3",
    ),
    at(
        &[5683],
        "coap",
        Udp,
        r"[\x40-\x48\x50-\x58\x60-\x68\x70-\x78](?:[\x00-\x04\x41-\x45\x5f\x80-\x8f\xa0-\xa5])..",
        "RFC 7252, section 3",
    ),
    at(
        &[1812, 1813, 1645, 1646],
        "radius",
        Udp,
        r"[\x01-\x05\x0b\x0c\x28-\x2d].[\x00-\x0f].{17}",
        "RFC 2865, section 3",
    ),
    at(
        &[502],
        "modbus",
        Tcp,
        r"..\x00\x00\x00[\x02-\xfe].[\x01-\x2b\x81-\xab]",
        "Modbus messaging on TCP/IP 1.0b, section 3",
    ),
    at(&[2404], "iec104", Tcp, r"\x68[\x04-\xfd][\x00-\xff]{4}", "IEC 60870-5-104, section 5"),
    Signature {
        protocol: "rtp",
        transport: Udp,
        ports: &[],
        elsewhere: 6,
        pattern: r"[\x80\x90\xa0](?:[\x00-\x12\x19-\x22]|[\x60-\x7f]|[\x80-\x92]|[\xe0-\xff]).{10}",
        source: "RFC 3550, section 5.1; RFC 3551",
    },
];

const SIP: &str = r"(?:INVITE|ACK|BYE|CANCEL|OPTIONS|REGISTER|PRACK|SUBSCRIBE|NOTIFY|PUBLISH|INFO|REFER|MESSAGE|UPDATE) [^\r\n ]+ SIP/2\.0\r\n|SIP/2\.0 [1-6][0-9][0-9] ";

const STUN: &str = r"(?:..)?[\x00\x01].[\x00-\x07].\x21\x12\xa4\x42";

/// A query for one name that starts with a letter, digit or underscore, or its answer, which repeats it.
const DNS: &str = r"..(?:[\x00-\x01][\x00\x10\x20\x30]\x00\x01\x00\x00\x00\x00\x00[\x00-\x01]|[\x80-\x87][\x80-\x85\x90\x93\xa0\xa3\xb0]\x00\x01\x00[\x00-\x3f]\x00[\x00-\x1f]\x00[\x00-\x1f])[\x01-\x3f][0-9A-Za-z_]";
