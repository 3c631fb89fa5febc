"""Scheduling policies that share many cores among packets."""

from . import policies, testing
from ._humpyard import Dispatch, Dropped, Refused, Scheduler, Service, Switch, __version__
from .policies import Allocate, Estimate, Share, Steer

__all__ = [
    "Allocate",
    "Dispatch",
    "Dropped",
    "Estimate",
    "Refused",
    "Scheduler",
    "Service",
    "Share",
    "Steer",
    "Switch",
    "__version__",
    "policies",
    "testing",
]
