"""The receipt of a release: a public part for the recipient and a private part for the household.

The public part is the promise written down, with digests of what was released. Nothing else in it
is computed from the readings. `Receipt.promise` makes the promise again, so that `verify` can
compare every number and sentence with those that follow from it. The private part names the home,
its appliances and where every number came from. The recipient never needs it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as entries
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.clock import check_zone
from hushmeter.errors import InputError
from hushmeter.files import json_text
from hushmeter.formatting import (
    duration_in_words,
    format_watt_hours,
    format_watts,
    out_of_100,
)
from hushmeter.noise import Mechanism, parse_mechanism
from hushmeter.noise.losses import DELTA, Composition
from hushmeter.noise.parameters import clamp_bounds
from hushmeter.privacy.accounting import ApplianceAccount
from hushmeter.privacy.meters import Metered
from hushmeter.privacy.sensitivity import Change
from hushmeter.privacy.units import Unit, released_values, use_in_words
from hushmeter.releases.labels import Cells
from hushmeter.releases.promise import NoisyTable, Promise
from hushmeter.trace import SECONDS_PER_HOUR, Metering, Trace, digest, iso

if TYPE_CHECKING:
    from hushmeter.checks import FloatArray
    from hushmeter.home import Appliance, Home
    from hushmeter.releases.release import Release

SCHEMA = "hushmeter-receipt-3"
PRIVATE_SCHEMA = "hushmeter-private-receipt-2"
FIRST_READINGS = 12
"""Readings of half a day by which a later release recognises it."""

METERING = ("resolution_w", "register_step_w", "copies", "stretch", "reach")
"""What a receipt states about how the meter rounds."""

OTHER_DAYS, THESE_READINGS = "learnt from other days", "learnt from these readings"


@dataclass(frozen=True)
class Receipt:
    """The public part of a receipt: what a recipient needs to use and to check a release.

    Attributes
    ----------
    kind : {"release", "simulation"}
        A simulation used a seed. Its noise can be repeated, so it must not be published.
    unit : dict
        What is protected: `protect`, `span`, a sentence, the `changes` (`watts`, `seconds` and
        `watt_hours` of each), how far they move the cells (`l1`, `l2`, `largest` [W] and
        `touches`), and the metering.
    cells : dict
        `interval_s`, `zone`, `grid` [W] and `clamp` [W] of the cells.
    tables : tuple of dict
        For every published table: its name, its `share` of the budget, its `length`, which is the
        largest change of its sums [W], and its `noise`, with which `noise.parse_mechanism` makes
        the same mechanism again; None for exact sums.
    words : tuple of str
        The words that name the tables.
    epsilon, delta : float
        ε and δ at which the unit is protected.
    odds : float
        Largest probability that an attacker who knows everything else is right.
    errors : dict
        Standard errors of a value, an hour, a day, a month, the typical day and the register.
    hourly_cost : float
        Largest error of a cell against cells alone, by which several tables share the budget.
    sources : tuple of str
        Where the numbers that calibrated the noise came from: "typed", "catalogue", "learnt from
        other days" or "learnt from these readings".
    output : dict
        Number, interval, first and last time of the cells, and SHA-256 of what was published.
    files : dict
        SHA-256 and size [bytes] of every file; empty until the release is written.
    version : str
        Version of hushmeter.
    signature : dict or None
        Ed25519 signature of all other fields; see `signing.make_signature`.
    """

    kind: str
    unit: dict[str, Any]
    cells: dict[str, Any]
    tables: tuple[dict[str, Any], ...]
    words: tuple[str, ...]
    epsilon: float
    delta: float
    odds: float
    errors: dict[str, Any]
    hourly_cost: float
    sources: tuple[str, ...]
    output: dict[str, Any]
    files: dict[str, dict[str, Any]]
    version: str = __version__
    signature: dict[str, str] | None = None

    @classmethod
    def of(cls, release: Release) -> Receipt:
        """Write down the promise of a release, and what was released."""
        facts = describe_promise(release.promise)
        return cls(kind=release.kind, **facts, output=describe_output(release), files={})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Receipt:
        """Return the receipt that `to_dict` described; raise `InputError` for another form."""
        given = {name: value for name, value in fields.items() if name != "schema"}
        known = {field.name for field in entries(cls)}
        wrong = (known - {"signature", "version"} - given.keys()) | (given.keys() - known)
        if wrong:
            raise InputError(f"the entry {min(wrong)!r} is missing or unknown.")
        return cls(**given | {name: tuple(given[name]) for name in ("tables", "words", "sources")})

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain values, in the order of the JSON."""
        fields = {"schema": SCHEMA, **asdict(self)}
        if self.signature is None:
            del fields["signature"]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}

    def to_json(self) -> str:
        """Return the receipt as JSON text."""
        return json_text(self.to_dict())

    def for_files(self, contents: Mapping[str, bytes]) -> Receipt:
        """Return the receipt of a release that is written as files with these contents."""
        files = {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for name, data in contents.items()
        }
        return replace(self, files=files, signature=None)

    def promise(self, times: Trace, shares: FloatArray | None = None) -> Promise:
        """Make the promise again, for cells at the times of a trace and with shares of readings."""
        cells = Cells(times, check_zone(self.cells["zone"]), shares)
        unit = read_unit(self.unit)
        base = Promise(unit, cells, self.words, (), 0.0, None, self.hourly_cost)
        made = {table.name: table for table in base.tables_on(cells)}
        noises = [
            None if one["noise"] is None else parse_noise(one["noise"]) for one in self.tables
        ]
        # Only the sums of days of the span "when" have a scale of their own.
        scales = [1.0, *(unit.day_scale or 1.0 for _ in noises[1:])]
        tables = tuple(
            NoisyTable(made[entry["table"]], noise, scale)
            for entry, noise, scale in zip(self.tables, noises, scales, strict=True)
        )
        promise = replace(base, tables=tables, delta=tables[0].delta)
        clamp = self.cells["clamp"] if promise.joint else promise.noise.clamp
        return replace(promise, clamp=clamp_bounds(clamp))

    def __str__(self) -> str:
        return receipt_text(self, None)


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
    # Number, interval, first and last time, and SHA-256 of the metered readings, and keyed digests
    # of some of them by half day, by which `overlapping_days` recognises them.
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


