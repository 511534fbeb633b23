"""Central sums: exact, protected at the level of a household's day, and charged to every member."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.isotonic import IsotonicRegression
from tests.apps.fleet.cases import (
    REFERENCE,
    TERMS,
    digests,
    new_ledger,
    readings,
    release,
    release_sums,
    small_fleet,
    spends,
    write,
)

from hushmeter.apps.fleet import folders, sums
from hushmeter.apps.fleet.clipping import CLIPPED
from hushmeter.apps.fleet.folders import PrivateFolder
from hushmeter.apps.fleet.job import FleetJob
from hushmeter.apps.fleet.released_folder import summarise_fleet
from hushmeter.apps.fleet.sum_terms import TABLES, Run, SumTerms, protected_change, size_of
from hushmeter.apps.fleet.sums import isotonic
from hushmeter.apps.fleet.task import check_blocks, open_job_input
from hushmeter.apps.ledger import DayChange, Ledger, open_ledger
from hushmeter.errors import DataError, InputError
from hushmeter.privacy.sensitivity import Change, Table, every_cell, sensitivity

CLAMP = (0.0, 12_000.0)
ONE = SumTerms("1", CLAMP, ("group",))
PLAIN = SumTerms("1e7", CLAMP, ("group",), mechanism="laplace", max_epsilon=1e8)
"""Noise so small that the sums are exact."""


@pytest.fixture
def ledger(tmp_path):
    return new_ledger(tmp_path)


def frame(source):
    found = pd.concat([pq.read_table(p).to_pandas() for p in sorted(source.rglob("*.parquet"))])
    return found.astype({"meter": str, "group": str})


@pytest.mark.parametrize("every", ["hour", "day"])
def test_sums_agree_with_pandas(tmp_path, ledger, every):
    source = small_fleet(tmp_path, meters=120, days=3, files=4, interval_s=1800)
    terms = replace(PLAIN, every=every)
    table = release_sums(source, tmp_path / "out", terms, ledger=ledger).tables["sums"]
    true = frame(source)
    true["value"] = true["value"].clip(*CLAMP)
    true["start"] = true["time"].dt.floor({"hour": "h", "day": "D"}[every])
    grouped = true.groupby(["group", "start"])["value"].agg(["sum", "count", "mean"]).reset_index()
    assert table["group"].tolist() == grouped["group"].tolist()
    assert (table["start"].to_numpy() == grouped["start"].to_numpy()).all()
    assert table["readings"].tolist() == grouped["count"].tolist()
    assert table["energy_kwh"].to_numpy() == pytest.approx(grouped["sum"] / 2000, abs=0.02)
    assert table["mean_w"].to_numpy() == pytest.approx(grouped["mean"], abs=1)
    assert set(table["meters"]) == {50, 20}
    written = pq.read_table(tmp_path / "out/sums.parquet").to_pandas()
    assert np.array_equal(written["energy_kwh"], table["energy_kwh"])


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_noise_has_the_stated_error(tmp_path, ledger, mechanism):
    source = small_fleet(tmp_path, meters=200, days=20)
    exact = release_sums(source, tmp_path / "exact", PLAIN, ledger=ledger, stream="x").tables[
        "sums"
    ]
    terms = replace(ONE, mechanism=mechanism)
    noisy = release_sums(source, tmp_path / "out", terms, ledger=ledger, key=bytes(32)).tables[
        "sums"
    ]
    scaled = (noisy["energy_kwh"] - exact["energy_kwh"]) / noisy["energy_se_kwh"]
    n, kurtosis = scaled.size, {"laplace": 6, "gaussian": 3}[mechanism]
    bound = stats.norm.isf(5e-7)
    assert abs(scaled.mean()) < bound / math.sqrt(n)
    assert abs((scaled**2).mean() - 1) < bound * math.sqrt((kurtosis - 1) / n) + 1e-3


def exact_tables(folder, terms):
    """The exact numbers of every table [W, counts], for all groups of all levels."""
    keep = tuple(sorted(terms.by))
    job = FleetJob(terms, str(folder), str(folder / "out"), "l", "r", keep=keep, zone=terms.zone)
    found = sums.ExactSums()
    for path in sorted(folder.glob("*.parquet")):
        with open_job_input(job, path.name) as file:
            blocks = check_blocks(job, path.name, file)
            part = sums.add_up(job, file, blocks, blocks.bad)
        found.add(sums.ExactSums.from_plain(json.loads(json.dumps(part.to_plain()))))
    found.count(terms.class_edges, found.split.values())
    tables = {name: {} for name in found.tables}
    for name, cells in found.tables.items():
        for (path, column), numbers in cells.items():
            step = 1.0 if name == CLIPPED else float(terms.step)
            values = numbers if name == "quantiles" else [numbers[0] * step]
            for level in range(1, len(path) + 1):
                key = (path[:level], column)
                before = tables[name].get(key, np.zeros(len(values)))
                tables[name][key] = before + np.array(values)
    return tables


def differences(one, two):
    assert one.keys() == two.keys()
    return np.concatenate([one[key] - two[key] for key in one])


PERIOD = ("2024-03-01", "2024-03-03")
KETTLE = Run(2100.0, 5000.0, 1800.0)
CAPPED = {"cap_kwh": 9.0, "reference": REFERENCE}


def spoil_household_day(draw, interval_s, capped, ahead_s):
    """All readings that one civil day of up to 25 hours overlaps, or those of a day of the zone."""
    if capped:
        first = draw(st.integers(0, 2)) * 86_400 - ahead_s
        return range(max(first, 0) // interval_s, (first + 86_400) // interval_s), None
    begin = draw(st.integers(0, 95)) * 900
    end = begin + draw(st.integers(23, 25)) * 3600
    return range(begin // interval_s, -(-end // interval_s)), None


def spoil_household(draw, interval_s, capped, ahead_s):
    return range(3 * 86_400 // interval_s), None


def spoil_run(draw, interval_s, capped, ahead_s):
    """A run of full power, begun at any second, added to what the meter reads."""
    begin = draw(st.integers(0, 200_000))
    seconds = min(KETTLE.seconds, KETTLE.watt_hours * 3600 / KETTLE.watts)
    rows = range(
        begin // interval_s, min(int(begin + seconds) // interval_s + 1, 3 * 86_400 // interval_s)
    )
    added = []
    for row in rows:
        start = row * interval_s
        inside = min(start + interval_s, begin + seconds) - max(start, begin)
        added.append(KETTLE.watts * max(inside, 0) / interval_s)
    return rows, added


SPOILERS = {
    "household-day": spoil_household_day, "household": spoil_household, "run": spoil_run,
}  # fmt: skip


@given(data=st.data(), seed=st.integers(0, 2**32 - 1), extreme=st.booleans())
@settings(max_examples=100, deadline=None)
def test_one_unit_changes_every_table_by_at_most_its_sensitivity(
    tmp_path_factory, data, seed, extreme
):
    """Neighbouring fleets: one meter differs in one unit of protection."""
    unit_of = data.draw(st.sampled_from(sorted(SPOILERS)))
    interval_s = data.draw(st.sampled_from([900, 1800, 3600]))
    zones = {"UTC": 0, "Europe/Berlin": 3600} if unit_of == "household-day" else {"UTC": 0}
    zone = data.draw(st.sampled_from(sorted(zones)))
    terms = SumTerms(
        "1", CLAMP, data.draw(st.sampled_from([("group",), ("region", "group")])),
        every=data.draw(st.sampled_from(["hour", "day"])),
        grid=data.draw(st.sampled_from([None, "1", "50"])), unit_of=unit_of, tables=TABLES,
        days=PERIOD, run=KETTLE if unit_of == "run" else None, interval_s=interval_s,
        cap_kwh=None if unit_of == "run" else data.draw(st.sampled_from([None, 0.5, 20.0, 60.0])),
        reference=REFERENCE,
        tz=data.draw(st.sampled_from([None, "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu"])),
        zone=zone,
    )  # fmt: skip
    # A period is in one file, because the ledger refuses it in a second one.
    by_day = zone == "UTC" and data.draw(st.booleans())
    rng = np.random.default_rng(seed)
    columns = readings(meters=("a", "b"), days=3, interval_s=interval_s, seed=seed % 1000)
    columns["group"] = ["f1" if meter == "a" else "f2" for meter in columns["meter"]]
    columns["region"] = ["north"] * len(columns["meter"])
    other = dict(columns, value=list(columns["value"]))
    capped = terms.cap_kwh is not None
    rows, added = SPOILERS[unit_of](data.draw, interval_s, capped, zones[zone])
    for place, row in enumerate(rows):
        if added is not None:
            other["value"][row] = columns["value"][row] + added[place]
        elif extreme:
            columns["value"][row], other["value"][row] = -1e6, 1e6
        else:
            other["value"][row] = float(rng.uniform(-1e4, 3e4))
    found = []
    for name, table in (("one", columns), ("two", other)):
        folder = tmp_path_factory.mktemp(name)
        for day in {time.day for time in table["time"]} if by_day else (None,):
            rows = [i for i, time in enumerate(table["time"]) if day in (None, time.day)]
            part = {name: [values[i] for i in rows] for name, values in table.items()}
            write(folder / f"{day}.parquet", part)
        found.append(exact_tables(folder, terms))
    for table in (*TABLES, *([CLIPPED] if capped else [])):
        change = differences(found[0][table], found[1][table])
        size = size_of(terms, table, protected_change(terms))
        assert np.abs(change).sum() <= float(size.l1) * (1 + 1e-12)
        assert np.sqrt((change**2).sum()) <= float(size.l2) * (1 + 1e-12)
        assert np.count_nonzero(change) <= size.touches
        if extreme and unit_of == "household" and terms.cap_kwh is None:
            # The whole period is changed as much as it can be: the bound is attained.
            assert np.abs(change).sum() == pytest.approx(float(size.l1))


@pytest.mark.parametrize(
    ("watts", "cap_kwh", "hourly_w", "daily_kwh"),
    [
        (15_000, None, 75_000, 360.3),
        (9_000, None, 45_000, 216.2),
        (9_000, 60, 22_847, 60),
        (9_000, 40, 18_439, 40),
    ],
)
def test_a_household_day_is_a_change_of_a_table(watts, cap_kwh, hourly_w, daily_kwh):
    """A day's use that is present or absent, and one that replaces another (√2 within the day)."""
    energy = None if cap_kwh is None else cap_kwh * 3.6e6
    use = Change("day", watts, 25 * 3600, 3600.0, energy)
    days = Table("days", np.arange(72) // 24, 3)
    assert sensitivity(every_cell(72), use, Fraction(1)) == pytest.approx(hourly_w, rel=4e-4)
    assert sensitivity(days, use, Fraction(1)) / 1000 == pytest.approx(daily_kwh, rel=1e-3)
    replaced = 1.0 if cap_kwh is None else math.sqrt(2)
    for every, wanted in (("hour", replaced * hourly_w), ("day", 1000 * daily_kwh)):
        terms = SumTerms(
            "1", (0.0, watts), ("group",), every=every, cap_kwh=cap_kwh, reference=REFERENCE
        )
        # The sum of quarter hours is four times that of hours.
        size = size_of(terms, "sums", protected_change(terms))
        assert float(size.l2) / 4 == pytest.approx(wanted, rel=1e-3)
        if every == "day" and cap_kwh is not None:
            # A change within one UTC day moves the sum of this day and no other.
            assert size.l1 == size.l2


def test_days_above_the_cap_are_scaled_down_in_the_bytes(tmp_path, ledger):
    """Meter a has one day above 40 kWh and one below; b is small."""
    columns = readings(meters=("a", "b"), days=2)
    watts = np.array([2500.0] * 24 + [1000.0] * 24 + [100.0] * 48)
    watts[3] = 50_000.0
    columns |= {"value": watts.tolist(), "group": ["f"] * 96}
    write(tmp_path / "in/a.parquet", columns)
    terms = replace(PLAIN, cap_kwh=40.0, reference=REFERENCE, tables=("sums", "shape"))
    done = release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger)
    clamped = np.clip(watts[:24], *CLAMP)
    due = np.append(clamped * 40_000 / clamped.sum(), watts[24:48]) + 100
    found = pq.read_table(tmp_path / "out/sums.parquet").to_pandas()["energy_kwh"] * 1000
    assert found.to_numpy() == pytest.approx(due, abs=1)
    shape = done.tables["shape"]["mean_w"] * done.tables["shape"]["readings"]
    assert shape.to_numpy() == pytest.approx(due.reshape(2, 24).sum(axis=0), abs=3)
    assert "of which at most 40 kWh a day count" in done.manifest["promise"]["unit"]["sentence"]
    assert done.manifest["charge"]["unit"].endswith("as far as it lies in one UTC day")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cap_kwh": 9.0}, "give --reference 10kWh"),
        ({"cap_kwh": 0.0}, "cap must be positive"),
        (
            CAPPED | {"clamp": (-1.0, 9.0)},
            "the clamp must begin at 0 W",
        ),
        (
            CAPPED | {"unit_of": "run", "run": KETTLE},
            "the unit 'run' has none",
        ),
    ],
)
def test_a_cap_that_will_not_do(change, message):
    with pytest.raises(InputError, match=message):
        replace(ONE, **change)


