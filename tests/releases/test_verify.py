"""`verify` and signatures: a tampered receipt, a swapped file and a wrong key are found."""

from __future__ import annotations

import copy
import json
import shutil
from collections import Counter

import numpy as np
import pytest
from tests.apps.fleet.cases import new_ledger, release, small_fleet

import hushmeter as hm
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.releases.verify import make_signing_key

HOME = hm.synth.ready_home("evening").subset(["kettle", "heat pump"])
TRACE = hm.synth.trace(HOME, 2400, seed=1)
UNITS = {
    span: hm.resolve_unit("appliance", span, interval_s=6.0, home=HOME, every="10min")
    for span in ("reading", "run", "day")
}


def make_release(mechanism="laplace", span="run", epsilon=1.0, **options):
    unit = UNITS[span]
    return hm.release(TRACE, hm.calibrate(mechanism, epsilon, unit), unit, **options)


def edit(folder, *path, value):
    file = folder / "out.csv.receipt.json"
    fields = json.loads(file.read_text())
    inner = fields
    for name in path[:-1]:
        inner = inner[name]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    file.write_text(json.dumps(fields))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xml", "h5"])
@pytest.mark.parametrize("span", UNITS)
@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
def test_a_true_receipt_passes(tmp_path, mechanism, span, suffix):
    if suffix == "h5":
        pytest.importorskip("tables", reason="needs the extra nilmtk")
    make_release(mechanism, span).save(tmp_path / f"out.{suffix}")
    found = hm.verify(tmp_path / f"out.{suffix}")
    assert found.problems == ()
    assert found.passed
    assert len(found.checks) == 6


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xml", "h5"])
@pytest.mark.parametrize(("grid", "epsilon"), [("0.3", 1.0), ("1", 1e-5)])
def test_a_release_is_read_back_in_every_format(tmp_path, monkeypatch, suffix, grid, epsilon):
    if suffix == "h5":
        pytest.importorskip("tables", reason="needs the extra nilmtk")
    monkeypatch.chdir(tmp_path)
    unit = UNITS["run"]
    done = hm.release(TRACE, hm.calibrate("laplace", epsilon, unit, grid=grid), unit)
    done.save(f"out.{suffix}")
    assert hm.verify(f"out.{suffix}").problems == ()
    if abs(np.mean(done.trace.readings)) < 1e6:
        back = hm.read_meter(f"out.{suffix}")
        np.testing.assert_array_equal(back.times, done.trace.times)
        np.testing.assert_allclose(back.readings, done.trace.readings, rtol=1e-12, atol=1e-5)


@pytest.mark.parametrize("suffix", ["xml", "h5"])
def test_changed_readings_are_found_in_every_format(tmp_path, suffix):
    if suffix == "h5":
        pytest.importorskip("tables", reason="needs the extra nilmtk")
    path = tmp_path / f"out.{suffix}"
    done = make_release()
    done.save(path)
    step = float(done.promise.grid)
    hm.write_meter(path, done.trace.replace_readings(done.trace.readings + step), force=True)
    problems = hm.verify(path).problems
    assert len(problems) == 2
    assert problems[1] == f"{path} has another sha256 of its cells than its receipt states."


def test_exact_sums_of_days_do_not_fit_green_button(tmp_path):
    unit = hm.resolve_unit("appliance", "when", interval_s=6.0, home=HOME, every="10min")
    done = hm.release(TRACE, hm.calibrate("gaussian", 1.0, unit), unit, rng=0)
    with pytest.raises(InputError, match="keeps the sum of every day"):
        done.save(tmp_path / "out.xml")
    assert not list(tmp_path.iterdir())


