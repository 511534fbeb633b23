"""Synthetic data with a known truth: homes and traces, households with habits, fleets of meters."""

from __future__ import annotations

from hushmeter.synth.households import Diary, DiaryDay, Habits, Household, household
from hushmeter.synth.traces import (
    READY_HOMES,
    START,
    add_meter_error,
    add_solar,
    home,
    ready_home,
    trace,
)

__all__ = [
    "READY_HOMES",
    "START",
    "Diary",
    "DiaryDay",
    "Habits",
    "Household",
    "add_meter_error",
    "add_solar",
    "home",
    "household",
    "ready_home",
    "trace",
]
