"""Release of one trace: means over windows, noise, and the receipt."""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import html_facts, html_line, short_duration
from hushmeter.home import Home
from hushmeter.noise import parse_mechanism
from hushmeter.noise.losses import DELTA
from hushmeter.noise.mechanism import Mechanism, Rng
from hushmeter.noise.randomness import release_key
from hushmeter.privacy.units import Unit, refuse_unknown_rounding
from hushmeter.releases.calendar import civil_days
from hushmeter.releases.receipt import (
    PrivateReceipt,
    Receipt,
    refuse_learnt_from_these,
    release_text,
    write_receipts,
)
from hushmeter.releases.storage import write_release
from hushmeter.trace import Trace, drawn_lines


@dataclass(frozen=True)
class Release:
    """Released readings together with their receipt.

    Attributes
    ----------
    trace : Trace
        The readings with noise [W]. They carry no true states and no names of appliances.
    receipt : Receipt
        The public part of the receipt: what is protected, and how well.
    private : PrivateReceipt
        The private part: the home, its appliances and where the numbers came from.
    """

    trace: Trace
    receipt: Receipt
    private: PrivateReceipt

    def __str__(self) -> str:
        return release_text(self.receipt, self.private)

    def _repr_html_(self) -> str:
        """What the public receipt states, with a small picture, for notebooks."""
        unit, output = self.receipt.unit, self.receipt.output
        facts = {
            "kind": self.receipt.kind,
            "protects": str(unit["sentence"]),
            "ε": f"{self.receipt.epsilon:.4g}",
            "noise": f"{self.receipt.mechanism['mechanism']}, grid "
            f"{self.receipt.mechanism['grid']:g} W",
            "readings": f"{output['readings']} of {short_duration(output['interval_s'])}",
            "first": str(output["start"]),
            "last": str(output["end"]),
        }
        if self.receipt.delta:
            facts["δ"] = f"{self.receipt.delta:.3g}"
        picture = html_line(drawn_lines(self.trace), "released readings over time")
        return html_facts("Release", facts, picture)

    def save(
        self, path: str | Path, *, force: bool = False, signing_key: str | Path | None = None
    ) -> list[Path]:
        """Write the released readings and both parts of the receipt.

        Parameters
        ----------
        path : str or Path
            File of the readings; the receipts are written beside it.
        force : bool
            Whether to replace existing files.
        signing_key : str or Path, optional
            File with the Ed25519 key that signs the receipt.

        Returns
        -------
        list of Path
            The written files. `write_release` explains their order.
        """
        return write_release(self, path, force=force, signing_key=signing_key)


