"""Attackers of networks, and the convolutional network of `tcn` and `semi-blind`.

Its inputs are readings, scaled by the noise that they contain. Every length is a time and not a
number of readings. Readings of less than a minute are averaged over cells of about one minute, and
the readings within a cell are a second input.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import (
    Attacker,
    AttackerSettings,
    NoiseDistribution,
    ProbabilisticAttacker,
    check_mechanism,
    read_settings,
)
from hushmeter.checks import BoolArray, FloatArray, IntArray, positive, whole
from hushmeter.errors import InputError, MissingExtraError
from hushmeter.home import Home
from hushmeter.trace import Runs

if TYPE_CHECKING:
    import torch
    from torch import nn


CELL_S = 60.0
"""Shorter readings are averaged over the largest whole number of readings within this time [s]."""

REACH_S = 4 * 3600.0
"""Largest distance between the readings that one convolution combines [s]."""

MEANS_S = (300.0, 900.0, 2700.0, 8100.0)
"""Lengths of the centred means that are inputs of the network [s]."""

BASE_S = 4 * 3600.0
"""Time [s] over which the lowest mean is taken as the base load."""

MARGIN_S = 2 * 3600.0
"""Readings before and after a training window that its inputs are computed from [s]."""

LAPLACE_SHAPE = math.log(2) / math.sqrt(2)
"""Median of |noise| over its standard deviation, for Laplace noise."""

LEAST_NOISE_W = 20.0
"""Smallest scale of the noise in training [W]."""

MOST_NOISE = 1.3
"""Largest scale of the noise in training, in units of the power of the largest appliance."""

STAIRCASE_EPSILON = 3.0
"""ε of the staircase noise in training."""

Sampler = Callable[[np.random.Generator, int], FloatArray]
"""Function that samples a given number of values of noise."""


@dataclass(frozen=True)
class Noise:
    """What the network knows about the noise of the readings."""

    std: float = 0.0  # Standard deviation [W]
    # Median of |noise| over the standard deviation, minus its value for Laplace noise. It is zero
    # without noise.
    shape: float = 0.0

    @classmethod
    def of(cls, mechanism: NoiseDistribution | None) -> Noise:
        """Noise of a mechanism; no noise for None."""
        if mechanism is None or not mechanism.std > 0:
            return cls()
        return cls(mechanism.std, mechanism.quantile(0.5) / mechanism.std - LAPLACE_SHAPE)

    @classmethod
    def draw(cls, largest: float, rng: np.random.Generator) -> tuple[Noise, Sampler]:
        """Draw the noise of a training window, with the function that samples it.

        A quarter of the windows has no noise. The other windows have a log-uniform scale up to
        `MOST_NOISE` times the power of the largest appliance [W].
        """
        if rng.random() < 0.25:
            return cls(), lambda _rng, size: np.zeros(size)
        high = max(MOST_NOISE * largest / LEAST_NOISE_W, 2.0)
        std = math.sqrt(2) * LEAST_NOISE_W * high ** rng.random()
        median, sample = DISTRIBUTIONS[int(rng.choice(3, p=(0.6, 0.2, 0.2)))]
        return cls(std, median - LAPLACE_SHAPE), lambda r, size: std * sample(r, size)


def add_noise(rows: FloatArray, largest: float, rng: np.random.Generator) -> list[Noise]:
    """Add noise of its own to each row of readings [W], and return what a network knows of it."""
    known = []
    for row in rows:
        noise, sample = Noise.draw(largest, rng)
        known.append(noise)
        row += sample(rng, row.size)
    return known


def sample_laplace(rng: np.random.Generator, size: int) -> FloatArray:
    """Laplace noise of standard deviation one."""
    return rng.laplace(scale=math.sqrt(0.5), size=size)


def sample_gaussian(rng: np.random.Generator, size: int) -> FloatArray:
    """Gaussian noise of standard deviation one."""
    return rng.standard_normal(size)


def sample_staircase(rng: np.random.Generator, size: int) -> FloatArray:
    """Staircase noise of standard deviation one at ε = 3, where it differs most from Laplace.

    With smaller ε it is nearly Laplace noise, and with larger ε hardly any noise.
    """
    decay, inner, low = _stairs()
    stair = rng.geometric(1 - decay, size) - 1.0
    place = np.where(
        rng.random(size) < low, inner * rng.random(size), inner + (1 - inner) * rng.random(size)
    )
    noise: FloatArray = (stair + place) * rng.choice([-1.0, 1.0], size) / _stairs_std()
    return noise


def _stairs() -> tuple[float, float, float]:
    """Decay from stair to stair, width of the inner part, and probability of the inner part."""
    decay, inner = math.exp(-STAIRCASE_EPSILON), 1 / (1 + math.exp(STAIRCASE_EPSILON / 2))
    return decay, inner, inner / (inner + (1 - inner) * decay)


def _stairs_std() -> float:
    """Standard deviation of staircase noise with sensitivity one."""
    decay, inner, low = _stairs()
    mean, square = decay / (1 - decay), decay * (1 + decay) / (1 - decay) ** 2
    near = square + inner * mean + inner**2 / 3
    outer = 1 - inner
    far = square + 2 * mean * (inner + outer / 2) + inner**2 + inner * outer + outer**2 / 3
    return math.sqrt(low * near + (1 - low) * far)


def _stairs_median() -> float:
    """Median of |noise| over its standard deviation: more than half is on the lowest stair."""
    decay, inner, low = _stairs()
    return 0.5 * inner / (low * (1 - decay)) / _stairs_std()


DISTRIBUTIONS: tuple[tuple[float, Sampler], ...] = (
    (LAPLACE_SHAPE, sample_laplace),
    (0.67449, sample_gaussian),
    (_stairs_median(), sample_staircase),
)
"""Noise in training: median of |noise| over the standard deviation, and the sampler."""


@dataclass(frozen=True)
class Cells:
    """The cells of a trace: each has `size` readings, and lasts about a minute or one reading."""

    interval_s: float

    @property
    def size(self) -> int:
        """Number of readings of a cell."""
        return max(1, int(CELL_S / self.interval_s + 1e-9))

    def count(self, seconds: float) -> int:
        """Number of cells in a time, at least one."""
        return max(1, round(seconds / (self.size * self.interval_s)))

    @property
    def means(self) -> list[int]:
        """Widths of the centred means, in cells; all are odd."""
        return [self.count(seconds) // 2 * 2 + 1 for seconds in MEANS_S]

    @property
    def dilations(self) -> list[int]:
        """Distances of the readings that the convolutions combine, in cells."""
        return [2**k for k in range(1 + int(math.log2(self.count(REACH_S))))]

    @property
    def margin(self) -> int:
        """Cells around a window that its inputs are computed from."""
        return self.count(MARGIN_S)

    @property
    def field(self) -> int:
        """Cells on each side that a prediction depends on."""
        return sum(self.dilations) + 2 + max(self.margin, max(self.means))


@dataclass(frozen=True)
class Inputs:
    """Inputs of a network for a batch of rows."""

    coarse: torch.Tensor  # Inputs of the cells
    # Inputs of the readings within the cells; None if a cell is one reading
    fine: torch.Tensor | None
    # One for cells with a reading, zero for cells after the end of a contiguous run
    mask: torch.Tensor

    def cut(self, cells: slice, size: int) -> Inputs:
        """Inputs of some of the cells."""
        readings = slice(cells.start * size, cells.stop * size)
        fine = None if self.fine is None else self.fine[:, readings]
        return Inputs(self.coarse[:, cells], fine, self.mask[:, cells])


class Encoder:
    """Computes the inputs of the network from readings and the noise."""

    def __init__(self, cells: Cells, centre: float, spread: float) -> None:
        self.cells, self.centre, self.spread = cells, centre, spread

    def encode(self, y: FloatArray, valid: BoolArray, noise: Sequence[Noise]) -> Inputs:
        """Inputs of the network for rows of readings [W]; `valid` is False where there is none."""
        import torch

        size = self.cells.size
        parts, known = (x.reshape(len(y), -1, size) for x in (y, valid))
        count = known.sum(axis=2)
        mask = count > 0
        # Beyond the ends of its run a row repeats its first and its last cell.
        cell = np.clip(
            np.arange(mask.shape[1]),
            mask.argmax(axis=1)[:, None],
            mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)[:, None],
        )
        mean = (parts * known).sum(axis=2) / np.maximum(count, 1)
        coarse = self._coarse(np.take_along_axis(mean, cell, axis=1), noise)
        fine = None
        if size > 1:
            away = (parts - mean[:, :, None]) * known
            b = np.array([n.std for n in noise])[:, None, None] / math.sqrt(2)
            above, below = away.max(axis=2), -away.min(axis=2)
            coarse += [np.arcsinh(above / (20 + 2 * b[:, :, 0])) * mask]
            coarse += [np.arcsinh(below / (20 + 2 * b[:, :, 0])) * mask]
            jump = np.diff(y, axis=1, prepend=y[:, :1]).reshape(parts.shape)
            inner = [np.arcsinh(x / (20 + 2 * b)) * known for x in (away, jump)]
            fine = _tensor([np.reshape(x, y.shape) for x in inner])
        return Inputs(_tensor(coarse), fine, torch.from_numpy(mask[:, :, None].astype(np.float32)))

    def _coarse(self, y: FloatArray, noise: Sequence[Noise]) -> list[FloatArray]:
        """Inputs of the cells from their means [W], each of shape (B, L)."""
        # b is the scale of Laplace noise with the same standard deviation.
        b = np.array([n.std for n in noise])[:, None] / math.sqrt(2 * self.cells.size)
        shape = np.array([n.shape for n in noise])[:, None]
        away, sharp = y - self.centre, 0.1 * self.spread
        rows = [
            away / np.sqrt(self.spread**2 + 2 * b**2),
            np.arcsinh(away / (sharp + b)),
            np.arcsinh(np.diff(y, axis=1, prepend=y[:, :1]) / (20 + 2 * b)),
            np.broadcast_to(np.log1p(b / 10) / 8, y.shape),
            np.broadcast_to(2 * shape, y.shape),
        ]
        widths = self.cells.means
        means = [centred_mean(y, width) for width in widths]
        for mean, width in zip(means, widths, strict=True):
            rows.append(np.arcsinh((mean - self.centre) / (sharp + 1.4 * b / math.sqrt(width))))
        base = rolling_minimum(means[1], self.cells.count(BASE_S) // 2 * 2 + 1)
        rows.append(np.arcsinh((means[0] - base) / (20 + b / 2)))
        return rows

    @property
    def channels(self) -> tuple[int, int]:
        """Numbers of inputs of a cell and of a reading within a cell."""
        coarse = 6 + len(MEANS_S)
        return (coarse + 2, 2) if self.cells.size > 1 else (coarse, 0)


def _tensor(rows: Sequence[FloatArray]) -> torch.Tensor:
    """Tensor of shape (B, T, channels) from the values of each channel."""
    import torch

    return torch.from_numpy(np.stack(rows, axis=2).astype(np.float32))


def centred_mean(y: FloatArray, width: int) -> FloatArray:
    """Mean over `width` neighbours along the last axis; the ends are repeated."""
    if width == 1:
        return y
    half = width // 2
    padded = np.pad(y, ((0, 0), (half + 1, half)), mode="edge")
    sums = np.cumsum(padded, axis=1)
    mean: FloatArray = (sums[:, width:] - sums[:, :-width]) / width
    return mean


def rolling_minimum(y: FloatArray, width: int) -> FloatArray:
    """Smallest of `width` neighbours along the last axis."""
    from scipy.ndimage import minimum_filter1d

    lowest: FloatArray = minimum_filter1d(y, width, axis=1, mode="nearest")
    return lowest


@dataclass(frozen=True)
class NetSettings(AttackerSettings):
    """How the networks of an attacker are made and trained.

    Attributes
    ----------
    channels : int
        Width of the network, a multiple of 4.
    nets : int
        Number of networks whose probabilities are averaged.
    steps, batch : int
        Largest number of training steps, and windows per step.
    window : int or None
        Cells per window; None for the length that the attacker chooses.
    rate : float
        Largest step size of AdamW.
    """

    channels: int = 32
    nets: int = 3
    steps: int = 480
    batch: int = 16
    window: int | None = None
    rate: float = 4e-3

    def __post_init__(self) -> None:
        for name in ("channels", "nets", "steps", "batch"):
            whole(name, getattr(self, name))
        if self.channels % 4:
            raise InputError(f"channels must be a multiple of 4, got {self.channels}.")
        if self.window is not None:
            whole("window", self.window)
        positive("rate", self.rate)


class NetworkAttacker(Attacker):
    """An attacker of trained networks; a subclass has usual settings and implements `_build`."""

    usual: ClassVar[AttackerSettings]

    settings: Any
    weights_: tuple[Weights, ...]

    def __init__(
        self,
        home: Home,
        *,
        settings: AttackerSettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(home)
        if find_spec("torch") is None:
            raise MissingExtraError(f"the {self.name} attacker", "deep")
        self.settings = read_settings(self.usual, settings)
        self.seed, self.progress = whole("seed", seed, least=0), bool(progress)

    def _build(self, weights: Weights | None = None, seed: int = 0) -> nn.ModuleDict:
        """A network with the given parameters, or with random ones."""
        raise NotImplementedError(f"{type(self).__name__} must implement _build.")

    def _networks(self) -> list[nn.ModuleDict]:
        return [self._build(weights) for weights in self.weights_]

    def _count_networks(self) -> int:
        """Number of trained networks; zero if the parameters of a saved attacker do not fit."""
        try:
            return len(self._networks())
        except (RuntimeError, ValueError, TypeError, AttributeError):
            return 0


class NoisyNetworkAttacker(NetworkAttacker, ProbabilisticAttacker):
    """An attacker whose probabilities are the mean of several networks that know the noise.

    A subclass may limit the number of its networks.
    """

    uses_noise: ClassVar[bool] = True
    usual: ClassVar[AttackerSettings] = NetSettings()
    most_nets: ClassVar[int | None] = None

    settings: NetSettings

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None = None,
        settings: NetSettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(home, settings=settings, seed=seed, progress=progress)
        self.mechanism = check_mechanism(mechanism)
        if self.most_nets is not None and self.settings.nets > self.most_nets:
            raise InputError(f"nets must be at most {self.most_nets}, got {self.settings.nets}.")


CHUNK = 1 << 13
"""Number of cells that are evaluated at a time, which bounds the memory."""

Weights = tuple[NDArray[np.float32], ...]
"""Parameters of one network in the order of its `state_dict`."""


def build_net(
    cells: Cells, channels: int, outputs: int, weights: Weights | None = None, seed: int = 0
) -> nn.ModuleDict:
    """Make a network with the given parameters, or with random ones.

    The state of PyTorch's own generator does not change.
    """
    import torch
    from torch import nn

    coarse, fine = Encoder(cells, 0.0, 1.0).channels
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts: dict[str, nn.Module] = {"first": nn.Linear(5 * coarse, channels)}
        for i in range(len(cells.dilations)):
            parts[f"spread{i}"] = nn.Linear(3 * channels, channels)
            parts[f"norm{i}"] = nn.LayerNorm(channels)
            parts[f"mix{i}"] = nn.Linear(channels, channels)
        parts["output"] = nn.Linear(channels, outputs)
        if fine:
            parts["context"] = nn.Linear(channels, 8)
            parts["detail"] = nn.Linear(5 * (8 + fine), 16)
            parts["correction"] = nn.Linear(16, outputs)
        net = nn.ModuleDict(parts)
    return net if weights is None else with_weights(net, weights)


def with_weights(net: nn.ModuleDict, weights: Weights) -> nn.ModuleDict:
    """Give a network the parameters that `weights_of` returned."""
    import torch

    tensors = [torch.from_numpy(array.copy()) for array in weights]
    net.load_state_dict(dict(zip(net.state_dict(), tensors, strict=True)))
    return net


def forward(net: nn.ModuleDict, inputs: Inputs, drop: float = 0.0) -> torch.Tensor:
    """Compute the log-odds of on, shape (B, T, outputs).

    A convolution is a linear layer on shifted copies: on one thread this takes half the time of
    PyTorch's convolution. The normalisation is over the channels of one cell, and cells after the
    end of a run are zero, so that a prediction depends on nothing outside its field and its run.
    """
    import torch
    from torch.nn.functional import relu

    mask = inputs.mask
    x = net["first"](neighbours(inputs.coarse * mask, 1, 2)) * mask
    blocks = sum(name.startswith("spread") for name in net)
    for i in range(blocks):
        inner = net[f"mix{i}"](relu(net[f"norm{i}"](net[f"spread{i}"](neighbours(x, 2**i, 1)))))
        kept = mask
        if drop > 0:
            kept = mask * ((torch.rand(len(x), 1, x.shape[2]) >= drop) / (1 - drop))
        x = x + inner * kept
    odds: torch.Tensor = net["output"](relu(x))
    if inputs.fine is None:
        return odds
    size = inputs.fine.shape[1] // x.shape[1]
    context = (net["context"](x) * mask).repeat_interleave(size, dim=1)
    detail = relu(net["detail"](neighbours(torch.cat([context, inputs.fine], dim=2), 1, 2)))
    correction: torch.Tensor = net["correction"](detail)
    return odds.repeat_interleave(size, dim=1) + correction


def neighbours(x: torch.Tensor, distance: int, count: int) -> torch.Tensor:
    """Channels of a position and of `count` others on each side; zeros beyond the ends."""
    import torch
    from torch.nn.functional import pad

    length, reach = x.shape[1], distance * count
    padded = pad(x, (0, 0, reach, reach))
    places = range(0, 2 * reach + 1, distance)
    return torch.cat([padded[:, first : first + length] for first in places], dim=2)


def set_bias(net: nn.ModuleDict, share: FloatArray) -> None:
    """Start from the log-odds of the share of readings at which each appliance is on."""
    import torch

    share = np.clip(share, 1e-4, 1 - 1e-4)
    with torch.no_grad():
        bias: Any = net["output"].bias
        bias.copy_(torch.from_numpy(np.log(share / (1 - share)).astype(np.float32)))


def evaluate(
    nets: Sequence[nn.ModuleDict],
    encoder: Encoder,
    readings: FloatArray,
    run_starts: BoolArray,
    noise: Noise,
) -> FloatArray:
    """Compute the mean probability of on of several networks, shape (T, outputs).

    Contiguous runs are cut into pieces that overlap by everything that a prediction depends on.
    Pieces of similar length are evaluated together, so that a trace with many gaps is not slow.
    """
    import torch

    size, pieces = encoder.cells.size, _pieces(encoder.cells, run_starts)
    spans = -(-(pieces[:, 1] - pieces[:, 0]) // size)
    chance = np.empty((readings.size, int(nets[0]["output"].bias.shape[0])))  # type: ignore
    classes = np.ceil(np.log2(spans)).astype(np.int64)
    with torch.inference_mode():
        for net in nets:
            net.eval()
        for length in np.unique(classes):
            group = pieces[classes == length]
            together = max(1, 2 * CHUNK >> int(length))
            for first in range(0, len(group), together):
                rows = group[first : first + together]
                _evaluate(nets, encoder, readings, rows, noise, chance)
    return chance


def _pieces(cells: Cells, run_starts: BoolArray) -> IntArray:
    """First and last + 1 reading of every piece, and of the part whose predictions are kept."""
    chunk, field = CHUNK * cells.size, cells.field * cells.size
    pieces = []
    for run in Runs.between_gaps(run_starts).slices:
        for low in range(run.start, run.stop, chunk):
            high = min(low + chunk, run.stop)
            # Pieces start at whole cells of the run.
            pieces.append((max(run.start, low - field), min(high + field, run.stop), low, high))
    return np.array(pieces, np.int64)


def _evaluate(
    nets: Sequence[nn.ModuleDict],
    encoder: Encoder,
    readings: FloatArray,
    pieces: IntArray,
    noise: Noise,
    chance: FloatArray,
) -> None:
    """Evaluate pieces of similar length together, and write into `chance`."""
    import torch

    size = encoder.cells.size
    longest = -(-int((pieces[:, 1] - pieces[:, 0]).max()) // size) * size
    places = pieces[:, :1] + np.arange(longest)
    y = readings[np.minimum(places, pieces[:, 1:2] - 1)]
    batch = encoder.encode(y, places < pieces[:, 1:2], [noise] * len(pieces))
    mean = sum(torch.sigmoid(forward(net, batch)) for net in nets) / len(nets)
    for row, (start, _, low, high) in zip(mean, pieces, strict=True):  # type: ignore[arg-type]
        chance[low:high] = row[low - start : high - start].numpy()


def weights_of(net: nn.ModuleDict) -> Weights:
    """Copy the parameters of a network."""
    return tuple(tensor.numpy().copy() for tensor in net.state_dict().values())


CHECKS = 8
"""Number of times that a network is compared with the part that it left out."""

HELD_OUT = 64
"""Number of windows of the part that a network left out."""

PATIENCE = 3
"""Training stops after this number of comparisons without an improvement."""

DROP = 0.05
"""Probability with which a channel of a block is left out in training."""

DICE = 0.3
"""Weight of the Dice loss."""


@dataclass(frozen=True)
class Example:
    """A batch of training windows."""

    inputs: Inputs
    states: torch.Tensor  # True states
    valid: torch.Tensor  # One where the true state is known, else zero


class ExampleSource(Protocol):
    """Where training windows come from."""

    def draw(self, count: int) -> Example:
        """Draw a batch of training windows."""

    def held_out(self, count: int) -> Iterator[Example]:
        """Fixed windows that are never drawn, to decide when to stop; there may be none."""


def train(
    net: nn.ModuleDict,
    windows: ExampleSource,
    settings: NetSettings,
    seed: int,
    advance: Callable[[int], None],
) -> Weights:
    """Train a network and return its parameters where the part that was left out fits best."""
    import torch

    steps = settings.steps
    optimiser = torch.optim.AdamW(net.parameters(), lr=settings.rate, weight_decay=0.01)
    # The schedule of the step size needs at least two steps.
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, max(steps, 2))
    held_out = list(windows.held_out(HELD_OUT))
    best, found, waited = math.inf, weights_of(net), 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for step in range(1, steps + 1):
            optimiser.zero_grad()
            error = loss(net, windows.draw(settings.batch), drop=DROP)
            torch.autograd.backward(error)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            rates.step()
            advance(1)
            if step < steps and step % max(1, steps // CHECKS):
                continue
            with torch.no_grad():
                current = sum(float(loss(net, part)) for part in held_out)
            waited = 0 if current < best else waited + 1
            if current < best or not held_out:
                best, found = current, weights_of(net)
            elif waited >= PATIENCE:
                advance(steps - step)
                break
    return found


def loss(net: nn.ModuleDict, example: Example, drop: float = 0.0) -> torch.Tensor:
    """Cross entropy plus `DICE` times the soft Dice loss of each appliance."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    odds = forward(net, example.inputs, drop)
    valid = example.valid.expand_as(odds)
    truth = example.states * valid
    entropy = binary_cross_entropy_with_logits(odds, truth, reduction="none") * valid
    chance = torch.sigmoid(odds) * valid
    both = 2 * (chance * truth).sum(dim=(0, 1)) + 1
    dice = 1 - both / (chance.sum(dim=(0, 1)) + truth.sum(dim=(0, 1)) + 1)
    return entropy.sum() / valid.sum() + DICE * dice.mean()


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
