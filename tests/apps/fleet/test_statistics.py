"""Sums of a released fleet: right, and as far off as they say."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats
from tests.apps.fleet.cases import (
    TERMS,
    new_ledger,
    readings,
    release,
    small_fleet,
    write,
)

import hushmeter as hm
from hushmeter.apps.fleet import released_folder
from hushmeter.apps.fleet.released_folder import summarise_estimates, summarise_fleet
from hushmeter.errors import DataError, InputError
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.releases.restore import restore_file

SURE = 1e-6


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stats")
    source = small_fleet(folder, meters=120, days=40, files=4, interval_s=3600)
    terms = replace(TERMS, clamp=(-12e3, 12e3))
    release(source, folder / "out", new_ledger(folder, low=-12e3), terms, keep=("group",))
    return source, folder / "out"


def frame(folder):
    return pd.concat([pq.read_table(p).to_pandas() for p in sorted(folder.glob("*.parquet"))])


def values(folder):
    return pq.read_table(folder / "a.parquet")["value"].to_numpy()


@pytest.mark.parametrize("every", ["hour", "day", "month", "all"])
@pytest.mark.parametrize("by", ["group", "meter"])
def test_sums_agree_with_pandas(case, by, every, monkeypatch):
    monkeypatch.setattr(released_folder, "_ROWS", 1000 if every == "hour" else 1 << 20)
    table = summarise_fleet(case[1], by, every, price_per_kwh=0.25).table
    rows = frame(case[1])
    stamp = rows["time"].dt.tz_localize(None)
    kinds = {"hour": "datetime64[h]", "day": "datetime64[D]", "month": "datetime64[M]"}
    bins = stamp.to_numpy().astype(kinds[every]) if every in kinds else np.zeros(len(rows))
    wanted = rows.groupby([rows[by].astype(str), bins])["value"].agg(["size", "sum", "mean"])
    assert len(table) == len(wanted)
    assert table["readings"].to_numpy() == pytest.approx(wanted["size"].to_numpy())
    assert table["energy_kwh"].to_numpy() == pytest.approx(wanted["sum"].to_numpy() / 1000)
    assert table["mean_w"].to_numpy() == pytest.approx(wanted["mean"].to_numpy())
    assert table["bill"].to_numpy() == pytest.approx(wanted["sum"].to_numpy() / 4000)
    assert table[by].tolist() == wanted.index.get_level_values(0).tolist()
    if every != "all":
        starts = table["start"].dt.tz_localize(None).to_numpy().astype(kinds[every])
        assert (starts == wanted.index.get_level_values(1).to_numpy().astype(kinds[every])).all()


def errors_of(case, by="meter", every="day"):
    """z of every sum: (released − true) over its standard error."""
    released = summarise_fleet(case[1], by, every).table
    true = frame(case[0]).assign(day=lambda t: t["time"].dt.floor("D"))
    sums = true.groupby([true[by].astype(str), "day"])["value"].sum().to_numpy() / 1000
    return (released["energy_kwh"].to_numpy() - sums) / released["energy_se_kwh"].to_numpy()


def test_the_standard_errors_are_true(case):
    """4800 sums of 24 readings of independent noise: Σz² is nearly χ²."""
    z = errors_of(case)
    assert z.size == 120 * 40
    # Laplace noise: a sum of 24 has excess kurtosis 3/24, which widens the spread of Σz².
    spread = math.sqrt(z.size * (2 + 3 / 24))
    limit = stats.norm.isf(SURE / 2)
    assert abs((z**2).sum() - z.size) < limit * spread
    assert abs(z.sum()) < limit * math.sqrt(z.size)


def test_a_wrong_error_would_be_seen(case, monkeypatch):
    """The check above has power: errors a tenth too small are caught."""
    true_error = released_folder.reading_error
    monkeypatch.setattr(released_folder, "reading_error", lambda m: 0.9 * true_error(m))
    z = errors_of(case)
    assert abs((z**2).sum() - z.size) > stats.norm.isf(SURE / 2) * math.sqrt(z.size * 2.125)


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        ("laplace", Laplace("0.5", 12_000, 50, clamp=(0, 12_000))),
        ("staircase", Staircase("0.5", 12_000, 50, clamp=(0, 12_000))),
        ("gaussian", Gaussian("0.5", 1e-6, 12_000, 50, clamp=(0, 12_000))),
    ],
)
def test_the_error_of_a_reading_by_simulation(tmp_path, mechanism, law):
    """On a coarse grid, with readings off it: noise and rounding together."""
    write(tmp_path / "in/a.parquet", readings(meters=[f"m{i:03d}" for i in range(400)]))
    terms = replace(TERMS, mechanism=mechanism, grid="50")
    release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), terms)
    error = summarise_fleet(tmp_path / "out", "meter", "all").reading_se_w
    true, out = (
        pq.read_table(tmp_path / f / "a.parquet")["value"].to_numpy() for f in ("in", "out")
    )
    squares = (out - true) ** 2
    assert abs(squares.mean() - error**2) < stats.norm.isf(SURE / 2) * squares.std() / 19_200**0.5
    assert error == pytest.approx(math.sqrt(law.std**2 + 50**2 / 12))


def test_rounding_counts_where_the_noise_is_small(tmp_path):
    write(tmp_path / "in/a.parquet", readings(meters=[f"m{i:03d}" for i in range(100)]))
    terms = replace(TERMS, epsilon="2e4", max_epsilon=1e7, grid="50")
    release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), terms)
    error = summarise_fleet(tmp_path / "out", "meter", "all").reading_se_w
    assert error == pytest.approx(50 / math.sqrt(12))
    true, out = (
        pq.read_table(tmp_path / f / "a.parquet")["value"].to_numpy() for f in ("in", "out")
    )
    squares = (out - true) ** 2
    assert abs(squares.mean() - error**2) < stats.norm.isf(SURE / 2) * squares.std() / 4800**0.5


def test_units_become_watts(tmp_path):
    columns = readings(interval_s=1800, unit="kWh")
    columns["value"] = [v / 2000 for v in columns["value"]]
    columns["group"] = ["f", None] * 96
    write(tmp_path / "in/a.parquet", columns)
    terms = replace(TERMS, epsilon="1e6", max_epsilon=1e7)
    release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), terms, keep=("group",))
    table = summarise_fleet(tmp_path / "out", "group", "all").table
    assert table["group"].tolist() == ["", "f"]
    sums = [sum(columns["value"][1::2]), sum(columns["value"][::2])]
    assert table["energy_kwh"].to_numpy() == pytest.approx(sums, rel=1e-3)
    assert table["mean_w"].to_numpy() == pytest.approx(np.array(sums) * 2000 / 96, rel=1e-3)


def test_what_the_errors_leave_out_is_stated(tmp_path):
    columns = readings()
    columns["interval_s"][1] = 900
    write(tmp_path / "in/a.parquet", columns)
    release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path))
    notes = summarise_fleet(tmp_path / "out", "meter").notes
    assert "clamped to 0 … 12000 W" in notes[0]
    assert "1 blocks of a meter and a day, and 0 whole files" in notes[1]


def test_folders_that_are_no_release(case, tmp_path):
    with pytest.raises(DataError, match="has no manifest"):
        summarise_fleet(tmp_path)
    with pytest.raises(InputError, match=r"has no column 'feeder'; it has meter, time"):
        summarise_fleet(case[1], "feeder")
    with pytest.raises(InputError, match="'start' is a column of the result"):
        summarise_fleet(case[1], "start")
    with pytest.raises(InputError, match="every must be one of"):
        summarise_fleet(case[1], every="week")
    for text in ("{", "[]", json.dumps({"schema": "other"})):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(DataError, match="not the manifest of a fleet"):
            summarise_fleet(tmp_path)


def test_nothing_released_leaves_nothing_to_summarise(tmp_path):
    columns = readings(days=1, meters=("a",))
    columns["interval_s"][0] = 900
    write(tmp_path / "in/a.parquet", columns)
    release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path))
    with pytest.raises(DataError, match="not a finished release"):
        summarise_fleet(tmp_path / "out", "meter")


def test_calendar_releases_and_restored_files_are_added_up(tmp_path):
    """Sums over two homes: energies add up, and errors add up in squares."""
    home = hm.synth.ready_home("evening")
    for seed in range(2):
        meter = {"interval_s": 300.0, "start": "2024-01-25T00:00Z"}
        load = hm.synth.trace(home, 288 * 12, seed=seed, **meter).coarsen("1h")
        done = hm.release_views(load, epsilon=1, home=home.subset(["kettle"]))
        done.save(tmp_path / "views" / f"home{seed}")
        path = tmp_path / "restored" / f"home{seed}.parquet"
        restore_file(tmp_path / "views" / f"home{seed}").save(path)
    for part, hours in (("views", 24 * 7), ("restored", 24 * 7)):
        homes = summarise_estimates(tmp_path / part, "meter", "month", price_per_kwh=0.5).table
        both = summarise_estimates(tmp_path / part, "group", "month", price_per_kwh=0.5).table
        assert list(homes["meter"]) == ["home0", "home0", "home1", "home1"]
        assert list(homes["readings"]) == [hours, 120, hours, 120]
        one, other = (homes[homes["meter"] == name].reset_index() for name in ("home0", "home1"))
        assert both["energy_kwh"].to_numpy() == pytest.approx(one.energy_kwh + other.energy_kwh)
        assert both["energy_se_kwh"].to_numpy() == pytest.approx(
            np.hypot(one.energy_se_kwh, other.energy_se_kwh)
        )
        assert both["bill_se"].to_numpy() == pytest.approx(both["energy_se_kwh"] / 2)
        assert (both["mean_w"] * both["readings"] / 1000).to_numpy() == pytest.approx(
            both["energy_kwh"].to_numpy()
        )
    first = hm.read_release(tmp_path / "views" / "home0").view("months")
    found = summarise_estimates(tmp_path / "views" / "home0", "meter", "month").table
    assert found["energy_se_kwh"].to_numpy() == pytest.approx(first.errors)
    assert "biased" in summarise_estimates(tmp_path / "restored").notes[0]
    with pytest.raises(InputError, match="by must be"):
        summarise_estimates(tmp_path / "views", "feeder")