def test_a_swapped_file_is_found(tmp_path):
    make_release(epsilon=0.1).save(tmp_path / "out.csv")
    make_release(epsilon=20.0).save(tmp_path / "other.csv")
    shutil.copy(tmp_path / "other.csv", tmp_path / "out.csv")
    found = hm.verify(tmp_path / "out.csv")
    assert not found.passed
    assert "is not the file of its receipt: its SHA-256 differs" in found.problems[0]


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("epsilon",), 0.1, "states epsilon = 0.1, but its own numbers give"),
        (("delta",), 0.5, "states delta = 0.5, but its own numbers give 0"),
        (("odds",), 0.5, "states odds = 0.5"),
        (("errors", "hour_w"), 1.0, "states errors.hour_w = 1.0"),
        (("unit", "l1"), 1.0, "states unit.l1 = 1.0, but its own numbers give"),
        (("unit", "touches"), 1, "states unit.touches = 1"),
        (("unit", "changes", 0, "watt_hours"), 1e9, "is more than its power times its length"),
        (("unit", "changes", 1, "watt_hours"), 1e-3, "states unit.sentence"),
        (("unit", "changes", 0, "watts"), 1.0, "is more than its power times its length"),
        (("unit", "changes", 0, "watts"), 1e6, "states unit.sentence"),
        (("unit", "sentence"), "everything", "states unit.sentence = everything, but its own"),
        (("unit", "resolution_w"), -1.0, "states unit.l1|resolution_w must"),
        (("unit", "promise"), "all", "other entries in unit than this version writes"),
        (("tables", 0, "noise", "certified"), True, "other entries in tables"),
        (("certificate",), "yes", "the entry 'certificate' is missing or unknown"),
        (("sources",), ["an oracle"], "an unknown origin of its numbers"),
        (("sources",), ["typed", "typed"], "an unknown origin of its numbers"),
        (("unit", "window"), 50, "other readings of a cell than its length"),
        (("unit", "l2"), 1e9, "states unit.l2"),
        (("unit", "l1"), None, "other entries in unit than this version writes"),
        (("unit", "touches"), "many", "states unit.touches = many"),
        (("tables", 0, "noise", "scale"), 1.0, "noise.scale = 1.0"),
        (("tables", 0, "noise", "parameters", "epsilon"), "1/100", "but its own numbers give"),
        (("tables", 0, "noise", "parameters", "epsilon"), "x", "epsilon must be"),
        (("tables", 0, "noise", "mechanism"), "uniform", "no mechanism named 'uniform'"),
        (("tables", 0, "noise", "parameters", "grid"), "7", "no multiples of the grid"),
        (("tables", 0, "share"), 0.5, "share = 0.5, but its own numbers give 1"),
        (("tables", 0, "table"), "weeks", "missing or impossible entry ('weeks')"),
        (("cells", "zone"), "Europe/Atlantis", "time zone such as"),
        (("cells", "clamp"), [0, 1], "states cells.clamp = [0, 1]|other entries|another number"),
        (("output", "readings"), 23, "another readings of its cells than its receipt states"),
        (("output", "start"), "2024-01-14T00:00:00Z", "another start of its cells"),
        (("output", "interval_s"), 7.0, "times that do not fit the interval"),
        (("output", "sha256"), "0" * 64, "another sha256 of its cells"),
        (("files", "out.csv", "sha256"), "0" * 64, "its SHA-256 differs"),
        (("files", "out.csv", "bytes"), 1, "another size"),
        (("kind",), "simulation", "is a simulation, not a release"),
    ],
)
def test_a_tampered_receipt_is_found(tmp_path, path, value, sentence):
    make_release().save(tmp_path / "out.csv")
    edit(tmp_path, *path, value=value)
    try:
        problems = hm.verify(tmp_path / "out.csv").problems
    except DataError as error:
        problems = (str(error),)
    wanted = sentence.split("|")
    assert any(one in problem for one in wanted for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


def test_a_name_that_occurs_twice_is_refused_though_the_signature_is_valid(tmp_path):
    """Python takes the last value, another program the first: both would believe a signature."""
    private, public = make_signing_key(tmp_path / "mine")
    make_release().save(tmp_path / "out.csv", signing_key=private)
    receipt = tmp_path / "out.csv.receipt.json"
    text = receipt.read_text()
    for name in ('"epsilon": ', '"sentence": '):
        place = text.index(name)
        receipt.write_text(text[:place] + f'{name}"0.001", ' + text[place:])
        with pytest.raises(DataError, match="an object has a name twice"):
            hm.verify(tmp_path / "out.csv", key=public)


def test_a_manifest_must_promise_what_was_asked(tmp_path):
    folder = tmp_path / "out"
    release(small_fleet(tmp_path), folder, new_ledger(tmp_path))
    text = (folder / "manifest.json").read_text()
    facts = json.loads(text)
    facts["promise"]["unit"]["sentence"] = "everything"
    (folder / "manifest.json").write_text(json.dumps(facts))
    # Every file carries a digest of the public facts, and the promise is made again.
    assert any("sentence" in problem for problem in hm.verify(folder).problems)
    (folder / "manifest.json").write_text(text.replace('"rows"', '"rows": 1, "rows"', 1))
    with pytest.raises(DataError, match="is not the manifest of a fleet"):
        hm.verify(folder)


def test_several_appliances_are_not_promised_as_any_use(tmp_path):
    """A charger of 7.2 kW and a pump of 3 kWh do not protect 7.2 kW for 3 kWh."""
    home = hm.Home(
        [hm.Appliance("kettle", 7200.0, run_s=60.0), hm.Appliance("pump", 500.0, run_s=21_600.0)],
        tolerance=20.0,
    )
    trace = hm.Trace(np.full(48, 300.0), 1800.0, "2024-01-01T00:00Z")
    unit = hm.resolve_unit("appliance", "run", interval_s=1800.0, home=home)
    done = hm.release(trace, hm.calibrate("laplace", 1, unit), unit, home=home)
    assert done.receipt.unit["sentence"].startswith(
        "any one of 2 planned uses of up to 3 kWh and 7.2 kW"
    )
    done.save(tmp_path / "out.csv")
    assert hm.verify(tmp_path / "out.csv").passed


def test_a_simulation_does_not_pass(tmp_path):
    make_release(rng=1).save(tmp_path / "out.csv")
    assert "is a simulation" in hm.verify(tmp_path / "out.csv").problems[0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not a JSON file"),
        ("[1]", "is not a public receipt of this version"),
        ('{"schema": "hushmeter-receipt-1"}', "is not a public receipt of this version"),
        ('{"schema": "hushmeter-receipt-2"}', "is not a public receipt of this version"),
        ('{"schema": "hushmeter-views-receipt-1"}', "is not a public receipt of this version"),
        ('{"schema": "hushmeter-receipt-3"}', "is not a complete receipt: "),
        ('{"schema": "hushmeter-receipt-3", "epsilon": NaN}', "is not a JSON file"),
        ("[" * 100_000, "is not a JSON file"),
    ],
)
def test_what_is_no_receipt_is_refused(tmp_path, text, sentence):
    make_release().save(tmp_path / "out.csv")
    (tmp_path / "out.csv.receipt.json").write_text(text)
    with pytest.raises(DataError, match=sentence):
        hm.verify(tmp_path / "out.csv")


