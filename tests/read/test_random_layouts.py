"""Layouts that nobody designed: never wrong, and right with what their owner knows."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.read import random_layouts
from tests.read.random_layouts import WORDS, follow, known_words, random_file


def outcomes(seeds):
    """How many files are right, refused and wrong; the wrong ones with their recipe."""
    counts, wrong = Counter(), []
    for seed in seeds:
        made = random_file(seed)
        verdict, sentence = follow(made)
        counts[verdict.partition(":")[0]] += 1
        if verdict.startswith("wrong"):
            wrong.append((seed, verdict, made.recipe, sentence[:200]))
    return counts, wrong


def test_the_stated_share_of_known_words_is_the_measured_one():
    shares = [known_words(names) for names in (WORDS, ["English"], ["Swedish"])]
    every, english, swedish = (round(100 * share) for share in shares)
    stated = " ".join(random_layouts.__doc__.split())
    assert f"{every} out of 100 words of the generated headers" in stated
    assert f"{english} of the English and {swedish} of the Swedish ones" in stated


def test_a_hundred_random_layouts():
    counts, wrong = outcomes(range(100))
    assert not wrong, wrong[:5]
    assert counts["right"] >= 90, counts


@pytest.mark.slow
def test_ten_thousand_random_layouts():
    counts, wrong = outcomes(range(1000, 11_000))
    assert not wrong, wrong[:5]
    assert counts["right"] >= 9000, counts
