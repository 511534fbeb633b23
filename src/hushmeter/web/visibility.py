"""How sure a visibility is, given that moments of one trace are not independent."""

from __future__ import annotations

import math

import numpy as np

from hushmeter.checks import BoolArray

BLOCKS = 20
LEAST_READINGS = 100
# Two-sided 95 % quantile of Student's t with BLOCKS − 1 degrees of freedom.
QUANTILE = 2.093


def visibility_interval(guess: BoolArray, truth: BoolArray) -> tuple[float, float]:
    """95 % interval of (α − floor)/(1 − floor) over the moments of a trace.

    In each moment d_t = 1[guess right] − 1[best constant guess right]; visibility is the mean of
    d_t over 1 − floor. Moments in a row are alike, so the error of the mean is taken from the
    means of 20 blocks in a row (batch means), with Student's t. The attacker who always gives the
    constant guess has no error at all.

    Parameters
    ----------
    guess, truth : array of bool, shape (T,)

    Returns
    -------
    (low, high)
        NaN for fewer than 100 readings and for an appliance that never switches.
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
