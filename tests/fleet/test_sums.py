"""Central sums: exact, protected at the level of a household's day, and charged to every member."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.fleet.cases import TERMS, new_ledger, readings, release, small_fleet, spends, write

from hushmeter.errors import DataError, InputError
from hushmeter.fleet import sums
from hushmeter.fleet.ledger import open_ledger
from hushmeter.fleet.statistics import summarise_fleet
from hushmeter.fleet.sums import SumTerms, build_sum_mechanism, release_sums

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


def exact_cells(folder, terms, interval_s):
    """The exact sums [W] of all groups of all levels, by group and bin."""
    job = sums.FleetJob(
        sums.FleetTerms("1", CLAMP, interval_s=interval_s), str(folder), "out", "l", "r",
        keep=tuple(sorted(terms.by)),
    )  # fmt: skip
    checked = sums.check_file(job, "a.parquet")
    granted = {"a.parquet": list(zip(checked.meters, checked.periods, strict=True))}
    found = sums._add_up(job, terms, ["a.parquet"], granted)
    cells = {}
    for (path, moment), (total, _) in found.cells.items():
        for level in range(1, len(path) + 1):
            key = (path[:level], moment)
            cells[key] = cells.get(key, 0) + total * float(terms.grid)
    return cells


@given(
    every=st.sampled_from(["hour", "day"]),
    interval_s=st.sampled_from([900, 1800, 3600]),
    grid=st.sampled_from(["1", "50"]),
    levels=st.sampled_from([("group",), ("region", "group")]),
    hours=st.integers(23, 25),
    begin=st.integers(0, 95),
    seed=st.integers(0, 2**32 - 1),
    extreme=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_a_households_day_changes_the_sums_by_at_most_the_sensitivity(
    tmp_path_factory, every, interval_s, grid, levels, hours, begin, seed, extreme
):
    """Neighbouring fleets: one meter differs in all readings of a civil day, begun anywhere."""
    terms = SumTerms("1", CLAMP, levels, every=every, grid=grid)
    rng = np.random.default_rng(seed)
    columns = readings(meters=("a", "b"), days=3, interval_s=interval_s, seed=seed % 1000)
    columns["group"] = ["f1" if meter == "a" else "f2" for meter in columns["meter"]]
    columns["region"] = ["north"] * len(columns["meter"])
    other = dict(columns, value=list(columns["value"]))
    first = begin * 900 // interval_s
    for row in range(first, first + hours * 3600 // interval_s):
        if extreme:
            columns["value"][row], other["value"][row] = -1e6, 1e6
        else:
            other["value"][row] = float(rng.uniform(-1e4, 3e4))
    found = []
    for name, table in (("one", columns), ("two", other)):
        folder = tmp_path_factory.mktemp(name)
        write(folder / "a.parquet", table)
        found.append(exact_cells(folder, terms, interval_s))
    assert found[0].keys() == found[1].keys()
    change = np.array([found[0][key] - found[1][key] for key in found[0]])
    laplace = build_sum_mechanism(replace(terms, mechanism="laplace"), interval_s)
    gaussian = build_sum_mechanism(replace(terms, mechanism="gaussian"), interval_s)
    best = build_sum_mechanism(terms, interval_s)
    assert best.std == min(laplace.std, gaussian.std)
    assert np.abs(change).sum() <= float(laplace.exact_sensitivity) * (1 + 1e-12)
    assert np.sqrt((change**2).sum()) <= float(gaussian.exact_sensitivity) * (1 + 1e-12)
    assert np.count_nonzero(change) <= laplace.touches == gaussian.touches
    if extreme and hours == 25:
        assert np.abs(change).sum() == pytest.approx(float(laplace.exact_sensitivity))


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
    source = small_fleet(tmp_path, meters=4, days=2, files=2)
    terms = replace(ONE, mechanism="gaussian")
    done = release_sums(source, tmp_path / "out", terms, ledger=ledger)
    assert done.complete
    assert len(spends(ledger)) == 8
    facts = json.loads((tmp_path / "out/manifest.json").read_text())
    assert facts == done.manifest
    assert facts["charge"] == {
        "epsilon": "1", "delta": 1e-6, "blocks": 8,
        "unit": "all readings of a customer's day (up to 25 hours)",
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
    columns["value"][3] = None
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
    with pytest.raises(DataError, match="is not an empty folder"):
        release_sums(source, tmp_path / "full", ONE, ledger=ledger)
    with pytest.raises(DataError, match="is not a folder"):
        release_sums(tmp_path / "nowhere", tmp_path / "out", ONE, ledger=ledger)
    done = release_sums(source, tmp_path / "out", replace(ONE, by=("feeder",)), ledger=ledger)
    assert "no single column 'feeder' to keep" in str(done.manifest["quarantine"])
    assert spends(ledger) == []
