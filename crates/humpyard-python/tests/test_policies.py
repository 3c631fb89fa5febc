"""Policies written in Python: they are held to the suite, decide as ours do, and say what is wrong."""

from __future__ import annotations

import ast
import importlib.util
import tempfile
import traceback
import unittest
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import humpyard as hy
from humpyard import policies, testing
from humpyard.policies import Cause, Machine, Packet, SchedulerConfig, View

DRR = Path(__file__).parent.parent / "examples" / "drr.py"

FEW = range(6)


def example() -> ModuleType:
    """Import the example."""
    specification = importlib.util.spec_from_file_location("drr", DRR)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Oldest(hy.Share):
    """The client whose head was offered first."""

    promises = ("work_conserving",)

    def pick(self, now: int, core: int) -> int | None:
        return next(iter(self.heads))


class Least(hy.Steer):
    """To the core with the least work waiting."""

    def steer(self, now: int, packet: Packet, view: View) -> int | None:
        return min(view.eligible, key=lambda core: (view.backlog[core], view.packets[core], core))


class Hashed(hy.Steer):
    """By rendezvous hashing."""

    promises = ("flow_order", "minimal_disruption")

    def steer(self, now: int, packet: Packet, view: View) -> int | None:
        return max(view.eligible, key=lambda core: hash((packet.key, core)))


class Batches(hy.Steer):
    """Holds what comes until a microsecond has passed, then steers to the first core."""

    def start(self, config: SchedulerConfig) -> None:
        self.due: int | None = None
        self.is_open = False

    def steer(self, now: int, packet: Packet, view: View) -> int | None:
        if self.is_open:
            return view.eligible[0]
        self.due = now + 1000 if self.due is None else self.due
        return None

    def next_timeout(self) -> int | None:
        return self.due

    def on_timeout(self, now: int) -> None:
        if self.due is not None and now >= self.due:
            self.due, self.is_open = None, True


class Fixed(hy.Allocate):
    """Cores in turn."""


class Follows(hy.Allocate):
    """An idle core goes where packets wait."""

    def reassign(self, now: int, cause: Cause, machine: Machine) -> tuple[int, int] | None:
        if cause.kind != "idle" or cause.core is None:
            return None
        own = machine.core(cause.core)
        waiting = [
            service for service, state in enumerate(machine.services) if state.backlog and service != own.service
        ]
        if waiting and own.is_movable and machine.service(own.service).cores > 1:
            return cause.core, waiting[0]
        return None


