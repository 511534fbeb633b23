"""The benchmark on real mains: what is used, how it is divided, and what is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.real_mains import (
    draw_benchmark,
    drop_silent_days,
    home_table,
    markdown,
    mean_table,
    noise_scale,
    prepare_homes,
    run_benchmark,
    save_benchmark,
    summarise,
)

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from tests.experiments.conftest import run_experiment

DAY = 1440


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two homes of twelve days, one of which has a silent day, and files that are left out."""
    folder = tmp_path_factory.mktemp("homes")
    (folder / "part").mkdir()
    for seed, name in ((1, "one"), (2, "part/two")):
        rng = np.random.default_rng(seed)
        length = 12 * DAY
        kettle = 2000.0 * (rng.random(length) < 0.01)
        heater = np.zeros(length)
        for first in rng.choice(length - 30, 60, replace=False):
            heater[first : first + 30] = 900.0
        rest = 150 + 30 * np.sin(np.arange(length) / 200) + rng.normal(0, 5, length)
        mains = rest + kettle + heater
        if seed == 2:
            mains[3 * DAY : 4 * DAY] = 150.0
        times = pd.date_range("2024-01-01", periods=length, freq="min", tz="UTC")
        table = {"timestamp": times, "aggregate": mains, "kettle": kettle, "heater": heater}
        pd.DataFrame(table).to_parquet(folder / f"{name}.parquet")
        if seed == 1:
            pd.DataFrame(table).head(2 * DAY).to_parquet(folder / "short.parquet")
    pd.DataFrame({"a": [1]}).to_parquet(folder / "other.parquet")
    return folder


def test_only_long_recordings_with_metered_mains_are_used(folder):
    homes = list(prepare_homes(folder, 60.0))
    assert [case.name for case in homes] == ["one", "two"]
    first = homes[0]
    assert len(first.train) == 7 * 12 * DAY // 10
    assert len(first.train) + len(first.test) == 12 * DAY
    assert first.train.times[-1] < first.test.times[0]
    assert set(first.home.names) == {"kettle", "heater"}
    assert len(homes[1].train) + len(homes[1].test) == 11 * DAY
    assert len(next(prepare_homes(folder, 60.0, readings=100)).test) == 100


def test_an_appliance_is_on_in_any_part_of_a_long_interval(folder):
    fine, coarse = next(prepare_homes(folder, 60.0)), next(prepare_homes(folder, 900.0))
    assert coarse.test.interval_s == 900.0
    kettle = coarse.home.index("kettle")
    share = fine.test.states[:, fine.home.index("kettle")].mean()
    assert coarse.test.states[:, kettle].mean() > 5 * share


def test_a_meter_that_never_changes_is_refused():
    with pytest.raises(DataError, match="single value on every day"):
        drop_silent_days(hm.Trace(np.ones(100), 60.0))


def test_the_table_has_floors_intervals_and_the_choice(folder, tmp_path):
    table = run_benchmark(
        folder, names=("all-off", "co"), noise=("none", "P/3"), seeds=2, readings=2 * DAY
    )
    assert len(table) == 2 * 2 * 3
    off = table[table.attacker == "all-off"]
    np.testing.assert_allclose(off.alpha, off.alpha_floor)
    assert (table.alpha_low <= table.alpha).all()
    assert (table.alpha <= table.alpha_high).all()
    assert table[table.noise == "P/3"].scale_w.min() > 600
    means = summarise(table)
    assert len(means) == 8
    text = markdown(table)
    # Two lines of head, then one line per attacker, and one per home and attacker.
    assert text.count("\n") == (2 + 2) + 1 + (2 + 4)
    both = means[(means.attacker == "co") & (means.noise == "P/3")]
    gain = (both.alpha - both.alpha_floor).min()
    assert f"{both.f1.mean():.3f} ({gain:+.3f}) |" in mean_table(means)
    assert (means.f1_spread >= 0).all()
    assert (means[means.noise == "none"].f1_spread == 0).all()
    files = save_benchmark(table, tmp_path)
    assert {path.name for path in files} == {
        f"real-mains.{kind}" for kind in ("png", "svg", "csv", "parquet", "md")
    }
    assert len(draw_benchmark(table).axes) == 2


def test_the_tables_of_the_page_are_those_of_the_saved_results():
    docs = Path(__file__).parents[2] / "docs"
    page, saved = (docs / "attackers.md").read_text(), pd.read_csv(docs / "figures/real-mains.csv")
    for _, part in saved.groupby("interval_s"):
        assert mean_table(part) in page
    shown = saved[(saved.interval_s == 60) & saved.attacker.isin(["bayes", "trees", "strongest"])]
    assert home_table(shown) in page
    assert saved.home.nunique() == 5


def test_the_command_names_what_is_wrong_with_the_folder(tmp_path):
    done = run_experiment("real-mains", "-o", tmp_path / "out", expect=2)
    assert "--data" in done.stderr
    done = run_experiment("real-mains", "--data", tmp_path, "-o", tmp_path / "out", expect=1)
    assert "no recording with metered mains" in done.stderr


def test_noise_and_empty_folders(tmp_path):
    assert [noise_scale(level, 3000.0) for level in ("none", "100 W", "P/10", "P/1")] == [
        0.0,
        100.0,
        300.0,
        3000.0,
    ]
    with pytest.raises(DataError, match="no recording with metered mains"):
        run_benchmark(tmp_path)
    with pytest.raises(InputError, match="noise must be"):
        run_benchmark(tmp_path, noise=("loud",))