@pytest.mark.parametrize("schema", ["hushmeter-receipt-2", "hushmeter-views-receipt-1"])
def test_a_folder_of_an_older_schema_is_one_sentence(tmp_path, schema):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "receipt.json").write_text(json.dumps({"schema": schema}))
    for read in (hm.verify, hm.read_release):
        with pytest.raises(DataError, match=r"is not a public receipt of this version \(hushm.*-3"):
            read(tmp_path / "out")


def test_missing_files_are_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        hm.verify(tmp_path / "none.csv")
    (tmp_path / "lone.csv").write_text("timestamp,watts\n")
    with pytest.raises(DataError, match=r"lone\.csv\.receipt\.json cannot be read"):
        hm.verify(tmp_path / "lone.csv")
    with pytest.raises(DataError, match=r"has no manifest\.json"):
        hm.verify(tmp_path)


def test_a_signed_manifest(tmp_path):
    """Entries that nothing in the folder follows from are covered by the signature."""
    private, public = make_signing_key(tmp_path / "publisher")
    folder, ledger = tmp_path / "out", new_ledger(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        release(small_fleet(tmp_path), folder, ledger, signing_key=tmp_path / "none.key")
    assert not folder.exists()
    release(tmp_path / "in", folder, ledger, signing_key=private)
    assert hm.verify(folder, key=public).checks[-1] == "The manifest is signed with the given key."
    whole = (folder / "manifest.json").read_text()
    for place, value in (("finished", "2020-01-01"), ("ledger_head", "9:x"), ("quarantine", {})):
        facts = json.loads(whole)
        facts[place] = value or {**facts[place], "blocks": 7}
        (folder / "manifest.json").write_text(json.dumps(facts))
        assert "does not fit the manifest" in hm.verify(folder, key=public).problems[-1]
    facts = json.loads(whole)
    del facts["signature"]
    (folder / "manifest.json").write_text(json.dumps(facts))
    assert "is not signed" in hm.verify(folder, key=public).problems[-1]
    assert hm.verify(folder).passed


def test_a_manifest_that_names_a_file_outside_its_folder_is_refused(tmp_path):
    folder = tmp_path / "out"
    release(small_fleet(tmp_path), folder, new_ledger(tmp_path))
    assert hm.verify(folder).passed
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][0]["file"] = "../x"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"names a file outside its folder: '\.\./x'"):
        hm.verify(folder)


