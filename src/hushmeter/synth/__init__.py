"""Synthetic homes, traces and fleets."""

from __future__ import annotations

from hushmeter.synth.traces import READY_HOMES, START, home, ready_home, trace

__all__ = ["READY_HOMES", "START", "home", "ready_home", "trace"]
