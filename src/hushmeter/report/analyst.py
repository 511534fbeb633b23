"""The section for the analyst: attackers × ε, break points, cost, bounds and accounting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.errors import DataError
from hushmeter.formatting import format_watts, out_of_100
from hushmeter.noise.losses import DELTA, Composition
from hushmeter.plot.accuracy import draw_bounds, draw_sweep, mean_and_band
from hushmeter.releases.promise import account
from hushmeter.report.blocks import (
    Block,
    Cell,
    Heading,
    Picture,
    Points,
    Section,
    embed_figure,
    epsilon_cell,
    make_table,
    number,
    shade,
    signed,
    spread_out,
    text,
)
from hushmeter.report.collect import Results, SweepResult, reading
from hushmeter.report.cost import study_mechanism, study_unit, tell_errors
from hushmeter.report.household import unit_sentence
from hushmeter.report.visibility import BLIND, epsilons_of
from hushmeter.study.comparison import (
    LEAST_POINTS,
    BreakpointFit,
    Interval,
    fit_breakpoints,
    rank_by_slope,
)
from hushmeter.theory.bound import Bound
from hushmeter.theory.bounds import bound_curves
from hushmeter.theory.universal import universal_limit

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.study.definition import Case, Study

LEAD = (
    "This part compares every attacker of the study at every ε: means over releases with 95 % "
    "intervals, the score of a guess without data, the bounds of the theorems, and the cost of "
    "the noise."
)
WITHOUT_STUDY = (
    "Bounds, limits and accounting need the home and its readings. To get them, add the TOML file "
    "of the study: `hushmeter report RESULTS study.toml`."
)


POINTS = 120
"""Points of a curve of bounds."""
MOST_RUNS = 6
"""Largest number of values of ε in the table of runs."""


def tell_analyst(results: Results) -> Section | None:
    """Write the section."""
    blocks: list[Block] = []
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            for home in map(str, sweep.table["home"].unique()):
                blocks += _tell_home(sweep, home)
    return Section("analyst", "For the analyst", LEAD, tuple(blocks)) if blocks else None


def _tell_home(sweep: SweepResult, home: str) -> list[Block]:
    """Describe one home of a sweep."""
    part = sweep.table[sweep.table["home"] == home]
    case = sweep.case(home)
    unit = unit_sentence(sweep.manifest, case)
    blocks: list[Block] = [
        Heading(f"“{home}” in the study “{sweep.manifest['study']}”"),
        text(f"ε protects {unit}.", role="key"),
    ]
    if sweep.failed:
        blocks.append(text(_failures(sweep)))
    floors = {a["label"]: a["name"] for a in sweep.manifest["attackers"] if a["name"] in BLIND}
    for mechanism in map(str, part["mechanism"].unique()):
        blocks += _attackers(part[part["mechanism"] == mechanism], home, mechanism, floors)
    for mechanism in map(str, part["mechanism"].unique()):
        blocks += tell_errors(sweep, home, mechanism)
    if case is None or sweep.study is None:
        return [*blocks, text(WITHOUT_STUDY, role="small")]
    if "laplace" in sweep.study.mechanisms:
        blocks += _laplace_bounds(sweep.study, case)
    for mechanism in sweep.study.mechanisms:
        blocks += _universal_and_account(sweep.study, case, mechanism)
    checked = case.home.check(case.test).sentences
    return [
        *blocks,
        text(f"The assumptions of the paper, checked on “{home}”:"),
        Points(tuple(checked)),
    ]


def _failures(sweep: SweepResult) -> str:
    """Return a sentence about the cells of a sweep that failed."""
    total = len(sweep.failed) + len(sweep.table)
    first = sweep.failed[0].rstrip(".")
    failed = "cell failed and is" if len(sweep.failed) == 1 else "cells failed and are"
    return f"{len(sweep.failed)} of {total} {failed} left out. The first error: {first}."


def _attackers(
    part: pd.DataFrame, home: str, mechanism: str, floors: dict[str, str]
) -> list[Block]:
    """Draw and tabulate one home under one mechanism, and fit the break points."""
    # The figure recognises floors by the names of their attackers, not by their labels.
    drawn = part.assign(attacker=part["attacker"].replace(floors))
    figure = draw_sweep(drawn, f"“{home}”, {mechanism} noise: means over releases with 95 % bands")
    names = ", ".join(map(str, part["attacker"].unique()))
    return [
        Picture(
            embed_figure(figure),
            f"Accuracy α and macro F1 against ln(1/ε) on {home} for {names}.",
            f"Accuracy α and macro F1 against ln(1/ε), “{home}”, {mechanism} noise. The grey "
            "lines are the scores of guesses without data.",
        ),
        _score_table(part, home, mechanism),
        *_breakpoints(part, home, mechanism),
    ]


def _score_table(part: pd.DataFrame, home: str, mechanism: str) -> Block:
    """Return the table of attackers × ε, with the floors below."""
    epsilons = epsilons_of(part)
    rows: list[list[str | Cell]] = []
    for attacker in part["attacker"].unique():
        own = part[part["attacker"] == attacker]
        cells = {e: _score_cell(own[own["epsilon"] == e]) for e in epsilons}
        rows.append([str(attacker), *cells.values()])
    labels = {"everything off": "alpha_floor", "as at the first reading": "hold_floor"}
    # A study in which nobody knows the first state has no floor that needs it.
    floors = [(label, column) for label, column in labels.items() if part[column].notna().any()]
    for label, column in floors:
        value = f"{float(part[column].mean()):.3f}"
        rows.append([f"floor: {label}", *(Cell(value) for _ in epsilons)])
    seeds = part["seed"].nunique()
    caption = (
        f"“{home}”, {mechanism} noise: accuracy α ± half of its 95 % interval over {seeds} "
        f"release{'' if seeds == 1 else 's'}, and macro F1 below it."
    )
    quiet = range(len(rows) - len(floors), len(rows))
    return make_table(caption, ["attacker", *map(epsilon_cell, epsilons)], rows, list(quiet))


def _score_cell(own: pd.DataFrame) -> Cell:
    """Return the mean accuracy of one attacker at one ε with its interval and F1."""
    if own.empty:
        return Cell("–")
    half, f1 = float(mean_and_band(own, "alpha")[2][0]), float(own["f1"].mean())
    width = f" ± {half:.3f}" if len(own) > 1 else ""
    return Cell(f"{own['alpha'].mean():.3f}{width}", note="–" if math.isnan(f1) else f"F1 {f1:.2f}")


def _breakpoints(part: pd.DataFrame, home: str, mechanism: str) -> list[Block]:
    """Fit piecewise-linear functions of ln(1/ε), flattest attacker first."""
    epsilons = epsilons_of(part)
    if len(epsilons) < LEAST_POINTS:
        return [
            text(
                f"Break points can be fitted to at least {LEAST_POINTS} values of ε. This sweep "
                f"has {len(epsilons)}.",
                role="small",
            )
        ]
    fits: dict[str, BreakpointFit] = {}
    for attacker, own in part.groupby("attacker", sort=False):
        grid = own.pivot(index="seed", columns="epsilon", values="alpha").reindex(columns=epsilons)
        whole = grid.dropna().to_numpy()
        if whole.size == 0 or whole.std() == 0:
            continue
        try:
            fits[str(attacker)] = fit_breakpoints(epsilons, whole)
        except DataError:
            continue
    rows = [_fit_row(name, fits[name]) for name in rank_by_slope(fits)]
    caption = (
        f"“{home}”, {mechanism} noise: continuous piecewise-linear fit of α against ln(1/ε), "
        "with 95 % bootstrap intervals, from the least to the most sensitive attacker. The last "
        "column names the fit that the information criterion (BIC) prefers. Attackers that do "
        "not depend on ε are left out."
    )
    head = ("attacker", "break points in ln(1/ε)", "slopes", "steepest slope", "better fit")
    return [make_table(caption, head, rows)] if rows else []


def _fit_row(name: str, fit: BreakpointFit) -> list[str | Cell]:
    """Return one row of the table of break points."""
    steep = fit.steepest
    return [
        name,
        ", ".join(map(_interval, fit.breaks)),
        ", ".join(signed(slope.value) for slope in fit.slopes),
        Cell(signed(steep.value), note=f"{signed(steep.low)} … {signed(steep.high)}"),
        Cell(fit.better, note=f"BIC {number(fit.bic)} against {number(fit.sigmoid_bic)}"),
    ]


def _interval(found: Interval) -> str:
    """Format a value with its interval."""
    word = f"{found.value:.2f} ({found.low:.2f} … {found.high:.2f})"
    return word.replace("-", "−")


def _laplace_bounds(study: Study, case: Case) -> list[Block]:
    """Draw and tabulate Theorems 3 and 4 for this home, with one switch at a time."""
    epsilons = sorted(study.epsilons, reverse=True)
    width = study_unit(study, case).l1
    low, high = min(epsilons) / 2, max(epsilons) * 2
    grid = np.geomspace(high, low, POINTS)
    drawn = bound_curves(case.home, grid, sensitivity=width)
    found = bound_curves(case.home, epsilons, sensitivity=width)
    figure = draw_bounds(drawn, f"One jump of “{case.name}”, one switch at a time, λ = Δf/ε")
    rows = [
        (
            f"{epsilon:.3g}",
            format_watts(found.scale[i]),
            f"{_bound(found.printed.lower, i)} … {_bound(found.printed.upper, i)}",
            f"{_bound(found.corrected.lower, i)} … {_bound(found.corrected.upper, i)}",
            f"{found.exact[i]:.3f}",
            f"{found.limit[i]:.3f}",
        )
        for i, epsilon in enumerate(epsilons)
    ]
    caption = (
        f"One jump of “{case.name}”, Δf = {width:g} W: expected accuracy of the paper’s relaxed "
        "attacker, its bounds (in brackets where they are vacuous), and the limit of any "
        f"attacker. The guess “nothing switched” scores {found.floor:.3f}."
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
    legend = (
        "Theorems 3 and 4 as printed and corrected, the exact curve and the limit of any attacker."
    )
    return [
        Picture(embed_figure(figure), alt, legend, narrow=True),
        make_table(caption, head, rows),
    ]


def _universal_and_account(study: Study, case: Case, mechanism: str) -> list[Block]:
    """Tabulate the best possible attacker: from one reading at every ε, from a run and a day."""
    epsilons = sorted(study.epsilons, reverse=True)
    noises = {e: study_mechanism(study, case, mechanism, e) for e in epsilons}
    limits = {e: universal_limit(case.home, noise) for e, noise in noises.items()}
    rows: list[list[str | Cell]] = [
        [name, *(Cell(out_of_100(limits[e][i]), shade(2 * limits[e][i] - 1)) for e in epsilons)]
        for i, name in enumerate(case.home.names)
    ]
    caption = (
        f"“{case.name}”, {mechanism} noise: how many times out of 100 the best possible attacker "
        "names the state of an appliance correctly from one reading, if on and off are equally "
        "likely. A coin is correct 50 times out of 100."
    )
    blocks: list[Block] = [make_table(caption, ["appliance", *map(epsilon_cell, epsilons)], rows)]
    return [*blocks, _composed_table(case, mechanism, noises)]


def _composed_table(case: Case, mechanism: str, noises: dict[float, Mechanism]) -> Block:
    """Tabulate one run (one activation) at several ε, and one day at one of them."""
    shown = spread_out(list(noises), MOST_RUNS)
    middle = list(noises)[len(noises) // 2]
    accounts = {
        epsilon: account(noises[epsilon], case.home, interval_s=case.test.interval_s)
        for epsilon in {*shown, middle}
    }
    head: list[str | Cell] = ["appliance"]
    head += [Cell(f"run, ε = {epsilon:.3g}", note="of one reading") for epsilon in shown]
    head.append(Cell(f"day, ε = {middle:.3g}", note="of one reading"))
    rows: list[list[str | Cell]] = [
        [name, *(_composed(accounts[e][i].run) for e in shown), _composed(accounts[middle][i].day)]
        for i, name in enumerate(case.home.names)
    ]
    caption = (
        f"“{case.name}”, {mechanism} noise: the same from all readings of one run (one "
        f"activation) and of one day. The composed ε at δ′ = {DELTA:g} is below each number."
    )
    return make_table(caption, head, rows)


def _composed(entry: Composition | None) -> Cell:
    """Return a cell with the odds and the composed ε."""
    if entry is None:
        return Cell("–", note="length is unknown")
    odds = min(entry.odds, 1 - 1e-12)
    return Cell(out_of_100(odds), shade(2 * odds - 1), f"ε = {number(entry.epsilon)}")


def _bound(bound: Bound, at: int) -> str:
    """Format a bound, in brackets if it is vacuous."""
    raw = float(np.atleast_1d(bound.raw)[at])
    return f"{raw:.3f}" if 0 < raw < 1 else f"({number(raw)})"
