"""For the analyst: attackers × ε, break points, what the noise costs, and what can be proved."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hushmeter.errors import DataError
from hushmeter.plot.accuracy import draw_sweep, mean_and_band
from hushmeter.report.blocks import (
    Block,
    Cell,
    Heading,
    Picture,
    Points,
    Section,
    epsilon_cell,
    make_table,
    number,
    signed,
    text,
)
from hushmeter.report.collect import Results, SweepResult, reading
from hushmeter.report.cost import tell_errors
from hushmeter.report.household import unit_sentence
from hushmeter.report.pictures import embed_figure
from hushmeter.report.proofs import laplace_bounds, universal_and_account
from hushmeter.report.sights import BLIND, epsilons_of
from hushmeter.study.breakpoints import (
    LEAST_POINTS,
    BreakpointFit,
    Interval,
    fit_breakpoints,
    rank_by_slope,
)

if TYPE_CHECKING:
    import pandas as pd

LEAD = (
    "Every attacker of the study against every ε, means over releases with 95 % intervals, beside "
    "what a guess without data scores, what the theorems allow and what the noise costs."
)
WITHOUT_STUDY = (
    "Bounds, limits and accounting need the home and its readings: add the study’s TOML to the "
    "results, `hushmeter report RESULTS study.toml`."
)


def tell_analyst(results: Results) -> Section | None:
    """The section, or None without a sweep."""
    blocks: list[Block] = []
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            for home in map(str, sweep.table["home"].unique()):
                blocks += _tell_home(sweep, home, results)
    return Section("analyst", "For the analyst", LEAD, tuple(blocks)) if blocks else None


def _tell_home(sweep: SweepResult, home: str, results: Results) -> list[Block]:
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
        blocks += laplace_bounds(sweep.study, case)
    for mechanism in sweep.study.mechanisms:
        blocks += universal_and_account(sweep.study, case, mechanism, results.receipts)
    checked = case.home.check(case.test).sentences
    return [
        *blocks,
        text(f"The paper’s assumptions, checked on “{home}”:"),
        Points(tuple(checked)),
    ]


def _failures(sweep: SweepResult) -> str:
    total = len(sweep.failed) + len(sweep.table)
    first = sweep.failed[0].rstrip(".")
    return f"{len(sweep.failed)} of {total} cells failed and are left out; the first: {first}."


def _attackers(
    part: pd.DataFrame, home: str, mechanism: str, floors: dict[str, str]
) -> list[Block]:
    """Figure and table of one home under one mechanism, and the break points."""
    # The figure knows floors by the names of their attackers.
    drawn = part.assign(attacker=part["attacker"].replace(floors))
    figure = draw_sweep(drawn, f"“{home}”, {mechanism} noise: means and 95 % bands over releases")
    names = ", ".join(map(str, part["attacker"].unique()))
    return [
        Picture(
            embed_figure(figure),
            f"Accuracy α and macro F1 against ln(1/ε) on {home} for {names}.",
            f"Accuracy α and macro F1 against ln(1/ε), “{home}”, {mechanism} noise. Grey: what a "
            "guess without data scores.",
        ),
        _score_table(part, home, mechanism),
        *_breakpoints(part, home, mechanism),
    ]


def _score_table(part: pd.DataFrame, home: str, mechanism: str) -> Block:
    epsilons = epsilons_of(part)
    rows: list[list[str | Cell]] = []
    for attacker in part["attacker"].unique():
        own = part[part["attacker"] == attacker]
        cells = {e: _score_cell(own[own["epsilon"] == e]) for e in epsilons}
        rows.append([str(attacker), *cells.values()])
    floors = (("everything off", "alpha_floor"), ("as at the first reading", "hold_floor"))
    for label, column in floors:
        value = f"{float(part[column].mean()):.3f}"
        rows.append([f"floor: {label}", *(Cell(value) for _ in epsilons)])
    seeds = part["seed"].nunique()
    caption = (
        f"“{home}”, {mechanism}: accuracy α with half its 95 % interval over {seeds} releases; "
        "below, macro F1."
    )
    quiet = range(len(rows) - len(floors), len(rows))
    return make_table(caption, ["attacker", *map(epsilon_cell, epsilons)], rows, list(quiet))


def _score_cell(own: pd.DataFrame) -> Cell:
    if own.empty:
        return Cell("–")
    half, f1 = float(mean_and_band(own, "alpha")[2][0]), float(own["f1"].mean())
    width = f" ± {half:.3f}" if len(own) > 1 else ""
    return Cell(f"{own['alpha'].mean():.3f}{width}", note="–" if math.isnan(f1) else f"F1 {f1:.2f}")


def _breakpoints(part: pd.DataFrame, home: str, mechanism: str) -> list[Block]:
    """Piecewise-linear fits against ln(1/ε), flattest attacker first."""
    epsilons = epsilons_of(part)
    if len(epsilons) < LEAST_POINTS:
        return [
            text(
                f"Break points need at least {LEAST_POINTS} values of ε; this sweep has "
                f"{len(epsilons)}.",
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
        f"“{home}”, {mechanism}: continuous piecewise-linear fit of α against ln(1/ε), with 95 % "
        "bootstrap intervals, from robust to fragile. The last column: which fit the information "
        "criterion (BIC) prefers. Attackers that do not depend on ε are left out."
    )
    head = ("attacker", "break points in ln(1/ε)", "slopes", "steepest slope", "better fit")
    return [make_table(caption, head, rows)] if rows else []


def _fit_row(name: str, fit: BreakpointFit) -> list[str | Cell]:
    steep = fit.steepest
    return [
        name,
        ", ".join(map(_interval, fit.breaks)),
        ", ".join(signed(slope.value) for slope in fit.slopes),
        Cell(signed(steep.value), note=f"{signed(steep.low)} … {signed(steep.high)}"),
        Cell(fit.better, note=f"BIC {number(fit.bic)} against {number(fit.sigmoid_bic)}"),
    ]


def _interval(found: Interval) -> str:
    word = f"{found.value:.2f} ({found.low:.2f} … {found.high:.2f})"
    return word.replace("-", "−")
