"""What a household wants to hide, in its own words.

A wish is a relation between neighbouring files. There are three kinds:

* *When.* "when we get up", "evenings": neighbours have the use of every day at other times of the
  same day. "which days we are away": neighbours have whole days of a month in another order. Tables
  whose sums stay the same are free of noise (`hushmeter.privacy.sensitivity.Rearrangement`), and
  nothing finer can be published with a useful bound.
* *Whether.* "that we are away": neighbours differ in the use above the base load of one or several
  days. Its size in watts and watt-hours is typed, or that of the catalogue of households. It is a
  use as that of an appliance, and all tables need noise.
* *Who.* "who we are": no bound short of hiding everything is known, so that the wish is refused.

Nothing here depends on a reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hushmeter.appliance import QUANTITIES, QUANTITY, Appliance, Household, catalogue
from hushmeter.errors import InputError
from hushmeter.formatting import out_of_100
from hushmeter.privacy.units import BETWEEN_DAYS, KEPT, LONGEST_DAY_S, WITHIN_DAYS, order_in_words
from hushmeter.trace import SECONDS_PER_HOUR

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


def same_sums(ways: tuple[str, ...], odds: float, *, rounding_stated: bool) -> str:
    """The relation between neighbours whose use is rearranged, as a sentence.

    `odds` are those about the order of the use; above ½, noise covers what the meter rounds.
    """
    which = {
        "days": "Two files whose days have the same sums",
        "typical-day": "Two files in which every hour of the day has the same sum over each month",
        "months": "Two files whose months have the same sums",
    }[KEPT[ways] or ""]
    same = f"{which} are released with the same probabilities"
    if odds > 0.5:
        hidden = f"which the noise hides to {out_of_100(odds)} out of 100"
        return f"{same}, up to what the meter rounds, {hidden}."
    if rounding_stated:
        return f"{same}."
    return f"{same}. Nobody stated how the meter rounds: this holds for the readings of the file."


def still_shown(ways: tuple[str, ...]) -> str:
    """What a release still shows that hides only the order of the use."""
    return {
        "days": "how much is used on each day, and so on which days nobody is at home",
        "typical-day": "how much is used at each hour of the day in the mean of a month, and so at "
        "which hours people usually get up and cook",
        "months": "how much is used in each month",
    }[KEPT[ways] or ""]
