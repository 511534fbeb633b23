"""The same thing has the same name, words, default and place in every command."""

from __future__ import annotations

from collections import defaultdict

import pytest
import typer

from hushmeter.cli import app
from tests.cli.test_commands import run

ORDER = (
    "home", "trace", "epsilon", "mechanism", "protect", "appliance", "span", "every",
    "sensitivity", "clamp", "grid", "delta", "max_epsilon", "attacker", "energy_price", "seed",
    "jobs", "resume", "output", "force", "json", "time_column", "value_column", "unit", "stamp",
    "tz", "building",
)  # fmt: skip
ONE_MEANING = (
    "home", "mechanism", "clamp", "grid", "max_epsilon", "jobs", "force", "json", "open",
    "time_column", "value_column", "stamp", "building",
)  # fmt: skip


def walk(command, name=""):
    for word, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, f"{name} {word}".strip())
    if not hasattr(command, "commands"):
        yield name, command


COMMANDS = dict(walk(typer.main.get_command(app)))
PARAMETERS = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if parameter.name != "help"
]


def long_name(parameter):
    return max(parameter.opts, key=len).removeprefix("--").replace("-", "_")


@pytest.mark.parametrize("name", COMMANDS)
def test_shared_options_come_in_one_order(name):
    told = [long_name(p) for p in COMMANDS[name].params if p.param_type_name == "option"]
    shared = [option for option in told if option in ORDER]
    assert shared == sorted(shared, key=ORDER.index)


@pytest.mark.parametrize("option", ONE_MEANING)
def test_one_option_has_one_help_and_one_short_name(option):
    told = defaultdict(set)
    for name, parameter in PARAMETERS:
        if parameter.param_type_name == "option" and long_name(parameter) == option:
            told[parameter.help, tuple(sorted(parameter.opts))].add(name)
    assert len(told) == 1, dict(told)


def test_one_long_option_has_one_short_one():
    told = defaultdict(set)
    for _, parameter in PARAMETERS:
        if parameter.param_type_name == "option":
            short = [o for o in parameter.opts if not o.startswith("--")]
            told[long_name(parameter)].add(tuple(short))
    assert {option: short for option, short in told.items() if len(short) > 1} == {}


def test_every_parameter_says_what_it_is_in_a_sentence():
    for name, parameter in PARAMETERS:
        assert parameter.help, (name, parameter.name)
        assert not parameter.help.endswith(" "), (name, parameter.name)


def test_every_command_prints_json_and_shows_an_example():
    for name, command in COMMANDS.items():
        assert any("--json" in p.opts for p in command.params), name
        assert f"Example: hushmeter {name}" in command.help, name


@pytest.mark.parametrize(
    "words",
    [
        ("attack", "x.csv", "--home", "evening", "-a", "hold", "-o", "y.csv"),
        ("advise", "--home", "evening", "--hide", "kettle"),
        ("audit",),
        ("battery", "x.csv", "--home", "evening", "-e", 1, "--capacity", 1, "--power", 1),
        ("cluster", "x.csv", "-o", "y"),
        ("demo", "-o", "y"),
        ("release", "x.csv", "--home", "evening", "-e", 1, "-o", "y.csv"),
        ("reproduce", "fig2", "-o", "y"),
        ("synth-fleet", "-o", "y"),
    ],
)
def test_a_negative_seed_is_refused_before_anything_else(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*words, "--seed", -1, expect=2)
    assert done.stderr == "hushmeter: seed must be a whole number of at least 0, got -1.\n"
    assert list(tmp_path.iterdir()) == []
