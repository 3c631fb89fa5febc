"""Sweeps whose simulations an executor makes: processes of this machine, and a Dask cluster on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import humpyard as hy


def plan(simulations: int, packets: int = 500, **options: str) -> dict[str, Any]:
    """Return a plan of `simulations` simulations, in pairs that differ in nothing but the policy."""
    return {
        "options": {"input": f"gen:poisson:packets={packets}", "cores": 2, **options},
        "axes": {"policy": ["drr", "hrw"], "load": {"from": 0.3, "to": 0.9, "steps": simulations // 2}},
    }


def table(directory: Path) -> bytes:
    """Return the bytes of the table of a sweep."""
    return (directory / "runs.parquet").read_bytes()


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def enterContext(self, manager: Any) -> Any:  # noqa: ANN401, N802 - as of Python 3.11
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def test_other_processes_make_the_same_table(self) -> None:
        here, there, seen = self.directory / "here", self.directory / "there", []
        hy.sweep(plan(40), out=here)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
            done = hy.sweep(plan(40), out=there, executor=executor, progress=lambda *said: seen.append(said))
            again = hy.sweep(plan(40), out=there, executor=executor)
        self.assertEqual((done.runs, done.simulated, again.simulated), (40, 40, 0))
        self.assertEqual(table(here), table(there))
        self.assertEqual(seen[-1], (40, 1.0, "simulations"))

    def test_what_is_wrong_ends_it_and_leaves_nothing(self) -> None:
        out = self.directory / "out"
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            with self.assertRaisesRegex(ValueError, "no policy `banana`"):
                hy.sweep({"options": {"input": "gen:mit", "policy": "banana"}}, out=out, executor=executor)
            cut = self.directory / "cut.pcap"
            cut.write_bytes(b"no capture")
            with self.assertRaisesRegex(ValueError, "cut.pcap"):
                hy.sweep({"options": {"input": str(cut), "policy": "drr"}}, out=out, executor=executor)
            with self.assertRaisesRegex(ValueError, "costs is what was measured on this machine"):
                hy.sweep(plan(4, costs="calibrated"), out=out, executor=executor)
            with self.assertRaisesRegex(ValueError, "threads is for sweeps without an executor"):
                hy.sweep(plan(2), out=out, executor=executor, threads=2)
        self.assertFalse(out.exists())


def untimed(comparison: hy.Comparison) -> list[Any]:
    """Return a comparison without what was measured of this machine."""
    runs = [{**run, "measured": None, "environment": None} for run in comparison.document["runs"]]
    return [runs, comparison.document["statistics"], comparison.document["repetitions"]]


class Commands(unittest.TestCase):
    """Other functions that make many simulations."""

    def setUp(self) -> None:
        self.stack = ExitStack()
        self.addCleanup(self.stack.close)
        self.directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.executor = self.stack.enter_context(ProcessPoolExecutor(2, mp_context=get_context("spawn")))

    def test_other_processes_make_the_same_comparison(self) -> None:
        capture(self.directory / "own.pcap")
        for source in ("gen:mit:packets=2000", str(self.directory / "own.pcap")):
            options: dict[str, Any] = {"policies": ["drr", "hrw"], "repeat": 7, "cores": 3, "load": 0.9}
            seen: list[Any] = []
            here = hy.compare(source, **options)
            there = hy.compare(
                source, **options, executor=self.executor, progress=lambda *said, seen=seen: seen.append(said)
            )
            self.assertEqual(json.dumps(untimed(there)), json.dumps(untimed(here)))
            self.assertEqual(list(there.document), list(here.document))
            self.assertEqual(seen[-1], (14, 1.0, "runs"))

    def test_what_is_timed_has_no_executor(self) -> None:
        options: dict[str, Any] = {"policies": ["drr"], "executor": self.executor}
        for wrong, said in (
            ({"live": True}, "live runs measure this machine"),
            ({"costs": "auto"}, "costs is what was measured on this machine"),
            ({"host": "here"}, "host is what was measured on this machine"),
            ({"buffer": -1}, "buffer takes"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                hy.compare("gen:mit:packets=10", **options, **wrong)
        with self.assertRaisesRegex(ValueError, "a table does not travel"):
            hy.compare({"time": [0], "flow": [1], "length": [64]}, **options)
        with self.assertRaisesRegex(ValueError, "no policy `banana`"):
            hy.compare("gen:mit:packets=10", policies=["drr", "banana"], executor=self.executor)

    def test_other_processes_find_the_same_recommendation(self) -> None:
        capture(self.directory / "own.pcap")
        for source in ("gen:mit:packets=12000", str(self.directory / "own.pcap")):
            options: dict[str, Any] = {
                "goal": "p99<2ms,loss<1%",
                "costs": "table:everest",
                "host": "ideal",
                "load": 0.8,
            }
            seen: list[Any] = []
            here = hy.recommend(source, candidate=["drr", "hrw", "gr3"], **options)
            there = hy.recommend(
                source,
                candidate=["drr", "hrw", "gr3"],
                **options,
                executor=self.executor,
                progress=lambda *said, seen=seen: seen.append(said),
            )
            self.assertEqual(json.dumps(there.document), json.dumps(here.document))
            self.assertTrue(seen)
        with self.assertRaisesRegex(ValueError, "costs is what was measured on this machine"):
            hy.recommend("gen:mit:packets=2000", goal="p99<2ms", host="ideal", executor=self.executor)
        with self.assertRaisesRegex(ValueError, "no policy `banana`"):
            hy.recommend("gen:mit:packets=2000", candidate="banana", executor=self.executor, **options)

    def test_other_processes_run_the_same_parts_of_experiments(self) -> None:
        seen: list[Any] = []
        here = hy.reproduce("gr3-fig2", "gr3-delay", out=self.directory / "here")
        there = hy.reproduce(
            "gr3-fig2",
            "gr3-delay",
            out=self.directory / "there",
            executor=self.executor,
            progress=lambda *said: seen.append(said),
        )
        self.assertEqual(here.holds, there.holds)
        self.assertTrue(seen and any(what == "parts" for _, _, what in seen), seen)
        files = {path.relative_to(self.directory / "here") for path in (self.directory / "here").rglob("*.*")}
        self.assertEqual(
            files, {path.relative_to(self.directory / "there") for path in (self.directory / "there").rglob("*.*")}
        )
        for file in files:
            if file.suffix in {".csv", ".parquet", ".svg"}:
                same = (self.directory / "here" / file).read_bytes() == (self.directory / "there" / file).read_bytes()
                self.assertTrue(same, file)


def capture(path: Path) -> None:
    """Write a capture of 200 frames, one each millisecond."""
    head = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    frame = bytes(12) + b"\x08\x00\x45" + bytes(45)
    records = [
        (n * 1000).to_bytes(4, "little").rjust(8, b"\0") + 2 * len(frame).to_bytes(4, "little") for n in range(200)
    ]
    path.write_bytes(head + b"".join(record + frame for record in records))


@unittest.skipIf(importlib.util.find_spec("distributed") is None, "dask.distributed is not installed")
class Dask(unittest.TestCase):
    """A scheduler and four workers, each a process of its own."""

    def setUp(self) -> None:
        self.stack = ExitStack()
        self.addCleanup(self.stack.close)
        self.directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.scheduler = self.directory / "scheduler.json"
        self.start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.workers = [self.worker() for _ in range(4)]

    def start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        elsewhere = Path(tempfile.mkdtemp(dir=self.directory))
        words = [
            sys.executable,
            "-m",
            f"distributed.cli.{program}",
            "--scheduler-file",
            str(self.scheduler),
            *arguments,
        ]
        # Workers have their own directory of temporary files, as on other machines.
        environment = {**os.environ, "TMPDIR": str(elsewhere), "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s"}
        log = self.stack.enter_context((elsewhere / "log").open("wb"))
        process = subprocess.Popen(words, cwd=elsewhere, env=environment, stdout=log, stderr=log)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start("dask_worker", "--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1")

    def client(self, workers: int) -> Any:  # noqa: ANN401 - dask has no types
        from distributed import Client

        while not self.scheduler.exists():
            time.sleep(0.05)
        client = self.stack.enter_context(Client(scheduler_file=str(self.scheduler)))  # type: ignore[no-untyped-call]
        client.wait_for_workers(workers, timeout=60)
        return client

    def test_workers_come_and_go_and_the_table_is_the_same(self) -> None:
        here, there = self.directory / "here", self.directory / "there"
        long = plan(400, packets=20000)
        hy.sweep(long, out=here)
        client, changed = self.client(4), threading.Event()

        def change(done: int, part: float | None, what: str) -> None:
            if done >= 50 and not changed.is_set():
                changed.set()
                self.workers[0].kill()
                self.workers.append(self.worker())

        done = hy.sweep(long, out=there, executor=client.get_executor(), progress=change)
        self.assertTrue(changed.is_set())
        self.assertEqual((done.runs, table(there) == table(here)), (400, True))

    def test_a_sweep_goes_on_with_another_client(self) -> None:
        here, there = self.directory / "here", self.directory / "there"
        long = plan(200, packets=20000)
        hy.sweep(long, out=here)
        first = self.client(4)

        def lose(done: int, part: float | None, what: str) -> None:
            if done >= 30:
                first.close()

        with self.assertRaises(Exception):  # noqa: B017 - dask has several
            hy.sweep(long, out=there, executor=first.get_executor(), progress=lose)
        done = hy.sweep(long, out=there, executor=self.client(4).get_executor())
        self.assertLess(done.simulated, 200)
        self.assertEqual(table(there), table(here))

    @unittest.skipIf("HUMPYARD_PROGRAM" not in os.environ, "HUMPYARD_PROGRAM does not name the program humpyard")
    def test_the_command_line_has_a_cluster_simulate(self) -> None:
        self.client(4)
        scheduler = json.loads(self.scheduler.read_text())["address"]
        file = self.directory / "loads.toml"
        file.write_text(
            '[options]\ninput = "gen:mit:packets=500"\n[axes]\npolicy = ["drr", "hrw"]\n[repeat]\ntimes = 9\n'
        )
        hy.sweep(file, out=self.directory / "here")

        def called(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
            program = [os.environ["HUMPYARD_PROGRAM"], "sweep", str(file), *words]
            environment = {**os.environ, "HUMPYARD_PYTHON": sys.executable, **environment}
            return subprocess.run(program, capture_output=True, text=True, check=False, env=environment)

        done = called("--out", str(self.directory / "there"), "--dask", scheduler, "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["runs"]), (0, 18), done.stderr)
        self.assertEqual(table(self.directory / "there"), table(self.directory / "here"))
        lost = called("--out", str(self.directory / "lost"), "--dask", "tcp://127.0.0.1:1")
        self.assertEqual((lost.returncode, lost.stdout), (2, ""))
        self.assertIn("--dask: no scheduler at tcp://127.0.0.1:1", lost.stderr)
        bare = called("--dask", scheduler, HUMPYARD_PYTHON="/bin/false")
        self.assertIn("--dask needs the packages humpyard and distributed in /bin/false", bare.stderr)

    def test_a_capture_travels_to_workers_that_lack_it(self) -> None:
        here, there = self.directory / "here", self.directory / "there"
        before = Path.cwd()
        os.chdir(self.directory)
        self.addCleanup(os.chdir, before)
        capture(Path("own.pcap"))
        own = plan(40)
        own["options"]["input"] = "own.pcap"
        hy.sweep(own, out=here)
        hy.sweep(own, out=there, executor=self.client(4).get_executor())
        self.assertEqual(table(there), table(here))
        kept = list(self.directory.glob("*/humpyard-*/*.pcap"))
        self.assertTrue(0 < len(kept) <= 4, kept)


if __name__ == "__main__":
    unittest.main()
