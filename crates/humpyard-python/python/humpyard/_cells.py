"""Simulations that an executor makes, here or on other machines: cells of one map."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Callable, Generic, TypeVar, Union
from uuid import uuid4

from . import _humpyard
from ._own import OwnPolicies
from .policies import PolicyLike

Cells = list[tuple[int, int]]
Runs = list[tuple[int, int, list[float]]]
Outcome = tuple[int, list[float], list[str]]
ComparedRun = tuple[str, str, list[float], list[str]]
Progress = Callable[[int, Union[float, None], str], object]
Options = tuple[list[tuple[str, list[str]]], list[PolicyLike]]
"""Options with their values, and the policies written in Python that they name."""
Places = dict[str, str]
T = TypeVar("T")
R = TypeVar("R")

_AT_FIRST = 64
"""Tasks that an executor has at first, when nobody knows how long a cell takes."""
_AT_ONCE = 4096
"""Tasks that an executor has at a time: more than workers, and few enough for its memory."""
_GROWTH = 8
"""Tasks by which that grows with each task that is done."""
_TASK_SECONDS = 1.0
"""Time that a task is to take: long beside what an executor takes for a task, short beside a sweep."""
_TASK_CELLS = 1024
"""Cells of a task at most."""
_SHARES = 64
"""Tasks that there are at least, if there are cells for them."""


class FileMissing(Exception):
    """A worker does not have a file that a plan names: it is sent with the next task."""


def on_worker(
    version: str,
    work: Callable[[T, Places], R],
    task: T,
    files: dict[str, str],
    sent: dict[str, bytes] | None = None,
) -> tuple[R, float]:
    """Do a task on a worker.

    Parameters
    ----------
    version : str
        The version of humpyard that wants it.
    work : callable
        Does it, given the task, and where the files are here.
    task : object
        The task.
    files : dict of str to str
        The files that options name, with their SHA-256. A worker uses a file of that name if it has this content.
    sent : dict of str to bytes, optional
        Files by their SHA-256. The worker keeps them.

    Returns
    -------
    (object, float)
        What `work` returns, and how many seconds it took.

    Raises
    ------
    FileMissing
        If the worker does not have a file, and it was not sent.
    ValueError
        If the worker has another version of humpyard, whose results may differ.

    """
    if version != _humpyard.__version__:
        raise ValueError(f"a worker has humpyard {_humpyard.__version__}: install {version} there")
    places = {name: _place(name, digest, sent or {}) for name, digest in files.items()}
    begin = time.perf_counter()
    return work(task, places), time.perf_counter() - begin


_known: dict[tuple[str, str], str] = {}


def _place(name: str, digest: str, sent: dict[str, bytes]) -> str:
    """Return where this worker has a file of this content."""
    if (name, digest) not in _known:
        kept = Path(tempfile.gettempdir(), f"humpyard-{os.getuid()}", digest + "".join(Path(name).suffixes[-2:]))
        if _sha256(Path(name)) == digest:
            _known[name, digest] = name
        elif _sha256(kept) == digest or _keep(kept, sent.get(digest)):
            _known[name, digest] = str(kept)
        else:
            raise FileMissing(digest)
    return _known[name, digest]


def _sha256(path: Path) -> str | None:
    """Return the SHA-256 of a file. None: it cannot be read."""
    try:
        with path.open("rb") as file:
            found = hashlib.sha256()
            for part in iter(lambda: file.read(1 << 20), b""):
                found.update(part)
    except OSError:
        return None
    return found.hexdigest()


def _keep(path: Path, content: bytes | None) -> bool:
    """Write a file that was sent, under its name once it is whole."""
    if content is None:
        return False
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, path)
    return True


class _Map(Generic[T, R]):
    """Tasks that an executor has."""

    def __init__(self, executor: Executor, work: Callable[[T, Places], R], files: dict[str, str]) -> None:
        self.executor, self.work, self.files = executor, work, files
        self.futures: dict[Future[tuple[R, float]], T] = {}
        self.done: SimpleQueue[Future[tuple[R, float]]] = SimpleQueue()
        self.at_once = _AT_FIRST

    def do(self, tasks: Iterable[T]) -> Iterator[tuple[T, R, float]]:
        """Do tasks. Yield each with its result and its seconds, as they come; later tasks are taken later."""
        return (done for done in self.do_or_look(tasks, None) if done is not None)

    def do_or_look(self, tasks: Iterable[T], every: float | None) -> Iterator[tuple[T, R, float] | None]:
        """Do tasks, as `do`. While nothing comes, yield None every `every` seconds."""
        left = iter(tasks)
        try:
            while self._fill(left):
                try:
                    future = self.done.get(timeout=every)
                except Empty:
                    yield None
                    continue
                task = self.futures.pop(future)
                self.at_once = min(_AT_ONCE, self.at_once + _GROWTH)
                try:
                    result, seconds = future.result()
                except FileMissing:
                    self._submit(task, {digest: Path(name).read_bytes() for name, digest in self.files.items()})
                else:
                    yield task, result, seconds
        except BaseException:
            for future in list(self.futures):
                future.cancel()
            raise

    def _fill(self, tasks: Iterator[T]) -> bool:
        """Give the executor as many tasks as it may have; whether it has any."""
        while len(self.futures) < self.at_once and (task := next(tasks, None)) is not None:
            self._submit(task, None)
        return bool(self.futures)

    def _submit(self, task: T, sent: dict[str, bytes] | None) -> None:
        future = self.executor.submit(on_worker, _humpyard.__version__, self.work, task, self.files, sent)
        self.futures[future] = task
        future.add_done_callback(self.done.put)


def sweep(file: str, text: str, out: str, own: OwnPolicies, executor: Executor, progress: Progress | None) -> str:
    """Make a sweep with the workers of an executor. Each simulation is kept as soon as its task is done.

    Parameters
    ----------
    file : str
        The file of the plan, for errors.
    text : str
        What the file says.
    out : str
        The directory of the sweep.
    own : OwnPolicies
        The policies written in Python that the plan names.
    executor : concurrent.futures.Executor
        An object with ``submit`` that gives futures: a pool of processes, Dask's ``client.get_executor()``, mpi4py.
    progress : callable, optional
        Called with the simulations done, their part of all, and ``"simulations"``.

    Returns
    -------
    str
        The document of the sweep, as JSON.

    """
    _check_travel(own.all(), executor)
    begun = _humpyard.Sweep(file, text, out, (own.all(), own.code()))
    if begun.done is not None:
        return begun.done
    try:
        work = partial(_simulate_cells, uuid4().hex, (file, text), own.all())
        while missing := begun.missing():
            everything = begun.kept + len(missing)
            tasks = _Divided(missing)
            _say(progress, begun.kept, everything, "simulations")
            for cells, runs, seconds in _Map(executor, work, begun.files).do(tasks):
                begun.keep(runs)
                tasks.saw(len(cells), seconds)
                _say(progress, begun.kept, everything, "simulations")
    except BaseException:
        begun.give_up()
        raise
    return begun.finish()


def _check_travel(policies: Iterable[object], executor: Executor) -> None:
    """Check that processes of this machine can import policies. Executors of clusters have ways of their own."""
    if not isinstance(executor, ProcessPoolExecutor):
        return
    for policy in policies:
        try:
            pickle.dumps(policy)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"a policy of your own does not travel to workers: define its class in a module, or leave out executor "
                f"({error})"
            ) from None


def _simulate_cells(sweep: str, file: tuple[str, str], own: list[PolicyLike], cells: Cells, places: Places) -> Runs:
    return _humpyard.simulate_cells(sweep, file, own, cells, places)


def _say(progress: Progress | None, done: int, everything: int, what: str) -> None:
    if progress is not None:
        progress(done, done / everything if everything else None, what)


class _Divided:
    """Cells in tasks of about the same time: single cells until a time is known."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.most = max(1, min(_TASK_CELLS, len(cells) // _SHARES))
        self.size = 1

    def saw(self, cells: int, seconds: float) -> None:
        """Make the next tasks as long as they should be, by one that is done."""
        fitting = int(_TASK_SECONDS * cells / max(seconds, 1e-9))
        self.size = max(1, min(self.most, fitting, 2 * self.size))

    def __iter__(self) -> Iterator[Cells]:
        start = 0
        while start < len(self.cells):
            size = self.size
            yield self.cells[start : start + size]
            start += size


