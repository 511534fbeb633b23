"""Releasing a trace: means over windows, noise, receipt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.noise.mechanism import Mechanism, Rng
from hushmeter.privacy.accounting import DELTA
from hushmeter.privacy.units import Unit, resolve_unit
from hushmeter.releases.receipt import Receipt, write_receipt
from hushmeter.trace import Trace


@dataclass(frozen=True)
class Release:
    """Protected readings and what they promise.

    Attributes
    ----------
    trace : Trace
        The released readings, without any truth.
    receipt : Receipt
    """

    trace: Trace
    receipt: Receipt


def release(
    trace: Trace,
    mechanism: Mechanism,
    *,
    home: Home | None = None,
    protect: str = "appliance",
    span: str = "reading",
    every: float | str | None = None,
    appliance: str | None = None,
    delta: float = DELTA,
    rng: Rng = None,
    key: bytes | None = None,
) -> Release:
    """Release a trace under differential privacy.

    The mechanism decides the noise; `protect` and `span` say which unit of protection the
    receipt states the ε of. A mechanism from `calibrate` protects its unit at its own ε or less;
    with any other, the receipt's ε is what that mechanism is worth for the unit. A clamp bounds
    every metered reading before means are taken, and so every change of a mean.

    Parameters
    ----------
    trace : Trace
    mechanism : Mechanism
    home : Home, optional
        Needed to protect appliances or fluctuations, and for the table of appliances.
    protect : {"appliance", "fluctuation", "range", "change"}
        See `resolve_unit`; "change" is the mechanism's own sensitivity in every reading.
    span : {"reading", "run", "day"}
    every : float or str, optional
        Release means over longer intervals, such as "30min".
    appliance : str, optional
        The one appliance to protect; all of them if not given.
    delta : float
        δ' of the composed ε in the receipt.
    rng : int, Generator or None
        For a simulation only; a real release takes no seed.
    key : 32 bytes, optional
        Keyed replay; see `Mechanism.release`.
    """
    unit = resolve_unit(
        protect,
        span,
        interval_s=trace.interval_s,
        home=home,
        appliance=appliance,
        clamp=mechanism.clamp,
        watts=mechanism.sensitivity,
        every=every,
    )
    return release_unit(trace, mechanism, unit, home=home, delta=delta, rng=rng, key=key)


def release_unit(
    trace: Trace,
    mechanism: Mechanism,
    unit: Unit,
    *,
    home: Home | None = None,
    delta: float = DELTA,
    rng: Rng = None,
    key: bytes | None = None,
) -> Release:
    """`release` for a unit of protection that is already resolved."""
    if abs(trace.interval_s - unit.interval_s) > 1e-9 * unit.interval_s:
        raise InputError(
            f"the unit is for readings of {unit.interval_s:g} s, but those of the trace are of "
            f"{trace.interval_s:g} s."
        )
    coarse = trace
    if unit.window > 1:
        if mechanism.clamp is not None:
            coarse = coarse.replace_readings(np.clip(coarse.readings, *mechanism.clamp))
        coarse = coarse.coarsen(unit.window * unit.interval_s)
    try:
        readings = mechanism.release(coarse.readings, rng=rng, key=key)
    except DataError as error:
        raise DataError(f"nothing was released: {error}") from None
    released = Trace(readings, coarse.interval_s, coarse.start, steps=coarse.steps)
    receipt = write_receipt(
        released, mechanism, unit, home=home, simulation=rng is not None, delta=delta
    )
    return Release(released, receipt)
