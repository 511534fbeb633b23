"""Figure 6 and the item "appliances": the paper's seven attackers, Bayes and the floors.

Figure 6 has two intervals of building 1 of REDD: 3 s, as in the paper, and 1 min. ALIP and IP run
with learnt rules and as their authors run them on this house. Every statement of the paper is
checked with intervals. The item "appliances" shows each appliance in a panel of its own: what each
attacker reaches about it, and the exact odds of the best possible attacker.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hushmeter.apps.nilm.super_state_hmm import SuperStateHmm
from hushmeter.apps.plot.accuracy import SweepPanel, draw_panels
from hushmeter.apps.study.comparison import Comparison, Details, Interval, Statement, tell_rate
from hushmeter.apps.study.figures import (
    CALM,
    EPSILONS,
    MINUTE_S,
    PAPER_S,
    Caption,
    ReproducedItem,
    Setting,
    Source,
    choose_blocks,
    compare,
    find_building,
    tell_meaning,
    with_real_mains,
)
from hushmeter.apps.study.performance import Performance, expected_accuracy
from hushmeter.apps.study.sweep import Contender, paper_mechanism, release_on_grid
from hushmeter.attack.registry import attackers
from hushmeter.checks import FloatArray
from hushmeter.scoring import block_means_interval
from hushmeter.theory.bounds import series_bounds
from hushmeter.theory.universal import series_limit, universal_limit

if TYPE_CHECKING:
    from hushmeter.home import Home

PAPER = ("Sparse-HMM", "ALIP", "IP", "RNN", "CO", "FHMM", "multi-shot")
BAYES = "Bayes (knows the noise)"
RNN_SEEDS = (0, 1, 2)
FULL_NET: dict[str, Any] = {"hidden": (128, 256), "most_readings": 14_400}
"""The published size, trained on all minutes and on about one in twenty readings of 3 s."""
SMALL_NET: dict[str, Any] = {"hidden": (32, 64), "most_readings": 14_400}
"""The network of a stand-in, which is trained on fewer readings."""
SHOWN = tuple(EPSILONS[i] for i in (0, 3, 5, 7))
"""Values of ε of the real mains and of the tables."""
MIDDLE = EPSILONS[5]
ONE, SERIES = "best possible, one reading", "best possible, all readings"
MEDIAN_READINGS = 5
CLAIM = (
    "Sparse-HMM is best; it and the multi-shot algorithm are vulnerable to noise; ALIP beats IP "
    "and both are robust; RNN is ordinary; CO and FHMM are robust and weak; the accuracy of each "
    "is piecewise linear in ln(1/ε)."
)


def attackers_figure(setting: Setting) -> ReproducedItem:
    """Fig. 6: accuracy and F1 of every attacker against ln(1/ε), at 3 s and at 1 min."""
    panels, tables, details, judged, fitted = [], [], [], {}, []
    for every_s in (PAPER_S, MINUTE_S):
        source, found = compare_building(setting, every_s)
        statements = judged[every_s] = check_statements(found)
        if every_s == MINUTE_S and "RNN" in found.names:
            statements.append(_judge_cause(found, source, setting))
        by_appliance, ends = find_limits(source)
        one, series = (values.mean(axis=1) for values in by_appliance.values())
        limits = {LIMIT_ONE: one, LIMIT_SERIES: series}
        checked = certify(source, setting) if every_s == MINUTE_S else {}
        whole = {label: curve for label, curve in limits.items() if np.isfinite(curve).all()}
        fitted.append(found.robustness(whole).assign(interval_s=every_s))
        heading = f"{source.name}, {every_s:g} s"
        panels += _two_panels(found.without(QUARTER), heading, limits, checked)
        tables.append(_with_limits(found, limits).assign(interval_s=every_s))
        rows = [
            *source.details,
            ("intervals", f"95 %, over {found.blocks} and the releases, paired"),
            *(("not run", name) for name in PAPER if name not in found.names),
            *(one.row for one in statements),
            _judge_magnitude(found, source).row,
            *_further(found, source, setting),
            *_tell_theory(found, checked),
            (LIMIT_SERIES, _tell_limit(found, series, ends)),
            *((f"rate of {n}", _tell_rate(found, n)) for n in PAPER if n in found.names),
        ]
        details += [(f"{every_s:g} s, {name}", value) for name, value in rows]
    details += _settings(setting, source)
    if source.real:
        details.append(("real mains, 60 s", _on_mains(source, setting)))
    finding, verdict, reason = _verdict(judged)
    title = f"Fig. 6: seven algorithms, and one more, {source.name} (lines: exact expectation "
    title += "where it is known; markers: measured)"
    figure = draw_panels(panels, title, note=tell_meaning(source))
    caption = Caption("fig6", source.words, CLAIM, finding, verdict, reason, tuple(details))
    return ReproducedItem(
        caption,
        pd.concat(tables, ignore_index=True),
        figure,
        pd.concat(fitted, ignore_index=True),
    )


LIMIT_ONE, LIMIT_SERIES = (
    "limit of any attacker, one reading at full power",
    "limit of any attacker, all readings",
)


MANY_READINGS = 50_000
"""Number of readings beyond which the limit of the series is computed at a few ε only."""


def _two_panels(
    found: Comparison,
    heading: str,
    limits: dict[str, FloatArray],
    checked: dict[str, list[tuple[float, Performance]]],
) -> list[SweepPanel]:
    """Panels of α, with theory and limits, and of F1."""
    theory = {name: curve for name in found.names if (curve := found.expected(name)) is not None}
    bars = {
        name: np.array([(e, one.alpha, one.low, one.high) for e, one in rows])
        for name, rows in checked.items()
    }
    return [
        SweepPanel(
            found.table, "alpha", heading, curves=limits, bands=found.bands(), theory=theory,
            certified=bars,
        ),
        SweepPanel(found.table, "f1", heading, bands=found.bands("f1")),
    ]  # fmt: skip


def _with_limits(found: Comparison, limits: dict[str, FloatArray]) -> pd.DataFrame:
    """The rows of the sweep with the limits at the ε of each row."""
    table = found.table.copy()
    for label, values in limits.items():
        table[label] = table.epsilon.map(dict(zip(EPSILONS, values, strict=True)))
    return table


CERTIFIED = {"FHMM": "fhmm", "multi-shot": "multi-shot"}
CERTIFYING_RELEASES = 60


def certify(source: Source, setting: Setting) -> dict[str, list[tuple[float, Performance]]]:
    """E[α] of the attackers without an exact method at a few ε, with certified intervals."""
    case, unit = source.case, source.case.unit()
    parameters = {"FHMM": NILMTK_FHMM, "multi-shot": {}}
    found: dict[str, list[tuple[float, Performance]]] = {}
    for label, name in CERTIFIED.items():
        attacker = attackers[name](case.home, **parameters[label]).fit(case.train)
        for epsilon in SHOWN:
            one = expected_accuracy(
                attacker,
                case.test,
                paper_mechanism("laplace", epsilon, unit),
                initial_state=case.test.truth()[0],
                releases=CERTIFYING_RELEASES,
                rng=setting.seed,
            )
            found.setdefault(label, []).append((epsilon, one))
    return found


def _tell_theory(
    found: Comparison, checked: dict[str, list[tuple[float, Performance]]]
) -> Iterator[tuple[str, str]]:
    """Rows about exact expectations and the largest difference of a measured mean to them."""
    for name in found.names:
        curve = found.expected(name)
        if curve is not None:
            measured = np.array([found.mean(name, epsilon=e) for e in found.epsilons])
            apart = float(np.nanmax(np.abs(measured - curve)))
            listed = " / ".join(f"{curve[EPSILONS.index(e)]:.4f}" for e in SHOWN)
            known = int(np.isfinite(curve).sum())
            yield (
                f"exact E[α], {name}",
                f"{listed} at ε = {' / '.join(f'{e:.2g}' for e in SHOWN)}; known at {known} of "
                f"{len(curve)} ε; the measured mean differs by at most {apart:.4f}",
            )
    for name, rows in checked.items():
        listed = ", ".join(
            f"{one.alpha:.3f} [{one.low:.3f}, {one.high:.3f}] at ε = {e:.2g}" for e, one in rows
        )
        yield f"certified E[α], {name}", f"{listed}; from {CERTIFYING_RELEASES} releases"


def _tell_limit(found: Comparison, series: FloatArray, ends: FloatArray) -> str:
    """The limit of the series at a few ε, and the attacker that comes nearest to it."""
    places = [EPSILONS.index(e) for e in SHOWN]
    listed = ", ".join(
        f"{series[i]:.3f} [{ends[i, 0]:.3f}, {ends[i, 1]:.3f}] at ε = {EPSILONS[i]:.2g}"
        for i in places
    )
    room = {
        name: min(series[i] - found.mean(name, epsilon=EPSILONS[i]) for i in places)
        for name in found.names
    }
    nearest = min(room, key=lambda name: room[name])
    return f"{listed}; smallest distance of an attacker below it {room[nearest]:+.3f} ({nearest})"


def _judge_magnitude(found: Comparison, source: Source) -> Statement:
    """Whether the bounds of Theorem 5 give the magnitude of the accuracy of the seven."""
    test = source.case.test
    most = np.abs(np.diff(test.truth().astype(np.int8), axis=0)).sum(axis=1)
    home = source.case.home.one_power_each()
    series = series_bounds(home, len(test) - 1, EPSILONS, max_switches=most).series[:2]
    there = [name for name in PAPER if name in found.names]
    measured = np.array([[found.mean(name, epsilon=e) for e in EPSILONS] for name in there])
    listed, gives = [], False
    for one in series:
        low, high = np.asarray(one.lower), np.asarray(one.upper)
        inside = (low <= measured) & (measured <= high)
        gap = np.maximum(high - low, 0)
        gives = gives or bool(inside.all() and gap.max() < NARROW)
        listed.append(
            f"Theorem 5 {one.form}: {inside.sum()} of {inside.size} accuracies within the bounds, "
            f"which are {gap.min():.3f} to {gap.max():.3f} apart"
        )
    because = f"{'; '.join(listed)}; bounds 1 apart contain every accuracy and give no magnitude"
    return Statement("the bounds give the magnitude for all seven", gives, because)


NARROW = 0.5
"""Largest distance of two bounds that say something about the magnitude of an accuracy."""

QUARTER = "RNN, a quarter of its training readings"


def _judge_cause(found: Comparison, source: Source, setting: Setting) -> Statement:
    """Whether little training data and overfitting explain the rank of the RNN.

    With little data, four times as many readings help. With overfitting, the network is further
    above “everything off” on the days it was trained on than on others.
    """
    gap = found.difference("RNN", QUARTER)
    case = source.case
    chosen: dict[str, Any] = {"settings": FULL_NET if source.real else SMALL_NET, "seed": 0}
    net = attackers["rnn"](case.home, **chosen).fit(case.train)
    ends = []
    for part in (case.train, case.test):
        right = (net.predict(part, rng=setting.seed) == part.truth()).mean(axis=1)
        above = right - (~part.truth()).mean()
        ends.append(
            (float(above.mean()), block_means_interval(above, part, choose_blocks(part)[0]))
        )
    (own, own_ends), (other, other_ends) = ends
    # Both intervals are over days, which are not the same: their half widths are added in squares.
    reach = math.hypot(*((high - low) / 2 for low, high in (own_ends, other_ends)))
    over = Interval(own - other, own - other - reach, own - other + reach)
    because = (
        f"four times as many training readings change α at ε = {CALM:g} by {gap}; without noise "
        f"the network is {own:+.3f} above “everything off” on its training days and {other:+.3f} "
        f"on the attacked days, difference {over}"
    )
    words = "RNN ranks where it does because of limited training data and overfitting"
    return Statement(words, _decide((gap, over)), because)


def _tell_rate(found: Comparison, name: str) -> str:
    curve = found.expected(name)
    if curve is None or not np.isfinite(curve).all():
        curve = np.array([found.mean(name, epsilon=e) for e in found.epsilons])
    return tell_rate(found.epsilons, curve)


def _on_mains(source: Source, setting: Setting) -> str:
    """Accuracy on the real mains instead of the sum of the loads."""
    quick = tuple(
        replace(one, releases=2)
        for one in contenders(source.case.home)
        if one.name not in ("rnn", "fhmm", "bayes")
    )
    mains = compare(with_real_mains(source, setting), setting, quick, epsilons=SHOWN)
    return f"α at ε = {CALM:g}: {mains.list_means()}; F1: {mains.list_means('f1')}"


def contenders(home: Home, every_s: float = MINUTE_S, *, small_net: bool = False) -> Contenders:
    """The paper's seven attackers, which do not know the noise, Bayes and the two floors.

    The RNN is trained once for each of `RNN_SEEDS`. ALIP and IP are added as their authors run
    them if the home has the loads that their constants describe. Readings of a few seconds are so
    many that two releases are enough; the slow attackers then get one release, of which the RNN
    sees one reading in 48, and FHMM and Bayes one hour in six.
    """
    fast = every_s < MINUTE_S
    few, one = (2, 1) if fast else (None, 2)
    size = SMALL_NET if small_net else FULL_NET
    hours = (round(3600 / every_s), 6) if fast else (1, 1)
    nets = tuple(
        Contender(
            f"RNN {k}",
            "rnn",
            {"settings": size, "seed": k},
            thinned=(1, 48) if fast else (1, 1),
            releases=1,
        )
        for k in RNN_SEEDS
    )
    if not fast:
        less = {**size, "most_readings": size["most_readings"] // 4}
        nets += tuple(
            Contender(f"{QUARTER} {k}", "rnn", {"settings": less, "seed": k}, releases=1)
            for k in RNN_SEEDS
        )
    return (
        Contender("Sparse-HMM", "sparse-hmm", releases=few),
        Contender("ALIP", "alip", releases=few),
        Contender("IP", "ip", releases=few),
        *nets,
        Contender("CO", "co", releases=few),
        Contender("FHMM", "fhmm", NILMTK_FHMM, False, hours, releases=one),
        Contender("multi-shot", "multi-shot", knows_noise=False, releases=few),
        Contender(BAYES, "bayes", thinned=hours, releases=one),
        *(replace(program, releases=few) for program in authors_programs(home)),
        Contender("all-off", "all-off", releases=few),
        Contender("hold", "hold", releases=few),
    )


Contenders = tuple[Contender, ...]
NILMTK_FHMM: dict[str, Any] = {"most_levels": 1, "variance": 5.0}

DECISIVE = 2.0
"""Difference of BIC that counts as evidence (Kass and Raftery, 1995)."""

AUTHORS_RATINGS = {
    "fridge": (6.0, 186.0, 425.0),
    "dishwasher": (1096.0, 215.0),
    "microwave": (1550.0,),
    "washer_dryer_2": (2740.0, 550.0),
}
"""Ratings [W] that the authors of ALIP give for the loads of REDD building 1 by these names."""


ALIP_BY_AUTHORS, IP_BY_AUTHORS = "ALIP, authors’ rules", "IP, authors’ rules"


def authors_programs(home: Home) -> tuple[Contender, ...]:
    """ALIP and IP as their authors run them: given ratings, zero start, median of five answers."""
    if not set(AUTHORS_RATINGS) <= set(home.names):
        return ()
    ratings = [AUTHORS_RATINGS.get(one.name, one.levels or (one.power,)) for one in home.appliances]
    given = {"ratings": ratings, "solve_first": False, "smooth": MEDIAN_READINGS}
    rules = {
        "always_on": ["fridge"],
        "exclusive": [
            [("fridge", 425.0), ("dishwasher", 1096.0)],
            [("dishwasher", 1096.0), ("microwave", 1550.0)],
        ],
        "transitions": [
            ("fridge", 6.0, 425.0, 186.0),
            ("fridge", 425.0, 6.0, 186.0),
            ("dishwasher", 0.0, 215.0, 0.0),
        ],
        "boxes": [],
    }
    return (
        Contender(ALIP_BY_AUTHORS, "alip", {**given, "rules": rules}),
        Contender(IP_BY_AUTHORS, "ip", given),
    )


@lru_cache(maxsize=2)
def compare_building(setting: Setting, every_s: float) -> tuple[Source, Comparison]:
    """Sweep all attackers on the home of Fig. 6, which the item "appliances" shows again.

    The trainings of the RNN become one attacker with several runs.
    """
    source = find_building(setting, every_s)
    every = contenders(source.case.home, every_s, small_net=not source.real)
    found = compare(source.case, setting, every, theory=True)
    table = found.table.copy()
    nets = table.attacker.str.extract(r"^(?P<name>RNN.*) (?P<seed>\d+)$")
    trained = nets.name.notna()
    table.loc[trained, "seed"] = nets.seed[trained].astype(int)
    table.loc[trained, "attacker"] = nets.name[trained]
    return source, replace(found, table=table)


def find_limits(source: Source) -> tuple[dict[str, FloatArray], FloatArray]:
    """Accuracy of the best attacker from one reading and over the whole series, each (E, N).

    The limit of a long series is computed at a few ε only, and is NaN at the others.

    The second array has the ends of the 95 % interval of the mean over the appliances of the limit
    of the series, over the blocks of `choose_blocks`, shape (E, 2).
    """
    case, unit = source.case, source.case.unit()
    on = case.test.truth().mean(axis=0)
    block_s, _ = choose_blocks(case.test)
    one, series, ends = [], [], []
    unknown = np.full(len(case.home), np.nan)
    for epsilon in EPSILONS:
        mechanism = paper_mechanism("laplace", epsilon, unit)
        one.append(universal_limit(case.home, mechanism, on))
        if len(case.test) > MANY_READINGS and epsilon not in SHOWN:
            series.append(unknown)
            ends.append((np.nan, np.nan))
            continue
        found = series_limit(case.home, case.test, mechanism, releases=2)
        series.append(found.per_appliance)
        ends.append(block_means_interval(found.by_reading.mean(axis=1), case.test, block_s))
    return {ONE: np.array(one), SERIES: np.array(series)}, np.array(ends)


def check_statements(found: Comparison) -> list[Statement]:
    """Check the statements of Section V-E about the figure one by one, with intervals."""
    there = [name for name in PAPER if name in found.names]
    rivals = [name for name in there if name != "Sparse-HMM"]
    fragile = ["Sparse-HMM", "multi-shot"]
    statements = [
        _ahead(found, "Sparse-HMM is best", "Sparse-HMM", rivals),
        _ahead(found, "ALIP beats IP", "ALIP", ["IP"]),
        _flatter(found, ["ALIP", "IP"], fragile),
        _flatter(found, ["CO", "FHMM"], fragile),
        _ahead(found, "CO and FHMM are weaker than Sparse-HMM", "Sparse-HMM", ["CO", "FHMM"]),
    ]
    if ALIP_BY_AUTHORS in found.names:
        words = "ALIP beats IP by the authors’ rules"
        statements.append(_ahead(found, words, ALIP_BY_AUTHORS, [IP_BY_AUTHORS]))
    if "RNN" in there:
        statements.append(_ordinary(found, there))
    return [*statements, _piecewise(found, there)]


def _decide(gaps: Iterable[Interval]) -> bool | None:
    """Whether all differences are positive: False if one is surely negative, None if unclear."""
    found = list(gaps)
    if all(gap.low > 0 for gap in found):
        return True
    return False if any(gap.high < 0 for gap in found) else None


def _ahead(found: Comparison, words: str, first: str, rivals: list[str]) -> Statement:
    """Whether an attacker has a larger α than all its rivals with little noise."""
    gaps = {name: found.difference(first, name) for name in rivals}
    closest = sorted(rivals, key=lambda name: gaps[name].low)[:3]
    listed = (f"minus {name} {gaps[name]}" for name in closest)
    best = max(rivals, key=lambda name: found.mean(name, "f1"))
    because = (
        f"α of {first} at ε = {CALM:g} is {found.tell(first)}, {', '.join(listed)}; F1 "
        f"{found.mean(first, 'f1'):.2f}, largest other {best} {found.mean(best, 'f1'):.2f}"
    )
    behind = found.mean(first, "f1") < found.mean(best, "f1")
    return Statement(words, _decide(gaps.values()), because, behind)


def _flatter(found: Comparison, pair: list[str], fragile: list[str]) -> Statement:
    """Whether two attackers lose less α per unit of ln(1/ε) than two others."""
    told, verdicts = [], []
    for measure, symbol in (("alpha", "α"), ("f1", "F1")):
        gaps = {
            (one, other): found.slope_difference(one, other, measure)
            for one in pair
            for other in fragile
        }
        verdicts.append(_decide(gaps.values()))
        slope = {name: found.fits(measure)[name].steepest.value for name in (*pair, *fragile)}
        listed = ", ".join(f"{n} {value:+.3f}" for n, value in slope.items())
        # The difference that decides: a surely negative one, else the one that may be smallest.
        end = "high" if verdicts[-1] is False else "low"
        (one, other), worst = min(gaps.items(), key=lambda item: getattr(item[1], end))
        told.append(
            f"slopes of {symbol}: {listed}; smallest difference {one} minus {other} {worst}"
        )
    words = f"{' and '.join(pair)} are more robust than {' and '.join(fragile)}"
    return Statement(words, verdicts[0], "; ".join(told), verdicts[1] is not True)


def _ordinary(found: Comparison, there: list[str]) -> Statement:
    """Whether the RNN is neither among the first two nor the last, on other days too."""
    gaps = [found.difference("RNN", name) for name in there if name != "RNN"]
    first = 1 + sum(gap.high < 0 for gap in gaps)
    last = len(there) - sum(gap.low > 0 for gap in gaps)
    ordinary = {2 < place < len(there) for place in range(first, last + 1)}
    holds = ordinary.pop() if len(ordinary) == 1 else None
    where = str(first) if first == last else f"between {first} and {last}"
    because = f"place {where} of {len(there)}; α {found.tell('RNN')}"
    runs = found.table[found.table.attacker == "RNN"].seed.nunique()
    return Statement("RNN is ordinary", holds, f"{because} over {runs} training runs")


def _piecewise(found: Comparison, there: list[str]) -> Statement:
    """Whether broken lines fit every curve better than a sigmoid."""
    gain = {name: found.fits()[name].evidence for name in there}
    curved = [name for name, value in gain.items() if value < -DECISIVE]
    unclear = [name for name, value in gain.items() if abs(value) <= DECISIVE]
    listed = ", ".join(f"{name} {value:+.1f}" for name, value in gain.items())
    because = f"BIC of a sigmoid minus that of two breaks: {listed}; decisive beyond ±{DECISIVE:g}"
    holds = False if curved else None if unclear else True
    return Statement("each is piecewise linear in ln(1/ε)", holds, because)


def _verdict(judged: dict[float, list[Statement]]) -> tuple[str, str, str]:
    """The finding, the verdict and its reason, from the statements at both intervals."""
    every = [one for statements in judged.values() for one in statements]
    counts = Counter("holds" if one.holds else one.verdict for one in every)
    listed = []
    for every_s, statements in judged.items():
        holding = [one.words + " (by α only)" * one.against_f1 for one in statements if one.holds]
        listed.append(f"at {every_s:g} s these hold: {', '.join(holding) or 'none'}")
    total, names = len(every), {"holds": "agrees", "does not hold": "differs"}
    verdict = names.get(max(counts), "undecided") if len(counts) == 1 else "in part"
    reason = (
        f"of {total} statements, {counts['holds']} hold and {counts['does not hold']} do not; "
        f"undecided, because a 95 % interval contains zero: {counts['undecided']}."
    )
    return f"{'; '.join(listed)}.", verdict, reason


def _further(found: Comparison, source: Source, setting: Setting) -> Details:
    """Means, floors, authors' programs, Bayes and lost readings, as rows of details."""
    rows = [
        (f"α at ε = {CALM:g}", f"{found.list_means()}; floor {found.floor:.3f}"),
        (f"F1 at ε = {CALM:g}", found.list_means("f1")),
        ("better than “everything off”", _above_the_floor(found)),
        (f"Bayes at ε = {MIDDLE:.2g}", _bayes(found)),
        ("Sparse-HMM", _lost(source, setting)),
    ]
    authors = [name for name in found.names if "authors" in name]
    if authors:
        rows.append(("authors’ rules", "; ".join(_from_to(found, name) for name in authors)))
    return (*rows, *found.tell_robustness())


