"""KMedians: the methods of a scikit-learn estimator, and a loss that no plain restart beats."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from hushmeter.apps.behaviour import KMedians, synthetic_profiles
from hushmeter.errors import InputError
from hushmeter.learn import kmedians
from hushmeter.learn.kmedians import ConvergenceWarning, assign_to, descend, sort_columns


def distances(profiles, centres):
    return np.abs(profiles[:, None, :] - centres[None, :, :]).sum(axis=2)


def plain_kmedians(profiles, centres, steps=300):
    """The textbook: nearest centre, numpy's median, until nothing changes."""
    centres, labels = centres.copy(), None
    for _ in range(steps):
        new = distances(profiles, centres).argmin(axis=1)
        if labels is not None and (new == labels).all():
            break
        labels = new
        for j in np.unique(labels):
            centres[j] = np.median(profiles[labels == j], axis=0)
    return centres, distances(profiles, centres).min(axis=1).sum()


def blobs():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 24))
    return centres[rng.integers(0, 12, 1000)] + 0.5 * rng.laplace(size=(1000, 24)), 12


def digits():
    return load_digits().data[:900], 10


def days():
    return synthetic_profiles(900, shapes=30, spread=0.3, seed=1).values, 15


OWN_WORDS = {
    "check_dtype_object",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_estimator_sparse_tag",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_fit2d_predict1d",
}
"""Checks that want an error in scikit-learn's own words; ours are in `test_bad_profiles`."""


@pytest.mark.filterwarnings("ignore:Estimator KMedians does not inherit:UserWarning")
def test_it_has_the_methods_of_a_scikit_learn_estimator():
    failed = {
        result["check_name"]
        for result in check_estimator(KMedians(), on_fail=None, on_skip=None)
        if result["status"] == "failed"
    }
    # An estimator that does not import scikit-learn cannot raise its NotFittedError.
    assert failed <= OWN_WORDS | {"check_estimators_unfitted"}


def test_it_works_in_a_pipeline_and_can_be_cloned(rng):
    profiles = rng.random((60, 24))
    model = KMedians(3, random_state=0)
    chain = make_pipeline(StandardScaler(), clone(model)).fit(profiles)
    assert chain.predict(profiles).shape == (60,)
    assert chain.transform(profiles).shape == (60, 3)
    names = chain.get_feature_names_out()
    assert names.tolist() == ["kmedians0", "kmedians1", "kmedians2"]
    assert repr(model) == repr(clone(model))
    np.testing.assert_array_equal(model.fit_predict(profiles), model.labels_)
    with pytest.raises(InputError, match="did you mean 'n_clusters'"):
        model.set_params(n_cluster=3)


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        (np.ones(3), "must have shape"),
        (np.ones((3, 0)), "must have shape"),
        ([[1.0, np.nan]], "must be finite, but row 0 is not"),
        (np.ones((3, 2)) * 1j, "must be real"),
        (csr_matrix(np.eye(3)), "must be a matrix of numbers"),
        ([[{}]], "must be a matrix of numbers"),
    ],
)
def test_bad_profiles_are_one_sentence(profiles, message):
    with pytest.raises(ValueError, match=message):
        KMedians(1).fit(profiles)


def test_a_model_without_centres_predicts_nothing(rng):
    with pytest.raises(InputError, match="call fit first"):
        KMedians(2).predict(rng.random((5, 4)))
    with pytest.raises(InputError, match="X has 3 features, but KMedians is expecting 4"):
        KMedians(2).fit(rng.random((5, 4))).predict(rng.random((5, 3)))


