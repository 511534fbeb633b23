"""Tests of the commands."""

from collections.abc import Iterable


def changed(words: Iterable[object], more: Iterable[object]) -> tuple[object, ...]:
    """Options with values and other ones, each of which replaces the same option."""
    more = tuple(more)
    names = {str(word) for word in more if str(word).startswith("--") or str(word) in ("-e", "-o")}
    kept: list[object] = []
    dropped = False
    for word in words:
        replaced = str(word) in names
        if not dropped and not replaced:
            kept.append(word)
        dropped = replaced
    return (*kept, *more)
