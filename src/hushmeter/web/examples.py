"""Example homes to try the page with: four hours of a synthetic day, with the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hushmeter import synth
from hushmeter.errors import UnknownNameError
from hushmeter.learn.inspection import Inspection
from hushmeter.read.recording import Recording
from hushmeter.web.sessions import Session

if TYPE_CHECKING:
    from hushmeter.trace import Trace

LABELS = {
    "evening": "A home in the evening: eight appliances, from lamps to a car charger",
    "redd-like": "A home like building 1 of REDD: eight appliances, some with several levels",
}
READINGS_PER_DAY = 14_400
# From 17:00 to 21:00 UTC; on these days nearly all appliances switch then.
FIRST, READINGS = 10_200, 2_400
SEEDS = {"evening": 308, "redd-like": 254}
TRAINING_DAYS, OTHER_DAYS = 3, 1000
TRAINED_ON = "three other days of the same home, sub-metered and without noise"


def make_example(name: str) -> Session:
    """An example by its name; its attackers learn from another day of the same home."""
    if name not in LABELS:
        raise UnknownNameError("example", name, LABELS)
    home, seed = synth.ready_home(name), SEEDS[name]
    day = synth.trace(home, READINGS_PER_DAY, seed=seed)
    trace = day[FIRST : FIRST + READINGS]
    return Session(
        name=name,
        found=_inspect(trace),
        trace=trace,
        home=home,
        training=synth.trace(home, TRAINING_DAYS * READINGS_PER_DAY, seed=seed + OTHER_DAYS),
        trained_on=TRAINED_ON,
        source=f"example {name}",
    )


def _inspect(trace: Trace) -> Inspection:
    recording = Recording(
        trace,
        format="synthetic example",
        unit="W",
        readings=len(trace),
        duplicates=0,
        reversed=0,
        clock_changes="times are UTC",
        notes=(),
    )
    return Inspection(recording, None, ())
