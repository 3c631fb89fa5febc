"""Policies of your own: base classes, and the values that their handlers get.

Derive a class from `Share`, `Steer`, `Allocate` or `Estimate`, and override the handlers that it needs. Give the class,
or an object of it, wherever a policy is named. An object is a prototype: each run, and each queue of a run, has a copy
of it, so runs do not see each other. A class is instantiated without arguments.

Times are in nanoseconds. Clients, flows, cores and services are numbers from 0. Work is in the unit of the run: bytes,
packets or nanoseconds. A handler that raises ends the run with its exception. A handler whose answer cannot be ends the
run with a ValueError. Live runs refuse policies written in Python.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Literal, Union

from ._humpyard import (
    Cause,
    CoreState,
    Machine,
    Packet,
    SchedulerConfig,
    ServiceConfig,
    ServiceState,
    View,
)

__all__ = [
    "Allocate",
    "Cause",
    "CoreState",
    "Estimate",
    "Machine",
    "Packet",
    "Policy",
    "PolicyLike",
    "Promise",
    "SchedulerConfig",
    "ServiceConfig",
    "ServiceState",
    "Share",
    "Steer",
    "View",
]

Promise = Union[  # noqa: PYI030 - an alias of one Literal is not what `stubtest` sees
    Literal["work_conserving"],
    Literal["flow_order"],
    Literal["minimal_disruption"],
    Literal["isolation"],
    Literal["served"],
]
"""What a policy may promise; `humpyard.testing.check` holds it to that."""


class Policy(abc.ABC):  # noqa: B024
    """Base of all policies: derive from `Share`, `Steer`, `Allocate` or `Estimate`.

    Attributes
    ----------
    name : str or None
        The name in results: letters, digits, hyphens and underscores. None: the name of the class.
    promises : sequence of str
        What the policy promises: `work_conserving`, `flow_order`, `minimal_disruption`, `isolation`, `served`.
    """

    name: ClassVar[str | None] = None
    promises: ClassVar[Sequence[Promise]] = ()

    def start(self, config: SchedulerConfig) -> None:  # noqa: B027
        """Prepare for a run, before its first packet.

        Parameters
        ----------
        config : SchedulerConfig
            Cores, clients with their weights, services, the longest packet and the unit of work.
        """

    def check(self) -> None:  # noqa: B027
        """Raise AssertionError if what the policy knows does not add up.

        `humpyard.testing.check` calls this after each event.
        """


class Share(Policy):
    """A sharing policy: it chooses the client that an idle core serves.

    A client wakes (`on_wake`): it was idle, and its first packet may be served. Then each packet brings `on_dispatch`
    and later `on_completion`, and between or after them `on_head` with the next packet. At last the client is idle
    (`on_idle`): it has no packet left, waiting or in service.

    Attributes
    ----------
    merges_clients : bool
        Whether the policy takes its queue as one client. Then all events name client 0.
    prefers_cores : bool
        Whether `pick` may answer None to one core and a client to another.
    heads : dict of int to Packet
        The oldest waiting packet of each client that may be served now, by client, in the order in which they became
        so. Its `estimate` is the work that the packet is believed to be, in the unit of the run. Kept up to date before
        each handler is called.
    weights : list of int
        The weight of each client, from 1: a client with weight 2 should get twice the service of one with weight 1.
        Kept up to date before each handler is called.
    """

    merges_clients: ClassVar[bool] = False
    prefers_cores: ClassVar[bool] = False
    heads: dict[int, Packet]
    weights: list[int]

    @abc.abstractmethod
    def pick(self, now: int, core: int) -> int | None:
        """Choose the client that a core serves now: called while `heads` is not empty.

        Asked again without an event between, answer the same.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core that has room.

        Returns
        -------
        int or None
            A client in `heads`. None: the core serves no packet now.
        """

    def place(self, now: int, idle: Sequence[int]) -> int:
        """Choose which of several cores that have room is asked first: by default the lowest.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        idle : sequence of int
            The cores that have room, ascending; two or more.

        Returns
        -------
        int
            One of these cores.
        """
        return idle[0]

    def on_arrival(self, now: int, client: int, packet: Packet, waiting: int) -> None:
        """Note that a packet has arrived.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        client : int
            Whose packet it is.
        packet : Packet
            The packet.
        waiting : int
            Packets of the client that wait before it.
        """

    def on_wake(self, now: int, client: int, head: Packet) -> None:
        """Note that a client was idle, and its first packet may be served.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        client : int
            The client.
        head : Packet
            Its first packet.
        """

    def on_head(self, now: int, client: int, head: Packet) -> None:
        """Note that the next packet of a client may be served.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        client : int
            The client, which was not idle.
        head : Packet
            Its next packet.
        """

    def on_dispatch(self, now: int, core: int, client: int, sent: Packet) -> None:
        """Note that a packet goes to a core; charge its estimate.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core that serves it.
        client : int
            The client, which was picked.
        sent : Packet
            The packet.
        """

    def on_completion(self, now: int, core: int, client: int, sent: Packet, used: int) -> None:
        """Note that a packet is done; settle what it used beyond its estimate.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core that served it.
        client : int
            Its client.
        sent : Packet
            The packet.
        used : int
            The work that it was, in the unit of the run.
        """

    def on_push_out(self, now: int, client: int, packet: Packet, waiting: int) -> None:
        """Note that the newest waiting packet of a client was dropped to make room, or is withheld.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        client : int
            The client.
        packet : Packet
            The packet that is gone.
        waiting : int
            Packets of the client that still wait.
        """

    def on_foreign_completion(self, now: int, core: int, client: int, sent: Packet, used: int) -> None:
        """Note that a packet is done that was in service when this policy took over.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core that served it.
        client : int
            Its client.
        sent : Packet
            The packet.
        used : int
            The work that it was, in the unit of the run.
        """

    def on_idle(self, now: int, client: int) -> None:
        """Note that a client has no packet left, waiting or in service.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        client : int
            The client.
        """

    def on_client_end(self, now: int, client: int) -> None:
        """Note that an idle client is gone: forget it.

        Its number may be used for another client, which inherits its weight alone.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        client : int
            The client.
        """

    def set_weight(self, now: int, client: int, weight: int) -> None:
        """Note that a client has another weight.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        client : int
            The client.
        weight : int
            Its weight from now on, from 1.
        """

    def explain(self, client: int) -> str | None:
        """Say in a sentence what the policy knows of a client now, for people.

        Parameters
        ----------
        client : int
            The client.

        Returns
        -------
        str or None
            The sentence. None: nothing to say.
        """
        return None


class Steer(Policy):
    """A steering policy: it chooses the core whose queue an arriving packet joins."""

    @abc.abstractmethod
    def steer(self, now: int, packet: Packet, view: View) -> int | None:
        """Choose the core whose queue a packet joins.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        packet : Packet
            The packet that arrives.
        view : View
            Packets and backlog of each core, and the cores that may serve this packet.

        Returns
        -------
        int or None
            One of `view.eligible`. None: the packet waits, with all behind it, until a completion or a timeout.
        """

    def on_enqueue(self, now: int, core: int, packet: Packet) -> None:
        """Note that a packet has joined the queue of a core.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core.
        packet : Packet
            The packet.
        """

    def on_drop(self, now: int, core: int, packet: Packet) -> None:
        """Note that a packet was dropped, because the queue it was steered to is full.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core it was steered to.
        packet : Packet
            The packet.
        """

    def on_push_out(self, now: int, core: int, packet: Packet) -> None:
        """Note that a packet was dropped from the queue of a core, to make room for another.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core.
        packet : Packet
            The packet that is gone.
        """

    def on_dispatch(self, now: int, core: int, packet: Packet) -> None:
        """Note that a core begins to serve a packet from its queue.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core.
        packet : Packet
            The packet.
        """

    def on_completion(self, now: int, core: int, packet: Packet, used: int) -> None:
        """Note that a core is done with a packet.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core.
        packet : Packet
            The packet.
        used : int
            The work that it was, in the unit of the run.
        """

    def on_flow_end(self, now: int, flow: int) -> None:
        """Note that a flow is over: forget it. Its number may be used for another.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        flow : int
            The flow, of which no packet is left.
        """

    def next_timeout(self) -> int | None:
        """Return when to call `on_timeout`. Asked after each event.

        Returns
        -------
        int or None
            The time, in nanoseconds. None: no timer is set.
        """
        return None

    def on_timeout(self, now: int) -> None:
        """Note that the time has come which `next_timeout` named.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        """

    def explain(self, packet: Packet, view: View) -> str | None:
        """Say in a sentence by what the policy would choose for a packet now, for people.

        Parameters
        ----------
        packet : Packet
            The packet.
        view : View
            What is known of the cores.

        Returns
        -------
        str or None
            The sentence. None: nothing to say.
        """
        return None


class Allocate(Policy):
    """An allocation policy: it chooses the service that each core works for.

    A policy that overrides `reassign` moves cores; then each service has one queue, and no policy steers.
    """

    def initial(self, cores: int, services: int) -> Sequence[int]:
        """Choose the service of each core at the start: by default in turn.

        Parameters
        ----------
        cores : int
            The number of cores.
        services : int
            The number of services, at most that of cores.

        Returns
        -------
        sequence of int
            A service for each core; each service has a core.
        """
        return [core % services for core in range(cores)]

    def reassign(self, now: int, cause: Cause, machine: Machine) -> tuple[int, int] | None:
        """Choose a core that moves to another service.

        Called again, with the move made, until the answer is None.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        cause : Cause
            What happened: a packet has arrived, a core is done with a packet or idle, or a timeout.
        machine : Machine
            What each core does, and what waits for each service.

        Returns
        -------
        tuple of int or None
            A movable core and its new service. None: no core moves.
        """
        return None

    def place(self, service: int, idle: Sequence[int], machine: Machine) -> int:
        """Choose which idle core of a service takes its next packet: by default the lowest.

        Parameters
        ----------
        service : int
            The service.
        idle : sequence of int
            Its idle cores, ascending; one at least.
        machine : Machine
            What each core does, and what waits for each service.

        Returns
        -------
        int
            One of these cores.
        """
        return idle[0]

    def on_arrival(self, now: int, service: int) -> None:
        """Note that a packet of a service has arrived.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        service : int
            The service.
        """

    def on_completion(self, now: int, core: int, service: int, delay: int) -> None:
        """Note that a core is done with a packet.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        core : int
            The core.
        service : int
            The service of the packet.
        delay : int
            The time since it arrived at the service, in nanoseconds.
        """

    def next_timeout(self) -> int | None:
        """Return when to call `on_timeout`. Asked after each event.

        Returns
        -------
        int or None
            The time, in nanoseconds. None: no timer is set.
        """
        return None

    def on_timeout(self, now: int) -> None:
        """Note that the time has come which `next_timeout` named.

        Parameters
        ----------
        now : int
            The time, in nanoseconds.
        """


class Estimate(Policy):
    """An estimator: it says what a packet is believed to cost."""

    @abc.abstractmethod
    def estimate(self, packet: Packet) -> int:
        """Estimate the work of a packet.

        Asked again without a completion between, answer the same.

        Parameters
        ----------
        packet : Packet
            The packet. Its own `estimate` is the work that it will be, where the run knows that beforehand.

        Returns
        -------
        int
            The work, in the unit of the run, from 1.
        """

    def on_completion(self, packet: Packet, used: int, cold: bool) -> None:
        """Learn what a packet cost.

        Parameters
        ----------
        packet : Packet
            The packet, with its estimate.
        used : int
            The work that it was, in the unit of the run.
        cold : bool
            Whether the previous packet of the core had another service.
        """


PolicyLike = Union[str, Policy, type[Policy], tuple[Union[str, Policy, type[Policy]], ...]]
"""What names policies: a name, a policy of your own or its class, or a tuple of these, one of a family."""
