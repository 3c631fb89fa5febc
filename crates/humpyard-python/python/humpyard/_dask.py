"""`humpyard sweep --dask`: makes a sweep with the workers of a Dask scheduler, and says how far it is.

Lines of the standard output are JSON: how many simulations are done, and at last the document of the sweep.
"""

from __future__ import annotations

import json
import sys

from ._calls import sweep


def main(file: str, out: str, scheduler: str) -> int:
    """Make the sweep of a file into a directory. Return the exit code."""
    from distributed import Client

    def show(done: int, part: float | None, what: str) -> None:
        print(json.dumps({"done": done, "all": round(done / part) if part else 0}), flush=True)

    try:
        client = Client(scheduler, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        print(f"--dask: no scheduler at {scheduler}: {error}".splitlines()[0], file=sys.stderr)
        return 2
    with client:
        try:
            executor = client.get_executor()  # type: ignore[no-untyped-call]
            done = sweep(file, out=out, executor=executor, progress=show)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
    del done.document["holds"]
    print(json.dumps(done.document), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
