"""The comparison of two versions: what counts as a difference, and that no crash is hidden."""

from __future__ import annotations

import numpy as np

from hushmeter.errors import InputError
from tools import same_results


def test_differences_are_named_by_their_place():
    first = {"releases": {"a": {"sum": 1.0, "first": [1, 2]}, "b": "text", "undefined": np.nan}}
    second = {"releases": {"a": {"sum": 1.5, "first": [1, 3]}, "c": "text", "undefined": np.nan}}
    assert list(same_results.differences(first, second)) == [
        "releases / a / sum: 1.0 | 1.5",
        "releases / a / first[1]: 2 | 3",
        "releases / b: only in the first",
        "releases / c: only in the second",
    ]
    assert list(same_results.differences(first, first)) == []


def test_a_digest_sees_values_shapes_and_types():
    values = np.arange(6.0)
    digests = [values, values.reshape(2, 3), values.astype(np.float32), values + 1e-12]
    assert len({same_results.digest(one)["sha256"] for one in digests}) == 4
    assert same_results.digest(np.array([1.0, np.nan]))["sum"] == 1.0


def test_a_refusal_is_a_result_and_a_crash_is_marked():
    def refuse():
        raise InputError("no.")

    assert same_results.attempt(refuse) == {"refused": "no."}
    assert same_results.attempt(lambda: 1 / 0)[same_results.CRASHED].startswith("ZeroDivision")


def test_the_requests_cover_every_mechanism_and_table():
    names = [name for name, _, _ in same_results.requests()]
    assert len(names) == len(set(names)) >= 60
    for mechanism in same_results.MECHANISMS:
        assert sum(name.startswith(mechanism) for name in names) >= 10
