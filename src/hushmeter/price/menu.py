"""The menu: one line per ε, told in sentences, and how it moves with its assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, non_negative, one_of, positive, whole
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import duration_in_words, format_watts, out_of_100
from hushmeter.home import Home
from hushmeter.price.clusters import DayClusters, cluster_days, cluster_fidelity
from hushmeter.privacy.accounting import compose_run
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.theory.universal import universal_limit
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

USES = ("hourly", "forecast", "clusters", "appliances")
HOUR_S = 3600.0


@dataclass(frozen=True)
class Buyer:
    """What a buyer pays for.

    Attributes
    ----------
    value : float
        V: what a year of perfect data of one household is worth to him.
    use : {"hourly", "forecast", "clusters", "appliances"}
        q: fidelity of the hourly curve, e₀/(error of an hourly forecast), share of days that stay
        in their cluster, or the mean visibility of the appliances.
    shape : float
        k: below 1 the first bit of quality is worth most, above 1 the last.
    handling : float
        What a year of one household costs to collect, whatever ε is.
    """

    value: float = 60.0
    use: str = "hourly"
    shape: float = 0.5
    handling: float = 0.0

    def __post_init__(self) -> None:
        non_negative("the buyer's value", self.value)
        positive("the buyer's shape", self.shape)
        non_negative("the buyer's handling", self.handling)
        one_of("the buyer's use", self.use, USES)


@dataclass(frozen=True)
class Load:
    """What the buyer's errors are measured against.

    Attributes
    ----------
    hourly_sd_w : float
        Standard deviation of the true hourly means [W].
    forecast_w : float
        e₀: root mean square error of the forecast on true data [W].
    lag_h : int
        Hours back that the forecast looks.
    """

    hourly_sd_w: float
    forecast_w: float
    lag_h: int


@dataclass(frozen=True)
class Entry:
    """One line of the menu; money is per year.

    Attributes
    ----------
    epsilon : float
    scale_w, hourly_noise_w : float
        Width of the noise of a released reading, and σ_h [W].
    forecast_w : float
        Root mean square error of the hourly forecast [W].
    fidelity : float
        Share of the variance of the noisy hourly curve that is the household's.
    clusters : float or None
        Share of days that stay in their cluster; None where no clusters are known.
    accuracy : tuple of float
        How often the best attacker names one released reading's state rightly, on and off
        equally likely: `universal_limit`.
    visibility : tuple of float
        v_i over one run.
    quality : float
        q of the buyer.
    compensation, willingness, surplus : float
        C, W and S.
    """

    epsilon: float
    scale_w: float
    hourly_noise_w: float
    forecast_w: float
    fidelity: float
    clusters: float | None
    accuracy: tuple[float, ...]
    visibility: tuple[float, ...]
    quality: float
    compensation: float
    willingness: float
    surplus: float


def describe_load(trace: Trace) -> Load:
    """Spread of the hourly curve and error of the forecast "as in the same hour before".

    The hour before is that of yesterday where the trace is longer than a day, else the last one.
    """
    if trace.interval_s > HOUR_S:
        raise DataError("prices need readings of an hour or less.")
    hourly = trace.hourly()
    steps = np.arange(len(hourly)) if hourly.steps is None else hourly.steps
    if len(hourly) < 3:
        raise DataError("prices need readings of at least three hours.")
    lag = 24 if int(steps[-1]) >= 26 else 1
    at = {int(step): i for i, step in enumerate(steps)}
    pairs = [(at[int(s)], at[int(s) - lag]) for s in steps if int(s) - lag in at]
    if not pairs:
        raise DataError(f"no two hours of this trace are {lag} h apart.")
    now, before = np.array(pairs).T
    errors = hourly.readings[now] - hourly.readings[before]
    spread = float(hourly.readings.std())
    if spread == 0:
        raise DataError("the hourly load never changes, so there is nothing to sell.")
    return Load(spread, float(np.sqrt((errors**2).mean())), lag)


def worthwhile_range(entries: Sequence[Entry]) -> tuple[float, float] | None:
    """The ε around the best with S ≥ 0, edges interpolated in ln ε; None if there is none."""
    surplus = np.array([entry.surplus for entry in entries])
    logs = np.log([entry.epsilon for entry in entries])
    top = int(surplus.argmax())
    if surplus[top] < 0 or not surplus.any():
        return None
    left = right = top
    while left > 0 and surplus[left - 1] >= 0:
        left -= 1
    while right < surplus.size - 1 and surplus[right + 1] >= 0:
        right += 1
    return _edge(logs, surplus, left, -1), _edge(logs, surplus, right, 1)


def make_entry(
    mechanism: Mechanism,
    epsilon: float,
    home: Home,
    unit: Unit,
    load: Load,
    weights: tuple[float, ...],
    buyer: Buyer,
    *,
    days: DayClusters | None = None,
    before: Entry | None = None,
) -> Entry:
    """The line of the menu for one mechanism.

    `weights` are the household's w_i. What is seen cannot fall as ε rises, except by the last
    digits of a numerical convolution or of a simulation: it is at least that of the line `before`.
    """
    released_s = unit.interval_s * unit.window
    noise = mechanism.std / math.sqrt(max(1.0, HOUR_S / released_s))
    forecast = math.hypot(load.forecast_w, noise)
    fidelity = load.hourly_sd_w**2 / (load.hourly_sd_w**2 + noise**2)
    seen = appliance_visibility(mechanism, home, unit)
    stay = None if days is None else cluster_fidelity(mechanism, unit, days)
    if before is not None:
        seen = tuple(map(max, seen, before.visibility))
        stay = None if stay is None or before.clusters is None else max(stay, before.clusters)
    useful: dict[str, float | None] = {
        "hourly": fidelity,
        "forecast": load.forecast_w / forecast,
        "clusters": stay,
        "appliances": sum(seen) / len(seen),
    }
    quality = useful[buyer.use]
    if quality is None:
        raise InputError(
            "a buyer of clusters needs eight whole days of readings, or the days of many homes "
            "(--profiles) and one whole day."
        )
    entry = Entry(
        epsilon=epsilon,
        scale_w=mechanism.scale,
        hourly_noise_w=noise,
        forecast_w=forecast,
        fidelity=fidelity,
        clusters=stay,
        accuracy=tuple(float(x) for x in universal_limit(home, mechanism)),
        visibility=seen,
        quality=quality,
        compensation=0.0,
        willingness=0.0,
        surplus=0.0,
    )
    return reprice(entry, sum(w * v for w, v in zip(weights, seen, strict=True)), buyer)


def reprice(entry: Entry, compensation: float, buyer: Buyer) -> Entry:
    """The same line with another compensation and another buyer."""
    willing = buyer.value * entry.quality**buyer.shape
    return replace(
        entry,
        compensation=compensation,
        willingness=willing,
        surplus=willing - compensation - buyer.handling,
    )


def appliance_visibility(mechanism: Mechanism, home: Home, unit: Unit) -> tuple[float, ...]:
    """v_i = 2·odds_i − 1 of every appliance, over one run of its usual length.

    An appliance of unknown run length is judged over the span of the unit.
    """
    seen = []
    for i, appliance in enumerate(home.appliances):
        change = unit.changes[i if len(unit.changes) == len(home) else 0]
        length = change.readings
        if appliance.run_s is not None:
            length = math.ceil(appliance.run_s / unit.interval_s)
        odds = compose_run(mechanism, max(appliance.on_levels), length, change.window).odds
        seen.append(min(1.0, max(0.0, 2 * odds - 1)))
    return tuple(seen)


def _edge(logs: FloatArray, surplus: FloatArray, at: int, step: int) -> float:
    """Where the surplus crosses zero between `at` and its neighbour, or the end of the menu."""
    beyond = at + step
    if not 0 <= beyond < logs.size:
        return float(np.exp(logs[at]))
    share = surplus[at] / (surplus[at] - surplus[beyond])
    return float(np.exp(logs[at] + share * (logs[beyond] - logs[at])))


HARM = 10.0
EPSILONS = tuple(float(f"{e:.2g}") for e in np.geomspace(0.01, 10.0, 19))


@dataclass(frozen=True)
class Menu:
    """Prices for every ε, with all that they rest on.

    Attributes
    ----------
    entries : tuple of Entry
        Ascending in ε.
    best : Entry
        Largest surplus.
    worthwhile : (float, float) or None
        Smallest and largest ε with S ≥ 0 around the best; None if there is none.
    names : tuple of str
    harm : tuple of float
        w_i.
    buyer : Buyer
    load : Load
    unit : Unit
    mechanism : str
    assumptions : tuple of str
    """

    entries: tuple[Entry, ...]
    best: Entry
    worthwhile: tuple[float, float] | None
    names: tuple[str, ...]
    harm: tuple[float, ...]
    buyer: Buyer
    load: Load
    unit: Unit
    mechanism: str
    assumptions: tuple[str, ...]


def price_menu(
    home: Home,
    trace: Trace,
    *,
    harm: Mapping[str, float] | float = HARM,
    buyer: Buyer | None = None,
    profiles: ArrayLike | None = None,
    epsilons: Sequence[float] = EPSILONS,
    mechanism: str = "laplace",
    protect: str = "appliance",
    span: str = "reading",
    every: float | str | None = None,
    delta: float = 1e-6,
    refine: int = 2,
    watch: Callable[[Sequence[float]], Iterable[float]] | None = None,
) -> Menu:
    """The menu of a household.

    Parameters
    ----------
    home : Home
    trace : Trace
        Readings, for the hourly curve and its forecast.
    harm : mapping of name to number, or number
        w_i: what a year in which the appliance lies open is worth to the household; appliances
        that are not named cost nothing. One number holds for each of them.
    buyer : Buyer, optional
    profiles : array, shape (m, 24), optional
        [kWh]; the days from which the buyer has his clusters, see `cluster_days`.
    epsilons : sequence of float
    mechanism : {"laplace", "staircase", "gaussian"}
    protect, span, every
        The unit of protection that ε refers to; see `resolve_unit`.
    delta : float
        δ of Gaussian noise.
    refine : int
        How often both gaps beside the best line are halved.
    watch : callable, optional
        Wraps the sequence of ε, for a progress bar.
    """
    buyer = Buyer() if buyer is None else buyer
    weights = _weights(home, harm)
    unit = resolve_unit(
        protect, span, interval_s=trace.interval_s, home=home, every=every, trace=trace
    )
    load, days = describe_load(trace), cluster_days(trace, profiles)
    wanted = sorted(positive("epsilon", e) for e in epsilons)
    if len(wanted) < 2:
        raise InputError("a menu needs at least two values of epsilon.")

    def line(epsilon: float, before: Entry | None) -> Entry:
        noise = calibrate(mechanism, epsilon, unit, delta=delta)
        return make_entry(
            noise, epsilon, home, unit, load, weights, buyer, days=days, before=before
        )

    entries: list[Entry] = []
    for epsilon in wanted if watch is None else watch(wanted):
        entries.append(line(epsilon, entries[-1] if entries else None))
    for _ in range(whole("refine", refine, least=0)):
        entries = _refine(entries, line)
    best = max(entries, key=lambda entry: entry.surplus)
    return Menu(
        tuple(entries),
        best,
        worthwhile_range(entries),
        home.names,
        weights,
        buyer,
        load,
        unit,
        mechanism,
        _assumptions(home, weights, buyer, load, days, unit, mechanism),
    )


def _refine(entries: list[Entry], line: Callable[[float, Entry | None], Entry]) -> list[Entry]:
    """One more line, three digits in ε, in the middle of each gap beside the best one."""
    top = max(range(len(entries)), key=lambda i: entries[i].surplus)
    more = []
    for left in range(max(0, top - 1), min(top + 1, len(entries) - 1)):
        low, high = entries[left], entries[left + 1]
        middle = float(f"{(low.epsilon * high.epsilon) ** 0.5:.3g}")
        if low.epsilon < middle < high.epsilon:
            more.append(line(middle, low))
    return sorted([*entries, *more], key=lambda entry: entry.epsilon)


def rescale(menu: Menu, *, harm: float = 1.0, value: float = 1.0, shape: float = 1.0) -> Menu:
    """The same menu with harm, the buyer's value and his shape multiplied."""
    buyer = replace(menu.buyer, value=menu.buyer.value * value, shape=menu.buyer.shape * shape)
    entries = tuple(reprice(e, e.compensation * harm, buyer) for e in menu.entries)
    best = max(entries, key=lambda entry: entry.surplus)
    return replace(
        menu,
        entries=entries,
        best=best,
        worthwhile=worthwhile_range(entries),
        harm=tuple(w * harm for w in menu.harm),
        buyer=buyer,
    )


