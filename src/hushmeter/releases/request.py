"""What a person asks of a release, and how it becomes a promise.

A request either says what to hide and to which odds (`hide`, `odds`, `purpose`), or states a unit
of protection and its ε (`protect`, `span`, `epsilon`). `Request.resolve` turns it into a `Promise`,
from public facts about the meter alone. Every front end (the commands, the page, streams, fleets
and Python) makes a request, so the same wish gets the same noise in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushmeter.appliance import SOURCES, Appliance, catalogue
from hushmeter.checks import one_of, positive, seconds
from hushmeter.errors import InputError
from hushmeter.formatting import format_watts
from hushmeter.home import DEFAULT_TOLERANCE, Home
from hushmeter.noise import find_kind
from hushmeter.noise.mechanism import MAX_EPSILON, Exact, clamp_bounds, exact
from hushmeter.privacy.units import (
    PROTECT,
    SPANS,
    Metered,
    Unit,
    allow_for_samples,
    refuse_rearranging,
    resolve_unit,
)
from hushmeter.releases.labels import CELLS, HOURLY_COST, REGISTER, VIEWS, of_sums, split_words
from hushmeter.releases.promise import Promise
from hushmeter.releases.purposes import (
    OF_PURPOSE,
    Order,
    choose_purpose,
    choose_tables,
    parse_wish,
    rearranged,
    what_helps,
)
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, intervals_in

ODDS = 0.6
"""Odds of the best attacker if a wish states none."""


@dataclass(frozen=True)
class Request:
    """What a person asks of a release.

    Parameters
    ----------
    hide : str, Appliance, or an iterable of them, optional
        What nobody should be able to tell: "when we get up", "evenings", "which days we are away",
        "that we are away" (or "that we are away 3 kW 5 kWh 2 days"), names of the catalogue, words
        such as "kettle 2100 W 180 s", or appliances; one text may list several, with commas. With
        a home, its appliances are meant by their names. The first three choose the tables
        themselves.
    odds : float, optional
        Largest probability that the best attacker is right, as a share (0.6, the default) or out of
        100 (60). A coin is right half of the time.
    purpose : {"hour", "day", "month", "profile", "register"}, optional
        What the data is for; it decides the length of the cells.
    protect : {"appliance", "fluctuation", "range", "change"}, optional
        What ε protects: an appliance that switches (the default), only fluctuations within a state,
        any value within the clamp, or a change of `watts`.
    span : {"reading", "run", "day", "when"}, optional
        Over how long: one metered reading, one run, one day, or the time of a run within its day,
        but not whether it happened. With `hide` and with tables a run by default, otherwise a
        reading.
    epsilon : exact number, optional
        ε of the unit of protection, instead of `hide`.
    delta : exact number, default 1e-6
        δ of Gaussian noise.
    home : Home, optional
        The appliances; needed to protect appliances or fluctuations with `epsilon`.
    appliance : str, optional
        The one appliance of the home to protect; all of them by default.
    use : float or str, optional
        Longest use a day, such as "30min"; for the spans "day" and "when".
    watts : float, optional
        Size of the change [W] that `protect="change"` means.
    every : float or str, optional
        Length of the cells, such as "30min". By default it is searched with `hide`, one hour with
        tables, and that of the readings otherwise.
    tables : sequence of str, optional
        Tables to publish together: "hours", "days", "months", "typical-day", "typical-week",
        "year", "register", or bands such as "peak = weekdays 16:00-21:00"; "views" means the first
        four. By default the cells alone.
    mechanism : {"laplace", "staircase", "gaussian"}, optional
        Distribution of the noise. By default it is searched with `hide`, and Laplace with
        `epsilon`; several tables always have Gaussian noise.
    grid : exact number, optional
        Step of the cells [W]; by default the one with the least error.
    clamp : (low, high), optional
        Bounds to which metered readings are set [W].
    hourly_cost : float, default 1.10
        If there are several tables: largest error of a cell, relative to a release of cells alone.
    max_epsilon : float, default 20
        Largest accepted ε.
    accept_learnt : bool, default False
        Accept numbers of the home that were learnt from the readings of the same time.

    Raises
    ------
    InputError
        If the request is incomplete or contradicts itself.

    Examples
    --------
    >>> promise = hm.Request(hide="kettle 2100 W 180 s", odds=60).resolve(hm.Metered(3600))
    >>> promise.noise.name, round(promise.errors.hour_w)
    ('gaussian', 208)
    >>> views = hm.Request(hide="kettle 2100 W 180 s", tables=["views"]).resolve(hm.Metered(60))
    >>> round(views.errors.month_kwh, 2)
    0.71
    """

    hide: str | Appliance | Iterable[str | Appliance | Order] | None = None
    odds: float | None = None
    purpose: str | None = None
    protect: str | None = None
    span: str | None = None
    epsilon: Exact | None = None
    delta: Exact = 1e-6
    home: Home | None = None
    appliance: str | None = None
    use: float | str | None = None
    watts: float | None = None
    every: float | str | None = None
    tables: Sequence[str] = ()
    mechanism: str | None = None
    grid: Exact | None = None
    clamp: tuple[float, float] | None = None
    hourly_cost: float = HOURLY_COST
    max_epsilon: float = MAX_EPSILON
    accept_learnt: bool = False

    def __post_init__(self) -> None:
        words = [self.tables] if isinstance(self.tables, str) else self.tables
        expanded = [one for word in words for one in (VIEWS if word == "views" else (word,))]
        # Hours are cells of at most one hour, so the shorter word adds nothing.
        named = (one for one in expanded if one != CELLS or "hours" not in expanded)
        object.__setattr__(self, "tables", tuple(dict.fromkeys(named)))
        object.__setattr__(self, "clamp", clamp_bounds(self.clamp))
        for name, allowed in (("protect", PROTECT), ("span", SPANS)):
            if getattr(self, name) is not None:
                one_of(name, getattr(self, name), allowed)
        if self.mechanism is not None:
            find_kind(self.mechanism)
        if self.hide is None:
            self._check_stated()
        else:
            assert self.hide is not None
            object.__setattr__(self, "hide", tuple(find_hidden(self.hide, self.home)))
            object.__setattr__(self, "odds", odds_share(ODDS if self.odds is None else self.odds))
            self._check_wish()
            if not self.tables and self.every is None:
                purpose, tables = choose_tables(self.hidden, self.purpose)
                object.__setattr__(self, "purpose", purpose)
                object.__setattr__(self, "tables", tables)
            if self.rearranged and not self.several:
                raise InputError(f"no useful release of hours hides {what_helps(self.rearranged)}")
        self._check_tables()
        if not 0 < exact("delta", self.delta) < 1:
            raise InputError(f"delta must lie between 0 and 1, got {self.delta}.")

    def _check_stated(self) -> None:
        """Refuse a request with an ε that contradicts itself."""
        if self.epsilon is None:
            raise InputError(
                "say what to hide, such as hide='kettle', or give an epsilon of your own."
            )
        if self.odds is not None or self.purpose is not None:
            raise InputError("odds and purpose need hide, which states what the odds are about.")
        if float(exact("epsilon", self.epsilon)) > self.max_epsilon:
            raise InputError(
                f"epsilon must be at most max_epsilon = {self.max_epsilon:g}, got {self.epsilon}; "
                "raise max_epsilon if you accept this little protection."
            )
        if self.watts is not None and self.protect not in (None, "change"):
            raise InputError(f"watts is the size of a change, but protect is {self.protect!r}.")

    def refuse_without_home(self) -> None:
        """Raise `InputError` if appliances are protected and none are known."""
        protect = self.chosen_protection
        if self.hide is None and self.home is None and protect in ("appliance", "fluctuation"):
            raise InputError(f"protect {protect!r} needs a home.")

    @property
    def chosen_protection(self) -> str:
        """What the request protects: an appliance, or a change if its size is given."""
        return self.protect or ("appliance" if self.watts is None else "change")

    def _check_wish(self) -> None:
        """Refuse a wish beside the numbers that it finds itself."""
        found = ("epsilon", "protect", "appliance", "watts", "grid")
        for name in found:
            if getattr(self, name) is not None:
                raise InputError(f"hide finds the noise itself: leave out {name}.")
        if self.rearranged and self.clamp is not None:
            raise InputError(
                "a clamp changes the sums of days by when electricity is used, which this wish "
                "hides: leave out clamp."
            )
        if self.rearranged and self.every is not None:
            raise InputError(
                "this wish publishes sums of complete days or whole months, however long the "
                "values are: leave out every."
            )
        if not self.appliances and (self.span or self.use) is not None:
            raise InputError("span and use are about appliances, but the wish names none.")

    def _check_tables(self) -> None:
        """Refuse tables that contradict the span or the noise."""
        names, _ = split_words(self.tables)
        if not self.several:
            if self.hourly_cost != HOURLY_COST:
                raise InputError("hourly_cost needs several tables, such as tables=['views'].")
            return
        if REGISTER in names and CELLS not in names:
            raise InputError("the register adds up the hours, so it needs the table hours too.")
        if self.span == "when":
            raise InputError(
                "the span 'when' publishes the sums of the days, so further tables have nothing "
                "to add; leave out the tables."
            )
        if self.mechanism is not None and not find_kind(self.mechanism).shares_budget:
            raise InputError(
                "several tables share one budget with Gaussian noise: leave out "
                f"mechanism={self.mechanism!r}."
            )

    @property
    def several(self) -> bool:
        """True if anything else than the cells alone is published."""
        return of_sums(self.tables)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that name the tables; the register alone is that of the cells."""
        alone = not self.several and CELLS not in split_words(self.tables)[0]
        return (CELLS, *self.tables) if alone else tuple(self.tables)

    @property
    def member(self) -> Appliance:
        """The hidden use: one that is at least as large as one run of every hidden appliance."""
        return enclose_uses(self.appliances)

    @property
    def hidden(self) -> tuple[Appliance | Order, ...]:
        """What the wish names."""
        return self.hide if isinstance(self.hide, tuple) else ()

    @property
    def appliances(self) -> tuple[Appliance, ...]:
        """The hidden appliances, and days at home."""
        return tuple(one for one in self.hidden if isinstance(one, Appliance))

    @property
    def rearranged(self) -> tuple[str, ...]:
        """How the use of neighbours may be rearranged without a limit."""
        return rearranged(self.hidden)

    @property
    def subject(self) -> str:
        """What is hidden, as the words of a sentence."""
        orders = [one.words for one in self.hidden if isinstance(one, Order)]
        return ", ".join([*orders, *([f"the {self.member.name}"] if self.appliances else [])])

    @property
    def protected_home(self) -> Home | None:
        """The home whose numbers calibrate the noise: with `hide` that of the hidden use alone."""
        if self.hide is None:
            return self.home
        if not self.appliances:
            return None
        if self.home is None:
            return Home([self.member], DEFAULT_TOLERANCE)
        given = self.home
        return Home(
            [self.member], given.tolerance, learnt_from=given.learnt_from, typed=given.typed
        )

    def chosen_span(self) -> str:
        """The span that the request means."""
        if self.span is not None:
            return self.span
        if self.hide is not None and not self.appliances:
            return "file"
        if self.hide is not None:
            return "reading" if self.member.protected_run_s is None else "run"
        return "run" if self.several else "reading"

    def unit(self, metered: Metered, every: float | str | None = None) -> Unit:
        """Return the unit of protection for metered readings and cells of `every` seconds."""
        protect = self.chosen_protection
        if self.rearranged:
            refuse_rearranging(metered.metering)
        if self.hide is not None and not self.appliances:
            return self._order_unit(metered, every)
        unit = resolve_unit(
            protect,
            "run" if self._hides_a_cell else self.chosen_span(),
            interval_s=metered,
            home=self.home_for(metered, every),
            appliance=self.appliance,
            every=self.every if every is None else every,
            use=self.use,
            size=self.clamp if protect == "range" else self.watts,
        )
        return replace(unit, rearranged=self.rearranged)

    def _order_unit(self, metered: Metered, every: float | str | None) -> Unit:
        """The unit of a wish that hides nothing but the order of the use."""
        length = self.every if every is None else every
        return Unit(
            "order",
            "file",
            (),
            metered.interval_s,
            metered.metering,
            metered.readings,
            zone=metered.zone,
            window=1 if length is None else intervals_in(length, metered.interval_s),
            rearranged=self.rearranged,
        )

    @property
    def _hides_a_cell(self) -> bool:
        """True if an appliance is hidden whose runs have no known length."""
        return self.hide is not None and self.chosen_span() == "reading"

    def home_for(self, metered: Metered, every: float | str | None = None) -> Home | None:
        """Return the home whose numbers calibrate the noise of metered cells of `every` seconds.

        To hide a single reading is to hide a run that is as long as a cell. The runs of a meter
        that sends samples seem longer.
        """
        home = self.protected_home
        if home is None:
            return None
        members = list(home.appliances)
        if self._hides_a_cell:
            length = self.every if every is None else every
            cell_s = metered.interval_s if length is None else seconds("every", length)
            members = [
                replace(
                    one, run_s=cell_s, run_high_s=None, energy_wh=None, typed=(*one.typed, "run_s")
                )
                for one in members
            ]
        if metered.samples:
            members = [allow_for_samples(one, metered.interval_s) for one in members]
        return home.with_appliances(members)

    def for_purpose(self, metered: Metered) -> str:
        """What the data is for; by default hours, or days if the metered readings are longer."""
        shortest = metered.interval_s if self.every is None else seconds("every", self.every)
        return choose_purpose(self.purpose, shortest)

    def resolve(self, metered: Metered) -> Promise:
        """Find the promise that meets the request, from public facts alone.

        Parameters
        ----------
        metered : Metered
            What is public about the meter, from `hm.metered(trace)`.

        Returns
        -------
        Promise
            With `hide`, the one with the least error for the purpose.

        Raises
        ------
        InputError
            If no noise keeps the odds, or the request does not fit the meter.
        """
        from hushmeter.releases.search import calibrate_request, find_best

        return calibrate_request(self, metered) if self.hide is None else find_best(self, metered)

    def as_calendar(self, metered: Metered) -> Request:
        """Return the wish with the tables of its purpose, if it may have them.

        These are hours, days, months and the typical day; for days, months or the typical day they
        are only those that the purpose needs. A wish that names its tables, the length of the
        values, the noise or the span "when" keeps its form, and so do readings (`metered`) that are
        longer than hours or cover less than a day.
        """
        stated = self.tables or self.every or self.mechanism or self.span == "when"
        short = metered.interval_s <= SECONDS_PER_HOUR
        period_s = (metered.readings or np.inf) * metered.interval_s
        if self.hide is None or stated or not short or period_s < SECONDS_PER_DAY:
            return self
        return self.with_changes(tables=OF_PURPOSE.get(self.purpose or "hour", VIEWS))

    def with_changes(self, **changes: Any) -> Request:
        """Return the request with changes of some fields."""
        return replace(self, **changes)


