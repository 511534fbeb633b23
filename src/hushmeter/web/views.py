"""What follows the slider: a simulated release, its cost, and an attack on it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hushmeter.advice.sentences import compare_promise, compare_with_use, explain
from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.learn.inspection import find_regime
from hushmeter.learn.statements import Finding, findings
from hushmeter.privacy.meters import metered
from hushmeter.releases.labels import VIEWS, cells_of
from hushmeter.releases.private_receipt import THESE_READINGS, list_parameters
from hushmeter.releases.restore import Restored, restore
from hushmeter.web import schemas
from hushmeter.web.attacks import (
    NOT_LIVE,
    AttackResult,
    FitCache,
    Trained,
    attack,
    knows_truth,
    train,
    visibility_interval,
)
from hushmeter.web.charts import POINTS, curve_rows, milliseconds, on_stretches
from hushmeter.web.releases import describe, find_promise, to_request

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.releases.promise import Promise
    from hushmeter.releases.release import Release, View
    from hushmeter.trace import Trace
    from hushmeter.web.server import Settings
    from hushmeter.web.sessions import Session


SCORES = ("alpha", "alpha_floor", "f1", "balanced_accuracy")
"""Scores of the attack over all appliances."""
MOST_MARKS = 2000
"""Largest number of marks of one finding in an answer."""
CONCERNED = {
    "kettle": ("kettle",),
    "shower": ("electric shower",),
    "fridge": ("fridge", "freezer", "fridge-freezer"),
    "hvac": ("air conditioner", "heat pump", "portable heater"),
    "short-heat": ("microwave", "toaster", "hair dryer"),
    "thermostat": ("oven", "tumble dryer", "hob"),
    "car-charger": ("car charger",),
}
"""Entries of the catalogue that a kind of finding may concern. They are highlighted, not ticked."""
LEVELS: tuple[tuple[Literal["small", "visible", "large", "exceeds"], float], ...] = (
    ("small", 0.1),
    ("visible", 0.5),
    ("large", 1.0),
    ("exceeds", math.inf),
)
"""Names of the errors of a release, with their largest share of the household's own use."""
VERDICTS = {
    "small": "The noise is small beside your own use.",
    "visible": "The noise is clearly visible, but your own use stays readable.",
    "large": "The noise is more than half of your own use: single values say little.",
}


def make_view(given: schemas.ViewRequest, session: Session, settings: Settings) -> schemas.View:
    """Release one stretch of a trace with a seed, and state the promise and its cost."""
    began = time.perf_counter()
    shown = _show(given, session, settings)
    promise, done = shown.promise, shown.done
    numbers = [] if promise is None else list_parameters(promise.unit, promise.home, session.trace)
    return schemas.View(
        promise=None if promise is None else describe(promise),
        start=shown.first,
        length=len(shown.trace),
        interval_s=shown.released.interval_s,
        reveals=find_regime(shown.released.interval_s)[1],
        metered=curve_rows(shown.trace),
        released=None if done is None else curve_rows(done.trace),
        cost=None if done is None else _cost(shown.seen, done),
        verdict=None if promise is None else judge(given, promise, session),
        parameters=numbers,
        needs_consent=any(one["source"] == THESE_READINGS for one in numbers),
        seed=given.seed,
        simulation=True,
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True)
class Shown:
    """The stretch of readings that a page shows, as metered and as released."""

    home: Home | None
    first: int  # Position of the first reading
    # The metered readings; and the same at the released interval
    trace: Trace
    seen: Trace
    promise: Promise | None = None  # The promise for all readings; None if no noise is added
    done: Release | None = None  # The simulated release of the stretch

    @property
    def released(self) -> Trace:
        """The released readings, or the metered ones if no noise is added."""
        return self.trace if self.done is None else self.done.trace

    def attack(
        self, given: schemas.AttackRequest, session: Session, fits: FitCache
    ) -> AttackResult | None:
        """Attack the released readings; None if nobody knows what was really on."""
        if self.home is None or not knows_truth(self.home, self.trace):
            return None
        trained = self._train(given.attacker, self.home, session, fits)
        noise = None if self.promise is None else self.promise.noise
        return attack(trained, self.home, self.seen, self.released, noise, given.seed)

    def strips(self, found: AttackResult) -> list[schemas.Strip]:
        """Return one strip of on and off for each appliance whose truth is known."""
        assert self.home is not None
        return [
            schemas.Strip(
                appliance=self.home.names[i],
                truth=on_stretches(truth, self.seen),
                guess=on_stretches(guess, self.seen),
                wrong=on_stretches(guess != truth, self.seen),
            )
            for i, guess, truth in zip(
                found.known, found.states[:, found.known].T, found.truth.T, strict=True
            )
        ]

    def _train(self, name: str, home: Home, session: Session, fits: FitCache) -> Trained:
        """Return the attacker, fitted now or before, on readings of the released interval."""
        if name in NOT_LIVE:
            raise InputError(f"the page does not offer the {name} attacker: {NOT_LIVE[name]}.")
        first, stop, length = self.first, self.first + len(self.trace), self.seen.interval_s
        every = None if length == self.trace.interval_s else length
        key = (session.source, home, name, first, stop, every)
        return fits.get(key, lambda: train(name, home, session, first, stop, every))


