"""The convolutional network: its layers and its evaluation on a trace.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.conv.inputs import Cells, Encoder, Inputs, Noise
from hushmeter.checks import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import torch
    from torch import nn

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
    if weights is not None:
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
    first = np.flatnonzero(run_starts)
    for start, stop in zip(first, np.append(first[1:], run_starts.size), strict=True):
        for low in range(int(start), int(stop), chunk):
            high = min(low + chunk, int(stop))
            # Pieces start at whole cells of the run.
            pieces.append((max(int(start), low - field), min(high + field, int(stop)), low, high))
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
