"""Scheduling policies that share many cores among packets: in a simulator, on real threads, in your program."""

from ._calls import admit, compare, recommend, reproduce, run, schedule, simulate, sweep, validate
from ._humpyard import Dispatch, Dropped, Frame, Refused, Scheduler, Service, Switch, __version__
from .results import Comparison, Document, RunResult

__all__ = [
    "Comparison",
    "Dispatch",
    "Document",
    "Dropped",
    "Frame",
    "Refused",
    "RunResult",
    "Scheduler",
    "Service",
    "Switch",
    "__version__",
    "admit",
    "compare",
    "recommend",
    "reproduce",
    "run",
    "schedule",
    "simulate",
    "sweep",
    "validate",
]
