"""The private receipt of a release, for the household only.

It names the home, its appliances and where every number came from, states what the release reveals
about each appliance, and holds digests by which a later release of the same readings is
recognised (`hushmeter.releases.history`). The recipient never needs it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.clock import local_times
from hushmeter.errors import InputError
from hushmeter.formatting import (
    format_watts,
)
from hushmeter.noise.losses import DELTA, Composition
from hushmeter.privacy import ApplianceAccount
from hushmeter.privacy.sensitivity import NO_LABEL
from hushmeter.privacy.units import Unit
from hushmeter.releases.labels import complete_days
from hushmeter.releases.promise import Promise
from hushmeter.releases.receipt import Receipt, describe_readings, receipt_lines
from hushmeter.trace import Runs, Trace, digest, digest_columns

if TYPE_CHECKING:
    from hushmeter.appliance import Appliance
    from hushmeter.home import Home

PRIVATE_SCHEMA = "hushmeter-private-receipt-3"
OTHER_DAYS, THESE_READINGS = "learnt from other days", "learnt from these readings"


@dataclass(frozen=True)
class PrivateReceipt:
    """The private part of a receipt, for the household only."""

    sentence: str  # What is protected, with the names of appliances and the lengths of runs
    home: dict[str, Any] | None  # The home, as in its TOML file
    # Every number that calibrated the noise: `name`, `value` as given, `used` after rounding,
    # `unit` and `source`.
    parameters: tuple[dict[str, Any], ...]
    composition_delta: float  # δ' of the composed ε of the appliances
    # What an attacker can learn about each appliance of the home; empty without a home
    appliances: tuple[ApplianceAccount, ...]
    # Number, interval, first and last time, and SHA-256 of the metered readings, and by what a
    # later release recognises them; see `describe_input`.
    input: dict[str, Any]
    # Protected appliances that once drew more than the protected power: `name`, `protected_w`,
    # `largest_w`, `epsilon` of the unit at the largest power, `share` of these readings while on
    # that exceed the protected power (None without sub-meters), and a `sentence`.
    largest_powers: tuple[dict[str, Any], ...] = ()
    # Sentences that set the error of the release beside the use of the household. They depend on
    # the metered readings and are for the household alone.
    own_use: tuple[str, ...] = ()

    def to_dict(self, receipt: Receipt) -> dict[str, Any]:
        """Return the private part as plain values, together with the public part."""
        return {"schema": PRIVATE_SCHEMA, **asdict(self), "receipt": receipt.to_dict()}

    def text(self, receipt: Receipt) -> str:
        """Format both parts of the receipt."""
        largest = [entry["sentence"] for entry in self.largest_powers]
        lines = receipt_lines(receipt, self.sentence)
        return "\n".join([*lines, *appliance_lines(self.appliances), *largest])


def private_receipt(promise: Promise, trace: Trace) -> PrivateReceipt:
    """Draw up the private part of a receipt."""
    unit, home = promise.unit, promise.home
    return PrivateReceipt(
        sentence=unit.sentence,
        home=None if home is None else home.to_dict(),
        parameters=tuple(list_parameters(unit, home, trace)),
        composition_delta=DELTA,
        appliances=promise.account(home, DELTA),
        input=describe_input(promise, trace),
        largest_powers=_largest_powers(promise, trace),
    )


def list_parameters(unit: Unit, home: Home | None, trace: Trace | None) -> list[dict[str, Any]]:
    """List the numbers that calibrate a release: `name`, `value`, `used`, `unit` and `source`.

    A number that was learnt from readings of the same time, or from the same readings, is "learnt
    from these readings". A promise gives the times of its cells alone. If they are not known yet,
    they are other days; each release of a stream or a fleet checks its own.
    """
    if not unit.changes:
        return []
    learnt = _learnt_source(home, trace)
    if home is not None and unit.protect == "appliance":
        protected = [a for a in home.appliances if a.name in {c.name for c in unit.changes}]
        numbers = [entry for a in protected for entry in _appliance_numbers(a, unit, learnt)]
        if unit.use_s is not None:
            numbers.append(_parameter("use a day", unit.use_s, unit.use_s, "s", "typed"))
        return numbers
    if home is not None and unit.protect == "fluctuation":
        source = learnt if home.is_tolerance_learnt else "typed"
        used = home.protected_tolerance
        size = _parameter("tolerance", home.tolerance, used, "W", source)
    else:
        name = {"range": "width of the clamp", "change": "protected change"}.get(unit.protect)
        watts = unit.largest_watts
        size = _parameter(name or "sensitivity", watts, watts, "W", "typed")
    return [size, *_length_numbers(unit, home, learnt)]


def refuse_learnt_from_these(unit: Unit, home: Home | None, trace: Trace) -> None:
    """Raise `InputError` if a number was learnt from the readings that are to be released."""
    wrong = [p for p in list_parameters(unit, home, trace) if p["source"] == THESE_READINGS]
    if wrong:
        raise InputError(
            f"the {wrong[0]['name']} was learnt from these readings, or from readings of the same "
            "or an unknown time, so the noise itself would tell something about them; learn the "
            "home from other days, type the number, or accept this with accept_learnt=True "
            "(--accept-learnt)."
        )


def describe_largest_power(appliance: Appliance, epsilon: float, share: float | None = None) -> str:
    """Return a sentence about an appliance that once drew more than the protected power."""
    if share is not None:
        part = f"{100 * share:.2g} %"
    else:
        part = "At most 0.1 %" if appliance.source == "learnt" else "Some"
    return (
        f"{part} of the readings of the {appliance.name} while on exceed the "
        f"{format_watts(appliance.protected_power)} that this ε protects; its largest power, "
        f"{format_watts(appliance.max_power or 0.0)}, is protected at ε = {epsilon:.3g}."
    )


def describe_input(promise: Promise, trace: Trace) -> dict[str, Any]:
    """Number, interval and times of readings, and by what a later release recognises them.

    These are whether exact sums of days are published (`exact`), the stretches of time of all cells
    (`spans`, in seconds since 1970), and SHA-256 of the readings of every day of a `zone`, in
    milliwatts: of the days whose sums are exact, or of all UTC days.
    """
    cells, exact = promise.cells, bool(promise.unit.rearranged or promise.unit.span == "when")
    zone, times, values = "UTC", trace.times, np.rint(1000 * trace.readings)
    if exact:
        own = np.append(complete_days(cells).labels, NO_LABEL)[cells.place_of(times)]
        zone, times, values = cells.zone, times[own >= 0], values[own >= 0]
    days, first = np.unique(local_times(times, zone).astype("datetime64[D]"), return_index=True)
    parts = zip(np.split(times, first[1:]), np.split(values, first[1:]), strict=True)
    runs = Runs.between_gaps(cells.times.run_starts)
    seconds = cells.times.times.astype(np.int64) // 10**9
    stops = seconds[runs.last] + round(cells.interval_s)
    return describe_readings(trace) | {
        "exact": exact,
        "zone": zone,
        "spans": np.stack([seconds[runs.first], stops], axis=1).tolist(),
        # Without a day there is one empty part.
        "days": {str(day): digest_columns(*one) for day, one in zip(days, parts, strict=False)},
    }


def _learnt_source(home: Home | None, trace: Trace | None) -> str:
    """The origin of learnt numbers: other days, or readings of the same time."""
    if home is None or home.learnt_from is None:
        # A home file of unknown origin may have been learnt from anything.
        return THESE_READINGS if home is not None else OTHER_DAYS
    # The overlap is tested first: it is cheap, while the digest reads every value.
    same = trace is not None and (
        home.learnt_from.overlaps(trace) or home.learnt_from.sha256 == digest(trace)
    )
    return THESE_READINGS if same else OTHER_DAYS


def _appliance_numbers(appliance: Appliance, unit: Unit, learnt: str) -> list[dict[str, Any]]:
    """The numbers of one appliance that calibrate the noise for a unit."""

    def entry(field: str, name: str, value: float, used: float | None, measure: str) -> None:
        source = _source(appliance, field, learnt)
        numbers.append(_parameter(f"{name} of the {appliance.name}", value, used, measure, source))

    numbers: list[dict[str, Any]] = []
    power = max(appliance.on_levels) if appliance.high is None else appliance.high
    entry(appliance.power_field, "power", power, appliance.protected_power, "W")
    if _lasts_a_run(unit):
        numbers.append(_run_number(appliance, unit, learnt))
        if appliance.energy_wh is not None:
            energy = appliance.protected_energy_wh
            entry("energy_wh", "energy of a run", appliance.energy_wh, energy, "Wh")
    if unit.span == "day" and unit.use_s is None and appliance.use_s_per_day is not None:
        use = appliance.protected_use_s_per_day
        entry("use_s_per_day", "use a day", appliance.use_s_per_day, use, "s")
    return numbers


def _lasts_a_run(unit: Unit) -> bool:
    """True if the lengths of runs in the home bound the protected change."""
    return unit.span in ("run", "when") and unit.use_s is None


def _length_numbers(unit: Unit, home: Home | None, learnt: str) -> list[dict[str, Any]]:
    """The lengths of runs that bound a change that is no appliance of the home."""
    if home is None or not _lasts_a_run(unit):
        return []
    return [_run_number(appliance, unit, learnt) for appliance in home.appliances]


def _run_number(appliance: Appliance, unit: Unit, learnt: str) -> dict[str, Any]:
    """The length of a run of one appliance; nobody knows the origin of one outside the home."""
    name, used = f"length of a run of the {appliance.name}", appliance.protected_run_s
    if used is None:
        longest = max(change.seconds for change in unit.changes)
        return _parameter(name, longest, longest, "s", THESE_READINGS)
    run = appliance.run_s if appliance.run_high_s is None else appliance.run_high_s
    source = _source(appliance, appliance.run_field, learnt)
    return _parameter(name, run or used, used, "s", source)


def _source(appliance: Appliance, field: str, learnt: str) -> str:
    """Where one number of an appliance comes from, with the days of a learnt one."""
    source = appliance.source_of(field)
    return learnt if source == "learnt" else source


def _parameter(
    name: str, value: float, used: float | None, unit: str, source: str
) -> dict[str, Any]:
    """One entry of the list of parameters."""
    return {"name": name, "value": value, "used": used, "unit": unit, "source": source}


def _largest_powers(promise: Promise, metered: Trace) -> tuple[dict[str, Any], ...]:
    """The protected appliances whose largest power exceeds the protected one."""
    unit, home = promise.unit, promise.home
    if home is None or unit.protect != "appliance":
        return ()
    entries = []
    for change in unit.changes:
        appliance = home.appliances[home.index(change.name)]
        largest = appliance.at_largest_power()
        if largest is None:
            continue
        if unit.span == "run":  # The length may come from a trace instead of the home.
            largest = replace(largest, run_high_s=change.seconds)
        share = _share_above(appliance, metered)
        epsilon = promise.epsilon_for(unit.for_appliance(largest))
        entries.append(
            {
                "name": appliance.name,
                "protected_w": appliance.protected_power,
                "largest_w": appliance.max_power,
                "epsilon": epsilon,
                "share": share,
                "sentence": describe_largest_power(appliance, epsilon, share),
            }
        )
    return tuple(entries)


def _share_above(appliance: Appliance, metered: Trace) -> float | None:
    """Share of the on-readings above the protected power; None if the circuit is not metered."""
    if metered.power is None or appliance.name not in (metered.names or ()):
        return None
    power = metered.power[:, (metered.names or ()).index(appliance.name)]
    on = power > appliance.power / 2
    return float(np.mean(power[on] > appliance.protected_power)) if on.any() else None


def appliance_lines(entries: tuple[ApplianceAccount, ...]) -> list[str]:
    """A table: how often the best attacker is right about each appliance, and the ε."""
    if not entries:
        return []
    head = "right guesses out of 100"
    named = [f"  {entry.name} ({entry.watts:g} W)" for entry in entries]
    rows: list[tuple[str, ...]]
    if all(entry.reading is None for entry in entries):
        rows = [(head, "when it ran")]
        rows += [(name, _span(e.when)) for name, e in zip(named, entries, strict=True)]
    else:
        rows = [(head, "one reading", "one run", "one day")]
        rows += [
            (name, _span(e.reading), _span(e.run), _span(e.day))
            for name, e in zip(named, entries, strict=True)
        ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    table = [
        row[0].ljust(widths[0])
        + "".join("  " + c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
    return [*table, *_unknown_moment_lines(entries)]


def _unknown_moment_lines(entries: tuple[ApplianceAccount, ...]) -> list[str]:
    """A line about the attacker who does not know when a run happened, for the worst appliance."""
    known = [(e.unknown.habit_odds, e.name, e.unknown) for e in entries if e.unknown is not None]
    if not known:
        return []
    _, name, unknown = max(known, key=lambda one: one[:2])
    return [f"one run of the {name}, if its time is unknown: {unknown.sentence}"]


def _span(entry: Composition | None) -> str:
    """The odds and the ε of one cell of the table."""
    if entry is None:
        return "length unknown"
    odds = f"{100 * entry.odds:.1f}" if entry.odds < 0.9995 else ">99.9"
    return f"{odds} (ε {float(f'{entry.epsilon:.3g}'):g})"
