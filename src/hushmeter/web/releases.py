"""From a request of the page to a promise, what it states, and a download."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.advice.sentences import compare_promise, explain
from hushmeter.files import parse_json
from hushmeter.privacy.meters import metered
from hushmeter.releases.files import private_path, receipt_path, release_contents
from hushmeter.releases.receipt import describe_promise
from hushmeter.releases.request import Request
from hushmeter.trace import iso
from hushmeter.web import schemas

if TYPE_CHECKING:
    from hushmeter.releases.promise import Promise
    from hushmeter.web.sessions import Session

MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
SAME = {"odds", "purpose", "protect", "span", "epsilon", "mechanism", "every", "appliance", "watts"}
"""Fields of a request of the page that are fields of `Request`."""


def to_request(given: schemas.PromiseRequest, **more: Any) -> Request:
    """Return the request of the library that a request of the page means."""
    home = None if given.home is None else schemas.to_home(given.home)
    fields = given.model_dump(include={*SAME, "clamp"}, exclude_none=True) | more
    hide = [one if home is None else home.appliances[home.index(one)] for one in given.hide]
    if given.epsilon is not None:
        # What the data is for chooses no noise then, and ε is for the use that encloses all.
        fields.pop("purpose", None)
        if hide:
            home = Request(hide=hide, home=home).protected_home
        return Request(home=home, **fields)
    return Request(hide=hide or None, home=home, **fields)


def find_promise(given: schemas.PlanRequest, session: Session, **more: Any) -> Promise:
    """Return the promise of a request for the readings of a session; it is found once."""
    return session.promise(to_request(given, **more), given.tz)


def describe(promise: Promise) -> schemas.PromiseModel:
    """Return a promise as JSON."""
    return schemas.PromiseModel(receipt=describe_promise(promise), sentences=list(explain(promise)))


def find_plan(given: schemas.PlanRequest, session: Session) -> schemas.PromiseModel:
    """Find the promise of a request."""
    return describe(find_promise(given, session))


def make_download(given: schemas.ReleaseRequest, session: Session) -> schemas.Download:
    """Release all readings with noise from the operating system; the files are made in memory."""
    trace = session.trace if session.metered is None else session.metered
    request = to_request(given, accept_learnt=given.accept_learnt)
    facts = metered(trace, session.zone_or(given.tz))
    done = request.resolve(facts).release(trace)
    assert done.private is not None
    own_use = compare_promise(request, done.promise, replace(facts, times=None), trace)
    done = replace(done, private=replace(done.private, own_use=own_use))
    place = Path(f"protected-{iso(done.trace.times[0])[:10]}.{given.format}")
    files = {k.name: v for k, v in release_contents(done, place).items() if isinstance(v, bytes)}
    receipt, private = receipt_path(place).name, private_path(place).name
    return schemas.Download(
        file_name=place.name,
        media_type=MEDIA_TYPES[given.format],
        data=base64.b64encode(files[place.name]).decode("ascii"),
        receipt_name=receipt,
        receipt=parse_json(files[receipt]),
        private_name=private,
        private=parse_json(files[private]),
        sentences=list(explain(done)),
    )
