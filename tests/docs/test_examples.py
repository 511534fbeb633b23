"""Every exported name has an example, and the examples of the source run."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import hushmeter as hm
from tests.docs.blocks import ROOT

SOURCE = ROOT / "src"
EXPORTED = {
    name: getattr(hm, name) for name in hm.__all__ if not inspect.ismodule(getattr(hm, name))
}
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", EXPORTED)
def test_every_exported_name_has_an_example(name):
    text = inspect.getdoc(EXPORTED[name]) or ""
    assert "\nExamples\n--------\n>>> " in text


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # As in the documentation of other libraries, the package itself is already imported.
    known = {"hm": hm, "Path": Path}
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False)
    tests = [test for test in finder.find(import_module(module)) if test.examples]
    assert tests
    report: list[str] = []
    for number, test in enumerate(tests):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        test.globs.update(known)
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