@pytest.mark.parametrize("tables", [("sums",), TABLES, ("sums", "shape")])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "20", "3000"])
def test_the_tables_together_keep_the_promise(tables, epsilon):
    """ε/k each with Laplace noise; with Gaussian noise the squares of the lengths add up."""
    for mechanism in ("laplace", "gaussian", "best"):
        terms = replace(ONE, epsilon=epsilon, tables=tables, mechanism=mechanism, max_epsilon=1e5)
        promise = terms.promise
        assert 0.9 * float(epsilon) < promise.epsilon <= Fraction(epsilon)
        if promise.delta and len(tables) > 1 and epsilon == "1":
            ratios = [noise.steps / noise.scale * noise.grid for noise in promise.noises]
            mu = math.hypot(*ratios)
            spare = stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu)
            assert 0.99e-6 < spare <= 1e-6
    stds = [replace(terms, mechanism=m).promise.noise("sums").std for m in ("laplace", "gaussian")]
    assert len(tables) > 1 or promise.noise("sums").std == min(stds)


def test_the_price_protects_a_day_whatever_the_unit():
    day = SumTerms("1", CLAMP, ("group",), mechanism="laplace")
    clamped, use = DayChange.within(*CLAMP), DayChange(3000, 8000)
    assert day.price(clamped, 0.0) == (1_000_000, 0)
    month = replace(day, unit_of="household", days=("2024-01-01", "2024-01-31"))
    # 25 of 31·24 hours.
    assert month.price(clamped, 0.0).micro == math.ceil(25 / (31 * 24) * 1e6)
    run = replace(day, unit_of="run", run=Run(2000.0, 3600.0))
    # 8 kWh are 32 kW of quarter hours, and rounding adds a step to each of 100.
    noise = run.promise.noise("sums")
    steps = math.floor((32_000 + 100) / noise.grid)
    assert run.price(use, 0.0).micro >= 1e6 * steps / noise.steps
    assert run.price(use, 0.0).micro <= 1e6 * (steps + 200) / noise.steps
    for terms in (
        replace(day, tables=TABLES, mechanism="gaussian"),
        replace(day, cap_kwh=40.0, reference=REFERENCE),
        # A civil day may begin within a reading of an hour, and the unit counts that too.
        replace(day, interval_s=3600),
    ):
        paid = terms.price(clamped, 0.0)
        assert 999_000 < paid.micro <= 1_000_000
        assert paid.femto == (10**9 if terms.mechanism == "gaussian" else 0)
    with pytest.raises(InputError, match="choose a clamp within 0,1000"):
        day.price(DayChange.within(0, 1000), 0.0)


