"""The receipt of a release: a public part for the recipient and a private part for the household.

The public part states what is protected, how well, and by which noise. Nothing in it is computed
from the readings that were released, except for the digests of the released data. The private
part names the home, its appliances and where every number came from. The recipient never needs
it.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.errors import InputError
from hushmeter.formatting import duration_in_words, format_watt_hours, format_watts
from hushmeter.noise.losses import DELTA
from hushmeter.noise.privacy_loss import Composition
from hushmeter.privacy.accounting import ApplianceAccount, account
from hushmeter.privacy.sensitivity import corner
from hushmeter.privacy.units import Unit, use_in_words
from hushmeter.trace import SECONDS_PER_HOUR, TimeArray, Trace, iso

if TYPE_CHECKING:
    from hushmeter.checks import FloatArray
    from hushmeter.home import Appliance, Home
    from hushmeter.noise.mechanism import Mechanism

SCHEMA = "hushmeter-receipt-2"
PRIVATE_SCHEMA = "hushmeter-private-receipt-1"
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
    mechanism : dict
        Distribution of the noise: ε, δ, sensitivity, grid, clamp and scale, and `parameters`,
        with which `noise.parse_mechanism` makes the same mechanism again.
    unit : dict
        What is protected: `protect`, `span`, a sentence, the size of the change (`watts`,
        `watt_hours`, `l1`, `l2`, `largest` [W] and `touches`), and the metering (`interval_s`,
        `window`, `resolution_w`, `register_step_w`, `copies`, `stretch` and `reach`).
    epsilon : float
        ε at which the unit is protected.
    delta : float
        δ of the unit; 0 for Laplace and staircase noise.
    sources : tuple of str
        Where the numbers that calibrated the noise came from: "typed", "catalogue", "learnt from
        other days" or "learnt from these readings".
    output : dict
        Number, interval, first and last time, and SHA-256 of the released readings.
    file : dict or None
        SHA-256 and size [bytes] of the data file; None until the release is written.
    version : str
        Version of hushmeter.
    signature : dict or None
        Ed25519 signature of all other fields; see `signing.sign_receipt`.
    """

    kind: str
    mechanism: dict[str, Any]
    unit: dict[str, Any]
    epsilon: float
    delta: float
    sources: tuple[str, ...]
    output: dict[str, Any]
    file: dict[str, Any] | None = None
    version: str = __version__
    signature: dict[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain values, in the order of the JSON."""
        fields = {"schema": SCHEMA, **asdict(self), "sources": list(self.sources)}
        if self.signature is None:
            del fields["signature"]
        return fields

    def to_json(self) -> str:
        """Return the receipt as JSON text."""
        return json_text(self.to_dict())

    def for_file(self, data: bytes) -> Receipt:
        """Return the receipt of the release that is written as these bytes.

        Parameters
        ----------
        data : bytes
            Content of the released file.

        Returns
        -------
        Receipt
            With the SHA-256 of the file.
        """
        digest = hashlib.sha256(data).hexdigest()
        return replace(self, file={"sha256": digest, "bytes": len(data)}, signature=None)

    def __str__(self) -> str:
        return "\n".join([*_promise_lines(self, self.unit["sentence"])])


@dataclass(frozen=True)
class PrivateReceipt:
    """The private part of a receipt, for the household only.

    Attributes
    ----------
    sentence : str
        What is protected, with the names of appliances and the lengths of runs.
    home : dict or None
        The home, as in its TOML file.
    parameters : tuple of dict
        Every number that calibrated the noise: `name`, `value` as given, `used` after rounding,
        `unit` and `source`.
    composition_delta : float
        δ' of the composed ε of the appliances.
    appliances : tuple of ApplianceAccount
        What an attacker can learn about each appliance of the home; empty without a home.
    input : dict
        Number, interval, first and last time, and SHA-256 of the metered readings, and keyed
        digests of some of them by half day, by which `overlapping_days` recognises them.
    largest_powers : tuple of dict
        Protected appliances that once drew more than the protected power: `name`, `protected_w`,
        `largest_w`, `epsilon` of the unit at the largest power, `share` of these readings while
        on that exceed the protected power (None without sub-meters), and a `sentence`.
    own_use : tuple of str
        Sentences that set the error of the release beside the use of the household. They depend
        on the metered readings and are for the household alone.
    """

    sentence: str
    home: dict[str, Any] | None
    parameters: tuple[dict[str, Any], ...]
    composition_delta: float
    appliances: tuple[ApplianceAccount, ...]
    input: dict[str, Any]
    largest_powers: tuple[dict[str, Any], ...] = ()
    own_use: tuple[str, ...] = ()

    def to_dict(self, receipt: Receipt) -> dict[str, Any]:
        """Return the private part as plain values, together with the public part."""
        return {"schema": PRIVATE_SCHEMA, **asdict(self), "receipt": receipt.to_dict()}


def json_text(fields: dict[str, Any]) -> str:
    """Format plain values as JSON text with a line end."""
    return json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_receipts(
    metered: Trace,
    released: Trace,
    mechanism: Mechanism,
    unit: Unit,
    *,
    home: Home | None,
    simulation: bool,
    delta: float = DELTA,
) -> tuple[Receipt, PrivateReceipt]:
    """Draw up both parts of the receipt of a release.

    Parameters
    ----------
    metered, released : Trace
        The readings before and after.
    mechanism : Mechanism
        The noise.
    unit : Unit
        The unit of protection.
    home : Home or None
        For the account of every appliance, and for the origin of the numbers.
    simulation : bool
        True if a seed was used.
    delta : float
        δ' of the composed ε of the appliances.

    Returns
    -------
    Receipt
        The public part.
    PrivateReceipt
        The private part.
    """
    receipt = write_public_receipt(
        metered, released, mechanism, unit, home=home, simulation=simulation
    )
    private = PrivateReceipt(
        sentence=unit.sentence,
        home=None if home is None else home.to_dict(),
        parameters=tuple(list_parameters(unit, home, metered)),
        composition_delta=delta,
        appliances=_account(mechanism, unit, home, delta),
        input=describe_input(metered),
        largest_powers=_largest_powers(mechanism, unit, home, metered),
    )
    return receipt, private


def write_public_receipt(
    metered: Trace,
    released: Trace,
    mechanism: Mechanism,
    unit: Unit,
    *,
    home: Home | None,
    simulation: bool,
) -> Receipt:
    """Draw up the public part of a receipt alone; the parameters are those of `write_receipts`."""
    parameters = list_parameters(unit, home, metered)
    return Receipt(
        kind="simulation" if simulation else "release",
        mechanism=mechanism.describe() | {"parameters": _plain(mechanism.parameters())},
        unit=describe_unit(unit),
        epsilon=mechanism.epsilon_of(unit),
        delta=mechanism.delta,
        sources=tuple(sorted({entry["source"] for entry in parameters})),
        output=describe_readings(released),
    )


def list_parameters(unit: Unit, home: Home | None, trace: Trace) -> list[dict[str, Any]]:
    """List the numbers that calibrate a release, with their origin.

    Parameters
    ----------
    unit : Unit
        The unit of protection.
    home : Home or None
        The home from which the unit was resolved.
    trace : Trace
        The metered readings. A number that was learnt from readings of the same time is "learnt
        from these readings".

    Returns
    -------
    list of dict
        `name`, `value`, `used`, `unit` and `source` of every number.
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


def digest(trace: Trace) -> str:
    """SHA-256 of the times (int64 ns since 1970) and readings (float64), little-endian."""
    return digest_columns(trace.times, trace.readings)


def digest_columns(times: TimeArray, readings: FloatArray) -> str:
    """SHA-256 of times and readings; see `digest`."""
    sums = hashlib.sha256()
    sums.update(times.astype("datetime64[ns]").astype("<i8").tobytes())
    sums.update(np.ascontiguousarray(readings, dtype="<f8").tobytes())
    return sums.hexdigest()


def describe_largest_power(appliance: Appliance, epsilon: float, share: float | None = None) -> str:
    """Return a sentence about an appliance that once drew more than the protected power.

    Parameters
    ----------
    appliance : Appliance
        With its largest measured power.
    epsilon : float
        ε of the unit at the largest power.
    share : float, optional
        Share of the readings while on that exceed the protected power, if it is known.

    Returns
    -------
    str
    """
    if share is not None:
        part = f"{100 * share:.2g} %"
    else:
        part = "At most 0.1 %" if appliance.source == "learnt" else "Some"
    return (
        f"{part} of the readings of the {appliance.name} while on exceed the "
        f"{format_watts(appliance.protected_power)} that this ε protects; its largest power, "
        f"{format_watts(appliance.max_power or 0.0)}, is protected at ε = {epsilon:.3g}."
    )


def release_text(receipt: Receipt, private: PrivateReceipt) -> str:
    """Format a receipt with its private part for the household that made the release."""
    lines = _promise_lines(receipt, private.sentence)
    largest = [entry["sentence"] for entry in private.largest_powers]
    return "\n".join([*lines, *appliance_lines(private.appliances), *largest])


def describe_readings(trace: Trace) -> dict[str, Any]:
    """Number, interval, first and last time, and digest of readings."""
    return {
        "readings": len(trace),
        "interval_s": trace.interval_s,
        "start": iso(trace.times[0]),
        "end": iso(trace.times[-1]),
        "sha256": digest(trace),
    }


def describe_input(trace: Trace) -> dict[str, Any]:
    """Number, interval, times, and keyed digests by half day of metered readings."""
    salt = secrets.token_hex(16)
    return describe_readings(trace) | {"salt": salt, "half_days": _digests_by_half_day(trace, salt)}


def overlapping_days(trace: Trace, described: dict[str, Any]) -> int:
    """Count the UTC days of which a trace has readings that a private receipt describes.

    Parameters
    ----------
    trace : Trace
        Metered readings.
    described : dict
        The entry `input` of a private receipt.

    Returns
    -------
    int
        Days with an equal digest, if at least half of the digests that both have are equal: in
        single half days two meters may have the same readings.
    """
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
    """The public numbers of a unit; names and lengths of runs are left out."""
    metering = {name: getattr(unit.metering, name) for name in METERING}
    when = {"zone": unit.zone, "day_scale": unit.day_scale} if unit.span == "when" else {}
    day = {"use_s": unit.largest_use_s} if unit.span == "day" else {}
    fields = {
        "protect": unit.protect,
        "span": unit.span,
        "watts": unit.largest_watts,
        "watt_hours": max(change.energy for change in unit.changes) / SECONDS_PER_HOUR,
        "interval_s": unit.interval_s,
        "window": unit.window,
        "l1": unit.l1,
        "l2": unit.l2,
        "largest": unit.largest,
        "touches": unit.touches,
        **metering,
        **when,
        **day,
    }
    return {"sentence": unit_sentence(fields), **fields}


def unit_sentence(unit: dict[str, Any]) -> str:
    """What is protected, from the public numbers of a unit, without names and lengths of runs.

    Parameters
    ----------
    unit : dict
        The entry `unit` of a public receipt.

    Returns
    -------
    str
    """
    size = f"up to {format_watt_hours(unit['watt_hours'])} and {format_watts(unit['watts'])}"
    subject = {
        "appliance": f"any use of {size}" if covers_any_use(unit) else f"any planned use, {size}",
        "fluctuation": f"fluctuations within a state, not switches, of {size}",
        "range": f"any value of a reading, {size}",
        "change": f"any change of {size}",
    }[unit["protect"]]
    where = {
        "reading": f"in one metered reading of {duration_in_words(unit['interval_s'])}",
        "run": "over one run",
        "day": f"over one day, {use_in_words(unit.get('use_s', 0.0), unit['protect'])}",
        "when": f"when within one day of {unit.get('zone')}, but not whether",
    }[unit["span"]]
    return f"{subject}, {where}"


def least_change(unit: dict[str, Any]) -> tuple[float, float, float]:
    """Δ1, Δ2 and the largest change [W] of one use with the full power and energy of a unit.

    They are those of a meter that does not round. Several appliances may have less: that of the
    largest power need not have the largest energy.
    """
    places = 2 if unit["span"] == "when" else 1
    value_s = unit["interval_s"] * unit["window"]
    full = unit["copies"] * unit["watt_hours"] * SECONDS_PER_HOUR / (unit["watts"] * value_s)
    watts = unit["watts"] * unit["stretch"]
    return (
        places * watts * full, math.sqrt(places) * watts * corner(full), watts * min(1.0, full)
    )  # fmt: skip


def covers_any_use(unit: dict[str, Any]) -> bool:
    """True if the change covers every use of the stated power and energy, not only planned ones."""
    _, length, largest = least_change(unit)
    slack = 1 + 1e-9
    return bool(unit["l2"] * slack >= length and unit["largest"] * slack >= largest)


def _learnt_source(home: Home | None, trace: Trace) -> str:
    """The origin of learnt numbers: other days, or readings of the same time."""
    if home is None or home.learnt_from is None:
        # A home file of unknown origin may have been learnt from anything.
        return THESE_READINGS if home is not None else OTHER_DAYS
    # The overlap is tested first: it is cheap, while the digest reads every value.
    same = home.learnt_from.overlaps(trace) or home.learnt_from.sha256 == digest(trace)
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


def _account(
    mechanism: Mechanism, unit: Unit, home: Home | None, delta: float
) -> tuple[ApplianceAccount, ...]:
    """What an attacker can learn about each appliance from a reading, a run and a day."""
    if home is None:
        return ()
    return account(
        mechanism,
        home,
        delta=delta,
        interval_s=unit.interval_s,
        window=unit.window,
        metering=unit.metering,
        period=unit.readings,
        day_scale=unit.day_scale if unit.span == "when" else None,
        use_s=None if unit.use_s is None else {c.name: unit.use_s for c in unit.changes},
    )


def _largest_powers(
    mechanism: Mechanism, unit: Unit, home: Home | None, metered: Trace
) -> tuple[dict[str, Any], ...]:
    """The protected appliances whose largest power exceeds the protected one."""
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
        epsilon = mechanism.epsilon_of(unit.for_appliance(largest))
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


def _promise_lines(receipt: Receipt, sentence: str) -> list[str]:
    """What a receipt promises, one line for each subject."""
    noise, output = receipt.mechanism, receipt.output
    promise = f"at ε = {receipt.epsilon:.4g}"
    first = []
    if receipt.unit["span"] == "when":
        first.append(
            "Not hidden: whether an appliance ran. The sum of every complete day is published "
            f"{'with less noise' if receipt.unit['day_scale'] else 'exactly'}; only the time "
            "within the day is protected."
        )
    return [
        *first,
        f"{receipt.kind}: {output['readings']} readings of "
        f"{duration_in_words(output['interval_s'])} from {output['start']}",
        f"noise: {noise['mechanism']}, scale {_four_digits(noise['scale'])} W on a grid of "
        f"{noise['grid']:g} W" + (" (coarsened)" if noise["coarsened"] else ""),
        f"protected: {sentence}",
        promise + (f", δ = {receipt.delta:g}" if receipt.delta else ""),
    ]


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


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as JSON holds them: lists instead of tuples."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
