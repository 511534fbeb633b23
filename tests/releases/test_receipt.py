"""Both parts of a receipt, and where the numbers behind the noise come from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.home import LearntFrom
from hushmeter.privacy.units import with_longest_runs
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.private_receipt import appliance_lines
from hushmeter.releases.receipt import digest
from hushmeter.releases.verify import make_signing_key

HOME = hm.synth.ready_home("evening")
TRACE = hm.synth.trace(HOME, 2400, seed=3)
UNIT = hm.resolve_unit(interval_s=6.0, home=HOME)


def learnt_home(start, end, sha256="0f" * 32):
    kettle = hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt")
    return hm.Home([kettle], 11.0, learnt_from=LearntFrom(sha256, start, end))


def release_run(home, **options):
    unit = hm.resolve_unit("appliance", "run", interval_s=6.0, home=home, every="30min")
    return hm.release(TRACE, hm.calibrate("laplace", 1.0, unit), unit, home=home, **options)


def test_the_public_part_is_json():
    done = hm.release(TRACE, hm.Laplace("0.5", 7200), UNIT, home=HOME, rng=2)
    fields = json.loads(done.receipt.to_json())
    assert fields["schema"] == "hushmeter-receipt-3"
    assert fields["version"] == hm.__version__
    assert fields["tables"][0]["noise"]["mechanism"] == "laplace"
    assert fields["words"] == ["cells"]
    assert fields["output"]["readings"] == 2400
    assert fields["output"]["sha256"] == digest(done.trace)
    assert fields["sources"] == ["typed"]
    assert fields["files"] == {}


SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "receipt.schema.json").read_text())


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
@pytest.mark.parametrize("span", ["reading", "run", "day"])
def test_real_receipts_follow_the_documented_schema(tmp_path, mechanism, span):
    check = jsonschema_rs.Draft202012Validator(SCHEMA)
    unit = hm.resolve_unit("appliance", span, interval_s=6.0, home=HOME, every="30min")
    noise = hm.calibrate(mechanism, 0.7, unit, clamp=(0, 20_000) if span == "run" else None)
    done = hm.release(TRACE, noise, unit)
    check.validate(done.receipt.to_dict())
    private, _ = make_signing_key(tmp_path / "mine")
    done.save(tmp_path / "out.csv", signing_key=private)
    written = json.loads((tmp_path / "out.csv.receipt.json").read_text())
    check.validate(written)
    assert set(written) == set(SCHEMA["properties"])
    assert not check.is_valid(written | {"home": "ours"})
    assert not check.is_valid({k: v for k, v in written.items() if k != "epsilon"})


@pytest.mark.parametrize(
    "tables", [("views",), ("hours", "days", "peak = 16:00-21:00"), ("days", "months"), ("days",)]
)
def test_receipts_of_tables_follow_the_same_schema(tmp_path, tables):
    check = jsonschema_rs.Draft202012Validator(SCHEMA)
    trace = hm.Trace(np.full(96, 300.0), 3600.0, "2024-03-01T00:00Z")
    request = hm.Request(hide="kettle", tables=tables, clamp=(0, 20_000))
    request.resolve(hm.metered(trace)).release(trace).save(tmp_path / "out")
    check.validate(json.loads((tmp_path / "out" / "receipt.json").read_text()))


@pytest.mark.parametrize("step", [1.0, 0.0])
def test_receipts_of_when_follow_the_same_schema(step):
    metering = hm.Metering(resolution_w=step, register_step_w=1.0 - step)
    trace = hm.Trace(np.full(96, 300.0), 3600.0, "2024-03-01T00:00Z", metering=metering)
    request = hm.Request(hide="kettle", span="when", mechanism="gaussian", every="1h")
    done = request.resolve(hm.metered(trace)).release(trace)
    jsonschema_rs.Draft202012Validator(SCHEMA).validate(done.receipt.to_dict())
    assert (done.receipt.tables[1]["noise"] is None) == (step == 0)
    # Sums without noise are exact.
    assert (done.receipt.errors["day_kwh"] == 0) == (step == 0)


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        ({}, []),
        ({"tables": ["days"]}, []),
        ({"tables": ["days", "months"]}, ["days", "months"]),
        ({"tables": VIEWS}, list(VIEWS)),
        # The sums of its days have noise of the same budget, not a share of it.
        ({"span": "when", "mechanism": "gaussian", "every": "1h"}, []),
    ],
)
def test_the_text_states_the_shares_of_tables_that_divide_the_budget(request_, names):
    metering = hm.Metering(resolution_w=1.0)
    trace = hm.Trace(np.full(96, 300.0), 3600.0, "2024-03-01T00:00Z", metering=metering)
    promise = hm.Request(hide="kettle", **request_).resolve(hm.metered(trace))
    receipt = promise.release(trace).receipt
    found = re.findall(r"(\S+) (\S+) % \(σ (\S+) W\)", str(receipt))
    assert [name for name, _, _ in found] == names
    assert ("shares of the budget: " in str(receipt)) == bool(names)
    assert str(receipt).count("noise: gaussian") == 1
    if names:
        assert sum(float(share) for _, share, _ in found) == pytest.approx(100, abs=0.3)
        wide = [entry["noise"]["scale"] for entry in receipt.tables]
        assert [float(sigma) for _, _, sigma in found] == pytest.approx(wide, rel=5e-4)


def test_the_private_part_has_the_account_of_every_appliance():
    done = hm.release(TRACE, hm.Laplace("0.5", 7200), UNIT, home=HOME, rng=2)
    kettle = next(a for a in done.private.appliances if a.name == "kettle")
    assert kettle.run.basic == pytest.approx(kettle.run.readings * kettle.reading.basic, rel=0.05)
    assert kettle.day.pld < kettle.day.basic
    text = str(done)
    assert "protected: whether any one appliance is on (up to 7200 W)" in text
    table = appliance_lines(done.private.appliances)[: 1 + len(HOME.appliances)]
    assert "\n".join(table) in text
    head = ["right guesses out of 100", "one reading", "one run", "one day"]
    assert re.split("  +", table[0]) == head
    for line, name in zip(table[1:], HOME.names, strict=True):
        assert line.startswith(f"  {name} (")
    # The columns are as wide as their longest entry.
    assert {len(line) for line in table} == {len(table[0])}
    assert "kettle (2100 W)" in text
    fields = done.private.to_dict(done.receipt)
    assert fields["schema"] == "hushmeter-private-receipt-3"
    assert fields["home"]["name"] == HOME.name
    assert fields["input"]["sha256"] == digest(TRACE)


@pytest.mark.parametrize("span", ["reading", "run", "day"])
@pytest.mark.parametrize("appliance", [None, "washing machine"])
def test_the_public_part_names_nothing_of_the_home(span, appliance):
    unit = hm.resolve_unit(
        "appliance", span, interval_s=6.0, home=HOME, appliance=appliance, every="30min"
    )
    done = hm.release(TRACE, hm.calibrate("gaussian", 1.0, unit), unit, home=HOME, rng=0)
    public = done.receipt.to_json().lower() + str(done.receipt).lower()
    for name in (*HOME.names, HOME.name):
        assert name not in public
    assert digest(TRACE) not in public


def test_the_public_part_is_the_same_for_neighbouring_readings():
    """Only the digests of the released data may differ."""
    spike = TRACE.readings.copy()
    spike[100] += 40.0
    one, two = (
        hm.release(trace, hm.calibrate("laplace", 1.0, UNIT), UNIT, home=HOME).receipt.to_dict()
        for trace in (TRACE, TRACE.replace_readings(spike))
    )
    for fields in (one, two):
        del fields["output"]["sha256"]
    assert one == two


@pytest.mark.parametrize("kind", ["laplace", "staircase", "gaussian"])
@pytest.mark.parametrize("span", ["reading", "run", "day"])
def test_the_promised_epsilon_is_that_of_the_calibration(kind, span):
    unit = hm.resolve_unit("appliance", span, interval_s=6.0, home=HOME, every="30min")
    mechanism = hm.calibrate(kind, 0.7, unit)
    done = hm.release(TRACE, mechanism, unit, home=HOME, rng=0)
    assert done.receipt.epsilon == pytest.approx(0.7, rel=1e-9)
    assert done.receipt.epsilon == mechanism.epsilon_of(unit)


def test_watts_and_watt_hours_of_a_run():
    kettle = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], 20.0)
    done = release_run(kettle)
    (change,) = done.receipt.unit["changes"]
    assert change == {"watts": 2100.0, "seconds": 180.0, "watt_hours": pytest.approx(105.0)}
    assert done.receipt.unit["l1"] == pytest.approx(210.0)


def test_learnt_numbers_are_rounded_up_and_recorded():
    done = release_run(learnt_home("2023-12-01T00:00:00Z", "2023-12-31T00:00:00Z"))
    assert done.receipt.sources == ("learnt from other days",)
    power = done.private.parameters[0]
    assert power == {
        "name": "power of the kettle",
        "value": 2087.0,
        "used": 2500.0,
        "unit": "W",
        "source": "learnt from other days",
    }
    assert done.private.parameters[1]["used"] == 200.0


def test_a_small_change_of_a_learnt_number_changes_no_noise():
    """Two homes learnt from days that differ by 40 W in one reading get the same receipt."""
    span = LearntFrom("0f" * 32, "2023-12-01T00:00:00Z", "2023-12-31T00:00:00Z")
    receipts = []
    for watts in (2087.0, 2127.0):
        kettle = hm.Appliance("kettle", watts, run_s=171.0, source="learnt")
        done = release_run(hm.Home([kettle], 11.0, learnt_from=span), key=bytes(32))
        receipts.append(done.receipt.to_dict())
    assert receipts[0] == receipts[1]


@pytest.mark.parametrize(
    "home",
    [
        learnt_home("2024-01-15T00:00:00Z", "2024-01-20T00:00:00Z"),
        learnt_home("2023-12-01T00:00:00Z", "2023-12-02T00:00:00Z", digest(TRACE)),
        hm.Home([hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt")], 11.0),
    ],
    ids=["same time", "same readings", "unknown time"],
)
def test_numbers_learnt_from_the_same_readings_need_consent(home):
    with pytest.raises(InputError, match="power of the kettle was learnt from these readings"):
        release_run(home)
    agreed = release_run(home, accept_learnt=True)
    assert agreed.private.parameters[0]["source"] == "learnt from these readings"
    # The public part follows from times alone.
    same_time = home.learnt_from is None or home.learnt_from.overlaps(TRACE)
    learnt = "these readings" if same_time else "other days"
    for done in (agreed, release_run(home, rng=1)):
        assert done.receipt.sources == (f"learnt from {learnt}",)


def test_a_run_that_no_home_states_comes_from_readings():
    """`resolve_unit` takes it from a trace, and nobody knows from which."""
    home = hm.Home([hm.Appliance("kettle", 2000.0)], 11.0)
    states = (TRACE.readings > TRACE.readings.mean())[:, np.newaxis]
    seen = TRACE.derive(
        states=states, power=TRACE.readings[:, np.newaxis] * states, names=["kettle"]
    )
    known = with_longest_runs(home, seen)
    unit = hm.resolve_unit(span="run", interval_s=TRACE.interval_s, home=known)
    noise = hm.calibrate("laplace", 1, unit)
    with pytest.raises(InputError, match="length of a run of the kettle was learnt from these"):
        hm.release(TRACE, noise, unit, home=home)


def test_a_learnt_tolerance_is_rounded_up_too():
    home = learnt_home("2023-12-01T00:00:00Z", "2023-12-31T00:00:00Z")
    unit = hm.resolve_unit("fluctuation", interval_s=6.0, home=home)
    assert unit.largest == 6.25
    done = hm.release(TRACE, hm.calibrate("laplace", 1.0, unit), unit, home=home)
    assert done.private.parameters[0]["used"] == 12.5
    assert done.receipt.sources == ("learnt from other days",)


def test_the_private_part_states_the_largest_power():
    """One of four on-readings exceeds 150 W; at 1.5 kW the ε of the unit is ten times as large.

    Half of the power is not yet on.
    """
    fridge = hm.Appliance("fridge", 100.0, run_s=600.0, high=150.0, max_power=1500.0)
    home = hm.Home([fridge], 10.0)
    power = np.array([0.0, 100.0, 120.0, 1500.0, 140.0, 50.0])[:, None]
    trace = hm.Trace(power[:, 0], 60.0, power=power, states=power > 50, names=["fridge"])
    unit = hm.resolve_unit("appliance", "run", interval_s=60.0, home=home)
    released = hm.release(trace, hm.calibrate("laplace", 0.5, unit), unit, home=home)
    (entry,) = released.private.largest_powers
    assert entry["share"] == 0.25
    assert entry["epsilon"] == pytest.approx(5.0, rel=0.01)  # plus one step of the grid a value
    assert entry["sentence"] in str(released)
    assert entry["sentence"] in hm.explain(released)
    assert "25 % of the readings of the fridge while on exceed the 150 W" in entry["sentence"]
    bare = hm.Trace(trace.readings, 60.0)
    (entry,) = hm.release(
        bare, hm.calibrate("laplace", 0.5, unit), unit, home=home
    ).private.largest_powers
    assert entry["share"] is None
    assert entry["sentence"].startswith("Some of the readings")
    kettle = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], 10.0)
    unit = hm.resolve_unit("appliance", "run", interval_s=60.0, home=kettle)
    assert (
        hm.release(
            bare, hm.calibrate("laplace", 0.5, unit), unit, home=kettle
        ).private.largest_powers
        == ()
    )
