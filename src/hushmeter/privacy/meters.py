"""What is public about a meter: its interval, its times, its zone and how it rounds.

A promise is made from these facts alone. The readings are left behind in `metered`, so nothing that
is computed from a `Metered` can depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hushmeter.checks import positive, whole
from hushmeter.clock import check_zone
from hushmeter.privacy.sensitivity import IDEAL
from hushmeter.trace import Metering, Trace


@dataclass(frozen=True)
class Metered:
    """The public facts about readings that are to be released.

    Parameters
    ----------
    interval_s : float
        Length of a metered reading [s].
    metering : Metering, optional
        How the meter rounds and copies; an ideal meter by default.
    zone : str, default "UTC"
        Time zone of days, months and hours of the day.
    readings : int, optional
        Number of metered readings; None if the period is not known yet.
    samples : bool, default False
        True if a reading is one sample of the power and not the mean of its interval.
    times : Trace, optional
        The times of the readings, with zeros in the place of the readings; None if they are not
        known yet, as for a stream.

    Examples
    --------
    >>> import hushmeter as hm
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=6.0, start="2024-01-01T00:00Z")
    >>> facts = hm.metered(trace, zone="Europe/Berlin")
    >>> facts.interval_s, facts.readings, facts.times.readings.tolist()
    (6.0, 2, [0.0, 0.0])
    """

    interval_s: float
    metering: Metering = IDEAL
    zone: str = "UTC"
    readings: int | None = None
    samples: bool = False
    times: Trace | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval_s", positive("interval_s", self.interval_s))
        check_zone(self.zone)
        if self.readings is not None:
            object.__setattr__(self, "readings", whole("readings", self.readings))


def metered(trace: Trace, zone: str = "UTC") -> Metered:
    """Return what is public about a trace; its readings, states and names are left out.

    Parameters
    ----------
    trace : Trace
        The metered readings.
    zone : str, default "UTC"
        Time zone of days, months and hours of the day, such as "Europe/Berlin".

    Returns
    -------
    Metered
    """
    return Metered(trace.interval_s, trace.metering, zone, len(trace), times=without_values(trace))


def without_values(trace: Trace) -> Trace:
    """Return the times of a trace with zeros in the place of its readings."""
    return Trace(
        np.zeros(len(trace)),
        trace.interval_s,
        trace.start,
        steps=trace.steps,
        metering=trace.metering,
    )
