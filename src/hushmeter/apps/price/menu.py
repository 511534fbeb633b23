"""The menu of prices: one entry for each odds or ε, its sentences, and other assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.apps.price.load import (
    DayClusters,
    Load,
    cluster_days,
    cluster_fidelity,
    describe_load,
)
from hushmeter.checks import FloatArray, non_negative, one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.formatting import duration_in_words, format_watts, odds_out_of_100, out_of_100
from hushmeter.home import DEFAULT_TOLERANCE, Home
from hushmeter.privacy.units import Unit, metered, with_longest_runs
from hushmeter.releases.purposes import PURPOSES
from hushmeter.releases.request import Request, odds_share
from hushmeter.releases.restore import Estimate
from hushmeter.trace import Trace, nearest_multiple

if TYPE_CHECKING:
    from hushmeter.releases.promise import Promise

USES = ("hour", "day", "month", "profile", "forecast", "clusters", "appliances")
"""What a buyer does with the data: the first four are purposes of a release."""


@dataclass(frozen=True)
class Buyer:
    """The buyer's use of the data and its value."""

    value: float = 60.0  # Value V of a year of perfect data of one household [money/year]
    # What the data are used for, which decides their quality q: single hours, days, months or the
    # typical day, a forecast of an hour, clusters of days, or which appliances run. Data that are
    # not better than none have the quality 0.
    use: str = "hour"
    # Exponent k of the value V·q^k. Below 1, low quality already has much of the value; above 1,
    # only high quality has.
    shape: float = 0.5
    # Cost of collecting the data of one household [money/year], independent of the protection
    handling: float = 0.0

    def __post_init__(self) -> None:
        non_negative("the buyer's value", self.value)
        positive("the buyer's shape", self.shape)
        non_negative("the buyer's handling", self.handling)
        one_of("the buyer's use", self.use, USES)

    @property
    def purpose(self) -> str:
        """The purpose of the release that serves this use best."""
        return self.use if self.use in PURPOSES else "hour"


@dataclass(frozen=True)
class Entry:
    """One entry of the menu.

    Attributes
    ----------
    odds : float
        Largest probability that the best attacker is right about the protected unit.
    epsilon : float
        ε of the unit of protection.
    mechanism : str
        Distribution of the noise.
    every_s : float
        Length of a released value. [s]
    hourly_noise_w : float or None
        Standard deviation σ_h of the noise of an hourly mean; None if no hours are released. [W]
    forecast_w : float
        Root mean square error of the hourly forecast, at most that of the mean. [W]
    clusters : float or None
        Share of days that stay in their cluster; None if there are no clusters or no hours.
    visibility : tuple of float
        Visibility v_i of one run of each appliance.
    quality : float
        Quality q of the data for the buyer; 0 for data that are not better than none.
    compensation, willingness, surplus : float
        C, W and S. [money/year]
    forecast_se_w, quality_se, willingness_se, surplus_se : float
        Standard errors that follow from those of the load; 0 for true readings. The compensation
        does not depend on the load.
    clusters_se : float or None
        Standard error of `clusters`; None if there are no clusters.
    """

    odds: float
    epsilon: float
    mechanism: str
    every_s: float
    hourly_noise_w: float | None
    forecast_w: float
    clusters: float | None
    visibility: tuple[float, ...]
    quality: float
    compensation: float = 0.0
    willingness: float = 0.0
    surplus: float = 0.0
    forecast_se_w: float = 0.0
    clusters_se: float | None = None
    quality_se: float = 0.0
    willingness_se: float = 0.0
    surplus_se: float = 0.0


def worthwhile_range(entries: Sequence[Entry], by: str) -> tuple[float, float] | None:
    """Return the range of odds or ε around the best entry with S ≥ 0; None if there is none.

    The ends are interpolated in the odds, or in ln ε.
    """
    surplus = np.array([entry.surplus for entry in entries])
    places = np.array([getattr(entry, by) for entry in entries])
    top = int(surplus.argmax())
    if surplus[top] < 0 or not surplus.any():
        return None
    left = right = top
    while left > 0 and surplus[left - 1] >= 0:
        left -= 1
    while right < surplus.size - 1 and surplus[right + 1] >= 0:
        right += 1
    if by == "odds":
        return _edge(places, surplus, left, -1), _edge(places, surplus, right, 1)
    low, high = (_edge(np.log(places), surplus, *end) for end in ((left, -1), (right, 1)))
    return math.exp(low), math.exp(high)


