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

The audit also tests two mechanisms that are known to be broken: the same noise at half its width,
and Laplace noise in floating point, whose low bits reveal the input. If it does not detect both,
it fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, one_of, whole
from hushmeter.errors import InputError, UnknownNameError
from hushmeter.noise.gaussian import Gaussian
from hushmeter.noise.losses import Size
from hushmeter.noise.mechanism import Mechanism, Rng, to_steps
from hushmeter.noise.pure import Laplace, Staircase

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
    finding: Finding  # Bound for the mechanism itself
    # Bounds for the two broken mechanisms
    halved_scale: Finding
    float_laplace: Finding

    @property
    def epsilon_lower(self) -> float:
        """Lower bound of the mechanism's ε at the stated confidence."""
        return self.finding.epsilon_lower

    @property
    def event(self) -> str:
        """The event that distinguishes the two inputs best."""
        return self.finding.event

    @property
    def halved_scale_caught(self) -> bool:
        """True if the audit detected that noise of half the width breaks the claim."""
        return self.halved_scale.epsilon_lower > self.epsilon

    @property
    def float_laplace_caught(self) -> bool:
        """True if the audit detected that floating-point Laplace noise breaks the claim."""
        return self.float_laplace.epsilon_lower > self.epsilon

    @property
    def passed(self) -> bool:
        """True if the claim was not refuted and both broken mechanisms were detected."""
        caught = self.halved_scale_caught and self.float_laplace_caught
        return self.epsilon_lower <= self.epsilon and caught

    def describe(self) -> dict[str, Any]:
        """Facts for a report, as plain values."""
        return asdict(self) | {
            "epsilon_lower": self.epsilon_lower,
            "halved_scale_caught": self.halved_scale_caught,
            "float_laplace_caught": self.float_laplace_caught,
            "passed": self.passed,
        }


def audit(
    mechanism: Mechanism,
    samples: int = SAMPLES,
    rng: Rng = None,
    confidence: float = 0.999,
) -> AuditResult:
    """Bound a mechanism's ε from below and test both broken mechanisms.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism to audit.
    samples : int
        Releases of each of the two inputs; half of them serve to choose the event.
    rng : int or Generator, optional
        Makes the audit repeatable; by default every release draws its own key.
    confidence : float
        Confidence of each of the three bounds, in [0.5, 1).

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
    delta = mechanism.delta
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
        float_laplace=distinguish(float_source, min(count, 2_000_000), confidence, delta),
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
    from scipy.stats import beta

    risk = (1 - confidence) / 2
    p = float(beta.ppf(risk, hits, trials - hits + 1)) if hits else 0.0
    q = float(beta.isf(risk, other + 1, trials - other)) if other < trials else 1.0
    return max(0.0, math.log((p - delta) / q)) if p > delta else 0.0


def _released(mechanism: Mechanism, steps: int, seeds: np.random.Generator | None) -> Source:
    """Return releases of two constant inputs `steps` grid steps apart, within the clamp."""
    grid, low, high = mechanism.exact_grid, 0, steps
    if mechanism.clamp is not None:
        low = to_steps(mechanism.clamp[0], grid)
        high = min(low + steps, to_steps(mechanism.clamp[1], grid))

    def draw(count: int) -> tuple[FloatArray, FloatArray]:
        first, second = (
            mechanism.release(np.full(count, float(place * grid)), rng=seeds)
            for place in (high, low)
        )
        return first, second

    return draw


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
