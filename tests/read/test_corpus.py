"""Real meter files with their truth, where the folder is at hand: never wrong."""

from __future__ import annotations

import json
import re

import pytest
from tests.read.random_layouts import ROUNDS
from tests.read.test_mutations import CORPUS

from hushmeter.errors import HushmeterError
from hushmeter.read import ReadOptions, read_home_recording

TRUTH = CORPUS / "truth.json"
ENTRIES = json.loads(TRUTH.read_text(encoding="utf-8")) if TRUTH.is_file() else []
pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"no real meter files at {CORPUS}")


def read(entry, flags):
    """The trace, or None where the file is refused."""
    pairs = zip(flags[::2], flags[1::2], strict=True)
    options = {flag[2:].replace("-", "_"): value for flag, value in pairs}
    try:
        chosen = ReadOptions(**options)
        path = CORPUS / entry["file"]
        return read_home_recording(path, chosen, need_circuits=False).trace
    except HushmeterError:
        return None


def is_right(trace, entry):
    """Interval, number of readings and energy agree with one accepted truth."""
    accepted = [*([entry] if entry["energy_kwh"] is not None else []), *entry.get("also_right", [])]
    for truth in accepted:
        slack = max(entry["tolerance_kwh"] or 0.002, 0.005 * abs(truth["energy_kwh"]))
        if (
            abs(trace.interval_s - truth["interval_s"]) <= 0.01 * truth["interval_s"]
            and abs(len(trace) - truth["readings"]) <= max(1, 0.01 * truth["readings"])
            and abs(trace.energy_kwh - truth["energy_kwh"]) <= slack
        ):
            return True
    return False


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["file"] for entry in ENTRIES])
def test_no_file_is_wrong(entry):
    for flags in (entry["flags"], [], *entry.get("traps", [])):
        trace = read(entry, flags)
        assert trace is None or is_right(trace, entry), (entry["what"], flags)


def test_most_files_are_read():
    wanted = [entry for entry in ENTRIES if entry["expected"] != "refuse"]
    right = [entry for entry in wanted if (trace := read(entry, entry["flags"])) is not None
             and is_right(trace, entry)]  # fmt: skip
    assert len(right) >= 51, sorted({e["file"] for e in wanted} - {e["file"] for e in right})


FACTS = {"--tz": "tz", "--unit": "unit", "--counter": "counter", "--decimal": "decimal"}


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["file"] for entry in ENTRIES])
def test_the_advice_of_a_refusal_leads_to_the_truth(entry):
    """A person answers what the refusal asks with facts, or with the first name that it lists."""
    stated = dict(zip(entry["flags"][::2], entry["flags"][1::2], strict=True))
    known = {FACTS.get(flag, flag[2:].replace("-", "_")): value for flag, value in stated.items()}
    options: dict[str, str] = {}
    for _ in range(ROUNDS + 1):
        try:
            path = CORPUS / entry["file"]
            found = read_home_recording(path, ReadOptions(**options), need_circuits=False)
        except HushmeterError as error:
            asked = [name for name in re.findall(r"`(\w+)=", str(error)) if name in known]
            new = [name for name in asked if name not in options]
            if not new:
                if entry["expected"] != "refuse" and re.search(r"`(tz|unit)=", str(error)):
                    pytest.fail(str(error))
                return
            options[new[0]] = known[new[0]]
            continue
        assert entry["expected"] != "refuse" or entry.get("also_right"), options
        assert is_right(found.trace, entry), options
        return
    pytest.fail(f"more than {ROUNDS} questions: {options}")
