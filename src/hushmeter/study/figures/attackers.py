"""Figure 6: the paper's seven attackers, Bayes and the floors, on building 1 of REDD."""

from __future__ import annotations

from dataclasses import dataclass

from hushmeter.attack.super_state_hmm import SuperStateHmm
from hushmeter.plot.accuracy import draw_sweep
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.study.breakpoints import rank_by_slope
from hushmeter.study.figures.comparison import CALM, Comparison, compare
from hushmeter.study.figures.item import EPSILONS, Caption, ReproducedItem, Setting
from hushmeter.study.figures.sources import Source, find_building, with_real_mains
from hushmeter.study.plan import Contender

PAPER = ("Sparse-HMM", "ALIP", "IP", "RNN", "CO", "FHMM", "multi-shot")
BAYES = "Bayes (knows the noise)"
SMALL_NET = {"hidden": (32, 64)}
MAINS_EPSILONS = (EPSILONS[0], EPSILONS[3], EPSILONS[5], EPSILONS[7])
CLAIM = (
    "Sparse-HMM is best; it and the multi-shot algorithm are vulnerable to noise; ALIP beats IP "
    "and both are robust; RNN is ordinary; CO and FHMM are robust and weak; the accuracy of each "
    "is piecewise linear in ln(1/ε)."
)


@dataclass(frozen=True)
class Statement:
    """A statement of the paper about the figure, and whether it holds here."""

    words: str
    holds: bool
    because: str

    def __str__(self) -> str:
        return f"“{self.words}” {'holds' if self.holds else 'does not hold'} ({self.because})"


def attackers_figure(setting: Setting) -> ReproducedItem:
    """Fig. 6: accuracy and F1 of every attacker against ln(1/ε)."""
    import pandas as pd

    source = find_building(setting)
    found = compare(source.case, setting, contenders(small_net=not source.real))
    statements = check_statements(found)
    finding = f"{_ranking(found)} {_above_the_floor(found)} {_bayes(found)}"
    table = found.table
    if source.real:
        mains = compare(
            with_real_mains(source, setting),
            setting,
            tuple(one for one in contenders() if one.label != "RNN"),
            epsilons=MAINS_EPSILONS,
        )
        finding += f" {_mains(mains)}"
        table = pd.concat([table, mains.table], ignore_index=True)
    holding = sum(one.holds for one in statements)
    verdict = {0: "differs", len(statements): "agrees"}.get(holding, "in part")
    reason = (
        f"{holding} of {len(statements)} statements hold: {'; '.join(map(str, statements))}. "
        f"{_reasons(source, setting)}"
    )
    figure = draw_sweep(found.table, f"Fig. 6: seven algorithms, and one more, {source.name}")
    words = source.words + _sizes(setting, source)
    return ReproducedItem(Caption("fig6", words, CLAIM, finding, verdict, reason), table, figure)


def contenders(*, small_net: bool = False) -> tuple[Contender, ...]:
    """The paper's seven attackers, which do not know the noise, Bayes and the two floors."""
    return (
        Contender("Sparse-HMM", "sparse-hmm"),
        Contender("ALIP", "alip"),
        Contender("IP", "ip"),
        Contender("RNN", "rnn", SMALL_NET if small_net else {}),
        Contender("CO", "co"),
        Contender("FHMM", "fhmm", {"most_levels": 1, "variance": 5.0}, knows_noise=False),
        Contender("multi-shot", "multi-shot", knows_noise=False),
        Contender(BAYES, "bayes"),
        Contender("all-off", "all-off"),
        Contender("hold", "hold"),
    )


def check_statements(found: Comparison) -> list[Statement]:
    """Check the statements of Section V-E about the figure one by one.

    Parameters
    ----------
    found : Comparison
        The rows of the sweep.

    Returns
    -------
    list of Statement
        The statements, with whether they hold.
    """
    seven = [name for name in found.rank() if name in PAPER]
    fits = {name: fit for name, fit in found.fits().items() if name in PAPER}
    slope = {name: fit.steepest.value for name, fit in fits.items()}
    statements = [_best(found, seven), _better_pair(found, "ALIP", "IP")]
    fragile = [name for name in ("Sparse-HMM", "multi-shot") if name in slope]
    for pair in (("ALIP", "IP"), ("CO", "FHMM")):
        flat = min(slope[name] for name in pair) > max(slope[name] for name in fragile)
        listed = ", ".join(f"{name} {slope[name]:+.3f}" for name in (*pair, *fragile))
        words = f"{pair[0]} and {pair[1]} are more robust than Sparse-HMM and multi-shot"
        statements.append(Statement(words, flat, f"slopes {listed}"))
    weak = max(found.mean(n) for n in ("CO", "FHMM")) < found.mean("Sparse-HMM")
    listed = ", ".join(f"{n} {found.mean(n):.3f}" for n in ("CO", "FHMM", "Sparse-HMM"))
    statements.append(Statement("CO and FHMM are weaker than Sparse-HMM", weak, f"α {listed}"))
    if "RNN" in seven:
        place = seven.index("RNN") + 1
        words = "RNN is ordinary"
        statements.append(
            Statement(words, 2 < place < len(seven), f"{_ordinal(place)} of {len(seven)}")
        )
    bent = [name for name, fit in fits.items() if fit.better == "piecewise"]
    curved = [name for name in fits if name not in bent]
    because = "by BIC" if not curved else f"a sigmoid fits better for {', '.join(curved)}"
    statements.append(Statement("piecewise linear in ln(1/ε)", not curved, because))
    return statements


