"""What an attacker learnt from: fitted once for a home and a stretch of readings, then kept."""

from __future__ import annotations

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
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.attack.base import Attacker
    from hushmeter.home import Home
    from hushmeter.web.sessions import Session

# Training a network takes minutes, which no slider waits for.
NOT_LIVE = frozenset({"rnn"})
DEFAULT = "bayes"
LEAST_TRAINING = 0.5
SYNTHETIC_SEED = 2024
SYNTHETIC = "a synthetic day of this home as it is described here"
SAME_READINGS = (
    "the very readings it attacks, before the noise: it sees more than it would elsewhere"
)
REST_OF_FILE = "the sub-metered readings of the file outside the stretch shown"


@dataclass(frozen=True)
class Trained:
    """A fitted attacker and what it was trained on, in words."""

    attacker: Attacker
    trained_on: str


class FitCache:
    """Fitted attackers, the least recently used forgotten; one fit at a time for each key."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[Any, ...], Future[Trained]] = OrderedDict()

    def get(self, key: tuple[Any, ...], fit: Callable[[], Trained]) -> Trained:
        """The attacker under a key, fitted now if it is not there; a failed fit is forgotten."""
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
        """Drop what was learnt from a source: the first part of its keys."""
        with self._lock:
            for key in [key for key in self._held if key[0] == source]:
                del self._held[key]


def live_attackers() -> list[str]:
    """Attackers that can follow a slider, the default first."""
    return [DEFAULT, *(name for name in attackers if name != DEFAULT and name not in NOT_LIVE)]


def train(
    name: str, home: Home, session: Session, first: int, stop: int, every: str | None
) -> Trained:
    """An attacker who knows a home, fitted on the best data there is about it.

    Other readings of the home where the server has some; else the file outside the stretch that
    is attacked, if that is long enough, or the stretch itself; else a synthetic day.
    """
    training, words = _training_data(home, session, first, stop)
    if every is not None:
        training = training.coarsen(every)
    options = {"progress": False} if "progress" in signature(attackers[name]).parameters else {}
    return Trained(attackers[name](home, **options).fit(training), words)


def select_truth(trace: Trace, home: Home) -> Trace | None:
    """The trace with the truth of a home's appliances in its order; None if one is unknown."""
    if trace.states is None or trace.names is None or not set(home.names) <= set(trace.names):
        return None
    columns = [trace.names.index(name) for name in home.names]
    power = None if trace.power is None else trace.power[:, columns]
    return trace.with_truth(trace.states[:, columns], power, home.names)


def _training_data(home: Home, session: Session, first: int, stop: int) -> tuple[Trace, str]:
    if session.training is not None and session.trained_on is not None:
        other = select_truth(session.training, home)
        if other is not None:
            return other, session.trained_on
    labelled = select_truth(session.trace, home)
    if labelled is not None:
        rest = len(labelled) - (stop - first)
        if rest >= LEAST_TRAINING * len(labelled):
            return _without(labelled, first, stop), REST_OF_FILE
        return labelled[first:stop], SAME_READINGS
    return _synthetic_day(home, session.trace.interval_s), SYNTHETIC


def _without(trace: Trace, first: int, stop: int) -> Trace:
    """The readings outside [first, stop); what is cut out is a gap."""
    rows = np.r_[0:first, stop : len(trace)]
    steps = np.arange(len(trace)) if trace.steps is None else trace.steps
    return Trace(
        trace.readings[rows],
        trace.interval_s,
        trace.times[rows[0]],
        trace.truth()[rows],
        None if trace.power is None else trace.power[rows],
        trace.names,
        steps[rows] - steps[rows[0]],
    )


def _synthetic_day(home: Home, interval_s: float) -> Trace:
    """A day, or as many readings as teach something."""
    length = int(min(max(86_400 / interval_s, 2_000), 14_400))
    return synth.trace(home, length, interval_s=interval_s, seed=SYNTHETIC_SEED)
