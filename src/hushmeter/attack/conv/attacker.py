"""What attackers with a convolutional network have in common: their parameters and their networks.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from hushmeter.attack.base import NoiseDistribution, ProbabilisticAttacker, check_mechanism
from hushmeter.attack.conv.net import Weights
from hushmeter.checks import positive, whole
from hushmeter.errors import InputError, MissingExtraError
from hushmeter.home import Home

if TYPE_CHECKING:
    from torch import nn


class NetworkAttacker(ProbabilisticAttacker):
    """An attacker whose probabilities are the mean of several networks.

    A subclass has the same constructor parameters with its own defaults, and implements `_build`.
    """

    uses_noise: ClassVar[bool] = True

    weights_: tuple[Weights, ...]

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None,
        channels: int,
        nets: int,
        steps: int,
        batch: int,
        window: int | None,
        rate: float,
        seed: int,
        progress: bool,
    ) -> None:
        super().__init__(home)
        if find_spec("torch") is None:
            raise MissingExtraError(f"the {self.name} attacker", "deep")
        self.mechanism = check_mechanism(mechanism)
        self.channels, self.nets = whole("channels", channels), whole("nets", nets)
        if self.channels % 4:
            raise InputError(f"channels must be a multiple of 4, got {channels}.")
        self.steps, self.batch = whole("steps", steps), whole("batch", batch)
        self.window = None if window is None else whole("window", window)
        self.rate = positive("rate", rate)
        self.seed, self.progress = whole("seed", seed, least=0), bool(progress)

    def _build(self, weights: Weights | None = None, seed: int = 0) -> nn.ModuleDict:
        """A network with the given parameters, or with random ones."""
        raise NotImplementedError(f"{type(self).__name__} must implement _build.")

    def _networks(self) -> list[nn.ModuleDict]:
        """The trained networks."""
        return [self._build(weights) for weights in self.weights_]

    def _has_networks(self) -> bool:
        """Whether the parameters of a saved attacker fit to its networks."""
        try:
            return bool(self._networks())
        except (RuntimeError, ValueError, TypeError, AttributeError):
            return False
