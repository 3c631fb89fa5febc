"""Time `simulate` in turn with the command line: the median of the ratios of 15 pairs.

Usage: python simulate.py PROGRAM [PACKETS]
"""

import json
import statistics
import subprocess
import sys
import time

import humpyard as hy

PAIRS = 15
CASES = [("hrw", "gen:poisson:flows=1000"), ("drr", "gen:poisson:flows=1000"), ("gr3", "gen:imix")]


def main(program: str, packets: str = "3000000") -> None:
    """Print a line of JSON for each case."""
    for policy, source in CASES:
        text = f"{source}{',' if ':' in source[4:] else ':'}packets={packets}"
        words = [program, "sim", "--input", text, "--policy", policy, "--load", "0.9", "--json", "--quiet"]
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


if __name__ == "__main__":
    main(*sys.argv[1:])