def compare(
    policies: Sequence[Any],
    cores: int,
    seed: int,
    repeat: int,
    options: Options,
    executor: Executor,
    progress: Progress | None,
) -> tuple[str, list[str]]:
    """Compare policies with the workers of an executor: each run is a cell.

    Parameters
    ----------
    policies : sequence
        The policies.
    cores : int
        Simulated cores.
    seed : int
        The seed of the first repetition.
    repeat : int
        Repetitions.
    options : (list of (str, list of str), list of policy)
        Options with their values, the input among them, and the policies written in Python that they name.
    executor : concurrent.futures.Executor
        As of `sweep`.
    progress : callable, optional
        Called with the runs done, their part of all, and ``"runs"``.

    Returns
    -------
    (str, list of str)
        The document of the comparison, as JSON, and what to warn of.

    """
    _check_travel([*policies, *options[1]], executor)
    _humpyard.compare_check(list(policies), cores, seed, options)
    cells = [(policy, repetition) for repetition in range(max(1, repeat)) for policy in range(len(policies))]
    runs: dict[int, ComparedRun] = {}
    tasks = ((at, policies[policy], cores, seed + repetition, options) for at, (policy, repetition) in enumerate(cells))
    values = (value for _, several in options[0] for value in several)
    _say(progress, 0, len(cells), "runs")
    for task, run, _ in _Map(executor, _compare_run, _files(values)).do(tasks):
        runs[task[0]] = run
        _say(progress, len(runs), len(cells), "runs")
    in_order = [runs[at] for at in range(len(cells))]
    return _humpyard.compare_document(in_order, len(policies), repeat), in_order[0][3]


