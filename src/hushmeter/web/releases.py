"""From the settings of a request to a release: the unit, the numbers it needs, and a download."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hushmeter.advice.hiding import enclose_uses
from hushmeter.advice.least_noise import calibrate_series
from hushmeter.advice.sentences import explain
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise.losses import DELTA
from hushmeter.noise.parameters import clamp_bounds
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.releases.receipt import THESE_READINGS, list_parameters
from hushmeter.releases.series import release
from hushmeter.trace import iso
from hushmeter.web import schemas
from hushmeter.write import meter_bytes

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.trace import Trace
    from hushmeter.web.sessions import Session

MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


def find_unit(
    request: schemas.UnitRequest, home: Home | None, interval_s: float, trace: Trace | None = None
) -> Unit:
    """Return the unit of protection that a request names.

    Parameters
    ----------
    request : UnitRequest
    home : Home or None
        Needed to protect appliances or fluctuations.
    interval_s : float
        Interval of the metered readings. [s]
    trace : Trace, optional
        The readings to be released; how their meter rounds is counted.

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
        home=protected_home(request, home),
        appliance=request.appliance,
        clamp=clamp_bounds(request.clamp),
        watts=request.watts,
        every=request.every,
        metering=None if trace is None else trace.metering,
        readings=None if trace is None else len(trace),
    )


def protected_home(request: schemas.UnitRequest, home: Home | None) -> Home | None:
    """Return the home whose numbers calibrate the noise of a request.

    Parameters
    ----------
    request : UnitRequest
    home : Home or None
        The home of the request.

    Returns
    -------
    Home or None
        The home itself; or, if the request names appliances to hide, a home with one appliance
        that is at least as large as each of them.

    Raises
    ------
    InputError
        If the home lacks an appliance, or the length of its runs.
    """
    if not request.hide or home is None:
        return home
    return hidden_home(home, request.hide)


def hidden_home(home: Home, names: Sequence[str]) -> Home:
    """Return a home with one use that is at least as large as any run of the named appliances.

    Parameters
    ----------
    home : Home
    names : sequence of str
        Appliances of the home.

    Returns
    -------
    Home

    Raises
    ------
    InputError
        If the home lacks an appliance, or the length of a run is unknown.
    """
    chosen = [home.appliances[home.index(name)] for name in dict.fromkeys(names)]
    unknown = [one.name for one in chosen if one.protected_run_s is None]
    if unknown:
        raise InputError(
            f"nobody knows how long one run of the {unknown[0]} lasts at most: enter its minutes."
        )
    use = enclose_uses(chosen)
    return Home([use], home.tolerance, learnt_from=home.learnt_from, typed=home.typed)


def calibrate_noise(request: schemas.UnitRequest, epsilon: float, unit: Unit) -> Mechanism:
    """Calibrate the noise of a request as a plan and the command line do.

    Parameters
    ----------
    request : UnitRequest
    epsilon : float
        ε of the unit.
    unit : Unit
        The unit of protection of the request.

    Returns
    -------
    Mechanism
    """
    if request.clamp is None:
        return calibrate_series(request.mechanism, epsilon, unit, DELTA)
    return calibrate(request.mechanism, epsilon, unit, clamp=request.clamp)


def find_parameters(unit: Unit, home: Home | None, trace: Trace) -> list[schemas.Parameter]:
    """List the numbers that calibrate a release, and where each of them comes from.

    Parameters
    ----------
    unit : Unit
    home : Home or None
        The home from which the unit was resolved.
    trace : Trace
        All readings that would be released.

    Returns
    -------
    list of Parameter
    """
    return [schemas.Parameter(**entry) for entry in list_parameters(unit, home, trace)]


def learnt_here(parameters: list[schemas.Parameter]) -> list[str]:
    """Return the names of the numbers that were learnt from the readings to be released."""
    return [one.name for one in parameters if one.source == THESE_READINGS]


def make_download(request: schemas.ReleaseRequest, session: Session) -> schemas.Download:
    """Release a whole trace with noise from the operating system.

    Parameters
    ----------
    request : ReleaseRequest
    session : Session

    Returns
    -------
    Download
        The protected readings and both parts of their receipt, made in memory.

    Raises
    ------
    InputError
        If the request does not describe a release, or a number was learnt from the same readings
        and the request does not accept this.
    DataError
        If the readings cannot be released.
    """
    given = None if request.home is None else schemas.to_home(request.home)
    trace = session.trace if session.metered is None else session.metered
    unit = find_unit(request, given, trace.interval_s, trace)
    home = protected_home(request, given)
    learnt = learnt_here(find_parameters(unit, home, trace))
    if learnt and not request.accept_learnt:
        raise InputError(
            f"the {learnt[0]} was learnt from the same readings that you release, and ε does not "
            "cover what it reveals about them: enter another number yourself, or accept this "
            "(accept_learnt)."
        )
    mechanism = calibrate_noise(request, request.epsilon, unit)
    released = release(trace, mechanism, unit, home=home, accept_learnt=request.accept_learnt)
    name = f"protected-{iso(released.trace.times[0])[:10]}.{request.format}"
    data = meter_bytes(released.trace, request.format)
    receipt = released.receipt.for_file(data)
    return schemas.Download(
        file_name=name,
        media_type=MEDIA_TYPES[request.format],
        data=base64.b64encode(data).decode("ascii"),
        receipt_name=f"{name}.receipt.json",
        receipt=receipt.to_dict(),
        private_name=f"{name}.private.json",
        private=released.private.to_dict(receipt),
        sentences=list(explain(released)),
    )
