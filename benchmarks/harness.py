"""Measure ratios, print them and save them."""

from __future__ import annotations

import gc
import json
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks: written by `make bench` -->\n", "<!-- end of benchmarks -->\n"


@dataclass(frozen=True)
class Row:
    """One ratio of a benchmark.

    Attributes
    ----------
    name : str
        What was measured, and whether the ratio is of times, speeds or sizes.
    ratio : float
        The measured value divided by that of `versus`, or the reverse for speeds.
    versus : str
        The other program, or the limit, of the same run.
    target : float or None
        The limit for the ratio.
    note : str
        An absolute figure, for orientation.
    at_most : bool
        Whether the target is the largest allowed ratio instead of the smallest.
    """

    name: str
    ratio: float
    versus: str
    target: float | None
    note: str = ""
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return bool(self.ratio <= self.target if self.at_most else self.ratio >= self.target)

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        target = "" if self.target is None else f"{sign} {self.target:g}"
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        ratio = f"{self.ratio:>10,.4g} × {self.versus}"
        return f"{self.name:<50} {ratio:<46} {target:>9} {verdict:<7} {self.note}"


def best_of(function: Callable[[], object], repeat: int = 5) -> float:
    """Shortest of several timings [s]: the least disturbed one."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def together(*functions: Callable[[], object], repeat: int = 5) -> list[float]:
    """Shortest timing of each [s], taken in turns so that a disturbance affects all of them."""
    best = [float("inf")] * len(functions)
    # The garbage collector does not search what earlier benchmarks left behind.
    gc.freeze()
    for _ in range(repeat):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def markdown_table(results: dict[str, Any]) -> str:
    """Return the saved ratios as a Markdown table."""
    lines = ["| what | ratio | against | target | |", "| --- | ---: | --- | ---: | --- |"]
    for row in results["rows"]:
        sign = "≤" if row["at_most"] else "≥"
        target = "" if row["target"] is None else f"{sign} {row['target']:g}"
        note = "; ".join(filter(None, ["**missed**" if row["met"] is False else "", row["note"]]))
        ratio = f"{row['ratio']:,.3g}" if row["ratio"] < 1000 else f"{row['ratio']:,.0f}"
        lines.append(f"| {row['name']} | {ratio} × | {row['versus']} | {target} | {note} |")
    head = f"Python {results['python']} on {results['machine']}, two cores.\n\n"
    return head + "\n".join(lines) + "\n"


def write_page() -> None:
    """Put the saved table between its marks in docs/benchmarks.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    table = markdown_table(json.loads(RESULTS.read_text(encoding="utf-8")))
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def save(rows: Iterable[Row]) -> None:
    """Write the results beside the benchmarks, and the table into docs/benchmarks.md."""
    table = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        # Ratios may be numpy numbers, which JSON does not know.
        "rows": [
            {**asdict(row), "ratio": float(f"{row.ratio:.4g}"), "met": row.met} for row in rows
        ],
    }
    RESULTS.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page()