def release(
    trace: Trace,
    mechanism: Mechanism,
    unit: Unit = None,  # type: ignore[assignment]
    *,
    home: Home | None = None,
    delta: float = DELTA,
    rng: Rng = None,
    key: bytes | None = None,
    accept_learnt: bool = False,
) -> Release:
    """Release a trace under differential privacy.

    Parameters
    ----------
    trace : Trace
        The metered readings [W].
    mechanism : Mechanism
        The noise, usually from `calibrate`. If the mechanism has a clamp, every metered reading is
        clamped before the mean of a window is taken, so that the clamp also bounds every change
        of a mean.
    unit : Unit
        The unit of protection that the mechanism was calibrated for, from `resolve_unit`. It
        decides over how many readings a released mean is taken. The receipt states the ε of this
        unit; a mechanism that was made in another way gets the ε that it has for this unit.
    home : Home, optional
        For the account of every appliance in the private part of the receipt, and for the origin
        of the numbers that calibrated the noise.
    delta : float, default 1e-6
        δ' of the composed ε values in the receipt's account.
    rng : int, Generator or None
        Seed of a simulation. A real release takes no seed.
    key : bytes, optional
        Key of 32 bytes from which the noise is derived; see `Mechanism.release`.
    accept_learnt : bool, default False
        Accept numbers that were learnt from the readings of the same time. The noise then depends
        on the readings in a way that ε does not cover; the receipt records it. A simulation needs
        no consent.

    Returns
    -------
    Release
        The released readings and their receipt.

    Notes
    -----
    The span "when" also publishes the sum S of the n values of every complete civil day. A meter
    that rounds moves S when a run is moved, so c·S gets the noise of one more value, with the
    factor c of the unit (`Unit.day_scale`). Each value of the day is then moved by w/n times the
    difference to the sum of the noisy values, where w = n·c²/(n·c² + 1) gives the least error: the
    variance of a value is 1 − w/n, and that of the day n·(1 − w), times that of the noise. For
    differences of a register S does not move; it is published exactly (w = 1).

    Raises
    ------
    InputError
        If an argument has the wrong type, the unit is for readings of another length or does not
        count how the meter rounds, or a number was learnt from the same readings without
        `accept_learnt`.
    DataError
        If a reading cannot be released, or no window is complete. Nothing is released then.
    """
    _check_types(trace, mechanism, unit)
    if abs(trace.interval_s - unit.interval_s) > 1e-9 * unit.interval_s:
        raise InputError(
            f"the unit is for readings of {unit.interval_s:g} s, but those of the trace are of "
            f"{trace.interval_s:g} s."
        )
    if rng is None:
        check_metering(trace, unit)
        refuse_unknown_rounding(unit.span, unit.metering)
    if rng is None and not accept_learnt:
        refuse_learnt_from_these(unit, home, trace)
    coarse, shares = mean_windows(trace, unit, mechanism.clamp)
    try:
        readings = mechanism.release(coarse.readings, rng=rng, key=key)
    except DataError as error:
        raise DataError(f"nothing was released: {error}") from None
    if unit.span == "when":
        sums = _DaySums(mechanism, unit, release_key(rng, key)[0])
        readings = sums.add_to(trace, coarse, readings)
    elif (shares < 1).any():
        readings = scale_up(readings, shares, mechanism.grid)
    released = Trace(readings, coarse.interval_s, coarse.start, steps=coarse.steps)
    receipt, private = write_receipts(
        trace, released, mechanism, unit, home=home, simulation=rng is not None, delta=delta
    )
    return Release(released, receipt, private)


def mean_windows(
    trace: Trace, unit: Unit, clamp: tuple[float, float] | None = None
) -> tuple[Trace, FloatArray]:
    """Take the means to which noise is added, with missing readings counted as zero.

    Parameters
    ----------
    trace : Trace
        The metered readings.
    unit : Unit
        Its window gives the length of the means.
    clamp : (low, high), optional
        Bounds of a metered reading [W]. A release of the readings as metered leaves the clamp to
        the mechanism.

    Returns
    -------
    Trace
        One value for every window with at least `LEAST_PRESENT` of its readings: the sum of the
        readings that are present, divided by the number of readings of a complete window. A change
        therefore moves a value by no more than it moves that of a complete window, and the
        sensitivity of the unit holds for every window.
    ndarray, shape (K,)
        Share of the readings that are present. It depends on the times alone and is public.
    """
    if unit.window == 1:
        return trace, np.ones(len(trace))
    if clamp is not None:
        trace = trace.replace_readings(np.clip(trace.readings, *clamp))
    every = unit.window * unit.interval_s
    coarse, shares = trace.coarsen(every), trace.shares_present(every)
    return coarse.replace_readings(coarse.readings * shares), shares


def scale_up(noisy: FloatArray, shares: FloatArray, grid: float) -> FloatArray:
    """Return noisy sums over incomplete windows as means of the readings that are present.

    Parameters
    ----------
    noisy : array, shape (K,)
        Values with noise, in which missing readings count as zero [W].
    shares : array, shape (K,)
        Share of the readings that are present. It is public, so the division costs no privacy.
    grid : float
        Grid of the mechanism, to which the result is rounded [W].

    Returns
    -------
    array, shape (K,)
        The noise of an incomplete window grows by at most 1/`LEAST_PRESENT`.
    """
    return np.where(shares < 1, np.rint(noisy / shares / grid) * grid, noisy)


