"""Figures 2 to 5: the paper's own attackers, one-shot, multi-shot and hierarchical.

Figures 3 and 4 also show the attackers with the exact problem (P1) and signed jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hushmeter.apps.plot.accuracy import SweepPanel, draw_bound_panels, draw_panels
from hushmeter.apps.study.comparison import (
    MOST_OF_THE_RANGE,
    RESAMPLES,
    Comparison,
    Details,
    Interval,
    Statement,
    judge_rate,
    resampled_interval,
    tell_rate,
)
from hushmeter.apps.study.figures import (
    CALM,
    EPSILONS,
    PARTS,
    Caption,
    ReproducedItem,
    Setting,
    Source,
    compare,
    find_concentrated,
    find_eight,
    find_thirteen,
    other_homes,
    tell_meaning,
)
from hushmeter.apps.study.sweep import Case, Contender, paper_mechanism, release_on_grid
from hushmeter.assumptions import quiet_jumps
from hushmeter.attack.hierarchical import split
from hushmeter.attack.one_shot import OneShot
from hushmeter.checks import FloatArray, IntArray
from hushmeter.home import Home
from hushmeter.scoring import accuracy, draw_blocks
from hushmeter.theory import one_shot
from hushmeter.theory.bounds import BoundCurves, bound_curves, series_curves

if TYPE_CHECKING:
    from hushmeter.theory.bounds import Bounds
    from hushmeter.trace import Trace

SIGNED = {"solver": "exact", "direction": "signed"}
GRID = np.geomspace(10, 1e-3, 200)
DOTS = np.linspace(0, GRID.size - 1, 10).round().astype(int)
BOUND_FORMS = ("corrected", "printed")
NEAR = 0.05
PAPER_GROUPS = 4


def one_shot_figure(setting: Setting) -> ReproducedItem:
    """Fig. 2: one-shot accuracy with the printed and corrected bounds and the exact accuracy.

    Each panel has one distribution of switches, with its own floor and limit.
    """
    source, part = find_eight(setting), find_concentrated(setting)
    home = source.case.home
    panels: dict[str, tuple[BoundCurves, FloatArray | None]] = {
        f"{source.name}: every single switch equally likely": (bound_curves(home, GRID), None),
        f"{source.name}: the switches of its readings": _measured_panel(source, setting),
    }
    if part is not None:
        panels[f"{part.name}: the switches of its readings"] = _measured_panel(part, setting)
    single, (own, dots) = next(iter(panels.values()))[0], list(panels.values())[1]
    assert dots is not None
    verdict, reason = _judge_bounds(single)
    finding = (
        f"over single switches the exact accuracy falls from {single.exact.max():.3f} to "
        f"{single.exact.min():.3f} (“nothing switched”: {single.floor:.3f}); over the switches of "
        f"the readings from {own.exact.max():.3f} to {own.exact.min():.3f} (“nothing switched”: "
        f"{own.floor:.4f}).{_say_assumptions(source, part)}"
    )
    claim = (
        "the actual accuracy lies between a lower bound that is loose and an upper bound that is "
        "tight, and falls at the rate 1/ε."
    )
    table = pd.concat(
        [
            pd.DataFrame({"panel": name, **curves.columns(), "measured": dotted})
            for name, (curves, dotted) in panels.items()
        ],
        ignore_index=True,
    )
    details = (
        *source.details,
        *(() if part is None else part.details),
        ("bounds, single switches", _detail_bounds(single)),
        ("bounds, own switches", _detail_bounds(own)),
        ("measured, own switches", f"from {np.nanmax(dots):.3f} to {np.nanmin(dots):.3f}"),
        ("noise", NOISE_WORDS),
        ("domain of Theorem 3", tell_domain(single)),
        ("rate, own switches", tell_rate(GRID[::10], own.exact[::10])),
        _about("single switches", judge_rate(GRID[::10], single.exact[::10])[0]),
        _about("single switches", _judge_tightness(single)),
        _about("own switches", _judge_varying(source.case, own)),
    )
    words = Caption("fig2", source.words, claim, finding, verdict, reason, details)
    title = f"Fig. 2: one-shot accuracy, {source.name}"
    figure = draw_bound_panels(panels, title, tell_meaning(source))
    return ReproducedItem(words, table, figure)


NOISE_WORDS = "Laplace, scale λ = Δf/ε with Δf = δ/2, on a grid of at most λ/20"


def tell_domain(curves: BoundCurves) -> str:
    """Words about the tolerances for which the lower bound of Theorem 3 can be positive."""
    inside = curves.tolerance < curves.largest_tolerance
    side = "inside" if inside else "outside: the printed bound says nothing here"
    return (
        f"b > 0 needs δ < N/(2 + C) = {curves.largest_tolerance:.2f} W; δ is "
        f"{curves.tolerance:g} W, {side}"
    )


def _judge_tightness(curves: BoundCurves) -> Statement:
    """Whether the printed upper bound is near the exact accuracy in most of the range."""
    gap = np.asarray(curves.printed.upper) - curves.exact
    near = float((np.abs(gap) < NEAR).mean())
    because = (
        f"it is {gap.min():+.3f} to {gap.max():+.3f} above the exact accuracy of single switches, "
        f"nearer than {NEAR} in {near:.0%} of the range"
    )
    return Statement("the upper bound is tight", near > MOST_OF_THE_RANGE, because)


def _judge_varying(case: Case, own: BoundCurves) -> Statement:
    """Whether a tolerance δ_t, the largest quiet jump of each part, closes most of the gap.

    The paper explains its loose lower bound by a sensitivity that varies in time. The corrected
    lower bound does not depend on δ, so that the printed one is computed with the δ_t of `PARTS`
    parts of the readings, at the same noise.
    """
    found = [
        max(float(quiet_jumps(case.test.select(rows)).max(initial=0.0)), 1e-3)
        for rows in np.array_split(np.arange(len(case.test)), PARTS)
    ]

    def lower(tolerance: float) -> FloatArray:
        home = Home(case.home.appliances, tolerance, case.home.base_load)
        return np.asarray(one_shot.integral_lower(home, own.scale).clipped)

    plain, varying = lower(case.home.tolerance), np.mean([lower(d) for d in found], axis=0)
    gaps = [float((own.exact - bound).mean()) for bound in (plain, varying)]
    at = int(np.abs(own.epsilon - 1).argmin())
    because = (
        f"largest quiet jump of {PARTS} parts from {min(found):.3g} to {max(found):.3g} W; the "
        f"lower bound of the paper’s proof at ε = {own.epsilon[at]:.2g} is {plain[at]:.3f} with "
        f"one δ and {varying[at]:.3f} with δ_t at the same noise, the exact accuracy "
        f"{own.exact[at]:.3f}; mean gap over all ε {gaps[0]:.3f} and {gaps[1]:.3f}"
    )
    words = "the lower bound is loose because the sensitivity varies in time"
    return Statement(words, gaps[1] < gaps[0] / 2, because)


def _measured_panel(source: Source, setting: Setting) -> tuple[BoundCurves, FloatArray]:
    """The curves for the switches of the readings, and the accuracy measured on them."""
    dots = np.full(GRID.size, np.nan)
    dots[DOTS] = simulate_one_shot(source.case, GRID[DOTS], setting)
    return bound_curves(source.case.home, GRID, trace=source.case.test), dots


def _say_assumptions(source: Source, part: Source | None) -> str:
    """A sentence about the assumptions of the paper that fail in this home."""
    failing = source.failing
    if not failing:
        return ""
    fails = f"{failing} {'fail' if ' and ' in failing else 'fails'} in this home"
    if part is None:
        return f" {fails}."
    hold = "all three hold" if not part.failing else f"{part.failing} still fails"
    return f" {fails}; for {part.name} {hold}."


def simulate_one_shot(
    case: Case, epsilons: FloatArray, setting: Setting, *, unexplained: str = "all"
) -> FloatArray:
    """Return the measured accuracy of the one-shot attacker at each ε, as a mean over the seeds."""
    attacker, inside = OneShot(case.home, unexplained=unexplained), ~case.test.run_starts
    means = []
    for i, epsilon in enumerate(epsilons):
        noise = paper_mechanism("laplace", float(epsilon), case.unit())
        found = []
        for seed in range(setting.seeds):
            rng = np.random.default_rng(np.random.SeedSequence((setting.seed, i, seed)))
            released = release_on_grid(case.test, noise, rng)
            named = attacker.predict_switches(released, known_states=case.test.truth(), rng=rng)
            found.append(accuracy(named[inside], case.test.switches[inside]))
        means.append(float(np.mean(found)))
    return np.array(means)


def _judge_bounds(curves: BoundCurves) -> tuple[str, str]:
    """The verdict on Fig. 2: the bounds and a guess, compared with the exact curve."""
    outside = {form: _outside(getattr(curves, form), curves.exact) for form in BOUND_FORMS}
    beats = float((curves.exact > curves.floor).mean())
    gap = float((np.asarray(curves.printed.upper) - curves.exact).min())
    inside = curves.tolerance < curves.largest_tolerance
    needs = "" if inside else f", which need δ < {curves.largest_tolerance:.3g} W,"
    reason = (
        f"the exact curve leaves the printed bounds{needs} in {outside['printed']:.0%} of the "
        f"range and the corrected ones in {outside['corrected']:.0%}, and is better than “nothing "
        f"switched” in {beats:.0%}."
    )
    if not any(outside.values()) and beats > 0.5 and gap < NEAR:
        return "agrees", reason
    return ("in part" if outside["corrected"] == 0 else "differs"), reason


def _detail_bounds(curves: BoundCurves) -> str:
    """How useful the printed bounds are, as words."""
    useful = 1 - float(np.mean(curves.printed.lower.vacuous))
    gap = float((np.asarray(curves.printed.upper) - curves.exact).min())
    return (
        f"printed lower bound not vacuous in {useful:.0%} of the range; printed upper bound at "
        f"least {gap:.2f} above the exact curve"
    )


def _outside(found: Bounds, curve: FloatArray) -> float:
    """The share of the curve that lies outside a pair of bounds."""
    slack = 1e-9
    lower, upper = np.asarray(found.lower), np.asarray(found.upper)
    return float(((curve < lower - slack) | (curve > upper + slack)).mean())


PLAIN = "Algorithm 1, no correction"


def multi_shot_figure(setting: Setting) -> ReproducedItem:
    """Fig. 3: Algorithm 1, with Theorem 5 and the exact accuracy before error correction."""
    source, part = find_eight(setting), find_concentrated(setting)
    contenders = (
        Contender("Algorithm 1", "multi-shot", knows_noise=False),
        Contender(
            "Algorithm 1 as printed", "multi-shot", {"correction": "paper"}, knows_noise=False
        ),
        Contender(PLAIN, "multi-shot", {"correction": "none"}, knows_noise=False),
        Contender("Algorithm 1, (P1) signed", "multi-shot", SIGNED, knows_noise=False),
    )
    found = compare(source.case, setting, contenders)
    tested = examine_causes(source.case, setting, found, contenders[0])
    verdict, reason = _judge_sight(found, "Algorithm 1", tested)
    panels, details, tables = [], [("noise", NOISE_WORDS)], [found.table]
    for one in filter(None, (source, part)):
        rows = found if one is source else compare(one.case, setting, contenders[:3])
        curves = series_curves(one.case.home, one.case.test, EPSILONS)
        bounds = _by_form("Theorem 5", curves.series)
        exact = {EXACT: curves.exact}
        panels.append(
            SweepPanel(
                rows.table, "alpha", one.name, bounds=bounds, curves=exact, bands=rows.bands()
            )
        )
        details += [
            *one.details,
            (f"intervals, {one.name}", _tell_blocks(rows)),
            (f"Theorem 5, {one.name}", _tell_bounds(bounds, rows, PLAIN)),
            (f"exact E[α_m], {one.name}", _tell_exact(curves.exact, rows, PLAIN)),
            *(_about(one.name, judged) for judged in judge_rate(EPSILONS, curves.exact)),
        ]
        if one is not source:
            tables.append(rows.table)
    details += [("tested cause", words) for words in tested.values()]
    details += _tell_homes(found, setting, contenders)
    panels.insert(1, SweepPanel(found.table, "f1", source.name, bands=found.bands("f1")))
    caption = Caption(
        "fig3",
        source.words,
        "the multi-shot accuracy is remarkably good and falls linearly in ln(1/ε), at the rate of "
        "the theorem.",
        f"{_levels(found, 'Algorithm 1')}{_say_assumptions(source, part)}",
        verdict,
        reason,
        tuple(details),
    )
    return _make_item(caption, found, panels, "Fig. 3: multi-shot accuracy", source, tables)


def _about(place: str, judged: Statement) -> tuple[str, str]:
    """A judged statement as a detail, with the home it is about."""
    name, value = judged.row
    return f"{place}, {name}", value


def _tell_blocks(found: Comparison) -> str:
    return f"95 %, over {found.blocks} and the releases, paired"


def examine_causes(
    case: Case, setting: Setting, found: Comparison, contender: Contender
) -> dict[str, str]:
    """What changes the accuracy with little noise: (P1) for (P3), and readings that fit the model.

    A sentence for each, with its paired interval, by whether the change surely helps.
    """
    model = case.test.truth() @ case.home.powers + case.home.base_load
    other = replace(case, test=case.test.replace_readings(model))
    modelled = compare(other, setting, (contender,), epsilons=(CALM,))
    name = contender.label
    one, blocks = found.resampled(name)
    gaps = {
        "unmodelled power": resampled_interval(
            modelled.resampled(name)[0][:, 0] - one[:, 0], blocks
        ),
    }
    solver = f"{name}, (P1) signed"
    if solver in found.names:
        gaps["the choice of (P3)"] = found.difference(solver, name)
    words = {
        "unmodelled power": "each reading replaced by the sum of the powers of what is on changes",
        "the choice of (P3)": "the exact problem (P1) with signed jumps in place of (P3) changes",
    }
    return {
        cause: f"{words[cause]} α at ε = {CALM:g} by {gap}"
        + (" and helps" if gap.low > 0 else " and harms" if gap.high < 0 else ", undecided")
        for cause, gap in gaps.items()
    }


def _tell_homes(
    found: Comparison, setting: Setting, contenders: tuple[Contender, ...]
) -> list[tuple[str, str]]:
    """The same attackers on further homes, with intervals over the homes."""
    homes = other_homes(setting)
    if not homes:
        return []
    pair = (contenders[0], contenders[-1])
    names = [one.label for one in pair]
    alphas = [[found.mean(name) for name in names]]
    for one in homes:
        rows = compare(one.case, setting, pair, epsilons=(CALM,), seeds=2)
        alphas.append([rows.mean(name) for name in names])
    table = np.array(alphas)
    drawn = np.vstack([np.ones(len(table)), draw_blocks(len(table), RESAMPLES)])
    resampled = drawn @ table / drawn.sum(axis=1, keepdims=True)
    listed = [
        f"{name}: {' / '.join(f'{a:.3f}' for a in column)}, mean "
        f"{resampled_interval(values, len(table))}"
        for name, column, values in zip(names, table.T, resampled.T, strict=True)
    ]
    gap = resampled_interval(resampled[:, 1] - resampled[:, 0], len(table))
    where = ", ".join(one.name for one in homes)
    return [
        (
            f"α at ε = {CALM:g} over {len(table)} homes",
            f"this home, {where}: {'; '.join(listed)}; difference {gap} (intervals over homes)",
        )
    ]


EXACT = "exact E[α_m] before correction"


def _by_form(name: str, found: Sequence[Bounds]) -> dict[str, Bounds]:
    """Bounds of a theorem by their names, corrected and printed."""
    return {f"{name}, {one.form}": one for one in found if one.form in BOUND_FORMS}


def _tell_bounds(series: dict[str, Bounds], found: Comparison, name: str) -> str:
    """Words about the width of the bounds and how often an attacker's mean violates them."""
    measured = np.array([found.mean(name, epsilon=e) for e in EPSILONS])
    listed = []
    for form, one in series.items():
        gap = float((np.asarray(one.upper) - np.asarray(one.lower)).max())
        wrong = round(_outside(one, measured) * len(EPSILONS))
        listed.append(
            f"{form}: up to {max(gap, 0.0):.3f} apart, violated at {wrong} of {len(EPSILONS)} ε"
        )
    return "; ".join(listed)


