"""Translates packets with tayga, in a network namespace of its own (`unshare --net`), which ends with this program.

The arguments are the lines of tayga's configuration. Reads packets in hexadecimal, one per line. Writes the answer to each: a
packet, or a hyphen if none came within a second.
"""

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEVICE = "nat64"
ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
PACKET_OUTGOING = 4

directory = tempfile.TemporaryDirectory()
configuration = Path(directory.name, "tayga.conf")
lines = [f"tun-device {DEVICE}", f"data-dir {directory.name}", *sys.argv[1:]]
configuration.write_text("\n".join(lines) + "\n")
tayga = ["tayga", "--config", configuration, "--pidfile", Path(directory.name, "pid")]
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
subprocess.run([*tayga, "--mktun"], check=True, **quiet)
# The kernel must not send packets of its own.
Path(f"/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6").write_text("1")
subprocess.run(["ip", "link", "set", "dev", DEVICE, "up"], check=True, **quiet)
process = subprocess.Popen([*tayga, "--nodetach"], **quiet)
try:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    wire.bind((DEVICE, 0))
    wire.settimeout(1)
    # Waits until tayga reads the packets sent to it.
    patience = time.monotonic() + 10
    while time.monotonic() < patience:
        flags = subprocess.run(["ip", "link", "show", DEVICE], check=True, capture_output=True, text=True).stdout
        if "LOWER_UP" in flags and "NO-CARRIER" not in flags:
            break
        time.sleep(0.05)
    for line in sys.stdin:
        packet = bytes.fromhex(line)
        wire.sendto(packet, (DEVICE, ETH_P_IP if packet[0] >> 4 == 4 else ETH_P_IPV6))
        try:
            while True:
                answer, (_, _, kind, *_) = wire.recvfrom(65536)
                if kind != PACKET_OUTGOING:
                    break
            print(answer.hex())
        except TimeoutError:
            print("-")
finally:
    process.terminate()
    process.wait()
    directory.cleanup()