def test_shapes_agree_with_pandas(tmp_path, ledger):
    source = small_fleet(tmp_path, meters=70, days=3, files=3, interval_s=1800)
    terms = replace(PLAIN, tables=("shape",), tz="Europe/Berlin")
    done = release_sums(source, tmp_path / "out", terms, ledger=ledger)
    assert list(done.tables) == ["shape"]
    true = frame(source)
    true["value"] = true["value"].clip(*CLAMP)
    true["hour"] = true["time"].dt.tz_convert("Europe/Berlin").dt.hour
    grouped = true.groupby(["group", "hour"])["value"].agg(["mean", "count"]).reset_index()
    table = done.tables["shape"]
    assert (
        table[["group", "hour"]].to_numpy().tolist()
        == grouped[["group", "hour"]].to_numpy().tolist()
    )
    assert table["readings"].tolist() == grouped["count"].tolist()
    assert table["mean_w"].to_numpy() == pytest.approx(grouped["mean"], abs=1)


def test_quantiles_have_the_stated_error(tmp_path, ledger):
    """The interval contains the true quantile 95 times out of 100, and the bin is narrow."""
    source = small_fleet(tmp_path, meters=400, days=5, files=2, interval_s=1800)
    terms = SumTerms("2", CLAMP, ("group",), tables=("quantiles",), quantiles=(0.25, 0.5, 0.9))
    done = release_sums(source, tmp_path / "out", terms, ledger=ledger, key=bytes(32))
    table = done.tables["quantiles"]
    true = frame(source)
    true["value"] = np.floor(true["value"].clip(*CLAMP) + 0.5)
    true["start"] = true["time"].dt.floor("h")
    means = true.groupby(["group", "meter", "start"])["value"].mean().reset_index()
    means["hour"] = means["start"].dt.hour
    inside = []
    for row in table.itertuples():
        values = means[(means["group"] == row.group) & (means["hour"] == row.hour)]["value"]
        assert len(values) == row.values
        truth = np.quantile(values, row.quantile, method="inverted_cdf")
        inside.append(row.low_w <= truth <= row.high_w)
        assert row.low_w <= row.value_w <= row.high_w
    assert len(inside) == 8 * 24 * 3
    # The quantiles of one hour have the same noise.
    assert np.mean(inside) > 0.95 - 4.9 * math.sqrt(0.05 * 0.95 / (8 * 24))
    exact = replace(terms, epsilon="1e4", max_epsilon=1e7)
    sharp = release_sums(source, tmp_path / "x", exact, ledger=ledger, stream="x").tables[
        "quantiles"
    ]
    edges = np.array(terms.class_edges)
    for row in sharp.itertuples():
        place = np.searchsorted(edges, row.value_w)
        assert row.high_w - row.low_w <= edges[min(place + 1, 40)] - edges[max(place - 2, 0)]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_isotonic_regression_agrees_with_scikit_learn(values):
    wanted = IsotonicRegression().fit_transform(np.arange(len(values)), values)
    assert isotonic(np.array(values)) == pytest.approx(wanted, abs=1e-6)