def _tell_exact(exact: FloatArray, found: Comparison, name: str) -> str:
    """Words about the exact accuracy and the largest difference of the measured mean to it."""
    measured = np.array([found.mean(name, epsilon=e) for e in EPSILONS])
    apart = float(np.abs(measured - exact).max())
    return (
        f"{exact[0]:.3f} at ε = {EPSILONS[0]:g}, {exact[-1]:.3f} at ε = {EPSILONS[-1]:g}; the "
        f"simulated mean differs by at most {apart:.4f}"
    )


def _levels(found: Comparison, name: str) -> str:
    """A sentence about an attacker with little and with much noise."""
    much = EPSILONS[7]
    return (
        f"α of {name} is {found.tell(name)} at ε = {CALM:g} and {found.tell(name, epsilon=much)} "
        f"at ε = {much:.2g} (floor {found.floor:.3f}), F1 {found.mean(name, 'f1'):.2f} and "
        f"{found.mean(name, 'f1', much):.2f}."
    )


def hierarchical_figure(setting: Setting) -> ReproducedItem:
    """Fig. 4: Algorithm 2 on thirteen appliances, with Theorem 6 and the exact accuracy."""
    source = find_thirteen(setting)
    contenders = (
        Contender("Algorithm 2", "hierarchical", knows_noise=False),
        Contender("Algorithm 1", "multi-shot", knows_noise=False),
        Contender(PLAIN, "multi-shot", {"correction": "none"}, knows_noise=False),
        Contender("Algorithm 2, (P1) signed", "hierarchical", SIGNED, knows_noise=False),
    )
    home, test = source.case.home, source.case.test
    seeds = 2 if len(test) > MANY_READINGS else None
    found = compare(source.case, setting, contenders, seeds=seeds)
    groups = split(home.powers, home.tolerance)
    curves = series_curves(home, test[:SERIES_READINGS], EPSILONS, hierarchical=True)
    top = home.subset([home.names[i] for i in groups[0]])
    largest = series_curves(
        top, _only(test[:SERIES_READINGS], groups[0]), (CALM, EPSILONS[5])
    ).exact
    tested = examine_causes(source.case, setting, found, contenders[0])
    verdict, reason = _judge_sight(found, "Algorithm 2", tested)
    flatter = found.slope_difference("Algorithm 2", "Algorithm 1")
    if verdict == "differs" and flatter.low > 0:
        verdict = "in part"
    part = (
        ""
        if len(test) <= SERIES_READINGS
        else f"Theorem 6 and E[α_m] are for the first {curves.readings} readings"
    )
    bounds = _by_form("Theorem 6", curves.hierarchies)
    details = (
        *source.details,
        ("groups", f"{len(groups)} of {', '.join(str(g.size) for g in groups)} appliances; the "
                   f"paper has {PAPER_GROUPS}"),
        *_tell_groups(find_concentrated(setting)),
        ("noise", NOISE_WORDS),
        ("intervals", _tell_blocks(found)),
        (
            "claim “quite robust”",
            f"steepest slope of Algorithm 2 minus that of Algorithm 1: {flatter}",
        ),
        *(("tested cause", words) for words in tested.values()),
        ("Theorem 6", _tell_bounds(bounds, found, "Algorithm 2")),
        ("rate", tell_rate(EPSILONS, [found.mean("Algorithm 2", epsilon=e) for e in EPSILONS])),
        ("exact", f"over the first {curves.readings} readings, for Algorithm 1; the group of the "
                  f"largest appliances has {largest[0]:.3f} at ε = {CALM:g} and {largest[1]:.3f} "
                  f"at ε = {EPSILONS[5]:.2g}"),
    )  # fmt: skip
    heading = f"{source.name}. {part}".strip(". ")
    panels = [
        SweepPanel(
            found.table,
            "alpha",
            heading,
            bounds=bounds,
            curves={EXACT: curves.exact},
            bands=found.bands(),
        ),
        SweepPanel(found.table, "f1", source.name, bands=found.bands("f1")),
    ]
    caption = Caption(
        "fig4",
        source.words,
        "with thirteen appliances in four groups the hierarchical algorithm performs remarkably "
        "and is quite robust against noise.",
        f"{_levels(found, 'Algorithm 2')}{_say_assumptions(source, None)}",
        verdict,
        reason,
        details,
    )
    return _make_item(caption, found, panels, "Fig. 4: hierarchical accuracy", source)


