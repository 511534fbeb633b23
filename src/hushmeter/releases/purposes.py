"""What a household wants to hide, what its data is for, and the errors of the numbers.

A wish is a relation between neighbouring files. There are three kinds:

* *When.* "when we get up", "evenings": neighbours have the use of every day at other times of the
  same day. "which days we are away": neighbours have whole days of a month in another order. Tables
  whose sums stay the same are free of noise (`hushmeter.privacy.sensitivity.Rearrangement`), and
  nothing finer can be published with a useful bound.
* *Whether.* "that we are away": neighbours differ in the use above the base load of one or several
  days. Its size in watts and watt-hours is typed, or that of the catalogue of households. It is a
  use as that of an appliance, and all tables need noise.
* *Who.* "who we are": no bound short of hiding everything is known, so that the wish is refused.

The data may be for single hours, days, months, the typical day (the mean of every hour of the day
over all days of a month) or register values (the energy since the first value). Each release has a
standard error for each of them, which follows from its noise and from public times alone. The
errors of a promise are those of a month of 30 days without a gap, whatever the readings are, so
that two promises can be compared; a release states the error of every single value.

*Cells alone.* Cells of V seconds have independent noise of standard deviation σ. With n = 24 h/V
cells in a day, D = 30 days in a month and N = n·D,

    hour = σ·√(V/1 h),  day = σ·V·√n,  month = day·√D,  typical day = hour/√D,
    register = σ·V·√((N + 1)/2),

where the register is the root mean square over all N cells.

*Several tables.* The standard errors follow from the normal equations of the estimate; see
`hushmeter.releases.estimate`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.appliance import QUANTITIES, QUANTITY, Appliance, Household, catalogue
from hushmeter.checks import non_negative, one_of, positive
from hushmeter.errors import InputError
from hushmeter.formatting import format_two_digits, format_watts, out_of_100, short_duration
from hushmeter.privacy.units import BETWEEN_DAYS, KEPT, LONGEST_DAY_S, WITHIN_DAYS, order_in_words
from hushmeter.releases.labels import CELLS, MODEL_DAYS, make_tables, model_month
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.promise import Promise

WISHES = (
    "when we get up",
    "evenings",
    "which days we are away",
    "that we are away",
    "who we are",
)
"""The wishes that help texts and the page name; `parse_wish` knows similar words too."""

AT_HOME = "day at home"
"""Name of the use that "that we are away" hides."""

OF_PURPOSE = {
    "day": ("days", "months"),
    "profile": ("typical-day", "months"),
    "month": ("months",),
}
"""Tables of sums for each purpose that does not need hours."""

TABLES: dict[str | None, dict[str, tuple[str, ...]]] = {
    "days": {name: OF_PURPOSE[name] for name in ("day", "month")},
    "typical-day": {name: OF_PURPOSE[name] for name in ("profile", "month")},
    "months": {"month": OF_PURPOSE["month"]},
    None: {"month": ("months",), "day": ("days",), "profile": ("typical-day",)},
}
"""Tables for each purpose, by the finest table that a wish keeps; the first purpose is the default.
None is for days that are present or absent."""

_DAYS = re.compile(r"(?<![\w.])(\d+)\s*days?(?!\w)")
_PARTS_OF_A_DAY = ("evenings", "mornings", "nights", "our evenings", "our mornings", "our nights")


@dataclass(frozen=True)
class Order:
    """A wish to hide when electricity is used, but not how much."""

    words: str  # As they were typed
    rearranged: str  # How the use of neighbours may be rearranged: within or between days


def parse_wish(text: str) -> Order | Appliance | None:
    """Return what words of a household mean; None if they are no wish.

    Raise `InputError` for a wish that no useful release grants.
    """
    words = " ".join(text.lower().split())
    words = re.sub(r"\bi am\b|\bi was\b|\bwe were\b|\bwe're\b", "we are", words)
    words = re.sub(r"\bi\b", "we", words).removeprefix("on ")
    if words.startswith("who we are"):
        raise InputError(
            "no useful release of a single home hides who you are: its habits are seen again in "
            "every later file. What helps is to share nothing finer than months, to share only the "
            "sum of many homes (hushmeter fleet-sums), or to give data away once and never again."
        )
    if words.startswith(("that we are away", "whether we are away")):
        return _day_at_home(words.split("away", 1)[1])
    if words in ("which days we are away", "when we are away", "when we are on holiday"):
        return Order(text, BETWEEN_DAYS)
    if words in _PARTS_OF_A_DAY or words.startswith(("when we ", "at what time we ")):
        return Order(text, WITHIN_DAYS)
    return None


def _day_at_home(text: str) -> Appliance:
    """The use above the base load of some days, from words such as "family", "5 kWh" or "2 days".

    `k` days lie within k·25 hours and take k times the energy of one.
    """
    found = _DAYS.search(text)
    days = 1 if found is None else int(found[1])
    rest = _DAYS.sub(" ", text)
    typed = {QUANTITIES[unit.lower()][0]: (n, unit) for n, unit in QUANTITY.findall(rest)}
    name = " ".join(QUANTITY.sub(" ", rest).split()).strip(" ()")
    household = _household(name)
    if days < 1 or typed.keys() - {"power", "energy_wh"}:
        raise InputError(
            'write "that we are away" alone, or with a household of the catalogue or your own '
            'numbers: "that we are away 3 kW 5 kWh 2 days".'
        )
    watts, energy = household.power_w.high, household.day_wh.high
    if "power" in typed:
        watts = _number(*typed["power"])
    if "energy_wh" in typed:
        energy = _number(*typed["energy_wh"])
    day_h = LONGEST_DAY_S / SECONDS_PER_HOUR
    energy = min(energy, watts * day_h)
    fields = {"power": "power", "energy_wh": "energy_wh"}
    return Appliance(
        AT_HOME if days == 1 else f"{days} days at home",
        watts,
        run_s=days * LONGEST_DAY_S,
        energy_wh=days * energy,
        use_s_per_day=min(24.0, energy / watts) * SECONDS_PER_HOUR,
        source="catalogue",
        typed=("run_s", *(field for field in fields if field in typed)),
    )


def _number(number: str, unit: str) -> float:
    """A quantity in watts or watt-hours."""
    return float(number) * QUANTITIES[unit.lower()][1]


def _household(name: str) -> Household:
    known = catalogue.households
    if not name:
        return known["family"]
    if name not in known:
        raise InputError(
            f'the catalogue has no household named "{name}": choose {", ".join(known)}, or state '
            'your own numbers, as in "that we are away 3 kW 5 kWh".'
        )
    return known[name]


def rearranged(hidden: tuple[Appliance | Order, ...]) -> tuple[str, ...]:
    """How the use of neighbours may be rearranged, for all wishes together."""
    asked = {one.rearranged for one in hidden if isinstance(one, Order)}
    return tuple(way for way in (WITHIN_DAYS, BETWEEN_DAYS) if way in asked)


def choose_tables(
    hidden: tuple[Appliance | Order, ...], purpose: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """Return the purpose and the tables that serve it; nothing is chosen for appliances.

    Raise `InputError` if the purpose needs a table that shows what must stay hidden.
    """
    ways = rearranged(hidden)
    away = any(isinstance(one, Appliance) and one.name.endswith("at home") for one in hidden)
    if not ways and not away:
        return purpose, ()
    tables = TABLES[KEPT[ways]]
    if purpose is None or purpose in tables:
        chosen = purpose or next(iter(tables))
        return chosen, tables[chosen]
    if not ways:
        return purpose, ()
    raise InputError(f"no useful release {_FOR[purpose]} hides {what_helps(ways)}")


_FOR = {
    "hour": "of single hours",
    "day": "of single days",
    "profile": "of the typical day",
    "month": "of months",
    "register": "of register values",
}


def what_helps(ways: tuple[str, ...]) -> str:
    """What is hidden, and which other release hides it."""
    kept = KEPT[ways]
    instead = {
        "days": "share days or months (--for day)",
        "typical-day": "share the typical day or months (--for profile)",
    }.get(kept or "", "share months (--for month)")
    return (
        f"{order_in_words(ways)}: {instead}, share the sum of many homes (hushmeter fleet-sums), "
        "or change the load itself with a battery (hushmeter battery)."
    )


def order_sentences(
    ways: tuple[str, ...], odds: float, left_out: int, *, rounding_stated: bool
) -> list[str]:
    """The relation between neighbours whose use is rearranged, and what a release still shows.

    `odds` are those about the order of the use; above ½, noise covers what the meter rounds.
    """
    which = {
        "days": "whose complete days have the same sums",
        "typical-day": "in which every hour of the day has the same sum over each whole month",
        "months": "whose whole months have the same sums",
    }[KEPT[ways] or ""]
    same = f"Two files with the same times {which} are released with the same probabilities"
    if odds > 0.5:
        hidden = f"which the noise hides to {out_of_100(odds)} out of 100"
        same = f"{same}, up to what the meter rounds, {hidden}."
    elif rounding_stated:
        same = f"{same}."
    else:
        same = (
            f"{same}. Nobody stated how the meter rounds: this holds for the readings of the file."
        )
    shown = {
        "days": "how much is used on each day, and so on which days nobody is at home",
        "typical-day": "how much is used at each hour of the day in the mean of a month, and so at "
        "which hours people usually get up and cook",
        "months": "how much is used in each month",
    }[KEPT[ways] or ""]
    periods = "months" if BETWEEN_DAYS in ways else "days"
    incomplete = f" Incomplete {periods} of the file, which are left out: {left_out}."
    return [same, f"Not hidden: {shown}.{incomplete if left_out else ''}"]


def gaps_shown(ways: tuple[str, ...], span: str, longest_s: float) -> list[str]:
    """What a wish about absence does not hide; `longest_s` is the longest hidden use."""
    absence = BETWEEN_DAYS in ways or (span == "run" and longest_s >= LONGEST_DAY_S)
    return ["Days without readings stay visible."] if absence else []


MEAN_ABS = math.sqrt(2 / math.pi)
"""Mean absolute value of a normal error, as a multiple of its standard error."""

_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Purpose:
    """One purpose for which released data can be used.

    Attributes
    ----------
    name : {"hour", "day", "month", "profile", "register"}
        The word after `--for`.
    field : str
        The field of `Errors` with its standard error.
    unit : {"W", "kWh"}
        Unit of its number.
    subject : str
        What its number is about, for a sentence.
    own : str
        The part of the household's own use with which the number is compared.
    """

    name: str
    field: str
    unit: str
    subject: str
    own: str

    def text(self, value: float) -> str:
        """Format a number of this purpose with its unit."""
        return format_watts(value) if self.unit == "W" else f"{format_two_digits(value)} kWh"

    def of_mean_power(self, mean_w: float) -> float:
        """Own use of a household with this mean power, in the unit of the purpose."""
        if self.unit == "W":
            return mean_w
        day = mean_w * SECONDS_PER_DAY / JOULES_PER_KWH
        return day if self.name == "day" else day * MODEL_DAYS


PURPOSES = {
    purpose.name: purpose
    for purpose in (
        Purpose("hour", "hour_w", "W", "each hour", "mean"),
        Purpose("day", "day_kwh", "kWh", "each day", "mean day"),
        Purpose("month", "month_kwh", "kWh", "each month", "mean month"),
        Purpose("profile", "profile_w", "W", "each hour of the typical day", "mean"),
        Purpose("register", "register_kwh", "kWh", "each register value", "mean month"),
    )
}
"""What released data can be for, by name."""


@dataclass(frozen=True)
class Errors:
    """Standard errors of the numbers of a release, one for each purpose.

    Attributes
    ----------
    value_s : float
        Length of a released value [s].
    value_w : float or None
        Standard error of a released value [W]; None if no values are released, only sums.
    hour_w : float or None
        That of the mean power of an hour [W]; None if the values are longer than an hour.
    day_kwh : float or None
        That of the energy of a day [kWh]; None if the release does not show days.
    month_kwh : float
        That of the energy of a month [kWh].
    profile_w : float or None
        That of an hour of the typical day of a month [W]; None if the values are longer than an
        hour.
    register_kwh : float or None
        That of the energy since the first value [kWh], as a root mean square over the period; None
        if the release does not show it.
    """

    value_s: float
    value_w: float | None
    hour_w: float | None
    day_kwh: float | None
    month_kwh: float
    profile_w: float | None
    register_kwh: float | None

    def of(self, purpose: str) -> float | None:
        """Standard error for a purpose, in its unit; None if the release does not serve it."""
        field = PURPOSES[one_of("purpose", purpose, tuple(PURPOSES))].field
        error: float | None = getattr(self, field)
        return error

    def cost(self, price_per_kwh: float) -> Cost:
        """The mean absolute errors of nearly normal noise, and the error of the bill of a month."""
        month = MEAN_ABS * self.month_kwh
        hour = self.value_w if self.hour_w is None else self.hour_w
        return Cost(
            interval_s=self.value_s,
            reading_w=None if self.value_w is None else MEAN_ABS * self.value_w,
            hourly_w=None if hour is None else MEAN_ABS * hour,
            daily_kwh=None if self.day_kwh is None else MEAN_ABS * self.day_kwh,
            monthly_kwh=month,
            monthly_bill=month * price_per_kwh,
            price_per_kwh=price_per_kwh,
        )


def errors_of(promise: Promise) -> Errors:
    """Standard errors of a promise, root mean squares over a month of 30 days without a gap."""
    if len(promise.tables) == 1 and promise.tables[0].name == CELLS:
        return independent_errors(promise.noise.std, promise.cells.interval_s)
    month = model_month(promise.cells.interval_s)
    # The sum of a year would be one more sum of this month, which it is not in a longer file.
    parts = tuple(entry for entry in promise.tables if entry.name != "year") or promise.tables
    fit = replace(promise, tables=parts).fit(month)
    in_hour = SECONDS_PER_HOUR / month.interval_s
    days, months, profile = make_tables(("days", "months", "typical-day"), month)
    cell, day, whole, hour, register = (
        # The sums of a day may be exact: its variance is then zero up to a rounding error.
        math.sqrt(max(0.0, float(np.mean(variances))))
        for variances in (
            fit.cell_variances,
            fit.sum_variances(days),
            fit.sum_variances(months),
            fit.sum_variances(profile) / profile.members**2,
            fit.register_variances,
        )
    )
    # The noise of the cells of one hour is nearly independent.
    short = month.interval_s <= SECONDS_PER_HOUR * _SLACK
    shown = {entry.name for entry in promise.tables}
    kwh = month.interval_s / JOULES_PER_KWH
    # What only sums of other cells determine is not shown.
    days_shown = shown & {CELLS, "days"}
    return Errors(
        value_s=month.interval_s,
        value_w=cell if CELLS in shown else None,
        hour_w=cell / math.sqrt(in_hour) if short and CELLS in shown else None,
        day_kwh=day * kwh if days_shown else None,
        month_kwh=whole * kwh,
        profile_w=hour / math.sqrt(in_hour) if short and shown & {CELLS, "typical-day"} else None,
        register_kwh=register * kwh if CELLS in shown else None,
    )


def independent_errors(sigma: float, value_s: float) -> Errors:
    """Standard errors of values of `value_s` seconds with independent noise of σ watts."""
    kwh, in_day = value_s / JOULES_PER_KWH, SECONDS_PER_DAY / value_s
    hour = None
    if value_s <= SECONDS_PER_HOUR * _SLACK:
        hour = sigma * math.sqrt(value_s / SECONDS_PER_HOUR)
    day = sigma * math.sqrt(in_day) * kwh
    return Errors(
        value_s=value_s,
        value_w=sigma,
        hour_w=hour,
        day_kwh=day,
        month_kwh=day * math.sqrt(MODEL_DAYS),
        profile_w=None if hour is None else hour / math.sqrt(MODEL_DAYS),
        register_kwh=sigma * kwh * math.sqrt((in_day * MODEL_DAYS + 1) / 2),
    )


def choose_purpose(purpose: str | None, value_s: float) -> str:
    """Check a purpose, or choose one that values of a given length can serve."""
    hourly = value_s <= SECONDS_PER_HOUR * _SLACK
    if purpose is None:
        return "hour" if hourly else "day"
    one_of("purpose", purpose, tuple(PURPOSES))
    if purpose in ("hour", "profile") and not hourly:
        raise InputError(
            f"the values are means over {short_duration(value_s)}, so they show no single hours; "
            "choose --for day, month or register."
        )
    return purpose


HOURS_PER_DAY, DAYS_PER_MONTH = 24, 30
PRICE_PER_KWH = 0.30


@dataclass(frozen=True)
class Cost:
    """Expected absolute errors of released readings.

    Attributes
    ----------
    interval_s : float
        Length of a released reading [s].
    reading_w : float or None
        Error of one released reading, E|n| [W]; None if only sums are released.
    hourly_w : float or None
        Error of the mean power of an hour [W]; the error of one reading if that is longer.
    daily_kwh : float or None
        Error of the energy of a day [kWh]; None if the release does not show days.
    monthly_kwh : float
        Error of the energy of 30 days [kWh].
    monthly_bill : float
        Error of the bill of 30 days, at `price_per_kwh`.
    price_per_kwh : float
        Price of one kWh.
    """

    interval_s: float
    reading_w: float | None
    hourly_w: float | None
    daily_kwh: float | None
    monthly_kwh: float
    monthly_bill: float
    price_per_kwh: float


def expect_cost(
    mechanism: Mechanism, interval_s: float, *, price_per_kwh: float = PRICE_PER_KWH
) -> Cost:
    """Compute the errors that a mechanism causes in readings of a given length.

    Parameters
    ----------
    mechanism : Mechanism
        The noise of one released reading.
    interval_s : float
        Length of a released reading [s].
    price_per_kwh : float, default 0.30
        Price of one kWh.

    Returns
    -------
    Cost

    Raises
    ------
    InputError
        If the interval is not positive, or the price is negative.

    Notes
    -----
    The sum of n readings with independent noise has the standard deviation σ√n and, because it is
    nearly normal, the mean absolute error σ√(2n/π).
    """
    interval_s = positive("interval_s", interval_s)
    price = non_negative("price_per_kwh", price_per_kwh)
    # A single value is not a sum, so its error is not normal.
    single: dict[str, float] = {"reading_w": mechanism.mean_abs}
    if interval_s >= SECONDS_PER_HOUR:
        single["hourly_w"] = mechanism.mean_abs
    if interval_s >= SECONDS_PER_DAY:
        single["daily_kwh"] = mechanism.mean_abs * SECONDS_PER_DAY / JOULES_PER_KWH
    return replace(independent_errors(mechanism.std, interval_s).cost(price), **single)
