"""Semi-blind: an attacker without sub-meters in the home, which learnt from other homes.

The network learns types of appliances from several sub-metered homes, a population. It then attacks
a home of which it has seen nothing but the readings of the meter. It works on means of one minute.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hushmeter.attack.base import Observation
from hushmeter.attack.levels import training_power
from hushmeter.attack.network import (
    Cells,
    NetSettings,
    NetworkAttacker,
    Noise,
    Weights,
    build_net,
    evaluate,
    one_thread,
    progress_bar,
    set_bias,
    train,
)
from hushmeter.attack.population import (
    CELL_S,
    TYPES,
    HomeData,
    PopulationWindows,
    drop_silent_days,
    label_types,
    mean_powers,
    strange_circuits,
    to_minutes,
    type_of,
    watt_encoder,
)
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import short_duration
from hushmeter.home import Appliance, Home
from hushmeter.trace import Runs, Trace

if TYPE_CHECKING:
    from torch import nn

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Probabilities above which a type may be reported as on, the usual one first."""

WINDOW = 512
"""Minutes of a training window, unless the settings name another number."""

JUDGED = 20_160
"""Largest number of minutes of a home that decide about the thresholds: two weeks."""


class SemiBlind(NetworkAttacker):
    """Semi-blind. The probability that each appliance is on, learnt from other homes only.

    Parameters
    ----------
    home : Home
        Appliances to find. The type of an appliance follows from its name (`type_of`); its power
        is not used.
    mechanism : Laplace, Staircase, Gaussian or None
        Mechanism whose noise distribution the attacker knows (see `Attacker.knows`); None for
        readings without noise.
    settings : NetSettings, mapping or None
        How the networks are made and trained; a window is a number of minutes. Each network leaves
        out other homes, which decide about the thresholds, and there are not more networks than
        homes. A single network leaves out no home, and its thresholds are 0.5.
    seed : int
        The same seed and data give the same networks.
    progress : bool
        Whether to show a progress bar on standard error while training.

    Attributes
    ----------
    interval_s_ : float
        Interval of readings that are not a trace: that of the training data, or one minute. [s]
    types_ : tuple of str
        Types that the population has.
    homes_ : array of int, shape (types,)
        Number of homes with each type.
    powers_ : array, shape (types,)
        Mean power of each type while on. [W]
    thresholds_ : array, shape (types,)
        Probability above which a type is reported as on.
    weights_ : tuple of Weights
        Parameters of the networks.

    Raises
    ------
    MissingExtraError
        If PyTorch is not installed.

    Notes
    -----
    `learn_population` trains on several homes, and `for_home` returns the attacker on a home. `fit`
    learns from a single home, which is then the whole population.

    The network is that of `tcn`. Its inputs are watts above the lowest 15-min mean of 4 h, so that
    they mean the same in every home. Six of ten training windows are synthetic: the power that no
    known type explains in one home, plus runs of each type from any home, each multiplied by a
    random factor. The others are real windows. Circuits of other types or rectangular pulses are
    added to four of ten windows, because unknown homes have unknown appliances. A type that is not
    metered in a home does not count in the loss there.

    The threshold of a type is 0.4. Where the accuracy about all types together would be below that
    of "always off" in a home that a network has not seen, the thresholds of the types that lose
    most there are raised, up to 0.9 (`raise_thresholds`).
    """

    name: ClassVar[str] = "semi-blind"
    needs: ClassVar[str] = "sub-metered data of other homes; PyTorch (the extra named deep)"
    assumes: ClassVar[str] = "appliances of one type are alike in all homes"

    usual: ClassVar[NetSettings] = NetSettings(channels=40, nets=5, steps=600)
    checked_with: ClassVar[dict[str, Any]] = {
        "settings": {"channels": 8, "steps": 2, "batch": 2, "window": 4}
    }

    interval_s_: float
    types_: tuple[str, ...]
    homes_: IntArray
    powers_: FloatArray
    thresholds_: FloatArray

    @property
    def _window(self) -> int:
        """Minutes per training window."""
        return self.settings.window or WINDOW

    def fit(self, trace: Trace) -> Self:
        """Learn the types of one home, which is then the whole population."""
        super().fit(trace)
        names = self.home.names if trace.names is None else trace.names
        power = training_power(trace, self.home)
        self.fit_homes([to_minutes(trace.derive(states=trace.truth(), power=power, names=names))])
        self.interval_s_ = trace.interval_s
        return self

    def fit_homes(self, traces: Sequence[Trace], strange: Sequence[FloatArray] = ()) -> Self:
        """Learn the types of several homes.

        Parameters
        ----------
        traces : sequence of Trace
            Readings of about one minute with the names, states and power of appliances, as
            `label_types` returns them.
        strange : sequence of arrays
            Power of circuits of other types per minute, which the network learns not to confuse
            with the known types. [W]

        Returns
        -------
        SemiBlind
            The attacker itself.

        Raises
        ------
        DataError
            If no trace is as long as a training window.
        """
        types = tuple(sorted({type_of(name) for trace in traces for name in trace.names or ()}))
        homes = [HomeData.of(trace, types) for trace in traces if len(trace) >= self._window]
        if not homes:
            raise DataError(
                f"the {self.name} attacker needs at least {self._window} min of readings from "
                "one home to learn from."
            )
        self.types_, self.interval_s_ = types, CELL_S
        self.powers_ = mean_powers(homes)
        self.homes_ = np.sum([home.metered for home in homes], axis=0)
        groups = _left_out_homes(len(homes), self.settings.nets)
        with (
            one_thread(),
            progress_bar(len(groups) * self.settings.steps, self.progress) as advance,
        ):
            self.weights_ = tuple(
                self._train(k, [h for i, h in enumerate(homes) if i not in group], strange, advance)
                for k, group in enumerate(groups)
            )
            self.thresholds_ = self._find_thresholds(homes, groups)
        return self

    def for_home(self, home: Home) -> Self:
        """Return the attacker on the appliances of another home.

        Raises
        ------
        InputError
            If the population has no appliance of a wanted type.
        """
        made = type(self)(home, **{**self.parameters, "progress": False})
        for name in ("interval_s_", "types_", "homes_", "powers_", "thresholds_", "weights_"):
            setattr(made, name, getattr(self, name))
        made._columns()
        return made

    def _predict(self, seen: Observation) -> BoolArray:
        chance = self._predict_proba(seen)
        return chance > self.thresholds_[self._columns()]

    def _predict_proba(self, seen: Observation) -> FloatArray:
        self._require_fit("weights_")
        columns = self._columns()
        interval_s = self.interval_s_ if seen.interval_s is None else seen.interval_s
        if interval_s > CELL_S:
            raise InputError(
                f"the {self.name} attacker needs readings of at most 1 min, and these have "
                f"{short_duration(interval_s)}."
            )
        size = Cells(interval_s).size
        cells = _Minutes(seen.run_starts, size)
        noise = Noise.of(self.mechanism)
        noise = Noise(noise.std / math.sqrt(size), noise.shape)
        with one_thread():
            chance = evaluate(
                self._networks(), watt_encoder(), cells.mean(seen.readings), cells.run_starts, noise
            )
        return chance[cells.place][:, columns]

    def _columns(self) -> list[int]:
        """Column of the type of every appliance of the home."""
        wanted = [type_of(name) for name in self.home.names]
        missing = [kind for kind in wanted if kind not in self.types_]
        if missing:
            raise InputError(
                f"the population has no {missing[0]}: it has {', '.join(self.types_)}."
            )
        return [self.types_.index(kind) for kind in wanted]

    def _check_learnt(self) -> None:
        if hasattr(self, "weights_"):
            sizes = {len(self.types_), self.powers_.size, self.thresholds_.size}
            if not self._has_networks() or len(sizes) != 1:
                raise DataError(f"a saved {self.name} attacker is damaged.")

    def _build(self, weights: Weights | None = None, seed: int = 0) -> nn.ModuleDict:
        return build_net(Cells(CELL_S), self.settings.channels, len(self.types_), weights, seed)

    def _train(
        self,
        number: int,
        homes: Sequence[HomeData],
        strange: Sequence[FloatArray],
        advance: Callable[[int], None],
    ) -> Weights:
        """Train one network on some of the homes."""
        seed = self.seed * 100 + number
        net = self._build(seed=seed)
        windows = PopulationWindows(homes, strange, self._window, np.random.default_rng(seed))
        set_bias(net, windows.on_share)
        return train(net, windows, self.settings, seed, advance)

    def _find_thresholds(
        self, homes: Sequence[HomeData], groups: Sequence[Sequence[int]]
    ) -> FloatArray:
        """Thresholds with which the homes that a network left out are not below "always off"."""
        gains = []
        for weights, group in zip(self.weights_, groups, strict=True):
            net = self._build(weights)
            for home in (homes[i] for i in group):
                part = slice(0, JUDGED)
                starts, truth = home.run_starts[part], home.states[part]
                chance = evaluate([net], watt_encoder(), home.readings[part], starts, Noise())
                right = [((chance > p) == truth).mean(axis=0) for p in THRESHOLDS]
                gains.append((np.array(right) - (~truth).mean(axis=0)) * home.metered)
        if not gains:
            return np.full(len(self.types_), 0.5)
        return np.array(THRESHOLDS)[raise_thresholds(np.array(gains))]


