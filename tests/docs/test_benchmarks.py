"""The table of docs/benchmarks.md holds the saved results."""

from __future__ import annotations

import json

from benchmarks.harness import BEGIN, END, PAGE, RESULTS, markdown_table


def test_the_table_of_ratios_is_the_saved_one():
    shown = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()
    assert shown == markdown_table(json.loads(RESULTS.read_text(encoding="utf-8"))).strip()


def test_a_missed_target_is_reported():
    row = {"name": "a", "ratio": 1234.6, "versus": "b", "target": 2e3, "note": "c"}
    results = {
        "python": "3",
        "machine": "m",
        "rows": [{**row, "at_most": False, "met": False}, {**row, "at_most": True, "met": True}],
    }
    missed, met = markdown_table(results).splitlines()[-2:]
    assert missed == "| a | 1,235 × | b | ≥ 2000 | **missed**; c |"
    assert met == "| a | 1,235 × | b | ≤ 2000 | c |"
