"""RNN: recurrent networks that learn from the sub-meters of the home that they attack.

There is one network per appliance, from a window of mains to the power of the appliance. PyTorch is
optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import Attacker, AttackerSettings, Observation, read_settings
from hushmeter.attack.levels import training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray, positive, whole
from hushmeter.errors import DataError, InputError, MissingExtraError
from hushmeter.home import Home
from hushmeter.trace import Runs, Trace

if TYPE_CHECKING:
    import torch
    from torch import nn

Weights = tuple[NDArray[np.float32], ...]
"""Parameters of one network in the order of its `state_dict`."""

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


class RecurrentNet(Attacker):
    """RNN [1]_. Convolution, two bidirectional LSTMs and two dense layers per appliance.

    Parameters
    ----------
    home : Home
    settings : RecurrentSettings, mapping or None
        Layers and training of the networks.
    seed : int
        The same seed and data give the same networks; the order of the appliances has no effect.
    progress : bool
        Whether to show a progress bar on standard error while training.

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

    checked_with: ClassVar[dict[str, Any]] = {
        "settings": {"hidden": (8, 8), "dense": 8, "epochs": 1}
    }

    settings: RecurrentSettings
    scale_: float
    weights_: tuple[Weights, ...]

    def __init__(
        self,
        home: Home,
        *,
        settings: RecurrentSettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(home)
        if find_spec("torch") is None:
            raise MissingExtraError(f"the {self.name} attacker", "deep")
        self.settings = read_settings(RecurrentSettings(), settings)
        self.seed, self.progress = whole("seed", seed, least=0), bool(progress)

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
            try:
                count = len(self._networks())
            except (RuntimeError, ValueError, TypeError, AttributeError):
                count = 0
            if count != len(self.home):
                raise DataError("a saved rnn attacker is damaged.")

    def _networks(self) -> list[nn.ModuleDict]:
        return [self._build(weights) for weights in self.weights_]

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


def with_weights(net: nn.ModuleDict, weights: Weights) -> nn.ModuleDict:
    """Give a network the parameters that `weights_of` returned."""
    import torch

    tensors = [torch.from_numpy(array.copy()) for array in weights]
    net.load_state_dict(dict(zip(net.state_dict(), tensors, strict=True)))
    return net


def weights_of(net: nn.ModuleDict) -> Weights:
    """Copy the parameters of a network."""
    return tuple(tensor.numpy().copy() for tensor in net.state_dict().values())


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: the order of sums, and so the network, depends on their number."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def progress_bar(steps: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error; the value counts steps that were done."""
    if not shown:
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Training", total=steps)
        yield lambda count: bar.advance(task, count)
