"""Exact mechanisms on an integer grid, and the audit that tests them.

The audit computes a lower bound of the ε that a mechanism really has. It releases two inputs many
times; the inputs differ by the whole protected change. On the first half of the outputs it chooses
the event E that distinguishes the inputs best. On the second half it bounds the two probabilities
of E with Clopper–Pearson intervals. Then

    ε ≥ ln((P(E | x) − δ)/P(E | x'))

holds with the stated confidence. A bound above the claimed ε proves the claim false. A bound just
below it shows that the audit has power. For the Gaussian mechanism the audit tests the claim
(ε, δ): one event shows at most the loss of a single threshold at that δ, so the bound remains well
below ε.

Readings are tested in pairs too: one changes, its neighbour does not, and the events are about
their difference or sum, which shows the change if both have noise in common.

The audit also tests three mechanisms that are known to be broken: the same noise at half its width,
Laplace noise in floating point, whose low bits reveal the input, and noise that two neighbouring
readings share. If it does not detect all of them, it fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, one_of, whole
from hushmeter.errors import InputError, UnknownNameError
from hushmeter.noise.gaussian import Gaussian
from hushmeter.noise.laplace import Laplace
from hushmeter.noise.losses import Size
from hushmeter.noise.mechanism import Mechanism, Rng, to_steps
from hushmeter.noise.staircase import Staircase
from hushmeter.special import beta_quantile

__all__ = [
    "DEFAULT_KIND",
    "MECHANISMS",
    "SHARING_KIND",
    "AuditResult",
    "Finding",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "Size",
    "Staircase",
    "audit",
    "clamped",
    "find_kind",
    "parse_mechanism",
]

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (Laplace, Staircase, Gaussian)
}
"""Every kind of noise by its name; a new kind is one module and one entry here."""

DEFAULT_KIND = Laplace.name
"""Name of the noise of a request that states its ε and no kind of noise."""

SHARING_KIND = next(kind.name for kind in MECHANISMS.values() if kind.shares_budget)
"""Name of the noise with which several tables share one budget."""


def find_kind(name: str) -> type[Mechanism]:
    """Return the kind of noise with a name; an unknown name is an `InputError`."""
    return MECHANISMS[one_of("mechanism", name, tuple(MECHANISMS))]


def parse_mechanism(described: Any) -> Mechanism:
    """Make a mechanism from its name and its parameters, as a file or a command line has them."""
    if not isinstance(described, dict) or len(described) != 1:
        raise InputError(
            'a mechanism is written as its name with its parameters, such as {"laplace": '
            '{"epsilon": 1, "sensitivity": 10}}.'
        )
    name, given = next(iter(described.items()))
    if name not in MECHANISMS:
        raise UnknownNameError("mechanism", name, MECHANISMS)
    if not isinstance(given, dict):
        raise InputError(f"the parameters of {name} must be names with values, got {given!r}.")
    try:
        return MECHANISMS[name](**given)
    except TypeError as error:
        raise InputError(f"the parameters of {name} cannot be used: {error}.") from None


def clamped(mechanism: Mechanism, clamp: tuple[float, float] | None) -> Mechanism:
    """Return a mechanism with other bounds of a reading [W], or without any."""
    if clamp == mechanism.clamp:
        return mechanism
    return parse_mechanism({mechanism.name: mechanism.parameters() | {"clamp": clamp}})


SAMPLES = 8_000_000
"""Releases of each input; this many give a bound above 0.9·ε at ε = 0.1."""

_LEAST_SAMPLES = 1000
_PAIRS = 1_000_000
_SUBSET = 100_000
_FINE_BITS = 2.0**53

Source = Callable[[int], tuple[FloatArray, FloatArray]]
"""Function that returns a given number of outputs for each of the two inputs."""


@dataclass(frozen=True)
class Event:
    """A set of outputs."""

    # Outputs from the threshold up, outputs up to the threshold, or outputs near zero that are not
    # multiples of 2^−53.
    kind: str
    threshold: float = 0.0  # Threshold [W]

    def holds(self, outputs: FloatArray) -> BoolArray:
        """Return True for every output in the set."""
        if self.kind == "above":
            return outputs >= self.threshold
        if self.kind == "below":
            return outputs <= self.threshold
        scaled = outputs * _FINE_BITS
        inside: BoolArray = (np.abs(outputs) < 0.5) & (scaled != np.rint(scaled))
        return inside

    def __str__(self) -> str:
        if self.kind == "low bits":
            return "|y| < 1/2 and y is not a multiple of 2^-53"
        return f"y {'>=' if self.kind == 'above' else '<='} {self.threshold:g}"


@dataclass(frozen=True)
class Finding:
    """Lower bound of ε from one event.

    Attributes
    ----------
    epsilon_lower : float
        The bound.
    event : str
        The event in words.
    hits, hits_other : int
        Number of outputs in the event for the two inputs.
    trials : int
        Number of releases of each input.
    """

    epsilon_lower: float
    event: str
    hits: int
    hits_other: int
    trials: int


@dataclass(frozen=True)
class AuditResult:
    """Outcome of `audit`."""

    mechanism: str  # Name of the mechanism
    # The claim
    epsilon: float
    delta: float
    confidence: float  # Confidence of each bound
    samples: int  # Releases of each input
    finding: Finding  # Bound for the mechanism itself, from single readings
    pairs: Finding  # Bound for the mechanism itself, from two neighbouring readings
    # Bounds for the broken mechanisms
    halved_scale: Finding
    float_laplace: Finding
    shared_noise: Finding

    @property
    def epsilon_lower(self) -> float:
        """Lower bound of the mechanism's ε at the stated confidence."""
        return max(self.finding.epsilon_lower, self.pairs.epsilon_lower)

    @property
    def event(self) -> str:
        """The event that distinguishes the two inputs best in single readings."""
        return self.finding.event

    @property
    def caught(self) -> dict[str, bool]:
        """Whether the audit detected that each broken mechanism breaks the claim."""
        names = ("halved_scale", "float_laplace", "shared_noise")
        return {name: getattr(self, name).epsilon_lower > self.epsilon for name in names}

    @property
    def passed(self) -> bool:
        """True if the claim was not refuted and all broken mechanisms were detected."""
        return self.epsilon_lower <= self.epsilon and all(self.caught.values())

    def describe(self) -> dict[str, Any]:
        """Facts for a report, as plain values."""
        found = {"epsilon_lower": self.epsilon_lower, "caught": self.caught, "passed": self.passed}
        return asdict(self) | found


