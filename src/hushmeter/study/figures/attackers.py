"""Figure 6 and the item "appliances": the paper's seven attackers, Bayes and the floors.

Figure 6 has two intervals of building 1 of REDD: 3 s, as in the paper, and 1 min. ALIP and IP run
with learnt rules and as their authors run them on this house. Every statement of the paper is
checked with intervals. The item "appliances" shows each appliance in a panel of its own: what each
attacker reaches about it, and the exact odds of the best possible attacker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.attack.super_state_hmm import SuperStateHmm
from hushmeter.checks import FloatArray
from hushmeter.plot.accuracy import SweepPanel, draw_panels
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.study.comparison import Comparison, Details
from hushmeter.study.definition import Contender
from hushmeter.study.figures import CALM, EPSILONS, Caption, ReproducedItem, Setting, compare
from hushmeter.study.figures.sources import (
    MINUTE_S,
    PAPER_S,
    Source,
    find_building,
    with_real_mains,
)
from hushmeter.theory.universal import universal_limit
from hushmeter.trace import Runs

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.trace import Trace

PAPER = ("Sparse-HMM", "ALIP", "IP", "RNN", "CO", "FHMM", "multi-shot")
BAYES = "Bayes (knows the noise)"
RNN_SEEDS = (0, 1, 2, 3, 4)
RNN_RELEASES = 1
FULL_NET: dict[str, Any] = {"hidden": (128, 256), "most_readings": 60_000}
"""The published size, trained on all minutes and on about one in five readings of 3 s."""
SMALL_NET: dict[str, Any] = {"hidden": (32, 64), "most_readings": 14_400}
"""The network of a stand-in, which is trained on fewer readings."""
SHOWN = tuple(EPSILONS[i] for i in (0, 3, 5, 7))
"""Values of ε of the real mains and of the tables."""
MIDDLE = EPSILONS[5]
ONE, RUN = "best possible, one reading", "best possible, one run"
MEDIAN_READINGS = 5
CLAIM = (
    "Sparse-HMM is best; it and the multi-shot algorithm are vulnerable to noise; ALIP beats IP "
    "and both are robust; RNN is ordinary; CO and FHMM are robust and weak; the accuracy of each "
    "is piecewise linear in ln(1/ε)."
)


@dataclass(frozen=True)
class Statement:
    """A statement of the paper about the figure, and whether it holds here."""

    words: str  # The statement
    holds: bool | None  # None if the 95 % intervals overlap, so that the statement is undecided
    because: str  # The numbers behind the verdict
    against_f1: bool = False  # Whether F1 contradicts a statement that holds by α

    @property
    def verdict(self) -> str:
        """“holds”, “holds by α, not by F1”, “does not hold” or “undecided”."""
        if self.holds and self.against_f1:
            return "holds by α, not by F1"
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]


def attackers_figure(setting: Setting) -> ReproducedItem:
    """Fig. 6: accuracy and F1 of every attacker against ln(1/ε), at 3 s and at 1 min."""
    import pandas as pd

    panels, tables, details, judged, fitted = [], [], [], {}, []
    for every_s in (PAPER_S, MINUTE_S):
        source = find_building(setting, every_s)
        found = compare_all(source, setting)
        tables.append(found.table.assign(interval_s=every_s))
        statements = judged[every_s] = check_statements(found)
        heading = f"{source.name}, {every_s:g} s"
        limits = {
            label.replace("best possible", "limit of any attacker"): values.mean(axis=1)
            for label, values in find_limits(source).items()
        }
        fitted.append(found.robustness(limits).assign(interval_s=every_s))
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
            epsilons=SHOWN,
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
    return ReproducedItem(
        caption,
        pd.concat(tables, ignore_index=True),
        figure,
        pd.concat(fitted, ignore_index=True),
    )


def contenders(home: Home, *, small_net: bool = False) -> tuple[Contender, ...]:
    """The paper's seven attackers, which do not know the noise, Bayes and the two floors.

    The RNN is trained once for each of `RNN_SEEDS`. ALIP and IP are added as their authors run
    them if the home has the loads that their constants describe.
    """
    size = SMALL_NET if small_net else FULL_NET
    nets = tuple(Contender(f"RNN {k}", "rnn", {"settings": size, "seed": k}) for k in RNN_SEEDS)
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


DECISIVE = 2.0
"""Difference of BIC that counts as evidence (Kass and Raftery, 1995)."""

Ends = tuple[float, float]

AUTHORS_RATINGS = {
    "fridge": (6.0, 186.0, 425.0),
    "dishwasher": (1096.0, 215.0),
    "microwave": (1550.0,),
    "washer_dryer_2": (2740.0, 550.0),
}
"""Ratings [W] that the authors of ALIP give for the loads of REDD building 1 by these names."""


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
        Contender("ALIP, authors’ rules", "alip", {**given, "rules": rules}),
        Contender("IP, authors’ rules", "ip", given),
    )


def compare_all(source: Source, setting: Setting, *, authors: bool = True) -> Comparison:
    """Sweep all attackers; the trainings of the RNN become one attacker with several runs."""
    import pandas as pd

    every = contenders(source.case.home, small_net=not source.real)
    if not authors:
        every = tuple(one for one in every if "authors" not in one.label)
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
    both = pd.concat([found.table, runs[list(found.table.columns)]])
    # In the order of the contenders, which decides the colours of the figure.
    order = dict.fromkeys("RNN" if one in nets else one.label for one in every)
    table = pd.concat([both[both.attacker == name] for name in order], ignore_index=True)
    return Comparison(table, failed=(*found.failed, *trained.failed))


def find_limits(source: Source) -> dict[str, FloatArray]:
    """Exact odds of the best attacker from one reading and over a typical run, shape (E, N)."""
    case = source.case
    unit = resolve_unit("fluctuation", interval_s=case.test.interval_s, home=case.home)
    on = case.test.truth().mean(axis=0)
    lengths = [min(typical_run(case.test, i), MOST_RUN) for i in range(len(case.home))]
    one, run = [], []
    for epsilon in EPSILONS:
        mechanism = calibrate("laplace", epsilon, unit)
        one.append(universal_limit(case.home, mechanism, on))
        run.append(
            [
                universal_limit(case.home.subset([name]), mechanism, float(prior), readings=length)[
                    0
                ]
                for name, prior, length in zip(case.home.names, on, lengths, strict=True)
            ]
        )
    return {ONE: np.array(one), RUN: np.array(run)}


MOST_RUN = 400
"""Longest run [readings] for which the limit is computed; it is nearly one beyond."""


def typical_run(trace: Trace, appliance: int) -> int:
    """Median number of readings for which an appliance stays on."""
    lengths = Runs.of_true(trace.truth()[:, appliance]).length
    return int(np.median(lengths)) if lengths.size else 1


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
    if "RNN" in there:
        statements.append(_ordinary(found, there))
    return [*statements, _piecewise(found, there)]


def _all_above(first: list[Ends], second: list[Ends]) -> bool | None:
    """Whether each interval of the first list is above each of the second.

    True if all are above, False if one is below, and None if some overlap.
    """
    pairs = [(one, other) for one in first for other in second]
    if all(one[0] > other[1] for one, other in pairs):
        return True
    return False if any(one[1] < other[0] for one, other in pairs) else None


def _ahead(found: Comparison, words: str, first: str, rivals: list[str]) -> Statement:
    """Whether an attacker has a larger α than all its rivals with little noise."""
    mine = found.interval(first)
    holds = _all_above([mine], [found.interval(name) for name in rivals])
    best = {max(rivals, key=lambda name: found.mean(name, m)) for m in ("alpha", "f1")}
    near = {name for name in rivals if found.interval(name)[1] >= mine[0]}
    shown = [first, *(name for name in rivals if name in best | near)]
    listed = [f"{name} {found.tell(name)}" for name in shown]
    f1 = [f"{name} {found.mean(name, 'f1'):.2f}" for name in shown]
    because = f"α at ε = {CALM:g}: {', '.join(listed)}; F1: {', '.join(f1)}"
    ahead = max(found.mean(name, "f1") for name in rivals)
    return Statement(words, holds, because, found.mean(first, "f1") < ahead)


def _flatter(found: Comparison, pair: list[str], fragile: list[str]) -> Statement:
    """Whether two attackers lose less α per unit of ln(1/ε) than two others."""
    told, verdicts = [], []
    for measure, symbol in (("alpha", "α"), ("f1", "F1")):
        slope = {name: found.fits(measure)[name].steepest for name in (*pair, *fragile)}
        ends = {name: (one.low, one.high) for name, one in slope.items()}
        verdicts.append(_all_above([ends[n] for n in pair], [ends[n] for n in fragile]))
        listed = (f"{n} {o.value:+.3f} [{o.low:+.3f}, {o.high:+.3f}]" for n, o in slope.items())
        told.append(f"slopes of {symbol}: {', '.join(listed)}")
    words = f"{' and '.join(pair)} are more robust than {' and '.join(fragile)}"
    return Statement(words, verdicts[0], "; ".join(told), verdicts[1] is not True)


def _ordinary(found: Comparison, there: list[str]) -> Statement:
    """Whether the RNN is neither among the first two nor the last, whatever its training run."""
    low, high = found.interval("RNN")
    others = [found.mean(name) for name in there if name != "RNN"]
    first, last = (1 + sum(other > edge for other in others) for edge in (high, low))
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
    unit = resolve_unit("fluctuation", interval_s=case.test.interval_s, home=case.home)
    noisy = calibrate("laplace", MIDDLE, unit).release(case.test.readings, rng=setting.seed)
    lost = attacker.count_unexpected(case.test.replace_readings(noisy)) / len(case.test)
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
            f"Laplace, scale {source.case.home.tolerance / 2:g}/ε W, on the attacked part; "
            f"{len(EPSILONS)} values of ε, {setting.seeds} seeds",
        ),
        (
            "RNN",
            f"LSTMs of {' and '.join(map(str, net['hidden']))}"
            f"{', the published size' if source.real else ''}, window of one reading, trained with "
            f"{len(RNN_SEEDS)} seeds on at most {net['most_readings']} evenly spaced readings; "
            f"each training is run on {RNN_RELEASES} release of every ε, and its band is over the "
            "trainings",
        ),
        ("FHMM", "NILMTK’s two states and 5 W²"),
    ]


def appliances_figure(setting: Setting) -> ReproducedItem:
    """Accuracy about each appliance against ln(1/ε), with the exact odds of the best attacker."""
    import pandas as pd

    source = find_building(setting)
    home, test = source.case.home, source.case.test
    found = compare_all(source, setting, authors=False)
    limits = find_limits(source)
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
