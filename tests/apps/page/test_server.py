"""Traces in memory: bounded in number, bytes and time."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

import numpy as np
import pytest

from hushmeter.apps.page.server import LeastRecent, Session, UnknownTraceError
from hushmeter.errors import DataError
from hushmeter.trace import Trace

Sessions = partial(LeastRecent, size=attrgetter("bytes"))


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def session(readings=100):
    return Session("a", None, Trace(np.zeros(readings), 6.0))


def test_the_least_recently_used_is_forgotten():
    held = Sessions(most=3, most_bytes=10**9, idle_s=100)
    first, second, third = (held.add(session()) for _ in range(3))
    held.get(first)
    fourth = held.add(session())
    assert len(held) == 3
    with pytest.raises(UnknownTraceError, match="load the file again"):
        held.get(second)
    for key in (first, third, fourth):
        held.get(key)


def test_bytes_are_bounded():
    one = session(1000)
    held = Sessions(most=100, most_bytes=3 * one.bytes, idle_s=100)
    keys = [held.add(session(1000)) for _ in range(10)]
    assert len(held) == 3
    assert held.bytes <= 3 * one.bytes
    held.get(keys[-1])
    with pytest.raises(DataError, match="larger than the server's memory"):
        held.add(session(4000))


def test_idle_traces_are_forgotten():
    clock = Clock()
    held = Sessions(most=9, most_bytes=10**9, idle_s=60, clock=clock)
    old = held.add(session())
    clock.now = 50
    used = held.add(session())
    clock.now = 100
    held.get(used)
    with pytest.raises(UnknownTraceError):
        held.get(old)
    clock.now = 155
    held.get(used)


def test_whoever_keeps_something_of_a_trace_is_notified():
    clock, told = Clock(), []
    held = Sessions(most=2, most_bytes=10**9, idle_s=60, clock=clock, forgotten=told.append)
    first, second, third = session(), session(), session()
    held.remove(held.add(first))
    assert told == [first]
    held.add(second)
    clock.now = 61
    held.forget_idle()
    assert told == [first, second]
    assert len(held) == 0
    held.add(third)
    for _ in range(2):
        held.add(session())
    assert told == [first, second, third]


def test_ids_cannot_be_guessed_and_are_forgotten_on_demand():
    held = Sessions(most=200, most_bytes=10**9, idle_s=60)
    keys = {held.add(session()) for _ in range(100)}
    assert len(keys) == 100
    assert min(map(len, keys)) == 32  # 192 bits
    key = keys.pop()
    held.remove(key)
    with pytest.raises(UnknownTraceError):
        held.remove(key)
