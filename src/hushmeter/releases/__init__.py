"""Releases of meter readings: the noisy series, its receipt and what the noise costs.

The package is called `releases` because `hushmeter.release` is the function that makes one.
"""