def test_signed_receipts(tmp_path):
    private, public = make_signing_key(tmp_path / "mine")
    assert private.stat().st_mode & 0o077 == 0
    make_release().save(tmp_path / "out.csv", signing_key=private)
    assert hm.verify(tmp_path / "out.csv", key=public).passed
    assert "valid for the key that the receipt names" in hm.verify(tmp_path / "out.csv").checks[-1]
    _, other = make_signing_key(tmp_path / "other")
    wrong = hm.verify(tmp_path / "out.csv", key=other)
    assert "signed with another key" in wrong.problems[0]
    edit(tmp_path, "version", value="9.9")
    assert "does not fit the receipt" in hm.verify(tmp_path / "out.csv", key=public).problems[0]
    edit(tmp_path, "signature", "value", value="no base64!")
    assert "cannot be read" in hm.verify(tmp_path / "out.csv", key=public).problems[0]


def test_an_unsigned_receipt_is_not_confirmed_by_a_key(tmp_path):
    _, public = make_signing_key(tmp_path / "mine")
    make_release().save(tmp_path / "out.csv")
    assert "is not signed" in hm.verify(tmp_path / "out.csv", key=public).problems[0]


def test_a_key_that_is_no_key_is_one_sentence(tmp_path):
    (tmp_path / "bad.key").write_text("no key")
    with pytest.raises(InputError, match="is not an Ed25519 private key"):
        make_release().save(tmp_path / "out.csv", signing_key=tmp_path / "bad.key")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.key"]
    with pytest.raises(HushmeterError, match="cannot be read"):
        make_release().save(tmp_path / "out.csv", signing_key=tmp_path / "none.key")
    with pytest.raises(DataError, match="exists; choose another name"):
        make_signing_key(tmp_path / "bad")


