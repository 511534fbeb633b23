"""Functions of probability that neither Python nor NumPy has, to 13 digits.

The normal distribution uses the rational functions of the Cephes library (S. L. Moshier, 1995). The
beta distribution is a sum of positive terms; C. Loader's deviances ("Fast and accurate computation
of binomial probabilities", 2000) keep the digits of its first factor for large counts.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# fmt: off
_ERF = (
    (9.604973739870516, 90.02601972038427, 2232.005345946843, 7003.325141128051, 55592.30130103949),
    (1.0, 33.56171416475031, 521.3579497801527, 4594.323829709801, 22629.000061389095,
     49267.39426086359),
)
_NEAR = (
    (2.461969814735305e-10, 0.5641895648310689, 7.463210564422699, 48.63719709856814,
     196.5208329560771, 526.4451949954773, 934.5285271719576, 1027.5518868951572,
     557.5353353693994),
    (1.0, 13.228195115474499, 86.70721408859897, 354.9377788878199, 975.7085017432055,
     1823.9091668790973, 2246.3376081871097, 1656.6630919416134, 557.5353408177277),
)
_FAR = (
    (0.5641895835477551, 1.275366707599781, 5.019050422511805, 6.160210979930536,
     7.4097426995044895, 2.9788666537210022),
    (1.0, 2.2605286322011726, 9.396035249380015, 12.048953980809666, 17.08144507475659,
     9.608968090632859, 3.369076451000815),
)
# fmt: on
_NEAR_END, _LARGEST = 8.0, 1e30


def ndtr(x: ArrayLike) -> Any:
    """Distribution function Φ of the standard normal distribution."""
    scaled = np.asarray(x, dtype=np.float64) * math.sqrt(0.5)
    inner = np.clip(scaled, -1.0, 1.0)
    square = inner * inner
    middle = 0.5 + 0.5 * (inner * np.polyval(_ERF[0], square) / np.polyval(_ERF[1], square))
    size = np.abs(scaled)
    above, below = _tail(size)
    with np.errstate(under="ignore", over="ignore"):
        tail = 0.5 * (np.exp(-size * size) * above / below)
    return np.where(size < 1, middle, np.where(scaled > 0, 1 - tail, tail))[()]


def log_ndtr(x: ArrayLike) -> Any:
    """Logarithm of Φ, which does not underflow."""
    values = np.asarray(x, dtype=np.float64)
    size = np.abs(values) * math.sqrt(0.5)
    above, below = _tail(size)
    with np.errstate(divide="ignore", over="ignore"):
        low = np.where(size < 1, np.log(ndtr(values)), np.log(above / below / 2) - size * size)
        return np.where(values > 0, np.log1p(-ndtr(-values)), low)[()]


def log_phi(x: float) -> float:
    """`log_ndtr` of one number, which searches need often."""
    if x > 0:
        return math.log1p(-math.erfc(x * math.sqrt(0.5)) / 2)
    if x > -36:
        return math.log(math.erfc(-x * math.sqrt(0.5)) / 2)
    s = 1 / (x * x)
    series = -s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s)))
    return -x * x / 2 - math.log(-x * math.sqrt(math.tau)) + math.log1p(series)


def _tail(size: Any) -> tuple[Any, Any]:
    """Numerator and denominator of e^(z²)·erfc(z) for z ≥ 1."""
    z = np.minimum(np.maximum(size, 1.0), _LARGEST)
    parts = zip(_NEAR, _FAR, strict=True)
    above, below = (np.where(z < _NEAR_END, np.polyval(a, z), np.polyval(b, z)) for a, b in parts)
    return above, below


def beta_quantile(p: float, a: float, b: float) -> float:
    """Value below which a beta variable stays with probability p, 0 < p < 1."""
    # The smaller one of x and 1 − x is found, so that it has all its digits.
    swapped = a > b if a + b > 100 else _beta(a, b, 0.5)[0] < p
    if swapped:
        p, a, b = 1 - p, b, a
    low, high, x = 0.0, 1.0, a / (a + b)
    for _ in range(200):
        found, slope = _beta(a, b, x)
        low, high = (x, high) if found < p else (low, x)
        # Newton's step of log P in log x, which is nearly straight for small x.
        power = math.log(p / found) * found / (slope * x) if found and slope else math.inf
        before, x = x, x * math.exp(min(power, 1.0))
        x = x if low < x < high else (low + high) / 2
        if abs(x - before) <= 3e-16 * x:
            break
    return 1 - x if swapped else x


def _beta(a: float, b: float, x: float) -> tuple[float, float]:
    """Distribution function and density of a beta variable at 0 < x < 1."""
    n = a + b
    away = a - n * x
    log = _stirling(n) - _stirling(a) - _stirling(b)
    log -= n * x * _deviance(away / (n * x)) + n * (1 - x) * _deviance(-away / (n * (1 - x)))
    factor = math.exp(log) * math.sqrt(a * b / (math.tau * n))
    term = total = 1.0
    count = 0
    while term > 1e-17 * total:
        term *= x * (n + count) / (a + 1 + count)
        total += term
        count += 1
    return factor * total / a, factor / (x * (1 - x))


def _stirling(n: float) -> float:
    """Error of Stirling's formula for ln Γ(n + 1)."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - math.log(math.tau) / 2
    s = 1 / n**2
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / n


def _deviance(d: float) -> float:
    return (1 + d) * math.log1p(d) - d


def student_quantile(p: float, free: float) -> float:
    """Value below which Student's t stays with probability p, ½ < p < 1."""
    x = beta_quantile(2 - 2 * p, free / 2, 0.5)
    return math.sqrt(free * (1 - x) / x)


def chi2_quantile(p: float, free: int) -> float:
    """Value below which the sum of `free` squared normal variables stays with probability p."""
    spread = 2 / (9 * free)
    x = free * max(1 - spread + NormalDist().inv_cdf(p) * math.sqrt(spread), 1e-3) ** 3
    for _ in range(60):
        half, order = x / 2, 1 - free % 2 / 2
        term = math.exp(-half) / (math.sqrt(math.pi * half) if free % 2 else 1.0)
        above = math.erfc(math.sqrt(half)) if free % 2 else term
        while order < free / 2:
            term *= half / order
            above, order = above + term, order + 1
        step = (above - 1 + p) / (term / 2)
        x += step
        if abs(step) <= 1e-15 * x:
            break
    return x
