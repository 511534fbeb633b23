"""k-means in the l1 norm (Appendix A), with the methods of a scikit-learn estimator.

The loss of centres c is L(c) = Σ_i min_j ‖x_i − c_j‖₁ [kWh]. Lloyd's steps never raise it: they
assign every profile to its nearest centre and move every centre to the medians of its profiles.

The inner loops are compiled. They get the centres transposed, shape (d, k), so that the innermost
loop runs over centres, which the compiler turns into vector instructions.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import FloatArray, whole
from hushmeter.compiled import compiled
from hushmeter.errors import DataError, InputError, UnknownNameError

Labels = NDArray[np.int32]

Found = TypeVar("Found")

FEW_ROWS = 20_000
"""Number of rows below which threads cost more time than they save."""

SEARCH_ROWS = 10_000
"""Initial centres are searched on at most this many profiles (or a hundred for each cluster)."""

SLACK = 1e-12
"""Relative rounding error of a sum of distances."""


@compiled(cache=True, nogil=True)
def _distance(profile: Any, centre: Any) -> Any:
    """Return Σ_t |x_t − c_t|, in four independent sums that the processor computes in parallel."""
    a = b = c = d = 0.0
    hours = profile.size // 4 * 4
    for t in range(0, hours, 4):
        a += abs(profile[t] - centre[t])
        b += abs(profile[t + 1] - centre[t + 1])
        c += abs(profile[t + 2] - centre[t + 2])
        d += abs(profile[t + 3] - centre[t + 3])
    for t in range(hours, profile.size):
        a += abs(profile[t] - centre[t])
    return (a + b) + (c + d)


@compiled(cache=True, nogil=True)
def _distances(profile: Any, across: Any, sums: Any) -> None:
    """Compute the distance of a profile to every centre.

    Four hours at a time need a quarter of the loads and stores of `sums`.
    """
    sums[:] = 0.0
    hours = across.shape[0] // 4 * 4
    for t in range(0, hours, 4):
        a, b, c, d = profile[t], profile[t + 1], profile[t + 2], profile[t + 3]
        for j in range(sums.size):
            first = abs(a - across[t, j]) + abs(b - across[t + 1, j])
            sums[j] += first + (abs(c - across[t + 2, j]) + abs(d - across[t + 3, j]))
    for t in range(hours, across.shape[0]):
        for j in range(sums.size):
            sums[j] += abs(profile[t] - across[t, j])


@compiled(cache=True, nogil=True)
def _two_nearest(profile: Any, across: Any, sums: Any) -> Any:
    """Return the nearest centre (the first of equals) and the two smallest distances."""
    _distances(profile, across, sums)
    best, second, nearest = np.inf, np.inf, 0
    for j in range(sums.size):
        # No branches: the processor cannot predict which centre is nearest.
        closer = sums[j] < best
        second = min(second, max(sums[j], best))
        nearest = j if closer else nearest
        best = min(best, sums[j])
    return nearest, best, second


@compiled(cache=True, nogil=True)
def _assign_rows(profiles: Any, across: Any, labels: Any, first: Any, second: Any) -> None:
    """Compute label, distance to the nearest and to the second nearest centre of every profile."""
    sums = np.empty(across.shape[1])
    for i in range(profiles.shape[0]):
        labels[i], first[i], second[i] = _two_nearest(profiles[i], across, sums)


@compiled(cache=True, nogil=True)
def _reassign_rows(
    profiles: Any,
    centres: Any,
    across: Any,
    shifts: Any,
    gaps: Any,
    labels: Any,
    upper: Any,
    lower: Any,
) -> Any:
    """Update the labels after the centres moved by `shifts`; return how many labels changed.

    The triangle inequality keeps `upper` above the distance to the own centre and `lower` below
    the distance to every other centre. Distances are computed only where the two bounds cross
    (Hamerly's method [1]_).

    References
    ----------
    .. [1] G. Hamerly, Making k-means even faster, SIAM International Conference on Data Mining
       (2010).
    """
    furthest = np.argmax(shifts)
    largest, others = shifts[furthest], 0.0
    for j in range(shifts.size):
        if j != furthest:
            others = max(others, shifts[j])
    sums = np.empty(across.shape[1])
    changed = 0
    for i in range(profiles.shape[0]):
        own = labels[i]
        upper[i] += shifts[own]
        lower[i] -= others if own == furthest else largest
        safe = max(gaps[own], lower[i]) * (1 - SLACK)
        if upper[i] < safe:
            continue
        upper[i] = _distance(profiles[i], centres[own])
        if upper[i] < safe:
            continue
        labels[i], upper[i], lower[i] = _two_nearest(profiles[i], across, sums)
        changed += labels[i] != own
    return changed


@compiled(cache=True, nogil=True)
def _median_columns(
    profiles: Any, order: Any, labels: Any, counts: Any, centres: Any, start: int, stop: int
) -> None:
    """Compute the medians of every cluster for some hours, in one pass over each sorted column.

    `order`, shape (d, n), sorts each column and is computed only once, so that an update takes n·d
    steps. Empty clusters keep their centre. The median of an even number of values is the mean of
    the two middle ones.
    """
    left = np.empty(counts.size, dtype=np.int64)
    for t in range(start, stop):
        unknown = 0
        for j in range(counts.size):
            left[j] = counts[j] // 2 + 1
            unknown += counts[j] > 0
        for p in range(order.shape[1]):
            i = order[t, p]
            own = labels[i]
            left[own] -= 1
            # `left` counts down to 1 and 0 at the two middle values; the shift tests both with one
            # comparison, which is all that the other values need.
            if left[own] >> 1 == 0:
                even = counts[own] % 2 == 0
                if left[own] == 1:
                    centres[own, t] = profiles[i, t] / 2 if even else centres[own, t]
                    continue
                centres[own, t] = centres[own, t] + profiles[i, t] / 2 if even else profiles[i, t]
                unknown -= 1
                if unknown == 0:
                    break


class ConvergenceWarning(UserWarning):
    """Some clusters are empty, because there are too few different profiles."""


@dataclass
class Clustering:
    """Centres, labels and distances of one clustering."""

    centres: FloatArray  # The centres [kWh]
    labels: Labels  # The nearest centre of every profile
    # Distances to the nearest and to the second nearest centre [kWh]
    first: FloatArray
    second: FloatArray
    n_iter: int = 0  # Number of steps

    @property
    def loss(self) -> float:
        """The loss Σ_i ‖x_i − c_{label i}‖₁ [kWh]."""
        return float(self.first.sum())


def check_profiles(name: str, values: ArrayLike) -> FloatArray:
    """Return profiles as a finite matrix of floats, contiguous in memory."""
    array = np.asarray(values)
    if np.iscomplexobj(array):
        raise InputError(f"Complex data not supported: {name} must be real.")
    try:
        array = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a matrix of numbers: {error}.") from None
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{name} must have shape (n, hours), got {array.shape}.")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise DataError(f"{name} must be finite, but row {row} is not.")
    return array


def in_parts(size: int, rows: int, work: Callable[[slice], Found]) -> list[Found]:
    """Call `work` on slices that cover `size`, one for each core if there are many `rows`.

    Threads are enough, because sorts and compiled loops release the interpreter's lock.
    """
    cores = 1 if rows < FEW_ROWS else os.cpu_count() or 1
    edges = np.linspace(0, size, cores + 1).astype(int).tolist()
    parts = [slice(a, b) for a, b in pairwise(edges)]
    if cores == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(work, parts))


def sort_columns(profiles: FloatArray) -> NDArray[np.int32]:
    """Return the row numbers that sort each column, shape (d, n), four bytes for each value."""
    order = np.empty(profiles.shape[::-1], dtype=np.int32)

    def sort(part: slice) -> None:
        for t in range(part.start, part.stop):
            order[t] = np.argsort(np.ascontiguousarray(profiles[:, t]))

    in_parts(profiles.shape[1], profiles.shape[0], sort)
    return order


def across_hours(centres: FloatArray) -> FloatArray:
    """Return the transposed centres, padded with infinite centres to whole vector registers."""
    k, hours = centres.shape
    padded = np.full((hours, -(-k // 16) * 16 if k > 8 else k), np.inf)
    padded[:, :k] = centres.T
    return padded


def assign_to(profiles: FloatArray, centres: FloatArray) -> Clustering:
    """Assign every profile to its nearest centre."""
    size = profiles.shape[0]
    labels = np.empty(size, dtype=np.int32)
    first, second = np.empty(size), np.empty(size)
    across = across_hours(centres)

    def assign(part: slice) -> None:
        _assign_rows(profiles[part], across, labels[part], first[part], second[part])

    in_parts(size, size, assign)
    return Clustering(centres, labels, first, second)


def distances_to(profiles: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the distance of every profile to one centre, shape (n,)."""
    return all_distances(profiles, centre[None])[:, 0]


def all_distances(profiles: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the distance of every profile to every centre, shape (n, k)."""
    distances = np.zeros((profiles.shape[0], centres.shape[0]))
    for profile, centre in zip(profiles.T, centres.T, strict=True):
        distances += np.abs(profile[:, None] - centre)
    return distances


def draw_seeds(profiles: FloatArray, k: int, rng: np.random.RandomState) -> FloatArray:
    """Draw k profiles that are far apart (k-means++ [1]_, with the best of a few draws each).

    References
    ----------
    .. [1] D. Arthur, S. Vassilvitskii, k-means++: the advantages of careful seeding, ACM-SIAM
       Symposium on Discrete Algorithms (2007).
    """
    trials = 2 + int(math.log(k))
    centres = np.empty((k, profiles.shape[1]))
    centres[0] = profiles[rng.randint(profiles.shape[0])]
    nearest = distances_to(profiles, centres[0])
    for j in range(1, k):
        rows = draw_far(nearest, trials, rng)
        lowered = [np.minimum(nearest, distances_to(profiles, profiles[row])) for row in rows]
        best = int(np.argmin([distances.sum() for distances in lowered]))
        centres[j], nearest = profiles[rows[best]], lowered[best]
    return centres


def draw_far(distances: FloatArray, count: int, rng: np.random.RandomState) -> list[int]:
    """Draw rows in proportion to their distance; uniformly if all distances are zero."""
    summed = np.cumsum(distances)
    if not summed[-1] > 0:
        return [int(row) for row in rng.randint(distances.size, size=count)]
    rows = np.searchsorted(summed, rng.random_sample(count) * summed[-1], side="right")
    return [int(row) for row in np.minimum(rows, distances.size - 1)]


def descend(
    profiles: FloatArray, order: NDArray[np.int32], centres: FloatArray, max_iter: int
) -> Clustering:
    """Make Lloyd's steps until no label changes, at most `max_iter`."""
    state = assign_to(profiles, centres.copy())
    centres = state.centres
    upper, lower = state.first, state.second
    steps = 0
    while steps < max_iter:
        steps += 1
        before = centres.copy()
        counts = np.bincount(state.labels, minlength=centres.shape[0])
        _move_to_medians(profiles, order, state.labels, counts, centres)
        if not counts.all():
            _fill_empty(profiles, centres, counts)
        shifts = np.abs(centres - before).sum(axis=1)
        between = all_distances(centres, centres)
        np.fill_diagonal(between, np.inf)
        gaps = between.min(axis=1) / 2
        if _reassign(profiles, centres, (shifts, gaps), (state.labels, upper, lower)) == 0:
            break
    done = assign_to(profiles, centres)
    done.n_iter = steps
    return done


def _move_to_medians(
    profiles: FloatArray,
    order: NDArray[np.int32],
    labels: Labels,
    counts: NDArray[np.int64],
    centres: FloatArray,
) -> None:
    """Move every centre to the medians of its profiles, the hours in parallel parts."""
    # The labels are read in the order of each hour's values: small ones stay in the cache.
    small = labels.astype(np.uint8 if counts.size <= 256 else np.uint32)

    def move(part: slice) -> None:
        _median_columns(profiles, order, small, counts, centres, part.start, part.stop)

    in_parts(profiles.shape[1], profiles.shape[0], move)


def _reassign(
    profiles: FloatArray,
    centres: FloatArray,
    moves: tuple[FloatArray, FloatArray],
    rows: tuple[Labels, FloatArray, FloatArray],
) -> int:
    """Reassign the rows in parallel parts; return how many labels changed."""
    across = across_hours(centres)

    def reassign(part: slice) -> int:
        own = (array[part] for array in rows)
        return int(_reassign_rows(profiles[part], centres, across, *moves, *own))

    return sum(in_parts(profiles.shape[0], profiles.shape[0], reassign))


def _fill_empty(profiles: FloatArray, centres: FloatArray, counts: NDArray[np.int64]) -> None:
    """Move the centre of every empty cluster to the profile furthest from all centres."""
    nearest = assign_to(profiles, centres).first
    for j in np.flatnonzero(counts == 0):
        row = int(np.argmax(nearest))
        if nearest[row] == 0:
            return
        centres[j] = profiles[row]
        nearest = np.minimum(nearest, distances_to(profiles, centres[j]))


def swap_centres(
    profiles: FloatArray,
    order: NDArray[np.int32],
    state: Clustering,
    swaps: int,
    max_iter: int,
    rng: np.random.RandomState,
) -> Clustering:
    """Leave local optima: try distant profiles as centres and keep what lowers the loss.

    In every other trial the profile replaces the centre for which one pass over the profiles
    predicts the smallest loss, and a random centre in the trials between. Lloyd's steps decide
    whether the loss falls.
    """
    for turn, row in enumerate(draw_far(state.first, swaps, rng)):
        profile = profiles[row]
        losses = _swap_losses(distances_to(profiles, profile), state)
        centres = state.centres.copy()
        place = int(np.argmin(losses)) if turn % 2 == 0 else rng.randint(losses.size)
        centres[place] = profile
        moved = descend(profiles, order, centres, max_iter)
        if moved.loss < state.loss * (1 - 1e-9):
            state = moved
    return state


def _swap_losses(there: FloatArray, state: Clustering) -> FloatArray:
    """Return the loss if a candidate at distances `there` replaced each centre in turn."""
    kept = np.minimum(there, state.first)
    lost = np.minimum(there, state.second) - kept
    replaced = np.bincount(state.labels, weights=lost, minlength=state.centres.shape[0])
    losses: FloatArray = kept.sum() + replaced
    return losses


def search_centres(
    profiles: FloatArray,
    k: int,
    n_init: int,
    swaps: int,
    max_iter: int,
    rng: np.random.RandomState,
) -> FloatArray:
    """Return the centres of the best of several starts, improved by swaps, on a sample."""
    most = max(SEARCH_ROWS, 100 * k)
    if profiles.shape[0] > most:
        profiles = profiles[rng.choice(profiles.shape[0], most, replace=False)]
    order = sort_columns(profiles)
    starts = (draw_seeds(profiles, k, rng) for _ in range(n_init))
    states = (descend(profiles, order, centres, max_iter) for centres in starts)
    best = min(states, key=lambda state: state.loss)
    return swap_centres(profiles, order, best, swaps, max_iter, rng).centres


def batches(size: int, batch_size: int, rng: np.random.RandomState) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of one pass in random batches."""
    rows = rng.permutation(size)
    for start in range(0, size, batch_size):
        yield rows[start : start + batch_size]


def learn_batch(centres: FloatArray, seen: FloatArray, batch: FloatArray) -> float:
    """Move each centre towards the medians of its profiles in a batch; return the batch's loss.

    A centre is the mean of its batch medians, weighted by their numbers of profiles. With `seen`
    profiles before and b in this batch, c ← c + b/(seen + b)·(median − c).
    """
    state = assign_to(batch, centres)
    counts = np.bincount(state.labels, minlength=centres.shape[0])
    middle = centres.copy()
    _move_to_medians(batch, sort_columns(batch), state.labels, counts, middle)
    seen += counts
    weight = np.divide(counts, seen, out=np.zeros_like(seen), where=seen > 0)
    centres += weight[:, None] * (middle - centres)
    return state.loss


def descend_in_batches(
    profiles: FloatArray,
    centres: FloatArray,
    batch_size: int,
    max_iter: int,
    rng: np.random.RandomState,
) -> Clustering:
    """Learn from mini-batches until a pass lowers the loss by less than 0.1 %."""
    centres, last, steps = centres.copy(), np.inf, 0
    while steps < max_iter:
        steps += 1
        # The count restarts with each pass, because the first batches had other centres.
        seen = np.zeros(centres.shape[0])
        loss = sum(
            learn_batch(centres, seen, profiles[rows])
            for rows in batches(profiles.shape[0], batch_size, rng)
        )
        if not (seen > 0).all():
            _fill_empty(profiles, centres, seen.astype(np.int64))
        if loss > 0.999 * last:
            break
        last = loss
    done = assign_to(profiles, centres)
    done.n_iter = steps
    return done


PARAMETERS = ("n_clusters", "init", "n_init", "swaps", "max_iter", "batch_size", "random_state")


class KMedians:
    """Appendix A. Clusters of daily load profiles in the l1 norm.

    Minimises Σ_i min_j ‖x_i − c_j‖₁. Every profile belongs to the centre with the smallest sum of
    absolute hourly differences, and every centre is the hourly median of its profiles. The methods
    are those of a scikit-learn estimator, so that it can be cloned and used in a pipeline, but
    scikit-learn need not be installed.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k; the paper uses 30.
    init : "k-means++" or array_like of shape (k, d)
        "k-means++" draws profiles that are far apart. Given centres are used as they are, without
        restarts and swaps.
    n_init : int
        Number of starts; the best one is kept.
    swaps : int, optional
        Number of distant profiles that are tried as centres afterwards, to leave local optima; ten
        for each cluster by default.
    max_iter : int
        Largest number of steps of one start; with `batch_size`, of passes.
    batch_size : int, optional
        Size of mini-batches. They need no sorted columns and memory for the labels only.
    random_state : int or RandomState, optional
        Seed of starts, swaps and batches.

    Attributes
    ----------
    cluster_centers_ : array, shape (k, d)
        The centres, in the unit of the profiles.
    labels_ : array of int32, shape (n,)
        The cluster of every profile.
    inertia_ : float
        The loss, in the unit of the profiles.
    seen_ : array, shape (k,)
        Number of profiles of every centre, the weights of `partial_fit`.
    n_iter_ : int
        Number of steps after the search on a sample; with `batch_size`, of passes.

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
        """Learn the centres of the profiles X, shape (n, d); y is ignored.

        Starts and swaps use a sample of at most 10 000 profiles (or a hundred for each cluster);
        the steps after them use all profiles.
        """
        profiles = self._checked(X, reset=True)
        self._check_parameters(profiles)
        rng = self._generator()
        start = self._start(profiles, rng)
        if self.batch_size is None:
            self._keep(descend(profiles, sort_columns(profiles), start, self.max_iter))
        else:
            size = min(self.batch_size, profiles.shape[0])
            self._keep(descend_in_batches(profiles, start, size, self.max_iter, rng))
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:  # noqa: N803, ARG002
        """Learn from one more batch X, shape (n, d); the first one also starts it. y is ignored."""
        known = hasattr(self, "cluster_centers_")
        profiles = self._checked(X, reset=not known)
        if not known:
            self._check_parameters(profiles)
            self.cluster_centers_ = self._start(profiles, self._generator())
            self.seen_ = np.zeros(self.n_clusters)
        learn_batch(self.cluster_centers_, self.seen_, profiles)
        state = assign_to(profiles, self.cluster_centers_)
        self.labels_, self.inertia_ = state.labels, state.loss
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        return self

    def predict(self, X: ArrayLike) -> Labels:  # noqa: N803
        """Return the nearest centre of every profile of X, shape (n, d)."""
        return self._assign(X).labels

    def transform(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """Return the l1 distance of every profile of X to every centre, shape (n, k)."""
        profiles = self._checked(X, reset=False)
        return all_distances(profiles, self.cluster_centers_)

    def score(self, X: ArrayLike, y: Any = None) -> float:  # noqa: N803, ARG002
        """Return minus the loss of the profiles X on the learnt centres; y is ignored."""
        return -self._assign(X).loss

    def fit_predict(self, X: ArrayLike, y: Any = None) -> Labels:  # noqa: N803, ARG002
        """Learn the centres and return the cluster of every profile of X; y is ignored."""
        return self.fit(X).labels_

    def fit_transform(self, X: ArrayLike, y: Any = None) -> FloatArray:  # noqa: N803, ARG002
        """Learn the centres and return the distances of X to them; y is ignored."""
        return self.fit(X).transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the parameters by their names; deep is ignored."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by their names and return the estimator itself."""
        for name, value in parameters.items():
            if name not in PARAMETERS:
                raise UnknownNameError("parameter of KMedians", name, PARAMETERS)
            setattr(self, name, value)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the columns of `transform`; input_features is ignored."""
        return np.array([f"kmedians{j}" for j in range(len(self.cluster_centers_))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know about an estimator; only scikit-learn calls it."""
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="clusterer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
        )

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in self.get_params().items())
        return f"KMedians({', '.join(given)})"

    def _generator(self) -> np.random.RandomState:
        state = self.random_state
        return state if isinstance(state, np.random.RandomState) else np.random.RandomState(state)

    def _start(self, profiles: FloatArray, rng: np.random.RandomState) -> FloatArray:
        if isinstance(self.init, str):
            swaps = 10 * self.n_clusters if self.swaps is None else self.swaps
            options = (self.n_clusters, self.n_init, swaps, self.max_iter, rng)
            return search_centres(profiles, *options)
        return np.array(self.init, dtype=np.float64)

    def _assign(self, X: ArrayLike) -> Clustering:  # noqa: N803
        return assign_to(self._checked(X, reset=False), self.cluster_centers_)

    def _checked(self, X: ArrayLike, *, reset: bool) -> FloatArray:  # noqa: N803
        profiles = check_profiles("X", X)
        if reset:
            self.n_features_in_ = profiles.shape[1]
        elif not hasattr(self, "cluster_centers_"):
            raise InputError("this KMedians has no centres yet; call fit first.")
        elif profiles.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {profiles.shape[1]} features, but KMedians is expecting "
                f"{self.n_features_in_} features as input."
            )
        return profiles

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
                f"only {used} of {self.n_clusters} clusters contain a profile, because there are "
                "too few different profiles.",
                ConvergenceWarning,
                stacklevel=3,
            )
