"""Scheduling policies that share many cores among packets."""

from collections.abc import Sequence
from typing import Literal, final

__all__ = ["Dispatch", "Dropped", "Refused", "Scheduler", "Service", "Switch", "__version__"]

__version__: str

class Dropped(Exception):
    """An arriving packet was dropped. The argument is the reason: buffer_full, queue_full or client_full."""

class Refused(ValueError):
    """A call was refused, and has changed nothing. `kind` says why to programs."""

    kind: Literal[
        "unknown_policy",
        "unknown_parameter",
        "syntax",
        "bad_value",
        "combination",
        "too_large",
        "set_up",
        "argument",
        "order",
    ]

@final
class Service:
    """What is known of a service."""

    def __new__(
        cls,
        *,
        packet_time_ns: int = 0,
        switch_cost_ns: int = 0,
        tolerance_ns: int | None = None,
        guarantee_millionths: int = 0,
        fixed: int = 0,
        per_byte_milli: int = 0,
        cold: int = 0,
    ) -> Service: ...

@final
class Dispatch:
    """A packet to be served."""

    @property
    def slot(self) -> int: ...
    @property
    def flow(self) -> int: ...
    @property
    def client(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def key(self) -> int: ...
    @property
    def rss(self) -> int: ...
    @property
    def service(self) -> int: ...
    @property
    def part(self) -> Literal["whole", "first", "middle", "last"]: ...
    @property
    def changes_connection(self) -> bool: ...
    @property
    def estimate(self) -> int: ...
    @property
    def arrival(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def cold(self) -> bool: ...

@final
class Switch:
    """A core that goes over to another service."""

    @property
    def core(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def cost(self) -> int: ...

@final
class Scheduler:
    """Packets, their queues, and the policies that order them."""

    def __new__(
        cls,
        policy: str,
        *,
        cores: int = 1,
        contexts: int = 1,
        speeds: Sequence[int] | None = None,
        topology: str | None = None,
        clients: int | None = None,
        flows: int = 1,
        packets: int = 1024,
        weights: Sequence[int] | None = None,
        unit: Literal["bytes", "packets", "ns"] = "bytes",
        longest: int = 1514,
        services: Sequence[Service] | None = None,
        services_per_core: int = 1,
        queue_limit: int | None = None,
        client_limit: int | None = None,
        free_order: bool = False,
        ties: Literal["lowest", "highest"] = "lowest",
        in_flight: int = 1,
        seed: int = 1,
    ) -> Scheduler: ...
    def arrive(
        self,
        now: int,
        *,
        client: int = 0,
        flow: int = 0,
        key: int = 0,
        length: int = 0,
        rss: int = 0,
        service: int = 0,
        estimate: int = 0,
        part: Literal["whole", "first", "middle", "last"] = "whole",
        changes_connection: bool = False,
    ) -> int: ...
    def next_core(self, now: int) -> int | None: ...
    def next(self, now: int, core: int) -> Dispatch | None: ...
    def complete(self, now: int, slot: int, busy: int = 0) -> int: ...
    def set_weight(self, now: int, client: int, weight: int) -> None: ...
    def end_client(self, now: int, client: int) -> None: ...
    def end_flow(self, now: int, flow: int) -> None: ...
    def next_timeout(self) -> int | None: ...
    def on_timeout(self, now: int) -> None: ...
    def next_switch(self) -> Switch | None: ...
    def switched(self, now: int, core: int) -> None: ...
    def account(self) -> dict[str, int]: ...
