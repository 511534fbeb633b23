"""Synthetic data with a known truth: homes and traces (`traces`), fleets of meters (`fleet`)."""

from __future__ import annotations

from hushmeter.synth.traces import READY_HOMES, START, home, ready_home, trace

__all__ = ["READY_HOMES", "START", "home", "ready_home", "trace"]
