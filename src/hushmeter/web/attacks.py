"""An attack on the readings shown: an attacker is fitted once, run on a release, and scored."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import synth
from hushmeter.attack.registry import attackers
from hushmeter.attack.strongest import QUICK, Strongest, leave_out
from hushmeter.checks import BoolArray
from hushmeter.scoring import Score, score
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.attack.base import Attacker
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.web.sessions import Session

NOT_LIVE = {
    "rnn": "its training takes minutes; use hushmeter attack",
    "tcn": "its training takes minutes; use hushmeter attack",
    "semi-blind": "it needs a population; use hushmeter attack",
    "hold": "it needs the true state at the first reading, which no attacker has",
}
"""Attackers that the page does not offer, with the reason."""
DEFAULT = "strongest"
OPTIONS: dict[str, dict[str, Any]] = {"strongest": {"candidates": QUICK}}
"""Arguments with which an attacker learns within seconds."""
LEAST_TRAINING = 0.5
"""Share of a file that must lie outside the stretch shown to be used for training."""
SYNTHETIC_SEED = 2024
SYNTHETIC = "a synthetic day of the home that is described here"
SAME_READINGS = (
    "the same readings that it attacks, before the noise was added, so that it detects more than "
    "an attacker without them could"
)
REST_OF_FILE = "the sub-metered readings of the file outside the stretch shown"
BLOCKS = 20
LEAST_READINGS = 100
# Two-sided 95 % quantile of Student's t with BLOCKS − 1 degrees of freedom.
QUANTILE = 2.093


@dataclass(frozen=True)
class Trained:
    """A fitted attacker, and a phrase that says what it was trained on."""

    attacker: Attacker
    trained_on: str


@dataclass(frozen=True)
class AttackResult:
    """The attacker's states and their score."""

    states: BoolArray  # The attacker's guess
    known: tuple[int, ...]  # Columns whose truth is known
    truth: BoolArray
    score: Score  # Score over the known columns
    trained_on: str  # What the attacker was trained on
    name: str  # The attacker that answered; "no data" for a guess without data
    # Which attacker was the strongest, and why; None for any other attacker
    chosen: str | None = None