def audit(
    mechanism: Mechanism,
    samples: int = SAMPLES,
    rng: Rng = None,
    confidence: float = 0.999,
) -> AuditResult:
    """Bound a mechanism's ε from below and test the broken mechanisms.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism to audit.
    samples : int
        Releases of each of the two inputs; half of them serve to choose the event.
    rng : int or Generator, optional
        Makes the audit repeatable; by default every release draws its own key.
    confidence : float
        Confidence of each bound, in [0.5, 1).

    Returns
    -------
    AuditResult

    Raises
    ------
    InputError
        If `samples` is below 1000 or `confidence` is out of range.

    Examples
    --------
    >>> hm.audit(hm.Laplace(epsilon=1.0, sensitivity=10.0), samples=20_000, rng=1).passed
    True
    """
    count = whole("samples", samples, least=_LEAST_SAMPLES)
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence must lie in [0.5, 1), got {confidence}.")
    seeds = None if rng is None else np.random.default_rng(rng)
    halved = mechanism.halved()
    float_source = _float_laplace(mechanism.epsilon, np.random.default_rng(seeds))
    delta, few = mechanism.delta, min(count, _PAIRS)
    worst = partial(max, key=lambda finding: finding.epsilon_lower)
    shared, pairs = (
        worst(
            distinguish(source, few, confidence, delta, low_bits=False)
            for source in _paired(mechanism, seeds, shared=shared)
        )
        for shared in (True, False)
    )
    return AuditResult(
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        delta=delta,
        confidence=confidence,
        samples=count,
        finding=distinguish(_released(mechanism, mechanism.steps, seeds), count, confidence, delta),
        halved_scale=distinguish(
            _released(halved, mechanism.steps, seeds), count, confidence, delta
        ),
        pairs=pairs,
        float_laplace=distinguish(float_source, min(count, 2_000_000), confidence, delta),
        shared_noise=shared,
    )


def distinguish(
    source: Source, samples: int, confidence: float, delta: float = 0.0, *, low_bits: bool = True
) -> Finding:
    """Choose an event on one half of the outputs and bound ε with it on the other half."""
    half = samples // 2
    event, swapped = _choose(*source(half), confidence, delta, low_bits)
    first, second = source(half)
    if swapped:
        first, second = second, first
    hits, other = int(event.holds(first).sum()), int(event.holds(second).sum())
    lower = epsilon_bound(hits, other, half, confidence, delta)
    return Finding(lower, str(event), hits, other, half)


