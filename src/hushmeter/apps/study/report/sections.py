"""The sections of the page: what their templates show of the results.

Each function fills one section. The words are in the templates, one file for each section.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.apps.plot.accuracy import SweepPanel, draw_bounds, draw_panels, mean_and_band
from hushmeter.apps.plot.readings import draw_hours
from hushmeter.apps.study.comparison import (
    LEAST_POINTS,
    BreakpointFit,
    fit_breakpoints,
    rank_by_slope,
)
from hushmeter.apps.study.figures import item_title, sentence
from hushmeter.apps.study.report.page import (
    BLIND,
    FOLLOWED,
    ApplianceVisibility,
    Cell,
    ItemResult,
    Results,
    Row,
    Section,
    SweepResult,
    blind_labels,
    embed_figure,
    embed_file,
    epsilons_of,
    number,
    rate_appliances,
    reading,
    shade,
    signed,
)
from hushmeter.apps.study.sweep import Utility
from hushmeter.errors import DataError
from hushmeter.formatting import format_watts, odds_out_of_100, out_of_100, spread_out
from hushmeter.noise.losses import DELTA
from hushmeter.releases.promise import account
from hushmeter.releases.purposes import (
    DAYS_PER_MONTH,
    HOURS_PER_DAY,
    PRICE_PER_KWH,
    Cost,
    expect_cost,
)
from hushmeter.theory.bounds import bound_curves
from hushmeter.theory.universal import universal_limit
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.apps.study.sweep import Case, Study
    from hushmeter.noise.losses import Composition
    from hushmeter.theory.one_shot import Bound

MOST_EPSILONS, IN_WORDS = 8, 4
SHOWN_CURVES = 4
"""Largest number of values of ε for which the hourly curve is drawn."""
POINTS = 120
"""Points of a curve of bounds."""
MOST_RUNS = 6
"""Largest number of values of ε in the table of runs."""
MOST_ROWS, MENU_LINES = 12, 12
FIGURES = {
    "battery": "The load, the metered power, the charge of the battery, and the visibility.",
    "exposure": "A battery that is too small does not hide the load: δ̂ and visibility by capacity.",
    "controllers": "All controllers on the same load and noise.",
    "sizing": "Capacity, power and yearly cost against ε.",
}


def fill_household(section: Section, results: Results) -> None:
    """Which appliance is visible at which ε, and what it costs to hide it."""
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            for home in sweep.table["home"].unique():
                section.add("visible", it=_visible(sweep, str(home)))
    for receipt in results.receipts:
        with reading(receipt.path):
            name = receipt.path.name.removesuffix(".receipt.json").removesuffix(".private.json")
            rows = _promised_rows(receipt.content)
            section.add("receipt", it=receipt.content, name=name, rows=rows)


def unit_sentence(sweep: SweepResult, case: Case | None) -> str:
    """Return what every ε of a sweep protects, in words."""
    if case is not None and sweep.study is not None:
        return sweep.study.unit(case).sentence
    manifest = sweep.manifest
    subject = {
        "appliance": "whether any one appliance is on",
        "fluctuation": "fluctuations within a state, but not switches",
        "range": "any value of a reading",
        "change": f"any change of up to {manifest['sensitivity']} W",
    }[manifest["protect"]]
    return f"{subject}, in one metered reading"


def _visible(sweep: SweepResult, home: str) -> dict[str, Any]:
    """Appliances × ε, which of them are followed, and what the noise costs."""
    part = sweep.table[sweep.table["home"] == home]
    mechanism, case = str(part["mechanism"].iloc[0]), sweep.case(home)
    rows = rate_appliances(sweep, home, mechanism)
    shown = spread_out(epsilons_of(part), MOST_EPSILONS)
    return {
        "home": home,
        "mechanism": mechanism,
        "attackers": part["attacker"].nunique() - len(blind_labels(sweep)),
        "releases": part["seed"].nunique(),
        "unit": unit_sentence(sweep, case),
        "followed": _followed(rows, shown),
        "head": [
            "appliance",
            "without your data",
            *map(epsilon_cell, shown),
            "followed down to",
        ],
        "rows": [_visible_row(row, shown) for row in rows],
        "odds": {e: [_odds(row, e) for row in rows] for e in spread_out(shown, IN_WORDS)},
        "costs": _cost_rows(mean_utility(sweep.table, home, mechanism), shown),
        "bill_days": DAYS_PER_MONTH,
        "price": PRICE_PER_KWH,
        "use": None if case is None else _consumption(case),
        "curves": None if case is None else _curves(sweep.study, case, mechanism, shown),
    }


def _visible_row(row: ApplianceVisibility, shown: list[float]) -> Row:
    """One appliance: how often somebody is right about it, and down to which ε."""
    cells: list[str | Cell] = [row.name, _share(row.guess)]
    for epsilon in shown:
        found = row.best[epsilon]
        cells.append(Cell(_share(found.right), shade(found.visibility)))
    last = row.followed_down_to
    return [*cells, "–" if last is None else f"ε = {last:.3g}"]


def _followed(rows: list[ApplianceVisibility], shown: list[float]) -> list[str]:
    """Return one sentence for each ε about the appliances that can be followed."""
    lines = []
    for epsilon in shown:
        names = [r.name for r in rows if r.best[epsilon].visibility > FOLLOWED]
        lines.append(f"At ε = {epsilon:.3g} for one reading, {_names(names, len(rows))}")
    lines.append(
        "An appliance can be followed if the readings remove more than half of the doubt that a "
        "guess without your data leaves."
    )
    return lines


def _names(followed: list[str], total: int) -> str:
    """Return “2 of 8 appliances can be followed: …”."""
    who = f": {', '.join(followed)}." if followed else "."
    return f"{len(followed) or 'none'} of {total} appliances can be followed{who}"


def _odds(row: ApplianceVisibility, epsilon: float) -> str:
    found = row.best[epsilon]
    if found.right == row.guess:
        return (
            f"No attacker is better about the {row.name} than a guess without your data, which is "
            f"right in {_share(row.guess)} out of 100 moments."
        )
    return (
        f"The attacker “{found.attacker}” is right about the {row.name} in {_share(found.right)} "
        f"out of 100 moments. A guess without your data is right in {_share(row.guess)}."
    )


def _share(value: float) -> str:
    """Format a share out of 100, or a dash if it is unknown."""
    return "–" if np.isnan(value) else out_of_100(value)


def epsilon_cell(epsilon: float) -> Cell:
    """Return the heading of a column: ε with its unit of protection below it."""
    return Cell(f"ε = {epsilon:.3g}", note="one reading")


def _promised_rows(told: dict[str, Any]) -> list[Row]:
    """The proved odds of the best possible attacker about every appliance of a receipt."""
    spans = ("when",) if told["unit"]["span"] == "when" else ("reading", "run", "day")
    return [
        [f"{a['name']} ({a['watts']:g} W)", *(_promised(a[span]) for span in spans)]
        for a in told.get("appliances", ())
    ]


def _promised(entry: dict[str, Any] | None) -> Cell:
    """Return a cell with the proved odds and the composed ε."""
    if entry is None:
        return Cell("–", note="length is unknown")
    return _odds_cell(entry["odds"], min(entry["basic"], entry["pld"]))


def _odds_cell(odds: float, epsilon: float) -> Cell:
    """Odds out of 100, never rounded up to certainty, with the composed ε below them."""
    return Cell(odds_out_of_100(odds), shade(2 * odds - 1), f"ε = {number(epsilon)}")


def mean_utility(table: pd.DataFrame, home: str, mechanism: str) -> dict[float, Utility]:
    """Compute the mean errors over the releases of a sweep at every ε."""
    part = table[(table["home"] == home) & (table["mechanism"] == mechanism)]
    names = [field.name for field in fields(Utility)]
    means = part.drop_duplicates(["epsilon", "seed"]).groupby("epsilon")[names].mean()
    rows = zip(means.index.tolist(), means.to_numpy().tolist(), strict=True)
    return {float(epsilon): Utility(*row) for epsilon, row in sorted(rows, reverse=True)}


def _cost_rows(means: dict[float, Utility], shown: list[float]) -> list[Row]:
    """The usual errors of a release at every ε."""
    return [
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


def _consumption(case: Case) -> dict[str, float]:
    """The use of the household, for comparison."""
    span, energy = len(case.test) * case.test.interval_s, case.test.energy_kwh
    mean = 1000 * energy / span * SECONDS_PER_HOUR
    return {"hours": span / SECONDS_PER_HOUR, "kwh": energy, "mean_w": mean}


def _curves(
    study: Study | None, case: Case, mechanism: str, shown: list[float]
) -> dict[str, Any] | None:
    """Draw the hourly means of the first day, true and in one simulated release for each ε."""
    hourly = case.test.hourly().readings[:HOURS_PER_DAY]
    if study is None or hourly.size < 2:
        return None
    released = {}
    for epsilon in spread_out(shown, SHOWN_CURVES):
        noise = study.noise(case, mechanism, epsilon)
        noisy = noise.release(case.test.readings, rng=study.seed)
        released[epsilon] = case.test.replace_readings(noisy).hourly().readings[:HOURS_PER_DAY]
    return {"source": embed_figure(draw_hours(hourly, released)), "hours": hourly.size}


def fill_analyst(section: Section, results: Results) -> None:
    """Attackers × ε, break points, cost, bounds and accounting."""
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            for home in map(str, sweep.table["home"].unique()):
                section.add("home", it=_analyse(sweep, home))


def _analyse(sweep: SweepResult, home: str) -> dict[str, Any]:
    """One home of a sweep, under every mechanism."""
    part, case = sweep.table[sweep.table["home"] == home], sweep.case(home)
    mechanisms = list(map(str, part["mechanism"].unique()))
    floors = {a["label"]: a["name"] for a in sweep.manifest["attackers"] if a["name"] in BLIND}
    return {
        "home": home,
        "study": sweep.manifest["study"],
        "unit": unit_sentence(sweep, case),
        "failed": sweep.failed,
        "cells": len(sweep.table),
        "least_points": LEAST_POINTS,
        "scores": [_scores(part[part["mechanism"] == m], home, m, floors) for m in mechanisms],
        "errors": [_errors(sweep, home, m) for m in mechanisms],
        "known": None if case is None or sweep.study is None else _known(sweep.study, case),
    }


def _scores(
    part: pd.DataFrame, home: str, mechanism: str, floors: dict[str, str]
) -> dict[str, Any]:
    """The figure, the table of attackers × ε with the floors below, and the break points."""
    # The figure recognises floors by the names of their attackers, not by their labels.
    drawn = part.assign(attacker=part["attacker"].replace(floors))
    panels = [SweepPanel(drawn, measure) for measure in ("alpha", "f1")]
    title = f"“{home}”, {mechanism} noise: means over releases with 95 % bands"
    epsilons = epsilons_of(part)
    rows: list[Row] = []
    for attacker in part["attacker"].unique():
        own = part[part["attacker"] == attacker]
        rows.append([str(attacker), *(_score_cell(own[own["epsilon"] == e]) for e in epsilons)])
    labels = {"everything off": "alpha_floor", "as at the first reading": "hold_floor"}
    # A study in which nobody knows the first state has no floor that needs it.
    known = {label: column for label, column in labels.items() if part[column].notna().any()}
    for label, column in known.items():
        rows.append([f"floor: {label}", *[f"{float(part[column].mean()):.3f}"] * len(epsilons)])
    return {
        "mechanism": mechanism,
        "names": list(map(str, part["attacker"].unique())),
        "releases": part["seed"].nunique(),
        "figure": embed_figure(draw_panels(panels, title)),
        "head": ["attacker", *map(epsilon_cell, epsilons)],
        "rows": rows,
        "floors": len(known),
        "fits": _fits(part, epsilons) if len(epsilons) >= LEAST_POINTS else None,
    }


def _score_cell(own: pd.DataFrame) -> str | Cell:
    """Return the mean accuracy of one attacker at one ε with its interval and F1."""
    if own.empty:
        return "–"
    half, f1 = float(mean_and_band(own, "alpha")[2][0]), float(own["f1"].mean())
    width = f" ± {half:.3f}" if len(own) > 1 else ""
    return Cell(f"{own['alpha'].mean():.3f}{width}", note="–" if math.isnan(f1) else f"F1 {f1:.2f}")


def _fits(part: pd.DataFrame, epsilons: list[float]) -> list[Row]:
    """Fit piecewise-linear functions of ln(1/ε), flattest attacker first."""
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
    return [_fit_row(name, fits[name]) for name in rank_by_slope(fits)]


def _fit_row(name: str, fit: BreakpointFit) -> Row:
    steep = fit.steepest
    breaks = ", ".join(f"{one.value:.2f} ({one.low:.2f} … {one.high:.2f})" for one in fit.breaks)
    return [
        name,
        breaks.replace("-", "−"),
        ", ".join(signed(slope.value) for slope in fit.slopes),
        Cell(signed(steep.value), note=f"{signed(steep.low)} … {signed(steep.high)}"),
        Cell(fit.better, note=f"BIC {number(fit.bic)} against {number(fit.sigmoid_bic)}"),
    ]


def _errors(sweep: SweepResult, home: str, mechanism: str) -> dict[str, Any]:
    """Errors from one reading to the mean of a month, measured and expected."""
    means = mean_utility(sweep.table, home, mechanism)
    expected: dict[float, Cost] = {}
    case, study = sweep.case(home), sweep.study
    if case is not None and study is not None:
        noises = {e: study.noise(case, mechanism, e) for e in study.epsilons}
        expected = {e: expect_cost(noise, case.test.interval_s) for e, noise in noises.items()}
    epsilon, worst = list(means.items())[-1]
    return {
        "mechanism": mechanism,
        "rows": [_error_row(e, found, expected.get(e)) for e, found in means.items()],
        "epsilon": epsilon,
        "worst": worst,
        "worst_day_w": _day_watts(worst.daily_error_kwh),
    }


def _error_row(epsilon: float, found: Utility, cost: Cost | None) -> Row:
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
            _stated(cost.reading_w, format_watts),
            _stated(cost.hourly_w, format_watts),
            "",
            _stated(cost.daily_kwh, lambda kwh: format_watts(_day_watts(kwh))),
            format_watts(_day_watts(cost.monthly_kwh) / DAYS_PER_MONTH),
            _stated(cost.daily_kwh, lambda kwh: number(kwh, 2)),
            f"{cost.monthly_bill:.2f}",
        ]
    notes = [f"expected {word}" if word else "" for word in expected]
    cells = [Cell(word, note=note) for word, note in zip(measured, notes, strict=True)]
    return [f"{epsilon:.3g}", *cells]


def _stated(value: float | None, text: Callable[[float], str]) -> str:
    """Return an error as text; nothing if the release does not show what it is about."""
    return "" if value is None else text(value)


def _day_watts(kwh: float) -> float:
    """Return the mean power [W] of a day with this energy [kWh]."""
    return 1000 * kwh / HOURS_PER_DAY


def _known(study: Study, case: Case) -> dict[str, Any]:
    """What needs the home and its readings: bounds, limits, accounting and assumptions."""
    return {
        "bounds": _laplace_bounds(study, case) if "laplace" in study.mechanisms else None,
        "limits": [_limits(study, case, mechanism) for mechanism in study.mechanisms],
        "assumptions": case.home.check(case.test).sentences,
    }


def _laplace_bounds(study: Study, case: Case) -> dict[str, Any]:
    """Theorems 3 and 4 for this home, with one switch at a time."""
    epsilons, width = sorted(study.epsilons, reverse=True), study.unit(case).l1
    grid = np.geomspace(max(epsilons) * 2, min(epsilons) / 2, POINTS)
    # The theorems are about one power for each appliance.
    home = case.home.one_power_each()
    drawn = bound_curves(home, grid, sensitivity=width)
    found = bound_curves(home, epsilons, sensitivity=width)
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
    return {"figure": embed_figure(figure), "width": width, "floor": found.floor, "rows": rows}


def _bound(bound: Bound, at: int) -> str:
    """Format a bound, in brackets if it is vacuous."""
    raw = float(np.atleast_1d(bound.raw)[at])
    return f"{raw:.3f}" if 0 < raw < 1 else f"({number(raw)})"


def _limits(study: Study, case: Case, mechanism: str) -> dict[str, Any]:
    """The best possible attacker: from one reading at every ε, from a run and from a day."""
    epsilons = sorted(study.epsilons, reverse=True)
    noises = {e: study.noise(case, mechanism, e) for e in epsilons}
    limits = {e: universal_limit(case.home, noise) for e, noise in noises.items()}
    shown, middle = spread_out(epsilons, MOST_RUNS), epsilons[len(epsilons) // 2]
    accounts = {
        epsilon: account(noises[epsilon], case.home, interval_s=case.test.interval_s)
        for epsilon in {*shown, middle}
    }
    spans = [(f"run, ε = {epsilon:.3g}", epsilon, "run") for epsilon in shown]
    spans.append((f"day, ε = {middle:.3g}", middle, "day"))
    return {
        "mechanism": mechanism,
        "delta": DELTA,
        "head": ["appliance", *map(epsilon_cell, epsilons)],
        "rows": [
            [name, *(Cell(out_of_100(limits[e][i]), shade(2 * limits[e][i] - 1)) for e in epsilons)]
            for i, name in enumerate(case.home.names)
        ],
        "span_head": ["appliance", *(Cell(text, note="of one reading") for text, _, _ in spans)],
        "span_rows": [
            [name, *(_composed(getattr(accounts[e][i], span)) for _, e, span in spans)]
            for i, name in enumerate(case.home.names)
        ],
    }


def _composed(entry: Composition | None) -> Cell:
    """Return a cell with the odds and the composed ε."""
    if entry is None:
        return Cell("–", note="length is unknown")
    return _odds_cell(entry.odds, entry.epsilon)


def fill_paper(section: Section, results: Results) -> None:
    """The claims of the paper, the findings here, and the reasons."""
    items = sorted(results.items, key=_order)
    if not items:
        return
    rows = [
        (item_title(it.item), sentence(it.verdict), sentence(it.reason), it.source)
        for it in (item.words for item in items)
    ]
    section.add("overview", rows=rows)
    for item in items:
        stem = item.path.with_suffix("")
        picture = embed_file(stem)
        section.add(
            "item",
            it=item.words,
            name=item_title(item.words.item),
            picture=picture,
            data=_data(item) if picture is None else None,
        )


def _order(item: ItemResult) -> tuple[str, int]:
    name = item.words.item
    digits = re.sub(r"\D", "", name)
    return name.removesuffix(digits), int(digits or 0)


def _data(item: ItemResult) -> list[list[str]] | None:
    """Return the names of the columns and the first rows of an item that is a table."""
    import pandas as pd

    file = item.path.with_suffix(".csv")
    if not file.is_file():
        return None
    try:
        table = pd.read_csv(file)
    except ValueError as error:
        raise DataError(f"{file} cannot be read: {error}.") from None
    rows = table.head(MOST_ROWS).itertuples(index=False)
    words = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    return [list(map(str, table.columns)), *words]


def fill_battery(section: Section, results: Results) -> None:
    """The battery that makes the noise, the first adopter of the paper."""
    for saved in results.batteries:
        with reading(saved.path):
            stems = {stem: saved.path.with_name(stem) for stem in FIGURES}
            pictures = [
                (FIGURES[stem], source)
                for stem, path in stems.items()
                if (source := embed_file(path)) is not None
            ]
            folder = saved.path.parent.name if len(results.batteries) > 1 else ""
            section.add("battery", it=saved.content, folder=folder, pictures=pictures)


def fill_price(section: Section, results: Results) -> None:
    """The price of every ε, the third adopter of the paper."""
    for saved in results.prices:
        with reading(saved.path):
            lines, best = saved.content["menu"], saved.content["best"]
            step = -(-len(lines) // MENU_LINES)
            shown = [entry for i, entry in enumerate(lines) if i % step == 0 or entry == best]
            rows = [_menu_row(entry, entry == best) for entry in shown]
            picture = embed_file(saved.path.with_suffix(""))
            section.add("menu", it=saved.content, rows=rows, picture=picture)


def _menu_row(entry: dict[str, Any], best: bool) -> Row:
    """Return one row of the menu; that of the best ε is shaded."""
    words = (
        odds_out_of_100(entry["odds"]) + (" (best)" if best else ""),
        f"{entry['epsilon']:.3g}",
        format_watts(entry["forecast_w"]),
        f"{100 * entry['quality']:.1f}",
        odds_out_of_100((1 + max(entry["visibility"])) / 2),
        f"{entry['compensation']:.2f}",
        f"{entry['willingness']:.2f}",
        f"{entry['surplus']:.2f}",
    )
    return [Cell(word, 3 if best else 0) for word in words]


def fill_provenance(section: Section, results: Results) -> None:
    """Studies, seeds, versions and digests."""
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            known = sweep.study is not None
            section.add("study", it=sweep.manifest, cells=len(sweep.table), known=known)
    for saved in results.receipts:
        with reading(saved.path):
            digest = saved.content["output"]["sha256"]
            section.add("receipt", name=saved.path.name, digest=digest)
    names = [saved.path.name for saved in (*results.batteries, *results.prices)]
    names += [item.path.name for item in results.items]
    if names:
        section.add("others", names=names)


SECTIONS: dict[tuple[str, str], Callable[[Section, Results], None]] = {
    ("household", "For the household"): fill_household,
    ("analyst", "For the analyst"): fill_analyst,
    ("paper", "For the reader of the paper"): fill_paper,
    ("battery", "The battery"): fill_battery,
    ("price", "The price"): fill_price,
    ("provenance", "Where the numbers come from"): fill_provenance,
}
"""Anchor (the name of its template) and title of every section, in the order of the page."""
