"""The study of meter error and solar generation."""

from __future__ import annotations

from hushmeter.study.meter_effects import ATTACKERS, METERS, compare_meters, save_meters


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
    data, text = save_meters(table, tmp_path)
    assert data.stat().st_size > 1000
    lines = text.read_text().splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == 1 + 2 * len(METERS)
    assert "over 1 week of" in lines[-1]
