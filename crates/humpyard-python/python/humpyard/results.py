"""What runs come to: their documents, and tables of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from ._humpyard import Frame, Record


class Document(Mapping[str, Any]):
    """A document of the command line, whose keys are attributes, too.

    Parameters
    ----------
    document : dict
        What ``--json`` of the same command prints.

    Examples
    --------
    >>> import humpyard as hy
    >>> result = hy.simulate("gen:poisson:packets=100", policy="drr")
    >>> result.delay_ns.p99 == result["delay_ns"]["p99"]
    True

    """

    def __init__(self, document: dict[str, Any]) -> None:
        """Take the document of a command."""
        self.document = document

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - JSON has no types
        """Return what stands under a key, as JSON has it."""
        return self.document[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self.document)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.document)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - JSON has no types
        """Return what stands under a key, with attributes of its own where it has keys."""
        if name.startswith("__") or name == "document":
            raise AttributeError(name)
        try:
            return _wrapped(self.document[name])
        except KeyError:
            known = ", ".join(self.document)
            raise AttributeError(f"no `{name}`: there are {known}") from None

    def __dir__(self) -> list[str]:
        """List the keys beside the methods."""
        return sorted({*super().__dir__(), *self.document})

    def __repr__(self) -> str:
        """Show the type and the keys."""
        return f"<{type(self).__name__}: {', '.join(self.document)}>"


def _wrapped(value: object) -> object:
    if isinstance(value, dict):
        return Document(value)
    if isinstance(value, list):
        return [_wrapped(one) for one in value]
    return value


class RunResult(Document):
    """What one run came to.

    The keys of its document are attributes. `packets`, `cores`, `clients`, `services` and `timeline` are tables; what
    the document has under the same keys is in ``result["cores"]``.
    """

    def __init__(self, document: dict[str, Any], record: Record | None = None) -> None:
        """Take the document of a run, and perhaps the fate of its packets."""
        super().__init__(document)
        self._record = record

    def _recorded(self) -> Record:
        if self._record is None:
            raise ValueError("the run kept no packets: give record=True")
        return self._record

    @property
    def packets(self) -> Frame:
        """A row for each packet, in the order of arrival; times in ns, lengths in bytes. Needs ``record=True``.

        `arrival`, `flow`, `client`, `service`, `length`, the `queue` in which it waited, the `core` that served it, the
        `start` and `end` of service, when it `left`, and its `fate`: served, held at the end, or why it was dropped.
        """
        return self._recorded().packets()

    @property
    def clients(self) -> Frame:
        """A row for each client: packets, bytes, those served, busy time, delays. Needs ``record=True``."""
        return self._recorded().clients()

    @property
    def timeline(self) -> Frame:
        """A row for each packet that a core served and for each switch, by core and time. Needs ``record=True``."""
        return self._recorded().timeline()

    @property
    def cores(self) -> Frame:
        """A row for each core: utilization, packets, switches."""
        return _frame([{"core": core, **row} for core, row in enumerate(self.document["cores_detail"])])

    @property
    def services(self) -> Frame:
        """A row for each service: packets, bytes, delays, late packets, longest queue."""
        return _frame(self.document["services"])

    def _repr_html_(self) -> str:
        """Show the figures of the run in a notebook."""
        return _figures([self.document])


class Comparison(Document):
    """Runs of several policies on identical arrivals."""

    @property
    def runs(self) -> list[RunResult]:
        """The runs: one for each policy, then the same for the next repetition."""
        return [RunResult(run) for run in self.document["runs"]]

    @property
    def table(self) -> Frame:
        """A row for each run: its policy, seed, and headline figures."""
        return _frame([_headline(run) for run in self.document["runs"]])

    def _repr_html_(self) -> str:
        """Show the figures of the runs side by side in a notebook."""
        return _figures(self.document["runs"])


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Give the numbers and texts of a row by their paths, joined by ``_``; lists have no place in a table."""
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}_")
        elif not isinstance(value, list):
            yield before + key, value


def _frame(rows: list[dict[str, Any]]) -> Frame:
    flat = [dict(_flat(row)) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return Frame.from_columns({name: [row.get(name) for row in flat] for name in names})


def _headline(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures by which runs are compared first."""
    counts, delay = run["packets"], run["delay_ns"]
    dropped = sum(counts["dropped"].values()) + sum(counts["dropped_out"].values())
    return {
        "policy": run["policy"],
        "seed": run["seed"],
        "packets": counts["in"],
        "dropped": dropped,
        "throughput_pps": run["throughput_pps"],
        "delay_mean_ns": delay["mean"],
        "delay_p50_ns": delay["p50"],
        "delay_p99_ns": delay["p99"],
        "out_of_order": run["order"]["out_of_order"],
        "jain": run["fairness"]["jain"],
    }


_BAR = 160


def _figures(runs: list[dict[str, Any]]) -> str:
    """Return a table of runs, each with a bar of its 99th percentile of the delay."""
    rows = [_headline(run) for run in runs]
    if not rows:
        return "<p>no run</p>"
    longest = max((row["delay_p99_ns"] or 0 for row in rows), default=0) or 1
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = []
    for row in rows:
        cells = "".join(f"<td>{escape(_shown(value))}</td>" for value in row.values())
        width = round(_BAR * (row["delay_p99_ns"] or 0) / longest)
        bar = f'<svg width="{_BAR}" height="10"><rect width="{width}" height="10" fill="#4477aa"/></svg>'
        body.append(f"<tr>{cells}<td>{bar}</td></tr>")
    return f"<table><thead><tr>{head}<th>p99</th></tr></thead><tbody>{''.join(body)}</tbody></table>"


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
