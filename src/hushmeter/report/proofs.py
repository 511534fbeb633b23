"""For the analyst: bounds in every form, the limit of any attacker, and what runs and days add."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.formatting import format_watts, out_of_100
from hushmeter.home import Appliance
from hushmeter.plot.accuracy import draw_bounds
from hushmeter.privacy.accounting import (
    DELTA,
    SECONDS_PER_DAY,
    ApplianceAccount,
    Composition,
    account,
    compose,
)
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.report.blocks import (
    Block,
    Cell,
    Picture,
    epsilon_cell,
    make_table,
    number,
    shade,
    spread_out,
)
from hushmeter.report.collect import Saved, reading
from hushmeter.report.pictures import embed_figure
from hushmeter.theory.bound import Bound
from hushmeter.theory.bounds import bound_curves
from hushmeter.theory.universal import universal_limit

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.study.plan import Case, Study

POINTS = 120
MOST_RUNS = 6


def laplace_bounds(study: Study, case: Case) -> list[Block]:
    """Theorems 3 and 4 on this home, one switch at a time: figure and table."""
    epsilons = sorted(study.epsilons, reverse=True)
    width = _unit(study, case).l1
    low, high = min(epsilons) / 2, max(epsilons) * 2
    grid = np.geomspace(high, low, POINTS)
    drawn = bound_curves(case.home, grid, sensitivity=width)
    told = bound_curves(case.home, epsilons, sensitivity=width)
    figure = draw_bounds(drawn, f"One jump of “{case.name}”, one switch at a time, λ = Δf/ε")
    rows = [
        (
            f"{epsilon:.3g}",
            format_watts(told.scale[i]),
            f"{_bound(told.printed.lower, i)} … {_bound(told.printed.upper, i)}",
            f"{_bound(told.corrected.lower, i)} … {_bound(told.corrected.upper, i)}",
            f"{told.exact[i]:.3f}",
            f"{told.limit[i]:.3f}",
        )
        for i, epsilon in enumerate(epsilons)
    ]
    caption = (
        f"One jump of “{case.name}”, Δf = {width:g} W: expected accuracy of the paper’s relaxed "
        "attacker, its bounds (in brackets where they say nothing), and what no attacker beats. "
        f"“Nothing switched” scores {told.floor:.3f}."
    )
    head = (
        Cell("ε", note="one reading"),
        "λ",
        "printed bounds",
        "corrected bounds",
        "exact",
        "any attacker",
    )
    alt = f"Bounds, exact accuracy and universal limit against ln(1/ε) for {case.name}."
    legend = "Theorems 3 and 4 as printed and as they hold, the exact curve and the limit of all."
    return [
        Picture(embed_figure(figure), alt, legend, narrow=True),
        make_table(caption, head, rows),
    ]


def universal_and_account(
    study: Study, case: Case, mechanism: str, receipts: list[Saved]
) -> list[Block]:
    """What the best attacker can know: from one reading at every ε, from a run and a day."""
    epsilons = sorted(study.epsilons, reverse=True)
    noises = {e: make_mechanism(study, case, mechanism, e) for e in epsilons}
    limits = {e: universal_limit(case.home, noise) for e, noise in noises.items()}
    rows: list[list[str | Cell]] = [
        [name, *(Cell(out_of_100(limits[e][i]), shade(2 * limits[e][i] - 1)) for e in epsilons)]
        for i, name in enumerate(case.home.names)
    ]
    caption = (
        f"“{case.name}”, {mechanism}: how often of 100 any attacker at best names an appliance’s "
        "state from one reading, on and off equally likely (a coin: 50)."
    )
    blocks: list[Block] = [make_table(caption, ["appliance", *map(epsilon_cell, epsilons)], rows)]
    return [*blocks, _composed_table(case, mechanism, noises, receipts)]


def _composed_table(
    case: Case, mechanism: str, noises: dict[float, Mechanism], receipts: list[Saved]
) -> Block:
    """One run (one activation) at several ε, and one day at one of them."""
    shown = spread_out(list(noises), MOST_RUNS)
    middle = list(noises)[len(noises) // 2]
    days = _account(noises[middle], case, receipts)
    head: list[str | Cell] = ["appliance"]
    head += [Cell(f"run, ε = {epsilon:.3g}", note="of one reading") for epsilon in shown]
    head.append(Cell(f"day, ε = {middle:.3g}", note="of one reading"))
    rows: list[list[str | Cell]] = [
        [a.name, *(_composed(_run(noises[e], a, case)) for e in shown), _composed(day.day)]
        for a, day in zip(case.home.appliances, days, strict=True)
    ]
    caption = (
        f"“{case.name}”, {mechanism}: the same from one run (one activation) and from one day of "
        f"readings; below, the composed ε at δ′ = {DELTA:g}."
    )
    return make_table(caption, head, rows)


def _run(mechanism: Mechanism, appliance: Appliance, case: Case) -> Composition | None:
    if appliance.run_s is None:
        return None
    length = math.ceil(appliance.run_s / case.test.interval_s)
    return compose(mechanism, [(max(appliance.on_levels), length)])


def make_mechanism(study: Study, case: Case, mechanism: str, epsilon: float) -> Mechanism:
    """The noise of a cell of the study."""
    return calibrate(mechanism, epsilon, _unit(study, case), delta=study.delta)


def _unit(study: Study, case: Case) -> Unit:
    return resolve_unit(
        study.protect, interval_s=case.test.interval_s, home=case.home, watts=study.sensitivity
    )


def _account(
    mechanism: Mechanism, case: Case, receipts: list[Saved]
) -> tuple[ApplianceAccount, ...]:
    """Composed anew, or taken from a receipt of the same noise on the same home."""
    wanted = [(a.name, max(a.on_levels)) for a in case.home.appliances]
    for receipt in receipts:
        with reading(receipt.path):
            told = receipt.content
            noise = mechanism.describe()
            same = {name: told["mechanism"].get(name) for name in noise} == noise
            same = same and told["unit"]["window"] == 1 and "appliances" in told
            same = same and told["unit"]["interval_s"] == case.test.interval_s
            if same and [(a["name"], a["watts"]) for a in told["appliances"]] == wanted:
                return tuple(map(_read_account, told["appliances"]))
    per_day = round(SECONDS_PER_DAY / case.test.interval_s)
    return account(mechanism, case.home, per_day, interval_s=case.test.interval_s)


def _read_account(entry: dict[str, Any]) -> ApplianceAccount:
    spans = {
        key: None if entry[key] is None else Composition(**entry[key])
        for key in ("reading", "run", "day")
    }
    return ApplianceAccount(**(entry | spans))


def _composed(entry: Composition | None) -> Cell:
    if entry is None:
        return Cell("–", note="length unknown")
    odds = min(entry.odds, 1 - 1e-12)
    return Cell(out_of_100(odds), shade(2 * odds - 1), f"ε = {number(entry.epsilon)}")


def _bound(bound: Bound, at: int) -> str:
    """In brackets where it says nothing."""
    raw = float(np.atleast_1d(bound.raw)[at])
    return f"{raw:.3f}" if 0 < raw < 1 else f"({number(raw)})"