def _from_to(found: Comparison, name: str) -> str:
    """α and F1 of an attacker with little and with much noise, as words."""
    ends = (CALM, EPSILONS[7])
    alpha, f1 = ([found.mean(name, m, e) for e in ends] for m in ("alpha", "f1"))
    return (
        f"{name}: α {alpha[0]:.3f} → {alpha[1]:.3f}, F1 {f1[0]:.2f} → {f1[1]:.2f} from ε = "
        f"{ends[0]:g} to {ends[1]:.2g}"
    )


def _above_the_floor(found: Comparison) -> str:
    """The smallest ε at which each attacker is better than “everything off”."""
    floor = float(found.table.alpha_floor.mean())
    listed = []
    for name in found.names:
        above = [e for e in EPSILONS if found.mean(name, epsilon=e) > floor]
        listed.append(f"{name} {f'down to ε = {min(above):.2g}' if above else 'at no ε'}")
    return ", ".join(listed)


def _bayes(found: Comparison) -> str:
    best = next(name for name in found.rank("f1", MIDDLE) if name in PAPER)
    return (
        f"α {found.mean(BAYES, epsilon=MIDDLE):.3f}, F1 {found.mean(BAYES, 'f1', MIDDLE):.2f}; "
        f"best of the seven by F1: {best} {found.mean(best, epsilon=MIDDLE):.3f}, "
        f"{found.mean(best, 'f1', MIDDLE):.2f}"
    )


