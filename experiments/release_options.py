"""What each kind of release is worth for each purpose, measured on several homes.

For every home and every hidden appliance, hours with independent noise and a calendar release are
calibrated to the same odds, drawn several times, and restored. The root mean square errors of an
hour, a day, an hour of the typical day, a month and a register value are set beside the standard
errors that each release states. All releases are simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray, whole
from hushmeter.errors import DataError
from hushmeter.learn.homes import select_period
from hushmeter.privacy.units import metered
from hushmeter.read import read_home_recording, read_meter
from hushmeter.releases.labels import Cells, cells_of, make_tables
from hushmeter.releases.promise import Promise
from hushmeter.releases.purposes import PURPOSES, Errors
from hushmeter.releases.release import Release
from hushmeter.releases.request import Request
from hushmeter.releases.restore import Restored, restore
from hushmeter.synth import ready_home
from hushmeter.synth import trace as draw_trace
from hushmeter.trace import JOULES_PER_KWH, Trace

if TYPE_CHECKING:
    import pandas as pd

APPLIANCES = ("kettle", "heat pump", "car charger")
"""Hidden appliances, by their names in the catalogue."""

OPTIONS = ("independent", "calendar", "restored", "calendar, restored")
"""Kinds of release: hours with independent noise, a calendar release, and both restored."""

FILES = {
    "REDD house 1": "redd/redd_house1_3s.parquet",
    "REFIT house 2": "mains/refit_house2_1min.parquet",
    "Green Button": "greenbutton/TestGBDataHourlyNineDaysBinnedDaily.xml",
}
"""Files of the real homes in the folder of data sets."""

MOST_MONTHS = 3
ODDS = 0.6


@dataclass(frozen=True)
class _Case:
    """One home with one hidden appliance: the true cells and the promises of both releases."""

    home: str
    appliance: str
    trace: Trace
    series: Promise
    views: Promise

    def promise(self, option: str) -> Promise:
        """The promise of one of `OPTIONS`."""
        return self.views if "calendar" in option else self.series


def read_homes(data: Path | None, seed: int = 0) -> dict[str, Trace]:
    """Read the homes of the table."""
    length = 30 * 24 * 60
    start = "2023-04-01T00:00Z"
    drawn = draw_trace(ready_home("evening"), length, interval_s=60.0, start=start, seed=seed)
    homes = {"evening": drawn.coarsen("1h")}
    for name, place in FILES.items():
        file = None if data is None else data / place
        if file is not None and file.is_file():
            read = read_meter if file.suffix == ".xml" else _read_mains
            homes[name] = _whole_months(read(file).coarsen("1h"))
    return homes


def _read_mains(file: Path) -> Trace:
    """The mains of a home with sub-meters."""
    return read_home_recording(file).trace


def _whole_months(trace: Trace) -> Trace:
    """The first months of a trace, as long as each of them has a complete day."""
    bare = Trace(trace.readings, trace.interval_s, trace.start, steps=trace.steps)
    months = np.unique(bare.times.astype("datetime64[M]"))
    kept: list[np.datetime64] = []
    for month in months:
        part = select_period(bare, f"{month}-01", f"{month + 1}-01")
        if cells_of(metered(part), None).days.complete.any():
            kept.append(month)
        elif kept:
            break
    if not kept:
        raise DataError("no month of these readings has a complete day.")
    last = kept[:MOST_MONTHS][-1]
    return select_period(bare, f"{kept[0]}-01", f"{last + 1}-01")


def compare_options(
    homes: dict[str, Trace],
    *,
    appliances: Sequence[str] = APPLIANCES,
    draws: int = 10,
    seed: int = 0,
    receipts: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Measure the errors of each kind of release for each purpose."""
    import pandas as pd

    whole("draws", draws)
    rows: list[dict[str, object]] = []
    for home, trace in homes.items():
        facts = metered(trace)
        for appliance in appliances:
            if note is not None:
                note(f"{home}: hiding the {appliance}")
            wish = Request(hide=appliance, odds=ODDS, every="1h", mechanism="gaussian")
            views = wish.with_changes(tables=("views",))
            case = _Case(home, appliance, trace, wish.resolve(facts), views.resolve(facts))
            rows += _measure(case, draws, seed, receipts)
    return pd.DataFrame(rows)