class FitCache:
    """Fitted attackers by a key. The least recently used one is removed first.

    Two threads that need the same key fit the attacker once.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[Any, ...], Future[Trained]] = OrderedDict()

    def get(self, key: tuple[Any, ...], fit: Callable[[], Trained]) -> Trained:
        """Return the attacker under a key that starts with `Session.source`; fit it if needed."""
        with self._lock:
            future = self._held.get(key)
            mine = future is None
            if future is None:
                future = self._held[key] = Future()
                while len(self._held) > self._most:
                    self._held.popitem(last=False)
            else:
                self._held.move_to_end(key)
        if mine:
            try:
                future.set_result(fit())
            except BaseException as error:
                future.set_exception(error)
                with self._lock:
                    self._held.pop(key, None)
        return future.result()

    def forget(self, source: str) -> None:
        """Remove everything that was learnt from a source, the first part of its keys."""
        with self._lock:
            for key in [key for key in self._held if key[0] == source]:
                del self._held[key]


def live_attackers() -> list[str]:
    """Return the names of the attackers that are fast enough for the page, the default first."""
    return [DEFAULT, *(name for name in attackers if name != DEFAULT and name not in NOT_LIVE)]


def train(
    name: str, home: Home, session: Session, first: int, stop: int, every: float | None
) -> Trained:
    """Fit an attacker on the best data about a home that the server has.

    These are, in this order: other readings of the same home; the file outside the stretch that
    is attacked, if it is long enough; the stretch itself; a synthetic day of the home.
    """
    training, words = _training_data(home, session, first, stop)
    if every is not None:
        training = training.coarsen(every)
    options = dict(OPTIONS.get(name, {}))
    if "progress" in signature(attackers[name]).parameters:
        options["progress"] = False
    return Trained(attackers[name](home, **options).fit(training), words)


def knows_truth(home: Home, trace: Trace) -> bool:
    """Return True if the true states of at least one appliance of the home are known."""
    return trace.states is not None and bool(set(trace.names or ()) & set(home.names))


def attack(
    trained: Trained,
    home: Home,
    seen: Trace,
    released: Trace,
    mechanism: Mechanism | None,
    seed: int,
) -> AttackResult:
    """Attack released readings and score the appliances whose truth is known.

    The attacker knows the noise distribution if it can use it. It does not know which appliances
    were on at the first reading.
    """
    attacker = trained.attacker.knows(mechanism)
    states = attacker.predict(released, rng=seed)
    named = seen.names or ()
    known = tuple(i for i, name in enumerate(home.names) if name in named)
    truth = seen.truth()[:, [named.index(home.names[i]) for i in known]]
    found = score(states[:, known], truth, names=[home.names[i] for i in known])
    name, chosen = attacker.name, None
    if isinstance(attacker, Strongest):
        name, chosen = attacker.choose().name, attacker.choose().sentence
    return AttackResult(states, known, truth, found, trained.trained_on, name, chosen)


def visibility_interval(guess: BoolArray, truth: BoolArray) -> tuple[float, float]:
    """Compute the 95 % interval of the visibility of one appliance over the moments of a trace.

    Notes
    -----
    The visibility is (α − floor)/(1 − floor), where α is the share of moments in which the guess
    is correct and the floor is that of the best constant guess. With
    d_t = 1[guess correct at t] − 1[constant guess correct at t], it is the mean of d_t over
    1 − floor. Neighbouring moments are alike, so the error of the mean is estimated from the
    means of 20 consecutive blocks (batch means) with Student's t [1]_. An attacker who always
    gives the constant guess has an interval of width 0.

    References
    ----------
    .. [1] C. Alexopoulos and A. F. Seila, "Output data analysis", in Handbook of Simulation,
       J. Banks, Ed. Wiley, 1998.
    """
    on_share = float(truth.mean())
    room = min(on_share, 1 - on_share)
    if truth.size < LEAST_READINGS or room == 0:
        return math.nan, math.nan
    constant = on_share > 0.5
    gain = (guess == truth).astype(np.float64) - (truth == constant)
    blocks = np.array([part.mean() for part in np.array_split(gain, BLOCKS)])
    half = QUANTILE * float(blocks.std(ddof=1)) / math.sqrt(BLOCKS)
    middle = float(gain.mean())
    return (middle - half) / room, min(1.0, (middle + half) / room)


def select_truth(trace: Trace, home: Home) -> Trace | None:
    """Return the trace with the truth of all appliances of a home; None if one is unknown."""
    if trace.states is None or trace.names is None or not set(home.names) <= set(trace.names):
        return None
    columns = [trace.names.index(name) for name in home.names]
    power = None if trace.power is None else trace.power[:, columns]
    return trace.derive(states=trace.states[:, columns], power=power, names=home.names)


def _training_data(home: Home, session: Session, first: int, stop: int) -> tuple[Trace, str]:
    """Return the readings that an attacker learns from, and what they are in words."""
    if session.training is not None and session.trained_on is not None:
        other = select_truth(session.training, home)
        if other is not None:
            return other, session.trained_on
    labelled = select_truth(session.trace, home)
    if labelled is not None:
        rest = len(labelled) - (stop - first)
        if rest >= LEAST_TRAINING * len(labelled):
            return leave_out(labelled, slice(first, stop)), REST_OF_FILE
        return labelled[first:stop], SAME_READINGS
    return _synthetic_day(home, session.trace.interval_s), SYNTHETIC


def _synthetic_day(home: Home, interval_s: float) -> Trace:
    """Return a synthetic day, or as many readings as an attacker needs to learn from."""
    length = int(min(max(86_400 / interval_s, 2_000), 14_400))
    return synth.trace(home, length, interval_s=interval_s, seed=SYNTHETIC_SEED)
