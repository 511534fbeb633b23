"""Compare the attackers of a sweep: accuracy with little noise, and robustness against noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import DataError
from hushmeter.plot.accuracy import mean_and_band
from hushmeter.study.breakpoints import BreakpointFit, fit_breakpoints, rank_by_slope
from hushmeter.study.figures.item import EPSILONS, SLOPE, Details, Setting
from hushmeter.study.plan import Case, Contender, Study
from hushmeter.study.sweep import sweep

if TYPE_CHECKING:
    import pandas as pd

FLOORS = ("all-off", "hold")
CALM = max(EPSILONS)


@dataclass(frozen=True)
class Comparison:
    """The rows of a sweep, with means, rankings and fits."""

    table: pd.DataFrame  # One row for each cell, without failed cells and without times
    by: str = "attacker"  # The column whose values are compared
    failed: tuple[str, ...] = ()  # Sentences about attackers that failed and are left out

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

    def interval(
        self, name: str, measure: str = "alpha", epsilon: float = CALM
    ) -> tuple[float, float]:
        """Return the 95 % interval of a mean over the seeds, by Student's t."""
        chosen = (self.table[self.by] == name) & (self.table.epsilon == epsilon)
        _, mean, half = mean_and_band(self.table[chosen], measure)
        return float(mean[0] - half[0]), float(mean[0] + half[0])

    def tell(self, name: str, measure: str = "alpha", epsilon: float = CALM) -> str:
        """Return a mean with its 95 % interval as text."""
        low, high = self.interval(name, measure, epsilon)
        return f"{self.mean(name, measure, epsilon):.3f} [{low:.3f}, {high:.3f}]"

    def robustness(self, curves: Mapping[str, FloatArray] | None = None) -> pd.DataFrame:
        """Return slopes and break points of α and F1 with 95 % intervals, one row for each."""
        import pandas as pd

        fits = [
            (name, measure, self.fits(measure)[name])
            for name in rank_by_slope(self.fits())
            for measure in ("alpha", "f1")
        ]
        for name, curve in (curves or {}).items():
            fits.append((name, "alpha", fit_breakpoints(EPSILONS, curve, bootstrap=1)))
        rows = [{self.by: name, "measure": measure, **_columns(fit)} for name, measure, fit in fits]
        return pd.DataFrame(rows).rename(columns={self.by: "name"})

    def tell_robustness(self) -> Details:
        """Return slopes and break points of α and F1, with 95 % intervals, as rows of details."""
        rows = []
        for name in rank_by_slope(self.fits()):
            words = [
                f"{symbol} {_tell_fit(self.fits(measure)[name])}"
                for measure, symbol in (("alpha", "α"), ("f1", "F1"))
            ]
            rows.append((f"{SLOPE}{name}", "; ".join(words)))
        return (*rows, *(("left out", reason) for reason in self.failed))


def _columns(fit: BreakpointFit) -> dict[str, float | str]:
    """The numbers of a fit by the columns of the table of robustness."""
    steepest = fit.steepest
    row: dict[str, float | str] = {
        "slope": steepest.value,
        "slope_low": steepest.low,
        "slope_high": steepest.high,
    }
    for i, one in enumerate(fit.breaks, 1):
        ends = {"": one.value, "_low": one.high, "_high": one.low}
        row |= {f"break_{i}{end}": float(np.exp(-x)) for end, x in ends.items()}
    return row | {"better": fit.better}


def _tell_fit(fit: BreakpointFit) -> str:
    """The steepest slope per unit of ln(1/ε) and the break points, with their intervals."""
    steepest = fit.steepest
    breaks = ", ".join(
        f"{np.exp(-one.value):.2g} [{np.exp(-one.high):.2g}, {np.exp(-one.low):.2g}]"
        for one in fit.breaks
    )
    better = "" if fit.better == "piecewise" else " (a sigmoid fits better)"
    return (
        f"{steepest.value:+.3f} [{steepest.low:+.3f}, {steepest.high:+.3f}], breaks at ε = "
        f"{breaks}{better}"
    )


def compare(
    case: Case,
    setting: Setting,
    contenders: tuple[Contender, ...],
    *,
    mechanisms: tuple[str, ...] = ("laplace",),
    epsilons: tuple[float, ...] = EPSILONS,
    seeds: int | None = None,
) -> Comparison:
    """Sweep one case; attackers that fail are left out and named."""
    study = Study(
        case.name,
        (case,),
        contenders,
        mechanisms=mechanisms,
        epsilons=epsilons,
        seeds=setting.seeds if seeds is None else seeds,
        seed=setting.seed,
        # Algorithm 1 of the paper starts from the true state.
        knows_first_state=True,
    )
    table = sweep(study, jobs=setting.jobs, report=setting.report).drop(columns="seconds")
    if "error" not in table:
        return Comparison(table)
    errors = table[table.error.notna()]
    reasons = tuple(
        part.error.iloc[0]
        if part.error.iloc[0].startswith(name)
        else f"{name}: {part.error.iloc[0]}"
        for name, part in errors.groupby("attacker", sort=False)
    )
    kept = table[~table.attacker.isin(errors.attacker)].drop(columns="error")
    if kept.empty:
        raise DataError(f"every attacker failed: {reasons[0]}")
    return Comparison(kept.reset_index(drop=True), failed=reasons)