def test_the_package_does_not_import_scikit_learn():
    code = (
        "import sys, hushmeter as hm; import hushmeter.apps.behaviour.stability; hm.KMedians; "
        "print('sklearn' in sys.modules or 'joblib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("data", [blobs, digits, days])
def test_the_loss_is_no_worse_than_the_best_of_twenty_restarts(data):
    profiles, k = data()
    starts = [kmeans_plusplus(profiles, k, random_state=seed)[0] for seed in range(20)]
    reference = min(plain_kmedians(profiles, start)[1] for start in starts)
    ours = KMedians(k, random_state=0).fit(profiles)
    assert ours.inertia_ <= reference * (1 + 1e-9)
    assert ours.inertia_ == pytest.approx(
        distances(profiles, ours.cluster_centers_).min(axis=1).sum()
    )


def test_bounds_and_sorted_columns_change_no_step(rng):
    profiles = rng.gamma(2.0, 0.5, (700, 24))
    start = profiles[:9].copy()
    centres, loss = plain_kmedians(profiles, start)
    ours = descend(profiles, sort_columns(profiles), start, 300)
    np.testing.assert_allclose(ours.centres, centres, atol=1e-12)
    assert ours.loss == pytest.approx(loss)
    np.testing.assert_array_equal(ours.labels, distances(profiles, centres).argmin(axis=1))


def test_no_step_raises_the_loss(rng):
    profiles = rng.gamma(2.0, 0.5, (400, 6))
    order, start = sort_columns(profiles), profiles[:7].copy()
    losses = [descend(profiles, order, start, steps).loss for steps in range(1, 12)]
    assert (np.diff(losses) <= 1e-9).all()


def test_empty_clusters_are_given_a_far_profile():
    profiles = np.array([[0.0], [0.1], [0.2], [9.0], [9.1]])
    start = np.array([[0.0], [9.0], [500.0]])
    model = KMedians(3, init=start).fit(profiles)
    assert set(model.labels_) == {0, 1, 2}


def test_equal_profiles_warn_that_clusters_stay_empty():
    with pytest.warns(ConvergenceWarning, match="only 1 of 3 clusters"):
        KMedians(3, random_state=0).fit(np.ones((10, 24)))


def test_mini_batches_come_close(rng):
    profiles = synthetic_profiles(4000, shapes=6, spread=0.2, seed=3).values
    whole = KMedians(6, random_state=0).fit(profiles)
    parts = KMedians(6, random_state=0, batch_size=1000).fit(profiles)
    assert parts.inertia_ < 1.02 * whole.inertia_


def test_partial_fit_learns_from_a_stream():
    profiles = synthetic_profiles(4000, shapes=5, seed=4).values
    model = KMedians(5, random_state=0)
    for part in np.array_split(profiles, 8):
        model.partial_fit(part)
    whole = KMedians(5, random_state=0).fit(profiles)
    assert -model.score(profiles) < 1.02 * whole.inertia_
    assert model.seen_.sum() == 4000


def test_transform_gives_all_distances(rng):
    profiles = rng.random((50, 24))
    model = KMedians(4, random_state=0).fit(profiles)
    np.testing.assert_allclose(
        model.transform(profiles), distances(profiles, model.cluster_centers_)
    )
    np.testing.assert_array_equal(model.predict(profiles), model.labels_)


def test_the_same_seed_gives_the_same_clusters(rng):
    profiles = rng.random((300, 24))
    first, second = (KMedians(6, random_state=5).fit(profiles) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)


def test_memory_is_linear_in_the_profiles():
    """Beyond the profiles themselves: sorted rows, labels and two bounds, 130 bytes a profile."""
    peaks = []
    for size in (20_000, 40_000):
        profiles = np.random.default_rng(0).random((size, 24))
        start = profiles[:30].copy()
        tracemalloc.start()
        KMedians(30, init=start, max_iter=2).fit(profiles)
        peaks.append(tracemalloc.get_traced_memory()[1] / size)
        tracemalloc.stop()
    assert max(peaks) < 300
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 11}, "11 clusters need at least 11 profiles, got n_samples=10"),
        ({"n_clusters": 0}, "n_clusters must be a whole number"),
        ({"n_init": 0}, "n_init must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"swaps": -1}, "swaps must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"init": "random"}, "init must be 'k-means\\+\\+' or centres"),
        ({"n_clusters": 2, "init": np.ones((3, 4))}, r"init must have shape \(2, 4\)"),
    ],
)
def test_bad_parameters_are_one_sentence(options, message):
    with pytest.raises(InputError, match=message):
        KMedians(**{"n_clusters": 2, **options}).fit(np.random.default_rng(0).random((10, 4)))


def test_one_cluster_is_the_median(rng):
    profiles = rng.random((31, 24))
    model = KMedians(1).fit(profiles)
    np.testing.assert_allclose(model.cluster_centers_[0], np.median(profiles, axis=0))
    assert np.isinf(assign_to(profiles, model.cluster_centers_).second).all()


def test_the_number_of_threads_changes_nothing(monkeypatch, rng):
    profiles = rng.gamma(2.0, 0.4, (3000, 24))
    answers = []
    for few, cores in ((10**9, 4), (1, 1), (1, 3)):
        monkeypatch.setattr(kmedians, "FEW_ROWS", few)
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        answers.append(KMedians(7, init=profiles[:7], max_iter=8).fit(profiles))
    for other in answers[1:]:
        np.testing.assert_array_equal(other.cluster_centers_, answers[0].cluster_centers_)
        np.testing.assert_array_equal(other.labels_, answers[0].labels_)
