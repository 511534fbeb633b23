"""The study of meter error and solar generation."""

from __future__ import annotations

import json
from pathlib import Path

from hushmeter.files import write_results
from hushmeter.study.meter_effects import ATTACKERS, METERS, compare_meters, meters_markdown
from tests.cli.test_commands import run


def test_error_and_generation_cost_accuracy_and_removal_gives_some_back(tmp_path):
    table = compare_meters(seeds=1)
    assert len(table) == len(METERS) * 2 * (len(ATTACKERS) + 1)
    clean = table[table.noise == "none"].set_index(["meter", "attacker"])
    for attacker in ("co", "bayes"):
        ideal = clean.f1["ideal meter", attacker]
        assert ideal > 0.98
        assert clean.f1["5 % error, each reading", attacker] < ideal - 0.1
        solar, removed = (clean.f1[f"solar panels{end}", attacker] for end in ("", ", removed"))
        assert solar < removed < ideal - 0.1
    write_results(tmp_path, "meter-effects", table, meters_markdown(table))
    done = run("reproduce", "meter-effects", "--seeds", "1", "-o", tmp_path / "made", "--json")
    made = json.loads(done.stdout)
    assert [Path(file).name for file in made["files"]] == ["meter-effects.csv", "meter-effects.md"]
    for name in ("meter-effects.csv", "meter-effects.md"):
        # The command and the function give the same bytes for the same seed.
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / name).read_bytes()
    lines = made["caption"].splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == 1 + 2 * len(METERS)
    assert "over 1 week of" in lines[-1]
