from __future__ import annotations

import pytest

from hushmeter.cli.progress import cell_progress, row_progress, watch, working


def advance_cells(quiet: bool) -> None:
    with cell_progress("fig4", quiet=quiet) as advance:
        advance({}, 3)
        advance({}, 2)


def do_two_things(quiet: bool) -> None:
    with working("sizing batteries", quiet=quiet) as now:
        now("drawing")


def advance_rows() -> None:
    with row_progress("releasing") as advance:
        advance(1_000_000, 4_000_000)
        advance(2_000_000, 4_000_000)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.usefixtures("terminal")
def test_bars_show_on_a_terminal_and_on_standard_error_only(capsys):
    assert list(watch("abc", "adding noise")) == ["a", "b", "c"]
    do_two_things(quiet=False)
    advance_cells(quiet=False)
    advance_rows()
    out, err = capsys.readouterr()
    assert out == ""
    for words in ("drawing", "adding noise", "fig4", "2/4", "releasing", "2 of 4 M rows"):
        assert words in err


def test_no_bar_where_nobody_looks(capsys):
    assert list(watch("abc", "adding noise")) == ["a", "b", "c"]
    do_two_things(quiet=False)
    advance_cells(quiet=False)
    advance_rows()
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("terminal")
def test_quiet_means_quiet(capsys):
    assert list(watch("abc", "adding noise", quiet=True)) == ["a", "b", "c"]
    do_two_things(quiet=True)
    advance_cells(quiet=True)
    assert capsys.readouterr() == ("", "")
