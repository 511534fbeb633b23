"""`make bench`: run every benchmark, print its ratios and save them.

`python -m benchmarks attack noise` runs only the benchmarks of these modules and saves nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.harness import Row, save

MODULES = (
    "attack",
    "baselines",
    "hmm",
    "noise",
    "privacy",
    "releases",
    "theory",
    "read",
    "learn",
    "behaviour",
    "battery",
    "fleet",
    "ledger",
    "live",
    "study",
    "web",
    "cli",
)


def main() -> None:
    """Print each row as soon as it is measured."""
    wanted = sys.argv[1:] or MODULES
    rows: list[Row] = []
    for name in wanted:
        for row in import_module(f"benchmarks.bench_{name}").rows():
            print(row, flush=True)
            rows.append(row)
    if not sys.argv[1:]:
        save(rows)
    missed = sum(row.met is False for row in rows)
    print(f"{len(rows)} ratios, {missed} missed their target")


if __name__ == "__main__":
    main()
