"""The runner of the pages finds faults and accepts correct pages."""

from __future__ import annotations

import pytest

from tests.docs.blocks import parse_blocks
from tests.docs.execution import Page, PageError, matches, split_commands


def run(text):
    page = Page()
    page.run(list(parse_blocks(text, "page.md")))
    return page


def fence(language, *lines, note=""):
    return "\n".join([note, f"```{language}", *lines, "```", ""])


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a b", "a   b\n", True),
        ("a b", "a c", False),
        ("a ...", "a b c", True),
        ("... c", "a b c", True),
        ("a ... d", "a b c", False),
        ("a", "a b", False),
        ("a b", "a", False),
        ("0.12", "0.13", True),
        ("0.12", "0.14", False),
        ("12", "13", False),
        ("ε=1.5,", "ε=1.4,", True),
        ("-0.5", "0.5", False),
        ("1.0e-05", "1.1e-05", True),
        ("1.0e-05", "1.0e-06", False),
        ("─────", "────────", True),
        ("head 7:... is", "head 7:b18a2d is", True),
        ("7:...", "8:b18a2d", False),
    ],
)
def test_words_and_numbers_are_compared(shown, printed, same):
    assert matches(shown, printed) is same


def test_python_blocks_share_their_names_and_their_output_is_compared():
    text = fence("python", "x = 2") + fence("python", "print(x + 1)")
    run(text + fence("output", "3"))
    with pytest.raises(PageError, match=r"page\.md:\d+: the block above"):
        run(text + fence("output", "4"))


def test_an_error_in_python_names_its_place():
    with pytest.raises(PageError, match=r"page\.md:2: ZeroDivisionError"):
        run(fence("python", "1 / 0"))


def test_pycon_blocks_are_doctests():
    run(fence("pycon", ">>> y = 4") + fence("pycon", ">>> y", "4"))
    with pytest.raises(PageError, match="Expected"):
        run(fence("pycon", ">>> 4", "5"))
    with pytest.raises(PageError, match="without >>>"):
        run(fence("pycon", "4"))


def test_commands_run_here_and_in_a_shell():
    page = run(
        fence("console", "$ hushmeter attackers", "Attackers", "...", "$ echo a | tr a b", "b")
    )
    assert [outcome.code for _, outcome in page.outcomes] == [0, 0]


def test_an_exit_code_must_fit_the_page():
    wrong = "$ hushmeter inspect none.csv"
    run(fence("console", wrong, "hushmeter: none.csv is not a file."))
    with pytest.raises(PageError, match="ended with 1"):
        run(fence("console", wrong))
    with pytest.raises(PageError, match="ended with 0"):
        run(fence("console", "$ hushmeter --version", "hushmeter: no."))
    with pytest.raises(PageError, match="ended with 3"):
        run(fence("sh", "# a comment", "exit 3"))


def test_the_folder_can_be_changed(tmp_path):
    run(fence("console", "$ mkdir inner", "$ cd inner", "$ touch here  # and not above"))
    assert (tmp_path / "inner" / "here").exists()


def test_continued_lines_are_one_command():
    (command,) = split_commands("$ echo a \\\n    b\na b\n")
    assert command.line.split() == ["echo", "a", "b"]
    assert command.shown == "a b\n"
    with pytest.raises(PageError, match="starts with"):
        split_commands("no prompt\n")


def test_comments_above_a_block_steer_it(tmp_path):
    run(fence("toml", "a = 1", note="<!-- file: x.toml -->"))
    assert (tmp_path / "x.toml").read_text() == "a = 1\n"
    run(fence("python", "1 / 0", note="<!-- skip: it divides by zero -->"))
    run(fence("python", "1 / 0", note="<!-- needs: no_such_module -->"))
    run("<!-- prepare\nz = 5\n-->\n\n" + fence("python", "assert z == 5"))
    with pytest.raises(PageError, match="ZeroDivisionError"):
        run(fence("python", "1 / 0", note="<!-- skip: not this one -->\n\nText.\n"))


@pytest.mark.parametrize("text", ["```\nx\n```\n", "    indented\n", "```klingon\nx\n```\n"])
def test_a_block_without_a_known_language_is_refused(text):
    with pytest.raises(PageError, match="names no language"):
        run(text)


def test_boxes_are_looked_into():
    with pytest.raises(PageError, match=r"page\.md:2: ZeroDivisionError"):
        run("````{note}\n```python\n1 / 0\n```\n````\n")


def test_a_server_runs_until_the_page_ends(free_port):
    address = f"http://127.0.0.1:{free_port}/"
    note = f"<!-- background: {address} -->"
    start = fence("console", f"$ python -m http.server {free_port} --bind 127.0.0.1", note=note)
    page = run(start + fence("python", f"import urllib.request as u; u.urlopen('{address}')"
                             ".close()"))  # fmt: skip
    assert all(process.poll() is not None for process in page._running)


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