@dataclass(frozen=True)
class Sale:
    """What decides the entries of a menu beside the promise."""

    home: Home  # The appliances
    load: Load  # Statistics of the true load
    weights: tuple[float, ...]  # Harm w_i of each appliance [money/year]
    buyer: Buyer  # The buyer
    days: DayClusters | None = None  # The household's days and the buyer's clusters
    redrawn: Sequence[DayClusters] = ()  # The same with the errors of released hours drawn again

    def entry(self, promise: Promise, before: Entry | None = None) -> Entry:
        """Return the entry of the menu for one promise, after the entry `before`."""
        noise = promise.errors.hour_w
        forecast = self.load.forecast_error(noise)
        seen = appliance_visibility(promise, self.home)
        stay = self._share_that_stays(promise)
        if before is not None:
            seen = tuple(map(max, seen, before.visibility))
            stay = None if stay is None or before.clusters is None else max(stay, before.clusters)
        forecast_se = self.load.hourly_sd_se_w
        if 0 < forecast < self.load.without_data_w:
            forecast_se = self.load.forecast_w / forecast * self.load.forecast_se_w
        stay_se = None if stay is None else _stay_error(promise, self.redrawn)
        entry = Entry(
            odds=promise.odds,
            epsilon=promise.epsilon,
            mechanism="none" if promise.exact else promise.noise.name,
            every_s=promise.cells.interval_s,
            hourly_noise_w=noise,
            forecast_w=forecast,
            clusters=stay,
            visibility=seen,
            quality=0.0,
            forecast_se_w=forecast_se,
            clusters_se=stay_se,
        )
        quality, quality_se = self._quality(entry, promise)
        asked = sum(w * v for w, v in zip(self.weights, seen, strict=True))
        return reprice(replace(entry, quality=quality, quality_se=quality_se), asked, self.buyer)

    def _share_that_stays(self, promise: Promise) -> float | None:
        """Share of noisy days that stay in their cluster; None without clusters or hours."""
        if self.days is None or promise.errors.hour_w is None:
            return None
        return cluster_fidelity(promise, self.days)

    def _quality(self, entry: Entry, promise: Promise) -> tuple[float, float]:
        """Quality of the data for the buyer's use, and its standard error."""
        use = self.buyer.use
        if use == "appliances":
            return sum(entry.visibility) / len(entry.visibility), 0.0
        if use == "forecast":
            return forecast_skill(self.load, entry.forecast_w)
        if use == "clusters":
            if self.days is None:
                raise InputError(
                    "a buyer of clusters needs eight complete days of readings, or the days of "
                    "many homes (--profiles) and one complete day."
                )
            # Without data, every day is put into the cluster that most days belong to.
            skill = 0.0 if entry.clusters is None else 1 - (1 - entry.clusters) / self.days.rest
            return max(0.0, skill), (entry.clusters_se or 0.0) / self.days.rest if skill > 0 else 0
        error, spread = promise.errors.of(use), self.load.spread(use)
        if error is None or error >= spread:
            return 0.0, 0.0
        relative = self.load.hourly_sd_se_w / self.load.hourly_sd_w if use == "hour" else 0.0
        return 1 - (error / spread) ** 2, 2 * (error / spread) ** 2 * relative

    def assumptions(self, menu: Menu) -> tuple[str, ...]:
        """Return the assumptions behind the menu in sentences."""
        buyer, load, days = self.buyer, self.load, self.days
        harms = zip(self.home.names, self.weights, strict=True)
        asked = ", ".join(f"{name} {weight:g}" for name, weight in harms if weight)
        names = " or ".join(dict.fromkeys(entry.mechanism for entry in menu.entries))
        lengths = " or ".join(
            dict.fromkeys(_length_in_words(entry.every_s) for entry in menu.entries)
        )
        return (
            f"The noise is {names}, on readings of {lengths}; ε protects {menu.unit.sentence}.",
            f"The harm in a year without any protection is: {asked or 'none'}. "
            "It is proportional to 2·odds − 1 of the best attacker about one run, who knows the "
            "rest of the house.",
            f"The buyer pays {buyer.value:g} a year for perfect data, in proportion to the quality "
            f"“{buyer.use}” to the power of {buyer.shape:g}, and has costs of {buyer.handling:g}.",
            f"The hourly load has a standard deviation of {load.hourly_sd_w:.0f}"
            f"{_plus_minus(load.hourly_sd_se_w)} W; the forecast of an hour has an error of "
            f"{load.forecast_error(0.0):.0f}{_plus_minus(load.forecast_se_w)} W on true data, the "
            f"mean "
            f"{load.without_data_w:.0f} W, and the value of {load.lag_h} h before "
            f"{load.naive_w:.0f} W. Data that are not better than none are worth nothing.",
            "There are no clusters, because too few complete days are known."
            if days is None
            else f"There are {len(days.centres)} clusters and {len(days.days)} complete days of "
            "this household.",
            "The payment makes the household indifferent. The household is neutral to risk and "
            "sells the same protection all year; what many runs reveal together is not counted.",
        )


