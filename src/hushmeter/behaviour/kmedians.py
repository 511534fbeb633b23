"""k-means in the l1 norm (Appendix A), as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from hushmeter.behaviour import kernels
from hushmeter.behaviour.lloyd import (
    Clustering,
    Labels,
    assign_to,
    descend,
    descend_in_batches,
    learn_batch,
    search_centres,
    sort_columns,
)
from hushmeter.checks import FloatArray, whole
from hushmeter.errors import InputError


class KMedians(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Appendix A. Clusters of daily load profiles in the l1 norm.

    Minimises Σ_i min_j ‖x_i − c_j‖₁: every profile belongs to the nearest centre by the sum of
    absolute differences, every centre is the median of its profiles, hour by hour.

    Parameters
    ----------
    n_clusters : int
        k; the paper takes 30.
    init : "k-means++" or array_like of shape (k, d)
        Profiles far apart, or given centres (then there are no restarts and no swaps).
    n_init : int
        Starts from different seeds; the best is kept.
    swaps : int, optional
        How many far profiles are tried in the place of a centre afterwards, to leave local
        optima; ten per cluster by default.
    max_iter : int
        Most steps of one start; with `batch_size`, most passes.
    batch_size : int, optional
        Learn from mini-batches of so many profiles: no sorted columns, memory for the labels only.
    random_state : int, RandomState, optional

    Attributes
    ----------
    cluster_centers_ : (k, d)
    labels_ : (n,) int32
    inertia_ : float
        The loss, in the unit of the profiles.
    seen_ : (k,)
        Profiles behind every centre, the weights of `partial_fit`.
    n_iter_ : int
        Steps from the centres found on a sample; passes with `batch_size`.

    Examples
    --------
    >>> KMedians(2, random_state=0).fit([[0.0], [1.0], [5.0], [6.0]]).inertia_
    2.0
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int = 5,
        swaps: int | None = None,
        max_iter: int = 100,
        batch_size: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.swaps = swaps
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:  # noqa: N803, ARG002
        """Learn the centres from profiles (n, d).

        Starts and swaps work on a sample of at most 10 000 profiles (or a hundred per cluster),
        the steps that follow on all.
        """
        profiles = self._checked(X, reset=True)
        self._check_parameters(profiles)
        rng = check_random_state(self.random_state)
        start = self._start(profiles, rng)
        if self.batch_size is None:
            self._keep(descend(profiles, sort_columns(profiles), start, self.max_iter))
        else:
            size = min(self.batch_size, profiles.shape[0])
            self._keep(descend_in_batches(profiles, start, size, self.max_iter, rng))
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:  # noqa: N803, ARG002
        """Learn from one more batch of profiles; the first draws the seeds."""
        known = hasattr(self, "cluster_centers_")
        profiles = self._checked(X, reset=not known)
        if not known:
            self._check_parameters(profiles)
            rng = check_random_state(self.random_state)
            self.cluster_centers_ = self._start(profiles, rng)
            self.seen_ = np.zeros(self.n_clusters)
        learn_batch(self.cluster_centers_, self.seen_, profiles)
        state = assign_to(profiles, self.cluster_centers_)
        self.labels_, self.inertia_ = state.labels, state.loss
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        return self

    def predict(self, X: ArrayLike) -> Labels:  # noqa: N803
        """Nearest centre of every profile, (n,) int32."""
        return self._assign(X).labels

    def transform(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """l1 distance of every profile to every centre, (n, k)."""
        check_is_fitted(self)
        profiles = self._checked(X, reset=False)
        out = np.empty((profiles.shape[0], self.cluster_centers_.shape[0]))
        kernels.all_distances(profiles, np.ascontiguousarray(self.cluster_centers_.T), out)
        return out

    def score(self, X: ArrayLike, y: Any = None) -> float:  # noqa: N803, ARG002
        """Minus the loss of profiles on the learnt centres."""
        return -self._assign(X).loss

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _start(self, profiles: FloatArray, rng: np.random.RandomState) -> FloatArray:
        if isinstance(self.init, str):
            swaps = 10 * self.n_clusters if self.swaps is None else self.swaps
            options = (self.n_clusters, self.n_init, swaps, self.max_iter, rng)
            return search_centres(profiles, *options)
        return np.array(self.init, dtype=np.float64)

    def _assign(self, X: ArrayLike) -> Clustering:  # noqa: N803
        check_is_fitted(self)
        return assign_to(self._checked(X, reset=False), self.cluster_centers_)

    def _checked(self, X: ArrayLike, *, reset: bool) -> FloatArray:  # noqa: N803
        checked: FloatArray = validate_data(self, X, dtype=np.float64, order="C", reset=reset)
        return checked

    def _check_parameters(self, profiles: FloatArray) -> None:
        size, hours = profiles.shape
        k = whole("n_clusters", self.n_clusters)
        if size < k:
            raise InputError(f"{k} clusters need at least {k} profiles, got n_samples={size}.")
        whole("n_init", self.n_init)
        whole("max_iter", self.max_iter)
        for name, least in (("swaps", 0), ("batch_size", 1)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=least)
        if isinstance(self.init, str):
            if self.init != "k-means++":
                raise InputError(f"init must be 'k-means++' or centres, got {self.init!r}.")
        elif np.shape(self.init) != (k, hours):
            raise InputError(f"init must have shape ({k}, {hours}), got {np.shape(self.init)}.")

    def _keep(self, state: Clustering) -> None:
        self.cluster_centers_, self.labels_ = state.centres, state.labels
        self.inertia_, self.n_iter_ = state.loss, state.n_iter
        self.seen_ = np.bincount(state.labels, minlength=self.n_clusters).astype(np.float64)
        used = int((self.seen_ > 0).sum())
        if used < self.n_clusters:
            warnings.warn(
                f"only {used} of {self.n_clusters} clusters hold a profile: there are too few "
                "different profiles.",
                ConvergenceWarning,
                stacklevel=3,
            )
