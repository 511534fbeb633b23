"""The first minute: no arguments, completion, `python -m`, and wrong words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from hushmeter.cli import app
from hushmeter.cli.guide import GUIDE
from tests.cli.test_commands import run

PROGRAM = Path(sys.executable).parent / "hushmeter"
COMMANDS = set(typer.main.get_command(app).commands)


def test_without_arguments_it_shows_the_way():
    done = run()
    assert done.stdout.strip() == GUIDE
    assert done.stderr == ""


def test_the_guide_fits_a_terminal_and_names_only_commands_there_are():
    assert max(map(len, GUIDE.splitlines())) <= 100
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


def test_a_wrong_command_is_answered_with_the_nearest_and_code_2():
    done = run("releese", expect=2)
    assert "No such command" in done.stderr
    assert "release" in done.stderr
