"""From the settings of a request to a release: its unit of protection, and a download."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from hushmeter.advice.sentences import explain
from hushmeter.noise.parameters import clamp_bounds
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.releases.series import release
from hushmeter.releases.storage import data_bytes
from hushmeter.trace import iso
from hushmeter.web import schemas

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.web.sessions import Session

MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


def find_unit(request: schemas.UnitRequest, home: Home | None, interval_s: float) -> Unit:
    """Return the unit of protection that a request names.

    Parameters
    ----------
    request : UnitRequest
    home : Home or None
        Needed to protect appliances or fluctuations.
    interval_s : float
        Interval of the metered readings. [s]

    Returns
    -------
    Unit

    Raises
    ------
    InputError
        If the request does not describe a unit of protection.
    """
    return resolve_unit(
        request.protect,
        request.span,
        interval_s=interval_s,
        home=home,
        appliance=request.appliance,
        clamp=clamp_bounds(request.clamp),
        watts=request.watts,
        every=request.every,
    )


def make_download(request: schemas.ReleaseRequest, session: Session) -> schemas.Download:
    """Release a whole trace with noise from the operating system.

    Parameters
    ----------
    request : ReleaseRequest
    session : Session

    Returns
    -------
    Download
        The protected readings and their receipt, made in memory.

    Raises
    ------
    InputError
        If the request does not describe a release.
    DataError
        If the readings cannot be released.
    """
    home = None if request.home is None else schemas.to_home(request.home)
    unit = find_unit(request, home, session.trace.interval_s)
    mechanism = calibrate(request.mechanism, request.epsilon, unit, clamp=request.clamp)
    released = release(session.trace, mechanism, unit, home=home)
    name = f"protected-{iso(released.trace.times[0])[:10]}.{request.format}"
    data = data_bytes(released.trace, request.format)
    return schemas.Download(
        file_name=name,
        media_type=MEDIA_TYPES[request.format],
        data=base64.b64encode(data).decode("ascii"),
        receipt_name=f"{name}.receipt.json",
        receipt=released.receipt.for_file(data).to_dict(),
        sentences=list(explain(released)),
    )