def test_peaks_are_bounded(tmp_path, ledger):
    source = small_fleet(tmp_path, meters=100, days=3, files=1)
    exact = release_sums(source, tmp_path / "exact", PLAIN, ledger=ledger, stream="x").tables
    true = exact["sums"].groupby("group")["energy_kwh"].max()
    assert exact["peaks"]["peak_kw"].to_numpy() == pytest.approx(true.to_numpy())
    noisy = release_sums(source, tmp_path / "out", ONE, ledger=ledger).tables
    peaks, largest = noisy["peaks"], noisy["sums"].groupby("group")["energy_kwh"].max()
    assert peaks["peak_kw"].to_numpy() == pytest.approx(largest.to_numpy())
    margin = (peaks["peak_high_kw"] - peaks["peak_low_kw"])[0] / 2
    assert peaks["peak_low_kw"].to_numpy() == pytest.approx(largest.to_numpy() - margin)
    # No noise of all 72 hours is larger than the margin, at 95 % confidence.
    mechanism = replace(ONE, interval_s=3600).promise.noise("sums")
    noise = mechanism.sample(4000 * 72, rng=3).reshape(4000, 72) * mechanism.grid / 1000
    beyond = (np.abs(noise) > margin).any(axis=1).mean()
    assert 0.03 < beyond < 0.05 + 4.9 * math.sqrt(0.05 * 0.95 / 4000)


