"""Central sums: exact, protected at the level of a household's day, and charged to every member."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.isotonic import IsotonicRegression
from tests.fleet.cases import (
    TERMS,
    digests,
    new_ledger,
    readings,
    release,
    small_fleet,
    spends,
    write,
)

from hushmeter.errors import DataError, InputError
from hushmeter.fleet import output_folder, sums
from hushmeter.fleet.job import FleetTerms
from hushmeter.fleet.output_folder import PrivateFolder
from hushmeter.fleet.statistics import summarise_fleet
from hushmeter.fleet.sum_tables import isotonic
from hushmeter.fleet.sum_terms import TABLES, Run, SumTerms, build_mechanism, day_price
from hushmeter.fleet.sums import release_sums
from hushmeter.fleet.task import check_blocks, open_input
from hushmeter.ledger import DayChange, Ledger, open_ledger

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
    table = release_sums(source, tmp_path / "out", terms, ledger=ledger).table
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
    exact = release_sums(source, tmp_path / "exact", PLAIN, ledger=ledger, stream="x").table
    terms = replace(ONE, mechanism=mechanism)
    noisy = release_sums(source, tmp_path / "out", terms, ledger=ledger, key=bytes(32)).table
    scaled = (noisy["energy_kwh"] - exact["energy_kwh"]) / noisy["energy_se_kwh"]
    n, kurtosis = scaled.size, {"laplace": 6, "gaussian": 3}[mechanism]
    bound = stats.norm.isf(5e-7)
    assert abs(scaled.mean()) < bound / math.sqrt(n)
    assert abs((scaled**2).mean() - 1) < bound * math.sqrt((kurtosis - 1) / n) + 1e-3


def exact_tables(folder, terms, interval_s):
    """The exact numbers of every table [W, counts], for all groups of all levels."""
    job = sums.SumsJob(
        FleetTerms("1", CLAMP, interval_s=interval_s), str(folder), str(folder / "out"), "l", "r",
        keep=tuple(sorted(terms.by)), sums=terms,
    )  # fmt: skip
    found = sums.ExactSums()
    for path in sorted(folder.glob("*.parquet")):
        with open_input(job, path.name) as file:
            blocks = check_blocks(job, path.name, file)
            part = sums._add_up(job, file, blocks, blocks.bad)
        found.add(sums.ExactSums.from_json(part.to_json()))
    found.count_split_hours(np.array(terms.class_edges))
    tables = {"sums": {}, "shape": {}, "quantiles": {}}
    parts = (("sums", found.sums), ("shape", found.shape), ("quantiles", found.counts))
    for name, cells in parts:
        for (path, column), numbers in cells.items():
            values = numbers if name == "quantiles" else [numbers[0] * float(terms.grid)]
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


def spoil_household_day(draw, columns, interval_s, rng):
    """All readings of one meter in a civil day of up to 25 hours, begun anywhere."""
    first = draw(st.integers(0, 95)) * 900 // interval_s
    return range(first, first + draw(st.integers(23, 25)) * 3600 // interval_s), None


def spoil_household(draw, columns, interval_s, rng):
    return range(3 * 86_400 // interval_s), None


def spoil_run(draw, columns, interval_s, rng):
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
    terms = SumTerms(
        "1", CLAMP, data.draw(st.sampled_from([("group",), ("region", "group")])),
        every=data.draw(st.sampled_from(["hour", "day"])),
        grid=data.draw(st.sampled_from(["1", "50"])), unit_of=unit_of, tables=TABLES,
        period=PERIOD, run=KETTLE if unit_of == "run" else None,
        tz=data.draw(st.sampled_from([None, "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu"])),
    )  # fmt: skip
    by_day = data.draw(st.booleans())
    rng = np.random.default_rng(seed)
    columns = readings(meters=("a", "b"), days=3, interval_s=interval_s, seed=seed % 1000)
    columns["group"] = ["f1" if meter == "a" else "f2" for meter in columns["meter"]]
    columns["region"] = ["north"] * len(columns["meter"])
    other = dict(columns, value=list(columns["value"]))
    rows, added = SPOILERS[unit_of](data.draw, columns, interval_s, rng)
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
        found.append(exact_tables(folder, terms, interval_s))
    for table in TABLES:
        change = differences(found[0][table], found[1][table])
        laplace, gaussian, best = (
            build_mechanism(replace(terms, mechanism=name), table, interval_s)
            for name in ("laplace", "gaussian", "best")
        )
        assert best.std == min(laplace.std, gaussian.std)
        assert np.abs(change).sum() <= float(laplace.exact_sensitivity) * (1 + 1e-12)
        assert np.sqrt((change**2).sum()) <= float(gaussian.exact_sensitivity) * (1 + 1e-12)
        assert np.count_nonzero(change) <= laplace.touches == gaussian.touches
        if extreme and unit_of == "household":
            # The whole period is changed as much as it can be: the bound is attained.
            assert np.abs(change).sum() == pytest.approx(float(laplace.exact_sensitivity))


def test_the_price_protects_a_day_whatever_the_unit():
    day = SumTerms("1", CLAMP, ("group",), mechanism="laplace")
    clamped, use = DayChange.within(*CLAMP), DayChange(3000, 8000)
    assert day_price(day, 900, clamped) == (1_000_000, 0)
    month = replace(day, unit_of="household", period=("2024-01-01", "2024-01-31"))
    # 25 of 31·24 hours.
    assert day_price(month, 900, clamped).micro == math.ceil(25 / (31 * 24) * 1e6)
    run = replace(day, unit_of="run", run=Run(2000.0, 3600.0))
    # 8 kWh are 32 kW of quarter hours, and rounding adds a step to each of 101.
    noise = build_mechanism(run, "sums", 900)
    steps = math.floor((32_000 + 101) / noise.grid)
    assert day_price(run, 900, use).micro >= 1e6 * steps / noise.steps
    assert day_price(run, 900, use).micro <= 1e6 * (steps + 200) / noise.steps
    three = replace(day, tables=TABLES, mechanism="gaussian")
    # Each table has a third of ε, but together they lose less than the sum.
    paid = day_price(three, 900, clamped)
    assert 500_000 < paid.micro < 650_000
    assert paid.femto == 1_000_000_002
    # A civil day may begin within a reading of an hour.
    assert 1_040_000 <= day_price(day, 3600, clamped).micro <= 1_050_000
    with pytest.raises(InputError, match="choose a clamp within 0,1000"):
        day_price(day, 900, DayChange.within(0, 1000))


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
    mechanism = build_mechanism(ONE, "sums", 3600)
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
        (sums, "_add_up"), (PrivateFolder, "write_partial"), (PrivateFolder, "write_report"),
        (sums, "make_tables"), (PrivateFolder, "seal"), (Ledger, "mark_released"),
        (output_folder, "move"), (PrivateFolder, "destroy"),
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
        found.append(done.table["energy_kwh"].to_numpy())
    assert (np.abs(found[0] - found[1])[1:] > 0).mean() > 0.9


def test_days_outside_the_period_are_left_out(tmp_path, ledger):
    write(tmp_path / "in/a.parquet", readings(days=4) | {"group": ["f"] * 192})
    terms = replace(PLAIN, period=("2024-03-02", "2024-03-03"), unit_of="household")
    dry = release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger, dry_run=True)
    assert (dry.manifest["charge"]["blocks"], (tmp_path / "out").exists()) == (4, False)
    assert spends(ledger) == []
    done = release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger)
    assert done.manifest["quarantine"]["reasons"] == {"the day is outside the period": 4}
    assert sorted({day for _, day, _ in spends(ledger)}) == ["2024-03-02", "2024-03-03"]
    assert len(done.table) == 48
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
    central = release_sums(source, tmp_path / "out", asked, ledger=ledger).table["energy_se_kwh"]
    assert homes_se[0] / central[0] >= math.sqrt(homes) / 1.2


def test_levels_are_joined_by_least_squares(tmp_path, ledger):
    columns = readings(meters=[f"m{i}" for i in range(6)], days=1)
    number = [int(meter[1:]) for meter in columns["meter"]]
    columns["feeder"] = [f"f{n // 2}" for n in number]
    columns["region"] = ["north" if n < 4 else "south" for n in number]
    write(tmp_path / "in/a.parquet", columns)
    terms = SumTerms("1", CLAMP, ("region", "feeder"))
    table = release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger).table
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
    assert facts["charge"] == {
        "epsilon": "1", "micro_epsilon": 10**6, "femto_delta": 10**9, "blocks": 8,
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
    assert set(done.table["meters"]) == {1}
    assert done.table["mean_w"].to_numpy() == pytest.approx(columns["value"][24:], abs=1)


def test_small_groups_are_not_published(tmp_path, ledger):
    source = small_fleet(tmp_path, meters=60, days=1)
    terms = replace(PLAIN, min_meters=20)
    table = release_sums(source, tmp_path / "out", terms, ledger=ledger).table
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
