"""Sweeps whose simulations an executor makes, here or on other machines."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Callable, Union

from . import _humpyard

Cells = list[tuple[int, int]]
Runs = list[tuple[int, int, list[float]]]
Progress = Callable[[int, Union[float, None], str], object]

_AT_ONCE = 1024
"""Tasks that an executor has at a time: enough for many workers, few enough for its memory."""
_TASK_CELLS = 16
"""Cells of a task, unless there are too few for all workers."""


class FileMissing(Exception):
    """A worker does not have a file that a plan names: it is sent with the next task."""


def simulate(file: str, text: str, cells: Cells, files: dict[str, str], sent: dict[str, bytes] | None = None) -> Runs:
    """Simulate cells of a plan on a worker.

    Parameters
    ----------
    file : str
        The file of the plan, for errors.
    text : str
        What the file says.
    cells : list of (int, int)
        Cells and repetitions.
    files : dict of str to str
        The files that the plan names, with their SHA-256. A worker uses a file of that name if it has this content.
    sent : dict of str to bytes, optional
        Files by their SHA-256. The worker keeps them.

    Returns
    -------
    list of (int, int, list of float)
        Cells, repetitions and figures.

    Raises
    ------
    FileMissing
        If the worker does not have a file, and it was not sent.

    """
    places = {name: _place(name, digest, sent or {}) for name, digest in files.items()}
    return _humpyard.simulate_cells(file, text, cells, places)


_known: dict[tuple[str, str], str] = {}


def _place(name: str, digest: str, sent: dict[str, bytes]) -> str:
    """Return where this worker has a file of this content."""
    if (name, digest) not in _known:
        kept = Path(tempfile.gettempdir(), f"humpyard-{os.getuid()}", digest + "".join(Path(name).suffixes[-2:]))
        if _has(Path(name), digest):
            _known[name, digest] = name
        elif _has(kept, digest) or _keep(kept, sent.get(digest)):
            _known[name, digest] = str(kept)
        else:
            raise FileMissing(digest)
    return _known[name, digest]


def _has(path: Path, digest: str) -> bool:
    try:
        with path.open("rb") as file:
            found = hashlib.sha256()
            for part in iter(lambda: file.read(1 << 20), b""):
                found.update(part)
    except OSError:
        return False
    return found.hexdigest() == digest


def _keep(path: Path, content: bytes | None) -> bool:
    """Write a file that was sent, under its name once it is whole."""
    if content is None:
        return False
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, path)
    return True


def sweep(file: str, text: str, out: str, executor: Executor, progress: Progress | None) -> str:
    """Make a sweep with the workers of an executor. Each simulation is kept as soon as its task is done.

    Parameters
    ----------
    file : str
        The file of the plan, for errors.
    text : str
        What the file says.
    out : str
        The directory of the sweep.
    executor : concurrent.futures.Executor
        Whatever has ``submit`` and gives futures: a pool of processes, Dask's ``client.get_executor()``, mpi4py.
    progress : callable, optional
        Called with the simulations done, their part of all, and ``"simulations"``.

    Returns
    -------
    str
        The document of the sweep, as JSON.

    """
    begun = _humpyard.Sweep(file, text, out)
    if begun.done is not None:
        return begun.done
    try:
        while missing := begun.missing():
            _Tasks(begun, file, text, executor).do(missing, progress)
    except BaseException:
        begun.give_up()
        raise
    return begun.finish()


class _Tasks:
    """The tasks of a sweep that an executor has."""

    def __init__(self, begun: _humpyard.Sweep, file: str, text: str, executor: Executor) -> None:
        self.begun, self.file, self.text, self.executor = begun, file, text, executor
        self.files = begun.files
        self.futures: dict[Future[Runs], Cells] = {}

    def do(self, missing: Cells, progress: Progress | None) -> None:
        """Simulate these cells."""
        tasks, everything = _tasks(missing), self.begun.kept + len(missing)
        try:
            while self._fill(tasks):
                done, _ = wait(self.futures, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future)
                if progress is not None:
                    progress(self.begun.kept, self.begun.kept / everything, "simulations")
        except BaseException:
            for future in self.futures:
                future.cancel()
            raise

    def _fill(self, tasks: Iterator[Cells]) -> bool:
        """Give the executor as many tasks as it may have; whether it has any."""
        while len(self.futures) < _AT_ONCE and (cells := next(tasks, None)):
            self._submit(cells, None)
        return bool(self.futures)

    def _submit(self, cells: Cells, sent: dict[str, bytes] | None) -> None:
        future = self.executor.submit(simulate, self.file, self.text, cells, self.files, sent)
        self.futures[future] = cells

    def _take(self, future: Future[Runs]) -> None:
        cells = self.futures.pop(future)
        try:
            self.begun.keep(future.result())
        except FileMissing:
            self._submit(cells, {digest: Path(name).read_bytes() for name, digest in self.files.items()})


def _tasks(missing: Cells) -> Iterator[Cells]:
    """Divide cells among tasks: small ones where there are few cells."""
    size = max(1, min(_TASK_CELLS, len(missing) // 64))
    return (missing[start : start + size] for start in range(0, len(missing), size))
