"""RNN: one recurrent network per appliance, from a window of mains to the appliance's power [1]_.

PyTorch is optional: pip install ".[deep]".

.. [1] J. Kelly, W. Knottenbelt, "Neural NILM: deep neural networks applied to energy
   disaggregation", ACM BuildSys (2015).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.attack.base import Attacker, Observed
from hushmeter.attack.sums.on_states import training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike, positive, whole
from hushmeter.errors import DataError, InputError, MissingExtraError
from hushmeter.home import Home
from hushmeter.trace import Trace

if TYPE_CHECKING:
    import torch

    from hushmeter.attack.recurrent_layers import Net

PREDICT_BATCH = 4096

Weights = tuple[NDArray[np.float32], ...]


class RecurrentNet(Attacker):
    """Convolution, two bidirectional LSTMs and two dense layers, trained on squared error.

    Conv1D(16, 4, same) → BiLSTM 128 (sequence) → BiLSTM 256 (last) → Dense 128 tanh → Dense 1,
    one network per appliance; mains and power are divided by the largest mains and the mean power
    of the appliance. On is a predicted power above half of the appliance's.

    Parameters
    ----------
    home : Home
    window : int
        Readings a prediction sees, centred on its own; the authors' reference feeds one. At the
        ends of a contiguous run the first and last reading are repeated.
    filters, hidden, dense : int, (int, int), int
        Sizes of the layers.
    epochs, batch, rate : int, int, float
        Passes over the data, readings per step and step size of Adam.
    seed : int
        The same seed and data give the same network; the order of the appliances does not matter.
    progress : bool
        Show a progress bar on standard error while training.

    Raises
    ------
    MissingExtraError
        At once, where PyTorch is absent.
    """

    name: ClassVar[str] = "rnn"
    needs: ClassVar[str] = "sub-metered data; PyTorch (the extra named deep)"
    assumes: ClassVar[str] = "the home behaves as in training"

    checked_with: ClassVar[dict[str, Any]] = {"hidden": (8, 8), "dense": 8, "epochs": 1}

    scale_: float
    weights_: tuple[Weights, ...]

    def __init__(
        self,
        home: Home,
        *,
        window: int = 1,
        filters: int = 16,
        hidden: tuple[int, int] = (128, 256),
        dense: int = 128,
        epochs: int = 5,
        batch: int = 128,
        rate: float = 0.01,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(home)
        if find_spec("torch") is None:
            raise MissingExtraError("the rnn attacker", "deep")
        self.window, self.filters = whole("window", window), whole("filters", filters)
        if len(hidden) != 2:
            raise InputError(f"hidden must be two sizes, got {hidden!r}.")
        self.hidden = (whole("hidden", hidden[0]), whole("hidden", hidden[1]))
        self.dense, self.epochs = whole("dense", dense), whole("epochs", epochs)
        self.batch, self.rate = whole("batch", batch), positive("rate", rate)
        self.seed, self.progress = whole("seed", seed, least=0), bool(progress)

    def fit(self, trace: Trace) -> Self:
        """Train one network per appliance."""
        super().fit(trace)
        power = training_power(trace, self.home) / self.home.powers
        self.scale_ = float(max(np.abs(trace.readings).max(), 1.0))
        windows = _Windows(trace.readings / self.scale_, trace.run_starts, self.window)
        steps = len(self.home) * self.epochs * -(-len(trace) // self.batch)
        with _one_thread(), _progress_bar(steps, self.progress) as advance:
            self.weights_ = tuple(
                self._train(windows, power[:, i].astype(np.float32), name, advance)
                for i, name in enumerate(self.home.names)
            )
        return self

    def predict(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> BoolArray:
        """States (T, N): power above half of the appliance's."""
        power = self.predict_power(readings, initial_state=initial_state, rng=rng)
        return power > self.home.powers / 2

    def predict_power(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """Output of the networks [W], shape (T, N), negative values cut to zero."""
        self._require_fit("weights_")
        self._initial_state(initial_state)
        values, starts = self._observe(readings)
        if self.window > 1:
            return self._forward(_Windows(values / self.scale_, starts, self.window))
        # Readings that are judged on their own, on a grid: equal ones are judged once.
        distinct, which = np.unique(values, return_inverse=True)
        alone = np.ones(distinct.size, np.bool_)
        return self._forward(_Windows(distinct / self.scale_, alone, 1))[which]

    def _forward(self, windows: _Windows) -> FloatArray:
        """Output of the networks for every window [W], shape (T, N)."""
        import torch

        size = windows.values.size
        power = np.empty((size, len(self.home)))
        with _one_thread(), torch.inference_mode():
            for i, weights in enumerate(self.weights_):
                net = self._build(weights)
                for first in range(0, size, PREDICT_BATCH):
                    rows = np.arange(first, min(first + PREDICT_BATCH, size))
                    power[rows, i] = net(windows[rows]).numpy()
        return np.maximum(power, 0.0) * self.home.powers

    def _check_learnt(self) -> None:
        if hasattr(self, "weights_"):
            positive("scale", self.scale_)
            try:
                nets = [self._build(weights) for weights in self.weights_]
            except (RuntimeError, ValueError, TypeError, AttributeError):
                nets = []
            if len(nets) != len(self.home):
                raise DataError("a saved rnn attacker is damaged.")

    def _build(self, weights: Weights | None = None, seed: int = 0) -> Net:
        """A network with the given weights, or with random ones; PyTorch's own seed is kept."""
        import torch

        from hushmeter.attack.recurrent_layers import Net

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = Net(self.filters, self.hidden, self.dense)
        if weights is not None:
            tensors = [torch.from_numpy(array.copy()) for array in weights]
            net.load_state_dict(dict(zip(net.state_dict(), tensors, strict=True)))
        return net

    def _train(
        self, windows: _Windows, target: NDArray[np.float32], name: str, advance: Callable[[], None]
    ) -> Weights:
        import torch

        # Seeded by name: another order of the appliances trains the same networks.
        seed = zlib.crc32(f"{self.seed} {name}".encode())
        net = self._build(seed=seed)
        optimiser = torch.optim.Adam(net.parameters(), lr=self.rate)
        rng = np.random.default_rng(seed)
        for _ in range(self.epochs):
            order = rng.permutation(target.size)
            for first in range(0, order.size, self.batch):
                rows = order[first : first + self.batch]
                optimiser.zero_grad()
                error = net(windows[rows]) - torch.from_numpy(target[rows])
                (error**2).mean().backward()
                optimiser.step()
                advance()
        return tuple(tensor.numpy().copy() for tensor in net.state_dict().values())


class _Windows:
    """Windows of a series by row, cut at the ends of its contiguous runs."""

    def __init__(self, values: FloatArray, starts: BoolArray, width: int) -> None:
        self.values = values.astype(np.float32)
        first = np.flatnonzero(starts)
        lengths = np.diff(np.append(first, values.size))
        self.first = np.repeat(first, lengths)
        self.last = np.repeat(first + lengths - 1, lengths)
        self.offsets = np.arange(width) - width // 2

    def __getitem__(self, rows: IntArray) -> torch.Tensor:
        import torch

        places = rows[:, None] + self.offsets
        places = np.clip(places, self.first[rows, None], self.last[rows, None])
        return torch.from_numpy(self.values[places])


@contextmanager
def _one_thread() -> Iterator[None]:
    """The order of sums, and so the network, must not depend on the number of cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _progress_bar(steps: int, shown: bool) -> Iterator[Callable[[], None]]:
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Training", total=steps)
        yield lambda: bar.advance(task)
