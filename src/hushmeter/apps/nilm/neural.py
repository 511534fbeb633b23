"""RNN and TCN: neural networks that learn from the sub-meters of the home they attack.

RNN is one recurrent network per appliance, from a window of mains to the power of the appliance.
TCN is a convolutional network for all appliances and all noise levels: it is trained on readings
with simulated noise of random size and distribution, and the standard deviation of this noise is
one of its inputs.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hushmeter.apps.nilm.network import (
    Cells,
    Encoder,
    Example,
    NetworkAttacker,
    Noise,
    NoisyNetworkAttacker,
    Weights,
    add_noise,
    build_net,
    evaluate,
    one_thread,
    progress_bar,
    set_bias,
    train,
    weights_of,
    with_weights,
)
from hushmeter.attack.base import AttackerSettings, Observation, check_interval
from hushmeter.attack.levels import training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray, positive, whole
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import short_duration
from hushmeter.trace import Runs, Trace

if TYPE_CHECKING:
    import torch
    from torch import nn

PREDICT_BATCH = 4096
"""Number of windows that are evaluated at a time, which bounds the memory."""

KERNEL = 4
"""Width of the convolution."""


@dataclass(frozen=True)
class RecurrentSettings(AttackerSettings):
    """Layers and training of the recurrent networks.

    Attributes
    ----------
    window : int
        Number of readings that a prediction uses, centred on its own reading; the authors'
        reference code uses one. At the ends of a contiguous run the first and the last reading
        are repeated.
    filters, hidden, dense : int, (int, int), int
        Sizes of the layers.
    epochs, batch, rate : int, int, float
        Number of passes over the data, readings per step, and step size of Adam.
    most_readings : int or None
        Largest number of training readings; evenly spaced ones are used if there are more.
    """

    window: int = 1
    filters: int = 16
    hidden: tuple[int, int] = (128, 256)
    dense: int = 128
    epochs: int = 5
    batch: int = 128
    rate: float = 0.01
    most_readings: int | None = None

    def __post_init__(self) -> None:
        if len(self.hidden) != 2:
            raise InputError(f"hidden must be two sizes, got {self.hidden!r}.")
        for size in self.hidden:
            whole("hidden", size)
        for name in ("window", "filters", "dense", "epochs", "batch"):
            whole(name, getattr(self, name))
        if self.most_readings is not None:
            whole("most_readings", self.most_readings)
        positive("rate", self.rate)


class RecurrentNet(NetworkAttacker):
    """RNN [1]_. Convolution, two bidirectional LSTMs and two dense layers per appliance.

    Parameters
    ----------
    home : Home
    settings : RecurrentSettings, mapping or None
        Layers and training of the networks.
    seed, progress
        As in `Tcn`.

    Attributes
    ----------
    scale_ : float
        Value by which the mains are divided: the largest in training. [W]
    weights_ : tuple of Weights
        Parameters of the network of each appliance.

    Raises
    ------
    MissingExtraError
        If PyTorch is not installed.

    Notes
    -----
    The layers are Conv1D(16, 4, same) → BiLSTM 128 (sequence) → BiLSTM 256 (last) → Dense 128
    tanh → Dense 1. The target is the appliance's power divided by its mean power, and the loss is
    the squared error. An appliance is on if the predicted power exceeds half its mean power.

    References
    ----------
    .. [1] J. Kelly, W. Knottenbelt, "Neural NILM: deep neural networks applied to energy
       disaggregation", ACM BuildSys, 2015.
    """

    name: ClassVar[str] = "rnn"
    needs: ClassVar[str] = "sub-metered data; PyTorch (the extra named deep)"
    assumes: ClassVar[str] = "the home behaves as in training"

    usual: ClassVar[AttackerSettings] = RecurrentSettings()
    checked_with: ClassVar[dict[str, Any]] = {
        "settings": {"hidden": (8, 8), "dense": 8, "epochs": 1}
    }

    settings: RecurrentSettings
    scale_: float

    @property
    def lookback(self) -> int | None:
        """No memory with a window of one reading."""
        return 0 if self.settings.window == 1 else None

    def fit(self, trace: Trace) -> Self:
        """Train one network per appliance."""
        super().fit(trace)
        power = training_power(trace, self.home) / self.home.powers
        self.scale_ = float(max(np.abs(trace.readings).max(), 1.0))
        windows = _Windows(trace.readings / self.scale_, trace.run_starts, self.settings.window)
        used = min(self.settings.most_readings or len(trace), len(trace))
        rows = np.arange(used) * len(trace) // used
        steps = len(self.home) * self.settings.epochs * -(-used // self.settings.batch)
        with one_thread(), progress_bar(steps, self.progress) as advance:
            self.weights_ = tuple(
                self._train(windows, rows, power[:, i].astype(np.float32), name, advance)
                for i, name in enumerate(self.home.names)
            )
        return self

    def _predict(self, seen: Observation) -> BoolArray:
        return self._predict_power(seen) > self.home.powers / 2

    def _predict_power(self, seen: Observation) -> FloatArray:
        """Output of the networks [W], shape (T, N); negative values become zero."""
        self._require_fit("weights_")
        if self.settings.window > 1:
            windows = _Windows(seen.readings / self.scale_, seen.run_starts, self.settings.window)
            return self._forward(windows)
        # Without context, equal readings have equal outputs, and readings on a grid are often
        # equal: each distinct reading is evaluated once.
        distinct, which = np.unique(seen.readings, return_inverse=True)
        alone = np.ones(distinct.size, np.bool_)
        return self._forward(_Windows(distinct / self.scale_, alone, 1))[which]

    def _forward(self, windows: _Windows) -> FloatArray:
        """Output of the networks for every window [W], shape (T, N)."""
        import torch

        size = windows.values.size
        power = np.empty((size, len(self.home)))
        with one_thread(), torch.inference_mode():
            for i, net in enumerate(self._networks()):
                for first in range(0, size, PREDICT_BATCH):
                    rows = np.arange(first, min(first + PREDICT_BATCH, size))
                    power[rows, i] = _run(net, windows[rows]).numpy()
        return np.maximum(power, 0.0) * self.home.powers

    def _check_learnt(self) -> None:
        if hasattr(self, "weights_"):
            positive("scale", self.scale_)
            if self._count_networks() != len(self.home):
                raise DataError("a saved rnn attacker is damaged.")

    def _build(self, weights: Weights | None = None, seed: int = 0) -> nn.ModuleDict:
        """A network with the given parameters, or with random ones.

        The state of PyTorch's own generator does not change.
        """
        import torch
        from torch import nn

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            sizes, both = self.settings, {"batch_first": True, "bidirectional": True}
            # The order of the layers decides which random numbers they get, and the order of the
            # arrays in a saved attacker.
            net = nn.ModuleDict(
                {
                    "convolution": nn.Conv1d(1, sizes.filters, KERNEL),
                    "sequence": nn.LSTM(sizes.filters, sizes.hidden[0], **both),
                    "summary": nn.LSTM(2 * sizes.hidden[0], sizes.hidden[1], **both),
                    "dense": nn.Linear(2 * sizes.hidden[1], sizes.dense),
                    "output": nn.Linear(sizes.dense, 1),
                }
            )
        return net if weights is None else with_weights(net, weights)

    def _train(
        self,
        windows: _Windows,
        used: IntArray,
        target: NDArray[np.float32],
        name: str,
        advance: Callable[[int], None],
    ) -> Weights:
        """Train the network of one appliance on the used rows; returns its parameters."""
        import torch

        # The seed depends on the name: another order of the appliances trains the same networks.
        seed = zlib.crc32(f"{self.seed} {name}".encode())
        net = self._build(seed=seed)
        optimiser = torch.optim.Adam(net.parameters(), lr=self.settings.rate, fused=True)
        rng = np.random.default_rng(seed)
        for _ in range(self.settings.epochs):
            order = rng.permutation(used)
            for first in range(0, order.size, self.settings.batch):
                rows = order[first : first + self.settings.batch]
                optimiser.zero_grad()
                distinct, which = windows.distinct(rows)
                error: Any = _run(net, distinct)[which] - torch.from_numpy(target[rows])
                (error**2).mean().backward()
                optimiser.step()
                advance(1)
        return weights_of(net)


def _run(net: nn.ModuleDict, windows: torch.Tensor) -> torch.Tensor:
    """Scaled power (B,) for windows (B, W)."""
    import torch
    from torch.nn.functional import pad

    left = (KERNEL - 1) // 2
    padded = pad(windows[:, None, :], (left, KERNEL - 1 - left))
    series = net["convolution"](padded).transpose(1, 2)
    if windows.shape[1] == 1:
        summary = _one_step(net["summary"], _one_step(net["sequence"], series[:, 0]))
    else:
        series, _ = net["sequence"](series)
        _, (last, _) = net["summary"](series)
        summary = torch.cat([last[0], last[1]], dim=1)
    power: torch.Tensor = net["output"](torch.tanh(net["dense"](summary)))[:, 0]
    return power


def _one_step(lstm: Any, values: torch.Tensor) -> torch.Tensor:
    """Output (B, 2H) of a bidirectional LSTM for series of one reading, (B, D).

    The state before the only reading is zero, so that the recurrent weights and the forget gate
    have no effect. Without them a step costs less than half.
    """
    import torch
    from torch.nn.functional import linear

    outputs = []
    for suffix in ("", "_reverse"):
        weights = getattr(lstm, f"weight_ih_l0{suffix}")
        bias = getattr(lstm, f"bias_ih_l0{suffix}") + getattr(lstm, f"bias_hh_l0{suffix}")
        size = lstm.hidden_size
        # PyTorch stacks the rows of the input, forget, cell and output gates in this order.
        entry = linear(values, weights[:size], bias[:size])
        cell, output = linear(values, weights[2 * size :], bias[2 * size :]).chunk(2, dim=1)
        outputs.append(torch.sigmoid(output) * torch.tanh(torch.sigmoid(entry) * torch.tanh(cell)))
    return torch.cat(outputs, dim=1)


class _Windows:
    """Windows of a series by row, which end at the ends of its contiguous runs."""

    def __init__(self, values: FloatArray, starts: BoolArray, width: int) -> None:
        self.values = values.astype(np.float32)
        runs = Runs.between_gaps(starts)
        self.first = np.repeat(runs.first, runs.length)
        self.last = np.repeat(runs.last, runs.length)
        self.offsets = np.arange(width) - width // 2

    def __getitem__(self, rows: IntArray) -> torch.Tensor:
        import torch

        places = rows[:, None] + self.offsets
        places = np.clip(places, self.first[rows, None], self.last[rows, None])
        return torch.from_numpy(self.values[places])

    def distinct(self, rows: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
        """Distinct windows of the rows, and the place of each row among them.

        Equal windows have equal outputs. At 3 s about half of the readings of a batch are equal to
        another one, so that a step costs a third less. Longer windows are rarely equal.
        """
        import torch

        windows = self[rows]
        if self.offsets.size > 1:
            return windows, torch.arange(rows.size)
        values, which = torch.unique(windows[:, 0], return_inverse=True)
        return values[:, None], which


WINDOW_S = 512 * 60.0
"""Length of a training window [s]."""

LEAST_WINDOW = 96
"""Smallest number of cells of a training window: a day of quarter hours."""

LARGE_CELL = 4
"""Cells with more readings are trained in a quarter of the windows per step, because the readings
within the cells take most of the time."""

FOLDS = 5
"""Each network leaves out one of this number of parts of the training data."""

THRESHOLD = 0.4
"""Probability above which an appliance is reported as on. The best threshold for F1 is half of the
F1 that it achieves (Lipton, Elkan, Naryanaswamy 2014), so it is below one half for every attacker
that makes errors; 0.4 suits an F1 of 0.8."""


class Tcn(NoisyNetworkAttacker):
    """TCN. Dilated convolutions from noisy mains to the probability that each appliance is on.

    Parameters
    ----------
    home : Home
    mechanism
        As in `Bayes`.
    settings : NetSettings, mapping or None
        How the networks are made and trained. There are at most five networks; each leaves out
        another fifth of the training data and stops when it no longer improves there. A step has a
        quarter of the windows for readings of less than 15 s. A window has by default as many cells
        as 512 min have, and at least 96; a cell is a reading, or about one minute if the readings
        are shorter.
    seed : int
        The same seed and data give the same networks; the order of the appliances has no effect.
    progress : bool
        Whether to show a progress bar on standard error while training.

    Attributes
    ----------
    interval_s_ : float
        Interval of the training data. [s]
    centre_, spread_ : float
        Median and standard deviation of the training mains. [W]
    never_on_ : tuple of str
        Appliances that never run in the training data; they are always predicted to be off.
    weights_ : tuple of Weights
        Parameters of the networks.

    Raises
    ------
    MissingExtraError
        If PyTorch is not installed.

    Notes
    -----
    The inputs are the reading, its change, its mean over 5 to 135 min, and its height over the
    lowest 15-min mean of 4 h, each divided by a scale that grows with the noise, and the standard
    deviation and the shape of the noise. Residual blocks follow whose convolutions combine
    readings that are up to 4 h apart [1]_. The loss is the cross entropy plus 0.3 times the soft
    Dice loss of each appliance. In training, the noise of a window is absent, or has a log-uniform
    scale between 20 W and 1.3 times the power of the largest appliance and a Laplace, Gaussian or
    staircase distribution. In three of ten windows, the power of one or two appliances is replaced
    by their power at another time, so that the network sees combinations that did not occur.

    An appliance is predicted to be on where the mean probability exceeds 0.4, whatever the noise:
    the best threshold for F1 is half of the F1 that it achieves [2]_, so 0.4 suits an F1 of 0.8.

    References
    ----------
    .. [1] S. Bai, J. Z. Kolter, V. Koltun, "An empirical evaluation of generic convolutional and
       recurrent networks for sequence modeling", arXiv:1803.01271, 2018.
    .. [2] Z. C. Lipton, C. Elkan, B. Naryanaswamy, "Optimal thresholding of classifiers to
       maximize F1 measure", ECML PKDD, 2014.
    """

    name: ClassVar[str] = "tcn"
    needs: ClassVar[str] = "sub-metered training data; PyTorch (the extra named deep)"
    assumes: ClassVar[str] = "the home behaves as in training; the noise distribution is known"

    most_nets: ClassVar[int | None] = FOLDS
    checked_with: ClassVar[dict[str, Any]] = {
        "settings": {"channels": 8, "steps": 2, "batch": 2, "window": 4, "nets": 1}
    }

    interval_s_: float
    centre_: float
    spread_: float
    never_on_: tuple[str, ...]

    def fit(self, trace: Trace) -> Self:
        """Train the networks on readings without noise and true states.

        Raises
        ------
        DataError
            If the trace is shorter than one training window, or no appliance runs in it.
        """
        super().fit(trace)
        order = self._order()
        states = trace.truth()[:, order]
        self._check_training(trace, states)
        cells = Cells(trace.interval_s)
        data = TrainingData(
            trace.readings, training_power(trace, self.home)[:, order], states, trace.run_starts
        )
        self.interval_s_ = trace.interval_s
        self.centre_ = float(np.median(trace.readings))
        self.spread_ = float(max(trace.readings.std(), 1.0))
        self.never_on_ = tuple(
            self.home.names[i]
            for i, column in zip(order, states.T, strict=True)
            if not column.any()
        )
        encoder = Encoder(cells, self.centre_, self.spread_)
        nets, steps = self.settings.nets, self.settings.steps
        with one_thread(), progress_bar(nets * steps, self.progress) as advance:
            self.weights_ = tuple(self._train(fold, encoder, data, advance) for fold in range(nets))
        return self

    def _check_training(self, trace: Trace, states: BoolArray) -> None:
        """Raise `DataError` if nothing can be learnt from the training data."""
        needed = self._window(Cells(trace.interval_s)) * Cells(trace.interval_s).size
        if len(trace) < needed:
            raise DataError(
                f"the {self.name} attacker needs at least {needed} readings of "
                f"{short_duration(trace.interval_s)} to learn from, got {len(trace)}."
            )
        if not states.any():
            raise DataError(
                f"no appliance is ever on in the training data, so the {self.name} attacker "
                "cannot learn from it: use a longer period."
            )

    def _window(self, cells: Cells) -> int:
        """Cells per training window."""
        return self.settings.window or max(LEAST_WINDOW, cells.count(WINDOW_S))

    def _predict(self, seen: Observation) -> BoolArray:
        return self._predict_proba(seen) > THRESHOLD

    def _predict_proba(self, seen: Observation) -> FloatArray:
        self._require_fit("weights_")
        check_interval(self.name, self.interval_s_, seen.interval_s)
        encoder = Encoder(Cells(self.interval_s_), self.centre_, self.spread_)
        chance = np.empty((len(seen), len(self.home)))
        with one_thread():
            chance[:, self._order()] = evaluate(
                self._networks(), encoder, seen.readings, seen.run_starts, Noise.of(self.mechanism)
            )
        chance[:, [self.home.index(name) for name in self.never_on_]] = 0.0
        return chance

    def _order(self) -> list[int]:
        """Appliances by name, so that their order in the home has no effect."""
        return sorted(range(len(self.home)), key=lambda i: self.home.names[i])

    def _check_learnt(self) -> None:
        if hasattr(self, "weights_"):
            positive("interval", self.interval_s_)
            positive("spread", self.spread_)
            known = set(self.never_on_) <= set(self.home.names)
            if not self._count_networks() or not known:
                raise DataError(f"a saved {self.name} attacker is damaged.")

    def _build(self, weights: Weights | None = None, seed: int = 0) -> nn.ModuleDict:
        cells = Cells(self.interval_s_)
        return build_net(cells, self.settings.channels, len(self.home), weights, seed)

    def _train(
        self, fold: int, encoder: Encoder, data: TrainingData, advance: Callable[[int], None]
    ) -> Weights:
        """Train one network without its part of the data; returns its best parameters."""
        seed = self.seed * FOLDS + fold
        net = self._build(seed=seed)
        largest = float(self.home.powers.max())
        width = self._window(encoder.cells)
        windows = Windows(data, encoder, width, largest, fold, np.random.default_rng(seed))
        set_bias(net, windows.on_share)
        settings = self.settings
        if encoder.cells.size > LARGE_CELL:
            settings = replace(settings, batch=-(-settings.batch // 4))
        return train(net, windows, settings, seed, advance)


@dataclass(frozen=True)
class TrainingData:
    """Readings without noise with the power and the states of the appliances, shape (T, N)."""

    readings: FloatArray
    power: FloatArray
    states: BoolArray
    run_starts: BoolArray


def can_spare(readings: int, window: int) -> bool:
    """Return whether training data is long enough to leave a part out; both in readings."""
    return readings >= 2 * FOLDS * window


class Windows:
    """Random training windows of a home, with noise and exchanged appliances."""

    def __init__(
        self,
        data: TrainingData,
        encoder: Encoder,
        window: int,
        largest: float,
        fold: int,
        rng: np.random.Generator,
    ) -> None:
        self.data, self.encoder, self.largest, self.rng = data, encoder, largest, rng
        size, count = encoder.cells.size, data.readings.size
        self.width, self.margin = window * size, encoder.cells.margin * size
        edges = np.linspace(0, count, FOLDS + 1).astype(np.int64)
        self.left_out = slice(int(edges[fold]), int(edges[fold + 1]))
        kept, starts = np.ones(count, np.bool_), data.run_starts.copy()
        if can_spare(count, self.width):
            kept[self.left_out] = False
            starts[edges[fold : fold + 2] % count] = True
        self.rows = np.flatnonzero(kept)
        runs = Runs.between_gaps(starts)
        self.run_first = np.repeat(runs.first, runs.length)
        self.run_last = np.repeat(runs.last, runs.length)
        self.on_share = data.states[kept].mean(axis=0)
        begins = data.states & kept[:, None]
        begins[1:] &= ~data.states[:-1]
        self.begins = [np.flatnonzero(column) for column in begins.T if column.any()]

    def draw(self, count: int) -> Example:
        """Draw a batch of training windows."""
        centres = np.array([self._centre() for _ in range(count)])
        return self._cut(centres, self.rng, exchange=True)

    def held_out(self, count: int) -> Iterator[Example]:
        """Fixed windows, spread evenly over the part that is left out; none without a part."""
        if self.rows.size == self.data.readings.size:
            return
        span = self.left_out.stop - self.left_out.start
        centres = self.left_out.start + (np.arange(count) + 0.5) / count * span
        rng = np.random.default_rng(0)
        for part in np.array_split(centres.astype(np.int64), -(-count // 16)):
            yield self._cut(part, rng, exchange=False)

    def _centre(self) -> int:
        """Position in the middle of a new window; three of ten are near the start of a run."""
        if self.begins and self.rng.random() < 0.3:
            begin = self.rng.choice(self.begins[int(self.rng.integers(len(self.begins)))])
            near = int(begin) + int(self.rng.integers(-self.width // 2, self.width // 2 + 1))
            return min(max(near, int(self.run_first[begin])), int(self.run_last[begin]))
        return int(self.rng.choice(self.rows))

    def _cut(self, centres: IntArray, rng: np.random.Generator, *, exchange: bool) -> Example:
        """Windows around the given positions, which end at the ends of contiguous runs."""
        import torch

        low, high = self.run_first[centres], self.run_last[centres]
        start = np.minimum(centres - self.width // 2, high + 1 - self.width)
        start = np.maximum(start, low)[:, None] - self.margin
        places = start + np.arange(self.width + 2 * self.margin)
        valid = (places >= low[:, None]) & (places <= high[:, None])
        rows = np.clip(places, low[:, None], high[:, None])
        y, on = self.data.readings[rows], self.data.states[rows]
        if exchange:
            self._exchange(rows, y, on)
        known = add_noise(y, self.largest, rng)
        cells = self.encoder.cells
        inner = slice(cells.margin, cells.margin + self.width // cells.size)
        inputs = self.encoder.encode(y, valid, known).cut(inner, cells.size)
        window = slice(self.margin, self.margin + self.width)
        states = torch.from_numpy(on[:, window].astype(np.float32))
        return Example(inputs, states, torch.from_numpy(valid[:, window, None].astype(np.float32)))

    def _exchange(self, rows: IntArray, y: FloatArray, on: BoolArray) -> None:
        """In three of ten windows, give one or two appliances their power at another time."""
        spare = self.rows.size - rows.shape[1]
        for i in range(len(rows)):
            if spare <= 0 or self.rng.random() >= 0.3:
                continue
            count = int(self.rng.integers(1, 1 + min(2, on.shape[2])))
            for k in self.rng.choice(on.shape[2], count, replace=False):
                first = int(self.rng.integers(spare))
                other = self.rows[first : first + rows.shape[1]]
                y[i] += self.data.power[other, k] - self.data.power[rows[i], k]
                on[i, :, k] = self.data.states[other, k]