def _lost(source: Source, setting: Setting) -> str:
    """The share of the readings that Sparse-HMM cannot explain, without and with noise."""
    case = source.case
    attacker = SuperStateHmm(case.home).fit(case.train)
    unseen = attacker.count_unexpected(case.test) / len(case.test)
    noisy = release_on_grid(
        case.test, paper_mechanism("laplace", MIDDLE, case.unit()), setting.seed
    )
    lost = attacker.count_unexpected(noisy) / len(case.test)
    return (
        f"{unseen:.1%} of the readings without noise and {lost:.1%} at ε = {MIDDLE:.2g} fit no "
        "sequence of states; it answers “everything off”, so that α returns to the floor and F1 "
        "falls to zero"
    )


def _settings(setting: Setting, source: Source) -> list[tuple[str, str]]:
    net = FULL_NET if source.real else SMALL_NET
    return [
        (
            "noise",
            f"Laplace, scale λ = Δf/ε = {source.case.home.tolerance / 2:g}/ε W, on the attacked "
            f"part; {len(EPSILONS)} values of ε",
        ),
        (
            "releases",
            f"60 s: {setting.seeds}, of which FHMM and Bayes get two and each RNN one; 3 s: two, "
            "of which FHMM, Bayes and each RNN get one",
        ),
        (
            "attacked readings",
            "all; except at 3 s FHMM and Bayes one hour in six and the RNN, where it is run, one "
            "reading in 48, all over all days",
        ),
        (
            "RNN",
            f"LSTMs of {' and '.join(map(str, net['hidden']))}"
            f"{', the published size' if source.real else ''}, window of one reading, trained with "
            f"{len(RNN_SEEDS)} seeds on at most {net['most_readings']} evenly spaced readings",
        ),
        ("FHMM", "NILMTK’s two states and 5 W²"),
    ]


def appliances_figure(setting: Setting) -> ReproducedItem:
    """Accuracy about each appliance against ln(1/ε), with the exact odds of the best attacker."""
    source, everyone = compare_building(setting, MINUTE_S)
    home, test = source.case.home, source.case.test
    found = everyone.without("authors").without(QUARTER)
    limits, _ = find_limits(source)
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
        f"{len(home)} appliances at some ε: it uses all readings.",
        (
            *source.details,
            ("columns", "ε = " + " / ".join(f"{e:.2g}" for e in SHOWN)),
            *rows,
        ),
    )
    title = f"Each appliance under noise, {source.name}"
    figure = draw_panels(panels, title, note=tell_meaning(source))
    return ReproducedItem(caption, pd.concat(tables, ignore_index=True), figure)


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
