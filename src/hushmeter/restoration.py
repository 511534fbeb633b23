"""`hm.restore`: better values for the recipient of a release, with or without a known home.

Without a home the distribution of the loads is estimated from the released values themselves
(`hushmeter.releases.restore`). If the recipient knows the appliances of the home, the loads of
neighbouring readings are connected: an appliance that is on stays on for its run. The mean of the
load given all released values is then that of the Bayes attacker, who learns its chains from
simulated readings of the home. A constant load that no appliance explains is estimated as well.

The second route is used only where it was measured to be better; see `LONGEST_S`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.attack.bayes import Bayes
from hushmeter.home import Home
from hushmeter.noise.mechanism import Mechanism
from hushmeter.releases import restore as without_home
from hushmeter.releases.release import Release
from hushmeter.releases.restore import POINTS, STEPS, Restored
from hushmeter.synth import trace as simulate
from hushmeter.trace import SECONDS_PER_DAY, Trace

LONGEST_S = 60.0
"""Length of released values [s] up to which a known home is used.

Measured with Laplace noise of ε = 1 for one reading of one appliance, as the mean absolute error
divided by that of the release, with the home and without it: two days of the synthetic home
`evening` 0.17 and 0.53 for minutes, 0.30 and 0.51 for 5 minutes, 0.32 and 0.49 for 15 minutes;
three days of REDD house 1 with the seven largest appliances, learnt from other days, 0.070 and
0.095 for minutes, but 0.17 and 0.15 for 5 minutes and 0.19 and 0.17 for 15 minutes. On REDD the
stated deviations are too small by a factor of 1.5 for minutes.
"""

TRAINING_DAYS = 4
FINE_S = 6.0
BASE_STEPS = 6
"""Steps in which the constant load is estimated."""


def restore(
    release: Release, *, home: Home | None = None, points: int = POINTS, steps: int = STEPS
) -> Restored | Release:
    """Restore released values: the mean of the load given all of them.

    Parameters
    ----------
    release : Release
        From `Promise.release`, `release` or `read_release`.
    home : Home, optional
        The appliances, if the recipient knows them. They are used for cells of up to one minute;
        longer cells and releases of several tables are restored without them.
    points : int, default 160
        Number of support points of the distribution of the loads, without a home.
    steps : int, default 300
        Steps of the EM algorithm, without a home.

    Returns
    -------
    Restored
        For a release of cells alone. Sums are biased; take them from the release.
        `source["method"]` is "home" or "loads".
    Release
        For a release of several tables: its estimate with restored cells. Days, months and the
        typical day keep their own tables.

    Raises
    ------
    InputError
        If the argument is not a release, was restored before, or the home has too many states.
    """
    known = home is not None and isinstance(release, Release) and not release.promise.joint
    if home is None or not known or not _is_short(release.trace):
        return without_home.restore(release, points=points, steps=steps)
    source = without_home.source_of(release)
    return _restore_with(home, release.trace, release.promise.noise, source)


def restore_file(
    path: str | Path,
    *,
    home: Home | None = None,
    receipt: str | Path | None = None,
    key: str | Path | None = None,
) -> Restored:
    """Restore a released file, or the cells of a folder; see `releases.restore.restore_file`."""
    place = Path(path)
    if home is None or place.is_dir():
        return without_home.restore_file(place, receipt=receipt, key=key)
    release, source = without_home.read_verified(place, receipt, key)
    if not _is_short(release.trace):
        return without_home.restore_file(place, receipt=receipt, key=key)
    return _restore_with(home, release.trace, release.promise.noise, source)


def _is_short(trace: Trace) -> bool:
    """True if the values are short enough for the chains of a home."""
    return trace.interval_s <= LONGEST_S


def _restore_with(
    home: Home, trace: Trace, mechanism: Mechanism, source: dict[str, Any]
) -> Restored:
    """Restore a trace with the Bayes attacker of a home."""
    attacker = Bayes(home).fit(_training(home, trace.interval_s)).knows(mechanism)
    base, means, deviations = 0.0, np.zeros(len(trace)), np.zeros(len(trace))
    for _ in range(BASE_STEPS):
        shifted = trace.replace_readings(trace.readings - base)
        means, deviations = attacker.predict_load(shifted)
        # One step of the EM algorithm for a constant that is added to every reading.
        change = float((shifted.readings - means).mean())
        base = max(0.0, base + change)
        if abs(change) < 0.05 * mechanism.std / np.sqrt(len(trace)):
            break
    restored = Trace(means + base, trace.interval_s, trace.start, steps=trace.steps)
    return Restored(restored, deviations, {**source, "method": "home"})


def _training(home: Home, interval_s: float) -> Trace:
    """Simulated readings of the home, from which the chains of its appliances are learnt."""
    if interval_s % FINE_S == 0:
        length = round(TRAINING_DAYS * SECONDS_PER_DAY / FINE_S)
        return simulate(home, length, interval_s=FINE_S, seed=0).coarsen(interval_s)
    length = round(TRAINING_DAYS * SECONDS_PER_DAY / interval_s)
    return simulate(home, length, interval_s=interval_s, seed=0)
