"""Compare `simulate` with the command line, which runs the same simulations.

By time, in turn: the median of the ratios of 15 pairs. With --instructions, by valgrind: the instructions that more
packets take, which are the same on an idle and on a busy machine. More than 5 % above the command line end that with
exit code 1.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time

import humpyard as hy

PAIRS = 15
CASES = [("hrw", "gen:poisson:flows=1000"), ("drr", "gen:poisson:flows=1000"), ("gr3", "gen:imix")]

FEW, MANY = 50_000, 150_000
"""Packets of two runs: what both take does not count, such as the start of the interpreter."""

LIMIT = 1.05
"""How many times the command line's instructions a simulation may take."""


def timed(program: str, packets: int) -> None:
    """Print a line of JSON for each case."""
    for policy, source in CASES:
        words, text = command(program, policy, source, packets)
        ratios, seconds = [], []
        for _ in range(PAIRS):
            begin = time.perf_counter()
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            between = time.perf_counter()
            hy.simulate(text, policy=policy, load=0.9)
            end = time.perf_counter()
            ratios.append((end - between) / (between - begin))
            seconds.append(end - between)
        median = {"policy": policy, "ratio": statistics.median(ratios), "seconds": statistics.median(seconds)}
        print(json.dumps({**median, "ratios": sorted(round(ratio, 3) for ratio in ratios)}), flush=True)


def counted(program: str) -> bool:
    """Print a line of JSON for each case, and return whether all keep the limit."""
    ratios = []
    for policy, source in CASES:
        costs = []
        for packets in (FEW, MANY):
            words, text = command(program, policy, source, packets)
            call = f"import humpyard as hy; hy.simulate({text!r}, policy={policy!r}, load=0.9)"
            costs.append((instructions(words), instructions([sys.executable, "-c", call])))
        (few_there, few_here), (many_there, many_here) = costs
        there, here = many_there - few_there, many_here - few_here
        ratios.append(here / there)
        line = {"policy": policy, "ratio": round(here / there, 4), "limit": LIMIT}
        each = {"command": there / (MANY - FEW), "python": here / (MANY - FEW)}
        print(json.dumps({**line, "instructions a packet": each}), flush=True)
    return max(ratios) <= LIMIT


def command(program: str, policy: str, source: str, packets: int) -> tuple[list[str], str]:
    """Return the words of a command line, and its traffic."""
    text = f"{source}{',' if ':' in source[4:] else ':'}packets={packets}"
    return [program, "sim", "--input", text, "--policy", policy, "--load", "0.9", "--json", "--quiet"], text


def instructions(words: list[str]) -> int:
    """Count the instructions of a program."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *words]
    done = subprocess.run(valgrind, check=True, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"valgrind says no number: {done.stderr[-300:]}")
    return int(found[1])


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the command line, built as released")
    parser.add_argument("--packets", type=int, default=3_000_000, help="packets of a simulation that is timed")
    parser.add_argument("--instructions", action="store_true", help="count instructions instead of time")
    asked = parser.parse_args()
    if not asked.instructions:
        timed(asked.program, asked.packets)
    elif not counted(asked.program):
        sys.exit(f"simulate takes more than {LIMIT} times the instructions of the command line")


if __name__ == "__main__":
    main()
