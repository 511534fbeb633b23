"""What a sweep of a figure says: who sees how much with little noise, and who is robust."""

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
    """The rows of a sweep, and what can be read from them.

    Attributes
    ----------
    table : DataFrame
        One row per cell, without failed ones and without timings.
    by : str
        Column whose values are compared.
    failed : tuple of str
        Why contenders are left out, one sentence each.
    """

    table: pd.DataFrame
    by: str = "attacker"
    failed: tuple[str, ...] = ()

    @cached_property
    def names(self) -> list[str]:
        """What is compared, floors left out, in the order of the study."""
        return [str(n) for n in self.table[self.by].unique() if n not in FLOORS]

    def mean(self, name: str, measure: str = "alpha", epsilon: float = CALM) -> float:
        """Mean over seeds at one ε."""
        chosen = (self.table[self.by] == name) & (self.table.epsilon == epsilon)
        return float(self.table.loc[chosen, measure].mean())

    def rank(self, measure: str = "alpha", epsilon: float = CALM) -> list[str]:
        """From the one who sees most to the one who sees least."""
        return sorted(self.names, key=lambda name: -self.mean(name, measure, epsilon))

    def fits(self, measure: str = "alpha") -> dict[str, BreakpointFit]:
        """Break points and slopes against ln(1/ε) of all that is compared."""
        if measure not in self._fits:
            self._fits[measure] = {name: self._fit(name, measure) for name in self.names}
        return self._fits[measure]

    @cached_property
    def _fits(self) -> dict[str, dict[str, BreakpointFit]]:
        """By measure, as they are asked for: captions do so several times."""
        return {}

    def _fit(self, name: str, measure: str) -> BreakpointFit:
        part = self.table[self.table[self.by] == name]
        rows = part.pivot(index="seed", columns="epsilon", values=measure)
        return fit_breakpoints(EPSILONS, rows[list(EPSILONS)].to_numpy())

    @property
    def floor(self) -> float:
        """The better of “everything off” and “as at the first reading”, α."""
        return float(max(self.table.alpha_floor.mean(), self.table.hold_floor.mean()))

    def list_means(self, measure: str = "alpha", epsilon: float = CALM) -> str:
        """Names with their means, the best first."""
        ranked = self.rank(measure, epsilon)
        return ", ".join(f"{n} {self.mean(n, measure, epsilon):.3f}" for n in ranked)

    def list_slopes(self, measure: str = "alpha") -> str:
        """Names with their steepest slope, the most robust first."""
        fits = self.fits(measure)
        return ", ".join(f"{n} {fits[n].steepest.value:+.3f}" for n in rank_by_slope(fits))

    def summary(self) -> str:
        """Floors, ranking with little noise and ranking by slope, in sentences."""
        off, hold = self.table.alpha_floor.mean(), self.table.hold_floor.mean()
        left_out = "".join(f" Left out: {reason}" for reason in self.failed)
        return (
            f"α at ε = {CALM:g}: {self.list_means()} (everything off {off:.3f}, as at the first "
            f"reading {hold:.3f}). From robust to fragile, by the steepest slope of α per unit of "
            f"ln(1/ε): {self.list_slopes()}.{left_out}"
        )


def compare(
    case: Case,
    setting: Setting,
    contenders: tuple[Contender, ...],
    *,
    mechanisms: tuple[str, ...] = ("laplace",),
    epsilons: tuple[float, ...] = EPSILONS,
) -> Comparison:
    """Sweep one case; contenders that fail are left out and told."""
    study = Study(
        case.name,
        (case,),
        contenders,
        mechanisms=mechanisms,
        epsilons=epsilons,
        seeds=setting.seeds,
        seed=setting.seed,
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
