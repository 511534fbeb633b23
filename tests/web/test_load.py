"""A hundred clients on one server: no error, and memory that stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from benchmarks.bench_web import server, slide, soak


def soak_apart(*given, **more):
    """In a thread of its own: the tests of the page leave an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(soak, *given, **more).result()


def test_a_few_clients_for_a_moment():
    with server() as (process, url):
        waited, computed = slide(url, 3)
        assert len(waited) == len(computed) == 3
        load = soak_apart(process, url, 1.0, clients=10)
    assert load.errors == ()
    assert load.answers >= 10


@pytest.mark.slow
def test_a_hundred_clients_for_a_minute():
    with server() as (process, url):
        load = soak_apart(process, url, 60.0, clients=100)
    assert load.errors == ()
    assert load.answers >= 100
    assert load.after_mb < 1.5 * load.before_mb
