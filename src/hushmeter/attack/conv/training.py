"""Training of networks: windows, steps, early stopping, one thread and a progress bar.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hushmeter.attack.conv.inputs import Inputs
from hushmeter.attack.conv.net import Weights, forward, weights_of
from hushmeter.checks import FloatArray

if TYPE_CHECKING:
    import torch
    from torch import nn

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


@dataclass(frozen=True)
class Schedule:
    """Largest number of steps, windows per step, largest step size, and seed of a training."""

    steps: int
    batch: int
    rate: float
    seed: int


def train(
    net: nn.ModuleDict, windows: ExampleSource, schedule: Schedule, advance: Callable[[int], None]
) -> Weights:
    """Train a network and return its parameters where the part that was left out fits best."""
    import torch

    steps = schedule.steps
    optimiser = torch.optim.AdamW(net.parameters(), lr=schedule.rate, weight_decay=0.01)
    # The schedule of the step size needs at least two steps.
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, schedule.rate, max(steps, 2))
    held_out = list(windows.held_out(HELD_OUT))
    best, found, waited = math.inf, weights_of(net), 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(schedule.seed)
        for step in range(1, steps + 1):
            optimiser.zero_grad()
            error = loss(net, windows.draw(schedule.batch), drop=DROP)
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


def count_errors(net: nn.ModuleDict, example: Example) -> tuple[float, FloatArray, FloatArray]:
    """Count wrong states at threshold ½, and true on-states and off-states per appliance."""
    import torch

    with torch.no_grad():
        answer = forward(net, example.inputs) > 0
    valid = example.valid.expand_as(example.states)
    wrong = float(((answer != (example.states > 0)) * valid).sum())
    on, off = ((truth * valid).sum(dim=(0, 1)) for truth in (example.states, 1 - example.states))
    return wrong, on.double().numpy(), off.double().numpy()


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