class Killed(BaseException):
    """A kill, as far as the code after it is concerned."""


def test_a_killed_job_is_resumed_with_the_same_bytes(tmp_path, monkeypatch):
    source = small_fleet(tmp_path, meters=30, days=2, files=3)
    terms = replace(ONE, tables=TABLES)
    same = {"key": bytes(32), "release": "r1"}
    undisturbed, whole = new_ledger(tmp_path, "one"), tmp_path / "whole"
    release_sums(source, whole, terms, ledger=undisturbed, **same)
    reference = digests(whole)
    assert sorted(reference) == [
        "peaks.parquet",
        "quantiles.parquet",
        "shape.parquet",
        "sums.parquet",
    ]
    places = [
        (sums, "add_up"), (PrivateFolder, "write_report"),
        (sums, "make_tables"), (PrivateFolder, "seal"), (Ledger, "mark_released"),
        (folders, "move"), (PrivateFolder, "destroy"),
    ]  # fmt: skip
    for number, (owner, name) in enumerate(places):
        url, output = new_ledger(tmp_path, f"l{number}"), tmp_path / f"out{number}"
        for left in (2, 1):
            with monkeypatch.context() as patch:
                calls = []
                original = getattr(owner, name)

                def killed(*args, calls=calls, original=original, left=left, **more):
                    calls.append(0)
                    if len(calls) == left:
                        raise Killed
                    return original(*args, **more)

                patch.setattr(owner, name, killed)
                with suppress(Killed):
                    release_sums(source, output, terms, ledger=url, resume=True, **same)
            if output.exists():
                assert digests(output).items() <= reference.items()
        done = release_sums(source, output, terms, ledger=url, resume=True)
        assert done.complete
        assert digests(output) == reference
        assert not (output / ".hushmeter").exists()
        assert sorted(spends(url)) == sorted(spends(undisturbed))
        with open_ledger(url) as opened:
            assert opened.verify() == []


