"""Checks translated packets with scapy, which builds each packet again from its fields, and computes its checksums.

Reads lines of three packets in hexadecimal: an IPv4 packet, its translation to IPv6, and the translation of that to IPv4. If a
checksum was wrong before, it must be as wrong afterwards. A new checksum cannot show that, so such packets are counted and left
out. So are the checksums of fragments, and of packets that an error quotes in part.
"""

import sys
from collections import Counter
from ipaddress import IPv4Address, IPv6Address

import scapy.all  # noqa: F401: fills the tables by which layers find each other
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    IPv6,
    IPv6ExtHdrFragment,
)
from scapy.packet import Raw

PREFIX = int(IPv6Address("64:ff9b::"))
HOSTS = int(IPv6Address("2001:db8:64::"))
NUMBERS = {1: 58}


def behind(prefix, address):
    return str(IPv6Address(prefix | int(IPv4Address(address))))


def content(packet):
    """Returns the payload of an unfragmented IPv4 packet, for IPv6; None if it is not compared."""
    if ICMP in packet:
        kinds = {8: ICMPv6EchoRequest, 0: ICMPv6EchoReply}
        if packet[ICMP].type not in kinds:
            return None
        return kinds[packet[ICMP].type](id=packet[ICMP].id, seq=packet[ICMP].seq, data=bytes(packet[ICMP].payload))
    for kind in TCP, UDP:
        if kind in packet and isinstance(packet.payload, kind):
            fields = dict(packet[kind].fields)
            fields.pop("chksum", None)
            return kind(**fields) / Raw(bytes(packet[kind].payload))
    return Raw(bytes(packet.payload))


def is_right(packet):
    """Returns whether the checksum in an unfragmented IPv4 packet's payload is correct by scapy; UDP may have none."""
    again = IP(bytes(packet))
    for kind in TCP, UDP, ICMP:
        if kind in again and isinstance(again.payload, kind):
            was = again[kind].chksum
            if kind is UDP and (was == 0 or again[UDP].len != len(bytes(again[UDP]))):
                return was == 0 and again[UDP].len == len(bytes(again[UDP]))
            del again[kind].chksum
            return IP(bytes(again))[kind].chksum == was
    return True


def in_v6(packet):
    carried = bytes(packet)[packet.ihl * 4 : packet.len]
    header = IPv6(
        src=behind(PREFIX, packet.src),
        dst=behind(HOSTS, packet.dst),
        tc=packet.tos,
        hlim=packet.ttl - 1,
        nh=NUMBERS.get(packet.proto, packet.proto),
    )
    if packet.flags.MF or packet.frag:
        fragment = IPv6ExtHdrFragment(nh=header.nh, offset=packet.frag, m=int(packet.flags.MF), id=packet.id)
        header.nh = 44
        return bytes(header / fragment / Raw(carried)), True
    made = content(packet)
    return (None if made is None else bytes(header / made)), False


def in_v4(packet):
    """Returns the IPv4 packet after both translators: no options, no identification, and DF by its length."""
    carried = bytes(packet)[packet.ihl * 4 : packet.len]
    header = IP(src=packet.src, dst=packet.dst, tos=packet.tos, ttl=packet.ttl - 2, proto=packet.proto)
    is_fragment = packet.flags.MF or packet.frag
    if is_fragment:
        header.id, header.frag, header.flags = packet.id, packet.frag, "MF" if packet.flags.MF else 0
    else:
        header.id, header.flags = 0, "DF" if 20 + len(carried) > 1260 else 0
    return bytes(header / Raw(carried))


def without(data, *places):
    """Returns the bytes, with some of them set to zero."""
    data = bytearray(data)
    for start, end in places:
        data[start:end] = bytes(len(data[start:end]))
    return bytes(data)


counts = Counter()
for line in sys.stdin:
    before, between, after = (bytes.fromhex(word) for word in line.split())
    packet = IP(before)
    expected, is_fragment = in_v6(packet)
    if expected is None:
        counts["errors, left out"] += 1
        continue
    if not is_fragment and not is_right(packet):
        counts["wrong before, left out"] += 1
        continue
    skipped = []
    if is_fragment and packet.frag == 0:
        skipped = [{6: (64, 66), 17: (54, 56)}.get(packet.proto, (0, 0))]
    if without(expected, *skipped) != without(between, *skipped):
        print(f"not what scapy makes of {before.hex()}:\n{between.hex()}, but\n{expected.hex()}")
        sys.exit(1)
    expected = in_v4(packet)
    # The identification differs, and so does the header checksum: it is checked separately.
    skipped = [(10, 12)] if is_fragment else [(4, 6), (10, 12)]
    if packet.proto == 17 and not packet.frag and before[packet.ihl * 4 + 6 :][:2] == b"\0\0":
        skipped.append((26, 28))
    if without(expected, *skipped) != without(after, *skipped):
        print(f"not what scapy makes of {before.hex()} in IPv4 again:\n{after.hex()}, but\n{expected.hex()}")
        sys.exit(1)
    again = IP(after)
    del again.chksum
    if bytes(again)[10:12] != after[10:12]:
        print(f"the checksum of {after.hex()} is wrong")
        sys.exit(1)
    counts["fragments alike" if is_fragment else "alike"] += 1
print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
sys.exit(0 if counts["alike"] > 1000 else 1)