def epsilon_bound(hits: int, other: int, trials: int, confidence: float, delta: float) -> float:
    """Lower bound ln((p − δ)/q) of ε, at least 0.

    Notes
    -----
    p is the lower Clopper–Pearson bound of the first probability, q the upper one of the second.
    """
    risk = (1 - confidence) / 2
    p = beta_quantile(risk, hits, trials - hits + 1) if hits else 0.0
    q = beta_quantile(1 - risk, other + 1, trials - other) if other < trials else 1.0
    return max(0.0, math.log((p - delta) / q)) if p > delta else 0.0


def _two_places(mechanism: Mechanism, steps: int | None = None) -> tuple[int, int]:
    """Two readings [grid steps] that are the protected change apart, within the clamp."""
    wide = mechanism.steps if steps is None else steps
    if mechanism.clamp is None:
        return 0, wide
    low, high = (to_steps(bound, mechanism.exact_grid) for bound in mechanism.clamp)
    return low, min(low + wide, high)


def _released(mechanism: Mechanism, steps: int, seeds: np.random.Generator | None) -> Source:
    """Return releases of two constant inputs `steps` grid steps apart, within the clamp."""
    grid, (low, high) = mechanism.exact_grid, _two_places(mechanism, steps)

    def draw(count: int) -> tuple[FloatArray, FloatArray]:
        first, second = (
            mechanism.release(np.full(count, float(place * grid)), rng=seeds)
            for place in (high, low)
        )
        return first, second

    return draw


def _paired(
    mechanism: Mechanism, seeds: np.random.Generator | None, *, shared: bool
) -> Iterator[Source]:
    """Yield differences and sums of readings of two inputs with those before and after them.

    Every second reading differs between the inputs, by the protected change within the clamp. With
    `shared`, the noise is wrong on purpose: every reading has that of the one before it.
    """
    low, high = _two_places(mechanism)
    grid = mechanism.exact_grid

    def draw(place: int, sign: int, count: int) -> tuple[FloatArray, FloatArray]:
        outputs = []
        for changed in (high, low):
            steps = np.full(2 * count + 1, low)
            steps[1::2] = changed
            noisy = mechanism.release(steps * float(grid), rng=seeds)
            if shared:
                noise = noisy[1::2] - changed * float(grid)
                noisy[:-1:2] = low * float(grid) + noise
            outputs.append(noisy[1::2] + sign * noisy[place::2][:count])
        return outputs[0], outputs[1]

    for place in (0, 2):
        for sign in (-1, 1):
            yield partial(draw, place, sign)


def _float_laplace(epsilon: float, generator: np.random.Generator) -> Source:
    """Return floating-point Laplace noise added to the inputs 0 and 1, the textbook mistake."""

    def draw(count: int) -> tuple[FloatArray, FloatArray]:
        noise = generator.laplace(0.0, 1 / epsilon, (2, count))
        return noise[0], 1.0 + noise[1]

    return draw


def _choose(
    first: FloatArray, second: FloatArray, confidence: float, delta: float, low_bits: bool
) -> tuple[Event, bool]:
    """Return the event with the largest bound, and True if the second input makes it likelier."""
    events = _candidates(first, second, low_bits)
    trials = first.size
    best = (-1.0, events[0], False)
    for event in events:
        hits, other = int(event.holds(first).sum()), int(event.holds(second).sum())
        forth = epsilon_bound(hits, other, trials, confidence, delta)
        back = epsilon_bound(other, hits, trials, confidence, delta)
        best = max(best, (forth, event, False), (back, event, True), key=lambda found: found[0])
    return best[1], best[2]


def _candidates(first: FloatArray, second: FloatArray, low_bits: bool) -> list[Event]:
    """Return thresholds at quantiles of the outputs, also far in the tails, and the low bits."""
    pool = np.concatenate([first[:_SUBSET], second[:_SUBSET]])
    tails = np.logspace(-4, math.log10(0.5), 12)
    levels = np.concatenate([tails, 1 - tails])
    cuts = np.unique(np.quantile(pool, levels, method="nearest"))
    medians = [float(np.median(first)), float(np.median(second))]
    places = sorted({*cuts.tolist(), *medians})
    events = [Event(kind, cut) for cut in places for kind in ("above", "below")]
    return [*events, Event("low bits")] if low_bits else events
