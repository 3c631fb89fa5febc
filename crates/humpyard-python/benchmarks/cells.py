"""Time a sweep of many small simulations: here, by other processes, and by a Dask cluster on loopback.

Usage: python cells.py [SIMULATIONS] [processes=N | dask=N | empty=N]...

``empty`` has Dask do as many tasks that do nothing: the time that its scheduler takes for a task. The scheduler runs in
this process, so its time is that of the client, too.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import humpyard as hy


def plan(simulations: int) -> dict[str, Any]:
    """Return a plan of cells of 100 packets."""
    return {
        "options": {"input": "gen:poisson:packets=100", "cores": 2, "policy": "drr"},
        "axes": {"load": {"from": 0.1, "to": 0.9, "steps": simulations // 100}},
        "repeat": {"times": 100},
    }


def dask(stack: ExitStack, workers: int) -> Any:  # noqa: ANN401 - dask has no types
    """Start a scheduler and workers of one thread, each a process of its own."""
    from distributed import Client, LocalCluster

    cluster = stack.enter_context(
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)  # type: ignore[no-untyped-call]
    )
    return stack.enter_context(Client(cluster))  # type: ignore[no-untyped-call]


def nothing(number: int) -> int:
    """Do nothing."""
    return number


def do_nothing(client: Any, simulations: int) -> None:  # noqa: ANN401 - dask has no types
    """Have a cluster do nothing, a task for each simulation."""
    client.gather(client.map(nothing, range(simulations)))


def sweep(simulations: int, out: Path, options: dict[str, Any]) -> None:
    """Make a sweep."""
    hy.sweep(plan(simulations), out=out, **options)


def timed(name: str, simulations: int, workers: int, of: Callable[..., object], *arguments: object) -> None:
    """Print how long a call takes, and what this process has needed at most."""
    begin, busy = time.perf_counter(), time.process_time()
    of(*arguments)
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    said = {
        "what": name,
        "seconds": round(seconds, 1),
        "worker_us_per_cell": round(1e6 * seconds * workers / simulations),
        "client_cpu_us_per_cell": round(1e6 * busy / simulations),
        "client_MB": memory,
    }
    print(json.dumps(said), flush=True)


def main(simulations: int, *ways: str) -> None:
    """Print a line of JSON for each way."""
    directory = Path(tempfile.mkdtemp())
    seen: set[bytes] = set()
    for way in ways:
        name, number = way.split("=")
        with ExitStack() as stack:
            executor: Any = None
            if name == "processes":
                executor = stack.enter_context(ProcessPoolExecutor(int(number), mp_context=get_context("spawn")))
            elif name in ("dask", "empty"):
                client = dask(stack, int(number))
                executor = client.get_executor()
            if name == "empty":
                timed(way, simulations, int(number), do_nothing, client, simulations)
                continue
            out = directory / way
            options = {"threads": int(number)} if executor is None else {"executor": executor}
            timed(way, simulations, int(number), sweep, simulations, out, options)
            seen.add((out / "runs.parquet").read_bytes())
    shutil.rmtree(directory)
    if len(seen) > 1:
        raise SystemExit("the tables differ")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, *(sys.argv[2:] or ["threads=2", "processes=2"]))
