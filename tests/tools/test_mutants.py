"""The mutants are valid Python, differ from the source, and leave alone what does not run."""

from __future__ import annotations

import ast

import pytest
from coverage import CoverageData
from tools.mutants import SOURCE as PACKAGES
from tools.mutants import (
    apply_mutant,
    collect,
    list_mutants,
    nearest_tests,
    read_reasons,
    runs_for,
)

SOURCE = '''
@decorated(1)
def length(run_s: float | None, interval_s: int = 60) -> "tuple[int, 2]":
    """Return 3 numbers."""
    if run_s is None or run_s <= 0:
        raise ValueError("not 4" + str(5))
    return math.ceil(run_s / interval_s), f"{6}"
'''


def test_every_kind_of_change_is_found():
    found = {(mutant.before, mutant.after) for mutant in list_mutants(SOURCE, "m.py")}
    assert found == {
        ("60", "61"),
        ("run_s is None or run_s <= 0", "run_s is None and run_s <= 0"),
        ("run_s <= 0", "run_s < 0"),
        ("0", "1"),
        ("math.ceil(run_s / interval_s)", "math.floor(run_s / interval_s)"),
        ("run_s / interval_s", "run_s * interval_s"),
    }


@pytest.mark.parametrize("place", range(6))
def test_a_mutant_changes_one_expression(place):
    changed = apply_mutant(SOURCE, place)
    mutant = list_mutants(SOURCE, "m.py")[place]
    original = ast.unparse(ast.parse(SOURCE))
    assert mutant.after in changed
    lines = zip(original.splitlines(), changed.splitlines(), strict=True)
    assert sum(before != after for before, after in lines) == 1


def test_a_change_that_does_not_exist_is_refused():
    with pytest.raises(IndexError, match="no change number 99"):
        apply_mutant(SOURCE, 99)


def test_a_result_is_tied_to_the_source():
    first, second = (list_mutants(text, "m.py")[0] for text in (SOURCE, SOURCE + "x = y\n"))
    assert first.key != second.key


def test_the_privacy_core_has_mutants_and_tests():
    mutants = collect()
    assert len({mutant.key for mutant in mutants}) == len(mutants) > 1000
    for module in {mutant.module for mutant in mutants}:
        assert nearest_tests(module), module


def test_a_mutant_meets_the_tests_of_its_line_first(tmp_path):
    text = (PACKAGES / "noise" / "laplace.py").read_text(encoding="utf-8")
    mutant, other = list_mutants(text, "noise/laplace.py")[::50][:2]
    executed = CoverageData(str(tmp_path / "coverage"))
    for test in (
        "tests/a.py::one|run",
        "tests/noise/test_laplace.py::two|run",
        "tests/b.py::x|setup",
    ):
        executed.set_context(test)
        executed.add_lines({str(PACKAGES / "noise" / "laplace.py"): [mutant.line]})
    first, *rest = runs_for(mutant, executed)
    # The other tests of a file look at what a shared fixture executed.
    assert first == ["tests/noise/test_laplace.py::two", "tests/a.py::one", "tests/b.py"]
    assert rest == nearest_tests(mutant.module)
    assert runs_for(other, executed) == nearest_tests(other.module)


def test_every_reason_belongs_to_a_change_of_the_source():
    reasons = read_reasons()
    assert reasons.keys() <= {mutant.change for mutant in collect()}
    assert all(len(reason.split()) >= 5 for reason in reasons.values())
