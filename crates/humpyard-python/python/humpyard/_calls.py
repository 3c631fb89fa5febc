"""Runs of the laboratory, with the options of the command line as keyword arguments."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Union

from . import _cells, _humpyard
from ._own import OwnPolicies
from .results import Comparison, Document, RunResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import Unpack

    from ._options import CompareOptions, RunOptions, SimulateOptions
    from .policies import PolicyLike

Progress = Callable[[int, Union[float, None], str], object]


def simulate(
    input: object,
    *,
    policy: PolicyLike,
    cores: int = 2,
    seed: int = 1,
    record: bool = False,
    progress: Progress | None = None,
    **options: Unpack[SimulateOptions],
) -> RunResult:
    """Run packets in virtual time, on cores whose work is a cost model.

    Parameters
    ----------
    input : str, path, list of these, or table
        A capture, ``gen:PROFILE:name=value,...``, or a table of packets: anything that speaks the Arrow PyCapsule
        protocol (polars, pandas, pyarrow, DuckDB), or a dict of columns. Its columns are ``time`` (ns, or seconds as
        floats, or timestamps), ``length`` (bytes on the wire), ``flow`` (numbers or names) or the five ``source``,
        ``destination``, ``source_port``, ``destination_port`` and ``protocol``, and with ``flow`` perhaps ``service``.
    policy : str, Policy, type or tuple
        The policies: ``NAME``, ``NAME:name=value,...`` or ``steer=NAME/share=NAME``; a policy of your own, or its
        class; or a tuple of these, one of a family: ``("hrw", MyShare)``.
    cores : int
        Simulated cores.
    seed : int
        Seed of all randomness.
    record : bool
        Keep what became of each packet, for ``packets``, ``clients`` and ``timeline`` of the result: about 60 bytes
        for each packet.
    progress : callable, optional
        Called about 20 times a second with the packets so far, the part of the input that is read (0 to 1, or None),
        and what is counted.
    **options
        The options of ``humpyard sim``, with ``_`` for ``-``: ``load=0.9``, ``services="dpi"``,
        ``tolerance={"tcp": "2ms"}``, ``weights=[3, 1]``.

    Returns
    -------
    RunResult
        The document of the run.

    Raises
    ------
    ValueError
        If an option or the input is wrong; the text says what to do.
    Exception
        What a handler of a policy of your own raises.

    Examples
    --------
    >>> import humpyard as hy
    >>> result = hy.simulate("gen:poisson:packets=1000,flows=10", policy="drr", cores=2, load=0.5)
    >>> result.policy, result.document["packets"]["in"]
    ('drr', 1000)

    """
    return _run(input, policy, cores, seed, record, progress, options, is_live=False)


def run(
    input: object,
    *,
    policy: PolicyLike,
    workers: int = 2,
    seed: int = 1,
    record: bool = False,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run packets through real services on real threads.

    Parameters
    ----------
    input : str, path, list of these, or table
        As of `simulate`, and interfaces (``iface:NAME``), for which the process needs privileges.
    policy : str
        The policies, as of `simulate`.
    workers : int
        Worker threads; 0 does everything on one thread.
    seed : int
        Seed of all randomness.
    record : bool
        Keep what became of each packet, as of `simulate`.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard run``, with ``_`` for ``-``.

    Returns
    -------
    RunResult
        The document of the run.

    Raises
    ------
    ValueError
        If an option or the input is wrong; the text says what to do.

    Examples
    --------
    >>> import humpyard as hy
    >>> result = hy.run("gen:mit:packets=500", policy="hrw", workers=1, services="dpi")
    >>> result.document["packets"]["processed"]
    500

    """
    return _run(input, policy, workers, seed, record, progress, options, is_live=True)


