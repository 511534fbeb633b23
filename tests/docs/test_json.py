"""The page about JSON describes exactly the keys that the commands print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.docs.blocks import ROOT, load_extension, parse_blocks
from tests.docs.execution import Page, environment, run_command

TEXT = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
HEAD, *PARTS = re.split(r"^## (.+)\n", TEXT, flags=re.MULTILINE)
SECTIONS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))


def described(section: str) -> list[str]:
    rows = re.findall(r"^\| (`.+?) \|", section, flags=re.MULTILINE)
    return [key for row in rows for key in re.findall(r"`([\w.]+)`", row)]


def look_up(answer: Any, path: str) -> bool:
    for name in path.split("."):
        if not isinstance(answer, dict) or name not in answer:
            return False
        answer = answer[name]
    return True


def faults(name: str, answer: Any) -> list[str]:
    """Keys that are printed but not described, or described but not printed."""
    entry = answer[0] if isinstance(answer, list) else answer
    keys = described(SECTIONS[name])
    unsaid = sorted(set(entry) - set(keys))
    absent = [key for key in keys if not look_up(entry, key)]
    return [f"{name} prints {key}" for key in unsaid] + [f"{name} has no {key}" for key in absent]


def test_every_key_is_described_and_every_described_key_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    page, found = Page(), []
    page.run(list(parse_blocks(HEAD, "json.md")))
    for name, section in SECTIONS.items():
        page.run(list(parse_blocks(section, f"json.md, {name}")))
        if "<!-- skip" in section:
            continue
        command, outcome = page.outcomes[-1]
        assert command.line.startswith(f"hushmeter {name} ")
        found += faults(name, json.loads(outcome.output))
    assert found == []


@pytest.mark.slow
def test_the_demo_prints_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = run_command("hushmeter demo -o demo-report --json")
    assert faults("demo", json.loads(outcome.output)) == []


@pytest.mark.slow
def test_the_server_prints_what_the_page_says(tmp_path):
    pytest.importorskip("fastapi", reason="needs the extra web")
    command = [sys.executable, "-m", "hushmeter", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = []
        for line in server.stdout:
            lines.append(line)
            if line == "}\n":
                break
        server.terminate()
    assert faults("serve", json.loads("".join(lines))) == []


def test_every_command_with_json_is_on_the_page():
    commands = dict(load_extension("command_reference").walk_commands())
    speaks = {name for name, one in commands.items() if any("--json" in p.opts for p in one.params)}
    known = {name.partition(" --")[0] for name in SECTIONS}  # some have a section per option
    assert speaks == known


def test_a_missing_key_would_be_noticed():
    section = "| `rows`, `a.b` | cells |\n| `more` | x |\n"
    assert described(section) == ["rows", "a.b", "more"]
    assert look_up({"a": {"b": None}}, "a.b")
    assert not look_up({"a": {"c": 1}}, "a.b")
    assert not look_up({"a": None}, "a.b")
    assert faults("sweep", {"rows": 1, "failed": [], "extra": 0}) == [
        "sweep prints extra",
        "sweep has no files",
    ]
