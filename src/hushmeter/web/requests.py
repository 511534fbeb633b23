"""Requests of the page: where their numbers come from, and the promise and the files they ask for.

*Numbers.* The page sends a home with every request, and whoever edits an appliance there sends its
other numbers back as they were. The server, and never the page, decides where each number comes
from. It holds the homes that it learnt or read. A number that was learnt in one of them stays
learnt, whatever the request claims: it is rounded up to a public step, and a release with it needs
consent.
"""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.advice.sentences import compare_promise, explain
from hushmeter.appliance import NUMBERS, SOURCES, Appliance, catalogue, round_up_to_public_step
from hushmeter.errors import InputError
from hushmeter.files import RECEIPT, parse_json, receipt_path
from hushmeter.home import Home
from hushmeter.privacy.units import metered
from hushmeter.releases.files import (
    check_place,
    private_path,
    release_contents,
)
from hushmeter.releases.purposes import parse_wish
from hushmeter.releases.receipt import describe_promise
from hushmeter.releases.request import Request
from hushmeter.trace import iso
from hushmeter.web import schemas
from hushmeter.web.schemas import ApplianceModel, HomeModel, PromiseRequest

if TYPE_CHECKING:
    from hushmeter.releases.promise import Promise
    from hushmeter.web.server import Session

SHARED = {field.name for field in fields(Request)} - {"hide", "home"}
"""Fields of `Request` that a request of the page states in the same words."""
MEDIA_TYPES = {
    "zip": "application/zip",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
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
    origin = found[0] if found else claimed
    is_typed = origin is not None and claimed is None and not tolerance_of
    return model.model_copy(
        update={
            "appliances": [_settle(one, numbers, is_complete) for one in model.appliances],
            "learnt_from": origin,
            "typed": ("tolerance",) if is_typed else (),
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
        return model.model_copy(update={"typed": ()})
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
    others = tuple(field for field, one in sources.items() if one != source)
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
    value = getattr(one, field)
    if isinstance(value, tuple):
        return value
    return () if value is None else (value,)


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def to_request(given: PromiseRequest, **more: Any) -> Request:
    """Return the request of the library that a request of the page means."""
    home = None if given.home is None else schemas.to_home(given.home)
    stated = given.model_dump(include=SHARED, exclude_none=True) | more
    hide = [parse_wish(one) or _appliance(one, home) for one in given.hide]
    if given.epsilon is None:
        return Request(hide=hide or None, home=home, **stated)
    # What the data is for chooses no noise then, and ε is for the use that encloses all.
    stated.pop("purpose", None)
    if hide:
        home = Request(hide=hide, home=home).protected_home
    return Request(home=home, **stated)


def _appliance(name: str, home: Home | None) -> Appliance:
    """The appliance that a name of a request means."""
    return Appliance.from_words(name) if home is None else home.appliances[home.index(name)]


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


def _zipped(folder: str, contents: Mapping[str, bytes]) -> bytes:
    """Return an archive with one folder of files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"{folder}/{name}", content)
    return made.getvalue()
