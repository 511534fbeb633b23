"""The menu of prices: one entry for each ε, its sentences, and other assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, non_negative, one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.formatting import duration_in_words, format_watts, out_of_100
from hushmeter.home import Home
from hushmeter.price.load import DayClusters, Load, cluster_days, cluster_fidelity, describe_load
from hushmeter.privacy.accounting import compose_change
from hushmeter.privacy.units import Unit, metered, with_longest_runs
from hushmeter.releases.request import Request
from hushmeter.releases.restore import Estimate
from hushmeter.theory.universal import universal_limit
from hushmeter.trace import SECONDS_PER_HOUR, Trace, nearest_multiple

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

USES = ("hourly", "forecast", "clusters", "appliances")


@dataclass(frozen=True)
class Buyer:
    """The buyer's use of the data and its value."""

    value: float = 60.0  # Value V of a year of perfect data of one household [money/year]
    # Quality q of the data: the skill of the hourly curve or of an hourly forecast, which is 0 for
    # data that are not better than none, the share of days that stay in their cluster, or the mean
    # visibility of the appliances.
    use: str = "hourly"
    # Exponent k of the value V·q^k. Below 1, low quality already has much of the value; above 1,
    # only high quality has.
    shape: float = 0.5
    # Cost of collecting the data of one household [money/year], independent of ε
    handling: float = 0.0

    def __post_init__(self) -> None:
        non_negative("the buyer's value", self.value)
        positive("the buyer's shape", self.shape)
        non_negative("the buyer's handling", self.handling)
        one_of("the buyer's use", self.use, USES)


