"""Scheduling policies that share many cores among packets: in a simulator, on real threads, in your program."""

from . import policies, testing
from ._calls import admit, compare, recommend, reproduce, run, schedule, simulate, sweep, validate, why
from ._humpyard import Dispatch, Dropped, Frame, Refused, Scheduler, Service, Switch, __version__
from .policies import Allocate, Estimate, Share, Steer
from .results import Comparison, Document, RunResult

__all__ = [
    "Allocate",
    "Comparison",
    "Dispatch",
    "Document",
    "Dropped",
    "Estimate",
    "Frame",
    "Refused",
    "RunResult",
    "Scheduler",
    "Service",
    "Share",
    "Steer",
    "Switch",
    "__version__",
    "admit",
    "compare",
    "policies",
    "recommend",
    "reproduce",
    "run",
    "schedule",
    "simulate",
    "sweep",
    "testing",
    "validate",
    "why",
]
