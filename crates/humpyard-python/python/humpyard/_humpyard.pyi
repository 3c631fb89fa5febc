"""Scheduling policies that share many cores among packets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, final

from typing_extensions import TypeAlias

__all__ = [
    "Cause",
    "CoreState",
    "Dispatch",
    "Dropped",
    "Frame",
    "Machine",
    "Packet",
    "Record",
    "Refused",
    "Scheduler",
    "SchedulerConfig",
    "Service",
    "ServiceConfig",
    "ServiceState",
    "Sweep",
    "Switch",
    "View",
    "__version__",
    "check_policy",
    "command",
    "compare",
    "compare_check",
    "compare_document",
    "compare_run",
    "options",
    "policy_text",
    "recommend_trials",
    "reproduce_keep",
    "reproduce_part",
    "reproduce_parts",
    "run",
    "simulate_cells",
]

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

@final
class Packet:
    """A packet as policies see it, without its bytes.

    `estimate` is the work that it is believed to be, in the unit of the run: bytes, packets or nanoseconds. `arrival`
    is when it came to its present service, and `entered` when it came in, in nanoseconds.
    """

    @property
    def arrival(self) -> int: ...
    @property
    def entered(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def key(self) -> int: ...
    @property
    def rss(self) -> int: ...
    @property
    def estimate(self) -> int: ...
    @property
    def flow(self) -> int: ...
    @property
    def client(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def service(self) -> int: ...
    @property
    def hop(self) -> int: ...
    @property
    def part(self) -> Literal["whole", "first", "middle", "last"]: ...
    @property
    def changes_connection(self) -> bool: ...

@final
class View:
    """What a steering policy may know of the cores."""

    @property
    def as_of(self) -> int: ...
    @property
    def packets(self) -> tuple[int, ...]: ...
    @property
    def backlog(self) -> tuple[int, ...]: ...
    @property
    def eligible(self) -> tuple[int, ...]: ...

@final
class ServiceConfig:
    """What a service is, as policies know it."""

    @property
    def name(self) -> str: ...
    @property
    def packet_time(self) -> int: ...
    @property
    def switch_cost(self) -> int: ...
    @property
    def tolerance(self) -> int | None: ...
    @property
    def guarantee(self) -> float: ...

@final
class SchedulerConfig:
    """The run that a policy is made for."""

    @property
    def cores(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def flows(self) -> int: ...
    @property
    def packets(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def weights(self) -> list[int]: ...
    @property
    def speeds(self) -> list[float]: ...
    @property
    def unit(self) -> Literal["bytes", "packets", "ns"]: ...
    @property
    def longest(self) -> int: ...
    @property
    def services(self) -> list[ServiceConfig]: ...
    @property
    def seed(self) -> int: ...

@final
class CoreState:
    """What an allocation policy knows of a core."""

    @property
    def service(self) -> int: ...
    @property
    def activity(self) -> Literal["idle", "busy", "switching"]: ...
    @property
    def since(self) -> int | None: ...
    @property
    def held_since(self) -> int: ...
    @property
    def is_movable(self) -> bool: ...

@final
class ServiceState:
    """What an allocation policy knows of a service."""

    @property
    def waiting(self) -> int: ...
    @property
    def oldest(self) -> int | None: ...
    @property
    def cores(self) -> int: ...
    @property
    def idle(self) -> int: ...
    @property
    def backlog(self) -> int: ...

@final
class Machine:
    """What an allocation policy knows of the machine."""

    @property
    def cores(self) -> list[CoreState]: ...
    @property
    def services(self) -> list[ServiceState]: ...
    def core(self, core: int) -> CoreState: ...
    def service(self, service: int) -> ServiceState: ...
    def idle(self, service: int) -> list[int]: ...
    def held(self, service: int) -> list[int]: ...
    def keeps(self, core: int, service: int) -> bool: ...

@final
class Cause:
    """What happened that cores might move for."""

    @property
    def kind(self) -> Literal["arrival", "completion", "idle", "timeout"]: ...
    @property
    def service(self) -> int | None: ...
    @property
    def core(self) -> int | None: ...

def check_policy(policy: object, seeds: Sequence[int], fair: float | None, like: str | None) -> str | None: ...
def policy_text(policy: object) -> str:
    """Return the text by which options name policies, those written in Python among them."""

@final
class Frame:
    """A table for whatever speaks the Arrow PyCapsule protocol: pandas, polars, pyarrow, DuckDB."""

    @staticmethod
    def from_columns(columns: Mapping[str, Sequence[Any]]) -> Frame:
        """Make a table of columns that are lists of numbers, texts or truth values, with None for a missing value."""
    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
    def __len__(self) -> int:
        """Return the number of rows."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the table as an Arrow stream. The schema that is asked for is not heeded, as the protocol allows."""

