"""Compare the attackers of a sweep: accuracy with little noise, and robustness against noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hushmeter.errors import DataError
from hushmeter.study.breakpoints import BreakpointFit, fit_breakpoints, rank_by_slope
from hushmeter.study.figures.item import EPSILONS, Setting
from hushmeter.study.plan import Case, Contender, Study
from hushmeter.study.sweep import sweep

if TYPE_CHECKING:
    import pandas as pd

FLOORS = ("all-off", "hold")
CALM = max(EPSILONS)


@dataclass(frozen=True)
class Comparison:
    """The rows of a sweep, with means, rankings and fits.

    Attributes
    ----------
    table : DataFrame
        One row for each cell, without failed cells and without times.
    by : str
        The column whose values are compared.
    failed : tuple of str
        Sentences about attackers that failed and are left out.
    """

    table: pd.DataFrame
    by: str = "attacker"
    failed: tuple[str, ...] = ()

    @cached_property
    def names(self) -> list[str]:
        """The compared names without the floors, in the order of the study."""
        return [str(n) for n in self.table[self.by].unique() if n not in FLOORS]

    def mean(self, name: str, measure: str = "alpha", epsilon: float = CALM) -> float:
        """Return the mean of a measure over the seeds at one ε."""
        chosen = (self.table[self.by] == name) & (self.table.epsilon == epsilon)
        return float(self.table.loc[chosen, measure].mean())

    def rank(self, measure: str = "alpha", epsilon: float = CALM) -> list[str]:
        """Return the names from the largest mean to the smallest."""
        return sorted(self.names, key=lambda name: -self.mean(name, measure, epsilon))

    def fits(self, measure: str = "alpha") -> dict[str, BreakpointFit]:
        """Return the fit of every name against ln(1/ε)."""
        if measure not in self._fits:
            self._fits[measure] = {name: self._fit(name, measure) for name in self.names}
        return self._fits[measure]

    @cached_property
    def _fits(self) -> dict[str, dict[str, BreakpointFit]]:
        """Fits by measure, kept because captions need them several times."""
        return {}

    def _fit(self, name: str, measure: str) -> BreakpointFit:
        part = self.table[self.table[self.by] == name]
        rows = part.pivot(index="seed", columns="epsilon", values=measure)
        return fit_breakpoints(EPSILONS, rows[list(EPSILONS)].to_numpy())

    @property
    def floor(self) -> float:
        """α of “everything off” or of “as at the first reading”, whichever is larger."""
        return float(max(self.table.alpha_floor.mean(), self.table.hold_floor.mean()))

    def list_means(self, measure: str = "alpha", epsilon: float = CALM) -> str:
        """Return the names with their means as text, the largest first."""
        ranked = self.rank(measure, epsilon)
        return ", ".join(f"{n} {self.mean(n, measure, epsilon):.3f}" for n in ranked)

    def list_slopes(self, measure: str = "alpha") -> str:
        """Return the names with their steepest slopes as text, the most robust first."""
        fits = self.fits(measure)
        return ", ".join(f"{n} {fits[n].steepest.value:+.3f}" for n in rank_by_slope(fits))

    def summary(self) -> str:
        """Return sentences about the floors, the means with little noise and the slopes."""
        off, hold = self.table.alpha_floor.mean(), self.table.hold_floor.mean()
        left_out = "".join(f" Left out: {reason}" for reason in self.failed)
        return (
            f"The accuracy α at ε = {CALM:g} is: {self.list_means()} (everything off {off:.3f}, as "
            f"at the first reading {hold:.3f}). The steepest slopes of α per unit of ln(1/ε), from "
            f"robust to fragile, are: {self.list_slopes()}.{left_out}"
        )


def compare(
    case: Case,
    setting: Setting,
    contenders: tuple[Contender, ...],
    *,
    mechanisms: tuple[str, ...] = ("laplace",),
    epsilons: tuple[float, ...] = EPSILONS,
) -> Comparison:
    """Sweep one case; attackers that fail are left out and named.

    Parameters
    ----------
    case : Case
        The home and its readings.
    setting : Setting
        Seeds and workers.
    contenders : tuple of Contender
        The attackers.
    mechanisms : tuple of str
        Names of the mechanisms.
    epsilons : tuple of float
        Values of ε.

    Returns
    -------
    Comparison
        The rows.

    Raises
    ------
    DataError
        If every attacker fails.
    """
    study = Study(
        case.name,
        (case,),
        contenders,
        mechanisms=mechanisms,
        epsilons=epsilons,
        seeds=setting.seeds,
        seed=setting.seed,
        # Algorithm 1 of the paper starts from the true state.
        knows_first_state=True,
    )
    table = sweep(study, jobs=setting.jobs, report=setting.report).drop(columns="seconds")
    if "error" not in table:
        return Comparison(table)
    errors = table[table.error.notna()]
    reasons = tuple(
        f"{name} ({part.error.iloc[0].rstrip('.')})."
        for name, part in errors.groupby("attacker", sort=False)
    )
    kept = table[~table.attacker.isin(errors.attacker)].drop(columns="error")
    if kept.empty:
        raise DataError(f"every attacker failed: {reasons[0]}")
    return Comparison(kept.reset_index(drop=True), failed=reasons)
