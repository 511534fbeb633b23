"""The errors of a promise beside the household's own use; for the household alone.

Everything here depends on the metered readings. It is printed locally, never published, and never
chooses a parameter of a release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.errors import DataError, InputError
from hushmeter.formatting import format_two_digits, format_watts, short_duration
from hushmeter.releases.purposes import PURPOSES, StandardErrors, choose_purpose
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.privacy.meters import Metered
    from hushmeter.releases.promise import Promise
    from hushmeter.releases.request import Request
    from hushmeter.trace import Trace

TOO_NOISY = 1.0
"""Error of a released value, as a share of the own use, from which the household is warned."""

LONGER = {"hour": ("day", "month"), "profile": ("month",), "day": ("month",)}
"""Purposes of longer periods, whose errors may be smaller than the own use."""

HELP = (
    "What helps: longer means (such as --every 1d), a larger ε, or a smaller use (--hide kettle "
    "instead of -e)."
)
"""What to do if the noise of a chosen ε exceeds the own use."""


@dataclass(frozen=True)
class OwnUse:
    """The errors of a release beside the household's own use.

    Attributes
    ----------
    errors : StandardErrors
        Standard errors of the released values.
    mean_w : float
        Mean size of the metered readings [W].
    purpose : {"hour", "day", "month", "profile", "register"}
        What the data is for: the number that is compared.
    """

    errors: StandardErrors
    mean_w: float
    purpose: str

    @property
    def error(self) -> float:
        """Standard error of the compared number, in the unit of the purpose."""
        error = self.errors.of(self.purpose)
        # Values longer than an hour show no hours; the page compares the values themselves.
        return self.errors.value_w if error is None else error

    @property
    def own(self) -> float:
        """Own use that the error is compared with, in the unit of the purpose."""
        return PURPOSES[self.purpose].of_mean_power(self.mean_w)

    def share(self) -> float:
        """Error as a share of the own use; infinite if nothing is used."""
        return self.error / self.own if self.own > 0 else float("inf")

    @property
    def too_noisy(self) -> bool:
        """True if the error of the compared number exceeds the own use."""
        return self.share() > TOO_NOISY

    @property
    def sentence(self) -> str:
        """The error of the compared number, and the own use."""
        purpose, errors = PURPOSES[self.purpose], self.errors
        reading = ""
        if self.purpose == "hour" and errors.value_s < SECONDS_PER_HOUR:
            reading = (
                f"Each released value ({short_duration(errors.value_s)}) is off by about "
                f"{format_watts(errors.value_w)}. "
            )
        subject = purpose.subject[0].upper() + purpose.subject[1:]
        own = f"your {purpose.own} is {purpose.text(self.own)}"
        if self.error == 0:
            return f"{subject} is exact; {own}."
        return f"{reading}{subject} is off by about {purpose.text(self.error)}; {own}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """The comparison and, if the noise exceeds the own use, a warning."""
        if not self.too_noisy:
            return (self.sentence,)
        single = {"profile": "hour", "register": "value"}.get(self.purpose, self.purpose)
        return (
            self.sentence,
            f"WARNING: the noise is {format_two_digits(self.share())} times your own use. A curve "
            f"of single {single}s of this file would show noise, not your home.",
        )


def compare_with_use(errors: StandardErrors, trace: Trace, purpose: str | None = None) -> OwnUse:
    """Set errors beside the own use: of the purpose, or by default of an hour or a day."""
    chosen = purpose or choose_purpose(None, errors.value_s)
    return OwnUse(errors, float(np.abs(trace.readings).mean()), chosen)


def compare_promise(
    request: Request, promise: Promise, metered: Metered, trace: Trace
) -> tuple[str, ...]:
    """Set the cost of a promise beside the own use, and say what would help if it is too high."""
    if request.hide is None:
        own = compare_with_use(promise.errors, trace)
        return (*own.sentences, *((HELP,) if own.too_noisy else ()))
    purpose = request.for_purpose(metered)
    own = compare_with_use(promise.errors, trace, purpose)
    if not own.too_noisy:
        return own.sentences
    others = [
        compare_with_use(_errors_for(request, promise, metered, other), trace, other)
        for other in LONGER.get(purpose, ())
    ]
    better = [other for other in others if not other.too_noisy]
    if better:
        helps = tuple(f"What helps: --for {other.purpose}. {other.sentence}" for other in better)
        return (*own.sentences, *helps)
    return (
        *own.sentences,
        "Longer periods do not help enough for this use: hide a smaller or shorter use, accept "
        "higher odds, or share one total of many months instead of readings.",
    )


def _errors_for(
    request: Request, promise: Promise, metered: Metered, purpose: str
) -> StandardErrors:
    """Errors of the same wish for another purpose."""
    if request.several:
        return promise.errors
    other = request.with_changes(purpose=purpose, every=None, mechanism=None)
    return other.resolve(metered).errors


def describe_restoring(promise: Promise, trace: Trace) -> tuple[str, ...]:
    """State how much restoring would help in a simulated release of the household's readings.

    The result is empty if the readings cannot be released in this way, or their cells are longer
    than an hour.
    """
    from hushmeter.releases.release import Release
    from hushmeter.releases.restore import restore

    errors = promise.errors
    if promise.unit.span == "when" or errors.hour_w is None:
        return ()
    try:
        done = promise.release(trace, rng=0)
    except (DataError, InputError):
        return ()
    length = promise.cells.interval_s
    true = trace if length == trace.interval_s else trace.coarsen(length)
    better = restore(done)
    improved = better.estimate if isinstance(better, Release) else better.trace.readings
    before, after = (
        float(np.sqrt(np.mean((values - true.readings) ** 2)))
        for values in (done.estimate, improved)
    )
    return (
        f"In a simulated release of your own readings, restored values of "
        f"{short_duration(errors.value_s)} were off by about {format_watts(after)} instead of "
        f"{format_watts(before)} (this comparison is private).",
    )
