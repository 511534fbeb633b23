"""The cost of the noise: errors of readings, hours, days and bills, and the hourly curve."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from hushmeter.formatting import format_watts
from hushmeter.plot.readings import draw_hours
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.releases.purposes import (
    DAYS_PER_MONTH,
    HOURS_PER_DAY,
    PRICE_PER_KWH,
    Cost,
    expect_cost,
)
from hushmeter.report.blocks import (
    Block,
    Cell,
    Picture,
    embed_figure,
    make_table,
    number,
    spread_out,
    text,
)
from hushmeter.report.collect import SweepResult
from hushmeter.study.sweep import Utility
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.study.definition import Case, Study

SHOWN_CURVES = 4
"""Largest number of values of ε for which the hourly curve is drawn."""
EPSILON = Cell("ε", note="one reading")


def study_unit(study: Study, case: Case) -> Unit:
    """Return the unit of protection of a study on one of its cases."""
    return resolve_unit(
        study.protect, interval_s=case.test.interval_s, home=case.home, size=study.sensitivity
    )


def study_mechanism(study: Study, case: Case, mechanism: str, epsilon: float) -> Mechanism:
    """Return the noise that a study adds to one of its cases at one ε."""
    return calibrate(mechanism, epsilon, study_unit(study, case), delta=study.delta)


def mean_utility(table: pd.DataFrame, home: str, mechanism: str) -> dict[float, Utility]:
    """Compute the mean errors over the releases of a sweep at every ε."""
    part = table[(table["home"] == home) & (table["mechanism"] == mechanism)]
    names = [field.name for field in fields(Utility)]
    means = part.drop_duplicates(["epsilon", "seed"]).groupby("epsilon")[names].mean()
    rows = zip(means.index.tolist(), means.to_numpy().tolist(), strict=True)
    return {float(epsilon): Utility(*row) for epsilon, row in sorted(rows, reverse=True)}


def tell_cost(sweep: SweepResult, home: str, mechanism: str, shown: list[float]) -> list[Block]:
    """Describe the cost for the household: the usual errors, and the hourly curve."""
    means = mean_utility(sweep.table, home, mechanism)
    rows = [
        (
            f"{epsilon:.3g}",
            format_watts(means[epsilon].reading_error_w),
            format_watts(means[epsilon].hourly_error_w),
            format_watts(means[epsilon].peak_error_w),
            f"{number(means[epsilon].daily_error_kwh, 2)} kWh",
            f"{means[epsilon].monthly_bill_error:.2f}",
        )
        for epsilon in shown
    ]
    caption = (
        f"The cost of the noise: mean errors of the released data of “{home}”. The bill is for "
        f"{DAYS_PER_MONTH} days at {PRICE_PER_KWH:.2f} per kWh."
    )
    head = (
        EPSILON,
        "one reading",
        "mean of an hour",
        "peak hour",
        "energy of a day",
        "bill of a month",
    )
    blocks: list[Block] = [make_table(caption, head, rows)]
    case = sweep.case(home)
    if case is not None and sweep.study is not None:
        blocks += [text(_consumption(case)), *_curves(sweep.study, case, mechanism, shown)]
    return blocks


def tell_errors(sweep: SweepResult, home: str, mechanism: str) -> list[Block]:
    """Describe the errors for the analyst, from one reading to the mean of a month."""
    means = mean_utility(sweep.table, home, mechanism)
    expected = _expected(sweep, home, mechanism)
    rows = [_error_row(epsilon, found, expected.get(epsilon)) for epsilon, found in means.items()]
    caption = (
        f"“{home}”, {mechanism} noise: measured mean absolute errors of the released data, and "
        "below them the errors that the noise distribution predicts. The longer the period, the "
        "smaller the error of its mean."
    )
    head = (
        EPSILON,
        "reading",
        "mean of an hour",
        "peak hour",
        "mean of a day",
        "mean of a month",
        "energy of a day [kWh]",
        "bill of a month",
    )
    epsilon, worst = list(means.items())[-1]
    told = (
        f"At ε = {epsilon:.3g} for one reading, the mean error of a reading is "
        f"{format_watts(worst.reading_error_w)}, but that of the mean of a day is only "
        f"{format_watts(_day_watts(worst.daily_error_kwh))}. Independent errors partly cancel, so "
        f"that the error of a month’s bill is {worst.monthly_bill_error:.2f}."
    )
    return [make_table(caption, head, rows), text(told)]


def _error_row(epsilon: float, found: Utility, cost: Cost | None) -> list[str | Cell]:
    """Return one row of measured errors, with the expected ones below them."""
    day = _day_watts(found.daily_error_kwh)
    measured = [
        format_watts(found.reading_error_w),
        format_watts(found.hourly_error_w),
        format_watts(found.peak_error_w),
        format_watts(day),
        format_watts(day / math.sqrt(DAYS_PER_MONTH)),
        number(found.daily_error_kwh, 2),
        f"{found.monthly_bill_error:.2f}",
    ]
    expected = [""] * len(measured)
    if cost is not None:
        expected = [
            format_watts(cost.reading_w or 0.0),
            format_watts(cost.hourly_w or 0.0),
            "",
            format_watts(_day_watts(cost.daily_kwh)),
            format_watts(_day_watts(cost.monthly_kwh) / DAYS_PER_MONTH),
            number(cost.daily_kwh, 2),
            f"{cost.monthly_bill:.2f}",
        ]
    notes = [f"expected {word}" if word else "" for word in expected]
    cells = [Cell(word, note=note) for word, note in zip(measured, notes, strict=True)]
    return [f"{epsilon:.3g}", *cells]


def _day_watts(kwh: float) -> float:
    """Return the mean power [W] of a day with this energy [kWh]."""
    return 1000 * kwh / HOURS_PER_DAY


def _expected(sweep: SweepResult, home: str, mechanism: str) -> dict[float, Cost]:
    """Return the errors that the noise distribution predicts, if the readings are known."""
    case, study = sweep.case(home), sweep.study
    if case is None or study is None:
        return {}
    noises = {e: study_mechanism(study, case, mechanism, e) for e in study.epsilons}
    return {e: expect_cost(noise, case.test.interval_s) for e, noise in noises.items()}


def _consumption(case: Case) -> str:
    """Return a sentence about the use of the household, for comparison."""
    span = len(case.test) * case.test.interval_s
    energy = case.test.energy_kwh
    return (
        f"For comparison: in the {span / SECONDS_PER_HOUR:.3g} hours that were attacked, the "
        f"household used {energy:.3g} kWh, which is a mean power of "
        f"{format_watts(1000 * energy / span * SECONDS_PER_HOUR)}."
    )


def _curves(study: Study, case: Case, mechanism: str, shown: list[float]) -> list[Block]:
    """Draw the hourly means of the first day, true and in one simulated release for each ε."""
    hourly = case.test.hourly().readings[:HOURS_PER_DAY]
    if hourly.size < 2:
        return []
    released = {}
    for epsilon in spread_out(shown, SHOWN_CURVES):
        noise = study_mechanism(study, case, mechanism, epsilon)
        noisy = noise.release(case.test.readings, rng=study.seed)
        released[epsilon] = case.test.replace_readings(noisy).hourly().readings[:HOURS_PER_DAY]
    caption = (
        f"The hourly curve of “{case.name}”, true and released once at each ε. A tariff or a "
        "forecast works with the released curve. Each panel has its own scale, and released "
        "values may be below zero."
    )
    alt = f"Bars of true and lines of released hourly means over {hourly.size} hours."
    return [Picture(embed_figure(draw_hours(hourly, released)), alt, caption)]
