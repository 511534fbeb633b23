"""Synthetic data with a known truth: homes and traces, households with habits, fleets of meters."""

from __future__ import annotations

from hushmeter.synth.households import Diary, DiaryDay, Household, household
from hushmeter.synth.metering import add_meter_error, add_solar
from hushmeter.synth.traces import READY_HOMES, START, home, ready_home, trace

__all__ = [
    "READY_HOMES",
    "START",
    "Diary",
    "DiaryDay",
    "Household",
    "add_meter_error",
    "add_solar",
    "home",
    "household",
    "ready_home",
    "trace",
]