def raise_thresholds(gains: FloatArray) -> IntArray:
    """Raise the thresholds of types until no home is below "always off".

    Notes
    -----
    All types start at the lowest threshold. As long as the sum over the types is negative in some
    home, the type that loses most in the worst home gets its next threshold. A type is not judged
    alone, because a few homes say little about it.
    """
    level = np.zeros(gains.shape[2], np.int64)
    while True:
        current = np.take_along_axis(gains, level[None, None, :], axis=1)[:, 0]
        worst = int(current.sum(axis=1).argmin())
        loses = np.where(level < gains.shape[1] - 1, current[worst], 0.0)
        if current[worst].sum() >= 0 or loses.min() >= 0:
            return level
        level[int(loses.argmin())] += 1


def _left_out_homes(homes: int, nets: int) -> list[list[int]]:
    """Homes that each network leaves out; a single network leaves out none."""
    count = min(homes, nets)
    return [list(range(k, homes, count)) for k in range(count)] if count > 1 else [[]]


class _Minutes:
    """The cells of about one minute into which contiguous runs are divided."""

    def __init__(self, run_starts: BoolArray, size: int) -> None:
        runs = Runs.between_gaps(run_starts)
        within = np.arange(run_starts.size) - np.repeat(runs.first, runs.length)
        begins = within % size == 0
        self.place: IntArray = np.cumsum(begins) - 1
        self.run_starts: BoolArray = run_starts[begins]

    def mean(self, readings: FloatArray) -> FloatArray:
        """Mean of the readings of each cell [W]."""
        mean: FloatArray = np.bincount(self.place, readings) / np.bincount(self.place)
        return mean


