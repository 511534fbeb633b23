"""Clusters of released days: certainty, standard errors, and what each kind of release does."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.behaviour import (
    ReleasedDays,
    cluster_released,
    compare_releases,
    read_released_days,
    synthetic_profiles,
)
from hushmeter.behaviour.stability import KINDS, released_columns
from hushmeter.errors import DataError


def released(seed, spread=0.25, n=300):
    """Days of three shapes with independent errors, and the shape of every day."""
    days = synthetic_profiles(n, shapes=3, spread=0.1, seed=4)
    rng = np.random.default_rng(seed)
    errors = np.full(days.values.shape, spread)
    values = days.values + spread * rng.standard_normal(days.values.shape)
    return ReleasedDays(values, errors, days.ids, days.days), days


def test_certainty_and_errors_are_those_of_repeated_releases():
    """The stated errors of centres and counts against their spread over 40 releases."""
    results = [cluster_released(released(seed)[0], k=3, repeats=30) for seed in range(40)]
    spread = np.std([result.centres for result in results], axis=0, ddof=1)
    stated = np.mean([result.centre_errors for result in results], axis=0)
    # The simulation adds the noise a second time, which widens the errors of medians a little.
    assert 0.8 < np.sqrt((stated**2).mean() / (spread**2).mean()) < 1.3
    counts = np.std([result.counts for result in results], axis=0, ddof=1)
    assert np.mean([result.count_errors for result in results]) < 2 * counts.mean() + 2


def test_certainty_is_the_share_of_days_in_their_true_cluster():
    noisy, days = released(0, spread=0.6)
    result = cluster_released(noisy, k=3, repeats=60)
    true = result.model.predict(days.values)
    right = (true == result.model.labels_).mean()
    assert result.certainty.mean() == pytest.approx(right, abs=0.08)
    sure = result.certainty > 0.95
    assert (true == result.model.labels_)[sure].mean() > 0.95
    columns = released_columns(result, noisy)
    assert set(columns) == {"id", "day", "cluster", "certainty"}
    exact = ReleasedDays(noisy.values, 0 * noisy.errors, noisy.ids, noisy.days)
    assert (cluster_released(exact, k=3, repeats=2).certainty == 1).all()


def test_costs_have_errors():
    noisy, _ = released(1)
    result = cluster_released(noisy, k=3, repeats=10, tariff=np.linspace(0.2, 0.4, 24))
    assert result.costs.shape == result.cost_errors.shape == (3,)
    assert (result.cost_errors > 0).all()
    with pytest.raises(DataError, match="too few for 301 clusters"):
        cluster_released(noisy, k=301)


def test_days_are_read_from_a_folder_of_releases(tmp_path):
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], 20.0)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        load = hm.Trace(rng.gamma(1.0, 300.0, 24 * 9), 3600.0, "2024-03-01T00:00Z")
        hm.release_views(load, epsilon=1.9, home=home).save(tmp_path / name)
    days = read_released_days(tmp_path)
    assert days.values.shape == days.errors.shape == (18, 24)
    assert days.ids.tolist() == ["a"] * 9 + ["b"] * 9
    assert days.days[:2].tolist() == ["2024-03-01", "2024-03-02"]


def test_every_kind_of_release_is_compared():
    days = synthetic_profiles(240, shapes=4, spread=0.1, seed=2)
    found = {one.kind: one for one in compare_releases(days, k=4, seed=1)}
    assert tuple(found) == KINDS
    # The calendar costs at most 10 % in the hours, and restoring reduces the error of both.
    assert found["calendar"].error_kwh < 1.2 * found["hours"].error_kwh
    for kind in ("hours", "calendar"):
        assert found[f"{kind}, restored"].error_kwh < found[kind].error_kwh
    assert all(0.5 < one.stay <= 1 for one in found.values())
