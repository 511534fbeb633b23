"""What a sweep saw of every appliance: the best attacker at each ε, against no data at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushmeter.report.collect import Saved, SweepResult, reading

if TYPE_CHECKING:
    import pandas as pd

BLIND = ("all-off", "hold")
"""Attackers that do not look at the readings."""
FOLLOWED = 0.5


@dataclass(frozen=True)
class Sight:
    """One appliance at one ε.

    Attributes
    ----------
    right : float
        Share of moments in which the best attacker is right, mean over seeds.
    attacker : str
        Who that is.
    visibility : float
        (right − guess)/(1 − guess): the share of what a guess leaves open that it closed.
    """

    right: float
    attacker: str
    visibility: float


@dataclass(frozen=True)
class ApplianceSights:
    """One appliance at every ε.

    Attributes
    ----------
    name : str
    guess : float
        Share of moments in which one is right without the data: the best of “always off”,
        “always on”, where the sweep has it “as at the first reading”, and where it was measured
        what an attacker makes of the habits of the home alone; NaN if unknown.
    sights : dict
        By ε, largest first.
    """

    name: str
    guess: float
    sights: dict[float, Sight]

    @property
    def followed_down_to(self) -> float | None:
        """The smallest ε down to which it is followed; None if not even at the largest."""
        last = None
        for epsilon, sight in self.sights.items():
            if not sight.visibility > FOLLOWED:
                break
            last = epsilon
        return last


def look(
    sweep: SweepResult, home: str, mechanism: str, guesses: Sequence[Saved] = ()
) -> list[ApplianceSights]:
    """Every appliance of one home of a sweep, under one mechanism.

    `guesses` are saved answers of attackers that saw no readings.
    """
    table = sweep.table
    part = table[(table["home"] == home) & (table["mechanism"] == mechanism)]
    blind = [a["label"] for a in sweep.manifest["attackers"] if a["name"] in BLIND]
    habits = habits_of(guesses, home)
    return [_look_at(part, name, blind, habits.get(name, 0.0)) for name in appliance_names(part)]


def appliance_names(part: pd.DataFrame) -> list[str]:
    """Appliances that have scores in these rows, in the order of the columns."""
    columns = [str(c) for c in part if str(c).startswith("alpha ")]
    return [c.removeprefix("alpha ") for c in columns if part[c].notna().any()]


def epsilons_of(part: pd.DataFrame) -> list[float]:
    """Values of ε, largest first: from little to much protection."""
    return sorted((float(e) for e in part["epsilon"].unique()), reverse=True)


def habits_of(guesses: Sequence[Saved], home: str) -> dict[str, float]:
    """How often an attacker that saw no readings is right about each appliance of a home."""
    for saved in guesses:
        with reading(saved.path):
            if saved.content["home"] == home:
                return {str(name): float(a) for name, a in saved.content["alpha"].items()}
    return {}


def _look_at(part: pd.DataFrame, name: str, blind: Sequence[str], habits: float) -> ApplianceSights:
    column = f"alpha {name}"
    is_blind = part["attacker"].isin(blind)
    guess = max(_floor(part[column], part[f"visibility {name}"]), habits)
    if is_blind.any():
        guess = max(guess, float(part[is_blind].groupby("attacker")[column].mean().max()))
    seeing = part[~is_blind] if not is_blind.all() else part
    sights = {e: _best(seeing[seeing["epsilon"] == e], name, guess) for e in epsilons_of(part)}
    return ApplianceSights(name, guess, sights)


def _best(rows: pd.DataFrame, name: str, guess: float) -> Sight:
    """The attacker with the highest mean at one ε; NaN where all failed."""
    columns = [f"alpha {name}", f"visibility {name}"]
    means = rows.groupby("attacker", sort=False)[columns].mean()
    if means.empty:
        return Sight(math.nan, "nobody", math.nan)
    values = means.to_numpy(dtype=float)
    place = int(values[:, 0].argmax())
    right, seen = float(values[place, 0]), float(values[place, 1])
    # Where all was always seen the guess is unknown, and what was seen is known.
    visibility = seen if math.isnan(guess) else _visibility(right, guess)
    return Sight(right, str(means.index[place]), visibility)


def _floor(alpha: pd.Series, visibility: pd.Series) -> float:
    """The guess without data, α_floor = (α − v)/(1 − v), from the row where this is sharpest.

    An appliance that never switches has no visibility, and a guess is always right.
    """
    known = visibility.notna()
    if not known.any():
        return 1.0
    at = int(visibility[known].argmin())
    a, v = float(alpha[known].iloc[at]), float(visibility[known].iloc[at])
    return (a - v) / (1 - v) if v < 1 else math.nan


def _visibility(right: float, guess: float) -> float:
    return (right - guess) / (1 - guess) if guess < 1 else math.nan
