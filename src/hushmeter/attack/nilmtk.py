"""Adapter that makes any attacker a disaggregator for NILMTK's experiment API.

NILMTK itself is not needed. The methods of an experiment are instances::

    experiment = {
        "power": {"mains": ["active"], "appliance": ["active"]},
        "sample_rate": 60,
        "appliances": ["fridge", "kettle"],
        "methods": {"bayes": NilmtkDisaggregator("bayes"), "CO": CO({})},
        ...
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.checks import BoolArray, FloatArray, positive
from hushmeter.errors import DataError, InputError, NotFittedError
from hushmeter.home import Appliance, Home
from hushmeter.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

    Readings = tuple[str, Sequence[pd.DataFrame]]


class NilmtkDisaggregator:
    """An attacker with NILMTK's methods `partial_fit` and `disaggregate_chunk`."""

    chunk_wise_training = False

    def __init__(
        self,
        attacker: str,
        *,
        home: Home | None = None,
        on_above: float = 10.0,
        tolerance: float = 20.0,
        **parameters: Any,
    ) -> None:
        self.MODEL_NAME = f"hushmeter {attacker}"
        self._class = attackers[attacker]
        self._parameters = parameters
        self._home = home
        self._on_above = positive("on_above", on_above)
        self._tolerance = positive("tolerance", tolerance)
        self.attacker: Attacker | None = None

    def partial_fit(
        self,
        train_main: Sequence[pd.DataFrame],
        train_appliances: Sequence[Readings],
        current_epoch: int = 0,  # noqa: ARG002
        **load_kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Fit the attacker to all chunks of power [W]; a second call starts from nothing again."""
        names = [str(name) for name, _ in train_appliances]
        mains = _trace(train_main)
        columns = [_watts(frames) for _, frames in train_appliances]
        if not columns or any(column.size != len(mains) for column in columns):
            raise DataError("every appliance needs as many readings as the mains.")
        power = np.column_stack(columns)
        home = self._home or _learn_home(names, power, self._on_above, self._tolerance)
        if list(home.names) != names:
            raise InputError(f"the home has {', '.join(home.names)}; got {', '.join(names)}.")
        on = self._on(power, home)
        trace = Trace(mains.readings, mains.interval_s, mains.start, on, power, names, mains.steps)
        self.attacker = self._class(home, **self._parameters).fit(trace)

    def disaggregate_chunk(
        self,
        test_mains: Sequence[pd.DataFrame],
        model: Any = None,  # noqa: ARG002
    ) -> list[pd.DataFrame]:
        """Predict the power of every appliance [W] from the power of the mains [W]."""
        import pandas as pd

        if self.attacker is None:
            raise NotFittedError(f"{self.MODEL_NAME} needs partial_fit before disaggregate_chunk.")
        answers = []
        for frame in test_mains:
            power = self.attacker.predict_power(_trace([frame]), rng=0)
            columns = list(self.attacker.home.names)
            answers.append(pd.DataFrame(power, frame.index, columns, dtype="float32"))
        return answers

    def save_model(self, folder_name: str | Path) -> None:
        """Write the fitted attacker to a folder, as attacker.npz."""
        if self.attacker is None:
            raise NotFittedError(f"{self.MODEL_NAME} needs partial_fit before save_model.")
        self.attacker.save(Path(folder_name) / "attacker.npz", force=True)

    def load_model(self, folder_name: str | Path) -> None:
        """Read the attacker that `save_model` wrote to a folder."""
        self.attacker = self._class.load(Path(folder_name) / "attacker.npz")

    def _on(self, power: FloatArray, home: Home) -> BoolArray:
        on: BoolArray = power > (self._on_above if self._home is None else home.powers / 2)
        return on


def _watts(frames: Sequence[pd.DataFrame]) -> FloatArray:
    """Power of all chunks [W], shape (T,)."""
    if not frames or any(len(frame) == 0 for frame in frames):
        raise DataError("NILMTK passed a chunk without readings.")
    return np.concatenate([frame.to_numpy(np.float64).sum(axis=1) for frame in frames])


def _trace(frames: Sequence[pd.DataFrame]) -> Trace:
    """Mains with their times; a step longer than the median interval becomes a gap."""
    import pandas as pd

    watts = _watts(frames)
    if watts.size < 2 or not all(isinstance(f.index, pd.DatetimeIndex) for f in frames):
        return Trace(watts, 1.0)
    stamps = [pd.to_datetime(f.index, utc=True).tz_localize(None).to_numpy() for f in frames]
    times = np.concatenate(stamps).astype("datetime64[ns]").astype(np.int64)
    apart = np.diff(times)
    if apart.min() <= 0:
        raise DataError("the times of the mains must ascend, but some repeat or go back.")
    interval = float(np.median(apart))
    steps = np.concatenate([[0], np.cumsum(np.maximum(np.rint(apart / interval), 1))])
    return Trace(watts, interval / 1e9, np.datetime64(int(times[0]), "ns"), steps=steps.astype(int))


def _learn_home(names: list[str], power: FloatArray, on_above: float, tolerance: float) -> Home:
    """A home with the mean power of every appliance while it is on."""
    appliances = []
    for name, drawn in zip(names, power.T, strict=True):
        on = drawn > on_above
        if not on.any():
            raise DataError(f"{name} never draws more than {on_above:g} W in the training data.")
        appliances.append(Appliance(name, float(drawn[on].mean())))
    return Home(appliances, tolerance)
