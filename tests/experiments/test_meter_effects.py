"""The study of meter error and solar generation."""

from __future__ import annotations

from experiments.meter_effects import ATTACKERS, METERS, compare_meters, meters_markdown

from experiments import write_results
from tests.experiments.conftest import run_experiment


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
    made = run_experiment("meter-effects", "--seeds", "1", "-o", tmp_path / "made").stdout
    for name in ("meter-effects.csv", "meter-effects.md"):
        # The command and the function give the same bytes for the same seed.
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / name).read_bytes()
    lines = made.splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == 1 + 2 * len(METERS)
    assert "over 1 week of" in made
    assert lines[-2:] == [
        str(tmp_path / "made" / f"meter-effects.{kind}") for kind in ("csv", "md")
    ]