def describe_promise(promise: Promise) -> dict[str, Any]:
    """Return a promise as plain values: all entries of a receipt but those of what was released."""
    grid = promise.grid
    if promise.joint:
        lengths = promise.lengths * float(grid)
    else:
        lengths = np.full(len(promise.tables), promise.unit.l2)
    return {
        "unit": describe_unit(promise.unit),
        "cells": {
            "interval_s": promise.cells.interval_s,
            "zone": promise.cells.zone,
            "grid": str(grid),
            "clamp": None if promise.clamp is None else list(promise.clamp),
        },
        "tables": tuple(
            {
                "table": entry.name,
                "share": share,
                "length": float(length),
                "scale": entry.scale,
                "noise": None if entry.noise is None else describe_noise(entry.noise),
            }
            for entry, share, length in zip(promise.tables, promise.shares, lengths, strict=True)
        ),
        "words": promise.words,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "odds": promise.odds,
        "errors": asdict(promise.errors),
        "hourly_cost": promise.hourly_cost,
        "sources": promise.sources,
    }


def describe_noise(mechanism: Mechanism) -> dict[str, Any]:
    """Return facts about the noise, with the parameters that make it again."""
    parameters = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in mechanism.parameters().items()
    }
    facts = mechanism.describe()
    shown = ("mechanism", "scale", "grid", "coarsened", "guarantee")
    return {**{name: facts[name] for name in shown}, "parameters": parameters}