@final
class Record:
    """What became of each packet of a run."""

    def packets(self) -> Frame:
        """Return a row for each packet, in the order of arrival."""
    def clients(self) -> Frame:
        """Return a row for each client, by its number."""
    def timeline(self) -> Frame:
        """Return a row for each packet that a core served and for each switch to another service, by core and time."""

_Options: TypeAlias = tuple[Sequence[tuple[str, Sequence[str]]], Sequence[object]]
_Own: TypeAlias = tuple[Sequence[object], str]
"""Policies written in Python that options name, and what tells them from others of their names."""
_Progress: TypeAlias = Callable[[int, float | None, str], object] | None

def run(
    policy: object,
    cores: int,
    seed: int,
    options: _Options,
    table: object | None,
    is_live: bool,
    record: bool,
    progress: _Progress,
) -> tuple[str, Record | None, list[str]]:
    """Do one run: its document, the fate of its packets, and its warnings."""

def compare(
    policies: Sequence[object],
    cores: int,
    seed: int,
    repeat: int,
    options: _Options,
    table: object | None,
    is_live: bool,
    progress: _Progress,
) -> tuple[str, Record | None, list[str]]:
    """Do runs of several policies: their document, and what there is to warn of."""

def command(
    words: Sequence[str],
    progress: _Progress,
    workers: Callable[[list[str]], Iterator[tuple[int, list[float], list[str]] | None]] | None = None,
    table: object | None = None,
    own: _Own = ...,
) -> tuple[str, list[str], bool]:
    """Do a command, by its words behind `humpyard`: its document, its remarks, and whether all checks held."""

def options(command: str) -> list[tuple[str, str]]:
    """Return the options of a command, each as a keyword with its help."""

_Runs: TypeAlias = list[tuple[int, int, list[float]]]

@final
class Sweep:
    """A sweep that is not done: it knows which simulations are missing, and keeps those that come."""

    def __new__(cls, file: str, text: str, out: str, own: _Own) -> Sweep:
        """Begin the sweep of a plan, or go on with it, in a directory. Errors name the plan as this file."""
    @property
    def done(self) -> str | None:
        """The document of a sweep that an earlier call has done. None: something is missing."""
    @property
    def files(self) -> dict[str, str]:
        """The files that options name, with their SHA-256."""
    @property
    def kept(self) -> int:
        """How many simulations are kept."""
    def missing(self) -> list[tuple[int, int]]:
        """Return the cells and repetitions that are to be simulated next."""
    def keep(self, runs: _Runs) -> None:
        """Keep simulations: each one's cell, repetition and figures."""
    def finish(self) -> str:
        """Write the dataset and its manifest, and return the document of the sweep."""
    def give_up(self) -> None:
        """Leave no file behind if nothing was kept."""

def simulate_cells(
    sweep: str,
    file: tuple[str, str],
    own: Sequence[object],
    cells: Sequence[tuple[int, int]],
    places: Mapping[str, str],
) -> _Runs:
    """Simulate cells of a plan, whose files are at these places here: each one's cell, repetition and figures.

    Cells of the same sweep name it alike. `own` are the policies written in Python that the plan names.
    """

_ComparedRun: TypeAlias = tuple[str, str, list[float], list[str]]

def compare_check(policies: Sequence[object], cores: int, seed: int, options: _Options) -> None:
    """Check a comparison before it is begun."""

def compare_run(
    policy: object,
    cores: int,
    seed: int,
    options: _Options,
    places: Mapping[str, str],
) -> _ComparedRun:
    """Make one run of a comparison: its document, its policies as text, its headline figures, and remarks."""

def compare_document(runs: Sequence[_ComparedRun], policies: int, repeat: int) -> str:
    """Return the document of a comparison, from its runs in order: all policies, then the next repetition."""

def reproduce_parts(
    names: Sequence[str], is_full: bool, seed: int, out: str | PathLike[str] | None
) -> list[tuple[str, int]]:
    """Return the parts of experiments that workers may run: each one's experiment and number."""

def reproduce_part(name: str, part: int, is_full: bool, seed: int) -> str | None:
    """Run a part of an experiment. None: something keeps it from that, which the reproduction will say."""

def reproduce_keep(
    names: Sequence[str],
    is_full: bool,
    seed: int,
    out: str | PathLike[str] | None,
    part: tuple[str, int],
    text: str,
) -> None:
    """Keep a part that a worker has run."""

def recommend_trials(
    search: str, words: Sequence[str], own: Sequence[object], trials: Sequence[str]
) -> list[tuple[list[float], list[str]]]:
    """Make trials of `recommend`, by the words of the command: the figures and scopes of each.

    Trials of the same search name it alike. `own` are the policies written in Python that the words name.
    """
