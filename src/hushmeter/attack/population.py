"""Training data of the semi-blind attacker: types of appliances in several sub-metered homes.

A population is a set of homes. The name of a circuit decides which type of appliance it feeds, and
the type decides when it is on. Training windows combine the homes, so that the network learns what
appliances of one type have in common.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hushmeter.attack.network import (
    BASE_S,
    Cells,
    Encoder,
    Example,
    Noise,
    centred_mean,
    rolling_minimum,
)
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.formatting import short_duration
from hushmeter.trace import Runs, Trace

CELL_S = 60.0
"""Interval on which the network works [s]."""

SPREAD_W = 500.0
"""Power by which the readings above the base load are divided [W]."""

LARGEST_W = 2000.0
"""Power of the largest appliance that the noise in training is made for [W]."""

GAIN = 0.15
"""Standard deviation of the logarithm of the factor that a run is multiplied with."""

SHIFT_W = 60.0
"""Standard deviation of the shift of the base load [W]."""

LEAST_STRANGE_W = 40.0
"""Power above which a circuit of another type can disturb [W]."""


@dataclass(frozen=True)
class ApplianceType:
    """A type of appliances: the names of its circuits, and when it is on.

    Attributes
    ----------
    name : str
        Name of the type, as in lists of typical appliances.
    pattern : str
        Regular expression that words of a circuit's name match, in lower-case letters.
    threshold : float
        The appliance is on above this power. [W]
    pause_s : float
        Shorter pauses belong to a run. [s]
    """

    name: str
    pattern: str
    threshold: float
    pause_s: float = 0.0


TYPES = (
    ApplianceType("kettle", r"kettle", 500.0),
    ApplianceType("toaster", r"toaster", 300.0),
    ApplianceType("microwave", r"microwave( oven)?", 200.0),
    ApplianceType("oven", r"oven", 300.0, 900.0),
    ApplianceType("hob", r"hob|stove|cooker|range", 200.0, 900.0),
    ApplianceType("dishwasher", r"dish ?washer", 30.0, 900.0),
    ApplianceType("tumble dryer", r"(tumble ?|washer ?)?dryer", 200.0, 900.0),
    ApplianceType("washing machine", r"washing ?machine|clothes ?washer", 30.0, 900.0),
    ApplianceType("fridge", r"fridge|refrigerator|fridge ?freezer|freezer", 50.0),
    ApplianceType("television", r"television|tv", 20.0),
    ApplianceType("desktop PC", r"(desktop )?(pc|computer)", 30.0),
    ApplianceType("laptop", r"laptop( computer)?", 15.0),
    ApplianceType("vacuum cleaner", r"vacuum( cleaner)?", 200.0),
    ApplianceType("hair dryer", r"hair ?dryer", 300.0),
    ApplianceType("iron", r"iron", 300.0, 300.0),
    ApplianceType("electric shower", r"shower", 2000.0),
    ApplianceType("water heater", r"immersion heater|water heater|boiler", 500.0),
    ApplianceType("portable heater", r"(portable|space|fan|electric) heat(er)?|heater", 200.0),
    ApplianceType("air conditioner", r"ac|air ?con(ditioner|ditioning)?", 150.0),
    ApplianceType("heat pump", r"heat ?pump", 150.0),
    ApplianceType("car charger", r"car charger|ev|electric vehicle|wallbox", 1000.0),
    ApplianceType("coffee machine", r"coffee (machine|maker)", 200.0),
    ApplianceType("pool pump", r"pool pump", 200.0),
)
"""Types that `label_types` recognises by the names of circuits. The longest match decides."""


def type_of(name: str) -> str:
    """Return the type of an appliance with this name; its own plain name if it has no type."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    plain = re.sub(r"[^a-z]+", " ", spaced.lower()).strip() or name
    matches = [
        (len(found.group()), kind.name)
        for kind in TYPES
        if (found := re.search(rf"\b({kind.pattern})\b", plain))
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else plain


def label_types(trace: Trace) -> Trace | None:
    """Return a trace with the states of the circuits that have a known type.

    Parameters
    ----------
    trace : Trace
        Readings with the power and the names of circuits. Readings of less than a minute are
        averaged over minutes.

    Returns
    -------
    Trace or None
        One column per type, which has the power of all its circuits. None if no circuit has a
        known type or none of them is ever on.

    Raises
    ------
    DataError
        If the trace has no power or no names, or its readings are longer than a minute.
    """
    if trace.power is None or trace.names is None:
        raise DataError("a population needs data with a column of watts for each circuit.")
    if trace.interval_s > CELL_S:
        raise DataError(
            f"a population needs readings of at most 1 min, got {short_duration(trace.interval_s)}."
        )
    power, names, states = [], [], []
    minutes = to_minutes(trace)
    assert minutes.power is not None
    for kind in TYPES:
        members = [i for i, name in enumerate(trace.names) if type_of(name) == kind.name]
        total = minutes.power[:, members].sum(axis=1)
        on = _close_pauses(total > kind.threshold, minutes.run_starts, int(kind.pause_s / CELL_S))
        if on.any():
            power.append(total)
            states.append(on)
            names.append(kind.name)
    if not names:
        return None
    return minutes.derive(
        states=np.stack(states, axis=1), power=np.stack(power, axis=1), names=names
    )


def to_minutes(trace: Trace) -> Trace:
    """The trace in cells of about one minute; a contiguous run ends with its last whole cell."""
    size = Cells(trace.interval_s).size
    if size == 1:
        return trace
    every = size * trace.interval_s
    return trace.coarsen(every)


def _close_pauses(on: BoolArray, run_starts: BoolArray, most: int) -> BoolArray:
    """States in which pauses of at most `most` readings between two runs count as on."""
    pauses = Runs.of_equal(on, run_starts)
    begins, ends = pauses.first, pauses.stop
    inside = ~run_starts[begins] & ~np.append(run_starts[ends[:-1]], True)
    closed: BoolArray = on | np.repeat(inside & (pauses.length <= most), pauses.length)
    return closed


def drop_silent_days(trace: Trace) -> Trace:
    """Return the readings without the days (UTC) on which the meter reports a single value."""
    days = trace.times.astype("datetime64[D]").astype(np.int64)
    _, place = np.unique(days, return_inverse=True)
    lowest, highest = np.full((2, place.max() + 1), np.inf) * np.array([[1], [-1]])
    np.minimum.at(lowest, place, trace.readings)
    np.maximum.at(highest, place, trace.readings)
    rows = np.flatnonzero((highest > lowest)[place])
    if rows.size == 0:
        raise DataError("the meter reports a single value on every day.")
    return trace if rows.size == len(trace) else trace.select(rows)


def strange_circuits(trace: Trace) -> list[FloatArray]:
    """Power of the circuits of no known type per minute [W], if they ever exceed 40 W."""
    minutes, known = to_minutes(trace), {kind.name for kind in TYPES}
    assert minutes.power is not None
    columns = [i for i, name in enumerate(trace.names or ()) if type_of(name) not in known]
    return [minutes.power[:, i] for i in columns if minutes.power[:, i].max() > LEAST_STRANGE_W]


class WattEncoder(Encoder):
    """Inputs in watts above the lowest 15-min mean of 4 h, which mean the same in every home."""

    def _coarse(self, y: FloatArray, noise: Sequence[Noise]) -> list[FloatArray]:
        quarter, hours = self.cells.means[1], self.cells.count(BASE_S) // 2 * 2 + 1
        return super()._coarse(y - rolling_minimum(centred_mean(y, quarter), hours), noise)


def watt_encoder() -> WattEncoder:
    """Return the encoder of minutes, which needs nothing from the home."""
    return WattEncoder(Cells(CELL_S), 0.0, SPREAD_W)


@dataclass(frozen=True)
class HomeData:
    """Training data of one home."""

    readings: FloatArray  # Mains [W]
    # Power [W] and states of each type; zero where it is not metered
    power: FloatArray
    states: BoolArray
    metered: BoolArray  # Whether the type is metered in this home
    run_starts: BoolArray
    runs: tuple[IntArray, ...]  # First readings of the runs of each type

    @classmethod
    def of(cls, trace: Trace, types: Sequence[str]) -> HomeData:
        """Data of a labelled trace; appliances of one type count together."""
        assert trace.power is not None
        assert trace.names is not None
        power = np.zeros((len(trace), len(types)))
        states = np.zeros(power.shape, np.bool_)
        for i, name in enumerate(trace.names):
            column = types.index(type_of(name))
            power[:, column] += trace.power[:, i]
            states[:, column] |= trace.truth()[:, i]
        metered = np.array([kind in {type_of(name) for name in trace.names} for kind in types])
        runs = tuple(Runs.of_true(column).first for column in states.T)
        return cls(trace.readings, power, states, metered, trace.run_starts, runs)


def mean_powers(homes: Sequence[HomeData]) -> FloatArray:
    """Mean power of each type while on [W]; zero for a type that is never on."""
    energy = np.sum([(home.power * home.states).sum(axis=0) for home in homes], axis=0)
    powers: FloatArray = energy / np.maximum(
        np.sum([h.states.sum(axis=0) for h in homes], axis=0), 1
    )
    return powers


class PopulationWindows:
    """Random training windows of several homes: real ones, and mixtures of homes."""

    def __init__(
        self,
        homes: Sequence[HomeData],
        strange: Sequence[FloatArray],
        window: int,
        rng: np.random.Generator,
    ) -> None:
        self.homes, self.window, self.rng, self.encoder = homes, window, rng, watt_encoder()
        self.strange = strange
        self.margin = self.encoder.cells.margin
        self.rest = [home.readings - home.power.sum(axis=1) for home in homes]
        shares = [np.where(home.metered, home.states.mean(axis=0), np.nan) for home in homes]
        known = np.array([home.metered for home in homes]).any(axis=0)
        self.on_share = np.where(known, np.nansum(shares, axis=0), 0.0)
        self.on_share /= np.maximum(np.sum([home.metered for home in homes], axis=0), 1)
        count = homes[0].metered.size
        self.donors = [
            [h for h, home in enumerate(homes) if home.runs[k].size] for k in range(count)
        ]

    def draw(self, count: int) -> Example:
        """Draw a batch of training windows."""
        import torch

        rows = [self._window() for _ in range(count)]
        y, states, valid = (np.stack(part) for part in zip(*rows, strict=True))
        noise = []
        for row in y:
            known, sample = Noise.draw(LARGEST_W, self.rng)
            noise.append(known)
            row += sample(self.rng, row.size)
        inner = slice(self.margin, self.margin + self.window)
        inputs = self.encoder.encode(y, np.ones(y.shape, np.bool_), noise).cut(inner, 1)
        parts = (torch.from_numpy(x[:, inner].astype(np.float32)) for x in (states, valid))
        return Example(inputs, *parts)

    def held_out(self, count: int) -> Iterator[Example]:  # noqa: ARG002
        """No windows: a network is trained with all its steps."""
        return iter(())

    def _window(self) -> tuple[FloatArray, BoolArray, BoolArray]:
        """Readings [W], states and valid states of one window with its margins."""
        number = int(self.rng.integers(len(self.homes)))
        home = self.homes[number]
        if self.rng.random() < 0.6:
            y, states, valid = self._mix(number)
        else:
            rows = self._rows(home, self._any_type(home))
            y, states = home.readings[rows] * self._gain(), home.states[rows].copy()
            valid = np.broadcast_to(home.metered, states.shape)
        if self.rng.random() < 0.4:
            for _ in range(int(self.rng.integers(1, 4))):
                y = y + (self._circuit(y.size) if self.rng.random() < 0.5 else self._pulse(y.size))
        return y + self.rng.normal(0, SHIFT_W), states, valid

    def _mix(self, number: int) -> tuple[FloatArray, BoolArray, BoolArray]:
        """The unexplained power of one home with runs of each type from any home."""
        home = self.homes[number]
        rows = self._rows(home, None)
        y = self.rest[number][rows] * self._gain()
        states = np.zeros((rows.size, home.metered.size), np.bool_)
        valid = np.broadcast_to(home.metered, states.shape).copy()
        for k, donors in enumerate(self.donors):
            if not donors or self.rng.random() < 0.3:
                continue
            donor = self.homes[int(self.rng.choice(donors))]
            other = self._rows(donor, k if self.rng.random() < 0.6 else None)
            y = y + donor.power[other, k] * self._gain()
            states[:, k] = donor.states[other, k]
            valid[:, k] |= states[:, k]
        return y, states, valid

    def _any_type(self, home: HomeData) -> int | None:
        """A type that runs in the home, in three of ten cases."""
        running = [k for k, places in enumerate(home.runs) if places.size]
        return int(self.rng.choice(running)) if running and self.rng.random() < 0.3 else None

    def _rows(self, home: HomeData, kind: int | None) -> IntArray:
        """Rows of a window with its margins, anywhere or around a run of a type."""
        width = self.window + 2 * self.margin
        if kind is None:
            first = int(self.rng.integers(home.readings.size)) - width // 2
        else:
            begin = int(self.rng.choice(home.runs[kind]))
            first = begin - self.margin - int(self.rng.integers(self.window))
        return np.clip(first + np.arange(width), 0, home.readings.size - 1)

    def _gain(self) -> float:
        return math.exp(self.rng.normal(0, GAIN))

    def _circuit(self, size: int) -> FloatArray:
        """Power [W] of a circuit of another type around a time at which it is on."""
        if not self.strange:
            return self._pulse(size)
        power = self.strange[int(self.rng.integers(len(self.strange)))]
        place = int(self.rng.choice(np.flatnonzero(power > LEAST_STRANGE_W)))
        first = place - int(self.rng.integers(size))
        rows = np.clip(first + np.arange(size), 0, power.size - 1)
        return power[rows] * self._gain()

    def _pulse(self, size: int) -> FloatArray:
        """Rectangular pulses of an unknown appliance [W]."""
        power = 40.0 * 75.0 ** self.rng.random()
        length = int(1 + 60 * self.rng.random() ** 2)
        pause = int(length * (1 + 20 * self.rng.random()))
        places = (np.arange(size) + int(self.rng.integers(length + pause))) % (length + pause)
        pulse: FloatArray = power * (places < length)
        if self.rng.random() < 0.5:
            # A single pulse instead of a cycle.
            first = int(self.rng.integers(size))
            pulse = power * ((np.arange(size) >= first) & (np.arange(size) < first + length))
        return pulse
