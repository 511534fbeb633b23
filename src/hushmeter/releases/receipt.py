"""The public receipt of a release: its promise written down, with digests of what was released.

Nothing else in it is computed from the readings. `Receipt.promise` makes the promise again, so that
`verify` can compare every number and sentence with those that follow from it.
`hushmeter.releases.private_receipt` is the part for the household.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as entries
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.clock import check_zone
from hushmeter.errors import InputError
from hushmeter.files import json_text
from hushmeter.formatting import (
    count_of,
    duration_in_words,
    format_watt_hours,
    format_watts,
    out_of_100,
)
from hushmeter.noise import Mechanism, parse_mechanism
from hushmeter.noise.mechanism import clamp_bounds
from hushmeter.privacy.sensitivity import Change
from hushmeter.privacy.units import (
    LONGEST_DAY_S,
    Metered,
    Unit,
    order_in_words,
    released_values,
    use_in_words,
)
from hushmeter.releases.labels import CELLS, Cells
from hushmeter.releases.promise import NoisyTable, Promise
from hushmeter.releases.purposes import gaps_shown, order_sentences
from hushmeter.trace import SECONDS_PER_HOUR, Metering, Trace, digest, iso

if TYPE_CHECKING:
    from hushmeter.checks import FloatArray
    from hushmeter.releases.release import Release

SCHEMA = "hushmeter-receipt-3"
METERING = ("resolution_w", "register_step_w", "copies", "stretch", "reach")
"""What a receipt states about how the meter rounds; the number of registers is in their step."""


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
    guesses : list of dict
        How often the best attacker is right about one use, one value, a day of usual use and all
        days: `name`, `about` and `odds` of each; the first one is that of the promise.
    errors : dict
        Standard errors of a value, an hour, a day, a month, the typical day and the register.
    hourly_cost : float
        Largest error of a cell against cells alone, by which several tables share the budget.
    sources : tuple of str
        Where the numbers that calibrated the noise came from: "typed", "catalogue", "learnt from
        other days" or "learnt from these readings".
    output : dict
        Number, interval, first and last time of the cells, and SHA-256 of what was published.
    part : list or None
        Start and end of the part of a file that was read; None for all of it.
    files : dict
        SHA-256 and size [bytes] of every file; empty until the release is written.
    despite : bool
        True if earlier releases of the same time were not considered.
    version : str
        Version of hushmeter.
    signature : dict or None
        Ed25519 signature of all other fields; see `signing.make_signature`.

    Examples
    --------
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=60.0, start="2024-01-01T00:00Z")
    >>> done = hm.Request(hide="kettle").resolve(hm.metered(trace)).release(trace, rng=1)
    >>> done.receipt.kind, round(done.receipt.odds, 2)
    ('simulation', 0.6)
    """

    kind: str
    unit: dict[str, Any]
    cells: dict[str, Any]
    tables: tuple[dict[str, Any], ...]
    words: tuple[str, ...]
    epsilon: float
    delta: float
    odds: float
    guesses: list[dict[str, Any]]
    errors: dict[str, Any]
    hourly_cost: float
    sources: tuple[str, ...]
    output: dict[str, Any]
    files: dict[str, dict[str, Any]]
    part: list[str | None] | None = None
    despite: bool = False
    version: str = __version__
    signature: dict[str, str] | None = None

    @classmethod
    def of(cls, release: Release) -> Receipt:
        """Write down the promise of a release, and what was released."""
        facts, part = describe_promise(release.promise), release.promise.cells.times.metering.part
        return cls(
            kind=release.kind,
            **facts,
            output=describe_output(release),
            files={},
            part=None if part is None else list(part),
            despite=release.despite,
        )

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
        unit, zone = read_unit(self.unit), check_zone(self.cells["zone"])
        left_out = int(self.cells["left_out"]) if unit.rearranged else 0
        cells = Cells(times, zone, shares, False, unit.rearranged, left_out)
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
        return "\n".join(receipt_lines(self))


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
            "left_out": promise.cells.left_out,
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
        "guesses": [asdict(guess) for guess in promise.guesses],
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


def describe_unit(unit: Unit) -> dict[str, Any]:
    """The public numbers of a unit; the names of appliances are left out.

    A change that another one exceeds in power, length and energy is left out too.
    """
    rearranged = list(unit.rearranged)
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
        "day_watt_hours": unit.day_energy / SECONDS_PER_HOUR,
        "interval_s": unit.interval_s,
        "window": unit.window,
        "readings": unit.readings if unit.metering.register_step_w else None,
        "zone": unit.zone if unit.span == "when" or rearranged else None,
        "rearranged": rearranged,
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
            day_energy=fields["day_watt_hours"] * SECONDS_PER_HOUR,
        )
        for one in fields["changes"]
    )
    if any(change.day_sum_w for change in changes):
        changes = tuple(replace(change, day_scale=fields["day_scale"]) for change in changes)
    return Unit(
        fields["protect"],
        span,
        changes,
        interval_s,
        metering,
        fields["readings"],
        None,
        zone,
        window,
        tuple(fields["rearranged"]),
    )