def compare(
    input: object,
    *,
    policies: Iterable[PolicyLike],
    cores: int = 2,
    seed: int = 1,
    repeat: int = 1,
    live: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Run several policies on identical arrivals and put them side by side.

    Parameters
    ----------
    input : str, path, list of these, or table
        As of `simulate`.
    policies : iterable of str, Policy, type or tuple
        The policies, as of `simulate`.
    cores : int
        Simulated cores; worker threads of live runs.
    seed : int
        Seed of all randomness; each repetition has the next one.
    repeat : int
        Run each policy this many times.
    live : bool
        Run on real threads.
    executor : concurrent.futures.Executor, optional
        Who makes the runs, as of `sweep`. Without one they are made here, one after the other. The comparison is the
        same, but for ``measured`` and ``environment`` of each run. Live runs have no executor.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard compare``, with ``_`` for ``-``.

    Returns
    -------
    Comparison
        The runs, and medians and intervals by policy.

    Raises
    ------
    ValueError
        If an option or the input is wrong; the text says what to do.

    Examples
    --------
    >>> import humpyard as hy
    >>> both = hy.compare("gen:poisson:packets=1000", policies=["drr", "fcfs"], load=0.9)
    >>> [run.policy for run in both.runs]
    ['drr', 'fcfs']

    """
    given, table = _input(input, options)
    if executor is not None:
        if live:
            raise ValueError("live runs measure this machine, and an executor has others: leave out live or executor")
        if table is not None:
            raise ValueError("a table does not travel to workers: leave out executor, or name a capture")
        document, remarks = _cells.compare(list(policies), cores, seed, repeat, given, executor, progress)
        _warn(remarks)
        return Comparison(json.loads(document))
    document, _, remarks = _humpyard.compare(list(policies), cores, seed, repeat, given, table, live, progress)
    _warn(remarks)
    return Comparison(json.loads(document))


def _run(
    input: object,
    policy: PolicyLike,
    cores: int,
    seed: int,
    record: bool,
    progress: Progress | None,
    options: Mapping[str, object],
    *,
    is_live: bool,
) -> RunResult:
    given, table = _input(input, options)
    answer = _humpyard.run(policy, cores, seed, given, table, is_live, record, progress)
    document, records, remarks = answer
    _warn(remarks)
    return RunResult(json.loads(document), records)


def _input(given: object, options: Mapping[str, object]) -> tuple[_cells.Options, object]:
    """Split the input into texts and a table, and write options as a command line has them, with their policies."""
    own = OwnPolicies()
    named = {name: own.named(value) for name, value in options.items() if value is not None and value is not False}
    texts = [(_option(name), _texts(value)) for name, value in named.items()]
    sources = _sources(given)
    if sources is None:
        return (texts, own.all()), given
    return ([("input", sources), *texts], own.all()), None


def _sources(given: object) -> list[str] | None:
    """Return the inputs that are named. None: it is a table."""
    several: Iterable[Any] = given if isinstance(given, (list, tuple)) else [given]
    is_named = all(isinstance(one, (str, os.PathLike)) for one in several)
    return [os.fspath(one) for one in several] if is_named else None


def _option(keyword: str) -> str:
    return keyword.rstrip("_").replace("_", "-")


def _texts(value: object) -> list[str]:
    """Write the values of an option as a command line has them; a flag has none."""
    if value is True:
        return []
    if isinstance(value, Mapping):
        return [f"{name}={_text(one)}" for name, one in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [_joined(one) for one in value]
    return [_text(value)]


def _joined(value: object) -> str:
    """Write one of several values: a rule is a dict of its conditions."""
    return ",".join(_texts(value)) if isinstance(value, Mapping) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds() * 1e9)}ns"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _warn(remarks: Iterable[str]) -> None:
    for remark in remarks:
        warnings.warn(remark, stacklevel=4)


def recommend(
    input: object,
    *,
    goal: str,
    candidate: PolicyLike | list[PolicyLike] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Document:
    """Find the policy and its parameters for your traffic and a goal, by simulation.

    Parameters
    ----------
    input : str, path, list of these, or table
        As of `simulate`. The search and live runs have the packets of a table, and no `command` of the document does.
    goal : str
        Bounds, such as ``p99<2ms,loss<0.1%``.
    candidate : str, Policy, type, tuple, or list of these, optional
        The policies that are tried, as of `simulate`; all of ours, if none of ours is named. Policies of your own are
        tried beside these. With one of your own nothing runs live.
    executor : concurrent.futures.Executor, optional
        Who makes the simulations of the search, as of `sweep`. Without one all cores of this machine do. The
        recommendation is the same. It needs ``costs`` and ``host`` that are not measured here; live runs and those
        of ``size=True`` are made here. Workers must be able to import the classes of policies of your own; a table
        does not travel to them.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard recommend``, with ``_`` for ``-``: ``workers=4``, ``no_verify=True``.

    Returns
    -------
    Document
        The recommendation. Its `holds` says whether a policy keeps the goal.

    Raises
    ------
    ValueError
        If an option or the input is wrong; the text says what to do.
    Exception
        What a handler of a policy of your own raises.

    Examples
    --------
    >>> import humpyard as hy
    >>> packets = {"time": [1000 * n for n in range(500)], "flow": [n % 7 for n in range(500)], "length": [200] * 500}
    >>> advice = hy.recommend(packets, goal="p99<2ms", candidate="drr", costs="table:measured", host="ideal")
    >>> advice.policy, advice.holds
    ('drr', True)

    """
    return _command("recommend", [], {"goal": goal, "candidate": candidate, **options}, progress, input, executor)


def validate(input: object, *, progress: Progress | None = None, **options: Any) -> Document:
    """Run policies live and in the simulator on the same arrivals, and say how far the simulator is from the truth.

    Parameters
    ----------
    input : str, path, list of these, or table
        As of `simulate`.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard validate``, with ``_`` for ``-``: ``policy=["hrw", "drr"]``, ``workers=1``.

    Returns
    -------
    Document
        Live and simulated figures. Its `holds` says whether all agree within their bounds.

    Raises
    ------
    ValueError
        If an option or the input is wrong, and for a policy of your own, which does not run live; the text says what
        to do.

    """
    return _command("validate", [], options, progress, input)


def why(
    input: object = None,
    *,
    policy: PolicyLike | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Document:
    """Say why a packet of a simulation was served when it was.

    Parameters
    ----------
    input : str, path, list of these, or table
        As of `simulate`. Left out with ``journal="FILE"``, which is of a run that is over.
    policy : str, Policy, type or tuple
        The policies, as of `simulate`.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard why``, with ``_`` for ``-``: ``packet=7``, ``flow="10.0.0.1:80 > 10.0.0.2:5000"``,
        and those of simulations. Without either it is the packet whose delay is the p99.

    Returns
    -------
    Document
        The way of the packet: what delayed it, what the policies knew, and what would have made it otherwise.

    Raises
    ------
    ValueError
        If an option or the input is wrong; the text says what to do.
    Exception
        What a handler of a policy of your own raises.

    Examples
    --------
    >>> import humpyard as hy
    >>> packets = {"time": [0, 0, 0], "flow": [1, 2, 3], "length": [1500, 64, 64]}
    >>> hy.why(packets, policy="fcfs", cores=1, packet=2).packet.number
    2

    """
    own = OwnPolicies()
    return _command("why", [], {"policy": own.policy(policy), **options}, progress, input, own=own)


def admit(*, flow: object = None, progress: Progress | None = None, **options: Any) -> Document:
    """Say which flows can be sure of their engines and link, and of what delay.

    Parameters
    ----------
    flow : str, dict, or list of these
        Flows, such as ``{"service": "dpi", "rate": "10Mbit", "length": 500}``.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard admit``, with ``_`` for ``-``.

    Returns
    -------
    Document
        What is admitted. Its `holds` says whether all flows are.

    Raises
    ------
    ValueError
        If an option is wrong; the text says what to do.

    Examples
    --------
    >>> import humpyard as hy
    >>> hy.admit(flow={"service": "forward", "rate": "10Mbit", "length": 500, "burst": "5kB"}).holds
    True

    """
    flows = [flow] if isinstance(flow, (str, Mapping)) else flow
    return _command("admit", [], {"flow": flows, **options}, progress)


def schedule(*, policy: PolicyLike, progress: Progress | None = None, **options: Any) -> Document:
    """Show the bare sequence of a sharing policy on always-ready clients.

    Parameters
    ----------
    policy : str, Policy, type or tuple
        A sharing policy, as of `simulate`.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard schedule``, with ``_`` for ``-``: ``weights=[3, 2, 1]``, ``slots=6``.

    Returns
    -------
    Document
        The sequence, and the service errors of the clients.

    Raises
    ------
    ValueError
        If an option is wrong; the text says what to do.
    Exception
        What a handler of a policy of your own raises.

    Examples
    --------
    >>> import humpyard as hy
    >>> hy.schedule(policy="gr3", weights=[3, 2, 1], slots=6).slots
    [1, 2, 1, 1, 2, 3]

    """
    lists = {name: _commas(value) if name in ("weights", "order") else value for name, value in options.items()}
    own = OwnPolicies()
    return _command("schedule", [], {"policy": own.policy(policy), **lists}, progress, own=own)


def reproduce(
    *names: str, executor: Executor | None = None, progress: Progress | None = None, **options: Any
) -> Document:
    """Do figures, tables and claims of the papers again: data, plots, and the outcome of each claim.

    Parameters
    ----------
    *names : str
        Experiments, or ``all``; ``humpyard list experiments`` names them.
    executor : concurrent.futures.Executor, optional
        Who runs the parts of experiments, as of `sweep`. Without one all cores of this machine do. The files are the
        same, but for the seconds in ``verdicts.json``. Parts that measure times run here.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard reproduce``, with ``_`` for ``-``: ``quick=True``, ``out="results"``.

    Returns
    -------
    Document
        The experiment and its outcomes; of several experiments their list, as `experiments`. Its `holds` says whether
        all outcomes are the expected ones.

    Raises
    ------
    ValueError
        If a name or an option is wrong; the text says what to do.

    """
    if executor is not None and not options.get("judge"):
        _cells.reproduce(list(names), options, executor, progress)
    return _command("reproduce", list(names), options, progress)


def sweep(
    plan: str | os.PathLike[str] | Mapping[str, object],
    *,
    out: str | os.PathLike[str],
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Document:
    """Simulate all combinations of options that a plan names, into one table.

    What is done is kept in `out`: a sweep that ended early goes on with the same call.

    Parameters
    ----------
    plan : path or dict
        A file of the kind that ``humpyard sweep --help`` describes, or what such a file says:
        ``{"options": {"input": "a.pcap"}, "axes": {"policy": ["drr", "hrw"]}}``. A dict may have policies of your own
        among the values, as `simulate` takes them; a tuple is partners. The sweep goes on in `out` as long as their
        classes are the same.
    out : path
        The directory of the table ``runs.parquet`` and of ``manifest.json``.
    executor : concurrent.futures.Executor, optional
        Who makes the simulations: a ``ProcessPoolExecutor``, Dask's ``client.get_executor()``, an
        ``MPIPoolExecutor``. Without one all cores of this machine do; handlers of policies of your own take turns
        there. The table is the same, byte for byte. Workers must be able to import the classes of such policies.
    progress : callable, optional
        As of `simulate`.
    **options
        The options of ``humpyard sweep``, with ``_`` for ``-``: ``threads=2``.

    Returns
    -------
    Document
        What the sweep came to.

    Raises
    ------
    ValueError
        If the plan is wrong; the text says what to do.
    Exception
        What a handler of a policy of your own raises.

    """
    own = OwnPolicies()
    if isinstance(plan, Mapping):
        file, text = "plan", "".join(f"{name} = {_toml(own.named(value))}\n" for name, value in plan.items())
    else:
        file, text = os.fspath(plan), ""
    if executor is not None:
        if options:
            raise ValueError(f"{next(iter(options))} is for sweeps without an executor: leave it out")
        text = text or _plan(file)
        done = _cells.sweep(file, text, os.fspath(out), own, executor, progress)
        return Document({**json.loads(done), "holds": True})
    if not text:
        return _command("sweep", [file], {"out": out, **options}, progress)
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "plan.toml")
        with open(file, "w", encoding="utf-8") as written:
            written.write(text)
        return _command("sweep", [file], {"out": out, **options}, progress, own=own)


def _plan(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as text:
            return text.read()
    except OSError as error:
        raise ValueError(f"{file}: the file of the sweep cannot be read: {error.strerror}") from None


def _toml(value: object) -> str:
    """Write a value as TOML: texts, numbers and truth values are written as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(name))} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return json.dumps(value if isinstance(value, (str, bool, int, float)) else _text(value))


