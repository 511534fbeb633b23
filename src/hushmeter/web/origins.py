"""Where the numbers of a home come from. The server decides it, and never the page.

The page sends a home with every request, and whoever edits an appliance there sends its other
numbers back as they were. The server holds the homes that it learnt or read. A number that was
learnt in one of them stays learnt, whatever the request claims: it is rounded up to a public step,
and a release with it needs consent.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from hushmeter.appliance_kinds import catalogue
from hushmeter.errors import InputError
from hushmeter.home import NUMBERS, SOURCES, Appliance, Home, round_up_to_public_step
from hushmeter.web.schemas import ApplianceModel, HomeModel, PromiseRequest, to_origin

SAME = 1e-5
"""Relative difference up to which a number counts as the learnt one; the page shows six digits."""
MEASURES = {
    "power": "W",
    "levels": "W",
    "high": "W",
    "max_power": "W",
    "run_s": "s",
    "run_high_s": "s",
    "use_s_per_day": "s",
    "energy_wh": "Wh",
    "runs_per_day": "per day",
}


class KnownHomes:
    """The homes that a server gave out; the least recently used one is removed first."""

    def __init__(
        self, most: int, idle_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._idle_s, self._clock = most, idle_s, clock
        self._held: OrderedDict[str, tuple[Home, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, key: str, home: Home) -> None:
        """Hold a home under an identifier that nobody can guess."""
        self._held[key] = (home, self._clock())
        self._held.move_to_end(key)
        self.forget_idle()

    def get(self, key: str | None) -> Home | None:
        """Return a home and mark it as used; None if it is not held."""
        self.forget_idle()
        if key is None or key not in self._held:
            return None
        home, _ = self._held[key]
        self.add(key, home)
        return home

    def forget_idle(self) -> None:
        """Remove the homes that nobody used for `idle_s` seconds, and those that are too many."""
        oldest = self._clock() - self._idle_s
        while self._held:
            _, used = next(iter(self._held.values()))
            if used >= oldest and len(self._held) <= self._most:
                return
            self._held.popitem(last=False)


class Numbers:
    """All numbers of some homes, by source and measure, with what they are rounded to."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._found: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
        for appliance in (one for home in homes for one in home.appliances):
            for field in NUMBERS:
                place = self._found.setdefault((appliance.source_of(field), MEASURES[field]), [])
                for value in _values(appliance, field):
                    place.append((appliance.name, value, round_up_to_public_step(value)))

    def has(self, source: str, name: str, field: str, value: float) -> bool:
        """Return True if a number is, or follows by rounding from, a number of the source.

        The rounded number is compared under the same name alone: it is one of a few, and somebody
        may enter it for another appliance.
        """
        return any(
            _is_same(value, number) or (member == name and _is_same(value, rounded))
            for member, number, rounded in self._found.get((source, MEASURES[field]), ())
        )


def settle_origins(model: HomeModel, known: Sequence[Home], *, is_complete: bool) -> HomeModel:
    """Return a home of a request with the source of every number as the server knows it.

    The home of the readings to be released is the first of `known`. Unless one of them is the home
    that was edited (`is_complete`), an appliance that is claimed to be learnt counts as learnt as a
    whole.
    """
    numbers = Numbers(known)
    claimed = None if is_complete else model.learnt_from
    tolerance_of = [
        home
        for home in known
        if home.is_tolerance_learnt and _is_same(model.tolerance, home.tolerance)
    ]
    origins = [home for home in known if _shares_learnt_number(model, home)]
    found = [home.learnt_from for home in (*origins, *tolerance_of) if home.learnt_from]
    origin = to_origin(found[0]) if found else claimed
    is_typed = origin is not None and claimed is None and not tolerance_of
    return model.model_copy(
        update={
            "appliances": [_settle(one, numbers, is_complete) for one in model.appliances],
            "learnt_from": origin,
            "typed": ["tolerance"] if is_typed else [],
        }
    )


def refuse_learnt_watts(request: PromiseRequest, known: Sequence[Home]) -> None:
    """Raise `InputError` if a change or a clamp is stated with a number that was learnt.

    These numbers are not rounded and need no consent, so they must be somebody's own.
    """
    stated = [abs(value) for value in (request.watts, *(request.clamp or ())) if value]
    numbers = Numbers(known)
    for value in stated:
        if numbers.has("learnt", "", "power", value):
            raise InputError(
                f"{value:g} W was learnt from readings, and ε does not cover what it reveals about "
                "them: enter another number, or protect the appliance itself."
            )


def _settle(model: ApplianceModel, numbers: Numbers, is_complete: bool) -> ApplianceModel:
    """Return an appliance with the source of its numbers, and those with another source."""
    if model.source == "learnt" and not is_complete:
        return model.model_copy(update={"typed": []})
    typical = Numbers([Home([Appliance.from_words(model.name)])] if model.name in catalogue else [])
    sources = {}
    for field in NUMBERS:
        for value in _values(model, field):
            given = (model.name, field, value)
            if numbers.has("learnt", *given):
                sources[field] = "learnt"
            elif numbers.has("catalogue", *given) or typical.has("catalogue", *given):
                sources.setdefault(field, "catalogue")
            else:
                sources.setdefault(field, "typed")
    source = max(sources.values(), key=SOURCES.index, default="typed")
    others = [field for field, one in sources.items() if one != source]
    return model.model_copy(update={"source": source, "typed": others})


def _shares_learnt_number(model: HomeModel, home: Home) -> bool:
    """Return True if a number of an appliance was learnt in a home."""
    numbers = Numbers([home])
    return any(
        numbers.has("learnt", one.name, field, value)
        for one in model.appliances
        for field in NUMBERS
        for value in _values(one, field)
    )


def _values(one: Appliance | ApplianceModel, field: str) -> tuple[float, ...]:
    """Return the values of a number of an appliance; several for its levels."""
    if field == "power":
        value = one.power if isinstance(one, Appliance) else one.watts
    else:
        value = getattr(one, field)
    if isinstance(value, list | tuple):
        return tuple(value)
    return () if value is None else (value,)


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))
