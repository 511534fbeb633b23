"""What the page shows: a simulated release, its cost, the findings, bounds and advice.

Long series are reduced to what a screen can show. A release to download has its noise from the
operating system.
"""

from __future__ import annotations

import base64
import io
import math
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hushmeter.advice import FORMS, advise, public_facts
from hushmeter.advice.sentences import compare_promise, compare_with_use, explain
from hushmeter.apps.page import schemas
from hushmeter.apps.page.schemas import to_request
from hushmeter.checks import BoolArray, FloatArray, IntArray, whole
from hushmeter.errors import DataError, InputError
from hushmeter.files import RECEIPT, parse_json, receipt_path
from hushmeter.learn.inspection import find_regime
from hushmeter.learn.load_events import CONCERNED
from hushmeter.learn.statements import Finding, findings
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.privacy.units import Metered, metered
from hushmeter.releases.files import check_place, private_path, release_contents
from hushmeter.releases.history import recorded
from hushmeter.releases.labels import CELLS, VIEWS, cells_of
from hushmeter.releases.private_receipt import THESE_READINGS, list_parameters
from hushmeter.releases.receipt import describe_promise
from hushmeter.releases.restore import Restored, restore
from hushmeter.theory.bounds import bound_curves, switch_limit
from hushmeter.theory.universal import mean_limit
from hushmeter.trace import iso

if TYPE_CHECKING:
    from hushmeter.apps.page.server import Session, Settings
    from hushmeter.home import Home
    from hushmeter.releases.promise import Promise
    from hushmeter.releases.release import Release, View
    from hushmeter.releases.request import Request
    from hushmeter.trace import Trace

POINTS = 1000
"""Largest number of points of a curve."""
COLUMNS = 2400
"""Largest number of columns into which a strip of on and off is divided."""

MOST_MARKS = 2000
"""Largest number of marks of one finding in an answer."""
LEVELS: tuple[tuple[Literal["small", "visible", "large", "exceeds"], float], ...] = (
    ("small", 0.1),
    ("visible", 0.5),
    ("large", 1.0),
    ("exceeds", math.inf),
)
"""Names of the errors of a release, with their largest share of the household's own use."""
NO_NOISE = "These sums need no noise, because they do not depend on what is hidden."
VERDICTS = {
    "small": "The noise is small beside your own use.",
    "visible": "The noise is clearly visible, but your own use stays readable.",
    "large": "The noise is more than half of your own use: single values say little.",
}
LEAST_EPSILON = 1e-3
# Other noise than Laplace must be calibrated and summed for each ε separately, which takes time.
FEW_POINTS = 25

MEDIA_TYPES = {
    "zip": "application/zip",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}

Row = tuple[int, float | None, float | None]
Facts = tuple[Metered, tuple[str, ...], tuple[str, ...]]


def make_view(given: schemas.ViewRequest, session: Session, settings: Settings) -> schemas.View:
    """Release one stretch of a trace with a seed, and state the promise and its cost."""
    began = time.perf_counter()
    shown = show(given, session, settings)
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


def show(given: schemas.ViewRequest, session: Session, settings: Settings) -> Shown:
    """Cut the stretch that a request names out of a trace and release it with its seed."""
    home = None if given.home is None else schemas.to_home(given.home)
    first, stop = _stretch(given, len(session.trace), settings)
    trace = session.trace[first:stop]
    if not given.adds_noise:
        return Shown(home, first, trace, trace)
    promise = find_promise(given, session)
    length, order = promise.cells.interval_s, promise.unit.rearranged
    # Which days and months are complete, only the whole file tells.
    source = session.trace if order else trace
    here = promise.on(cells_of(metered(source, promise.cells.zone), length, rearranged=order))
    # Without the home, the receipt has no account of whole days, which takes seconds.
    done = replace(here, home=None).release(source, rng=given.seed)
    seen = source if length == source.interval_s else source.coarsen(length)
    seen = seen.select(np.flatnonzero(np.isin(seen.times, done.trace.times))) if order else seen
    return Shown(home, first, trace, seen, promise, done)


