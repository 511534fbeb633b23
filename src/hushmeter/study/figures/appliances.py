"""Each appliance under differential privacy, which the paper names as future work.

Every panel shows one appliance: what each attacker reaches about it, and the exact odds of the best
possible attacker from one reading and over a typical run.
"""

from __future__ import annotations

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.plot.accuracy import SweepPanel, draw_panels
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.study.figures.attackers import (
    BAYES,
    compare_all,
    limit_over_runs,
    typical_run,
)
from hushmeter.study.figures.comparison import Comparison
from hushmeter.study.figures.item import EPSILONS, Caption, ReproducedItem, Setting
from hushmeter.study.figures.sources import Source, find_building
from hushmeter.theory.universal import universal_limit

SHOWN = tuple(EPSILONS[i] for i in (0, 3, 5, 7))
ONE, RUN = "best possible, one reading", "best possible, one run"


def appliances_figure(setting: Setting) -> ReproducedItem:
    """Accuracy about each appliance against ln(1/ε), with the exact odds of the best attacker."""
    import pandas as pd

    source = find_building(setting)
    home, test = source.case.home, source.case.test
    found = compare_all(source, setting, authors=False)
    limits = _limits(source)
    on = test.truth().mean(axis=0)
    panels, rows, tables = [], [], []
    for i, name in enumerate(home.names):
        mine = found.table[["attacker", "epsilon", "seed"]].assign(
            appliance=name, alpha=found.table[f"alpha {name}"], alpha_floor=1 - on[i]
        )
        curves = {label: values[:, i] for label, values in limits.items()}
        heading = f"{name}, {home.powers[i]:.0f} W, on {on[i]:.1%} of the time"
        drawn = mine[mine.attacker != "hold"]
        panels.append(SweepPanel(drawn, "alpha", heading, curves=curves))
        table = mine.copy()
        for label, values in curves.items():
            table[label] = table.epsilon.map(dict(zip(EPSILONS, values, strict=True)))
        tables.append(table)
        rows.append((name, _tell(Comparison(mine), curves)))
    ahead = _above_the_limit(found, limits, home.names)
    large, small = int(np.argmax(home.powers)), int(np.argmin(home.powers))
    odds = 100 * limits[ONE][EPSILONS.index(SHOWN[2])]
    caption = Caption(
        "appliances",
        f"{source.words}, means over {test.interval_s:g} s",
        "a more detailed analysis of individual appliances under DP could be conducted.",
        f"noise hides small appliances first: at ε = {SHOWN[2]:.2g} the best possible attacker is "
        f"right about {home.names[large]} in {odds[large]:.0f} out of 100 moments from one "
        f"reading, and about {home.names[small]} in {odds[small]:.0f}.",
        "agrees",
        f"the analysis is done; {BAYES} exceeds the limit of one reading for {ahead} of "
        f"{len(home)} appliances at some ε, because it uses all readings of a run.",
        (
            *source.details,
            ("columns", "ε = " + " / ".join(f"{e:.2g}" for e in SHOWN)),
            *rows,
        ),
    )
    figure = draw_panels(panels, f"Each appliance under noise, {source.name}")
    return ReproducedItem(caption, pd.concat(tables, ignore_index=True), figure)


def _limits(source: Source) -> dict[str, FloatArray]:
    """Exact odds of the best attacker from one reading and over one run, shape (E, N)."""
    case = source.case
    unit = resolve_unit("fluctuation", interval_s=case.test.interval_s, home=case.home)
    on = case.test.truth().mean(axis=0)
    lengths = [typical_run(case.test, i) for i in range(len(case.home))]
    mechanisms = [calibrate("laplace", epsilon, unit) for epsilon in EPSILONS]
    return {
        ONE: np.array([universal_limit(case.home, one, on) for one in mechanisms]),
        RUN: np.array([limit_over_runs(case.home, one, on, lengths) for one in mechanisms]),
    }


def _tell(mine: Comparison, curves: dict[str, FloatArray]) -> str:
    """Odds of the best possible attacker and of the best one here at a few ε, as words."""
    place = [EPSILONS.index(e) for e in SHOWN]
    listed = [
        f"{label} {' / '.join(f'{values[k]:.3f}' for k in place)}"
        for label, values in curves.items()
    ]
    best = [mine.rank(epsilon=e)[0] for e in SHOWN]
    reached = [f"{mine.mean(name, epsilon=e):.3f}" for name, e in zip(best, SHOWN, strict=True)]
    who = " / ".join(best) if len(set(best)) > 1 else best[0]
    listed.append(f"best attacker here {' / '.join(reached)}, which is {who}")
    off = float(mine.table.alpha_floor.iloc[0])
    return f"{'; '.join(listed)}; everything off {off:.3f}"


def _above_the_limit(
    found: Comparison, limits: dict[str, FloatArray], names: tuple[str, ...]
) -> int:
    """Number of appliances about which Bayes is right more often than one reading allows."""
    count = 0
    for i, name in enumerate(names):
        reached = [found.mean(BAYES, f"alpha {name}", e) for e in EPSILONS]
        count += bool((np.array(reached) > limits[ONE][:, i] + 0.005).any())
    return count
