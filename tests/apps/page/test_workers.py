"""Processes that compute: their limits, what they keep, and what becomes of errors."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hushmeter.apps.page import workers
from hushmeter.apps.page.server import make_example
from hushmeter.apps.page.workers import (
    BusyError,
    TooSlowError,
    WorkerFault,
    WorkerPool,
)
from hushmeter.errors import TooLargeError, UnknownNameError
from tests.apps.page.serving import run_apart

MOST_BYTES = 600 << 20
ROOT = Path(__file__).parents[3]


@pytest.fixture
def pool():
    made = WorkerPool(workers=2, waiting=4, most_bytes=MOST_BYTES, readable=(ROOT,))
    yield made
    made.close()


def call(pool, function, *given, limit_s=60.0):
    return run_apart(pool.run(limit_s, function, *given))


def sleep_and_tell(seconds):
    time.sleep(seconds)
    return os.getpid()


def fill_memory(megabytes):
    held = [np.ones(1 << 17) for _ in range(megabytes)]
    time.sleep(60)
    return len(held)


def fail(kind):
    if kind == "library":
        raise UnknownNameError("appliance", "ketle", ["kettle"])
    raise ValueError("the reading of 4711 W")


def end_this_process():
    os._exit(3)


def end_with(error):
    raise error


def held_here():
    return sorted(workers._HELD)


def fit(session):
    return session.once("key", os.getpid), len(session.made), len(session.trace)


def has_ended(pid):
    for _ in range(3000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_functions_are_computed_in_other_processes(pool):
    assert call(pool, sleep_and_tell, 0) != os.getpid()


def test_a_computation_is_ended_at_its_time_limit_and_its_process_replaced(pool):
    first = call(pool, sleep_and_tell, 0)
    with pytest.raises(TooSlowError):
        call(pool, sleep_and_tell, 3600, limit_s=0.3)
    assert call(pool, sleep_and_tell, 0) != first
    assert has_ended(first)


def test_a_computation_is_ended_when_it_takes_too_much_memory(pool):
    with pytest.raises(TooLargeError, match="more memory than the server gives"):
        call(pool, fill_memory, 1000)
    assert call(pool, sleep_and_tell, 0)


def test_errors_for_users_keep_their_sentence_and_others_only_kind_and_place(pool):
    with pytest.raises(UnknownNameError) as known:
        call(pool, fail, "library")
    assert str(known.value) == "there is no appliance named 'ketle'; did you mean 'kettle'?"
    with pytest.raises(WorkerFault) as unknown:
        call(pool, fail, "other")
    assert unknown.value.kind == "ValueError"
    assert unknown.value.place.startswith("test_workers.py:")
    assert "4711" not in repr(unknown.value)
    with pytest.raises(WorkerFault):
        call(pool, end_this_process)
    assert call(pool, sleep_and_tell, 0)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_end_that_a_computation_asks_for_ends_nothing(pool, error):
    with pytest.raises(WorkerFault):
        call(pool, end_with, error)
    assert call(pool, sleep_and_tell, 0)


def test_an_idle_process_that_is_killed_is_replaced(pool):
    first = {call(pool, sleep_and_tell, 0) for _ in range(3)}
    for pid in first:
        os.kill(pid, signal.SIGKILL)
        assert has_ended(pid)
    time.sleep(0.5)  # Pebble looks at its processes ten times a second.
    assert call(pool, sleep_and_tell, 0) not in first


def test_a_process_keeps_few_traces(monkeypatch):
    monkeypatch.setattr(workers, "MOST_HELD", 2)
    pool = WorkerPool(workers=1, waiting=4, most_bytes=1 << 40, readable=(ROOT,))
    try:
        made = [replace(make_example("evening"), source=name) for name in "abc"]
        for session in made:
            call(pool, fit, session)
        assert call(pool, held_here) == ["b", "c"]
        call(pool, fit, made[1])
        call(pool, fit, made[0])
        assert call(pool, held_here) == ["a", "b"]
    finally:
        pool.close()


def test_a_trace_is_kept_with_what_was_learnt_until_it_is_forgotten():
    pool = WorkerPool(workers=1, waiting=4, most_bytes=1 << 40, readable=(ROOT,))
    try:
        session = make_example("evening")
        first = call(pool, fit, session)
        assert first[1:] == (1, 2400)
        assert call(pool, fit, session) == first
        assert session.made == {}, "what was learnt stays in the process"
        assert call(pool, held_here) == [session.source]
        pool.forget(session.source)
        assert call(pool, held_here) == []
        assert call(pool, fit, session) == first
    finally:
        pool.close()


def test_long_computations_leave_a_process_to_short_ones(pool):
    async def play():
        long = [
            asyncio.create_task(pool.run(60.0, sleep_and_tell, 3.0, long=True)) for _ in range(3)
        ]
        await asyncio.sleep(0.5)
        short = await pool.run(60.0, sleep_and_tell, 0)
        assert not any(task.done() for task in long)
        with pytest.raises(TooSlowError):
            await pool.run(0.3, sleep_and_tell, 0, long=True)
        for task in long:
            task.cancel()
        return short

    run_apart(pool.start())
    assert run_apart(play()) != os.getpid()


def test_too_many_computations_are_refused():
    pool = WorkerPool(workers=1, waiting=0, most_bytes=1 << 40)
    with pytest.raises(BusyError):
        run_apart(pool.run(1.0, sleep_and_tell, 0))
    pool.close()