VARIATIONS: dict[str, dict[str, float]] = {
    "as assumed": {},
    "harm × ½": {"harm": 0.5},
    "harm × 2": {"harm": 2.0},
    "buyer's value × ½": {"value": 0.5},
    "buyer's value × 2": {"value": 2.0},
    "buyer's shape × ½": {"shape": 0.5},
    "buyer's shape × 2": {"shape": 2.0},
}


def vary_menu(menu: Menu) -> dict[str, Menu]:
    """How the answer moves with what it rests on."""
    return {name: rescale(menu, **factors) for name, factors in VARIATIONS.items()}


def tell_menu(menu: Menu) -> tuple[str, ...]:
    """The answer, one sentence each, and then every assumption."""
    best, last = menu.best, menu.entries[-1]
    if menu.worthwhile is None:
        head = ["At no ε of the menu does the buyer pay what the household asks."]
    else:
        low, high = menu.worthwhile
        less = " or less" if low <= menu.entries[0].epsilon * (1 + 1e-9) else ""
        more = " or more" if high >= last.epsilon * (1 - 1e-9) else ""
        head = [
            f"A trade is worthwhile for ε from {low:.3g}{less} to {high:.3g}{more}; it is best, "
            f"with {best.surplus:.2f} a year to share, at ε = {best.epsilon:.3g}.",
            f"There the household asks {best.compensation:.2f} a year and the buyer would pay "
            f"{best.willingness:.2f}.",
        ]
    worst = max(range(len(menu.names)), key=lambda i: best.visibility[i])
    head += [
        f"The buyer forecasts an hour to {format_watts(best.forecast_w)} (true data: "
        f"{format_watts(menu.load.forecast_w)}); of his hourly curve "
        f"{out_of_100(best.fidelity)} % is the "
        "household's, the rest noise.",
        f"Most exposed is the {menu.names[worst]}: {_odds(best, worst)} of 100 guesses about one "
        f"run are right; at ε = {last.epsilon:.3g}: {_odds(last, worst)}; a coin: 50.",
    ]
    return (*head, *(f"Assumed: {line}" for line in menu.assumptions))