def learn_population(traces: Sequence[Trace], **parameters: Any) -> SemiBlind:
    """Learn types of appliances from sub-metered homes.

    Parameters
    ----------
    traces : sequence of Trace
        Readings with the power and the names of circuits; see `label_types` for what a type is and
        when it is on. Days on which the meter reports a single value are left out.
    **parameters
        Parameters of `SemiBlind`.

    Returns
    -------
    SemiBlind
        The attacker on a home that has one appliance of each type.

    Raises
    ------
    DataError
        If no circuit has a known type.
    """
    moving = [drop_silent_days(trace) for trace in traces]
    labelled = [found for found in map(label_types, moving) if found is not None]
    if not labelled:
        known = ", ".join(kind.name for kind in TYPES)
        raise DataError(f"no circuit of the data has a known type: {known}.")
    names = sorted({name for trace in labelled for name in trace.names or ()})
    sketch = Home([Appliance(name, 1.0) for name in names], 1.0, name="population")
    strange = [circuit for trace in moving for circuit in strange_circuits(trace)]
    learnt = SemiBlind(sketch, **parameters).fit_homes(labelled, strange)
    members = [
        Appliance(name, float(max(round(power), 1)))
        for name, power in zip(learnt.types_, learnt.powers_, strict=True)
    ]
    return learnt.for_home(Home(members, 10.0, name="population"))