def _tell_groups(part: Source | None) -> Details:
    """The number of groups of a part of a home in which Assumption 3 holds; one needs no groups."""
    if part is None:
        return ()
    count = len(split(part.case.home.powers, part.case.home.tolerance))
    alone = ": Algorithm 2 is Algorithm 1 there, which Fig. 3 shows" if count == 1 else ""
    return ((f"groups, {part.name}", f"{count}{alone}"),)


SERIES_READINGS = 21_600
"""Largest number of readings of the exact curve: six hours of 1 s take half a minute."""
MANY_READINGS = 50_000
"""Number of readings beyond which two releases are enough."""


def _only(trace: Trace, appliances: IntArray) -> Trace:
    """The same readings with the states of some appliances only."""
    assert trace.names is not None
    power = None if trace.power is None else trace.power[:, appliances]
    return trace.derive(
        states=trace.truth()[:, appliances],
        power=power,
        names=[trace.names[i] for i in appliances],
    )


def _judge_sight(found: Comparison, name: str, tested: dict[str, str]) -> tuple[str, str]:
    """The verdict on an attacker: its accuracy with little noise, compared with a guess.

    Only causes whose removal surely helps are named.
    """
    seen, floor, f1 = found.mean(name), found.floor, found.mean(name, "f1")
    share = (seen - floor) / (1 - floor)
    closes = f"closes {share:.0%}" if share > 0 else "closes none"
    best = found.rank()[0]
    rival = "" if best == name else f"; {best} has α {found.mean(best):.3f}"
    causes = " and ".join(cause for cause, words in tested.items() if words.endswith("helps"))
    reason = (
        f"with little noise {name} {closes} of the gap between the floor and full accuracy{rival}; "
        + (
            f"tested causes that cost accuracy: {causes}."
            if causes
            else "no tested cause explains it."
        )
    )
    if share >= 0.5 and f1 >= 0.5:
        return "agrees", reason
    return ("in part" if share > NEAR else "differs"), reason