@dataclass(frozen=True)
class Entry:
    """One entry of the menu.

    Attributes
    ----------
    epsilon : float
        ε of the unit of protection.
    scale_w, hourly_noise_w : float
        Scale of the noise of a released reading, and the standard deviation σ_h of the noise of an
        hourly mean. [W]
    forecast_w : float
        Root mean square error of the hourly forecast. [W]
    fidelity : float
        Share of the variance of the noisy hourly curve that is the household's.
    clusters : float or None
        Share of days that stay in their cluster; None if there are no clusters.
    accuracy : tuple of float
        Probability that the best attacker is right about the state of each appliance in one
        released reading, if on and off are equally likely; see `universal_limit`.
    visibility : tuple of float
        Visibility v_i of one run of each appliance.
    quality : float
        Quality q of the data for the buyer.
    compensation, willingness, surplus : float
        C, W and S. [money/year]
    forecast_se_w, fidelity_se, quality_se, willingness_se, surplus_se : float
        Standard errors that follow from those of the load; 0 for true readings. The compensation
        does not depend on the load.
    clusters_se : float or None
        Standard error of `clusters`; None if there are no clusters.
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
    forecast_se_w: float = 0.0
    fidelity_se: float = 0.0
    clusters_se: float | None = None
    quality_se: float = 0.0
    willingness_se: float = 0.0
    surplus_se: float = 0.0


def worthwhile_range(entries: Sequence[Entry]) -> tuple[float, float] | None:
    """Return the range of ε around the best with S ≥ 0; None if there is none.

    The ends are interpolated in ln ε.
    """
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


@dataclass(frozen=True)
class Sale:
    """What decides the entries of a menu beside the noise."""

    home: Home  # The appliances
    unit: Unit  # The unit of protection
    load: Load  # Statistics of the true load
    weights: tuple[float, ...]  # Harm w_i of each appliance [money/year]
    buyer: Buyer  # The buyer
    days: DayClusters | None = None  # The household's days and the buyer's clusters
    redrawn: Sequence[DayClusters] = ()  # The same with the errors of released hours drawn again

    def entry(self, mechanism: Mechanism, epsilon: float, before: Entry | None = None) -> Entry:
        """Return the entry of the menu for one mechanism, after the entry `before`."""
        released_s = self.unit.interval_s * self.unit.window
        noise = mechanism.std / math.sqrt(max(1.0, SECONDS_PER_HOUR / released_s))
        forecast = math.sqrt(self.load.forecast_w**2 + self.load.added_square(noise))
        fidelity = self.load.hourly_sd_w**2 / (self.load.hourly_sd_w**2 + noise**2)
        seen = appliance_visibility(mechanism, self.home, self.unit)
        stay = None if self.days is None else cluster_fidelity(mechanism, self.unit, self.days)
        if before is not None:
            seen = tuple(map(max, seen, before.visibility))
            stay = None if stay is None or before.clusters is None else max(stay, before.clusters)
        fidelity_se, forecast_se, skill_se = _load_errors(self.load, noise, forecast)
        stay_se = None if stay is None else _stay_error(mechanism, self.unit, self.redrawn)
        skill = max(0.0, 1 - (noise / self.load.hourly_sd_w) ** 2)
        useful: dict[str, tuple[float | None, float | None]] = {
            "hourly": (skill, skill_se if skill else 0.0),
            "forecast": forecast_skill(self.load, forecast),
            "clusters": (stay, stay_se),
            "appliances": (sum(seen) / len(seen), 0.0),
        }
        quality, quality_se = useful[self.buyer.use]
        if quality is None:
            raise InputError(
                "a buyer of clusters needs eight complete days of readings, or the days of many "
                "homes (--profiles) and one complete day."
            )
        entry = Entry(
            epsilon=epsilon,
            scale_w=mechanism.scale,
            hourly_noise_w=noise,
            forecast_w=forecast,
            fidelity=fidelity,
            clusters=stay,
            accuracy=tuple(float(x) for x in universal_limit(self.home, mechanism)),
            visibility=seen,
            quality=quality,
            compensation=0.0,
            willingness=0.0,
            surplus=0.0,
            forecast_se_w=forecast_se,
            fidelity_se=fidelity_se,
            clusters_se=stay_se,
            quality_se=quality_se or 0.0,
        )
        asked = sum(w * v for w, v in zip(self.weights, seen, strict=True))
        return reprice(entry, asked, self.buyer)

    def assumptions(self, mechanism: str) -> tuple[str, ...]:
        """Return the assumptions behind the menu in sentences."""
        buyer, load, days = self.buyer, self.load, self.days
        harms = zip(self.home.names, self.weights, strict=True)
        asked = ", ".join(f"{name} {weight:g}" for name, weight in harms if weight)
        every = self.unit.window * self.unit.interval_s
        # A length that the meter's interval does not divide is named exactly.
        length = duration_in_words(every) if every % 60 == 0 or every < 60 else f"{every:g} s"
        return (
            f"The noise is {mechanism}, on readings of {length}; ε protects {self.unit.sentence}.",
            f"The harm in a year without any protection is: {asked or 'none'}. "
            "It is proportional to 2·odds − 1 of the best attacker about one run, who knows the "
            "rest of the house.",
            f"The buyer pays {buyer.value:g} a year for perfect data, in proportion to the quality "
            f"“{buyer.use}” to the power of {buyer.shape:g}, and has costs of {buyer.handling:g}.",
            f"The hourly load has a standard deviation of {load.hourly_sd_w:.0f}"
            f"{_plus_minus(load.hourly_sd_se_w)} W; the forecast of an hour has an error of "
            f"{load.forecast_w:.0f}{_plus_minus(load.forecast_se_w)} W on true data, the mean "
            f"{load.without_data_w:.0f} W, and the value of {load.lag_h} h before "
            f"{load.naive_w:.0f} W. Data that are not better than none are worth nothing.",
            "There are no clusters, because too few complete days are known."
            if days is None
            else f"There are {len(days.centres)} clusters and {len(days.days)} complete days of "
            "this household.",
            "The payment makes the household indifferent. The household is neutral to risk and "
            "sells the same ε all year; what many runs reveal together is not counted.",
        )


def _load_errors(load: Load, noise: float, forecast: float) -> tuple[float, float, float]:
    """Standard errors of the fidelity, of the forecast error [W], and of the hourly skill."""
    variance = load.hourly_sd_w**2 + noise**2
    return (
        2 * load.hourly_sd_w * noise**2 / variance**2 * load.hourly_sd_se_w,
        load.forecast_w / forecast * load.forecast_se_w if forecast else 0.0,
        2 * noise**2 / load.hourly_sd_w**3 * load.hourly_sd_se_w,
    )


def forecast_skill(load: Load, forecast: float) -> tuple[float, float]:
    """Quality of the data for a forecast with this error [W], and its standard error.

    It is (B² − e²)/(B² − e₀²), where B is the error without data and e₀ that on true data: 1 for
    true data, and 0 for data that are not better than none.
    """
    without, best = load.without_data_w**2, load.forecast_w**2
    if forecast**2 >= without or best >= without:
        return 0.0, 0.0
    added = forecast**2 - best
    error = 2 * load.forecast_w * added / (without - best) ** 2 * load.forecast_se_w
    return (without - forecast**2) / (without - best), error


def _stay_error(mechanism: Mechanism, unit: Unit, redrawn: Sequence[DayClusters]) -> float:
    """Standard deviation of the share of days that stay, over days with their errors redrawn."""
    if not redrawn:
        return 0.0
    return float(np.std([cluster_fidelity(mechanism, unit, days) for days in redrawn], ddof=1))


def reprice(entry: Entry, compensation: float, buyer: Buyer) -> Entry:
    """Return the same entry with another compensation and another buyer."""
    willing = buyer.value * entry.quality**buyer.shape
    slope = buyer.shape * willing / entry.quality if entry.quality else 0.0
    return replace(
        entry,
        compensation=compensation,
        willingness=willing,
        surplus=willing - compensation - buyer.handling,
        willingness_se=slope * entry.quality_se,
        surplus_se=slope * entry.quality_se,
    )


def appliance_visibility(mechanism: Mechanism, home: Home, unit: Unit) -> tuple[float, ...]:
    """v_i = 2·odds_i − 1 of every appliance, over one run of its usual length.

    An appliance of unknown run length is judged over the span of the unit.
    """
    seen = []
    for i, appliance in enumerate(home.appliances):
        change = unit.changes[i if len(unit.changes) == len(home) else 0]
        if appliance.protected_run_s is not None:
            run = unit.change_of(appliance, "run")
        else:
            watts = appliance.protected_power
            run = replace(change, watts=watts, energy=watts * change.seconds)
        odds = compose_change(mechanism, run).odds
        seen.append(min(1.0, max(0.0, 2 * odds - 1)))
    return tuple(seen)


def _edge(logs: FloatArray, surplus: FloatArray, at: int, step: int) -> float:
    """The ε at which the surplus crosses zero beyond `at`, or the end of the menu."""
    beyond = at + step
    if not 0 <= beyond < logs.size:
        return float(np.exp(logs[at]))
    share = surplus[at] / (surplus[at] - surplus[beyond])
    return float(np.exp(logs[at] + share * (logs[beyond] - logs[at])))


EVERY_TOLERANCE = 0.1
"""Largest relative difference between the requested and the used length of released readings."""

HARM = 10.0
"""Default harm w_i of every appliance [money/year]."""

REDRAWN = 8
"""Number of draws of the errors of released hours, for the standard error of clusters."""

EPSILONS = tuple(float(f"{e:.2g}") for e in np.geomspace(0.01, 10.0, 19))


@dataclass(frozen=True)
class Menu:
    """Prices for every ε, with their assumptions.

    Attributes
    ----------
    entries : tuple of Entry
        The entries in ascending order of ε.
    best : Entry
        The entry with the largest surplus.
    worthwhile : (float, float) or None
        Smallest and largest ε with S ≥ 0 around the best; None if there is none.
    names : tuple of str
        The appliances.
    harm : tuple of float
        Harm w_i of each appliance. [money/year]
    buyer : Buyer
        The buyer.
    load : Load
        Statistics of the true load.
    unit : Unit
        The unit of protection.
    mechanism : str
        Name of the mechanism.
    assumptions : tuple of str
        The assumptions in sentences.
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
    home: Home | Request,
    trace: Trace | Estimate,
    *,
    harm: Mapping[str, float] | float = HARM,
    buyer: Buyer | None = None,
    profiles: ArrayLike | None = None,
    epsilons: Sequence[float] = EPSILONS,
    refine: int = 2,
    watch: Callable[[Sequence[float]], Iterable[float]] | None = None,
) -> Menu:
    """Compute the menu of prices of a household.

    Parameters
    ----------
    home : Home or Request
        The appliances, or a request with a home, the noise and the unit of protection of ε; its
        own ε is not used. A length of its readings that is within 10 % of a whole multiple of the
        metered interval is replaced by that multiple.
    trace : Trace or Estimate
        True readings, for the hourly means and their forecast; or released hours with their
        standard errors, which are propagated to every number that depends on the load.
    harm : mapping of name to number, or number
        Harm w_i: what the household asks for a year in which everything about the appliance is
        known. Appliances that are not named cost nothing. One number holds for all appliances.
        [money/year]
    buyer : Buyer, optional
        The buyer.
    profiles : array, shape (m, 24), optional
        Days of many homes, from which the buyer's clusters are made; see `cluster_days`. [kWh]
    epsilons : sequence of float
        Values of ε, at least two.
    refine : int
        How many times both intervals of ε beside the best entry are halved.
    watch : callable, optional
        Function that wraps the sequence of ε, for a progress bar.

    Returns
    -------
    Menu
        The entries, the best one and all assumptions.

    Raises
    ------
    InputError
        If there are fewer than two values of ε, or the buyer uses clusters and there are none.
    """
    request = home if isinstance(home, Request) else Request(home=home, epsilon=1)
    if request.home is None:
        raise InputError("a menu needs a home.")
    home = request.home
    known, trace = trace, trace.trace if isinstance(trace, Estimate) else trace
    every = request.every
    if every is not None:
        every = nearest_multiple(every, trace.interval_s, tolerance=EVERY_TOLERANCE)
    mechanism = request.mechanism or "laplace"
    request = request.with_changes(
        home=with_longest_runs(home, trace), every=every, mechanism=mechanism
    )
    # The noise of the cells does not depend on the times of the readings.
    facts = replace(metered(trace), times=None)
    unit = request.unit(facts)
    days = cluster_days(trace, profiles)
    redrawn = []
    if isinstance(known, Estimate) and days is not None:
        redrawn = [again for again in _redraw(known, profiles) if again is not None]
    weights, paid = _weights(home, harm), Buyer() if buyer is None else buyer
    sale = Sale(home, unit, describe_load(known), weights, paid, days, redrawn)
    wanted = sorted(positive("epsilon", e) for e in epsilons)
    if len(wanted) < 2:
        raise InputError("a menu needs at least two values of epsilon.")

    def line(epsilon: float, before: Entry | None) -> Entry:
        noise = request.with_changes(epsilon=epsilon).resolve(facts).noise
        return sale.entry(noise, epsilon, before)

    entries: list[Entry] = []
    for epsilon in wanted if watch is None else watch(wanted):
        entries.append(line(epsilon, entries[-1] if entries else None))
    for _ in range(whole("refine", refine, least=0)):
        entries = _refine(entries, line)
    return Menu(
        tuple(entries),
        max(entries, key=lambda entry: entry.surplus),
        worthwhile_range(entries),
        home.names,
        weights,
        paid,
        sale.load,
        unit,
        mechanism,
        sale.assumptions(mechanism),
    )


