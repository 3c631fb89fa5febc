"""Scheduling policies that share many cores among packets."""

from ._humpyard import Dispatch, Dropped, Refused, Scheduler, Service, Switch, __version__

__all__ = ["Dispatch", "Dropped", "Refused", "Scheduler", "Service", "Switch", "__version__"]
