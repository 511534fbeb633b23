"""The view that follows the slider: a simulated release, an attack on it, and its cost."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hushmeter.advice.hiding import OwnUse, compare_with_use
from hushmeter.advice.purposes import series_errors
from hushmeter.advice.sentences import SIMULATION_WARNING, explain
from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.learn.inspection import find_regime
from hushmeter.learn.statements import Finding, findings
from hushmeter.releases.cost import expect_cost
from hushmeter.releases.restore import restore
from hushmeter.releases.series import mean_windows, release
from hushmeter.releases.views import add_up, release_views
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_HOUR
from hushmeter.web import schemas
from hushmeter.web.attacks import (
    DEFAULT,
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
from hushmeter.web.releases import (
    calibrate_noise,
    find_parameters,
    find_unit,
    learnt_here,
    protected_home,
)

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.units import Unit
    from hushmeter.releases.calendar_release import CalendarRelease
    from hushmeter.releases.series import Release
    from hushmeter.scoring import Score
    from hushmeter.trace import Trace
    from hushmeter.web.server import Settings
    from hushmeter.web.sessions import Session


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


def make_view(
    request: schemas.ViewRequest, session: Session, fits: FitCache, settings: Settings
) -> schemas.View:
    """Release one stretch of a trace with a seed, attack it, score it and explain it.

    The numbers are those of `release`, `Attacker.predict` and `score` with the same seed.

    Parameters
    ----------
    request : ViewRequest
    session : Session
    fits : FitCache
        Attackers that were fitted before.
    settings : Settings
        The limits of the server.

    Returns
    -------
    View

    Raises
    ------
    InputError
        If the request is not valid for these readings.
    DataError
        If the stretch lies outside the trace.
    """
    began = time.perf_counter()
    shown = _show(request, session, settings)
    noise, trace, released = shown.noise, shown.trace, shown.released
    found = None if request.attacker is None else shown.attack(request, session, fits)
    return schemas.View(
        unit=None if noise is None else noise.unit.sentence,
        epsilon=request.epsilon,
        delta=0.0 if noise is None else noise.mechanism.delta,
        scale_w=0.0 if noise is None else noise.mechanism.scale,
        start=shown.first,
        length=len(trace),
        interval_s=released.interval_s,
        reveals=find_regime(released.interval_s)[1],
        metered=curve_rows(trace),
        released=None if noise is None else curve_rows(released),
        strips=None if found is None else shown.strips(found),
        attacker=request.attacker,
        trained_on=None if found is None else found.trained_on,
        visibility=None if found is None else _visibility(found),
        score=None if found is None else _score(found.score),
        sentences=_sentences(noise, found),
        cost=None if noise is None else noise.cost,
        verdict=None if noise is None else judge(noise.own),
        parameters=[] if noise is None else noise.parameters,
        needs_consent=noise is not None and bool(learnt_here(noise.parameters)),
        seed=request.seed,
        simulation=True,
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True)
class Noise:
    """A simulated release of the readings shown, and what belongs to it."""

    unit: Unit
    mechanism: Mechanism
    released: Release
    cost: schemas.CostModel
    own: OwnUse
    parameters: list[schemas.Parameter]


@dataclass(frozen=True)
class Shown:
    """The stretch of readings that a page shows, as metered and as released.

    Attributes
    ----------
    home : Home or None
    first : int
        Position of the first reading.
    trace, seen, released : Trace
        The metered readings; the same at the released interval, without noise; and the released
        ones.
    noise : Noise or None
        None if no noise is added.
    """

    home: Home | None
    first: int
    trace: Trace
    seen: Trace
    released: Trace
    noise: Noise | None

    def attack(
        self, request: schemas.ViewRequest, session: Session, fits: FitCache
    ) -> AttackResult | None:
        """Attack the released readings; None if nobody knows what was really on."""
        if self.home is None or not knows_truth(self.home, self.trace):
            return None
        trained = self._train(request, session, fits)
        mechanism = None if self.noise is None else self.noise.mechanism
        return attack(trained, self.home, self.seen, self.released, mechanism, request.seed)

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

    def _train(self, request: schemas.ViewRequest, session: Session, fits: FitCache) -> Trained:
        """Return the attacker, fitted now or before, on readings of the released interval."""
        assert self.home is not None
        home, first, stop = self.home, self.first, self.first + len(self.trace)
        name, every = request.attacker or DEFAULT, None if self.noise is None else request.every
        if name in NOT_LIVE:
            raise InputError(f"the page does not offer the {name} attacker: {NOT_LIVE[name]}.")
        key = (session.source, home, name, first, stop, every)
        return fits.get(key, lambda: train(name, home, session, first, stop, every))


def _show(request: schemas.ViewRequest, session: Session, settings: Settings) -> Shown:
    """Cut the stretch that a request names out of a trace and release it with its seed."""
    home = None if request.home is None else schemas.to_home(request.home)
    first, stop = _stretch(request, len(session.trace), settings)
    trace = session.trace[first:stop]
    noise = None if request.epsilon is None else _add_noise(request, home, session, trace)
    released = trace if noise is None else noise.released.trace
    seen = trace if request.every is None or noise is None else trace.coarsen(request.every)
    return Shown(home, first, trace, seen, released, noise)


def attack_view(
    request: schemas.ViewRequest, session: Session, fits: FitCache, settings: Settings
) -> schemas.AttackModel:
    """Attack the release that a view shows; the page asks for it after the view.

    Parameters
    ----------
    request : ViewRequest
        The request of the view; without an attacker the strongest one is used.
    session : Session
    fits : FitCache
        Attackers that were fitted before.
    settings : Settings
        The limits of the server.

    Returns
    -------
    AttackModel
        Without strips and scores if nobody knows what was really on.
    """
    shown = _show(request, session, settings)
    found = shown.attack(request, session, fits)
    return schemas.AttackModel(
        attacker=request.attacker or DEFAULT,
        name=None if found is None else found.name,
        chosen=None if found is None else found.chosen,
        trained_on=None if found is None else found.trained_on,
        strips=None if found is None else shown.strips(found),
        visibility=None if found is None else _visibility(found),
        score=None if found is None else _score(found.score),
        sentences=[] if found is None else list(explain(found.score)),
    )


def restore_view(
    request: schemas.ViewRequest, session: Session, settings: Settings
) -> schemas.RestoredModel:
    """Restore the release that a view shows, as a recipient could.

    Parameters
    ----------
    request : ViewRequest
        The request of the view, with an ε.
    session : Session
    settings : Settings
        The limits of the server.

    Returns
    -------
    RestoredModel

    Raises
    ------
    InputError
        If the request adds no noise.
    """
    shown = _show(request, session, settings)
    if shown.noise is None:
        raise InputError("without noise there is nothing to restore: choose epsilon.")
    done = restore(shown.noise.released)
    return schemas.RestoredModel(
        rows=curve_rows(done.trace), error_w=finite(float(done.std.mean()))
    )


def calendar_view(request: schemas.CalendarRequest, session: Session) -> schemas.CalendarModel:
    """Simulate a calendar release of all readings, and compare it with the metered values.

    Parameters
    ----------
    request : CalendarRequest
    session : Session

    Returns
    -------
    CalendarModel
        The typical day over all months, and every month.

    Raises
    ------
    DataError
        If the readings are too short for a calendar release.
    """
    trace, every = session.trace, max(SECONDS_PER_HOUR, session.trace.interval_s)
    given = None if request.home is None else schemas.to_home(request.home)
    cells = request.model_copy(update={"every": f"{every:g}s"})
    unit = find_unit(cells, given, trace.interval_s, trace)
    done = release_views(
        trace, epsilon=request.epsilon, unit=unit, every=every, zone=request.tz, rng=request.seed
    )
    # Tables without noise are consistent, so that their estimate is the metered values themselves.
    tables = add_up(mean_windows(trace, unit)[0].readings, done.calendar, done.plan.grid)
    metered = replace(done, tables=tables)
    months = zip(
        done.months.labels["month"],
        done.months.values,
        done.months.errors,
        metered.months.values,
        strict=True,
    )
    return schemas.CalendarModel(
        profile=_typical_day(done, metered),
        months=[_estimated(*one) for one in months],
        days=int(done.calendar.days.size),
        zone=request.tz,
    )


def _typical_day(done: CalendarRelease, metered: CalendarRelease) -> list[schemas.Estimated]:
    """Average the typical days of all months; the noise of the months is independent."""
    hours, cells = done.profile.labels["hour"], done.profile.labels["cells"]
    rows = []
    for hour in np.unique(hours):
        here = hours == hour
        share = cells[here] / cells[here].sum()
        error = math.sqrt(float(((share * done.profile.errors[here]) ** 2).sum()))
        value, true = (float(share @ one.profile.values[here]) for one in (done, metered))
        rows.append(_estimated(hour, value, error, true))
    return rows


def _estimated(label: str, value: float, error: float, metered: float) -> schemas.Estimated:
    """Return one value of a calendar release as JSON."""
    return schemas.Estimated(
        label=str(label), value=float(value), error=float(error), metered=float(metered)
    )


def _add_noise(
    request: schemas.ViewRequest, home: Home | None, session: Session, trace: Trace
) -> Noise:
    """Release the readings shown with the seed of a request."""
    assert request.epsilon is not None
    unit = find_unit(request, home, trace.interval_s, session.trace)
    mechanism = calibrate_noise(request, request.epsilon, unit)
    # Without the home, the receipt has no account of whole days, which takes seconds.
    released = release(trace, mechanism, unit, rng=request.seed)
    cost = find_cost(trace, released.trace, mechanism, request.price_per_kwh, request.currency)
    own = compare_with_use(
        series_errors(mechanism, released.trace.interval_s), session.trace, request.purpose
    )
    parameters = find_parameters(unit, protected_home(request, home), session.trace)
    return Noise(unit, mechanism, released, cost, own, parameters)


def find_findings(session: Session, tz: str) -> schemas.FindingsModel:
    """Find what the readings show, for the household only.

    Parameters
    ----------
    session : Session
    tz : str
        Time zone of the home.

    Returns
    -------
    FindingsModel

    Raises
    ------
    InputError
        If `tz` is not a time zone.
    """
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


def judge(own: OwnUse) -> schemas.Verdict:
    """Judge the error of a release beside the household's own use.

    Parameters
    ----------
    own : OwnUse
        The comparison, which depends on the readings and is for the household only.

    Returns
    -------
    Verdict
    """
    level = next(level for level, most in LEVELS if own.share() <= most)
    sentences = own.sentences if own.loud else (own.sentence, VERDICTS[level])
    return schemas.Verdict(level=level, error=own.error, own=own.own, sentences=list(sentences))


def find_cost(
    trace: Trace, released: Trace, mechanism: Mechanism, price_per_kwh: float, currency: str
) -> schemas.CostModel:
    """Compare energy, bill, hourly means and peak of a simulated release with the true ones.

    Parameters
    ----------
    trace, released : Trace
        The metered and the released readings.
    mechanism : Mechanism
    price_per_kwh : float
        Price of energy. [currency/kWh]
    currency : str
        Name of the currency, which is only repeated in the answer.

    Returns
    -------
    CostModel
    """
    expected = expect_cost(mechanism, released.interval_s, price_per_kwh=price_per_kwh)
    seen = trace if len(released) == len(trace) else trace.coarsen(released.interval_s)
    true, noisy = seen.energy_kwh, released.energy_kwh
    spread = mechanism.std * math.sqrt(len(released)) * released.interval_s / JOULES_PER_KWH
    hours = seen.hourly()
    true_w, noisy_w = hours.readings, released.hourly().readings
    starts = milliseconds(hours).tolist()
    hourly = list(zip(starts, _rounded(true_w), _rounded(noisy_w), strict=True))
    return schemas.CostModel(
        hourly=hourly[:POINTS],
        kwh=schemas.Amount(true=true, released=noisy, error_sd=spread),
        bill=schemas.Bill(
            true=true * price_per_kwh,
            released=noisy * price_per_kwh,
            error_sd=spread * price_per_kwh,
            price_per_kwh=price_per_kwh,
            currency=currency,
        ),
        peak=schemas.Peak(true=float(true_w.max()), released=float(noisy_w.max())),
        expected=asdict(expected),
        sentences=list(explain(expected)),
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


def _score(found: Score) -> schemas.ScoreModel:
    """Return the score of all appliances together as JSON."""
    return schemas.ScoreModel(
        alpha=found.alpha,
        alpha_floor=found.alpha_floor,
        f1=finite(found.f1),
        balanced_accuracy=finite(found.balanced_accuracy),
    )


def _sentences(noise: Noise | None, found: AttackResult | None) -> list[str]:
    """Return sentences about the unit of protection, then the odds, then the cost."""
    odds = () if found is None else explain(found.score)
    if noise is None:
        return [*odds]
    promise = explain(noise.released)[0].removeprefix(f"{SIMULATION_WARNING} ")
    return [promise, *odds, *noise.cost.sentences]


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 1) for value in values.tolist()]
