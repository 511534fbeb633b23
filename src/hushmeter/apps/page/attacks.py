"""An attack on the readings shown: an attacker is fitted once, run on a release, and scored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import synth
from hushmeter.advice.sentences import explain
from hushmeter.apps.nilm.strongest import Strongest, leave_out
from hushmeter.apps.page import schemas
from hushmeter.apps.page.views import Shown, finite, on_stretches, show
from hushmeter.attack.registry import attackers
from hushmeter.checks import BoolArray
from hushmeter.errors import InputError
from hushmeter.scoring import ApplianceScore, score
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.apps.page.server import Session, Settings
    from hushmeter.attack.base import Attacker
    from hushmeter.home import Home

SCORES = ("alpha", "alpha_floor", "f1", "balanced_accuracy")
"""Scores of the attack over all appliances."""
NOT_LIVE = {
    "rnn": "its training takes minutes; use hushmeter attack",
    "trees": "it is part of strongest, which the page offers; use hushmeter attack",
    "hold": "it needs the true state at the first reading, which no attacker has",
}
"""Attackers that the page does not offer, with the reason."""
DEFAULT = "strongest"
OPTIONS: dict[str, dict[str, Any]] = {"strongest": {"rows": 80_000}}
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


def live_attackers() -> list[str]:
    """Return the names of the attackers that are fast enough for the page, the default first."""
    return [DEFAULT, *(name for name in attackers if name != DEFAULT and name not in NOT_LIVE)]


def attack_view(
    given: schemas.AttackRequest, session: Session, settings: Settings
) -> schemas.AttackModel:
    """Attack the release that a view shows and score the appliances whose truth is known.

    The attacker knows the noise distribution if it can use it. It does not know which appliances
    were on at the first reading. Without strips and scores if nobody knows the truth.
    """
    shown = show(given, session, settings)
    home, named = shown.home, shown.trace.names or ()
    if home is None or shown.trace.states is None or not set(named) & set(home.names):
        return schemas.AttackModel(attacker=given.attacker, sentences=[])
    trained = _train(given.attacker, home, session, shown)
    attacker = trained.attacker.knows(None if shown.promise is None else shown.promise.noise)
    known = [i for i, name in enumerate(home.names) if name in named]
    names = [home.names[i] for i in known]
    guess = attacker.predict(shown.released, rng=given.seed)[:, known]
    truth = shown.seen.truth()[:, [named.index(name) for name in names]]
    found = score(guess, truth, names=names)
    chosen = attacker.choose() if isinstance(attacker, Strongest) else None
    columns = list(zip(guess.T, truth.T, strict=True))
    return schemas.AttackModel(
        attacker=given.attacker,
        name=attacker.name if chosen is None else chosen.name,
        chosen=None if chosen is None else chosen.sentence,
        trained_on=trained.trained_on,
        strips=[
            _strip(name, *column, shown.seen) for name, column in zip(names, columns, strict=True)
        ],
        visibility=[
            _visibility(one, *column)
            for one, column in zip(found.per_appliance, columns, strict=True)
        ],
        score={name: finite(getattr(found, name)) for name in SCORES},
        sentences=list(explain(found)),
    )


def _train(name: str, home: Home, session: Session, shown: Shown) -> Trained:
    """Return an attacker, fitted now or before on the best data about a home that the server has.

    These are, in this order: other readings of the same home; the file outside the stretch that
    is attacked, if it is long enough; the stretch itself; a synthetic day of the home.
    """
    if name in NOT_LIVE:
        raise InputError(f"the page does not offer the {name} attacker: {NOT_LIVE[name]}.")
    first, stop, every = shown.first, shown.first + len(shown.trace), shown.seen.interval_s

    def fit() -> Trained:
        training, words = _training_data(home, session, first, stop)
        if every != shown.trace.interval_s:
            training = training.coarsen(every)
        options = dict(OPTIONS.get(name, {}))
        if "progress" in signature(attackers[name]).parameters:
            options["progress"] = False
        return Trained(attackers[name](home, **options).fit(training), words)

    return session.once((home, name, first, stop, every), fit)


def _strip(name: str, guess: BoolArray, truth: BoolArray, seen: Trace) -> schemas.Strip:
    """Return the strip of on and off of one appliance."""
    return schemas.Strip(
        appliance=name,
        truth=on_stretches(truth, seen),
        guess=on_stretches(guess, seen),
        wrong=on_stretches(guess != truth, seen),
    )


def _visibility(one: ApplianceScore, guess: BoolArray, truth: BoolArray) -> schemas.Visibility:
    """Return the visibility of one appliance."""
    low, high = visibility_interval(guess, truth)
    return schemas.Visibility(
        appliance=one.name,
        accuracy=one.alpha,
        floor=one.floor,
        visibility=finite(one.visibility),
        low=finite(low),
        high=finite(high),
        odds=(round(100 * one.alpha, 1), round(100 * one.floor, 1)),
    )


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
            return leave_out(labelled, [slice(first, stop)]), REST_OF_FILE
        return labelled[first:stop], SAME_READINGS
    return _synthetic_day(home, session.trace.interval_s), SYNTHETIC


def _synthetic_day(home: Home, interval_s: float) -> Trace:
    """Return a synthetic day, or as many readings as an attacker needs to learn from."""
    length = int(min(max(86_400 / interval_s, 2_000), 14_400))
    return synth.trace(home, length, interval_s=interval_s, seed=SYNTHETIC_SEED)
