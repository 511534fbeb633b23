"""From a request to a promise: the noise for an ε, or the least noise that keeps the odds.

“Nobody may be right about my kettle more than 60 times out of 100” is a goal for the odds of the
best attacker. Many releases meet it: coarse cells with little noise, fine cells with much noise, or
several tables that share the budget. `candidates` lists the requests to try, `keep_odds` finds the
largest ε, and so the least noise, with which one of them keeps the odds, and `find_best` takes the
promise with the least standard error for the purpose. No reading is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from statistics import NormalDist

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.clock import longest_cell_s
from hushmeter.errors import DataError, InputError
from hushmeter.noise import (
    DEFAULT_KIND,
    MECHANISMS,
    SHARING_KIND,
    Gaussian,
    Mechanism,
    clamped,
    find_kind,
)
from hushmeter.noise.gaussian import analytic_epsilon, joint_sigmas
from hushmeter.noise.mechanism import Exact, coarser, exact
from hushmeter.noise.samplers import gaussian_fits
from hushmeter.privacy import change_odds
from hushmeter.privacy.sensitivity import corner
from hushmeter.privacy.units import Metered, Unit, calibrate, refuse_large_register
from hushmeter.releases.labels import (
    CELLS,
    Cells,
    LabelledTable,
    cells_of,
    check_tables,
    is_aligned,
    rearrangement,
)
from hushmeter.releases.promise import EXACT_GRID, NoisyTable, Promise, promise_of
from hushmeter.releases.purposes import Errors, independent_errors, what_helps
from hushmeter.releases.request import Request
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, intervals_in, nearest_multiple

RESOLUTIONS_S = (60, 300, 900, 1800, 3600)
"""Lengths of cells that are searched [s], beside that of the readings."""

LONG_RESOLUTIONS_S = (21_600, SECONDS_PER_DAY)
"""Longer lengths [s] that are searched if the data is for days, months or register values."""

LEAST_EPSILON, MOST_EPSILON = 5e-3, 20.0
ODDS_SLACK = 3e-4
"""The search stops if the odds are below the goal by at most this."""

NEAR_A_COIN = 0.51
"""A goal below this is answered with odds of this size, because a coin is right half of the time
and no noise is enough for less."""

GRIDS = ("1", "0.5", "0.2", "0.1", "0.05", "0.02", "0.01", "0.005", "0.002", "0.001")
ROUNDING = 0.005
"""Largest share of the noise that rounding to the grid may add."""

MARGIN = 0.01
"""Share by which the noise in `cannot_win` is wider than it must be. Rounding to whole grid steps
changes odds and standard deviations by less."""

FEWEST_STEPS = 8
"""Width of Gaussian noise from which the grid changes its odds by less than `MARGIN` [steps]."""


def best_grid(unit: Unit) -> Fraction:
    """Return the coarsest grid whose rounding adds at most `ROUNDING` to the noise [W].

    Rounding moves each touched value by up to one step more, so Laplace noise grows by touches·g/Δ1
    of itself, and Gaussian and staircase noise by less.
    """
    if not unit.changes:
        return EXACT_GRID
    share = ROUNDING * unit.l1 / unit.touches
    return next((Fraction(g) for g in GRIDS if float(g) <= share), Fraction(GRIDS[-1]))


def calibrate_request(request: Request, metered: Metered) -> Promise:
    """Return the promise of a request that states its ε."""
    assert request.epsilon is not None
    return at_epsilon(request, metered, request.epsilon)


def at_epsilon(request: Request, metered: Metered, epsilon: Exact) -> Promise:
    """Return the promise of a request with cells and a mechanism of its own, at an ε."""
    every = _cell_length(request, metered)
    unit = request.unit(metered, every)
    if request.several:
        return _share(request, metered, unit, _cells(request, metered, every), epsilon)
    return _series(request, metered, unit, request.mechanism or DEFAULT_KIND, epsilon)


def _series(request: Request, metered: Metered, unit: Unit, name: str, epsilon: Exact) -> Promise:
    """Return the promise of cells alone with an ε."""
    noise = calibrate(
        name,
        epsilon,
        unit,
        delta=request.delta,
        grid=best_grid(unit) if request.grid is None else request.grid,
        clamp=request.clamp,
        max_epsilon=request.max_epsilon,
    )
    return _promise(request, metered, unit, noise)


def _promise(request: Request, metered: Metered, unit: Unit, noise: Mechanism) -> Promise:
    """Return the promise of cells alone with a noise."""
    if request.tables:
        check_tables(request.tables, cells_of(metered, unit.window * unit.interval_s))
    home = request.home_for(metered, unit.window * unit.interval_s)
    made = promise_of(noise, unit, metered, home)
    return replace(made, accept_learnt=request.accept_learnt, words=request.words)


def _cell_length(request: Request, metered: Metered) -> float | str | None:
    """Return the length of the cells: for tables an hour, if the readings are not longer.

    In a zone whose clock differs from UTC by half or quarter hours the cells are that short, so
    that a day begins with a cell. A wish about hours or days takes the readings themselves if they
    do not fit into such cells.
    """
    if request.every is not None or not request.several:
        return request.every
    step = longest_cell_s(metered.zone, None if metered.times is None else metered.times.times)
    odd = step % metered.interval_s > 0
    length = max(float(SECONDS_PER_HOUR if odd else step), metered.interval_s)
    fits = not odd and (metered.times is None or is_aligned(metered.times, length))
    return metered.interval_s if request.rearranged and not fits else length


def _cells(request: Request, metered: Metered, every: float | str | None) -> Cells:
    """Return the cells of a release of several tables."""
    cells = cells_of(metered, every, of_days=True, rearranged=request.rearranged)
    if not cells.model:
        period = float((cells.times.times[-1] - cells.times.times[0]).astype(np.int64)) / 1e9
        changes = request.unit(metered, every).changes
        longest = max((change.seconds for change in changes), default=0.0)
        if request.chosen_span() == "run" and longest > period + cells.interval_s:
            raise InputError(
                f"a run of up to {longest / SECONDS_PER_HOUR:g} hours is longer than the period of "
                f"{(period + cells.interval_s) / SECONDS_PER_HOUR:g} hours; release a longer "
                "period, or protect a day."
            )
    return cells


def _share(request: Request, metered: Metered, unit: Unit, cells: Cells, epsilon: Exact) -> Promise:
    """Return the promise of several tables that share one ε."""
    from hushmeter.releases.estimate import divide_budget

    delta = float(exact("delta", request.delta))
    refuse_large_register(SHARING_KIND, unit)
    tables = check_tables(request.tables, cells)
    finest = best_grid(unit) if request.grid is None else exact("grid", request.grid)
    made = partial(
        Promise,
        unit,
        cells,
        request.words,
        clamp=request.clamp,
        hourly_cost=request.hourly_cost,
        home=request.home_for(unit.metered, cells.interval_s),
        accept_learnt=request.accept_learnt,
    )
    for grid in coarser(finest):
        lengths = _lengths_of(unit, cells, tables, grid)
        if not lengths.any():
            return made(tuple(NoisyTable(table, None) for table in tables), 0.0)
        shares = divide_budget(request.tables, cells.interval_s, lengths, request.hourly_cost)
        used = np.flatnonzero(shares)
        if [tables[j].name for j in used] == [CELLS]:
            # No other table is worth its share.
            return _series(request, metered, unit, SHARING_KIND, epsilon)
        wanted = float(exact("epsilon", epsilon)), delta
        sigmas = joint_sigmas(*wanted, lengths[used], shares[used]) * (1 + 1e-12)
        if all(map(gaussian_fits, sigmas)):
            noisy = [
                NoisyTable(tables[j], table_noise(sigma, lengths[j], grid, delta))
                for j, sigma in zip(used.tolist(), sigmas.tolist(), strict=True)
            ]
            return made(tuple(noisy), delta)
        if grid > 1000 * max(1.0, unit.largest_watts):
            break
    raise InputError("the noise is too wide for any grid; choose a larger epsilon.")


def _lengths_of(
    unit: Unit, cells: Cells, tables: Sequence[LabelledTable], grid: Fraction
) -> FloatArray:
    """Largest change of every table [grid steps]; refuse one that shows what must stay hidden."""
    from hushmeter.releases.estimate import lengths_of

    lengths = lengths_of(tables, unit.changes, grid)
    if not unit.rearranged:
        return lengths
    moved = rearrangement(unit, cells)
    found = np.maximum(lengths, [moved.length(table, grid) for table in tables])
    shown = [table.name for table, length in zip(tables, found, strict=True) if length == np.inf]
    if shown:
        name = "hours" if shown[0] == CELLS else shown[0]
        raise InputError(
            f"no useful release of the table {name} hides {what_helps(unit.rearranged)}"
        )
    return found


def table_noise(sigma: float, length: float, grid: Fraction, delta: float) -> Gaussian:
    """Return the noise of a table whose sums move by at most `length` grid steps together."""
    return Gaussian.of_sigma(
        sigma,
        Fraction(length) * grid,
        grid,
        delta=delta,
        # The sums are whole steps, and several of them can move.
        on_grid=True,
        touches=2,
        max_epsilon=1e6,
    )


def candidates(request: Request, metered: Metered) -> list[Request]:
    """Return requests with a length of the cells and a mechanism each, which may meet a wish."""
    request = with_local_days(request, metered)
    if request.several:
        return [request]
    names = tuple(MECHANISMS) if request.mechanism is None else (request.mechanism,)
    lengths = _resolutions(request, metered)
    return [
        request.with_changes(every=every, mechanism=name) for every in lengths for name in names
    ]


def with_local_days(request: Request, metered: Metered) -> Request:
    """Return a wish for days or months of a zone with tables of them.

    A day of a zone is not always 24 hours long, so that a series of 24 hours does not have it.
    """
    local = metered.zone != "UTC" and request.purpose in ("day", "month")
    return request.as_calendar(metered) if local else request


def _resolutions(request: Request, metered: Metered) -> list[float]:
    """The length of a reading, and the whole multiple of it nearest to every longer resolution."""
    interval_s = metered.interval_s
    if request.every is not None:
        return [intervals_in(request.every, interval_s) * interval_s]
    hourly = request.for_purpose(metered) in ("hour", "profile")
    wanted = RESOLUTIONS_S if hourly else RESOLUTIONS_S + LONG_RESOLUTIONS_S
    longer = (nearest_multiple(length, interval_s) for length in wanted if length > interval_s)
    # A short file has no complete day: a cell must fit into its readings twice.
    longest = math.inf if metered.readings is None else metered.readings * interval_s / 2
    return [interval_s, *(s for s in dict.fromkeys(longer) if interval_s < s <= longest)]


def keep_odds(request: Request, metered: Metered) -> Promise:
    """Return the promise with the largest ε that keeps the odds of a candidate."""
    goal = _goal(request)
    every = _cell_length(request, metered)
    unit = request.unit(metered, every)
    if request.several:
        return _share_at_odds(request, metered, unit, goal)
    assert request.mechanism is not None
    refuse_large_register(request.mechanism, unit)
    found = least_noise(request.mechanism, unit, float(exact("delta", request.delta)), goal)
    if found is None:
        raise InputError(
            f"the noise that hides {request.subject} is too wide for any grid; allow larger odds."
        )
    return _promise(request, metered, unit, clamped(found[0], request.clamp))


def measured_odds(
    request: Request, metered: Metered, odds_of: Callable[[Mechanism, Unit], float]
) -> tuple[Promise, float]:
    """Return the promise with the largest ε at which one attacker stays within the odds."""
    unit = request.unit(metered, request.every)
    assert request.mechanism is not None
    refuse_large_register(request.mechanism, unit)
    delta = float(exact("delta", request.delta))
    found = search_noise(request.mechanism, unit, delta, _goal(request), odds_of)
    if found is None:
        raise InputError("the noise is too wide for any grid; allow larger odds.")
    return _promise(request, metered, unit, clamped(found[0], request.clamp)), found[2]


def _share_at_odds(request: Request, metered: Metered, unit: Unit, goal: float) -> Promise:
    """Return the promise of several tables with the largest ε up to 20 that keeps the odds.

    The odds are Φ(μ/2) with μ² = Σ s_j²/σ_j², so ε follows from them in closed form.
    """
    delta = float(exact("delta", request.delta))
    cells = _cells(request, metered, _cell_length(request, metered))
    aim = goal - ODDS_SLACK / 10
    while True:
        epsilon = min(MOST_EPSILON, analytic_epsilon(1.0, 2 * NormalDist().inv_cdf(aim), delta))
        promise = _share(request, metered, unit, cells, epsilon)
        if promise.odds <= goal:
            return promise
        # The grid is so coarse that the odds exceed those of continuous noise.
        aim -= promise.odds - goal + ODDS_SLACK / 10


def find_best(request: Request, metered: Metered) -> Promise:
    """Return the promise with the least error for the purpose of a wish."""
    request = with_local_days(request, metered)
    # The noise of cells alone does not depend on the times, so the search leaves them out.
    facts = metered if request.tables else replace(metered, times=None)
    found = least_error(candidates(request, facts), facts)
    assert request.odds is not None
    if found.odds > request.odds:
        raise InputError(
            f"no release keeps the odds at {100 * request.odds:g} out of 100: a coin is right 50 "
            "times; allow larger odds."
        )
    if facts.times is metered.times:
        return found
    return found.on(cells_of(metered, found.cells.interval_s))


def least_error(requests: Sequence[Request], metered: Metered) -> Promise:
    """Return the promise with the least error of several candidates of one wish.

    A mechanism and a length that cannot be better than a promise that is already known are not
    searched.
    """
    purpose = requests[0].for_purpose(metered)
    units = [request.unit(metered, _cell_length(request, metered)) for request in requests]
    each = [_error_of_one_watt(unit, purpose) for unit in units]
    # Gaussian noise is the fastest to search and nearly always wins. The order saves time only.
    slow = [not find_kind(request.mechanism or SHARING_KIND).shares_budget for request in requests]
    order = sorted(range(len(units)), key=lambda i: (slow[i], each[i] * units[i].l2))
    best: tuple[tuple[float, float, float], Promise] | None = None
    refused: InputError | None = None
    for i in order:
        request, unit = requests[i], units[i]
        if best is not None and each[i] and not request.several:
            assert request.mechanism is not None
            delta, goal = float(exact("delta", request.delta)), _goal(request)
            if cannot_win(request.mechanism, unit, delta, goal, best[0][0] / each[i]):
                continue
        try:
            promise = keep_odds(request, metered)
        except (InputError, DataError) as error:
            if isinstance(error, DataError):
                raise
            refused = error
            continue
        price = price_of(promise.errors, purpose)
        if best is None or price < best[0]:
            best = (price, promise)
    if best is None:
        raise refused or InputError("no release keeps these odds; allow larger odds.")
    return best[1]


def _goal(request: Request) -> float:
    assert request.odds is not None
    return max(request.odds, NEAR_A_COIN)


def price_of(errors: Errors, purpose: str) -> tuple[float, float, float]:
    """The numbers by which promises are ranked, the most important one first."""
    first, hour = (
        math.inf if error is None else error for error in (errors.of(purpose), errors.hour_w)
    )
    return first, hour, errors.value_s


def _error_of_one_watt(unit: Unit, purpose: str) -> float:
    """Return the error that noise of 1 W causes in cells alone; 0 if sums of days are published."""
    if unit.span == "when":
        return 0.0
    return independent_errors(1.0, unit.window * unit.interval_s).of(purpose) or 0.0


def best_odds(mechanism: Mechanism, unit: Unit) -> float:
    """Return the probability that the best attacker is right about the first change of a unit."""
    return change_odds(mechanism, unit.changes[0])


def calibrate_series(name: str, epsilon: float, unit: Unit, delta: float) -> Mechanism:
    """Calibrate the noise of cells alone on the grid with the least error."""
    return calibrate(name, epsilon, unit, delta=delta, grid=best_grid(unit))


@lru_cache(maxsize=256)
def least_noise(
    name: str, unit: Unit, delta: float, max_odds: float
) -> tuple[Mechanism, float, float] | None:
    """Return `search_noise` for the best possible attacker.

    The results are kept, because their arguments hold no reading: searches for several purposes
    share most of their resolutions, and a page asks for the same ones again and again.
    """
    return search_noise(name, unit, delta, max_odds, best_odds)


def search_noise(
    name: str,
    unit: Unit,
    delta: float,
    max_odds: float,
    odds_of: Callable[[Mechanism, Unit], float],
) -> tuple[Mechanism, float, float] | None:
    """Find the noise of one mechanism with the largest ε that keeps the odds, its ε and the odds.

    If no ε keeps the odds, it is the noise with the smallest ε; None if no noise fits any grid. The
    normal quantile of the odds grows nearly in proportion to ε, so a few proportional steps within
    a bracket find the largest ε.
    """
    normal, low, high = NormalDist(), LEAST_EPSILON, MOST_EPSILON
    aim = max_odds - ODDS_SLACK / 2
    # No attacker of an ε-private unit is right more often than 1/(1 + e^(−ε)): start there.
    guess = math.log(aim / (1 - aim)) if aim > 0.5 else low
    best: tuple[Mechanism, float, float] | None = None
    while best is None or not max_odds - ODDS_SLACK <= best[2] <= max_odds:
        guess = guess if low < guess < high else math.sqrt(low * high)
        # The last digits of a quantile differ between libraries; they must not decide the noise.
        guess = float(f"{guess:.10g}")
        try:
            mechanism = calibrate_series(name, guess, unit, delta)
        except InputError:  # The noise is too wide for any grid: only a larger ε is possible.
            low = guess
        else:
            found = odds_of(mechanism, unit)
            if found <= max_odds or best is None or best[2] > max_odds:
                best = (mechanism, guess, found)
            low, high = (guess, high) if found <= max_odds else (low, guess)
            guess *= normal.inv_cdf(aim) / normal.inv_cdf(min(max(found, 0.5 + 1e-9), 1 - 1e-12))
        if high / low < 1 + 3e-4:
            break
    return best


def cannot_win(name: str, unit: Unit, delta: float, max_odds: float, std: float) -> bool:
    """True if no noise of a mechanism of at most `std` watts keeps the odds; False if undecided.

    Notes
    -----
    *Any noise.* Let the change have the Euclidean length Δ, and let P and Q be the distributions
    of the released values, projected on its direction, without and with the change. Both have the
    standard deviation σ, and their means are Δ apart. With c halfway between the means, the
    inequality of Cauchy and Schwarz gives

        Δ² = (∫ (x − c)·(Q − P))² ≤ ∫ (x − c)²·(P + Q) · ∫ |Q − P| = (2σ² + Δ²/2)·2τ,

    where τ = 2·odds − 1 is at least the total variation of P and Q. So σ² ≥ Δ²·(1 − τ)/4τ.

    *Gaussian noise.* The odds are Φ(Δ/2σ).

    *Other noise.* The odds grow with ε and the width falls with it. If noise that is a little wider
    than `std` exceeds the odds, all narrower noise does.
    """
    change = unit.changes[0]
    length = change.watts * corner(change.full_values) * math.sqrt(change.places)
    shown = 2 * max_odds - 1
    if std < length * math.sqrt((1 - shown) / (4 * shown)):
        return True
    odds = find_kind(name).odds_at(length, std * (1 + MARGIN))
    if odds is not None:
        return std >= FEWEST_STEPS * float(best_grid(unit)) and odds > max_odds
    try:
        return _exceeds(name, unit, delta, max_odds, std)
    except InputError:  # The noise is too wide for any grid.
        return False


def _exceeds(name: str, unit: Unit, delta: float, max_odds: float, std: float) -> bool:
    """Return True if noise a little wider than `std` exceeds the odds.

    The width falls with a power of ε that is one for small ε; the last two trials tell it.
    """
    wanted = std * (1 + MARGIN)
    epsilon, power, last = 1.0, 1.0, None
    for _ in range(6):
        mechanism = calibrate_series(name, epsilon, unit, delta)
        if mechanism.std >= std and epsilon == MOST_EPSILON:
            return True
        if wanted <= mechanism.std <= wanted * (1 + MARGIN):
            break
        place = math.log(epsilon), math.log(mechanism.std)
        if last is not None and last[0] != place[0]:
            power = max(0.1, (last[1] - place[1]) / (place[0] - last[0]))
        last = place
        epsilon *= (mechanism.std / (wanted * (1 + MARGIN / 2))) ** (1 / power)
        epsilon = min(epsilon, MOST_EPSILON)
        if epsilon < LEAST_EPSILON:
            return False
    return mechanism.std >= wanted and best_odds(mechanism, unit) > max_odds
