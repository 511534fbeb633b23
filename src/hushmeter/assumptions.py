"""Assumptions 1–3 of the paper, checked on a home and a trace with a plain verdict."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import IntArray, power_vector
from hushmeter.errors import InputError
from hushmeter.formatting import format_watts

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.trace import Trace


def concentration_margin(powers: ArrayLike) -> float:
    """Assumption 3: min over U of F(U) = Σ(U smallest) − Σ(U − 1 largest) [W].

    Powers are concentrated, for every U at once, iff the margin exceeds 2 × tolerance.

    F(U + 1) − F(U) = P_{U+1} − P_{N+1−U} (ascending) is negative below U* = ⌈N/2⌉ and not
    negative from there on, so F(U*) is the smallest of all.
    """
    ascending = np.sort(power_vector(powers))
    half = (ascending.size + 1) // 2
    return float(ascending[:half].sum() - ascending[ascending.size - half + 1 :].sum())


@dataclass(frozen=True)
class TraceCheck:
    """What a trace with truth says about Assumptions 1 and 2.

    Attributes
    ----------
    switches_per_step : IntArray
        How many steps have 0, 1, … N switches, shape (N + 1,).
    mixed_steps : int
        Steps at which something goes on while something else goes off: there the paper's
        K = |Σ ± P| is not Δ·P, an assumption it does not state.
    sparsity : float
        Appendix B.
    largest_fluctuation : float
        Largest jump of the meter without a switch [W] (Assumption 2).
    """

    switches_per_step: IntArray
    mixed_steps: int
    sparsity: float
    largest_fluctuation: float

    @property
    def max_switches(self) -> int:
        """U: the most switches at one step."""
        return int(np.flatnonzero(self.switches_per_step)[-1])


@dataclass(frozen=True)
class AssumptionCheck:
    """The verdict of `Home.check`; printing it gives the sentences.

    Attributes
    ----------
    tolerance : float
        The paper's δ [W].
    unresolvable : tuple of str
        Appliances of at most 2δ: their switches hide in the tolerance.
    confusable : tuple of pairs of str
        Neighbours in power that differ by at most 2δ: one may be taken for the other.
    margin : float
        `concentration_margin` of the powers [W].
    trace : TraceCheck or None
        Present when the trace has true states.
    """

    tolerance: float
    unresolvable: tuple[str, ...]
    confusable: tuple[tuple[str, str], ...]
    margin: float
    trace: TraceCheck | None

    @property
    def concentrated(self) -> bool:
        """Assumption 3 for every U."""
        return self.margin > 2 * self.tolerance

    @property
    def sparse(self) -> bool | None:
        """Assumption 1, read as: no step switches more than half of the appliances."""
        if self.trace is None:
            return None
        return 2 * self.trace.max_switches <= self.trace.switches_per_step.size - 1

    @property
    def bounded(self) -> bool | None:
        """Assumption 2: no fluctuation without a switch exceeds the tolerance."""
        return None if self.trace is None else self.trace.largest_fluctuation <= self.tolerance

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, one sentence per assumption and finding."""
        return (*self._trace_sentences(), *self._power_sentences())

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _trace_sentences(self) -> tuple[str, ...]:

        if self.trace is None:
            return ("Assumptions 1 and 2 need true states; none were given.",)
        found = self.trace
        steps = int(found.switches_per_step.sum())
        quiet, single = found.switches_per_step[:2] / max(steps, 1)
        return (
            f"Assumption 1 (sparse switches) {_holds(self.sparse)}: at most "
            f"{found.max_switches} switches per step, none in {quiet:.2%} and one in "
            f"{single:.2%} of {steps} steps; sparsity {found.sparsity:.2%}.",
            f"Assumption 2 (bounded power) {_holds(self.bounded)}: the largest jump without a "
            f"switch is {format_watts(found.largest_fluctuation)}, the tolerance "
            f"{format_watts(self.tolerance)}.",
            f"Unstated: in {found.mixed_steps} steps something went on while something else "
            "went off.",
        )

    def _power_sentences(self) -> tuple[str, ...]:

        twice = format_watts(2 * self.tolerance)
        sentences = [
            f"Assumption 3 (concentrated powers) {_holds(self.concentrated)}: margin "
            f"{format_watts(self.margin)}, needed more than {twice}."
        ]
        if self.unresolvable:
            sentences.append(
                f"Unresolvable at this tolerance (at most {twice}): {', '.join(self.unresolvable)}."
            )
        if self.confusable:
            pairs = ", ".join(f"{a} and {b}" for a, b in self.confusable)
            sentences.append(f"Alike within {twice}: {pairs}.")
        return tuple(sentences)


def check_assumptions(home: Home, trace: Trace | None = None) -> AssumptionCheck:
    """Check Assumptions 1–3 of the paper; see `Home.check`."""
    order = np.argsort(home.powers, kind="stable")
    close = [
        (home.names[a], home.names[b])
        for a, b in pairwise(order)
        if home.powers[b] - home.powers[a] <= 2 * home.tolerance
    ]
    small = [home.names[i] for i in order if home.powers[i] <= 2 * home.tolerance]
    with_truth = trace is not None and trace.states is not None
    return AssumptionCheck(
        tolerance=home.tolerance,
        unresolvable=tuple(small),
        confusable=tuple(close),
        margin=concentration_margin(home.powers),
        trace=_check_trace(home, trace) if trace is not None and with_truth else None,
    )


def _check_trace(home: Home, trace: Trace) -> TraceCheck:
    states, switches = trace.truth(), trace.switches
    if states.shape[1] != len(home):
        raise InputError(f"the trace has {states.shape[1]} appliances, the home {len(home)}.")
    within_run = ~trace.run_starts
    per_step = switches.sum(axis=1)
    on = (switches & states).any(axis=1)
    off = (switches & ~states).any(axis=1)
    quiet = trace.jumps()[within_run & (per_step == 0)]
    return TraceCheck(
        switches_per_step=np.bincount(per_step[within_run], minlength=len(home) + 1),
        mixed_steps=int((on & off).sum()),
        sparsity=trace.sparsity,
        largest_fluctuation=float(quiet.max(initial=0.0)),
    )


def _holds(verdict: bool | None) -> str:
    return "holds" if verdict else "fails"
