"""The module as Python sees it: what it answers, and what it refuses."""

import threading
import unittest
from collections.abc import Callable

import humpyard
from humpyard import Dropped, Refused, Scheduler, Service


class Answers(unittest.TestCase):
    def test_a_packet_comes_is_served_and_accounted_for(self) -> None:
        scheduler = Scheduler("gr3", weights=[3, 1], flows=2)
        slot = scheduler.arrive(5, client=1, flow=1, length=500, key=9, part="last")
        self.assertEqual(scheduler.next_core(6), 0)
        dispatch = scheduler.next(6, 0)
        assert dispatch is not None
        self.assertEqual((dispatch.slot, dispatch.client, dispatch.flow, dispatch.length), (slot, 1, 1, 500))
        self.assertEqual((dispatch.key, dispatch.part, dispatch.arrival, dispatch.estimate), (9, "last", 5, 500))
        self.assertEqual((dispatch.sequence, dispatch.service, dispatch.rss, dispatch.cold), (0, 0, 0, True))
        self.assertEqual(repr(dispatch), f"<Dispatch slot={slot} flow=1 client=1 length=500>")
        self.assertIsNone(scheduler.next(6, 0))
        self.assertEqual(scheduler.complete(7, slot), 500)
        dropped = {"buffer_full": 0, "queue_full": 0, "client_full": 0, "pushed_out": 0}
        counts = {"arrived": 1, "processed": 1, "held": 0, **dropped}
        self.assertEqual(scheduler.account(), counts)
        scheduler.end_client(8, 1)
        scheduler.end_flow(8, 1)
        scheduler.set_weight(8, 1, 7)
        self.assertIsNone(scheduler.next_timeout())
        scheduler.on_timeout(9)
        self.assertEqual(repr(scheduler), "<Scheduler gr3>")

    def test_without_room_a_packet_is_dropped_for_a_reason(self) -> None:
        scheduler = Scheduler("drr", clients=2, queue_limit=3, client_limit=2)
        reasons = []
        for client in [0, 0, 0, 1, 1]:
            try:
                scheduler.arrive(0, client=client, length=100)
            except Dropped as dropped:
                reasons.append(dropped.args)
        self.assertEqual(reasons, [("client_full",), ("queue_full",)])
        self.assertEqual(scheduler.account()["held"], 3)

    def test_packets_that_change_a_connection_are_told_of(self) -> None:
        scheduler = Scheduler("sprayer", cores=4)

        def core(changes_connection: bool) -> int:
            scheduler.arrive(0, key=9, changes_connection=changes_connection)
            core = scheduler.next_core(0)
            assert core is not None
            dispatch = scheduler.next(0, core)
            assert dispatch is not None
            self.assertEqual(dispatch.changes_connection, changes_connection)
            scheduler.complete(0, dispatch.slot)
            return core

        self.assertEqual(len({core(True) for _ in range(4)}), 1)
        self.assertEqual([core(False) for _ in range(4)], [0, 1, 2, 3])

    def test_work_in_nanoseconds_is_what_it_took(self) -> None:
        scheduler = Scheduler("sfq", unit="ns")
        slot = scheduler.arrive(0, length=100)
        scheduler.next(0, 0)
        self.assertEqual(scheduler.complete(70, slot, busy=70), 70)

    def test_cores_go_over_to_the_service_that_needs_them(self) -> None:
        service = Service(
            packet_time_ns=1000,
            switch_cost_ns=700,
            tolerance_ns=10_000,
            guarantee_millionths=500_000,
            fixed=1000,
        )
        scheduler = Scheduler("everest", cores=4, services=[service, service], unit="ns")
        switches = []
        for now in range(100):
            scheduler.arrive(now, service=1, length=100)
            while switch := scheduler.next_switch():
                switches.append(switch)
        self.assertTrue(switches)
        self.assertEqual({(switch.to, switch.cost) for switch in switches}, {(1, 700)})
        core = switches[0].core
        self.assertIsNone(scheduler.next(100, core))
        scheduler.switched(800, core)
        self.assertIsNotNone(scheduler.next(800, core))

    def test_a_core_that_keeps_the_code_of_both_services_goes_over_but_once(self) -> None:
        service = Service(packet_time_ns=1000, switch_cost_ns=700, tolerance_ns=5000, fixed=1000)

        def switches(services_per_core: int) -> int:
            scheduler = Scheduler(
                "cohort",
                cores=2,
                services=[service, service],
                services_per_core=services_per_core,
                packets=64,
                unit="ns",
            )
            now, found = 0, 0
            for turn in range(10):
                for _ in range(8):
                    scheduler.arrive(now, service=turn % 2, length=100)
                while scheduler.account()["held"]:
                    while switch := scheduler.next_switch():
                        found += switch.cost > 0
                        now += switch.cost
                        scheduler.switched(now, switch.core)
                    for core in range(2):
                        if dispatch := scheduler.next(now, core):
                            now += 1000
                            scheduler.complete(now, dispatch.slot, busy=1000)
            return found

        self.assertGreater(switches(1), 5)
        self.assertLessEqual(switches(2), 2)

    def test_threads_take_turns(self) -> None:
        scheduler = Scheduler("fcfs", packets=4000)

        def arrive() -> None:
            for _ in range(1000):
                scheduler.arrive(0, length=100)

        threads = [threading.Thread(target=arrive) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(scheduler.account()["held"], 4000)

    def test_everything_has_a_docstring(self) -> None:
        types = [Dropped, Refused, Scheduler, Service, humpyard.Dispatch]
        for item in [humpyard, *types, Scheduler.arrive, Scheduler.account]:
            self.assertTrue(item.__doc__)


class Refusals(unittest.TestCase):
    def refused(self, kind: str, words: str, policy: str = "gr3", **arguments: object) -> None:
        with self.assertRaises(Refused) as refusal:
            Scheduler(policy, **arguments)  # type: ignore[arg-type]
        self.assertEqual((refusal.exception.kind, str(refusal.exception)), (kind, words))

    def test_a_scheduler_that_cannot_be_says_why(self) -> None:
        words = "gr3: no parameter `quant`; did you mean `quantum`? There are: quantum"
        self.refused("unknown_parameter", words, policy="gr3:quant=3")
        self.refused("set_up", "a weight is from 1, not 0", weights=[1, 0])
        self.refused("set_up", "2 weights for 1 clients", weights=[1, 2], clients=1)
        self.refused("set_up", "there may be 1 to 65535 cores, not 0", cores=0)
        self.refused("argument", "no unit `byte`; did you mean `bytes`? There are: bytes, packets, ns", unit="byte")
        self.refused("set_up", "a core keeps the code of one service or more, not of 0", services_per_core=0)
        self.refused("set_up", "the topology has 4 cores, the run 1", topology="2x2")
        self.refused("syntax", "`drr/gr3` names two share policies: name one", policy="drr/gr3")
        reason = "an allocation that moves cores needs one queue per service"
        words = f"{reason}: it cannot be combined with a steering policy"
        self.refused("combination", words, policy="allocate=everest/steer=hrw")

    def test_an_unknown_policy_or_value_has_a_kind(self) -> None:
        for policy, kind in {"banana": "unknown_policy", "drr:quantum=none": "bad_value"}.items():
            with self.assertRaises(Refused) as refusal:
                Scheduler(policy)
            self.assertEqual(refusal.exception.kind, kind)

    def test_a_call_that_cannot_be_says_why_and_changes_nothing(self) -> None:
        scheduler = Scheduler("gr3", clients=3)
        slot = scheduler.arrive(10, client=2, length=100)
        before = scheduler.account()
        calls: dict[str, Callable[[], object]] = {
            "no client 3: there are 3, numbered from 0": lambda: scheduler.arrive(10, client=3),
            "no flow 1: there are 1, numbered from 0": lambda: scheduler.end_flow(10, 1),
            "no core 1: there are 1, numbered from 0": lambda: scheduler.next(10, 1),
            "time goes back from 10 ns to 9 ns": lambda: scheduler.next_core(9),
            f"slot {slot} has no packet in service": lambda: scheduler.complete(10, slot),
            "client 2 cannot end: 1 of its packets are here": lambda: scheduler.end_client(10, 2),
            "core 0 is not switching": lambda: scheduler.switched(10, 0),
            "a weight is from 1, not 0": lambda: scheduler.set_weight(10, 0, 0),
        }
        for words, call in calls.items():
            with self.assertRaises(Refused) as refusal:
                call()
            self.assertEqual(str(refusal.exception), words)
            self.assertIn(refusal.exception.kind, ["argument", "order"])
        self.assertEqual(scheduler.account(), before)

    def test_an_int_that_does_not_fit_is_an_overflow(self) -> None:
        scheduler = Scheduler("gr3")
        for client in [-1, 1 << 32]:
            with self.assertRaises(OverflowError):
                scheduler.arrive(0, client=client)


if __name__ == "__main__":
    unittest.main()
