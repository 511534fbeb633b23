"""Stability, migration, what is kept, the figures, and clusters of released days."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import hushmeter as hm
from hushmeter.apps.behaviour import (
    ReleasedDays,
    cluster_released,
    compare_releases,
    measure_stability,
    noise_levels,
    read_released_days,
    synthetic_profiles,
)
from hushmeter.apps.behaviour import plot as adopters
from hushmeter.apps.behaviour.stability import (
    KINDS,
    adjusted_rand_index,
    band,
    checked_tariff,
    cluster_profiles,
    released_columns,
    serving_costs,
    staying_columns,
)
from hushmeter.errors import DataError, InputError

TARIFF = np.r_[np.full(16, 0.1), np.full(5, 0.4), np.full(3, 0.1)]


@pytest.fixture(scope="module")
def profiles():
    return synthetic_profiles(400, shapes=8, spread=0.2, seed=1)


@pytest.fixture(scope="module")
def result(profiles):
    levels = noise_levels(scales=[0.02, 0.2, 1.0])
    return measure_stability(profiles.values, levels, k=6, repeats=4, tariff=TARIFF, bound_rows=80)


def test_lambda_and_epsilon_are_two_names_of_one_level():
    by_scale = noise_levels(scales=[0.5, 0.01], sensitivity=2.0)
    assert [level.scale for level in by_scale] == pytest.approx([0.01, 0.5])
    assert by_scale[1].epsilon == pytest.approx(4.0, rel=1e-3)
    by_epsilon = noise_levels(epsilons=[by_scale[1].epsilon], sensitivity=2.0)
    assert by_epsilon[0].scale == pytest.approx(0.5)
    assert len(noise_levels()) == 4


def test_bad_levels_are_one_sentence():
    with pytest.raises(InputError, match="either scales"):
        noise_levels(scales=[1.0], epsilons=[1.0])
    with pytest.raises(InputError, match="lambda must be positive"):
        noise_levels(scales=[-1.0])
    with pytest.raises(InputError, match="at least one noise level"):
        noise_levels(epsilons=[])


def test_the_noise_has_the_scale_it_says(profiles):
    level = noise_levels(scales=[0.1])[0]
    noise = level.perturb(profiles.values, rng=0) - profiles.values
    assert np.abs(noise).mean() == pytest.approx(0.1, rel=0.05)


def test_migration_rows_add_up(result):
    for level in result.levels:
        np.testing.assert_allclose(level.migration.sum(axis=1), result.counts)
        diagonal = level.migration.diagonal() / result.counts
        np.testing.assert_allclose(diagonal, level.cluster_stay.mean(axis=0))
        assert level.frequency.mean() == pytest.approx(level.stay.mean())


def test_more_noise_keeps_less(result):
    for name in ("stay", "rand_index"):
        means = [getattr(level, name).mean() for level in result.levels]
        assert (np.diff(means) < 0).all()
    errors = [level.centre_error.mean() for level in result.levels]
    assert (np.diff(errors) > 0).all()
    assert all(level.rank_correlation.max() <= 1 for level in result.levels)


def test_shares_lie_between_the_proved_bounds(result):
    for level in result.levels:
        lower, upper = level.mean_bounds
        assert lower - 0.01 <= level.stay.mean() <= upper + 0.01


def test_clusters_are_ordered_by_energy(result):
    assert (np.diff(result.centres.sum(axis=1)) >= 0).all()
    assert result.counts.sum() == 400


def test_costs_are_prices_weighted_by_use():
    centres = np.zeros((2, 24))
    centres[0, 17], centres[1, 3] = 2.0, 1.0
    np.testing.assert_allclose(serving_costs(centres, TARIFF), [0.4, 0.1])


def test_tariffs_are_checked():
    with pytest.raises(InputError, match="must have 24 prices"):
        checked_tariff([1.0, 2.0], 24)
    with pytest.raises(DataError, match="the same in every hour"):
        checked_tariff(np.ones(24), 24)


def test_too_few_profiles_are_one_sentence(profiles):
    with pytest.raises(DataError, match="5 profiles are too few for 6 clusters; give more"):
        cluster_profiles(profiles.values[:5], 6)
    same = np.tile(profiles.values[:2], (10, 1))
    with pytest.raises(DataError, match="only 2 of the 20 profiles are different"):
        cluster_profiles(same, 6)


def test_flat_days_are_days_like_any_other():
    flat = np.repeat(np.arange(12.0)[:, None], 24, axis=1)
    model = cluster_profiles(flat, 3)
    assert np.unique(model.labels_).size == 3


def test_bands_cover_the_mean(rng):
    mean, low, high = band(rng.normal(size=(10, 3)))
    assert (low < mean).all()
    assert (mean < high).all()


def test_figures_and_their_data(result, profiles):
    for draw in ("centres", "interchanges", "stability"):
        figure = getattr(adopters, f"draw_{draw}")(result, "A title")
        figure.canvas.draw()
    assert len(adopters.centres_columns(result)["kwh"]) == 6 * 24
    moves = adopters.interchanges_columns(result)
    assert sum(moves["profiles"]) == pytest.approx(3 * 400)
    rows = staying_columns(result, profiles.ids, profiles.days)
    assert {len(column) for column in rows.values()} == {3 * 80}
    assert (rows["lower"] <= rows["upper"]).all()


def test_arrows_are_the_largest_moves(result):
    moves = adopters.largest_moves(result.levels[-1], 5)
    flows = [flow for _, _, flow in moves]
    assert flows == sorted(flows, reverse=True)
    assert all(source != target for source, target, _ in moves)


def test_the_rand_index_agrees_with_scikit_learn(rng):
    for k in (1, 2, 7):
        one, other = rng.integers(0, k, 200), rng.integers(0, 5, 200)
        mixed = np.where(rng.random(200) < 0.5, one, other)
        for pair in ((one, other), (one, mixed), (one, one), (np.arange(200), one)):
            assert adjusted_rand_index(*pair) == adjusted_rand_score(*pair)


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