def _redraw(released: Estimate, profiles: ArrayLike | None) -> Iterator[DayClusters | None]:
    """Days and clusters of released hours to which normal errors are added again."""
    rng = np.random.default_rng(0)
    for _ in range(REDRAWN):
        noise = released.errors * rng.standard_normal(len(released.trace))
        drawn = released.trace.replace_readings(released.trace.readings + noise)
        yield cluster_days(drawn, profiles)


def _refine(entries: list[Entry], line: Callable[[float, Entry | None], Entry]) -> list[Entry]:
    """The entries with one more in the middle of each interval beside the best, ε of 3 digits."""
    top = max(range(len(entries)), key=lambda i: entries[i].surplus)
    more = []
    for left in range(max(0, top - 1), min(top + 1, len(entries) - 1)):
        low, high = entries[left], entries[left + 1]
        middle = float(f"{(low.epsilon * high.epsilon) ** 0.5:.3g}")
        if low.epsilon < middle < high.epsilon:
            more.append(line(middle, low))
    return sorted([*entries, *more], key=lambda entry: entry.epsilon)


def rescale(menu: Menu, *, harm: float = 1.0, value: float = 1.0, shape: float = 1.0) -> Menu:
    """Return the same menu with harm, the buyer's value and the buyer's shape multiplied."""
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
    """Return the menu under each variation of its assumptions, by the name of the variation."""
    return {name: rescale(menu, **factors) for name, factors in VARIATIONS.items()}