def _compare_run(task: tuple[int, Any, int, int, Options], places: Places) -> ComparedRun:
    _, policy, cores, seed, options = task
    return _humpyard.compare_run(policy, cores, seed, options, places)


def _files(values: Iterable[str]) -> dict[str, str]:
    """Return the files among values, with their SHA-256."""
    found = {value: _sha256(Path(value)) for value in values if os.path.isfile(value)}
    return {name: digest for name, digest in found.items() if digest is not None}


def reproduce(
    names: list[str],
    options: Mapping[str, Any],
    executor: Executor,
    progress: Progress | None,
) -> None:
    """Run parts of experiments with the workers of an executor, and keep them for a reproduction that follows.

    Parts that measure times are left to that, and parts that fail.

    Parameters
    ----------
    names : list of str
        Experiments.
    options : mapping
        Options of the reproduction.
    executor : concurrent.futures.Executor
        As of `sweep`.
    progress : callable, optional
        Called with the parts done, their part of all, and ``"parts"``.

    """
    is_full, seed, out = bool(options.get("full")), int(options.get("seed", 1)), options.get("out")
    missing = _humpyard.reproduce_parts(names, is_full, seed, out)
    work = partial(_reproduce_part, is_full, seed)
    _say(progress, 0, len(missing), "parts")
    for done, (part, text, _) in enumerate(_Map(executor, work, {}).do(missing), 1):
        if text is not None:
            _humpyard.reproduce_keep(names, is_full, seed, out, part, text)
        _say(progress, done, len(missing), "parts")


def _reproduce_part(is_full: bool, seed: int, part: tuple[str, int], places: Places) -> str | None:
    return _humpyard.reproduce_part(*part, is_full, seed)


def recommend(
    words: list[str], own: OwnPolicies, executor: Executor
) -> Callable[[list[str]], Iterator[Outcome | None]]:
    """Return a function that has the workers of an executor make trials of a search.

    Parameters
    ----------
    words : list of str
        The command, behind ``humpyard``.
    own : OwnPolicies
        The policies written in Python that the words name.
    executor : concurrent.futures.Executor
        As of `sweep`.

    Returns
    -------
    callable
        Given the texts of trials, it yields the number, the figures and the scopes of each, as they come, and None now
        and then while nothing comes.

    """
    _check_travel(own.all(), executor)
    read = [word for word in words if not word.startswith(_WRITERS)]
    work = partial(_recommend_trials, uuid4().hex, read, own.all())
    files = _files(word.partition("=")[2] for word in words if not word.startswith(_WRITERS))

    def make(trials: list[str]) -> Iterator[Outcome | None]:
        size = max(1, len(trials) // _SHARES)
        tasks = (list(enumerate(trials))[start : start + size] for start in range(0, len(trials), size))
        for done in _Map(executor, work, files).do_or_look(tasks, _LOOK_SECONDS):
            if done is None:
                yield None
                continue
            task, outcomes, _ = done
            yield from ((at, *outcome) for (at, _), outcome in zip(task, outcomes))

    return make


_WRITERS = ("--report=", "--plot=")
"""Options that name files to be written."""
_LOOK_SECONDS = 0.1
"""How often a search that waits for workers is asked whether it is to end."""


def _recommend_trials(
    search: str, words: list[str], own: list[PolicyLike], trials: list[tuple[int, str]], places: Places
) -> list[tuple[list[float], list[str]]]:
    placed = [f"{name}={places.get(value, value)}" if sign else name for name, sign, value in map(_parted, words)]
    return _humpyard.recommend_trials(search, placed, own, [text for _, text in trials])


def _parted(word: str) -> tuple[str, str, str]:
    return word.partition("=")