def noise_figure(setting: Setting) -> ReproducedItem:
    """Fig. 5: Laplace, staircase and Gaussian noise at the same ε."""
    source, part = find_eight(setting), find_concentrated(setting)
    contenders = (
        Contender("Algorithm 1", "multi-shot", knows_noise=False),
        Contender("(P1) signed", "multi-shot", SIGNED, knows_noise=False),
    )
    found = _compare_noises(source.case, setting, contenders)
    two, third = _spread(found, "staircase"), _spread(found, "Gaussian")
    panels = [
        SweepPanel(found.table, m, source.name, "series", bands=found.bands(m))
        for m in ("alpha", "f1")
    ]
    details, tables = [*source.details, ("intervals", _tell_blocks(found))], [found.table]
    if part is not None:
        other = _compare_noises(part.case, setting, contenders[:1])
        two = max(two, _spread(other, "staircase"), key=lambda gap: gap.value)
        panels.append(SweepPanel(other.table, "alpha", part.name, "series", bands=other.bands()))
        details += part.details
        tables.append(other.table)
    details.append(("noise", NOISE_WORDS))
    details.append(("Gaussian noise", f"(ε, 1e-6); its mean accuracy differs by up to {third}"))
    caption = Caption(
        "fig5",
        source.words,
        "Laplace and staircase noise lead to similar relationships of accuracy and ε.",
        f"{_levels(found, 'Algorithm 1, Laplace')}{_say_assumptions(source, part)}",
        *_judge_spread(two),
        tuple(details),
    )
    title = "Fig. 5: the same ε with other noise"
    return _make_item(caption, found, panels, title, source, tables)


