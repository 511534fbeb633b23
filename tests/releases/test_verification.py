"""`verify` and signatures: a tampered receipt, a swapped file and a wrong key are found."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from tests.fleet.cases import new_ledger, release, small_fleet

import hushmeter as hm
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.releases.signing import make_signing_key

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
    step = float(done.receipt.mechanism["grid"])
    hm.write_meter(path, done.trace.replace_readings(done.trace.readings + step), force=True)
    problems = hm.verify(path).problems
    assert len(problems) == 2
    assert problems[1] == f"{path} has other readings than its receipt."


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
        (("epsilon",), 0.1, "states ε = 0.1, but its own numbers give 1"),
        (("delta",), 0.5, "states δ = 0.5"),
        (("unit", "l1"), 1.0, "but its own numbers give"),
        (("unit", "touches"), 1, "but its own numbers give"),
        (("unit", "watt_hours"), 1e9, "a change that cannot be"),
        (("unit", "watt_hours"), 1e-3, "a change that cannot be"),
        (("unit", "watts"), 1.0, "a change that cannot be"),
        (("unit", "watts"), 1e6, "but its numbers say: any planned use, up to"),
        (("unit", "sentence"), "everything", "states that it protects “everything”, but its num"),
        (("unit", "resolution_w"), -1.0, "a change that cannot be"),
        (("unit", "promise"), "all", "unknown entry 'promise' in its unit"),
        (("mechanism", "certified"), True, "unknown entry 'certified' in its mechanism"),
        (("certificate",), "yes", "unknown entry 'certificate' in the receipt"),
        (("sources",), ["an oracle"], "an unknown origin of its numbers"),
        (("unit", "window"), 50, "interval = 600"),
        (("unit", "l2"), 1e9, "a change that cannot be"),
        (("unit", "l1"), None, "missing or impossible entry"),
        (("unit", "touches"), "many", "touches must be a whole number"),
        (("mechanism", "scale"), 1.0, "states scale = 1.0 of the noise"),
        (("mechanism", "parameters", "epsilon"), "1/100", "of the noise, but its parameters"),
        (("mechanism", "parameters", "epsilon"), "x", "epsilon must be"),
        (("mechanism", "mechanism"), "uniform", "no mechanism named 'uniform'"),
        (("mechanism", "grid"), 7.0, "no multiples of the grid"),
        (("output", "readings"), 23, "has 24 rows, but its receipt 23"),
        (("output", "start"), "2024-01-14T00:00:00Z", "another first or last time"),
        (("output", "interval_s"), 7.0, "times that do not fit the interval"),
        (("output", "sha256"), "0" * 64, "has other readings than its receipt"),
        (("file", "sha256"), "0" * 64, "its SHA-256 differs"),
        (("file", "bytes"), 1, "another size"),
        (("kind",), "simulation", "is a simulation, not a release"),
    ],
)
def test_a_tampered_receipt_is_found(tmp_path, path, value, sentence):
    make_release().save(tmp_path / "out.csv")
    edit(tmp_path, *path, value=value)
    found = hm.verify(tmp_path / "out.csv")
    assert not found.passed
    assert any(sentence in problem for problem in found.problems), found.problems
    assert all("\n" not in problem for problem in found.problems)


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
    assert "promises something else" in hm.verify(folder).problems[0]
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
    assert done.receipt.unit["sentence"].startswith("any planned use, up to 3 kWh and 7.2 kW")
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
        ('{"schema": "hushmeter-receipt-2"}', "has no valid entry 'kind'"),
        ('{"schema": "hushmeter-receipt-2", "epsilon": NaN}', "is not a JSON file"),
        ("[" * 100_000, "is not a JSON file"),
    ],
)
def test_what_is_no_receipt_is_refused(tmp_path, text, sentence):
    make_release().save(tmp_path / "out.csv")
    (tmp_path / "out.csv.receipt.json").write_text(text)
    with pytest.raises(DataError, match=sentence):
        hm.verify(tmp_path / "out.csv")


def test_missing_files_are_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        hm.verify(tmp_path / "none.csv")
    (tmp_path / "lone.csv").write_text("timestamp,watts\n")
    with pytest.raises(DataError, match=r"lone\.csv\.receipt\.json cannot be read"):
        hm.verify(tmp_path / "lone.csv")
    with pytest.raises(DataError, match=r"has no manifest\.json"):
        hm.verify(tmp_path)


def test_a_manifest_that_names_a_file_outside_its_folder_is_refused(tmp_path):
    folder = tmp_path / "out"
    release(small_fleet(tmp_path), folder, new_ledger(tmp_path))
    assert hm.verify(folder).passed
    with pytest.raises(InputError, match="not the manifest of a folder"):
        hm.verify(folder, key="any.pub")
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
