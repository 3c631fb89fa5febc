"""Policies written in Python among options, which have their names: they travel beside them."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Mapping

from . import _humpyard
from .policies import Policy, PolicyLike


class OwnPolicies:
    """Policies that options name.

    Attributes
    ----------
    by_text : dict of str to policy
        The policies, by their names in options.

    """

    def __init__(self) -> None:
        self.by_text: dict[str, PolicyLike] = {}

    def named(self, value: object) -> object:
        """Return a value with the names of policies instead of these, which are kept.

        Parameters
        ----------
        value : object
            The value of an option, or of a plan, with whatever it holds.

        Returns
        -------
        object
            The same value where it holds no policy written in Python.

        Raises
        ------
        ValueError
            If two policies have the same name.

        """
        if _is_policy(value):
            return self._keep(value)
        if isinstance(value, Mapping):
            return {name: self.named(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.named(one) for one in value]
        return value

    def policy(self, value: object) -> object:
        """Return the name of policies, which are kept: of a tuple always, as `simulate` takes them.

        Parameters
        ----------
        value : object
            What names policies.

        Returns
        -------
        object
            The same value where it is no tuple and no policy written in Python.

        Raises
        ------
        ValueError
            If two policies have the same name.

        """
        return self._keep(value) if isinstance(value, tuple) else self.named(value)

    def _keep(self, policy: object) -> str:
        text = _humpyard.policy_text(policy)
        known = self.by_text.setdefault(text, policy)  # type: ignore[arg-type]
        if known is not policy and known != policy:
            raise ValueError(f"two policies are called `{text}`: give one of them another `name`")
        return text

    def all(self) -> list[PolicyLike]:
        """Return the policies."""
        return list(self.by_text.values())

    def code(self) -> str:
        """Return what tells the policies from others of their names: a hash of their classes and their state."""
        if not self.by_text:
            return ""
        found = hashlib.sha256()
        for policy in self.by_text.values():
            for part in policy if isinstance(policy, tuple) else (policy,):
                found.update(_source(part) + _state(part))
        return found.hexdigest()


def _is_policy(value: object) -> bool:
    """Whether a value is a policy written in Python, or policies among which one is."""
    if isinstance(value, tuple):
        return any(_is_policy(one) for one in value)
    return isinstance(value, Policy) or (isinstance(value, type) and issubclass(value, Policy))


def _source(policy: object) -> bytes:
    """Return the text of a policy's class; where it is in no file, its name."""
    if isinstance(policy, str):
        return policy.encode()
    kind = policy if isinstance(policy, type) else type(policy)
    try:
        return inspect.getsource(kind).encode()
    except (OSError, TypeError):
        return kind.__qualname__.encode()


def _state(policy: object) -> bytes:
    """Return the state of an object; nothing where it cannot be written."""
    if isinstance(policy, (str, type)):
        return b""
    try:
        return pickle.dumps(sorted(vars(policy).items()), protocol=4)
    except Exception:
        return b""