def odds_share(value: float) -> float:
    """Return odds as a share; a number above 1 counts out of 100."""
    given = positive("odds", value)
    share = given / 100 if 1 < given < 100 else given
    if not share < 1:
        raise InputError(
            f"odds must lie between 0 and 1, or between 1 and 100 out of 100, got {value:g}."
        )
    return share


def find_hidden(
    kinds: str | Appliance | Iterable[str | Appliance | Order], home: Home | None = None
) -> list[Appliance | Order]:
    """Find what words mean: a wish of a household, or an appliance of a home or the catalogue."""
    given = [kinds] if isinstance(kinds, str | Appliance) else list(kinds)
    found: list[Appliance | Order] = []
    for entry in given:
        if not isinstance(entry, str):
            found.append(entry)
            continue
        for word in filter(None, map(str.strip, entry.split(","))):
            found.append(parse_wish(word) or _find_appliance(word, home))
    if not found:
        raise InputError('name what to hide, such as "kettle".')
    return found


def _find_appliance(word: str, home: Home | None) -> Appliance:
    """The appliance that words mean; a kind of many sizes needs its own."""
    if home is not None:
        return _in_home(word, home)
    made = Appliance.from_words(word)
    kind = catalogue.get(made.name)
    if kind is not None and kind.ask and made.high is not None:
        # Only the catalogue fills in a high value.
        low, high = format_watts(kind.power_w.low), format_watts(kind.power_w.high)
        raise InputError(
            f"{kind.name}: this may draw between {low} and {high}, and the noise follows from its "
            f'size; state it, such as "{kind.name} {format_watts(kind.power_w.typical)}".'
        )
    return made