def _length_in_words(every_s: float) -> str:
    """The length of a reading; one that the meter's interval does not divide is named exactly."""
    return duration_in_words(every_s) if every_s % 60 == 0 or every_s < 60 else f"{every_s:g} s"


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


def _stay_error(promise: Promise, redrawn: Sequence[DayClusters]) -> float:
    """Standard deviation of the share of days that stay, over days with their errors redrawn."""
    if not redrawn:
        return 0.0
    return float(np.std([cluster_fidelity(promise, days) for days in redrawn], ddof=1))


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


def appliance_visibility(promise: Promise, home: Home) -> tuple[float, ...]:
    """v_i = 2·odds_i − 1 of every appliance, over one run of its usual length.

    An appliance of unknown run length is judged over the span of the unit.
    """
    unit, seen = promise.unit, []
    for i, appliance in enumerate(home.appliances):
        change = unit.changes[i if len(unit.changes) == len(home) else 0]
        if unit.span == "when" or appliance.protected_run_s is None:
            watts = appliance.protected_power
            run = replace(change, watts=watts, energy=watts * change.seconds)
        else:
            run = unit.change_of(appliance, "run")
        odds = promise.compose(run).odds
        seen.append(min(1.0, max(0.0, 2 * odds - 1)))
    return tuple(seen)


def _edge(places: FloatArray, surplus: FloatArray, at: int, step: int) -> float:
    """The place at which the surplus crosses zero beyond `at`, or the end of the menu."""
    beyond = at + step
    if not 0 <= beyond < places.size:
        return float(places[at])
    share = surplus[at] / (surplus[at] - surplus[beyond])
    return float(places[at] + share * (places[beyond] - places[at]))


EVERY_TOLERANCE = 0.1
"""Largest relative difference between the requested and the used length of released readings."""

HARM = 10.0
"""Default harm w_i of every appliance [money/year]."""

REDRAWN = 8
"""Number of draws of the errors of released hours, for the standard error of clusters."""

EPSILONS = tuple(float(f"{e:.2g}") for e in np.geomspace(0.01, 10.0, 19))
ODDS = (0.52, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999)


@dataclass(frozen=True)
class Menu:
    """Prices for odds or for values of ε, with their assumptions.

    Attributes
    ----------
    by : {"odds", "epsilon"}
        What the entries were asked for: the odds of a wish, or ε.
    entries : tuple of Entry
        The entries in ascending order of the odds or of ε.
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
    assumptions : tuple of str
        The assumptions in sentences.
    """

    by: str
    entries: tuple[Entry, ...]
    names: tuple[str, ...]
    harm: tuple[float, ...]
    buyer: Buyer
    load: Load
    unit: Unit
    assumptions: tuple[str, ...] = ()

    @property
    def best(self) -> Entry:
        """The entry with the largest surplus."""
        return max(self.entries, key=lambda entry: entry.surplus)

    @property
    def worthwhile(self) -> tuple[float, float] | None:
        """Smallest and largest odds or ε with S ≥ 0 around the best; None if there is none."""
        return worthwhile_range(self.entries, self.by)