def unit_sentence(unit: Mapping[str, Any]) -> str:
    """What is protected, from the public numbers of a unit, without the names of appliances."""
    changes, order = unit["changes"], ""
    if unit["rearranged"]:
        order = f"{order_in_words(tuple(unit['rearranged']))}, in the zone {unit['zone']}"
    if not changes:
        return order
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
        "run": f"over one run of up to {duration_in_words(seconds)}"
        if seconds < LONGEST_DAY_S
        else f"within {count_of(round(seconds / LONGEST_DAY_S), 'civil day')}",
        "day": f"over one day, {use_in_words(use_s, unit['protect'])}",
        "when": f"when within one day of {unit['zone']}, but not whether, in a home that feeds "
        "nothing into the grid",
    }[unit["span"]]
    change = f"{subject} of {size}, {where}".replace(", of", " of")
    return f"{order}; and {change}" if order else change


def receipt_lines(
    receipt: Receipt, sentence: str | None = None, *, brief: bool = False
) -> list[str]:
    """The lines of a receipt as text; `sentence` names what is protected for the household.

    `brief` leaves out what the sentences of the promise state in the same words.
    """
    output, unit = receipt.output, receipt.unit
    lines = [
        f"{receipt.kind}: {_contents(receipt)} from {output['start']}",
        *_part_lines(receipt),
        *_noise_lines(receipt),
        f"protected: {sentence or unit['sentence']}",
        f"at ε = {receipt.epsilon:.4g}"
        + (f", δ = {receipt.delta:g}" if receipt.delta else "")
        + f"; {ODDS_TITLE}",
        *odds_lines(receipt.guesses),
    ]
    ways = tuple(unit["rearranged"])
    if receipt.despite:
        lines.append(DESPITE)
    if brief:
        return lines
    if ways:
        stated = bool(unit["resolution_w"] or unit["register_step_w"])
        odds = next(one["odds"] for one in receipt.guesses if one["name"] == "order")
        left_out = receipt.cells["left_out"]
        lines += order_sentences(ways, odds, left_out, rounding_stated=stated)
    longest_s = max((one["seconds"] for one in unit["changes"]), default=0.0)
    lines += gaps_shown(ways, unit["span"], longest_s)
    if unit["span"] == "when":
        how = "with less noise" if unit["day_scale"] else "exactly"
        lines.insert(
            0,
            "Not hidden: whether an appliance ran. The sum of every complete day is published "
            f"{how}; only the time within the day is protected, and only in a home that feeds "
            "nothing into the grid.",
        )
    return lines


DESPITE = "Nothing bounds what this release shows together with earlier ones of the same time."
ODDS_TITLE = "the best attacker is right out of 100 times (a coin is right 50 times) about:"


def odds_lines(guesses: Iterable[Mapping[str, Any]]) -> list[str]:
    """The small table of odds: how often the best attacker is right about what."""
    return [f"  {_right(one['odds'])}  {one['about']}" for one in guesses]


def _part_lines(receipt: Receipt) -> list[str]:
    """The part of the file that was read, if it was not all of it."""
    sides = zip(("from", "to"), receipt.part or (), strict=False)
    words = [f" {word} {time}" for word, time in sides if time]
    return [f"part of the file:{''.join(words)}"] if words else []


def _contents(receipt: Receipt) -> str:
    """What was released: readings of some length, or sums of them alone."""
    names = [entry["table"].replace("-", " ") for entry in receipt.tables]
    count, length = receipt.output["readings"], duration_in_words(receipt.output["interval_s"])
    if CELLS in names:
        return f"{count} readings of {length}"
    return f"{' and '.join(names)}, sums of {count} times {length},"


def _noise_lines(receipt: Receipt) -> list[str]:
    """The noise of the first table, and that of the others with their shares of the budget."""
    known = [entry for entry in receipt.tables if entry["noise"] is not None]
    if not known:
        return ["noise: none, because no protected change moves these sums"]
    first, *others = known
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


def _right(odds: float) -> str:
    """Odds out of 100 in a narrow column, never rounded up to certainty."""
    return out_of_100(min(odds, 1 - 1e-12)).replace("over ", ">").rjust(5)


def _four_digits(value: float) -> str:
    """Four significant digits, without an exponent below a million."""
    return f"{float(f'{value:.4g}'):g}"