_TABLE = "table"
"""What a command line has for the input where the packets are those of a table."""


def _command(
    name: str,
    names: list[str],
    options: Mapping[str, object],
    progress: Progress | None,
    input: object = None,
    executor: Executor | None = None,
    own: OwnPolicies | None = None,
) -> Document:
    own = own or OwnPolicies()
    sources = [] if input is None else _sources(input)
    words = [name, *names, *(f"--input={source}" for source in ([_TABLE] if sources is None else sources))]
    for keyword, value in options.items():
        if value is None or value is False:
            continue
        option = f"--{_option(keyword)}"
        words += [f"{option}={text}" for text in _several(own.named(value))] or [option]
    table = input if sources is None else None
    workers = None if executor is None or table is not None else _cells.recommend(words, own, executor)
    if executor is not None and table is not None:
        raise ValueError("a table does not travel to workers: leave out executor, or name a capture")
    document, remarks, holds = _humpyard.command([*words, "--json"], progress, workers, table, (own.all(), own.code()))
    _warn(remarks)
    found = json.loads(document)
    # Several experiments are a list.
    return Document({**(found if isinstance(found, dict) else {"experiments": found}), "holds": holds})


def _several(value: object) -> list[str]:
    """Write values of an option, of which each is an option of its own; a dict is one value."""
    return [",".join(_texts(value))] if isinstance(value, Mapping) else _texts(value)


def _commas(value: object) -> str:
    return ",".join(_texts(value))