def _in_home(word: str, home: Home) -> Appliance:
    """The appliance of a home that a word means; raise `UnknownNameError` if there is none."""
    kind = catalogue.get(word)
    if word not in home.names and kind is not None:
        for name in home.names:
            if catalogue.get(name) is kind:
                return home.appliances[home.index(name)]
    return home.appliances[home.index(word)]


def enclose_uses(appliances: Iterable[Appliance]) -> Appliance:
    """Return one use that is at least as large as one run of each appliance.

    A single appliance is returned as it is. Otherwise it has the largest protected power, run and
    energy of all of them, so that the unit of protection can be stated as “any use of up to E Wh
    and P W” whatever the appliances are called.
    """
    members = list(appliances)
    if len(members) == 1:
        return members[0]
    runs = [member.protected_run_s for member in members]
    lengths = [run for run in runs if run is not None]
    known = len(lengths) == len(members)
    uses = [member.protected_use_s_per_day for member in members]
    capped = [use for use in uses if use is not None]
    return Appliance(
        " or ".join(dict.fromkeys(member.name for member in members)),
        max(member.protected_power for member in members),
        run_s=max(lengths) if known else None,
        energy_wh=max(map(use_energy_wh, members)) if known else None,
        use_s_per_day=max(capped) if len(capped) == len(members) else None,
        **_enclosed_sources(members),
    )


def _enclosed_sources(members: Sequence[Appliance]) -> dict[str, Any]:
    """The least certain source of the enclosed numbers, and the numbers that enclose none of it.

    The energy of a use follows from its power and its run too.
    """
    power = {member.source_of(member.power_field) for member in members}
    run = {member.source_of(member.run_field) for member in members}
    energy = {one.source_of("energy_wh") for one in members if one.energy_wh is not None}
    use = {one.source_of("use_s_per_day") for one in members if one.use_s_per_day is not None}
    numbers = {
        "power": power,
        "run_s": run,
        "energy_wh": power | run | energy,
        "use_s_per_day": use,
    }
    source = max(set().union(*numbers.values()), key=SOURCES.index)
    others = tuple(name for name, found in numbers.items() if found and source not in found)
    return {"source": source, "typed": others}


def use_energy_wh(appliance: Appliance) -> float:
    """Largest energy of one run of an appliance [Wh]; infinite if its run is unknown."""
    run_s, stated = appliance.protected_run_s, appliance.protected_energy_wh
    most = np.inf if run_s is None else appliance.protected_power * run_s / SECONDS_PER_HOUR
    return float(most if stated is None else min(most, stated))
