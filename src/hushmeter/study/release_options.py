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

from hushmeter.advice.hiding import Plan, plan_to_hide
from hushmeter.advice.planner import calendar_of
from hushmeter.advice.purposes import PURPOSES, StandardErrors
from hushmeter.checks import FloatArray, whole
from hushmeter.errors import DataError
from hushmeter.learn.homes import select_period
from hushmeter.read import read_home_recording, read_meter
from hushmeter.releases.calendar import Calendar, lay_out
from hushmeter.releases.restore import Restored, restore
from hushmeter.releases.series import release
from hushmeter.releases.view_plan import HOURLY_COST
from hushmeter.releases.views import release_views
from hushmeter.synth import ready_home
from hushmeter.synth import trace as draw_trace
from hushmeter.trace import JOULES_PER_KWH, Trace

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.releases.calendar_release import CalendarRelease
    from hushmeter.releases.series import Release

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
    """One home with one hidden appliance: the true cells and the plans of both releases."""

    home: str
    appliance: str
    trace: Trace
    calendar: Calendar
    series: Plan
    views: Plan


def find_homes(data: Path | None, seed: int = 0) -> dict[str, Trace]:
    """Read the homes of the table.

    Parameters
    ----------
    data : Path or None
        Folder of the data sets; a missing file is left out.
    seed : int
        Seed of the synthetic home.

    Returns
    -------
    dict from str to Trace
        Hourly means of up to three months in which every month has a complete day. The synthetic
        home "evening" comes first; it has 30 days.
    """
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
        try:
            lay_out(part, "UTC")
        except DataError:
            if kept:
                break
            continue
        kept.append(month)
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
    """Measure the errors of each kind of release for each purpose.

    Parameters
    ----------
    homes : dict from str to Trace
        Hourly readings by the name of the home; see `find_homes`.
    appliances : sequence of str
        Appliances to hide, one at a time, to odds of 60 out of 100.
    draws : int, default 10
        Number of simulated releases of each kind.
    seed : int
        Seed of the noise.
    receipts : Path, optional
        Folder in which the first draw of every release is kept, with its receipts.
    note : callable, optional
        Called with a line of text before every home and appliance.

    Returns
    -------
    DataFrame
        One row for each home, appliance, kind of release and purpose: `epsilon`, `odds`, the
        `unit` of the errors, the own `mean` of the home, the root mean square error `rmse` over
        all draws, and the `stated` standard error (NaN where a restored file states none).
    """
    import pandas as pd

    whole("draws", draws)
    rows: list[dict[str, object]] = []
    for home, trace in homes.items():
        calendar = calendar_of(trace, trace.interval_s)
        assert calendar is not None
        for appliance in appliances:
            if note is not None:
                note(f"{home}: hiding the {appliance}")
            case = _Case(
                home,
                appliance,
                trace,
                calendar,
                _plan(appliance, trace, calendar, "series"),
                _plan(appliance, trace, calendar, "calendar"),
            )
            rows += _measure(case, draws, seed, receipts)
    return pd.DataFrame(rows)


def _plan(appliance: str, trace: Trace, calendar: Calendar, form: str) -> Plan:
    """Hours with independent Gaussian noise, or a calendar release, at the same odds."""
    return plan_to_hide(
        appliance,
        ODDS,
        interval_s=trace.interval_s,
        every="1h",
        forms=(form,),
        calendar=calendar,
        mechanisms="gaussian",
        hourly_costs=(HOURLY_COST,),
    )


def _measure(case: _Case, draws: int, seed: int, receipts: Path | None) -> list[dict[str, object]]:
    """The rows of one home and one appliance."""
    true = purpose_values(case.calendar, case.trace.readings)
    squares = {(option, name): 0.0 for option in OPTIONS for name in PURPOSES}
    stated = {option: dict.fromkeys(PURPOSES, np.nan) for option in OPTIONS}
    for draw in range(draws):
        series = release(case.trace, case.series.mechanism, case.series.unit, rng=seed + draw)
        views = release_views(
            case.trace, epsilon=case.views.option.epsilon, unit=case.views.unit, rng=seed + draw
        )
        better, joined = restore(series), restore(views)
        cells = {
            "independent": series.trace.readings,
            "calendar": views.estimate,
            "restored": better.trace.readings,
            "calendar, restored": joined.estimate,
        }
        for option, estimate in cells.items():
            for name, values in purpose_values(case.calendar, estimate).items():
                squares[option, name] += float(np.mean((values - true[name]) ** 2)) / draws
        if draw == 0:
            stated["independent"] = _by_purpose(case.series.option.errors)
            stated["calendar"] = _by_purpose(case.views.option.errors)
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
            "epsilon": (case.views if "calendar" in option else case.series).option.epsilon,
            "odds": (case.views if "calendar" in option else case.series).option.odds,
            "purpose": name,
            "unit": purpose.unit,
            "mean": float(np.mean(np.abs(true[name]))),
            "rmse": float(np.sqrt(squares[option, name])),
            "stated": stated[option][name],
        }
        for option in OPTIONS
        for name, purpose in PURPOSES.items()
    ]


def _keep(
    case: _Case, series: Release, views: CalendarRelease, better: Restored, folder: Path
) -> None:
    """Write the releases of one draw with their receipts."""
    place = folder / case.home.replace(" ", "-") / case.appliance.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    series.save(place / "independent.csv", force=True)
    views.save(place / "calendar", force=True)
    better.save(place / "restored.csv", force=True)


def purpose_values(calendar: Calendar, cells: FloatArray) -> dict[str, FloatArray]:
    """The numbers of every purpose that follow from hourly cells.

    Parameters
    ----------
    calendar : Calendar
        Months, days and hours of the day of the cells.
    cells : array, shape (n,)
        Mean power of each cell [W].

    Returns
    -------
    dict from str to array
        By the name of the purpose: hours and hours of the typical day of each month [W], days,
        months and register values [kWh].
    """
    kwh = calendar.cells.interval_s / JOULES_PER_KWH
    days, hours, months = calendar.tables
    known = hours.members > 0
    return {
        "hour": cells,
        "day": days.sums(cells) * kwh,
        "month": months.sums(cells) * kwh,
        "profile": hours.sums(cells)[known] / hours.members[known],
        "register": np.cumsum(cells) * kwh,
    }


def _by_purpose(errors: StandardErrors) -> dict[str, float]:
    """The stated standard errors by the name of the purpose."""
    found = {name: errors.of(name) for name in PURPOSES}
    return {name: np.nan if error is None else error for name, error in found.items()}


def _view_errors(views: CalendarRelease) -> dict[str, float]:
    """Root mean squares of the standard errors of a restored calendar release."""
    order = ("hour", "day", "profile", "month", "register")
    found = zip(order, views.views, strict=True)
    return {name: _root_mean_square(view.errors) for name, view in found}


def _root_mean_square(values: FloatArray) -> float:
    """√(mean of squares)."""
    return float(np.sqrt(np.mean(values**2)))


def options_markdown(table: pd.DataFrame) -> str:
    """Return the table as Markdown: measured error, and the stated standard error in brackets.

    Parameters
    ----------
    table : DataFrame
        From `compare_options`.

    Returns
    -------
    str
    """
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