def _show(given: schemas.ViewRequest, session: Session, settings: Settings) -> Shown:
    """Cut the stretch that a request names out of a trace and release it with its seed."""
    home = None if given.home is None else schemas.to_home(given.home)
    first, stop = _stretch(given, len(session.trace), settings)
    trace = session.trace[first:stop]
    if not given.adds_noise:
        return Shown(home, first, trace, trace)
    promise = find_promise(given, session)
    length = promise.cells.interval_s
    here = promise.on(cells_of(metered(trace, promise.cells.zone), length))
    # Without the home, the receipt has no account of whole days, which takes seconds.
    done = replace(here, home=None).release(trace, rng=given.seed)
    seen = trace if length == trace.interval_s else trace.coarsen(length)
    return Shown(home, first, trace, seen, promise, done)


def attack_view(
    given: schemas.AttackRequest, session: Session, fits: FitCache, settings: Settings
) -> schemas.AttackModel:
    """Attack the release that a view shows; without strips and scores if nobody knows the truth."""
    shown = _show(given, session, settings)
    found = shown.attack(given, session, fits)
    if found is None:
        return schemas.AttackModel.model_validate({"attacker": given.attacker, "sentences": []})
    return schemas.AttackModel(
        attacker=given.attacker,
        name=found.name,
        chosen=found.chosen,
        trained_on=found.trained_on,
        strips=shown.strips(found),
        visibility=_visibility(found),
        score={name: finite(getattr(found.score, name)) for name in SCORES},
        sentences=list(explain(found.score)),
    )


def restore_view(
    given: schemas.ViewRequest, session: Session, settings: Settings
) -> schemas.RestoredModel:
    """Restore the release that a view shows, as a recipient could."""
    done = _show(given, session, settings).done
    if done is None:
        raise InputError("without noise there is nothing to restore: choose epsilon.")
    better = restore(done)
    assert isinstance(better, Restored)
    return schemas.RestoredModel(
        rows=curve_rows(better.trace), error_w=finite(float(better.std.mean()))
    )


def calendar_view(given: schemas.CalendarRequest, session: Session) -> schemas.CalendarModel:
    """Simulate a release of hours, days, typical day and months beside the metered values."""
    promise = find_promise(given, session, tables=VIEWS)
    done = replace(promise, home=None).release(session.trace, rng=given.seed)
    # Tables without noise are consistent, so that their estimate is the metered values themselves.
    cells = promise.means(session.trace)
    exact = replace(done, sums=tuple(entry.table.sums(cells) for entry in promise.tables))
    months, true = done.view("months"), exact.view("months").values
    return schemas.CalendarModel(
        profile=_typical_day(done.view("typical-day"), exact.view("typical-day").values),
        months=[
            _estimated(*one)
            for one in zip(months.labels["month"], months.values, months.errors, true, strict=True)
        ],
        days=int(promise.cells.days.days.size),
        zone=promise.cells.zone,
    )