def test_other_sums_get_other_noise(tmp_path):
    """Two versions of the data under one key would publish their difference."""
    found = []
    for name, value in (("a", 100.0), ("b", 101.0)):
        columns = readings(meters=("a",), days=1)
        columns["value"][0] = value
        columns["group"] = ["f"] * 24
        write(tmp_path / name / "in/a.parquet", columns)
        done = release_sums(
            tmp_path / name / "in", tmp_path / name / "out", ONE,
            ledger=new_ledger(tmp_path / name), key=bytes(32), release="r1",
        )  # fmt: skip
        found.append(done.tables["sums"]["energy_kwh"].to_numpy())
    assert (np.abs(found[0] - found[1])[1:] > 0).mean() > 0.9


def test_days_outside_the_period_are_left_out(tmp_path, ledger):
    write(tmp_path / "in/a.parquet", readings(days=4) | {"group": ["f"] * 192})
    terms = replace(PLAIN, days=("2024-03-02", "2024-03-03"), unit_of="household")
    dry = release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger, dry_run=True)
    assert (dry.manifest["released_blocks"], (tmp_path / "out").exists()) == (4, False)
    assert spends(ledger) == []
    done = release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger)
    assert done.manifest["quarantine"]["reasons"] == {"the day is outside the period": 4}
    assert sorted({day for _, day, _ in spends(ledger)}) == ["2024-03-02", "2024-03-03"]
    assert len(done.tables["sums"]) == 48
    assert (tmp_path / "out.quarantine.csv").exists()


@pytest.mark.slow
def test_workers_give_the_same_bytes(tmp_path):
    source = small_fleet(tmp_path, meters=20, days=2, files=4)
    found = []
    for jobs in (1, 2):
        output = tmp_path / f"out{jobs}"
        url = new_ledger(tmp_path, f"l{jobs}")
        release_sums(source, output, replace(ONE, tables=TABLES), ledger=url, jobs=jobs,
                     key=bytes(32), release="r1")  # fmt: skip
        found.append(digests(output))
    assert found[0] == found[1]


@pytest.mark.parametrize("homes", [10, 100, 1000])
def test_one_noise_is_better_than_the_noise_of_many_homes(tmp_path, ledger, homes):
    """The error of a feeder's hour against adding up released homes at the same ε of a day."""
    source = small_fleet(tmp_path, meters=homes, days=1, files=1)
    path = next(source.glob("*.parquet"))
    table = pq.read_table(path).to_pandas().assign(group="f")
    table.to_parquet(path)
    terms = replace(TERMS, epsilon="1", span="day")
    release(source, tmp_path / "homes", ledger, terms, keep=("group",))
    homes_se = summarise_fleet(tmp_path / "homes", "group", "hour").table["energy_se_kwh"]
    asked = replace(ONE, mechanism="laplace")
    sums_of = release_sums(source, tmp_path / "out", asked, ledger=ledger).tables["sums"]
    central = sums_of["energy_se_kwh"]
    assert homes_se[0] / central[0] >= math.sqrt(homes) / 1.2


