"""The generated parts of the documentation are complete."""

from __future__ import annotations

import re
import shlex

import pytest

import hushmeter as hm
from tests.docs.blocks import ROOT, load_extension

REFERENCE = load_extension("command_reference")
MODULES = load_extension("module_list")
NAMES = load_extension("public_names")
COMMANDS = dict(REFERENCE.walk_commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_words_an_example_and_all_its_options(name):
    text = "\n".join(REFERENCE.section(name, COMMANDS[name]))
    assert text.startswith(f"## {name}\n")
    assert f"$ hushmeter {name}" in text
    for parameter in COMMANDS[name].params:
        shown = parameter.opts
        if parameter.param_type_name == "argument":
            shown = [parameter.metavar or parameter.name.upper()]
        for option in shown:
            assert f"`{option}`" in text or option == "--help"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_in_the_help_is_a_valid_call(name):
    _, examples = REFERENCE.split_help(COMMANDS[name].help)
    assert examples
    for example in examples:
        words = shlex.split(example)
        head = ["hushmeter", *name.split()]
        assert words[: len(head)] == head
        # Parsing only: an unknown option or a missing argument raises.
        context = COMMANDS[name].make_context(name, words[len(head) :])
        assert context.params


def test_wrong_examples_would_be_noticed():
    command = COMMANDS["inspect"]
    for words in (["meter.csv", "--nonsense"], []):
        with pytest.raises(Exception, match=r"(?i)no such option|missing parameter"):
            command.make_context("inspect", words)


def test_words_and_examples_are_distinguished():
    words, examples = REFERENCE.split_help(
        "Do it.\n\nMore\nwords.\n\nExample: a b\n-c\n\nExample: d"
    )
    assert words == ["Do it.", "", "More words.", ""]
    assert examples == ["a b -c", "d"]


def test_every_module_says_in_a_line_what_it_is():
    listed = MODULES.describe_modules()
    lines = {path: MODULES.first_line(path) for path in MODULES.SOURCE.rglob("*.py")}
    vague = [p.name for p, line in lines.items() if not 10 <= len(line) <= 130]
    vague += [p.name for p, line in lines.items() if not line.endswith((".", "?"))]
    unlisted = [p.name for p in lines if p.stem != "__init__" and f"`{p.name}`" not in listed]
    assert (vague, unlisted) == ([], [])
    assert len(lines) > 150


def test_every_public_name_is_on_the_page_of_names():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    whole = page + NAMES.describe_rest(page)
    described = re.findall(r"^\.\. auto(?:class|function|data):: (\w+)$", whole, flags=re.MULTILINE)
    assert sorted(described) == sorted(set(described))
    assert set(described) == set(NAMES.describable())
    assert set(NAMES.describable()) | hm._MODULES == set(hm.__all__)