def price_menu(
    wish: Home | Request,
    trace: Trace | Estimate,
    *,
    harm: Mapping[str, float] | float = HARM,
    buyer: Buyer | None = None,
    profiles: ArrayLike | None = None,
    steps: Sequence[float] | None = None,
    refine: int = 2,
    watch: Callable[[Sequence[float]], Iterable[float]] | None = None,
) -> Menu:
    """Compute the menu of prices of a household.

    Parameters
    ----------
    wish : Home or Request
        The appliances, of which those with a harm are to be hidden; or a request, with a home or
        appliances to hide. With a wish (`hide`) the entries differ in the odds, with ε in ε; the
        request's own odds or ε are not used. A length of its readings that is within 10 % of a
        whole multiple of the metered interval is replaced by that multiple.
    trace : Trace or Estimate
        True readings, for the statistics of the load; or released hours with their standard
        errors, which are propagated to every number that depends on the load.
    harm : mapping of name to number, or number
        Harm w_i: what the household asks for a year in which everything about the appliance is
        known. Appliances that are not named cost nothing. One number holds for all appliances.
        [money/year]
    buyer : Buyer, optional
        The buyer; by default one that uses the data for the purpose of the wish.
    profiles : array, shape (m, 24), optional
        Days of many homes, from which the buyer's clusters are made; see `cluster_days`. [kWh]
    steps : sequence of float, optional
        The odds of the entries, as shares or out of 100, or their values of ε; at least two.
    refine : int
        How many times both intervals beside the best entry are halved.
    watch : callable, optional
        Function that wraps the sequence of steps, for a progress bar.

    Returns
    -------
    Menu
        The entries, the best one and all assumptions.

    Raises
    ------
    InputError
        If there are fewer than two steps, the wish names no appliance, or the buyer uses clusters
        and there are none.
    """
    known, trace = trace, trace.trace if isinstance(trace, Estimate) else trace
    request = _with_home(wish, harm, trace)
    home = request.home
    assert home is not None
    by = "epsilon" if request.hide is None else "odds"
    weights = _weights(home, harm)
    paid = buyer or Buyer(use=request.purpose or "hour")
    if by == "odds" and request.purpose is None:
        request = request.with_changes(purpose=paid.purpose)
    # The noise of cells alone does not depend on the times of the readings.
    facts = metered(trace)
    facts = facts if request.several else replace(facts, times=None)
    days = cluster_days(trace, profiles)
    redrawn = []
    if isinstance(known, Estimate) and days is not None:
        redrawn = [again for again in _redraw(known, profiles) if again is not None]
    sale = Sale(home, describe_load(known), weights, paid, days, redrawn)

    def line(step: float, before: Entry | None) -> Entry:
        return sale.entry(request.with_changes(**{by: step}).resolve(facts), before)

    entries: list[Entry] = []
    wanted = _steps(steps, by)
    for step in wanted if watch is None else watch(wanted):
        entries.append(line(step, entries[-1] if entries else None))
    for _ in range(whole("refine", refine, least=0)):
        entries = _refine(entries, line, by)
    unit = request.with_changes(**{by: wanted[0]}).resolve(facts).unit
    menu = Menu(by, tuple(entries), home.names, weights, paid, sale.load, unit)
    return replace(menu, assumptions=sale.assumptions(menu))


def _with_home(wish: Home | Request, harm: Mapping[str, float] | float, trace: Trace) -> Request:
    """The request with a home whose run lengths are known, and cells that the meter can make."""
    if isinstance(wish, Home):
        weights = _weights(wish, harm)
        hidden = [one for one, w in zip(wish.appliances, weights, strict=True) if w]
        wish = Request(home=wish, hide=hidden or wish.appliances)
    if wish.hide is not None and len(wish.appliances) < len(wish.hidden):
        raise InputError(
            "a menu needs a wish about appliances, because the household asks money for each of "
            "them."
        )
    home = wish.home or (Home(wish.appliances, DEFAULT_TOLERANCE) if wish.appliances else None)
    if home is None:
        raise InputError("a menu needs a home.")
    every = wish.every
    if every is not None:
        every = nearest_multiple(every, trace.interval_s, tolerance=EVERY_TOLERANCE)
    home = with_longest_runs(home, trace)
    known = dict(zip(home.names, home.appliances, strict=True))
    same = [known.get(one.name, one) for one in wish.appliances]
    return wish.with_changes(home=home, hide=same or None, every=every)


def _steps(steps: Sequence[float] | None, by: str) -> list[float]:
    """The odds as shares, or the values of ε, in ascending order."""
    if steps is None:
        return list(ODDS if by == "odds" else EPSILONS)
    found = sorted(odds_share(s) if by == "odds" else positive("epsilon", s) for s in steps)
    if len(found) < 2:
        raise InputError(f"a menu needs at least two values of {by}.")
    return found