def _measure(case: _Case, draws: int, seed: int, receipts: Path | None) -> list[dict[str, object]]:
    """The rows of one home and one appliance."""
    cells = case.views.cells
    true = purpose_values(cells, case.trace.readings)
    squares = {(option, name): 0.0 for option in OPTIONS for name in PURPOSES}
    stated = {option: dict.fromkeys(PURPOSES, np.nan) for option in OPTIONS}
    for draw in range(draws):
        series, views = (p.release(case.trace, rng=seed + draw) for p in (case.series, case.views))
        better, joined = restore(series), restore(views)
        assert isinstance(better, Restored)
        assert isinstance(joined, Release)
        estimates = (series.trace, views.trace, better.trace, joined.trace)
        for option, estimate in zip(OPTIONS, estimates, strict=True):
            for name, values in purpose_values(cells, estimate.readings).items():
                squares[option, name] += float(np.mean((values - true[name]) ** 2)) / draws
        if draw == 0:
            stated["independent"] = _by_purpose(case.series.errors)
            stated["calendar"] = _by_purpose(case.views.errors)
            stated["calendar, restored"] = _view_errors(joined)
            # A restored file states the standard deviation of its values, but not of their sums.
            stated["restored"]["hour"] = _root_mean_square(better.std)
            if receipts is not None:
                _keep(case, series, views, better, receipts)
    return [
        {
            "home": case.home,
            "appliance": case.appliance,
            "option": option,
            "epsilon": case.promise(option).epsilon,
            "odds": case.promise(option).odds,
            "purpose": name,
            "unit": purpose.unit,
            "mean": float(np.mean(np.abs(true[name]))),
            "rmse": float(np.sqrt(squares[option, name])),
            "stated": stated[option][name],
        }
        for option in OPTIONS
        for name, purpose in PURPOSES.items()
    ]


def _keep(case: _Case, series: Release, views: Release, better: Restored, folder: Path) -> None:
    """Write the releases of one draw with their receipts."""
    place = folder / case.home.replace(" ", "-") / case.appliance.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    series.save(place / "independent.csv", force=True)
    views.save(place / "calendar", force=True)
    better.save(place / "restored.csv", force=True)


def purpose_values(cells: Cells, watts: FloatArray) -> dict[str, FloatArray]:
    """The numbers of every purpose by its name [W or kWh], from the mean power of every cell."""
    kwh = cells.interval_s / JOULES_PER_KWH
    days, hours, months = make_tables(("days", "typical-day", "months"), cells)
    return {
        "hour": watts,
        "day": days.sums(watts) * kwh,
        "month": months.sums(watts) * kwh,
        "profile": hours.sums(watts) / hours.members,
        "register": np.cumsum(watts) * kwh,
    }


def _by_purpose(errors: Errors) -> dict[str, float]:
    """The stated standard errors by the name of the purpose."""
    found = {name: errors.of(name) for name in PURPOSES}
    return {name: np.nan if error is None else error for name, error in found.items()}


def _view_errors(views: Release) -> dict[str, float]:
    """Root mean squares of the standard errors of a restored calendar release."""
    names = {"hour": "hours", "day": "days", "month": "months", "profile": "typical-day"}
    return {
        purpose: _root_mean_square(views.view(names.get(purpose, purpose)).errors)
        for purpose in PURPOSES
    }


def _root_mean_square(values: FloatArray) -> float:
    """√(mean of squares)."""
    return float(np.sqrt(np.mean(values**2)))


def options_markdown(table: pd.DataFrame) -> str:
    """Return the table as Markdown: measured error, and the stated standard error in brackets."""
    units = {name: purpose.unit for name, purpose in PURPOSES.items()}
    names = {"profile": "typical day", "register": "register value"}
    head = [f"{names.get(name, name)} [{unit}]" for name, unit in units.items()]
    lines = [
        f"| home | hidden | release | {' | '.join(head)} |",
        "|---|---|---|" + "---|" * len(head),
    ]
    for (home, appliance), part in table.groupby(["home", "appliance"], sort=False):
        own = part[part.option == OPTIONS[0]].set_index("purpose")["mean"]
        cells = " | ".join(_digits(own[name]) for name in PURPOSES)
        lines.append(f"| {home} | {appliance} | *own use* | {cells} |")
        for option in OPTIONS:
            chosen = part[part.option == option].set_index("purpose")
            cells = " | ".join(
                _digits(chosen.rmse[name])
                + ("" if np.isnan(chosen.stated[name]) else f" ({_digits(chosen.stated[name])})")
                for name in PURPOSES
            )
            lines.append(f"| | | {option} | {cells} |")
    return "\n".join(lines) + "\n"


def _digits(value: float) -> str:
    """Three digits at most, without an exponent."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.2g}" if value < 9.95 else f"{value:.1f}"
