"""What commands print, on a terminal and into a file."""

from __future__ import annotations

import contextlib
import io
import os
import re
from dataclasses import fields
from pathlib import Path

import pytest

import hushmeter as hm
import hushmeter.read
from hushmeter.cli.output import (
    OPTION,
    cell_progress,
    print_sentences,
    print_table,
    progress_bar,
    short_out_of_100,
    show_activity,
    with_bar,
    with_flags,
)
from hushmeter.read import ReadOptions
from tests.cli.test_commands import run

LONG = "A sentence that is longer than the forty columns of a very narrow terminal."


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def show(monkeypatch):
    """What a call prints on a terminal of forty columns."""
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((40, 24)))
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")

    def call(function, *words):
        with contextlib.redirect_stdout(Terminal()) as shown:
            function(*words)
        return shown.getvalue()

    return call


def test_sentences_break_between_words_on_a_terminal(show):
    lines = show(print_sentences, LONG, "Short.").splitlines()
    assert lines[-1] == "Short."
    assert max(map(len, lines)) <= 40
    assert " ".join(lines[:-1]) == LONG


def test_sentences_stay_whole_in_a_file(capsys):
    print_sentences(LONG, "Short.")
    assert capsys.readouterr().out == f"{LONG}\nShort.\n"


def test_a_table_loses_nothing(show):
    shown = show(print_table, "Title", ["noise", "value"], [["staircase " * 3, "7" * 30]])
    assert "…" not in shown
    assert shown.count("staircase") == 3
    assert shown.count("7") == 30


HEAD = ["noise", "every", "error"]
ROWS = [["gaussian", "15 min", "1.2 kWh"], ["staircase", "30 min", "12 kWh"]]


@pytest.mark.parametrize("columns", [20, 32, 40, 60, 100])
def test_a_table_never_breaks_a_word(monkeypatch, columns):
    monkeypatch.setattr(
        "shutil.get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24))
    )
    with contextlib.redirect_stdout(Terminal()) as shown:
        print_table("Title", HEAD, ROWS)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
    for word in [*HEAD[1:], *(word for row in ROWS for cell in row for word in cell.split())]:
        assert word in text
    assert max(map(len, text.splitlines())) <= columns


def test_rows_that_do_not_fit_are_lines(show):
    head = ["appliance", "power", "energy of a run", "energy a day"]
    shown = show(print_table, "Title", head, [["coffee machine", "1.7 kW", "260 Wh", ""]])
    assert shown.splitlines()[1:] == [
        "coffee machine: power 1.7 kW, energy of",
        "a run 260 Wh",
    ]


def test_a_table_in_a_file_is_as_wide_as_it_must_be(capsys):
    print_table("Title", ["noise", "value"], [["x" * 90, "1" * 30]])
    assert f"{'x' * 90}   {'1' * 30}" in capsys.readouterr().out


def test_shares_are_short_and_never_rounded_up_to_certainty():
    assert [short_out_of_100(s) for s in (0.5, 0.99999, 1.0)] == ["50", ">99.9", "100"]


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    folder = tmp_path_factory.mktemp("week")
    home = hm.synth.ready_home("evening")
    hm.write_meter(folder / "meter.csv", hm.synth.trace(home, 14_400, seed=1))
    return folder / "meter.csv"


@pytest.mark.parametrize(
    "words",
    [
        ("advise", "--home", "evening", "--hide", "kettle"),
        ("bounds", "evening"),
        ("attack", "METER", "--home", "evening", "-a", "one-shot", "-o", "OUT"),
        ("price", "--home", "evening", "--trace", "METER", "-e", "0.01,0.1,1,10"),
        ("release", "METER", "--home", "evening", "-e", 1, "--every", "30min", "-o", "OUT"),
        ("release", "METER", "--home", "evening", "-e", 0.001, "--span", "day", "-o", "OUT"),
        ("release", "METER", "--home", "evening", "-e", 20, "--every", "1h", "-o", "OUT"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_tables_fit_a_terminal_of_80_columns(words, week, tmp_path):
    named = {"METER": week, "OUT": tmp_path / "out.csv"}
    shown = run(*(named.get(word, word) for word in words)).stdout
    rows = [line.rstrip() for line in shown.splitlines() if line.startswith((" ", "best guess"))]
    assert len(rows) > 3
    assert max(map(len, rows)) <= 80


def advance_cells(quiet: bool) -> None:
    with cell_progress("fig4", quiet=quiet) as advance:
        advance({}, 3)
        advance({}, 2)


def do_two_things(quiet: bool) -> None:
    with show_activity("sizing batteries", quiet=quiet) as now:
        now("drawing")


def advance_rows() -> None:
    with progress_bar("releasing", rows=True) as advance:
        advance(1_000_000, 4_000_000)
        advance(2_000_000, 4_000_000)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.usefixtures("terminal")
def test_bars_show_on_a_terminal_and_on_standard_error_only(capsys):
    assert list(with_bar("abc", "adding noise")) == ["a", "b", "c"]
    do_two_things(quiet=False)
    advance_cells(quiet=False)
    advance_rows()
    out, err = capsys.readouterr()
    assert out == ""
    for words in ("drawing", "adding noise", "fig4", "2/4", "releasing", "2 of 4 M rows"):
        assert words in err


def test_no_bar_where_nobody_looks(capsys):
    assert list(with_bar("abc", "adding noise")) == ["a", "b", "c"]
    do_two_things(quiet=False)
    advance_cells(quiet=False)
    advance_rows()
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("terminal")
def test_quiet_means_quiet(capsys):
    assert list(with_bar("abc", "adding noise", quiet=True)) == ["a", "b", "c"]
    do_two_things(quiet=True)
    advance_cells(quiet=True)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("state it (`unit=kWh`).", "state it (--unit kWh)."),
        ("name it (`value_column=NAME+NAME`)", "name it (--value-column NAME+NAME)"),
        ("leave `reading_length=` out", "leave --reading-length out"),
        ("`changes=yes`, with `end=`", "--changes yes, with --to"),
        ("a `plain` word and x=1", "a `plain` word and x=1"),
    ],
)
def test_the_command_line_names_flags(sentence, shown):
    assert with_flags(sentence) == shown


def test_the_readers_name_fields_and_no_flags():
    names = {f.name for f in fields(ReadOptions)}
    for path in Path(hushmeter.read.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"--[a-z]", text), path
        assert {name for name, _ in OPTION.findall(text) if name != "{option}"} <= names, path