def _odds(entry: Entry, i: int) -> str:
    """Odds of 100 about one run; proved odds stay below certainty, however near."""
    return out_of_100(min((1 + entry.visibility[i]) / 2, 1 - 1e-12))


def _weights(home: Home, harm: Mapping[str, float] | float) -> tuple[float, ...]:
    if not isinstance(harm, Mapping):
        return (non_negative("harm", harm),) * len(home)
    for name in harm:
        home.index(name)
    return tuple(non_negative(f"harm of {n}", harm.get(n, 0.0)) for n in home.names)


def _assumptions(
    home: Home,
    weights: tuple[float, ...],
    buyer: Buyer,
    load: Load,
    days: DayClusters | None,
    unit: Unit,
    mechanism: str,
) -> tuple[str, ...]:
    asked = ", ".join(f"{n} {w:g}" for n, w in zip(home.names, weights, strict=True) if w)
    every = unit.window * unit.interval_s
    return (
        f"Noise: {mechanism}, on readings of {duration_in_words(every)}; ε protects "
        f"{unit.sentence}.",
        f"Harm a year if an appliance lay open: {asked or 'none'}; in proportion to 2·odds − 1 of "
        "the best attacker about one run, who knows the rest of the house.",
        f"Buyer: {buyer.value:g} a year for perfect data, quality “{buyer.use}” to the power "
        f"{buyer.shape:g}, {buyer.handling:g} for handling.",
        f"Hourly load: standard deviation {load.hourly_sd_w:.0f} W; forecast from {load.lag_h} h "
        f"before errs by {load.forecast_w:.0f} W on true data.",
        "Clusters: none, as too few whole days are known."
        if days is None
        else f"Clusters: {len(days.centres)}, for {len(days.days)} whole days of this household.",
        "The household is paid to be indifferent, is neutral to risk and sells the same ε all "
        "year; what many runs tell together is not counted.",
    )
