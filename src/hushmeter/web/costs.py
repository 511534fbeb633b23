"""The time that an attack will take, estimated before the server accepts it.

The estimates come from measurements on synthetic homes of 4 to 40 appliances on one core. They
need not be exact: a computation that takes longer is ended at its time limit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.attack.strongest import QUICK
from hushmeter.errors import InputError
from hushmeter.trace import intervals_in
from hushmeter.web.attacks import knows_truth
from hushmeter.web.schemas import AttackRequest, to_home

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.web.server import Settings
    from hushmeter.web.sessions import Session

LONG_S = 1.0
"""A computation that is estimated to take longer leaves one process free for short ones [s]."""
SECONDS_PER_READING: dict[str, tuple[tuple[int, float], ...]] = {
    "bayes": ((8, 3e-5), (12, 2e-4), (16, 2.5e-3), (24, 6e-3), (40, 1.2e-2)),
    "ip": ((24, 1e-4), (40, 1.4e-2)),
    "alip": ((24, 1e-4), (40, 1.4e-2)),
    "co": ((24, 5e-5), (40, 5e-4)),
}
"""Measured time to attack one reading, by the number of appliances [s]."""
OTHERS = 2e-5
SECONDS_PER_JOINT_STATE = 5e-8
"""Measured time for each reading and each joint state of the factorial HMM [s]."""
SECONDS_PER_TRAINING_VALUE = 3e-6
"""Measured time to learn from one reading of one appliance [s]."""


def estimate_attack(name: str, home: Home, readings: int, training: int) -> float:
    """Estimate how long an attacker takes to learn and to attack on one core [s]."""
    if name == "strongest":
        # Every candidate learns three times and answers two held-back parts besides.
        return sum(3 * estimate_attack(one, home, readings, training) for one in QUICK)
    if name == "fhmm":
        states = math.prod(1 + len(appliance.on_levels) for appliance in home.appliances)
        each = SECONDS_PER_JOINT_STATE * states
    elif name in SECONDS_PER_READING:
        sizes, seconds = zip(*SECONDS_PER_READING[name], strict=True)
        each = float(np.exp(np.interp(len(home), sizes, np.log(seconds))))
    else:
        each = OTHERS
    return readings * each + training * len(home) * SECONDS_PER_TRAINING_VALUE


def estimate_request(request: AttackRequest, session: Session, settings: Settings) -> float:
    """Estimate how long an attack takes [s]; raise `InputError` above the time of a request."""
    if request.home is None:
        return 0.0
    home = to_home(request.home)
    if not knows_truth(home, session.trace):
        return 0.0
    shown = min(request.length or settings.view_readings, len(session.trace))
    attacked = _released_readings(request, session, shown)
    training = session.trace if session.training is None else session.training
    learning = _released_readings(request, session, len(training))
    seconds = estimate_attack(request.attacker, home, attacked, learning)
    if seconds > settings.request_s:
        raise InputError(
            f"the attacker {request.attacker} would take about {seconds:.0f} s for {attacked} "
            f"readings of {len(home)} appliances, and the page allows {settings.request_s:g} s: "
            "choose fewer readings, fewer appliances or another attacker."
        )
    return seconds


def _released_readings(request: AttackRequest, session: Session, metered: int) -> int:
    """Return the number of readings after several metered ones were averaged into one."""
    if request.every is None or not request.adds_noise:
        return metered
    return math.ceil(metered / intervals_in(request.every, session.trace.interval_s))
