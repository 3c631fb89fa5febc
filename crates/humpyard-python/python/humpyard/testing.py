"""Checks for policies of your own: the conformance suite that humpyard's policies pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _humpyard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .policies import PolicyLike

__all__ = ["check"]


def check(
    policy: PolicyLike,
    *,
    seeds: Iterable[int] = range(20),
    fair: float | None = None,
    like: str | None = None,
) -> None:
    """Hold a policy to the contract of its family and to its promises.

    The suite plays small scenarios and random histories to the policy, alone and with partners, each three times: every
    answer is looked at, every packet accounted for, and the same events must give the same decisions.

    Parameters
    ----------
    policy : Policy, type or tuple
        The policy: an object, a class, or a tuple of it and the names of its partners.
    seeds : iterable of int
        The random histories, one for each seed.
    fair : float, optional
        For sharing policies: the most that the service of two clients with packets may differ, each divided by its
        weight, in longest packets. The suite also holds each client to its fluid share in the long run.
    like : str, optional
        The name of a policy of humpyard that must decide the same, such as ``drr``.

    Raises
    ------
    AssertionError
        The first rule that the policy breaks, in words, with the shortest history that was found.
    Exception
        What a handler of the policy raises.

    Examples
    --------
    >>> import humpyard as hy
    >>> class Oldest(hy.Share):
    ...     promises = ("work_conserving",)
    ...     def pick(self, now, core):
    ...         return next(iter(self.heads))
    >>> hy.testing.check(Oldest)
    """
    broken = _humpyard.check_policy(policy, list(seeds), fair, like)
    if broken is not None:
        raise AssertionError(broken)