def parse_noise(described: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism that a receipt describes."""
    return parse_mechanism({described["mechanism"]: dict(described["parameters"])})


def private_receipt(promise: Promise, trace: Trace, delta: float = DELTA) -> PrivateReceipt:
    """Draw up the private part of a receipt."""
    unit, home = promise.unit, promise.home
    return PrivateReceipt(
        sentence=unit.sentence,
        home=None if home is None else home.to_dict(),
        parameters=tuple(list_parameters(unit, home, trace)),
        composition_delta=delta,
        appliances=promise.account(home, delta),
        input=describe_input(trace),
        largest_powers=_largest_powers(promise, trace),
    )


def list_parameters(unit: Unit, home: Home | None, trace: Trace | None) -> list[dict[str, Any]]:
    """List the numbers that calibrate a release: `name`, `value`, `used`, `unit` and `source`.

    A number that was learnt from readings of the same time, or from the same readings, is "learnt
    from these readings". A promise gives the times of its cells alone. If they are not known yet,
    they are other days; each release of a stream or a fleet checks its own.
    """
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


def describe_readings(trace: Trace) -> dict[str, Any]:
    """Number, interval, first and last time, and digest of readings."""
    return {
        "readings": len(trace),
        "interval_s": trace.interval_s,
        "start": iso(trace.times[0]),
        "end": iso(trace.times[-1]),
        "sha256": digest(trace),
    }


def describe_output(release: Release) -> dict[str, Any]:
    """Number, interval, and times of the cells, and digest of what was published.

    The digest of several tables is that of all noisy sums, because the last bits of the estimate
    are not published.
    """
    found = describe_readings(release.trace)
    if release.promise.joint:
        content = np.concatenate(release.sums).astype("<f8").tobytes()
        found["sha256"] = hashlib.sha256(content).hexdigest()
    return found


def describe_input(trace: Trace) -> dict[str, Any]:
    """Number, interval, times, and keyed digests by half day of metered readings."""
    salt = secrets.token_hex(16)
    return describe_readings(trace) | {"salt": salt, "half_days": _digests_by_half_day(trace, salt)}


def overlapping_days(trace: Trace, described: dict[str, Any]) -> int:
    """Count the UTC days of which a trace has readings that a private receipt describes."""
    if described["interval_s"] != trace.interval_s:
        return 0
    found, before = _digests_by_half_day(trace, str(described["salt"])), described["half_days"]
    common = found.keys() & before.keys()
    equal = [half for half in common if found[half] == before[half]]
    return len({half[:10] for half in equal}) if 2 * len(equal) >= len(common) else 0


def _digests_by_half_day(trace: Trace, salt: str) -> dict[str, str]:
    """Keyed digests of the first readings of every half of a UTC day.

    Only the first readings count, so that a file that ends later has the same digests; one that
    begins later differs in its first half day.
    """
    half = np.timedelta64(12, "h")
    places = (trace.times - np.datetime64(0, "ns")) // half
    numbers, first = np.unique(places, return_index=True)
    ends = np.minimum(first + FIRST_READINGS, np.append(first[1:], len(trace)))
    names = np.datetime_as_string(np.datetime64(0, "h") + numbers * half).tolist()
    columns = np.stack([trace.times.astype(np.int64), trace.readings.view(np.int64)], axis=1)
    key, found = bytes.fromhex(salt), {}
    for name, start, end in zip(names, first, ends, strict=True):
        content = columns[start:end].tobytes()
        found[name] = hashlib.blake2b(content, key=key, digest_size=8).hexdigest()
    return found


def describe_unit(unit: Unit) -> dict[str, Any]:
    """The public numbers of a unit; the names of appliances are left out.

    A change that another one exceeds in power, length and energy is left out too.
    """
    numbers = sorted({(c.watts, c.seconds, c.energy) for c in unit.changes}, reverse=True)
    largest = [
        one
        for one in numbers
        if not any(o != one and all(a >= b for a, b in zip(o, one, strict=True)) for o in numbers)
    ]
    fields = {
        "protect": unit.protect,
        "span": unit.span,
        "changes": [
            {"watts": watts, "seconds": length, "watt_hours": energy / SECONDS_PER_HOUR}
            for watts, length, energy in largest
        ],
        "interval_s": unit.interval_s,
        "window": unit.window,
        "readings": unit.readings if unit.metering.register_step_w else None,
        "zone": unit.zone if unit.span == "when" else None,
        **{name: getattr(unit.metering, name) for name in METERING},
    }
    sizes = {name: getattr(unit, name) for name in ("l1", "l2", "largest", "touches")}
    return {"sentence": unit_sentence(fields), **fields, **sizes, "day_scale": unit.day_scale}


def read_unit(fields: Mapping[str, Any]) -> Unit:
    """Make the unit that a receipt describes again; the names of appliances are not in it."""
    metering = Metering(**{name: fields[name] for name in METERING})
    span, interval_s, window = fields["span"], float(fields["interval_s"]), int(fields["window"])
    zone = fields["zone"] or "UTC"
    facts = Metered(interval_s, metering, zone, fields["readings"])
    changes = tuple(
        Change(
            "use",
            one["watts"],
            one["seconds"],
            interval_s,
            one["watt_hours"] * SECONDS_PER_HOUR,
            window,
            aligned=span == "reading",
            metering=metering,
            values=released_values(span, facts, window),
            moved=span == "when",
        )
        for one in fields["changes"]
    )
    if any(change.day_sum_w for change in changes):
        changes = tuple(replace(change, day_scale=fields["day_scale"]) for change in changes)
    return Unit(
        fields["protect"], span, changes, interval_s, metering, fields["readings"], None, zone
    )


def unit_sentence(unit: Mapping[str, Any]) -> str:
    """What is protected, from the public numbers of a unit, without the names of appliances."""
    changes = unit["changes"]
    watts, seconds, energy = (
        max(one[name] for one in changes) for name in ("watts", "seconds", "watt_hours")
    )
    size = f"up to {format_watt_hours(energy)} and {format_watts(watts)}"
    planned = f"any one of {len(changes)} planned uses"
    subject = {
        "appliance": "any use" if len(changes) == 1 else planned,
        "fluctuation": "fluctuations within a state, not switches,",
        "range": "any value of a reading,",
        "change": "any change",
    }[unit["protect"]]
    use_s = max(one["watt_hours"] * SECONDS_PER_HOUR / one["watts"] for one in changes)
    where = {
        "reading": f"in one metered reading of {duration_in_words(unit['interval_s'])}",
        "run": f"over one run of up to {duration_in_words(seconds)}",
        "day": f"over one day, {use_in_words(use_s, unit['protect'])}",
        "when": f"when within one day of {unit['zone']}, but not whether",
    }[unit["span"]]
    return f"{subject} of {size}, {where}".replace(", of", " of")


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


def receipt_text(receipt: Receipt, private: PrivateReceipt | None) -> str:
    """Format a receipt, with its private part for the household that made the release."""
    output, unit = receipt.output, receipt.unit
    lines = [
        f"{receipt.kind}: {output['readings']} readings of "
        f"{duration_in_words(output['interval_s'])} from {output['start']}",
        *_noise_lines(receipt),
        f"protected: {unit['sentence'] if private is None else private.sentence}",
        f"at ε = {receipt.epsilon:.4g}"
        + (f", δ = {receipt.delta:g}" if receipt.delta else "")
        + f"; the best attacker is right {out_of_100(min(receipt.odds, 1 - 1e-12))} times out of "
        "100",
    ]
    if unit["span"] == "when":
        how = "with less noise" if unit["day_scale"] else "exactly"
        lines.insert(
            0,
            "Not hidden: whether an appliance ran. The sum of every complete day is published "
            f"{how}; only the time within the day is protected.",
        )
    if private is None:
        return "\n".join(lines)
    largest = [entry["sentence"] for entry in private.largest_powers]
    return "\n".join([*lines, *appliance_lines(private.appliances), *largest])


def _noise_lines(receipt: Receipt) -> list[str]:
    """The noise of the first table, and that of the others with their shares of the budget."""
    first, *others = [entry for entry in receipt.tables if entry["noise"] is not None]
    noise = first["noise"]
    line = (
        f"noise: {noise['mechanism']}, scale {_four_digits(noise['scale'])} W on a grid of "
        f"{noise['grid']:g} W" + (" (coarsened)" if noise["coarsened"] else "")
    )
    if not others or receipt.unit["span"] == "when":
        return [line]
    shares = ", ".join(
        f"{one['table']} {100 * one['share']:.1f} % (σ {_four_digits(one['noise']['scale'])} W)"
        for one in (first, *others)
    )
    return [line, f"shares of the budget: {shares}"]


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


def _four_digits(value: float) -> str:
    """Four significant digits, without an exponent below a million."""
    return f"{float(f'{value:.4g}'):g}"


def _span(entry: Composition | None) -> str:
    """The odds and the ε of one cell of the table."""
    if entry is None:
        return "length unknown"
    odds = f"{100 * entry.odds:.1f}" if entry.odds < 0.9995 else ">99.9"
    return f"{odds} (ε {float(f'{entry.epsilon:.3g}'):g})"
