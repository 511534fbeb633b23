"""Figure 6: the paper's seven attackers, Bayes and the floors, on building 1 of REDD.

The figure has two intervals: 3 s, as in the paper, and 1 min. ALIP and IP run with learnt rules and
as their authors run them on this house. Every statement of the paper is checked with intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.attack.super_state_hmm import SuperStateHmm
from hushmeter.checks import BoolArray, FloatArray
from hushmeter.plot.accuracy import SweepPanel, draw_panels
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.study.figures.comparison import CALM, Comparison, compare
from hushmeter.study.figures.item import EPSILONS, Caption, Details, ReproducedItem, Setting
from hushmeter.study.figures.sources import (
    MINUTE_S,
    PAPER_S,
    Source,
    find_building,
    with_real_mains,
)
from hushmeter.study.plan import Contender
from hushmeter.theory.universal import universal_limit

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.trace import Trace

PAPER = ("Sparse-HMM", "ALIP", "IP", "RNN", "CO", "FHMM", "multi-shot")
BAYES = "Bayes (knows the noise)"
RNN_SEEDS = (0, 1, 2)
RNN_READINGS = 5000
RNN_RELEASES = 1
SMALL_NET = {"hidden": (32, 64)}
MAINS_EPSILONS = (EPSILONS[0], EPSILONS[3], EPSILONS[5], EPSILONS[7])
MIDDLE = EPSILONS[5]
MEDIAN_READINGS = 5
CLAIM = (
    "Sparse-HMM is best; it and the multi-shot algorithm are vulnerable to noise; ALIP beats IP "
    "and both are robust; RNN is ordinary; CO and FHMM are robust and weak; the accuracy of each "
    "is piecewise linear in ln(1/ε)."
)


@dataclass(frozen=True)
class Statement:
    """A statement of the paper about the figure, and whether it holds here.

    Attributes
    ----------
    words : str
        The statement.
    holds : bool or None
        None if the 95 % intervals overlap, so that the statement is undecided.
    because : str
        The numbers behind the verdict.
    against_f1 : bool
        Whether F1 contradicts a statement that holds by α.
    """

    words: str
    holds: bool | None
    because: str
    against_f1: bool = False

    @property
    def verdict(self) -> str:
        """“holds”, “holds by α, not by F1”, “does not hold” or “undecided”."""
        if self.holds and self.against_f1:
            return "holds by α, not by F1"
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]


def attackers_figure(setting: Setting) -> ReproducedItem:
    """Fig. 6: accuracy and F1 of every attacker against ln(1/ε), at 3 s and at 1 min."""
    import pandas as pd

    panels, tables, details, judged = [], [], [], {}
    for every_s in (PAPER_S, MINUTE_S):
        source = find_building(setting, every_s)
        found = compare_all(source, setting)
        tables.append(found.table.assign(interval_s=every_s))
        statements = judged[every_s] = check_statements(found)
        heading = f"{source.name}, {every_s:g} s"
        limits = limit_curves(source)
        panels.append(SweepPanel(found.table, "alpha", heading, curves=limits))
        panels.append(SweepPanel(found.table, "f1", heading))
        details += [(f"{every_s:g} s, {name}", value) for name, value in source.details]
        details += [
            (f"{every_s:g} s, “{one.words}”", f"{one.verdict}: {one.because}") for one in statements
        ]
        details += [(f"{every_s:g} s, {n}", v) for n, v in _further(found, source, setting)]
    details += _settings(setting, source)
    if source.real:
        mains = compare(
            with_real_mains(source, setting),
            setting,
            tuple(one for one in contenders(source.case.home) if not one.label.startswith("RNN")),
            epsilons=MAINS_EPSILONS,
        )
        tables.append(mains.table.assign(interval_s=MINUTE_S))
        details.append(
            (
                "real mains, 60 s",
                f"α at ε = {CALM:g}: {mains.list_means()}; F1: {mains.list_means('f1')}",
            )
        )
    finding, verdict, reason = _verdict(judged)
    figure = draw_panels(
        panels, f"Fig. 6: seven algorithms, and one more, {source.name}", columns=2
    )
    caption = Caption("fig6", source.words, CLAIM, finding, verdict, reason, tuple(details))
    return ReproducedItem(caption, pd.concat(tables, ignore_index=True), figure)


def contenders(home: Home, *, small_net: bool = False) -> tuple[Contender, ...]:
    """The paper's seven attackers, which do not know the noise, Bayes and the two floors.

    The RNN is trained once for each of `RNN_SEEDS`. ALIP and IP are added as their authors run
    them if the home has the loads that their constants describe.

    Parameters
    ----------
    home : Home
    small_net : bool
        Whether the RNN has small layers.

    Returns
    -------
    tuple of Contender
    """
    size = {**(SMALL_NET if small_net else {}), "most_readings": RNN_READINGS}
    nets = tuple(Contender(f"RNN {k}", "rnn", {**size, "seed": k}) for k in RNN_SEEDS)
    return (
        Contender("Sparse-HMM", "sparse-hmm"),
        Contender("ALIP", "alip"),
        Contender("IP", "ip"),
        *nets,
        Contender("CO", "co"),
        Contender("FHMM", "fhmm", {"most_levels": 1, "variance": 5.0}, knows_noise=False),
        Contender("multi-shot", "multi-shot", knows_noise=False),
        Contender(BAYES, "bayes"),
        *authors_programs(home),
        Contender("all-off", "all-off"),
        Contender("hold", "hold"),
    )


AUTHORS_RATINGS = {
    "fridge": (6.0, 186.0, 425.0),
    "dishwasher": (1096.0, 215.0),
    "microwave": (1550.0,),
    "washer_dryer_2": (2740.0, 550.0),
}
"""Ratings [W] that the authors of ALIP give for the loads of REDD building 1 by these names."""


def authors_programs(home: Home) -> tuple[Contender, ...]:
    """ALIP and IP as their authors run them: given ratings, zero start, median of five answers.

    Parameters
    ----------
    home : Home
        A home with the loads of `AUTHORS_RATINGS`; the levels of its other loads are used as
        their ratings.

    Returns
    -------
    tuple of Contender
        Empty if a load is missing.
    """
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
        Contender("ALIP, authors’ rules", "alip", {**given, **rules}),
        Contender("IP, authors’ rules", "ip", given),
    )


def compare_all(source: Source, setting: Setting) -> Comparison:
    """Sweep all attackers; the trainings of the RNN become one attacker with three runs.

    Parameters
    ----------
    source : Source
    setting : Setting

    Returns
    -------
    Comparison
        A row of “RNN” is the mean over the releases for one training run, so that its interval is
        that over the training runs.
    """
    import pandas as pd

    every = contenders(source.case.home, small_net=not source.real)
    nets = tuple(one for one in every if one.name == "rnn")
    found = compare(source.case, setting, tuple(one for one in every if one.name != "rnn"))
    if not nets:
        return found
    trained = compare(source.case, setting, nets, seeds=RNN_RELEASES)
    groups = trained.table.drop(columns="seed").groupby(
        ["attacker", "home", "mechanism", "epsilon"], sort=False
    )
    runs = groups.mean(numeric_only=True).reset_index()
    runs["seed"] = runs.attacker.str.removeprefix("RNN ").astype(int)
    runs["attacker"] = "RNN"
    table = pd.concat([found.table, runs[list(found.table.columns)]], ignore_index=True)
    return Comparison(table, failed=(*found.failed, *trained.failed))


def limit_curves(source: Source) -> dict[str, FloatArray]:
    """The universal limit of α from one reading and over a typical run, at every ε.

    Parameters
    ----------
    source : Source

    Returns
    -------
    dict of str to array
        The mean over the appliances of the exact probability that the best attacker is correct. It
        knows all other states, the noise and the share of time that the appliance is on.
    """
    case = source.case
    unit = resolve_unit("fluctuation", interval_s=case.test.interval_s, home=case.home)
    on = case.test.truth().mean(axis=0)
    lengths = [typical_run(case.test, i) for i in range(len(case.home))]
    one, run = [], []
    for epsilon in EPSILONS:
        mechanism = calibrate("laplace", epsilon, unit)
        one.append(float(universal_limit(case.home, mechanism, on).mean()))
        run.append(float(np.mean(limit_over_runs(case.home, mechanism, on, lengths))))
    return {
        "limit of any attacker, one reading": np.array(one),
        "limit of any attacker, one run": np.array(run),
    }


def limit_over_runs(
    home: Home, mechanism: Mechanism, on: FloatArray, lengths: list[int]
) -> FloatArray:
    """Exact odds of the best attacker about each appliance over a run of its typical length."""
    return np.array(
        [
            universal_limit(
                home.subset([name]),
                mechanism,
                float(prior),
                readings=min(length, MOST_RUN),
            )[0]
            for name, prior, length in zip(home.names, on, lengths, strict=True)
        ]
    )


MOST_RUN = 400
"""Longest run [readings] for which the limit is computed; it is nearly one beyond."""


def typical_run(trace: Trace, appliance: int) -> int:
    """Median number of readings for which an appliance stays on."""
    on: BoolArray = trace.truth()[:, appliance]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]]).astype(np.int8)))
    return int(np.median(edges[1::2] - edges[::2])) if edges.size else 1


def check_statements(found: Comparison) -> list[Statement]:
    """Check the statements of Section V-E about the figure one by one, with intervals.

    Parameters
    ----------
    found : Comparison
        The rows of the sweep.

    Returns
    -------
    list of Statement
        The statements; undecided where 95 % intervals overlap.
    """
    there = [name for name in PAPER if name in found.names]
    rivals = [name for name in there if name != "Sparse-HMM"]
    best = max(rivals, key=found.mean)
    statements = [
        _ahead(found, "Sparse-HMM is best", "Sparse-HMM", best),
        _ahead(found, "ALIP beats IP", "ALIP", "IP"),
    ]
    for pair in (("ALIP", "IP"), ("CO", "FHMM")):
        statements.append(_flatter(found, pair, ("Sparse-HMM", "multi-shot")))
    strong = max(("CO", "FHMM"), key=found.mean)
    words = "CO and FHMM are weaker than Sparse-HMM"
    statements.append(_ahead(found, words, "Sparse-HMM", strong))
    if "RNN" in there:
        statements.append(_ordinary(found, there))
    fits = {name: fit for name, fit in found.fits().items() if name in PAPER}
    curved = [name for name, fit in fits.items() if fit.better != "piecewise"]
    because = "by BIC" if not curved else f"a sigmoid fits better for {', '.join(curved)}"
    statements.append(Statement("each is piecewise linear in ln(1/ε)", not curved, because))
    return statements


def _compare_intervals(one: tuple[float, float], other: tuple[float, float]) -> bool | None:
    """Whether the first interval is above the second; None if they overlap."""
    if one[0] > other[1]:
        return True
    return False if one[1] < other[0] else None


def _ahead(found: Comparison, words: str, first: str, second: str) -> Statement:
    """Whether the first attacker has the larger α with little noise."""
    ends = {name: found.interval(name) for name in (first, second)}
    listed = ", ".join(
        f"{name} {found.mean(name):.3f} [{low:.3f}, {high:.3f}]"
        for name, (low, high) in ends.items()
    )
    f1 = [found.mean(name, "f1") for name in ends]
    because = f"α at ε = {CALM:g}: {listed}; F1 {f1[0]:.2f} and {f1[1]:.2f}"
    return Statement(words, _compare_intervals(*ends.values()), because, f1[0] < f1[1])


def _flatter(found: Comparison, pair: tuple[str, str], fragile: tuple[str, str]) -> Statement:
    """Whether two attackers lose less α per unit of ln(1/ε) than two others."""
    fits = found.fits()
    slope = {name: fits[name].steepest for name in (*pair, *fragile)}
    steep = min((slope[name] for name in pair), key=lambda one: one.value)
    flat = max((slope[name] for name in fragile), key=lambda one: one.value)
    holds = _compare_intervals((steep.low, steep.high), (flat.low, flat.high))
    listed = ", ".join(
        f"{name} {one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}]" for name, one in slope.items()
    )
    words = f"{pair[0]} and {pair[1]} are more robust than {fragile[0]} and {fragile[1]}"
    return Statement(words, holds, f"slopes {listed}")


def _ordinary(found: Comparison, there: list[str]) -> Statement:
    """Whether the RNN is neither among the first two nor the last, whatever its training run."""
    low, high = found.interval("RNN")
    others = [found.mean(name) for name in there if name != "RNN"]
    places = [1 + sum(other > edge for other in others) for edge in (high, low)]
    ordinary = [2 < place <= len(others) for place in places]
    holds = ordinary[0] if ordinary[0] == ordinary[1] else None
    where = str(places[0]) if places[0] == places[1] else f"between {places[0]} and {places[1]}"
    because = f"place {where} of {len(there)}; α {found.mean('RNN'):.3f} [{low:.3f}, {high:.3f}]"
    return Statement("RNN is ordinary", holds, f"{because} over {len(RNN_SEEDS)} training runs")


def _verdict(judged: dict[float, list[Statement]]) -> tuple[str, str, str]:
    """The finding, the verdict and its reason, from the statements at both intervals."""
    listed, counts = [], {"holds": 0, "does not hold": 0, "undecided": 0}
    for every_s, statements in judged.items():
        for one in statements:
            counts["holds" if one.holds else one.verdict] += 1
        holding = [
            f"{one.words} (by α only)" if one.against_f1 else one.words
            for one in statements
            if one.holds
        ]
        listed.append(f"at {every_s:g} s these hold: {', '.join(holding) or 'none'}")
    total = sum(counts.values())
    if counts["holds"] == total:
        verdict = "agrees"
    elif counts["does not hold"] == total:
        verdict = "differs"
    elif counts["undecided"] == total:
        verdict = "undecided"
    else:
        verdict = "in part"
    reason = (
        f"of {total} statements, {counts['holds']} hold and {counts['does not hold']} do not; "
        f"undecided, because 95 % intervals overlap: {counts['undecided']}."
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
    return (*rows, *found.robustness())


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
    unit = resolve_unit("fluctuation", interval_s=case.test.interval_s, home=case.home)
    noisy = calibrate("laplace", MIDDLE, unit).release(case.test.readings, rng=setting.seed)
    lost = attacker.count_unexpected(case.test.replace_readings(noisy)) / len(case.test)
    return (
        f"{unseen:.1%} of the readings without noise and {lost:.1%} at ε = {MIDDLE:.2g} fit no "
        "sequence of states; it answers “everything off”, so that α returns to the floor and F1 "
        "falls to zero"
    )


def _settings(setting: Setting, source: Source) -> list[tuple[str, str]]:
    net = "layers of 32 and 64" if not source.real else "the published size"
    return [
        (
            "noise",
            f"Laplace, scale {source.case.home.tolerance / 2:g}/ε W, on the attacked part; "
            f"{len(EPSILONS)} values of ε, {setting.seeds} seeds",
        ),
        (
            "RNN",
            f"{net}, window of one reading, trained with {len(RNN_SEEDS)} seeds on up to "
            f"{RNN_READINGS} evenly spaced readings, each run on {RNN_RELEASES} release of every "
            "ε; its band is over the training runs",
        ),
        ("FHMM", "NILMTK’s two states and 5 W²"),
    ]
