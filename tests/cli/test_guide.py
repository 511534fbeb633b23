"""The first minute: no arguments, completion, `python -m`, and wrong words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from hushmeter.cli import GUIDE, app
from tests.cli.test_commands import run

PROGRAM = Path(sys.executable).parent / "hushmeter"
COMMANDS = set(typer.main.get_command(app).commands)


def test_without_arguments_it_shows_the_way():
    done = run()
    assert done.stdout.strip() == GUIDE
    assert done.stderr == ""


def test_the_guide_fits_a_terminal_and_names_only_commands_there_are():
    assert max(map(len, GUIDE.splitlines())) <= 80
    named = set(re.findall(r"hushmeter ([a-z-]+) ", GUIDE)) - {"releases"}
    assert named <= COMMANDS
    assert {"demo", "inspect", "release", "advise", "attack", "sweep"} <= named


def test_every_option_of_the_guide_exists():
    for name, rest in re.findall(r"hushmeter ([a-z-]+) ([^\n]*?)(?:  |$)", GUIDE, re.MULTILINE):
        command = typer.main.get_command(app).commands.get(name)
        known = {"--help"} | {o for p in getattr(command, "params", ()) for o in p.opts}
        if command is not None:
            assert set(re.findall(r"(?<!\S)--?[a-z-]+", rest)) <= known, name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(shell):
    done = complete(shell, _HUSHMETER_COMPLETE=f"source_{shell}")
    assert "_HUSHMETER_COMPLETE" in done


@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [
        ("hushmeter re", 1, {"release", "reproduce"}),
        ("hushmeter release --me", 2, {"--mechanism"}),
        ("hushmeter attack --a", 2, {"--attacker"}),
    ],
)
def test_bash_completes_commands_and_options(words, place, expected):
    done = complete(
        "bash", _HUSHMETER_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(place)
    )
    assert expected <= set(done.split())


def test_bash_itself_completes(tmp_path):
    """A real bash loads the script and is asked as if Tab had been pressed."""
    (tmp_path / "script").write_text(complete("bash", _HUSHMETER_COMPLETE="source_bash"))
    ask = (
        f"source {tmp_path}/script; COMP_WORDS=(hushmeter insp); COMP_CWORD=1; "
        "_hushmeter_completion hushmeter; echo ${COMPREPLY[@]}"
    )
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", ask], env={**os.environ, "PATH": path}, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == ["inspect"]


def complete(shell, **variables):
    done = subprocess.run(
        [PROGRAM],
        env={**os.environ, **variables, "SHELL": f"/bin/{shell}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["releese"], "no such command 'releese'; did you mean 'release'? (see hushmeter --help)."),
        (["release"], "missing argument 'FILE' (see hushmeter release --help)."),
        (["attackers", "--jsn"], "no such option: --jsn (Possible options: --json) (see hushmeter"),
        (["release", "x.csv", "-e", "1"], "missing option '-o' / '--output' (see hushmeter"),
        (["ledger", "shw"], "no such command 'shw'; did you mean 'show'? (see hushmeter ledger"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(words, message):
    done = run(*words, expect=2)
    assert done.stderr.startswith(f"hushmeter: {message}")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_group_alone_shows_its_commands():
    assert "verify" in run("ledger", expect=2).stdout


def test_paragraphs_of_help_end_where_the_terminal_does():
    shown = run("release", "--help").stdout
    assert "whether any one appliance of the home is on" in " ".join(shown.split())
    told = typer.main.get_command(app).commands["release"].help
    assert [line for line in told.splitlines() if line].index(EXAMPLE) == 4


EXAMPLE = (
    "Example: hushmeter release meter.csv --home home.toml -e 1 --span run --every 30min -o out.csv"
)
