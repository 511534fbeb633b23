"""Tests of the commands."""

from collections.abc import Iterable


def changed(words: Iterable[object], more: Iterable[object]) -> tuple[object, ...]:
    """Options with values and other ones, each of which replaces the same option."""
    more = tuple(more)
    kept: list[object] = []
    dropped = False
    for word in words:
        if not dropped and word not in more:
            kept.append(word)
        dropped = not dropped and str(word).startswith("-") and word in more
    return (*kept, *more)