def _best(found: Comparison, seven: list[str]) -> Statement:
    by_f1 = [name for name in found.rank("f1") if name in PAPER]
    places = (_ordinal(order.index("Sparse-HMM") + 1) for order in (seven, by_f1))
    because = "{} of {count} by α, {} by F1".format(*places, count=len(seven))
    return Statement("Sparse-HMM is best", seven[0] == "Sparse-HMM", because)


def _better_pair(found: Comparison, first: str, second: str) -> Statement:
    means = {name: [found.mean(name, epsilon=e) for e in EPSILONS] for name in (first, second)}
    wins = sum(a > b for a, b in zip(*means.values(), strict=True))
    because = (
        f"α {means[first][0]:.3f} against {means[second][0]:.3f} at ε = {CALM:g}, ahead at {wins} "
        f"of {len(EPSILONS)} ε"
    )
    return Statement(f"{first} beats {second}", wins > len(EPSILONS) / 2, because)


def _ranking(found: Comparison) -> str:
    slopes = ", ".join(rank_by_slope(found.fits("f1")))
    return (
        f"{found.summary()} F1 at ε = {CALM:g} is: {found.list_means('f1')}. The order from robust "
        f"to fragile by the slope of F1 is: {slopes}."
    )


def _above_the_floor(found: Comparison) -> str:
    """A sentence about the smallest ε at which each attacker is better than “everything off”."""
    floor = float(found.table.alpha_floor.mean())
    listed = []
    for name in found.names:
        above = [e for e in EPSILONS if found.mean(name, epsilon=e) > floor]
        listed.append(f"{name} {f'down to ε = {min(above):.2g}' if above else 'at no ε'}")
    return f"These attackers are better than “everything off”: {', '.join(listed)}."


def _bayes(found: Comparison) -> str:
    middle = EPSILONS[5]
    best = next(name for name in found.rank("f1", middle) if name in PAPER)
    return (
        f"At ε = {middle:.2g} the attacker who knows the noise has α "
        f"{found.mean(BAYES, epsilon=middle):.3f} and F1 {found.mean(BAYES, 'f1', middle):.2f}, "
        f"the best of the seven by F1 ({best}) {found.mean(best, epsilon=middle):.3f} and "
        f"{found.mean(best, 'f1', middle):.2f}."
    )


def _mains(mains: Comparison) -> str:
    return (
        f"With the real mains instead of the sum of the loads (no RNN), α at ε = {CALM:g}: "
        f"{mains.list_means()}; F1: {mains.list_means('f1')}."
    )


def _reasons(source: Source, setting: Setting) -> str:
    """Sentences about why the order differs from the paper's."""
    case = source.case
    attacker = SuperStateHmm(case.home).fit(case.train)
    unseen = attacker.count_unexpected(case.test) / len(case.test)

    unit = resolve_unit("fluctuation", interval_s=case.test.interval_s, home=case.home)
    middle = EPSILONS[5]
    noisy = calibrate("laplace", middle, unit).release(case.test.readings, rng=setting.seed)
    lost = attacker.count_unexpected(case.test.replace_readings(noisy)) / len(case.test)
    return (
        f"Sparse-HMM knows only the states of its training data: {unseen:.1%} of the readings "
        f"without noise and {lost:.1%} at ε = {middle:.2g} fit no sequence of states, and for "
        "these it answers “everything off”. With much noise its α therefore returns to this floor, "
        "which looks robust, while its F1 falls to zero. The paper explains the robustness of IP "
        "and ALIP by a median filter. IP has no such filter, and the filter of ALIP is a constant "
        "that its authors chose for other loads, so neither has one here; ALIP’s other rules are "
        "learnt from the training part. α rewards the answer “off”, so F1 and the floors show more."
    )


def _sizes(setting: Setting, source: Source) -> str:
    net = "RNN with layers of 32 and 64" if not source.real else "RNN of the published size"
    return (
        f"; Laplace noise of scale {source.case.home.tolerance / 2:g}/ε W on the attacked part, "
        f"{len(EPSILONS)} values of ε, {setting.seeds} seeds; {net}; FHMM with NILMTK’s two states "
        "and 5 W²"
    )


def _ordinal(place: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(place, f"{place}th")
