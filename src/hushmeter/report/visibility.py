"""How visible every appliance is in a sweep: the best attacker at each ε against no data at all.

One number has one meaning everywhere: an appliance is known correctly in `right` out of all
moments by whoever is best, be it an attacker with the released readings or a guess without them.
"""

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
WITHOUT_DATA = "a guess without your data"
FOLLOWED = 0.5
"""Visibility above which an appliance counts as followed."""


@dataclass(frozen=True)
class BestAttack:
    """One appliance at one ε."""

    # Share of moments in which the best attacker, or a guess without data if that is better, is
    # correct; mean over seeds.
    right: float
    attacker: str  # Label of the attacker, or `WITHOUT_DATA`
    # (right − guess)/(1 − guess): the share of the remaining doubt that the readings remove
    visibility: float


@dataclass(frozen=True)
class ApplianceVisibility:
    """One appliance at every ε."""

    name: str
    # Share of moments in which the best guess without data is correct: “always off”, “always on”,
    # an attacker of the sweep that does not look at the readings or, if it was measured, an
    # attacker who knows only the habits of the home.
    guess: float
    best: dict[float, BestAttack]  # By ε, largest first

    @property
    def followed_down_to(self) -> float | None:
        """The smallest ε down to which the appliance is followed; None if it never is."""
        last = None
        for epsilon, found in self.best.items():
            if not found.visibility > FOLLOWED:
                break
            last = epsilon
        return last


def rate_appliances(
    sweep: SweepResult, home: str, mechanism: str, guesses: Sequence[Saved] = ()
) -> list[ApplianceVisibility]:
    """Find the best attacker for every appliance of a home at every ε."""
    table = sweep.table
    part = table[(table["home"] == home) & (table["mechanism"] == mechanism)]
    blind = blind_labels(sweep)
    habits = habits_of(guesses, home)
    return [_rate(part, name, blind, habits.get(name, 0.0)) for name in appliance_names(part)]


def blind_labels(sweep: SweepResult) -> list[str]:
    """Return the labels of the attackers in a sweep that do not look at the readings."""
    return [a["label"] for a in sweep.manifest["attackers"] if a["name"] in BLIND]


def appliance_names(part: pd.DataFrame) -> list[str]:
    """Return the appliances that have scores in these rows, in the order of the columns."""
    columns = [str(c) for c in part if str(c).startswith("alpha ")]
    return [c.removeprefix("alpha ") for c in columns if part[c].notna().any()]


def epsilons_of(part: pd.DataFrame) -> list[float]:
    """Return the values of ε, largest first: from little to much protection."""
    return sorted((float(e) for e in part["epsilon"].unique()), reverse=True)


def habits_of(guesses: Sequence[Saved], home: str) -> dict[str, float]:
    """Return how often an attacker without readings is correct about each appliance of a home."""
    for saved in guesses:
        with reading(saved.path):
            if saved.content["home"] == home:
                return {str(name): float(a) for name, a in saved.content["alpha"].items()}
    return {}


def visibility(right: float, guess: float) -> float:
    """Return (right − guess)/(1 − guess), or NaN if the guess is always correct."""
    return (right - guess) / (1 - guess) if guess < 1 else math.nan


def _rate(
    part: pd.DataFrame, name: str, blind: Sequence[str], habits: float
) -> ApplianceVisibility:
    """Compare the attackers with the best guess for one appliance."""
    column = f"alpha {name}"
    is_blind = part["attacker"].isin(blind)
    guess = max(_floor(part[column], part[f"visibility {name}"]), habits)
    if is_blind.any():
        guess = max(guess, float(part[is_blind].groupby("attacker")[column].mean().max()))
    seeing = part[~is_blind] if not is_blind.all() else part
    best = {e: _best(seeing[seeing["epsilon"] == e], name, guess) for e in epsilons_of(part)}
    return ApplianceVisibility(name, guess, best)


def _best(rows: pd.DataFrame, name: str, guess: float) -> BestAttack:
    """Return the attacker with the highest mean at one ε; NaN if all of them failed."""
    columns = [f"alpha {name}", f"visibility {name}"]
    means = rows.groupby("attacker", sort=False)[columns].mean()
    if means.empty:
        return BestAttack(math.nan, "nobody", math.nan)
    values = means.to_numpy(dtype=float)
    place = int(values[:, 0].argmax())
    right, measured = float(values[place, 0]), float(values[place, 1])
    if math.isnan(guess):
        # An attacker was always correct, so the guess cannot be computed from the table, but the
        # visibility was measured.
        return BestAttack(right, str(means.index[place]), measured)
    if right <= guess:
        return BestAttack(guess, WITHOUT_DATA, visibility(guess, guess))
    return BestAttack(right, str(means.index[place]), visibility(right, guess))


def _floor(alpha: pd.Series, measured: pd.Series) -> float:
    """Return the guess without data, α_floor = (α − v)/(1 − v), where this is most exact.

    An appliance that never switches has no visibility, and a guess about it is always correct.
    """
    known = measured.notna()
    if not known.any():
        return 1.0
    at = int(measured[known].argmin())
    a, v = float(alpha[known].iloc[at]), float(measured[known].iloc[at])
    return (a - v) / (1 - v) if v < 1 else math.nan