def restore_view(
    given: schemas.ViewRequest, session: Session, settings: Settings
) -> schemas.RestoredModel:
    """Restore the release that a view shows, as a recipient could."""
    done = show(given, session, settings).done
    if done is None:
        raise InputError("without noise there is nothing to restore: choose epsilon.")
    if done.promise.tables[0].name != CELLS:
        raise InputError("sums of days and months have no hours that could be restored.")
    better = restore(done)
    if isinstance(better, Restored):
        error = float(better.std.mean())
    else:
        error = float(better.view("hours").errors.mean())
    return schemas.RestoredModel(rows=curve_rows(better.trace), error_w=finite(error))


def calendar_view(given: schemas.CalendarRequest, session: Session) -> schemas.CalendarModel:
    """Simulate the typical day and the months of a release beside the metered values.

    One series has neither: then a release of hours, days, typical day and months is simulated.
    """
    promise = find_promise(given, session)
    if not promise.joint:
        promise = find_promise(given, session, tables=VIEWS)
    done = replace(promise, home=None).release(session.trace, rng=given.seed)
    # Tables without noise are consistent, so that their estimate is the metered values themselves.
    cells = promise.means(session.trace)
    exact = replace(done, sums=tuple(entry.table.sums(cells) for entry in promise.tables))
    months, true = done.view("months"), exact.view("months").values
    profile = []
    if {entry.name for entry in promise.tables} & {CELLS, "typical-day"}:
        profile = _typical_day(done.view("typical-day"), exact.view("typical-day").values)
    return schemas.CalendarModel(
        profile=profile,
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


def judge(given: schemas.PlanRequest, promise: Promise, session: Session) -> schemas.Verdict:
    """Judge the standard error of a promise beside the own use, for the household only."""
    request, trace = wanted(given, session), session.trace
    own = compare_with_use(promise.errors, trace, request.purpose)
    sentences = own.sentences
    if request.hide is not None:
        sentences = compare_promise(request, promise, promise.unit.metered, trace)
    level = next(level for level, most in LEVELS if own.share() <= most)
    if level in VERDICTS:
        sentences = (*sentences, NO_NOISE if own.error == 0 else VERDICTS[level])
    return schemas.Verdict(
        level=level,
        purpose=own.purpose,
        error=own.error,
        own=own.own,
        sentences=list(sentences),
    )


def find_left(given: schemas.LeftRequest, session: Session) -> schemas.LeftModel:
    """Measure which statements about the home a release leaves, for the household only."""
    from hushmeter.threat import what_is_left

    promise = replace(find_promise(given, session), home=None)
    left = what_is_left(session.trace, promise, releases=given.releases, rng=given.seed)
    statements = [schemas.RemainingModel(**asdict(one)) for one in left]
    return schemas.LeftModel(statements=statements, releases=given.releases)


def _cost(seen: Trace, done: Release) -> schemas.CostModel | None:
    """Compare energy, hourly means and peak of a simulated release with the metered ones."""
    if "register" not in done.view_names:
        return None
    total, hours = done.view("register"), seen.hourly()
    true_w, noisy_w = hours.readings, done.trace.hourly().readings
    rows = zip(milliseconds(hours).tolist(), _rounded(true_w), _rounded(noisy_w), strict=True)
    return schemas.CostModel(
        hourly=list(rows)[:POINTS],
        kwh=schemas.Amount(true=seen.energy_kwh, released=total.values[-1], error=total.errors[-1]),
        peak=schemas.Amount(true=float(true_w.max()), released=float(noisy_w.max())),
    )


def find_bounds(given: schemas.BoundsRequest, session: Session | None) -> schemas.BoundsModel:
    """Compute how often an attacker names the switched appliances from one reading, against ε.

    The paper's bounds and the exact accuracy hold for Laplace noise with λ = Δ1/ε. For other
    noise only the limit of any attacker is known.
    """
    home, facts = schemas.to_home(given.home), _facts(given, session)[0]
    # Every ε is asked for in turn, so that the odds of a wish choose nothing here.
    request = to_request(given.model_copy(update={"epsilon": MAX_EPSILON, "odds": None}))
    unit, laplace = request.unit(facts), request.resolve(facts).noise.paper_bounds
    points = given.points if laplace else min(given.points, FEW_POINTS)
    epsilon = np.geomspace(LEAST_EPSILON, MAX_EPSILON, points)
    # The theorems are about one power for each appliance.
    plain = home.one_power_each()
    curves = bound_curves(plain, epsilon, sensitivity=unit.l1, max_switches=given.max_switches)
    lower, upper = curves.corrected.lower, curves.corrected.upper
    scale, limit = curves.scale, curves.limit
    if not laplace:
        scale, optimum = _other_noise(request, facts, home, epsilon)
        limit = switch_limit(optimum, 1 - curves.floor)
    return schemas.BoundsModel(
        unit=unit.sentence,
        epsilon=epsilon.tolist(),
        ln_inverse=(-np.log(epsilon)).tolist(),
        scale_w=_numbers(scale),
        exact=_numbers(curves.exact) if laplace else None,
        lower=_numbers(np.asarray(lower)) if laplace else None,
        upper=_numbers(np.asarray(upper)) if laplace else None,
        lower_vacuous=np.asarray(lower.vacuous).tolist() if laplace else None,
        upper_vacuous=np.asarray(upper.vacuous).tolist() if laplace else None,
        universal=_numbers(limit),
        floor=curves.floor,
    )


def find_advice(given: schemas.AdviseRequest, session: Session | None) -> schemas.AdviceModel:
    """Find the releases that meet a wish, cheapest first."""
    facts, forms, notes = _facts(given, session)
    advice = advise(
        to_request(given),
        facts,
        forms=forms,
        max_hourly_error=given.max_hourly_error,
        price_per_kwh=given.price_per_kwh,
    )
    return schemas.AdviceModel(
        goal=asdict(advice.goal),
        feasible=advice.feasible,
        options=[asdict(option) for option in advice.options],
        sentences=list(explain(advice)),
        notes=list(notes),
    )


def _facts(given: schemas.MeterRequest, session: Session | None) -> Facts:
    """Return what is public about the readings, the forms that fit them, and notes about both."""
    if session is None:
        return Metered(given.interval_s, zone=given.tz or "UTC"), FORMS, ()
    return public_facts(session.trace, session.zone_or(given.tz))


def _other_noise(
    request: Request, facts: Metered, home: Home, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the scale [W] and the best accuracy of any attacker, averaged over the appliances.

    On and off are equally likely.
    """
    scale, optimum = np.full((2, epsilon.size), np.nan)
    for i, value in enumerate(epsilon.tolist()):
        # There is no value where the noise is too wide for any grid.
        with suppress(InputError):
            noise = request.with_changes(epsilon=value).resolve(facts).noise
            scale[i], optimum[i] = noise.scale, mean_limit(home, noise)
    return scale, optimum


def _numbers(values: FloatArray) -> list[float | None]:
    """Return an array as JSON numbers; None where a value is not finite."""
    return [finite(value) for value in np.asarray(values, np.float64).tolist()]


def milliseconds(trace: Trace) -> IntArray:
    """Return the start of every reading since 1970, UTC [ms]."""
    times: IntArray = trace.times.astype("datetime64[ms]").astype(np.int64)
    return times


def curve_rows(trace: Trace, points: int = POINTS) -> list[Row]:
    """Reduce a trace to rows of time, least and greatest power, so that spikes stay visible.

    Time is divided into equal stretches. Each stretch that holds readings gives a row, at the
    time of its first reading. A short trace keeps all its readings. Where readings are missing,
    an extra row without values marks the gap. Times are since 1970, UTC [ms], powers in watts.
    """
    points = whole("points", points)
    times = milliseconds(trace)
    first = _first_of_stretch(times, len(trace), points)
    low = np.minimum.reduceat(trace.readings, first).round(1)
    high = np.maximum.reduceat(trace.readings, first).round(1)
    rows: list[Row] = list(zip(times[first].tolist(), low.tolist(), high.tolist(), strict=True))
    # A gap is drawn only if it is wider than the stretches around it.
    before = times[first[1:] - 1]
    widest = max(1500 * trace.interval_s, 1.5 * (int(times[-1]) - int(times[0])) / points)
    for i in np.flatnonzero(times[first[1:]] - before > widest)[::-1].tolist():
        rows.insert(i + 1, (int(before[i] + 1000 * trace.interval_s), None, None))
    return rows


def on_stretches(on: BoolArray, trace: Trace, columns: int = COLUMNS) -> list[tuple[int, int]]:
    """Return the stretches of time during which something is on; gaps end a stretch.

    If there are more than `columns` readings, equal numbers of them are combined into one column.
    A column counts as on if at least half of its readings are on. Times are since 1970, UTC [ms].
    """
    times, length = milliseconds(trace), round(1000 * trace.interval_s)
    size = -(-on.size // whole("columns", columns))
    first = np.arange(0, on.size, size)
    held = np.add.reduceat(on.astype(np.int64), first)
    count = np.diff(first, append=on.size)
    drawn: BoolArray = 2 * held >= count
    ends = times[np.minimum(first + size, on.size) - 1] + length
    broken = np.add.reduceat(trace.run_starts.astype(np.int64), first) > 0
    begins = drawn & (broken | ~np.append(False, drawn[:-1]))
    stops = drawn & np.append(broken[1:] | ~drawn[1:], True)
    pairs = zip(times[first][begins].tolist(), ends[stops].tolist(), strict=True)
    return [(int(a), int(b)) for a, b in pairs]


def _first_of_stretch(times: IntArray, count: int, points: int) -> IntArray:
    """Return the position of the first reading of every stretch."""
    if count <= points:
        return np.arange(count)
    span = int(times[-1]) - int(times[0]) + 1
    stretch = (times - times[0]) * points // span
    found: IntArray = np.flatnonzero(np.diff(stretch, prepend=-1))
    return found


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


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 1) for value in values.tolist()]


def find_promise(given: schemas.PlanRequest, session: Session, **more: Any) -> Promise:
    """Return the promise of a request for the readings of a session; it is found once."""
    return session.promise(wanted(given, session, **more), given.tz)


def wanted(given: schemas.PlanRequest, session: Session, **more: Any) -> Request:
    """Return the request for the readings of a session, as a calendar if that is asked for."""
    request = to_request(given, **more)
    if not given.calendar:
        return request
    return request.as_calendar(metered(session.trace, session.zone_or(given.tz)))


def describe(promise: Promise) -> schemas.PromiseModel:
    """Return a promise as JSON."""
    return schemas.PromiseModel(receipt=describe_promise(promise), sentences=list(explain(promise)))


def find_plan(given: schemas.PlanRequest, session: Session) -> schemas.PromiseModel:
    """Find the promise of a request."""
    return describe(find_promise(given, session))


def make_download(given: schemas.ReleaseRequest, session: Session) -> schemas.Download:
    """Release all readings with noise from the operating system; the files are made in memory."""
    trace = session.trace if session.metered is None else session.metered
    request = wanted(given, session)
    facts = metered(trace, session.zone_or(given.tz))
    done = request.resolve(facts).release(trace)
    assert done.private is not None
    own_use = compare_promise(request, done.promise, replace(facts, times=None), trace)
    done = replace(done, private=replace(done.private, own_use=own_use))
    name = f"protected-{iso(done.trace.times[0])[:10]}"
    place = Path(name if given.format == "zip" else f"{name}.{given.format}")
    check_place(done.promise, place)
    files = release_contents(done, place)
    private = private_path(place)
    data, public = files[place], files.get(receipt_path(place))
    if not isinstance(data, bytes):
        public, data = data[RECEIPT], _zipped(name, data)
    assert isinstance(data, bytes)
    assert isinstance(public, bytes)
    secret = files[private]
    assert isinstance(secret, bytes)
    return schemas.Download(
        file_name=f"{name}.{given.format}",
        media_type=MEDIA_TYPES[given.format],
        data=base64.b64encode(data).decode("ascii"),
        receipt_name=f"{name}.receipt.json" if given.format == "zip" else receipt_path(place).name,
        receipt=parse_json(public),
        private_name=private.name,
        private=parse_json(secret),
        sentences=list(explain(done)),
    )


def note_download(made: schemas.Download) -> schemas.Download:
    """Note a release in the register of the user, which no worker can write, and return it."""
    with recorded(made.private, Path(made.file_name)) as earlier:
        return made.model_copy(update={"sentences": [*made.sentences, *earlier]})


def _zipped(folder: str, contents: Mapping[str, bytes]) -> bytes:
    """Return an archive with one folder of files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"{folder}/{name}", content)
    return made.getvalue()
