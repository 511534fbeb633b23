"""Messages quote strangers: they stay short, and nothing in them controls a terminal."""

from __future__ import annotations

import pytest

from hushmeter.errors import DataError, HushmeterError, InputError, UnknownNameError


@pytest.mark.parametrize("kind", [HushmeterError, DataError, InputError])
@pytest.mark.parametrize("mark", ["\x1b[2J", "\n", "\u202e", "\x07", "\udcff"])
def test_what_controls_a_terminal_is_escaped(kind, mark):
    message = str(kind(f"the column {mark} is unknown; name it über “5 €”."))
    assert message.isprintable()
    assert message.endswith("is unknown; name it über “5 €”.")


def test_a_long_quotation_leaves_the_beginning_and_the_advice():
    message = str(DataError(f"meter.csv has {'x' * 100_000}: choose one (`meter=NAME`)."))
    assert len(message) < 2000
    assert message.startswith("meter.csv has x")
    assert message.endswith("choose one (`meter=NAME`).")


def test_an_unknown_name_is_short_too():
    assert len(str(UnknownNameError("term", "x" * 9999, ["a"]))) < 2000