@dataclass(frozen=True)
class _DaySums:
    """The sums of civil days that the span "when" publishes, with or without noise."""

    mechanism: Mechanism
    unit: Unit
    secret: bytes

    def add_to(self, metered: Trace, coarse: Trace, noisy: FloatArray) -> FloatArray:
        """Return the noisy values, moved towards the published sum of their complete civil day.

        The sum is that of the metered readings. Values that are rounded to the grid would not do:
        their sum depends on when a run happens.
        """
        days = civil_days(coarse, self.unit.zone)
        rows = [np.flatnonzero(days.place == day) for day in np.flatnonzero(days.complete)]
        values = noisy.copy()
        published = self._publish([self._sum(metered, coarse, day) for day in rows])
        for day, total in zip(rows, published, strict=True):
            weight = day_weight(day.size, self.unit.day_scale)
            values[day] += weight * (total - math.fsum(noisy[day])) / day.size
        return values

    def _sum(self, metered: Trace, coarse: Trace, rows: IntArray) -> float:
        """Sum of the metered readings of a day, in released values [W].

        It is rounded to a millionth of a watt, because the last bits of a floating-point sum depend
        on the order of the readings, and so on when a run happens.
        """
        length = np.timedelta64(round(coarse.interval_s * 1e9), "ns")
        start, stop = coarse.times[rows[0]], coarse.times[rows[-1]] + length
        first, last = np.searchsorted(metered.times, [start, stop])
        return round(math.fsum(metered.readings[first:last]) / self.unit.window, 6)

    def _publish(self, sums: list[float]) -> FloatArray:
        """Return the sums with noise; exact if moving a run does not change them."""
        scale, exact = self.unit.day_scale, np.array(sums)
        if not scale or not sums:
            return exact
        key = hmac.new(self.secret, b"hushmeter sums of days", hashlib.sha256).digest()
        # The clamp is for single readings.
        described = self.mechanism.parameters() | {"clamp": None}
        return (
            parse_mechanism({self.mechanism.name: described}).release(exact * scale, key=key)
            / scale
        )


def day_weight(values: float, scale: float) -> float:
    """Weight of the published sum of a day against that of its noisy values, in [0, 1].

    Parameters
    ----------
    values : float
        Number n of values of the day.
    scale : float
        `Unit.day_scale`.
    """
    return 1.0 if not scale else values * scale**2 / (values * scale**2 + 1)


def check_metering(trace: Trace, unit: Unit) -> None:
    """Refuse readings about which something is still open, or that the unit does not count.

    Raises
    ------
    DataError
        If a fact must be stated before these readings may be released.
    InputError
        If the unit does not count how the meter made the readings.
    """
    if trace.metering.unsettled is not None:
        raise DataError(f"nothing was released: {trace.metering.unsettled}")
    enough = not trace.metering.register_step_w or (unit.readings or 0) >= len(trace)
    if trace.metering != unit.metering or not enough:
        raise InputError(
            "the meter rounds or copies these readings in a way that the unit of protection does "
            "not count; resolve the unit with metering=trace.metering and readings=len(trace)."
        )


def _check_types(trace: object, mechanism: object, unit: object) -> None:
    """Raise `InputError` for the first argument of the wrong type, with the call that makes it."""
    wanted = (
        ("trace", trace, Trace, "hm.read_meter or hm.Trace"),
        ("mechanism", mechanism, Mechanism, "hm.calibrate"),
        ("unit", unit, Unit, "hm.resolve_unit"),
    )
    for name, value, kind, maker in wanted:
        if not isinstance(value, kind):
            got = "nothing" if value is None else f"a {type(value).__name__}"
            raise InputError(
                f"release needs a {kind.__name__} as its {name}, from {maker}; got {got}."
            )
