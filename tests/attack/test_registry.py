from __future__ import annotations

import sys

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.attack.base import AllOff
from hushmeter.attack.registry import BUILT_IN, ENTRY_POINTS, AttackerRegistry

OWN = """
import numpy as np
import hushmeter as hm


class AllOn(hm.Attacker):
    name = "all-on"
    needs = "nothing"
    assumes = "everything is always on"

    def _predict(self, seen):
        return np.ones((len(seen), len(self.home)), bool)


not_a_class = 3


class Nameless(hm.Attacker):
    needs = assumes = "nothing"
"""


class Mine(AllOff):
    name = "mine"


@pytest.fixture
def known():
    return AttackerRegistry()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module of a user, which leaves no trace in this process."""
    (tmp_path / "own_attackers.py").write_text(OWN)
    (tmp_path / "broken_attackers.py").write_text("1 / 0\n")
    (tmp_path / "needy_attackers.py").write_text("import no_such_library\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("own_attackers", "broken_attackers", "needy_attackers"):
        sys.modules.pop(name, None)


def test_a_registered_attacker_is_found_by_name(known):
    assert "mine" not in known
    assert known.register(Mine) is Mine
    assert known["mine"] is Mine
    assert set(known) == {*BUILT_IN, "mine"}
    assert len(known) == len(BUILT_IN) + 1
    known.register(Mine)


def test_a_name_is_not_taken_twice(known):
    known.register(Mine)

    class Other(AllOff):
        name = "mine"

    for cls in (Other, AllOff):
        with pytest.raises(hm.errors.InputError, match="another attacker is named"):
            known.register(cls)
    assert known["mine"] is Mine


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (3, "needs a subclass of hushmeter.Attacker"),
        (dict, "needs a subclass of hushmeter.Attacker"),
        (type("Bare", (hm.Attacker,), {}), "must define name"),
        (type("Bad", (AllOff,), {"name": "a:b"}), "lower-case letters"),
        (type("Bad", (AllOff,), {"name": "mine", "needs": ""}), "must define needs"),
    ],
)
def test_what_is_no_attacker_is_refused(known, cls, message):
    with pytest.raises(hm.errors.InputError, match=message):
        known.register(cls)


def test_module_and_class_name_an_attacker(known, folder):
    cls = known.resolve("own_attackers:AllOn", folder)
    hm.check_attacker(cls)
    home = hm.synth.ready_home("evening")
    assert cls(home).predict([1.0, 2.0]).all()
    assert known.resolve("co") is hm.attackers["co"]


def test_a_lookup_never_imports_a_module(known, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(hm.errors.UnknownNameError, match="own_attackers:AllOn"):
        known["own_attackers:AllOn"]
    assert "own_attackers" not in sys.modules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no_such_module:X", "there is no module named 'no_such_module'"),
        ("own_attackers:X", "has no class 'X'"),
        ("own_attackers:", "has no class ''"),
        ("own_attackers:not_a_class", "needs a subclass"),
        ("own_attackers:Nameless", "must define name"),
        ("broken_attackers:X", "ZeroDivisionError"),
        ("needy_attackers:X", "No module named 'no_such_library'"),
        (":X", "cannot be imported"),
        ("nobody", "there is no attacker named 'nobody'"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(known, folder, text, message):
    with pytest.raises(hm.errors.InputError, match=message):
        known.resolve(text, folder)


def test_entry_points_add_attackers_and_replace_none(folder, monkeypatch):
    package = folder / "own_attackers-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own-attackers\nVersion: 1.0\n")
    lines = "all-on = own_attackers:AllOn\nco = own_attackers:AllOn\n"
    (package / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{lines}")
    monkeypatch.syspath_prepend(str(folder))
    known = AttackerRegistry()
    assert known["all-on"].__module__ == "own_attackers"
    assert known["co"] is hm.attackers["co"]
    assert list(known).count("co") == 1


def test_a_saved_own_attacker_is_read_by_its_class(tmp_path):
    home = hm.synth.ready_home("evening")
    Mine(home).save(tmp_path / "a.npz")
    assert np.array_equal(Mine.load(tmp_path / "a.npz").predict([1.0]), Mine(home).predict([1.0]))
