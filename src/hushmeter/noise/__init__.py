"""Exact private noise on a grid: Laplace, staircase and Gaussian; `audit` tests them."""

from __future__ import annotations

from hushmeter.noise.gaussian import Gaussian
from hushmeter.noise.laplace import Laplace
from hushmeter.noise.mechanism import Mechanism
from hushmeter.noise.staircase import Staircase

__all__ = ["Gaussian", "Laplace", "Mechanism", "Staircase"]