def test_levels_are_joined_by_least_squares(tmp_path, ledger):
    columns = readings(meters=[f"m{i}" for i in range(6)], days=1)
    number = [int(meter[1:]) for meter in columns["meter"]]
    columns["feeder"] = [f"f{n // 2}" for n in number]
    columns["region"] = ["north" if n < 4 else "south" for n in number]
    write(tmp_path / "in/a.parquet", columns)
    terms = SumTerms("1", CLAMP, ("region", "feeder"))
    table = release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger).tables["sums"]
    assert table["group"].unique().tolist() == [
        "north", "south", "north/f0", "north/f1", "south/f2",
    ]  # fmt: skip
    for _, moment in table.groupby("start"):
        y = moment["energy_kwh"].to_numpy()
        a = np.array([[1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        x = np.linalg.lstsq(a, y, rcond=None)[0]
        assert moment["estimate_kwh"].to_numpy() == pytest.approx(a @ x)
        errors = np.sqrt(np.diag(a @ np.linalg.inv(a.T @ a) @ a.T))
        scale = moment["energy_se_kwh"].iloc[0]
        assert moment["estimate_se_kwh"].to_numpy() == pytest.approx(errors * scale)
    assert (table["estimate_se_kwh"] < table["energy_se_kwh"]).all()


def test_every_member_is_charged_and_refused_the_second_time(tmp_path, ledger):
    source = small_fleet(tmp_path, meters=4, days=2, files=2, interval_s=900)
    terms = replace(ONE, mechanism="gaussian")
    done = release_sums(source, tmp_path / "out", terms, ledger=ledger)
    assert done.complete
    assert len(spends(ledger)) == 8
    facts = json.loads((tmp_path / "out/manifest.json").read_text())
    assert facts == json.loads(json.dumps(done.manifest))
    assert facts["released_blocks"] == 8
    assert facts["charge"] == {
        "epsilon": "1", "micro_epsilon": 10**6, "femto_delta": 10**9,
        "unit": "any readings of a customer's day (up to 25 hours) between 0 W and 15 kW",
        "protects": {"clamp": [0, 15000]}, "composition_delta": 0,
    }  # fmt: skip
    with open_ledger(ledger) as opened:
        assert opened.balance("M00000000").spent == 2_000_000
        assert opened.balance("M00000000").delta_spent == 2 * 10**9
        assert opened.state_of(facts["release"], "part-0000.parquet") == "released"
        assert opened.verify() == []
        head = opened.head()
    again = release_sums(source, tmp_path / "again", ONE, ledger=ledger)
    assert not again.complete
    assert not (tmp_path / "again").exists()
    with open_ledger(ledger) as opened:
        assert opened.head() == head


def test_what_is_left_out_is_not_in_the_sums(tmp_path, ledger):
    columns = readings(meters=("a", "b"), days=1)
    columns["interval_s"][3] = 900
    columns["group"] = ["f"] * 48
    write(tmp_path / "in/a.parquet", columns)
    done = release_sums(tmp_path / "in", tmp_path / "out", PLAIN, ledger=ledger)
    assert not done.complete
    assert set(done.tables["sums"]["meters"]) == {1}
    assert done.tables["sums"]["mean_w"].to_numpy() == pytest.approx(columns["value"][24:], abs=1)


def test_small_groups_are_not_published(tmp_path, ledger):
    source = small_fleet(tmp_path, meters=60, days=1)
    terms = replace(PLAIN, min_meters=20)
    table = release_sums(source, tmp_path / "out", terms, ledger=ledger).tables["sums"]
    assert set(table["group"]) == {"feeder-00000"}
    assert len(spends(ledger)) == 60


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"every": "week"}, "every must be one of"),
        ({"mechanism": "staircase"}, "mechanism must be one of"),
        ({"by": ()}, "name one or more different columns"),
        ({"by": ("a", "a")}, "name one or more different columns"),
        ({"min_meters": 0}, "min_meters must be"),
    ],
)
def test_wrong_terms(change, message):
    with pytest.raises(InputError, match=message):
        replace(ONE, **change)


def test_folders_that_will_not_do(tmp_path, ledger):
    source = small_fleet(tmp_path, meters=2, days=1, files=1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    with pytest.raises(DataError, match="is not empty"):
        release_sums(source, tmp_path / "full", ONE, ledger=ledger)
    with pytest.raises(DataError, match="is not a folder"):
        release_sums(tmp_path / "nowhere", tmp_path / "out", ONE, ledger=ledger)
    release_sums(source, tmp_path / "out", replace(ONE, by=("feeder",)), ledger=ledger)
    assert "no single column 'feeder' to keep" in (tmp_path / "out.quarantine.csv").read_text()
    assert spends(ledger) == []