def _redraw(released: Estimate, profiles: ArrayLike | None) -> Iterator[DayClusters | None]:
    """Days and clusters of released hours to which normal errors are added again."""
    rng = np.random.default_rng(0)
    for _ in range(REDRAWN):
        noise = released.errors * rng.standard_normal(len(released.trace))
        drawn = released.trace.replace_readings(released.trace.readings + noise)
        yield cluster_days(drawn, profiles)


def _refine(
    entries: list[Entry], line: Callable[[float, Entry | None], Entry], by: str
) -> list[Entry]:
    """The entries with one more in the middle of each interval beside the best, of 3 digits."""
    top = max(range(len(entries)), key=lambda i: entries[i].surplus)
    more = []
    for left in range(max(0, top - 1), min(top + 1, len(entries) - 1)):
        low, high = (getattr(entries[i], by) for i in (left, left + 1))
        middle = (low + high) / 2 if by == "odds" else math.sqrt(low * high)
        middle = float(f"{middle:.3g}")
        if low < middle < high:
            more.append(line(middle, entries[left]))
    return sorted([*entries, *more], key=lambda entry: getattr(entry, by))


def rescale(menu: Menu, *, harm: float = 1.0, value: float = 1.0, shape: float = 1.0) -> Menu:
    """Return the same menu with harm, the buyer's value and the buyer's shape multiplied."""
    buyer = replace(menu.buyer, value=menu.buyer.value * value, shape=menu.buyer.shape * shape)
    entries = tuple(reprice(e, e.compensation * harm, buyer) for e in menu.entries)
    return replace(
        menu,
        entries=entries,
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
        asked = "odds" if menu.by == "odds" else "ε"
        head = [f"The buyer pays what the household asks at no {asked} of the menu."]
    else:
        head = [
            f"{_tell_range(menu)} The surplus is largest, {best.surplus:.2f} a year, at "
            f"{_times(best.odds)} (ε = {best.epsilon:.3g}).",
            f"There the household asks for {best.compensation:.2f} a year and the buyer would "
            f"pay {best.willingness:.2f}.",
        ]
    worst = max(range(len(menu.names)), key=lambda i: best.visibility[i])
    hours = "Single hours are not released"
    if best.hourly_noise_w is not None:
        hours = f"Each hour is off by about {format_watts(best.hourly_noise_w)}"
    head += [
        f"{hours}; the buyer's forecast of an hour has an error of "
        f"{format_watts(best.forecast_w)} (on true data "
        f"{format_watts(menu.load.forecast_error(0.0))}, "
        f"without data {format_watts(menu.load.without_data_w)}).",
        f"The {menu.names[worst]} is the most exposed appliance: the best possible guess about one "
        f"run is right {_times(_odds(best, worst))}, at the last entry {_times(_odds(last, worst))}"
        "; a coin is right 50 times.",
    ]
    return (*head, *(f"Assumed: {line}" for line in menu.assumptions))


def _tell_range(menu: Menu) -> str:
    """Say for which odds or ε a trade is worthwhile, and what they are about."""
    assert menu.worthwhile is not None
    low, high = menu.worthwhile
    first, last = (getattr(entry, menu.by) for entry in (menu.entries[0], menu.entries[-1]))
    less = " or less" if low <= first * (1 + 1e-9) else ""
    more = " or more" if high >= last * (1 - 1e-9) else ""
    if menu.by == "epsilon":
        return (
            f"A trade is worthwhile for ε from {low:.3g}{less} to {high:.3g}{more}, where ε "
            f"protects {menu.unit.sentence}."
        )
    return (
        f"A trade is worthwhile if the best attacker may be right {out_of_100(low)}{less} to "
        f"{out_of_100(high)}{more} times out of 100 about {menu.unit.sentence}."
    )


def _times(odds: float) -> str:
    return f"{odds_out_of_100(odds)} times out of 100"


def _plus_minus(error: float) -> str:
    """A standard error after its number; nothing for true readings."""
    return f" ± {error:.0f}" if error else ""


def _odds(entry: Entry, i: int) -> float:
    """Odds of the best attacker about one run of an appliance."""
    return (1 + entry.visibility[i]) / 2


def _weights(home: Home, harm: Mapping[str, float] | float) -> tuple[float, ...]:
    """The harm of each appliance of the home, in its order."""
    if not isinstance(harm, Mapping):
        return (non_negative("harm", harm),) * len(home)
    for name in harm:
        home.index(name)
    return tuple(non_negative(f"harm of {n}", harm.get(n, 0.0)) for n in home.names)
