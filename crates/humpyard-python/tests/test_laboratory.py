"""Runs, comparisons and commands from Python: what they answer, and what they refuse."""

import json
import os
import tempfile
import threading
import time
import unittest
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Union, cast

import humpyard as hy

POISSON = "gen:poisson:packets=20000,flows=50"


class Runs(unittest.TestCase):
    def test_a_simulation_has_the_document_of_the_command_line(self) -> None:
        result = hy.simulate(POISSON, policy="hrw", cores=4, seed=3, load=0.8, flow_order="exit")
        self.assertEqual((result.policy, result["cores"], result.seed), ("hrw", 4, 3))
        self.assertEqual(result["packets"]["in"], 20000)
        self.assertEqual(result.delay_ns.p99, result["delay_ns"]["p99"])
        self.assertIn("delay_ns", dir(result))
        self.assertEqual(json.loads(json.dumps(result.document)), result.document)
        with self.assertRaisesRegex(AttributeError, "no `delay`: there are policy, input"):
            _ = result.delay

    def test_options_are_taken_as_python_has_them(self) -> None:
        result = hy.simulate(
            POISSON,
            policy="drr",
            load=0.5,
            services={"tcp": "encrypt", "other": "forward"},
            tolerance={"tcp": timedelta(milliseconds=3), "other": "1ms"},
            weights=[3, 1],
            rule=[{"protocol": "tcp", "port": 80, "service": "tcp"}],
            warmup="1us",
        )
        options = result.options
        self.assertEqual((options.weights, options.tolerance), ("3,1", "tcp=3ms,other=1ms"))
        self.assertEqual(options.rule, "protocol=tcp,port=80,service=tcp")

    def test_a_record_has_a_row_for_each_packet(self) -> None:
        result = hy.simulate(POISSON, policy="drr", load=0.9, record=True)
        self.assertEqual((len(result.packets), len(result.clients)), (20000, result.fairness.clients))
        self.assertEqual(len(result.timeline), result["packets"]["processed"])
        self.assertEqual(result.packets.columns[:3], ["arrival", "flow", "client"])
        self.assertEqual((len(result.cores), len(result.services)), (2, 1))
        with self.assertRaisesRegex(ValueError, "kept no packets: give record=True"):
            _ = hy.simulate(POISSON, policy="drr").packets

    def test_a_live_run_and_a_comparison(self) -> None:
        live = hy.run("gen:mit:packets=300", policy="hrw", workers=1, services="dpi", record=True)
        self.assertEqual((live["packets"]["processed"], len(live.packets)), (300, 300))
        both = hy.compare(POISSON, policies=["drr", "fcfs"], repeat=2, load=0.9)
        self.assertEqual([run.policy for run in both.runs], ["drr", "fcfs", "drr", "fcfs"])
        self.assertEqual(len(both.table), 4)
        self.assertIn("<td>fcfs</td>", both._repr_html_())

    def test_slips_are_errors_with_the_words_of_the_command_line(self) -> None:
        slips: list[tuple[dict[str, object], str]] = [
            ({"lod": 0.5}, "no option `lod`; did you mean `load`?"),
            ({"flow_ordr": "exit"}, "no option `flow_ordr`; did you mean `flow_order`?"),
            ({"load": "much"}, "load takes a number, not `much`"),
            ({"flow_order": "tall"}, "flow_order: no order of flows `tall`"),
            ({"rate": 5, "load": 0.5}, "rate and load cannot both be given"),
            ({"clock": "virtual"}, "clock is an option of live runs"),
            ({"cores": 0}, "cores 0: a simulation needs at least one core"),
            ({"policy": "banana"}, "policy: no policy `banana`"),
            ({"timeline": "a.trace", "record": True}, "timeline and record"),
        ]
        for given, said in slips:
            with self.subTest(said=said), self.assertRaises(ValueError) as raised:
                hy.simulate(POISSON, **cast("Any", {"policy": "drr", **given}))
            self.assertIn(said, str(raised.exception))
        with self.assertRaisesRegex(ValueError, "no-such.pcap: there is no such"):
            hy.simulate(Path("no-such.pcap"), policy="drr")

    def test_what_does_nothing_is_warned_of(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hy.simulate(POISSON, policy="fcfs", weights=[3, 1])
        self.assertTrue(any("weights" in str(warning.message) for warning in caught), [str(one) for one in caught])

    def test_progress_is_called_and_what_it_raises_ends_the_run(self) -> None:
        seen: list[tuple[int, Union[float, None], str]] = []
        hy.simulate(
            "gen:poisson:packets=3000000",
            policy="drr",
            progress=lambda done, part, what: seen.append((done, part, what)),
        )
        self.assertTrue(seen and seen[-1][2] == "packets", seen)

        def enough(done: int, part: Union[float, None], what: str) -> None:
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            hy.simulate("gen:poisson:packets=100000000000", policy="drr", progress=enough)

    def test_other_threads_run_meanwhile(self) -> None:
        counted, over = [0], threading.Event()

        def count() -> None:
            while not over.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        hy.simulate("gen:poisson:packets=3000000", policy="drr")
        over.set()
        thread.join()
        self.assertGreater(counted[0], 20)


class Tables(unittest.TestCase):
    def test_a_dict_of_columns_is_traffic(self) -> None:
        packets = {"time": [0, 100, 200, 300], "flow": ["a", "b", "a", "c"], "length": [100, 200, 300, 400]}
        result = hy.simulate(packets, policy="drr", record=True)
        self.assertEqual((result.input, result.flows), ("table of 4 packets", 3))
        self.assertEqual(hy.simulate(packets, policy="drr", loop=3)["packets"]["in"], 12)
        seconds = {**packets, "time": [0.0, 1e-7, 2e-7, 3e-7]}
        self.assertEqual(hy.simulate(seconds, policy="drr").delay_ns.mean, result.delay_ns.mean)

    def test_services_and_addresses_are_those_of_the_table(self) -> None:
        services = {"time": [0, 1, 2], "flow": [7, 7, 9], "length": [64] * 3, "service": ["dpi", "encrypt", "dpi"]}
        result = hy.simulate(services, policy="everest", cores=2, tolerance="100us")
        self.assertEqual(
            [(one.name, one.packets) for one in result["services"] and map(hy.Document, result["services"])],
            [("dpi", 2), ("encrypt", 1)],
        )
        ends = {
            "source": ["10.0.0.1", "fd00::1"],
            "destination": ["10.0.0.2", "fd00::2"],
            "source_port": [1, 2],
            "destination_port": [80, 53],
            "protocol": ["tcp", "udp"],
        }
        result = hy.simulate(
            {"time": [0, 1], "length": [100, 200], **ends}, policy="drr", services="tcp=dpi,other=forward"
        )
        self.assertEqual(
            {flow.flow for flow in result.top_flows}, {"tcp 10.0.0.1:1 > 10.0.0.2:80", "udp [fd00::1]:2 > [fd00::2]:53"}
        )
        self.assertEqual([one["packets"] for one in result["services"]], [1, 1])

    def test_live_runs_and_comparisons_take_tables(self) -> None:
        packets = {"time": list(range(0, 100000, 100)), "flow": [n % 7 for n in range(1000)], "length": [200] * 1000}
        self.assertEqual(hy.run(packets, policy="hrw", workers=1)["packets"]["processed"], 1000)
        both = hy.compare(packets, policies=["drr", "hrw"], load=0.7)
        self.assertEqual([run["packets"]["in"] for run in both.runs], [1000, 1000])

    def test_a_recommendation_is_for_the_packets_of_a_table(self) -> None:
        packets = {
            "time": list(range(0, 4_000_000, 2000)),
            "flow": [n % 7 for n in range(2000)],
            "length": [200] * 2000,
        }
        choices: dict[str, Any] = {"costs": "table:measured", "host": "ideal", "candidate": ["hrw", "drr"]}
        advice = hy.recommend(packets, goal="p99<2ms", **choices)
        self.assertEqual((advice.input, advice["packets"], advice.holds), ("table of 2000 packets", 2000, True))
        self.assertIsNone(advice.command)
        self.assertEqual({one["command"] for one in advice.more_traffic}, {None})
        services = {**packets, "service": ["dpi", "encrypt"] * 1000}
        advice = hy.recommend(services, goal="p99[dpi]<2ms", **choices)
        self.assertEqual([one["service"] for one in advice.costs], ["dpi", "encrypt"])
        with self.assertRaisesRegex(ValueError, "a table does not travel to workers: leave out executor"):
            hy.recommend(packets, goal="p99<2ms", executor=cast("Any", object()), **choices)
        with self.assertRaisesRegex(TypeError, "Arrow PyCapsule protocol"):
            hy.recommend(7, goal="p99<2ms", **choices)

    def test_a_validation_is_of_the_packets_of_a_table(self) -> None:
        packets = {
            "time": list(range(0, 4_000_000, 2000)),
            "flow": [n % 7 for n in range(2000)],
            "length": [200] * 2000,
        }
        with warnings.catch_warnings():
            # The costs are those of another machine: predictions miss.
            warnings.simplefilter("ignore")
            found = hy.validate(packets, policy="hrw", workers=1, costs="table:measured", host="server-16")
        self.assertEqual((found.input, [one["policy"] for one in found.policies]), ("table of 2000 packets", ["hrw"]))

    def test_a_packet_of_a_table_is_explained(self) -> None:
        packets = {"time": [0, 0, 0], "flow": [1, 2, 1], "length": [1500, 64, 64], "service": ["dpi", "dpi", "encrypt"]}
        story = hy.why(packets, policy="fcfs", cores=1, packet=2)
        self.assertEqual((story.input, story.packet.number), ("table of 3 packets", 2))
        self.assertEqual(hy.why(POISSON, policy=("hrw", "drr"), load=0.8).holds, True)
        with self.assertRaisesRegex(ValueError, "input"):
            hy.why(policy="drr")

    def test_what_is_no_table_of_packets_is_refused(self) -> None:
        good: dict[str, object] = {"time": [0, 1], "flow": [0, 1], "length": [64, 64]}
        changes: list[tuple[dict[str, object], str]] = [
            (
                {"time": [1, 0]},
                "packet 1 arrives at 0 ns, before the packet ahead of it at 1 ns: sort the table by time",
            ),
            ({"time": [-1, 0]}, "`time` takes numbers from 0, not -1"),
            ({"time": [None, 0]}, "the column `time` has empty values"),
            ({"time": [True, False]}, "`time` takes whole numbers, not Boolean"),
            ({"length": [1, 1 << 40]}, "`length` takes bytes up to 4294967295"),
            ({"size": [1, 2]}, "no use for the column `size`"),
            ({"source": ["a", "b"]}, "`flow` and `source` both say what flows are"),
            ({"service": [1, 2]}, "`service` takes names of services, not UInt64"),
            ({"service": ["dpi", "drp"]}, "drp"),
        ]
        for change, said in changes:
            with self.subTest(said=said), self.assertRaises(ValueError) as raised:
                hy.simulate({**good, **change}, policy="drr")
            self.assertIn(said, str(raised.exception))
        for table, said in [({"time": [1]}, "no column `length`"), ({"time": [1], "length": [1]}, "no column `flow`")]:
            with self.assertRaisesRegex(ValueError, said):
                hy.simulate(table, policy="drr")
        with self.assertRaisesRegex(TypeError, "Arrow PyCapsule protocol"):
            hy.simulate(7, policy="drr")


class Commands(unittest.TestCase):
    def test_commands_answer_with_their_documents(self) -> None:
        self.assertEqual(hy.schedule(policy="drr", weights=[2, 1], slots=6).slots, [1, 1, 2, 1, 1, 2])
        flow = {"service": "forward", "rate": "10Mbit", "length": 500, "burst": "5kB"}
        self.assertTrue(hy.admit(flow=[flow, flow], cores=4).holds)
        choices: dict[str, Any] = {"costs": "table:measured", "host": "ideal", "workers": 2, "no_verify": True}
        advice = hy.recommend("gen:mit:packets=2000", goal="p99<2ms", **choices)
        self.assertTrue(advice.holds)
        self.assertIn("gen:mit:packets=2000", advice.command)
        self.assertFalse(hy.recommend("gen:mit:packets=2000", goal="p99<1ns", **choices).holds)

    def test_a_sweep_and_an_experiment_are_done_into_directories(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            plan = {
                "options": {"input": "gen:poisson:packets=500", "cores": 2},
                "axes": {"policy": ["drr", "fcfs"], "load": {"from": 0.5, "to": 0.9, "steps": 2}},
                "repeat": {"times": 2},
            }
            done = hy.sweep(plan, out=Path(directory, "out"))
            self.assertTrue(Path(directory, "out", "runs.parquet").exists())
            self.assertTrue(done.holds)
            file = Path(directory, "plan.toml")
            file.write_text('[options]\ninput = "gen:poisson:packets=500"\n[axes]\npolicy = ["drr"]\n')
            hy.sweep(file, out=Path(directory, "other"))
            found = hy.reproduce("gr3-fig2", quick=True, out=os.path.join(directory, "papers"))
            self.assertTrue(found.holds)

    def test_slips_are_errors_with_keywords(self) -> None:
        slips: list[tuple[Callable[[], object], str]] = [
            (lambda: hy.schedule(policy="banana", weights=[1], slots=1), "no policy `banana`"),
            (lambda: hy.schedule(policy="drr", wieghts=[1]), "'wieghts' found; a similar argument exists: 'weights'"),
            (lambda: hy.recommend("gen:mit", goal="p99<<2"), "goal: `p99<<2`"),
            (lambda: hy.reproduce("gr3-figg"), "no experiment `gr3-figg`; did you mean"),
            (lambda: hy.sweep("no-such.toml", out="x"), "no-such.toml: there is no such file"),
        ]
        for call, said in slips:
            with self.subTest(said=said), self.assertRaises(ValueError) as raised:
                call()
            self.assertIn(said, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