def tell_menu(menu: Menu) -> tuple[str, ...]:
    """Return the result and then every assumption, one sentence each."""
    best, last = menu.best, menu.entries[-1]
    if menu.worthwhile is None:
        head = ["The buyer pays what the household asks at no ε of the menu."]
    else:
        low, high = menu.worthwhile
        less = " or less" if low <= menu.entries[0].epsilon * (1 + 1e-9) else ""
        more = " or more" if high >= last.epsilon * (1 - 1e-9) else ""
        head = [
            f"A trade is worthwhile for ε from {low:.3g}{less} to {high:.3g}{more}. The surplus is "
            f"largest, {best.surplus:.2f} a year, at ε = {best.epsilon:.3g}.",
            f"At this ε the household asks for {best.compensation:.2f} a year and the buyer would "
            f"pay {best.willingness:.2f}.",
        ]
    worst = max(range(len(menu.names)), key=lambda i: best.visibility[i])
    head += [
        f"The buyer's forecast of an hour has an error of {format_watts(best.forecast_w)} (on true "
        f"data {format_watts(menu.load.forecast_w)}); {out_of_100(best.fidelity)} % of the "
        "variance of the hourly curve is the household's, the rest is noise.",
        f"The {menu.names[worst]} is the most exposed appliance: the best possible guess about one "
        f"run is right {_odds(best, worst)} times out of 100, at ε = {last.epsilon:.3g} "
        f"{_odds(last, worst)} times; a coin is right 50 times.",
    ]
    return (*head, *(f"Assumed: {line}" for line in menu.assumptions))


def _plus_minus(error: float) -> str:
    """A standard error after its number; nothing for true readings."""
    return f" ± {error:.0f}" if error else ""


def _odds(entry: Entry, i: int) -> str:
    """Odds out of 100 about one run, never rounded up to certainty."""
    return out_of_100(min((1 + entry.visibility[i]) / 2, 1 - 1e-12))


def _weights(home: Home, harm: Mapping[str, float] | float) -> tuple[float, ...]:
    """The harm of each appliance of the home, in its order."""
    if not isinstance(harm, Mapping):
        return (non_negative("harm", harm),) * len(home)
    for name in harm:
        home.index(name)
    return tuple(non_negative(f"harm of {n}", harm.get(n, 0.0)) for n in home.names)
