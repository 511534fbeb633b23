"""Releasing readings: the protected series, its receipt and what the noise costs."""
