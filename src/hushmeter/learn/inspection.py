"""What is in a file of readings, and what could be read off it at its resolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushmeter.assumptions import warn_of_generation
from hushmeter.errors import DataError
from hushmeter.formatting import count_of, duration_in_words, short_duration
from hushmeter.learn.homes import LearntHome, learn_home
from hushmeter.learn.statements import LEAST_LARGEST_W, MOST_MEAN_W, Findings, findings
from hushmeter.read import Recording
from hushmeter.trace import Trace, iso

REGIMES = (
    (
        10.0,
        "single appliances",
        "At {interval} a reading, single appliances can be told apart: almost every switch of the "
        "kettle, the fridge or the oven shows as a step of its own.",
    ),
    (
        60.0,
        "large appliances",
        "At {interval} a reading, most large appliances can be told apart (oven, dryer, washing "
        "machine, car charger); short runs and small ones blur.",
    ),
    (
        600.0,
        "long runs",
        "At {interval} a reading, long runs of large appliances still show (car charger, heating, "
        "dryer); single switches mostly do not.",
    ),
    (
        3600.0,
        "occupancy",
        "At {interval} a reading, mostly occupancy shows: when people get up, leave, come home, "
        "cook and sleep; single appliances only where they are large and run long.",
    ),
    (
        float("inf"),
        "habits",
        "At {interval} a reading, habits and absences of days show, not appliances.",
    ),
)


@dataclass(frozen=True)
class Inspection:
    """The answer of `hushmeter inspect`."""

    recording: Recording
    learnt: LearntHome | None  # Present where the file has the power of appliances that switch
    warnings: tuple[str, ...]
    tz: str | None = None  # Time zone of the home, if the user states one

    @cached_property
    def findings(self) -> Findings:
        """What the readings show, on the clock of the user's zone, of the file's, or UTC."""
        return findings(self.recording.trace, tz=self.tz or self.recording.public.zone)

    @property
    def regime(self) -> tuple[str, str]:
        """Name and sentence of what can be inferred at this resolution."""
        return find_regime(self.recording.trace.interval_s)

    def to_dict(self) -> dict[str, Any]:
        """Everything a machine may want, in plain types."""
        found, trace = self.recording, self.recording.trace
        public = found.public
        gaps = public.gap_seconds
        name, sentence = self.regime
        return {
            "regime": name,
            "regime_sentence": sentence,
            "format": found.format,
            "unit": found.unit,
            "readings": public.readings,
            "kept": len(trace),
            "interval_s": trace.interval_s,
            "start": iso(trace.times[0]),
            "end": iso(public.end),
            "gaps": public.gaps,
            "missing_s": float(gaps.sum()),
            "longest_gap_s": float(gaps.max(initial=0.0)),
            "duplicates": public.duplicates,
            "reversed": public.reversed,
            "negative": int((trace.readings < 0).sum()),
            "clock_changes": public.clock_changes,
            "mains": found.mains,
            "energy_kwh": trace.energy_kwh,
            "mean_w": float(trace.readings.mean()),
            "min_w": float(trace.readings.min()),
            "max_w": float(trace.readings.max()),
            "appliances": list(trace.names or ()),
            "truth": self._truth(),
            "notes": [*found.notes, *self.warnings],
            **self._findings(),
        }

    def _findings(self) -> dict[str, Any]:
        """The statements about the home, and what limits them."""
        found = self.findings.to_dict()
        return {
            "zone": found["zone"],
            "findings": found["findings"],
            "findings_notes": found["notes"],
            "not_stated": found["withheld"],
            "silent": found["silent"],
        }

    def _truth(self) -> dict[str, Any] | None:
        """Sparsity and Assumptions 1–3 under the default rule, where appliances are known."""
        if self.learnt is None:
            return None
        learnt = self.learnt
        return {
            "rule": str(learnt.rule),
            "sparsity": learnt.sparsity,
            "tolerance_w": learnt.home.tolerance,
            "base_load_w": learnt.home.base_load,
            "assumptions": list(learnt.home.check(learnt.trace).sentences),
        }


def inspect_recording(recording: Recording, *, tz: str | None = None) -> Inspection:
    """Find out what a recording holds and what it shows."""
    learnt = None
    warnings = list(_warnings(recording))
    if recording.trace.power is not None:
        try:
            learnt = learn_home(recording.trace)
        except DataError as error:
            warnings.append(f"No truth was learnt: {error}")
    return Inspection(recording, learnt, tuple(warnings), tz)


def find_regime(interval_s: float) -> tuple[str, str]:
    """Name and sentence of what readings of this interval [s] give away."""
    for longest, name, sentence in REGIMES:
        if interval_s <= longest:
            return name, sentence.format(interval=short_duration(interval_s))
    raise AssertionError("the last regime has no end")


def sentences(inspection: Inspection) -> Sequence[str]:
    """What `inspect` prints, regime first."""
    found = inspection.to_dict()
    lines = [
        found["regime_sentence"],
        f"{found['format']}, in {found['unit']}: {found['readings']} readings of "
        f"{short_duration(found['interval_s'])} from {found['start']} to {found['end']}.",
        _completeness(found),
        f"{found['energy_kwh']:.6g} kWh; mean {_number(found['mean_w'])} W, from "
        f"{_number(found['min_w'])} to {_number(found['max_w'])} W; "
        f"{_count(found['negative'], 'negative reading')}.",
        f"Clock: {found['clock_changes']}.",
    ]
    if found["appliances"]:
        lines.append(
            f"Appliances ({len(found['appliances'])}): {', '.join(found['appliances'])}; "
            f"mains: {found['mains']}."
        )
    if found["truth"] is not None:
        # The paper's assumptions mean nothing to a household; `learn` and --json state them.
        lines.append(
            "The circuits are metered one by one: `hushmeter learn` makes a home of them and "
            "checks the assumptions of the paper."
        )
    return [*lines, *found["notes"]]


def _completeness(found: dict[str, Any]) -> str:
    parts = [_count(found["gaps"], "gap")]
    if found["gaps"]:
        missing = duration_in_words(found["missing_s"])
        several = f" ({missing} in all, the longest {duration_in_words(found['longest_gap_s'])})"
        parts[0] += several if found["gaps"] > 1 else f" of {missing}"
    parts.append(_count(found["duplicates"], "repeated start"))
    parts.append(_count(found["reversed"], "step back in time", "steps back in time"))
    listed = ", ".join(parts)
    return f"{listed[0].upper()}{listed[1:]}; {found['kept']} readings are used."


def _warnings(recording: Recording) -> Sequence[str]:
    trace = recording.trace
    unsettled = trace.metering.unsettled
    open_facts = [] if unsettled is None else [f"Before a release: {unsettled}"]
    return [*open_facts, *_odd_values(trace)]


def _odd_values(trace: Trace) -> Sequence[str]:
    mean_kw = float(trace.readings.mean()) / 1000
    if mean_kw > MOST_MEAN_W / 1000:
        return [f"A mean of {mean_kw:.4g} kW is not that of a home: check the unit (`unit=`)."]
    largest = float(np.abs(trace.readings).max())
    if 0 < largest < LEAST_LARGEST_W:
        return [f"No reading passes {largest:.4g} W: are they kilowatts (`unit=kW`)?"]
    exports = warn_of_generation(trace)
    return [] if exports is None else [exports]


def _count(number: int, word: str, many: str | None = None) -> str:
    return f"no {word}" if number == 0 else count_of(number, word, many)


def _number(value: float) -> str:
    """Format watts with four digits and without an exponent."""
    return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}"
