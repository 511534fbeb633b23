"""A stream gives the same bytes as a release of the file, with the same key."""

import json

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.live.addresses import FolderSink
from hushmeter.errors import InputError
from hushmeter.privacy.units import allow_for_samples
from tests.apps.live.streams import KEY, Witness, make_terms, make_trace, run_table, write_table


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
def test_a_day_equals_the_release_of_its_file(tmp_path, mechanism):
    terms, trace, witness = make_terms(mechanism=mechanism), make_trace(1), Witness()
    table = write_table(tmp_path / "meter.csv", trace)
    sinks = [witness, lambda state: FolderSink(tmp_path / "out", terms, state)]
    log = run_table(table, terms, tmp_path / "s.db", sinks, new_key=lambda day: KEY)
    assert log == []
    released = terms.promise.release(trace, key=KEY)
    hours = witness.messages("window")
    assert [m["watts"] for m in hours] == released.trace.readings.tolist()
    assert [m["start"] for m in hours] == [f"2024-03-01T{h:02}:00:00Z" for h in range(24)]
    assert all(m["complete"] for m in hours)
    (day,) = witness.messages("day")
    assert day["kwh"] == pytest.approx(released.trace.energy_kwh, abs=1e-6)
    assert day["windows"] == day["due"] == 24
    file = tmp_path / "out" / "2024-03-01.csv"
    released.save(tmp_path / "file.csv")
    assert file.read_bytes() == (tmp_path / "file.csv").read_bytes()
    assert hm.verify(file).passed
    receipt = json.loads((tmp_path / "file.csv.receipt.json").read_text())
    own = json.loads((tmp_path / "out" / "2024-03-01.csv.receipt.json").read_text())
    receipt["files"] = {"2024-03-01.csv": receipt["files"]["file.csv"]}
    assert own == receipt


def test_gaps_follow_the_same_rule_as_a_file(tmp_path):
    trace = make_trace(1)
    present = np.ones(len(trace), dtype=bool)
    present[125:128] = False  # 95 % of an hour are left
    present[300:330] = False  # half of an hour is left
    part = trace.select(np.flatnonzero(present))
    terms, witness = make_terms(), Witness()
    table = write_table(tmp_path / "meter.csv", part)
    run_table(table, terms, tmp_path / "s.db", [witness], new_key=lambda day: KEY)
    released = terms.promise.release(part, key=KEY)
    hours = witness.messages("window")
    assert len(hours) == 24
    assert [m["watts"] for m in hours if m["watts"] is not None] == released.trace.readings.tolist()
    assert [m["share"] for m in hours if not m["complete"]] == [0.95, 0.5]
    assert hours[5]["watts"] is None
    assert not witness.messages("day")[0]["complete"]


def test_civil_days_and_months_of_a_zone(tmp_path):
    trace = make_trace(2.8, interval_s=900.0, start="2024-03-29T22:00Z")
    terms, witness = make_terms(interval_s=900.0, zone="Europe/Berlin"), Witness()
    table = write_table(tmp_path / "meter.csv", trace)
    run_table(table, terms, tmp_path / "s.db", [witness])
    days = witness.messages("day")
    # The stream begins at 23:00 local time; 31 March has 23 hours.
    assert [(d["day"], d["windows"], d["due"]) for d in days] == [
        ("2024-03-29", 1, 24),
        ("2024-03-30", 24, 24),
        ("2024-03-31", 23, 23),
    ]
    assert [d["complete"] for d in days] == [False, True, True]
    (month,) = witness.messages("month")
    assert month["month"] == "2024-03"
    assert month["windows"] == 48
    total = sum(m["watts"] for m in witness.messages("window")[:48]) / 1000
    assert month["kwh"] == pytest.approx(total, abs=1e-6)


def test_each_day_has_a_key_of_its_own(tmp_path):
    keys = {}

    def new_key(day):
        keys[day] = bytes([len(keys)]) * 32
        return keys[day]

    trace, terms, witness = make_trace(2), make_terms(), Witness()
    table = write_table(tmp_path / "meter.csv", trace)
    run_table(table, terms, tmp_path / "s.db", [witness], new_key=new_key)
    assert sorted(keys) == ["2024-03-01", "2024-03-02"]
    second = terms.promise.release(trace[1440:], key=keys["2024-03-02"])
    values = [m["watts"] for m in witness.messages("window")[24:]]
    assert values == second.trace.readings.tolist()


def test_a_simulation_repeats_and_says_so(tmp_path):
    trace, terms = make_trace(1), make_terms(seed=7)
    table = write_table(tmp_path / "meter.csv", trace)
    runs = []
    for name in ("a.db", "b.db"):
        witness = Witness()
        run_table(table, terms, tmp_path / name, [witness])
        runs.append(witness.messages("window"))
    assert runs[0] == runs[1]
    assert all(message["simulation"] for message in runs[0])


@pytest.mark.parametrize("run_s", [20.0, 60.0, 95.0, 121.0, 180.0])
def test_a_sampled_run_stays_within_the_sensitivity(run_s):
    """The one sample of a slot may lie anywhere in it, and the run too."""
    kettle = hm.Appliance("kettle", 2000.0, run_s=run_s, energy_wh=2000.0 * run_s / 7200)
    longer = allow_for_samples(kettle, 60.0)
    unit = hm.resolve_unit("appliance", "run", interval_s=60.0, every="1h", home=hm.Home([longer]))
    rng, worst = np.random.default_rng(1), 0
    for start in np.arange(0.0, 120.0, 0.5):
        samples = np.arange(0, 600, 60) + rng.choice([0.0, 0.5, 30.0, 59.5], size=(200, 10))
        worst = max(worst, ((samples >= start) & (samples < start + run_s)).sum(axis=1).max())
    assert worst == np.ceil(run_s / 60.0) + 1
    assert worst * 2000.0 / 60 <= unit.l1 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"every": "7min"}, "must divide a day"),
        ({"zone": "Mars/Base"}, "time zone"),
        ({"seed": -1}, "seed"),
        ({"heartbeat_s": 60.0}, "--heartbeat belongs to a meter that sends only changes"),
    ],
)
def test_terms_that_cannot_be_kept_are_refused(more, sentence):
    with pytest.raises(InputError, match=sentence):
        make_terms(**more)