def _compare_noises(case: Case, setting: Setting, contenders: tuple[Contender, ...]) -> Comparison:
    """Sweep a case under three mechanisms; a series is an attacker under one of them."""
    found = compare(case, setting, contenders, mechanisms=("laplace", "staircase", "gaussian"))
    table = found.table.copy()
    kinds = table.mechanism.replace({"laplace": "Laplace", "gaussian": "Gaussian"})
    table.insert(0, "series", table.attacker + ", " + kinds)
    return replace(found, table=table, by="series")


def _spread(found: Comparison, kind: str) -> Interval:
    """The largest difference of the mean accuracy to Laplace noise, with its paired interval.

    The largest is taken over ε and attackers, and the interval is that of this cell.
    """
    gaps = [
        found.difference(f"{name}, Laplace", f"{name}, {kind}", epsilon=epsilon)
        for name in found.table.attacker.unique()
        for epsilon in found.epsilons
    ]
    widest = max(gaps, key=lambda gap: abs(gap.value))
    low, high = sorted(abs(end) for end in (widest.low, widest.high))
    low = 0.0 if widest.low < 0 < widest.high else low
    return Interval(abs(widest.value), low, high)


def _judge_spread(gap: Interval) -> tuple[str, str]:
    """The verdict on Fig. 5: whether the largest difference is surely small."""
    low, high = gap.low, gap.high
    reason = (
        f"the mean accuracies under Laplace and staircase noise differ by at most {gap.value:.3f} "
        f"[{low:.3f}, {high:.3f}]; up to {NEAR:g} counts as similar."
    )
    if low < NEAR <= high:
        return "undecided", reason
    return ("agrees" if high < NEAR else "in part" if low < 2 * NEAR else "differs"), reason


def _make_item(
    caption: Caption,
    found: Comparison,
    panels: Sequence[SweepPanel],
    title: str,
    source: Source,
    tables: Sequence[pd.DataFrame] = (),
) -> ReproducedItem:
    """An item whose panels are sweeps; the details of its caption get the slopes."""
    words = replace(caption, details=(*caption.details, *found.tell_robustness()))
    table = pd.concat(tables, ignore_index=True) if len(tables) > 1 else found.table
    figure = draw_panels(panels, f"{title}, {source.name}", note=tell_meaning(source))
    return ReproducedItem(words, table, figure, found.robustness())