class Learns(hy.Estimate):
    """What the last packet of the service was for each byte."""

    def start(self, config: SchedulerConfig) -> None:
        self.per_byte = [1] * len(config.services)

    def estimate(self, packet: Packet) -> int:
        return max(1, self.per_byte[packet.service] * packet.length)

    def on_completion(self, packet: Packet, used: int, cold: bool) -> None:
        self.per_byte[packet.service] = max(1, used // max(1, packet.length))


class Kept(unittest.TestCase):
    def test_policies_of_every_family_pass_the_suite(self) -> None:
        every: list[policies.Policy | type[policies.Policy]] = [Oldest, Oldest(), Least, Hashed, Batches, Fixed]
        for policy in [*every, Follows, Learns]:
            with self.subTest(policy=policy):
                testing.check(policy, seeds=FEW)

    def test_policies_pass_with_partners_of_their_own(self) -> None:
        testing.check(("jsq", Oldest), seeds=FEW)
        testing.check((Hashed(), "share=gr3"), seeds=FEW)

    def test_the_example_decides_as_drr(self) -> None:
        drr = example().Drr
        testing.check(drr, fair=3, like="drr")

    def test_the_example_has_25_lines(self) -> None:
        tree = ast.parse(DRR.read_text())
        drr = next(node for node in tree.body if isinstance(node, ast.ClassDef))
        without = {number for node in drr.body[:1] for number in range(node.lineno, (node.end_lineno or 0) + 1)}
        lines = DRR.read_text().splitlines()
        numbers = range(drr.lineno, (drr.end_lineno or 0) + 1)
        code = [number for number in numbers if number not in without and lines[number - 1].strip()]
        self.assertLessEqual(len(code), 25)

    def test_a_prototype_stays_as_it_was(self) -> None:
        policy = example().Drr()
        testing.check(policy, seeds=[1])
        self.assertEqual(vars(policy), {})

    def test_handlers_get_what_they_are_promised(self) -> None:
        seen: list[str] = []

        class Curious(Oldest):
            def start(self, config: SchedulerConfig) -> None:
                assert len(config.weights) == config.clients == len(self.weights)
                assert len(config.services) >= 1 and config.services[0].name and config.longest > 0
                assert config.unit in ("bytes", "packets", "ns") and len(config.speeds) == config.cores
                seen.append(repr(config))

            def on_arrival(self, now: int, client: int, packet: Packet, waiting: int) -> None:
                assert packet.client == client and packet.arrival == now and packet.length > 0 and waiting >= 0
                seen.append("arrival")

            def on_wake(self, now: int, client: int, head: Packet) -> None:
                assert self.heads[client] is head
                seen.append(repr(head))

            def on_dispatch(self, now: int, core: int, client: int, sent: Packet) -> None:
                assert client not in self.heads
                seen.append("dispatch")

            def set_weight(self, now: int, client: int, weight: int) -> None:
                assert self.weights[client] == weight
                seen.append("weight")

        testing.check(Curious, seeds=FEW)
        for word in ["arrival", "dispatch", "weight"]:
            self.assertIn(word, seen)
        self.assertTrue(any(word.startswith("<SchedulerConfig cores=") for word in seen))
        self.assertTrue(any(word.startswith("<Packet sequence=0 ") for word in seen))

    def test_everything_has_a_docstring(self) -> None:
        for name in policies.__all__:
            item = getattr(policies, name)
            self.assertTrue(item.__doc__ or name in ("PolicyLike", "Promise"), name)
            for member, value in vars(item).items() if isinstance(item, type) else ():
                if callable(value) and not member.startswith("_"):
                    self.assertTrue(value.__doc__, f"{name}.{member}")


class Broken(unittest.TestCase):
    def broken(self, policy: Any, words: str, **arguments: Any) -> None:  # noqa: ANN401
        with self.assertRaises(AssertionError) as found:
            testing.check(policy, seeds=FEW, **arguments)
        self.assertIn(words, str(found.exception).splitlines()[0])

    def test_who_serves_what_was_not_offered_is_named(self) -> None:
        class Rash(Oldest):
            def pick(self, now: int, core: int) -> int | None:
                return 77

        self.broken(Rash, "Rash.pick answered 77, which has no packet that may be served (`Rash`, scenario ")

    def test_answers_of_another_type_are_told(self) -> None:
        class Wordy(Oldest):
            def pick(self, now: int, core: int) -> int | None:
                return "the first"  # type: ignore[return-value]

        self.broken(Wordy, "Wordy.pick answered 'the first', which is not the number of a client, or None")

    def test_idle_cores_and_fickle_answers_are_caught(self) -> None:
        class Lazy(Oldest):
            def pick(self, now: int, core: int) -> int | None:
                return next(iter(self.heads)) if len(self.heads) > 1 else None

        class Fickle(Oldest):
            calls = 0

            def pick(self, now: int, core: int) -> int | None:
                self.calls += 1
                return min(self.heads) if self.calls % 2 else max(self.heads)

        self.broken(Lazy, "Lazy: 1 heads wait and none is picked")
        self.broken(Fickle, "asked again, the policy picks another client")

    def test_what_is_left_waiting_is_caught(self) -> None:
        class Never(hy.Share):
            def pick(self, now: int, core: int) -> int | None:
                return None

        self.broken(Never, "packets wait and no core is given them")

    def test_runs_that_share_what_they_know_are_caught(self) -> None:
        class Shared(Oldest):
            runs: ClassVar[list[int]] = []

            def start(self, config: SchedulerConfig) -> None:
                self.runs.append(1)
                self.later = len(self.runs) % 2 == 0

            def pick(self, now: int, core: int) -> int | None:
                return max(self.heads) if self.later else min(self.heads)

        self.broken(Shared, "decides otherwise")

    def test_cores_that_may_not_serve_are_told(self) -> None:
        class Far(Least):
            def steer(self, now: int, packet: Packet, view: View) -> int | None:
                return len(view.packets)

        self.broken(Far, "which may not serve the packet: these may: 0")

    def test_promises_are_held(self) -> None:
        class Sprays(hy.Steer):
            promises = ("flow_order",)

            def start(self, config: SchedulerConfig) -> None:
                self.sent = 0

            def steer(self, now: int, packet: Packet, view: View) -> int | None:
                self.sent += 1
                return view.eligible[self.sent % len(view.eligible)]

        self.broken(Sprays, "left out of the order of their flow")

    def test_services_without_cores_and_impossible_moves_are_told(self) -> None:
        class Hoards(hy.Allocate):
            def initial(self, cores: int, services: int) -> Sequence[int]:
                return [0] * cores

        class Restless(hy.Allocate):
            def reassign(self, now: int, cause: Cause, machine: Machine) -> tuple[int, int] | None:
                return 0, machine.core(0).service

        self.broken(Hoards, "Hoards.initial answered [0")
        self.broken(Restless, "and the core works for that service already")

    def test_estimates_of_nothing_are_told(self) -> None:
        class Nothing(Learns):
            def estimate(self, packet: Packet) -> int:
                return 0

        self.broken(Nothing, "Nothing.estimate answered 0, and a packet is work of 1 at least")

    def test_timers_that_stay_are_told(self) -> None:
        class Stuck(Batches):
            def on_timeout(self, now: int) -> None:
                pass

        self.broken(Stuck, "and was told of that time already")

    def test_unfair_policies_are_told(self) -> None:
        self.broken(Oldest, "is allowed", fair=3)

    def test_the_first_other_decision_is_told(self) -> None:
        self.broken(Oldest, "; `drr` serves packet ", like="drr")

    def test_a_broken_rule_comes_with_what_led_to_it(self) -> None:
        with self.assertRaises(AssertionError) as found:
            testing.check(Oldest, seeds=[], like="drr")
        self.assertIn(" cores, ", str(found.exception).splitlines()[1])

    def test_what_a_handler_raises_is_raised(self) -> None:
        class Fails(Oldest):
            def on_dispatch(self, now: int, core: int, client: int, sent: Packet) -> None:
                raise KeyError(client)

        class FailsToStart(Oldest):
            def start(self, config: SchedulerConfig) -> None:
                raise LookupError("no start")

        frames: list[str] = []
        try:
            testing.check(Fails)
        except KeyError as raised:
            frames = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
        self.assertEqual(frames[-1], "on_dispatch")
        with self.assertRaises(LookupError):
            testing.check(FailsToStart)

    def test_checks_of_a_policy_are_asked(self) -> None:
        class Doubts(Oldest):
            def check(self) -> None:
                assert len(self.heads) < 3, "too many heads"

        with self.assertRaisesRegex(AssertionError, "too many heads"):
            testing.check(Doubts)


BURSTS = "gen:imix:packets=2000,flows=12"


class Runs(unittest.TestCase):
    def test_a_policy_is_compared_with_ours(self) -> None:
        drr = example().Drr
        both = hy.compare(BURSTS, policies=["drr", drr, drr()], cores=2, load=0.95)
        ours, *own = both.runs
        self.assertEqual([run.policy for run in own], ["Drr", "Drr"])
        for run in own:
            for figure in ["packets", "delay_ns", "order", "fairness"]:
                self.assertEqual(run.document[figure], ours.document[figure])

    def test_the_journal_of_the_example_is_that_of_drr(self) -> None:
        drr = example().Drr
        pairs: list[tuple[policies.PolicyLike, str]] = [
            (drr, "drr"),
            (("hrw", drr), "hrw/drr"),
            (("static", drr), "static/drr"),
        ]
        with tempfile.TemporaryDirectory() as directory:
            journal = Path(directory) / "journal"

            def decisions(policy: policies.PolicyLike, seed: int) -> list[str]:
                hy.simulate(BURSTS, policy=policy, cores=3, seed=seed, load=0.95, journal=str(journal))
                return journal.read_text().splitlines()[1:]

            for seed in range(3):
                for own, ours in pairs:
                    expected = decisions(ours, seed)
                    self.assertGreater(len(expected), 6000)
                    self.assertEqual(decisions(own, seed), expected)

    def test_every_family_is_simulated(self) -> None:
        every: list[policies.PolicyLike] = [Oldest, Least, Batches, Fixed, Follows, (Learns, "sfq"), ("hrw", Oldest)]
        for policy in every:
            with self.subTest(policy=policy):
                runs = [
                    hy.simulate(
                        "gen:nyp:packets=2000", policy=policy, cores=4, load=0.5, services="tcp=forward,other=dpi"
                    )
                    for _ in range(2)
                ]
                self.assertEqual(runs[0].document["packets"]["processed"], 2000)
                for figure in ["delay_ns", "order", "fairness"]:
                    self.assertEqual(runs[0].document[figure], runs[1].document[figure])

    def test_what_a_handler_raises_ends_the_run(self) -> None:
        class Fails(Oldest):
            def on_dispatch(self, now: int, core: int, client: int, sent: Packet) -> None:
                if sent.sequence == 1000:
                    raise KeyError(sent.sequence)

        class Rash(Oldest):
            def pick(self, now: int, core: int) -> int | None:
                return 77

        failing: list[policies.PolicyLike] = [Fails, ("hrw", Fails)]
        for policy in failing:
            with self.assertRaisesRegex(KeyError, "1000"):
                hy.simulate(BURSTS, policy=policy)
        with self.assertRaisesRegex(ValueError, "^Rash.pick answered 77, which has no packet that may be served$"):
            hy.compare(BURSTS, policies=["drr", Rash])
        self.assertEqual(hy.simulate(BURSTS, policy=Oldest).document["packets"]["processed"], 2000)

    def test_who_never_serves_leaves_packets_held(self) -> None:
        class Never(hy.Share):
            def pick(self, now: int, core: int) -> int | None:
                return None

        class Holds(hy.Steer):
            def steer(self, now: int, packet: Packet, view: View) -> int | None:
                return None

        for policy in [Never, Holds]:
            packets = hy.simulate(BURSTS, policy=policy).document["packets"]
            self.assertEqual((packets["processed"], packets["held"] > 0), (0, True))

    def test_live_runs_refuse(self) -> None:
        with self.assertRaisesRegex(ValueError, "`Oldest` runs in virtual time alone, not on real threads"):
            hy.run(BURSTS, policy=Oldest)
        packets = hy.run(BURSTS, policy=Oldest, clock="virtual").document["packets"]
        self.assertEqual(packets["processed"], 2000)


PACKETS: dict[str, Any] = {"packets": 3000, "costs": "table:measured", "host": "ideal"}


class Searches(unittest.TestCase):
    """Policies of one's own where many simulations are made."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def table(self, name: str) -> bytes:
        return (self.directory / name / "runs.parquet").read_bytes()

    def plan(self, *own: policies.PolicyLike) -> dict[str, Any]:
        options = {"input": "gen:poisson:packets=300", "cores": 2}
        return {"options": options, "axes": {"policy": ["drr", *own], "load": [0.5, 0.9]}, "repeat": {"times": 2}}

    def test_a_sweep_has_policies_of_ones_own(self) -> None:
        drr = example().Drr
        done = hy.sweep(self.plan(drr, ("hrw", Oldest), Least()), out=self.directory / "here")
        self.assertEqual((done.runs, done.cells), (16, 8))
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
            hy.sweep(self.plan(Oldest, ("hrw", Oldest)), out=self.directory / "there", executor=executor)
            hy.sweep(self.plan(Oldest, ("hrw", Oldest)), out=self.directory / "same")
            self.assertEqual(self.table("there"), self.table("same"))

            class Local(Oldest):
                pass

            with self.assertRaisesRegex(ValueError, "does not travel to workers: define its class in a module"):
                hy.sweep(self.plan(Local), out=self.directory / "local", executor=executor)

    def test_a_sweep_goes_on_with_the_same_policies_alone(self) -> None:
        class Known(Oldest):
            def __init__(self, depth: int) -> None:
                self.depth = depth

        hy.sweep(self.plan(Known(1)), out=self.directory / "out")
        self.assertEqual(hy.sweep(self.plan(Known(1)), out=self.directory / "out").simulated, 0)
        with self.assertRaisesRegex(ValueError, "another sweep"):
            hy.sweep(self.plan(Known(2)), out=self.directory / "out")
        with self.assertRaisesRegex(ValueError, "two policies are called `Known`: give one of them another `name`"):
            hy.sweep(self.plan(Known(1), Known(2)), out=self.directory / "two")

    def test_what_a_handler_raises_ends_a_sweep_and_a_search(self) -> None:
        class Fails(Oldest):
            def pick(self, now: int, core: int) -> int | None:
                raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            hy.sweep(self.plan(Fails), out=self.directory / "out", threads=2)
        with self.assertRaisesRegex(KeyError, "mine"):
            hy.recommend(BURSTS, goal="p99<2ms", candidate=["drr", Fails], **PACKETS)
        with self.assertRaisesRegex(KeyError, "mine"):
            hy.schedule(policy=Fails, weights=[1, 2], slots=3)

    def test_a_policy_of_ones_own_is_recommended_beside_ours(self) -> None:
        choices: dict[str, Any] = {"goal": "p99<2ms", "load": 0.8, **PACKETS}
        advice = hy.recommend(BURSTS, candidate=[Oldest, "hrw", ("hrw", Oldest)], **choices)
        names = {"Oldest", "hrw", "steer=hrw/share=Oldest"}
        tried = {finalist["policy"] for finalist in advice.finalists}
        tried |= {name for finalist in advice.finalists for name in finalist["same_decisions"]}
        self.assertEqual((advice.search.candidates, tried), (3, names))
        self.assertEqual(advice.command is None, "Oldest" in advice.policy)
        alone = hy.recommend(BURSTS, candidate=[Oldest, "drr"], **{**choices, "goal": "p99<1ns"})
        self.assertEqual(alone.command is None, alone.policy == "Oldest")
        beside_all = hy.recommend(BURSTS, candidate=Oldest, **choices)
        ours = hy.recommend(BURSTS, **choices)
        self.assertEqual(beside_all.search.candidates, ours.search.candidates + 1)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
            there = hy.recommend(BURSTS, candidate=[Oldest, "hrw", ("hrw", Oldest)], **choices, executor=executor)
        self.assertEqual(there.document, advice.document)
        with self.assertRaisesRegex(ValueError, "verify: `Oldest` runs in virtual time alone"):
            hy.recommend(BURSTS, candidate=[Oldest, "hrw"], verify=True, **choices)

    def test_a_policy_of_ones_own_takes_over_is_shown_and_is_explained(self) -> None:
        drr = example().Drr
        swaps: dict[str, Any] = {"load": 0.9, "swap": {"10us": drr, "20us": "sfq"}}
        swapped = hy.simulate(BURSTS, policy="drr", **swaps)
        self.assertEqual(swapped.options.swap, "10us=Drr,20us=sfq")
        self.assertEqual(hy.compare(BURSTS, policies=["drr", "gr3"], **swaps).runs[0].delay_ns, swapped.delay_ns)
        shown = hy.schedule(policy=drr, weights=[2, 1], slots=6)
        self.assertEqual((shown.policy, shown.slots), ("Drr", hy.schedule(policy="drr", weights=[2, 1], slots=6).slots))
        told = hy.why(BURSTS, policy=("hrw", Oldest), load=0.9, packet=50).packet
        self.assertEqual(told.number, 50)
        self.assertTrue(any(said.startswith("`Oldest` ") for said in told.words.decided), told.words.decided)
        with self.assertRaisesRegex(ValueError, "`Oldest` runs in virtual time alone, not on real threads"):
            hy.validate(BURSTS, policy=["hrw", Oldest], workers=1, costs="table:measured", host="server-16")


class Refusals(unittest.TestCase):
    def refused(self, kind: type[Exception], policy: Any, words: str) -> None:  # noqa: ANN401
        with self.assertRaises(kind) as refusal:
            testing.check(policy)
        self.assertIn(words, str(refusal.exception))

    def test_what_is_no_policy_is_refused(self) -> None:
        class Both(Oldest, Least):  # type: ignore[misc]
            pass

        class Vows(Oldest):
            promises = ("work-conserving",)  # type: ignore[assignment]

        self.refused(TypeError, 7, "not `int`")
        self.refused(TypeError, Both, "`Both` is of several families")
        self.refused(ValueError, Vows, "no promise `work-conserving`; did you mean `work_conserving`?")
        self.refused(ValueError, "drr", "the checks are for one policy written in Python")
        self.refused(ValueError, (), "a tuple of policies names one at least")
        self.refused(hy.Refused, (Oldest, "drr"), "`Oldest` and `drr` are two share policies: name one")
        self.refused(hy.Refused, ("banana", Oldest), "no policy `banana`")

    def test_names_are_the_policys_or_the_class_s(self) -> None:
        class Named(Oldest):
            name: ClassVar[str | None] = "drr"

        self.refused(hy.Refused, Named, "a policy of your own cannot be called `drr`")

    def test_a_class_without_its_answer_cannot_be_made(self) -> None:
        class Empty(hy.Share):
            pass

        self.refused(TypeError, Empty, "pick")


if __name__ == "__main__":
    unittest.main()
