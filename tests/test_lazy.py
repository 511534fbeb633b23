"""Packages whose names are imported when first used."""

from __future__ import annotations

import pytest

import hushmeter.attack
import hushmeter.behaviour


def test_modules_of_attackers_are_reached_by_name():
    assert hushmeter.attack.one_shot.__name__ == "hushmeter.attack.one_shot"
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = hushmeter.attack.nonsense


def test_behaviour_lists_what_it_gives():
    assert set(dir(hushmeter.behaviour)) == set(hushmeter.behaviour.__all__)
    for name in hushmeter.behaviour.__all__:
        assert getattr(hushmeter.behaviour, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = hushmeter.behaviour.nonsense