# Every leaf of every kind of receipt -----------------------------------------------------------

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
PEAK = "peak = 16:00-21:00"
ROUNDED, COUNTED = hm.Metering(resolution_w=1.0), hm.Metering(register_step_w=1.0)
KINDS = {
    "laplace": (None, {"span": "run", "mechanism": "laplace"}, "out.csv"),
    "range": (
        None,
        {"protect": "range", "span": "reading", "clamp": (0, 9000), "mechanism": "staircase"},
        "out.csv",
    ),
    "when": (ROUNDED, {"span": "when", "mechanism": "gaussian"}, "out.csv"),
    "when, exact": (COUNTED, {"span": "when", "mechanism": "gaussian"}, "out.csv"),
    "views": (None, {"tables": ("views",)}, "out"),
    "bands": (None, {"tables": ("hours", "days", PEAK), "clamp": (0, 9000)}, "out"),
    "no cells": (None, {"tables": ("days", PEAK)}, "out"),
    "several uses": (None, {"tables": ("views",), "home": HOME, "span": "run"}, "out"),
    **{
        f"hide {wish}": (None, {"hide": wish, "home": None, "epsilon": None}, "out")
        for wish in ("when we get up", "which days we are away", "that we are away", "kettle")
    },
}
HARMLESS = {
    # The same lengths, ε and sentence follow: the promise holds for this use as well.
    ("changed", "watts"),
    ("changed", "seconds"),
    ("changed", "unit.readings"),
    # A little more use on a usual day changes no odds that are already certain.
    ("changed", "day_watt_hours"),
    # Limits and allowances that were asked for; the noise itself does not follow from them.
    ("changed", "max_epsilon"),
    ("changed", "touches"),
    ("changed", "on_grid"),
    ("changed", "hourly_cost"),
    # Without it, the same σ follows from ε and the length of the table.
    ("removed", "sigma_steps"),
    # No published number follows from the clamp of several tables, unless it is protected.
    ("changed", "bands cells.clamp.0"),
    ("changed", "bands cells.clamp.1"),
    # A single register moves no sum of a day, and a reading that moves with its day no sum of a
    # month, so that the same exact sums follow.
    ("changed", "hide when we get up unit.register_step_w"),
    ("changed", "hide which days we are away unit.resolution_w"),
    # What the publisher says about the origin of its numbers and about its program. Nothing that is
    # published follows from it, and the signature covers it.
    ("removed", "hide that we are away sources.0"),
    ("removed", "hide that we are away sources.1"),
    ("changed", "version"),
    ("changed", "despite"),
    ("changed", "hide when we get up cells.left_out"),
    ("changed", "hide which days we are away cells.left_out"),
}


def leaves(node, path=()):
    """The places and values of all leaves of a document."""
    inner = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inner:
        if isinstance(value, dict | list) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def other_value(value):
    """A value of the same type that differs by little."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else 1.001 * value + 1e-3
    return f"{value}x" if isinstance(value, str) else 1


def with_change(fields, path, change):
    fields = copy.deepcopy(fields)
    inner = fields
    for key in path[:-1]:
        inner = inner[key]
    if change == "removed":
        del inner[path[-1]]
    else:
        inner[path[-1]] = other_value(inner[path[-1]])
    return fields


def is_harmless(kind, path, change):
    place = ".".join(map(str, path))
    names = (place, path[-1], f"{kind} {place}")
    return any((change, name) in HARMLESS for name in names)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_leaf_of_a_receipt_is_checked(tmp_path, kind, every):
    metering, request, name = KINDS[kind]
    # A wish about days needs whole months.
    readings = np.random.default_rng(0).gamma(1.0, 300.0, 744 if "hide" in kind else 72).round()
    trace = hm.Trace(readings, 3600.0, "2024-03-01T00:00Z", metering=metering or hm.Metering())
    given, facts = hm.Request(**{"epsilon": 1, "home": KETTLE, **request}), hm.metered(trace)
    asked = given.as_calendar(facts) if "hide" in kind else given
    asked.resolve(facts).release(trace).save(tmp_path / name)
    file = tmp_path / (f"{name}.receipt.json" if "." in name else f"{name}/receipt.json")
    text = file.read_text()
    fields = json.loads(text)
    assert hm.verify(tmp_path / name).problems == ()

    def is_found():
        try:
            return not hm.verify(tmp_path / name).passed
        except DataError:
            return True

    counts = Counter()
    # Each kind begins at another leaf.
    for path, _ in list(leaves(fields))[list(KINDS).index(kind) % every :: every]:
        for change in ("changed", "removed"):
            file.write_text(json.dumps(with_change(fields, path, change)))
            found = is_found()
            assert found or is_harmless(kind, path, change), (change, path)
            counts[change, found] += 1
        if isinstance(path[-1], str):
            # The name of the leaf occurs twice in its object.
            mark = f'"{path[-1]}": '
            file.write_text(text.replace(mark, f"{mark}null, {mark}", 1))
            assert is_found(), path
            counts["repeated", True] += 1
    print(kind, dict(counts))  # noqa: T201


def test_the_zone_of_cells_alone_changes_nothing(tmp_path):
    """It says how days would be added up, which a file of cells does not publish."""
    make_release().save(tmp_path / "out.csv")
    edit(tmp_path, "cells", "zone", value="Europe/Berlin")
    assert hm.verify(tmp_path / "out.csv").passed
