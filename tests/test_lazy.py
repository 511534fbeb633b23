"""Modules that are imported when they are first used."""

from __future__ import annotations

import pytest

import hushmeter.attack


def test_modules_of_attackers_are_reached_by_name():
    assert hushmeter.attack.one_shot.__name__ == "hushmeter.attack.one_shot"
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = hushmeter.attack.nonsense
