"""What the noise costs: errors of readings, hours, days and bills, and the hourly curve."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from hushmeter.formatting import format_watts
from hushmeter.releases.cost import DAYS_PER_MONTH, HOURS_PER_DAY, PRICE_PER_KWH, Cost, expect_cost
from hushmeter.report.blocks import Block, Cell, Picture, make_table, number, spread_out, text
from hushmeter.report.collect import SweepResult
from hushmeter.report.pictures import draw_hours, embed_figure
from hushmeter.report.proofs import make_mechanism
from hushmeter.study.sweep import Utility
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.study.plan import Case, Study

SHOWN_CURVES = 4
EPSILON = Cell("ε", note="one reading")


def mean_utility(table: pd.DataFrame, home: str, mechanism: str) -> dict[float, Utility]:
    """Mean errors over the releases, by ε, largest first; all attackers see the same releases."""
    part = table[(table["home"] == home) & (table["mechanism"] == mechanism)]
    names = [field.name for field in fields(Utility)]
    means = part.drop_duplicates(["epsilon", "seed"]).groupby("epsilon")[names].mean()
    rows = zip(means.index.tolist(), means.to_numpy().tolist(), strict=True)
    return {float(epsilon): Utility(*row) for epsilon, row in sorted(rows, reverse=True)}


def tell_cost(sweep: SweepResult, home: str, mechanism: str, shown: list[float]) -> list[Block]:
    """For the household: what is off by how much, and the hourly curve."""
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
        f"What it costs: how far the released data of “{home}” are off on average. The bill is at "
        f"{PRICE_PER_KWH:.2f} per kWh, over {DAYS_PER_MONTH} days."
    )
    head = (
        EPSILON,
        "a reading",
        "mean of an hour",
        "peak hour",
        "a day’s energy",
        "a month’s bill",
    )
    blocks: list[Block] = [make_table(caption, head, rows)]
    case = sweep.case(home)
    if case is not None and sweep.study is not None:
        blocks += [text(_consumption(case)), *_curves(sweep.study, case, mechanism, shown)]
    return blocks


def tell_errors(sweep: SweepResult, home: str, mechanism: str) -> list[Block]:
    """For the analyst: the law of large numbers, from one reading to a month, as mean power."""
    means = mean_utility(sweep.table, home, mechanism)
    laws = _expected(sweep, home, mechanism)
    rows = [_error_row(epsilon, found, laws.get(epsilon)) for epsilon, found in means.items()]
    caption = (
        f"“{home}”, {mechanism}: mean absolute errors of the released data, measured; below, "
        "expected from the law of the noise. Longer means are better known: the law of large "
        "numbers on the bill."
    )
    head = (
        EPSILON,
        "reading",
        "mean of an hour",
        "peak hour",
        "mean of a day",
        "mean of a month",
        "day [kWh]",
        "bill a month",
    )
    epsilon, worst = list(means.items())[-1]
    told = (
        f"At ε = {epsilon:.3g} a reading is off by {format_watts(worst.reading_error_w)}, the "
        "mean of a "
        f"day by {format_watts(_day_watts(worst.daily_error_kwh))}: independent errors shrink "
        "with the "
        "root of their number, so that the bill of a month is off by "
        f"{worst.monthly_bill_error:.2f}."
    )
    return [make_table(caption, head, rows), text(told)]


def _error_row(epsilon: float, found: Utility, law: Cost | None) -> list[str | Cell]:
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
    if law is not None:
        expected = [
            format_watts(law.reading_w),
            format_watts(law.hourly_w),
            "",
            format_watts(_day_watts(law.daily_kwh)),
            format_watts(_day_watts(law.monthly_kwh) / DAYS_PER_MONTH),
            number(law.daily_kwh, 2),
            f"{law.monthly_bill:.2f}",
        ]
    notes = [f"law {word}" if word else "" for word in expected]
    cells = [Cell(word, note=note) for word, note in zip(measured, notes, strict=True)]
    return [f"{epsilon:.3g}", *cells]


def _day_watts(kwh: float) -> float:
    """Energy of a day [kWh] as its mean power [W]."""
    return 1000 * kwh / HOURS_PER_DAY


def _expected(sweep: SweepResult, home: str, mechanism: str) -> dict[float, Cost]:
    """The errors that the law of the noise lets expect, where the readings are known."""
    case, study = sweep.case(home), sweep.study
    if case is None or study is None:
        return {}
    noises = {e: make_mechanism(study, case, mechanism, e) for e in study.epsilons}
    return {e: expect_cost(noise, case.test.interval_s) for e, noise in noises.items()}


def _consumption(case: Case) -> str:
    span = len(case.test) * case.test.interval_s
    energy = case.test.energy_kwh
    return (
        f"For comparison: in the {span / SECONDS_PER_HOUR:.3g} hours that were attacked the "
        f"household used {energy:.3g} kWh, {format_watts(1000 * energy / span * SECONDS_PER_HOUR)} "
        "on average."
    )


def _curves(study: Study, case: Case, mechanism: str, shown: list[float]) -> list[Block]:
    """The hourly means of the first day, true and in one simulated release for each ε."""
    hourly = case.test.hourly().readings[:HOURS_PER_DAY]
    if hourly.size < 2:
        return []
    released = {}
    for epsilon in spread_out(shown, SHOWN_CURVES):
        noise = make_mechanism(study, case, mechanism, epsilon)
        noisy = noise.release(case.test.readings, rng=study.seed)
        released[epsilon] = case.test.replace_readings(noisy).hourly().readings[:HOURS_PER_DAY]
    caption = (
        f"The hourly curve of “{case.name}”, true and released once at each ε: what a tariff or "
        "a forecast has to work with. Each panel has its own scale; released values may fall "
        "below zero."
    )
    alt = f"Bars of true and lines of released hourly means over {hourly.size} hours."
    return [Picture(embed_figure(draw_hours(hourly, released)), alt, caption)]
