"""Synthetic fleets: reproducible, and shaped like households."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from hushmeter.apps.fleet.input_files import check_schema
from hushmeter.apps.fleet.job import Columns
from hushmeter.errors import DataError, InputError
from hushmeter.synth.traces import METERS_PER_FEEDER, FleetPlan, draw_feeder, write_fleet


def read(paths):
    tables = [pq.read_table(path).to_pandas() for path in paths]
    return pd.concat(tables)


@pytest.fixture(scope="module")
def plan():
    return FleetPlan(120, 14, 1800, seed=4)


def test_the_files_hold_every_meter_and_time_once(plan, tmp_path):
    seen = []
    paths = write_fleet(plan, tmp_path / "fleet", files=5, report=seen.append)
    assert sum(seen) == plan.rows == 120 * 14 * 48
    check_schema(pq.read_schema(paths[0]), Columns())
    table = read(paths)
    assert len(table) == plan.rows
    assert not table.duplicated(["meter", "time"]).any()
    counts = table.groupby("meter", observed=True).size()
    assert counts.size == 120
    assert set(counts) == {14 * 48}
    assert set(table["unit"]) == {"W"}
    assert set(table["interval_s"]) == {1800}
    assert table["time"].min().isoformat() == "2024-01-01T00:00:00+00:00"
    groups = table.groupby("meter", observed=True)["group"].unique().explode()
    assert groups.nunique() == 3
    assert groups.value_counts().max() == METERS_PER_FEEDER


def test_the_same_seed_gives_the_same_fleet_however_it_is_cut(plan, tmp_path):
    one = read(write_fleet(plan, tmp_path / "one", files=1))
    seven = read(write_fleet(plan, tmp_path / "seven", files=7))
    for name in ("meter", "time", "value", "group"):
        assert one[name].astype(str).tolist() == seven[name].astype(str).tolist()
    other = FleetPlan(120, 14, 1800, seed=5)
    assert (draw_feeder(plan, 0) != draw_feeder(other, 0)).mean() > 0.9
    assert (draw_feeder(plan, 0) != draw_feeder(plan, 1)).mean() > 0.9


def test_days_look_like_days():
    plan = FleetPlan(500, 28, 900)
    watts = np.concatenate([draw_feeder(plan, f) for f in range(10)])
    typical = np.median(watts, axis=0)
    weekday = typical[[d for d in range(28) if d % 7 < 5]].mean(axis=0)
    weekend = typical[[d for d in range(28) if d % 7 >= 5]].mean(axis=0)
    hour = np.arange(96) / 4
    night, morning = weekday[hour < 4].mean(), weekday[(hour > 6.5) & (hour < 8)].mean()
    noon, evening = (
        weekday[(hour > 11) & (hour < 13)].mean(),
        weekday[(hour > 18) & (hour < 20)].mean(),
    )
    assert evening > morning > noon > night > 50
    assert evening > 3 * night
    assert weekend.argmax() >= 68
    assert weekend[(hour > 6) & (hour < 7.5)].mean() < 0.8 * morning
    assert weekend[(hour > 11) & (hour < 14)].mean() > 1.2 * noon
    solar = (watts.min(axis=(1, 2)) < -500).mean()
    cars = (np.sort(watts.reshape(500, -1), axis=1)[:, -28] > 6500).mean()
    # Shares of 10 % and 8 % among 500 homes: limits that fail once in a million.
    assert abs(solar - 0.1) < 4.9 * (0.09 / 500) ** 0.5
    assert abs(cars - 0.08) < 4.9 * (0.0736 / 500) ** 0.5
    yearly = watts.mean() * 8.76
    assert 1500 < yearly < 6000


def test_units(tmp_path):
    watts = read(write_fleet(FleetPlan(3, 1, 900), tmp_path / "w"))["value"].to_numpy()
    energy = read(write_fleet(FleetPlan(3, 1, 900, unit="kWh"), tmp_path / "e"))["value"]
    assert (watts == np.rint(watts)).all()
    assert energy.to_numpy() * 4000 == pytest.approx(watts)


def test_large_fleets_have_row_groups_of_a_million(tmp_path):
    (path,) = write_fleet(FleetPlan(40, 30, 60), tmp_path / "x", files=1)
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    assert sizes == [24 * 43_200, 16 * 43_200]
    assert not list(tmp_path.rglob(".part*"))


def test_wrong_plans(tmp_path):
    for wrong in (
        {"meters": 0},
        {"days": 0},
        {"interval_s": 7},
        {"unit": "VA"},
        {"start": "soon"},
        {"start": "20240101"},
        {"start": "2024-01-01T05"},
        {"start": "NaT"},
        {"seed": -1},
    ):
        with pytest.raises(InputError):
            FleetPlan(**({"meters": 2, "days": 2} | wrong))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("x")
    with pytest.raises(DataError, match="is not an empty folder"):
        write_fleet(FleetPlan(2, 1), tmp_path / "full")
    assert len(write_fleet(FleetPlan(2, 1), tmp_path / "few", files=9)) == 2