def _typical_day(profile: View, true: FloatArray) -> list[schemas.Estimated]:
    """Average the typical days of all months; the noise of the months is independent."""
    hours, cells = profile.labels["hour"], profile.labels["cells"]
    rows = []
    for hour in np.unique(hours):
        here = hours == hour
        share = cells[here] / cells[here].sum()
        error = math.sqrt(float(((share * profile.errors[here]) ** 2).sum()))
        rows.append(_estimated(hour, share @ profile.values[here], error, share @ true[here]))
    return rows


def _estimated(label: str, value: float, error: float, true: float) -> schemas.Estimated:
    """Return one value with its standard error as JSON."""
    return schemas.Estimated(
        label=str(label), value=float(value), error=float(error), metered=float(true)
    )


def find_findings(session: Session, tz: str) -> schemas.FindingsModel:
    """Find what the readings show, for the household only."""
    found = findings(session.trace, tz=tz)
    times = milliseconds(session.trace)
    return schemas.FindingsModel(
        zone=found.zone,
        findings=[_finding(one, times) for one in found.findings],
        notes=list(found.notes),
        withheld=list(found.withheld),
    )


def _finding(one: Finding, times: IntArray) -> schemas.FindingModel:
    """Return a finding as JSON; many marks are reduced to the first ones."""
    marks = np.rint(1000 * one.marks[:MOST_MARKS]).astype(np.int64)
    places = np.clip(np.searchsorted(times, marks[:, 0]), 0, times.size - 1)
    return schemas.FindingModel(
        kind=one.kind,
        sentence=one.sentence,
        certainty=one.certainty,
        marks=[(int(start), int(end)) for start, end in marks.tolist()],
        places=places.tolist(),
        appliances=list(CONCERNED.get(one.kind, ())),
    )


def judge(given: schemas.PromiseRequest, promise: Promise, session: Session) -> schemas.Verdict:
    """Judge the standard error of a promise beside the own use, for the household only."""
    request, trace = to_request(given), session.trace
    own = compare_with_use(promise.errors, trace, given.purpose)
    sentences = own.sentences
    if request.hide is not None:
        sentences = compare_promise(request, promise, promise.unit.metered, trace)
    level = next(level for level, most in LEVELS if own.share() <= most)
    if level in VERDICTS:
        sentences = (*sentences, VERDICTS[level])
    return schemas.Verdict(level=level, error=own.error, own=own.own, sentences=list(sentences))


def _cost(seen: Trace, done: Release) -> schemas.CostModel:
    """Compare energy, hourly means and peak of a simulated release with the metered ones."""
    total, hours = done.view("register"), seen.hourly()
    true_w, noisy_w = hours.readings, done.trace.hourly().readings
    rows = zip(milliseconds(hours).tolist(), _rounded(true_w), _rounded(noisy_w), strict=True)
    return schemas.CostModel(
        hourly=list(rows)[:POINTS],
        kwh=schemas.Amount(true=seen.energy_kwh, released=total.values[-1], error=total.errors[-1]),
        peak=schemas.Amount(true=float(true_w.max()), released=float(noisy_w.max())),
    )


def finite(value: float) -> float | None:
    """Return the number, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None


def _stretch(request: schemas.ViewRequest, count: int, settings: Settings) -> tuple[int, int]:
    """Return the positions of the first reading shown and of the one after the last."""
    if request.start >= count:
        raise DataError(
            f"start must be below the number of readings, {count}, but it is {request.start}."
        )
    rest = count - request.start
    wanted = min(rest, settings.view_readings) if request.length is None else request.length
    if wanted > settings.view_readings:
        raise InputError(f"length must be at most {settings.view_readings} readings.")
    return request.start, request.start + min(wanted, rest)


def _visibility(found: AttackResult) -> list[schemas.Visibility]:
    """Return the visibility of every appliance whose truth is known."""
    rows = []
    for column, (i, one) in enumerate(zip(found.known, found.score.per_appliance, strict=True)):
        low, high = visibility_interval(found.states[:, i], found.truth[:, column])
        rows.append(
            schemas.Visibility(
                appliance=one.name,
                accuracy=one.alpha,
                floor=one.floor,
                visibility=finite(one.visibility),
                low=finite(low),
                high=finite(high),
                odds=(round(100 * one.alpha, 1), round(100 * one.floor, 1)),
            )
        )
    return rows


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 1) for value in values.tolist()]
