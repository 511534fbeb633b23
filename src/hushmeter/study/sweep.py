"""Run a study: every attacker on every release.

The rows are computed in parallel. They do not depend on the number of workers, and a run that was
stopped can be continued.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import platform
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.checks import whole
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import frame_columns, write_table, write_text
from hushmeter.noise import find_kind
from hushmeter.noise.mechanism import exact
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.releases.purposes import DAYS_PER_MONTH, PRICE_PER_KWH
from hushmeter.scoring import count_blocks, score
from hushmeter.study.definition import Case, Contender, Study, read_study
from hushmeter.theory.performance import MOST_VALUES, exact_performance
from hushmeter.trace import SECONDS_PER_DAY, Trace, digest

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.noise.mechanism import Mechanism


@dataclass(frozen=True)
class Utility:
    """Measured errors of released readings: their cost to the recipient."""

    reading_error_w: float  # Mean absolute error of a reading [W]
    hourly_error_w: float  # Mean absolute error of the hourly means [W], see `Trace.hourly`
    peak_error_w: float  # Absolute error of the largest hourly mean [W]
    daily_error_kwh: float  # Absolute error of the energy [kWh], scaled to a day
    # Error of the bill of a month [money]: the price times the daily error times √30, because the
    # squares of independent errors add up
    monthly_bill_error: float


def measure_utility(
    trace: Trace, released: Trace, *, price_per_kwh: float = PRICE_PER_KWH
) -> Utility:
    """Compare a release with the true readings, reading by reading."""
    if len(trace) != len(released) or trace.interval_s != released.interval_s:
        raise InputError(
            "a release can only be compared with readings of the same interval and number."
        )
    error = released.readings - trace.readings
    true_hours, hours = trace.hourly().readings, released.hourly().readings
    duration = len(trace) * trace.interval_s
    energy = abs(released.energy_kwh - trace.energy_kwh)
    daily = energy * float(np.sqrt(SECONDS_PER_DAY / duration))
    return Utility(
        reading_error_w=float(np.abs(error).mean()),
        hourly_error_w=float(np.abs(hours - true_hours).mean()),
        peak_error_w=abs(float(hours.max() - true_hours.max())),
        daily_error_kwh=daily,
        monthly_bill_error=daily * float(np.sqrt(DAYS_PER_MONTH)) * price_per_kwh,
    )


TASKS_AT_A_TIME = 4
"""Number of tasks that a worker gets at a time: what they have in common is sent once."""

KEYS = ("home", "attacker", "mechanism", "epsilon", "seed")


@dataclass(frozen=True)
class Cell:
    """One release and one attacker, as positions in the lists of the study."""

    case: int
    contender: int
    mechanism: int
    epsilon: int
    seed: int

    def key(self, study: Study) -> tuple[str, str, str, float, int]:
        """The values of `KEYS` in the row of this cell."""
        return (
            study.cases[self.case].name,
            study.contenders[self.contender].label,
            study.mechanisms[self.mechanism],
            study.epsilons[self.epsilon],
            self.seed,
        )


def sweep(
    study: Study | str | Path,
    *,
    jobs: int = 1,
    done: dict[tuple[Any, ...], dict[str, Any]] | None = None,
    report: Callable[[dict[str, Any], int], None] | None = None,
    folder: Path | None = None,
    executor: Executor | None = None,
) -> pd.DataFrame:
    r"""Run a study and return one row for each home, attacker, mechanism, ε and seed.

    The noise of a release depends on the seed of the study and on the position of the release in
    the study, so all attackers get the same release. A cell that fails has its message in the
    column `error` and no scores.

    Parameters
    ----------
    study : Study or path
        The study, or the path of its TOML.
    jobs : int
        Number of worker processes.
    done : dict, optional
        Rows of an earlier run by their key; these cells are not computed again.
    report : callable, optional
        Function that is called with every new row and the number of rows still to come.
    folder : Path, optional
        Folder in which the modules of own attackers are searched; by default that of the TOML, or
        the current one.
    executor : concurrent.futures.Executor, optional
        Where the work is done instead, such as on a cluster (`Client.get_executor` of Dask).

    Returns
    -------
    DataFrame
        The rows, in the order of the study.

    Examples
    --------
    >>> case = '[[case]]\nhome = "similar8"\nreadings = 60\n[[attacker]]\nname = "hold"\n'
    >>> _ = Path("study.toml").write_text('name = "small"\nepsilon = [1]\nseeds = 2\n' + case)
    >>> len(hm.sweep("study.toml"))
    2
    """
    import pandas as pd

    plan = study if isinstance(study, Study) else read_study(study)
    if folder is None:
        folder = Path.cwd() if isinstance(study, Study) else Path(study).resolve().parent
    rows = dict(done or {})
    cells = [cell for cell in _cells(plan) if cell.key(plan) not in rows]
    classes = _resolve(plan, folder)
    pairs = sorted({(cell.case, cell.contender) for cell in cells})
    # The workers do not need the training data, which are large.
    lean = replace(plan, cases=tuple(replace(case, train=case.test) for case in plan.cases))
    # A module of the user is searched beside the study, by the workers too.
    own = str(folder) if any(":" in one.name for one in plan.contenders) else None
    with _workers(jobs, executor, own) as run:
        fitted = run(_fit, [(plan, case, one, classes[one]) for case, one in pairs])
        trained = dict(zip(pairs, fitted, strict=True))
        tasks = [(lean, cell, trained[cell.case, cell.contender]) for cell in cells]
        for left, row in zip(reversed(range(len(cells))), run(run_cell, tasks), strict=True):
            rows[tuple(row[key] for key in KEYS)] = row
            if report is not None:
                report(row, left)
    ordered = [rows[cell.key(plan)] for cell in _cells(plan)]
    return pd.DataFrame(ordered)


def run_study(
    path: Path, output: Path, *, jobs: int, resume: bool, report: Callable[..., None] | None = None
) -> pd.DataFrame:
    """Run the study of a file and write the results into a folder.

    Finished cells are appended to cells.jsonl, so that a stopped run can be continued;
    results.parquet is written at the end.

    Parameters
    ----------
    path : Path
        The TOML file of the study.
    output : Path
        Folder for the results.
    jobs : int
        Number of workers.
    resume : bool
        Use the cells that a stopped run of the same study has finished.
    report : callable, optional
        Function that is called with every new row and the number of rows still to come.

    Returns
    -------
    DataFrame
        The rows, in the order of the study.

    Raises
    ------
    DataError
        If the folder contains another sweep, or a stopped one without `resume`.
    """
    study = read_study(path)
    manifest = _manifest(study)
    log = output / "cells.jsonl"
    if (output / "results.parquet").exists():
        raise DataError(f"{output} contains a finished sweep; name another folder.")
    if log.exists() and not resume:
        raise DataError(f"{output} contains a stopped sweep; add --resume, or name another folder.")
    output.mkdir(parents=True, exist_ok=True)
    done = _finished(log, output / "manifest.json", manifest) if resume else {}
    write_text(output / "manifest.json", json.dumps(manifest, indent=2) + "\n", force=True)
    with log.open("a", encoding="utf-8") as file:

        def keep(row: dict[str, Any], left: int) -> None:
            if not row.get("error"):
                file.write(json.dumps(row) + "\n")
                file.flush()
            if report is not None:
                report(row, left)

        table = sweep(study, jobs=jobs, done=done, report=keep, folder=path.resolve().parent)
    write_table(output / "results.parquet", frame_columns(table))
    return table


def run_cell(study: Study, cell: Cell, attacker: Attacker | str) -> dict[str, Any]:
    """Release, attack and score one cell."""
    row: dict[str, Any] = dict(zip(KEYS, cell.key(study), strict=True))
    start = time.perf_counter()
    try:
        if isinstance(attacker, str):
            raise DataError(attacker)
        row |= _measure(study, cell, attacker)
    except Exception as error:  # One failed cell must not stop the others.
        row["error"] = _tell(error)
    row["seconds"] = time.perf_counter() - start
    return row


def _measure(study: Study, cell: Cell, attacker: Attacker) -> dict[str, Any]:
    """The scores and errors of one cell."""
    case, contender = study.cases[cell.case], study.contenders[cell.contender]
    mechanism = _mechanism(study, case, cell)
    place = (study.seed, cell.case, cell.mechanism, cell.epsilon, cell.seed)
    noise = np.random.default_rng(np.random.SeedSequence(place))
    whole_release = release_on_grid(case.test, mechanism, noise)
    test, released = contender.thin(case.test), contender.thin(whole_release)
    if contender.knows_noise is not False:
        attacker = attacker.knows(mechanism)
    rounding = np.random.default_rng(np.random.SeedSequence((*place, cell.contender)))
    first = test.truth()[0] if study.knows_first_state else None
    states = attacker.predict(released, initial_state=first, rng=rounding)
    if first is not None:
        # What the attacker was given is not scored.
        states, test, released = states[1:], test[1:], released[1:]
    found = score(states, test)
    row: dict[str, Any] = {
        field: getattr(found, field)
        for field in ("alpha", "alpha_floor", "hold_floor", "f1", "balanced_accuracy", "mcc")
    }
    held = None if first is None else float((test.truth() == first).mean())
    row["hold_floor"] = held
    row |= asdict(measure_utility(test, released))
    if study.theory and cell.seed == 0:
        row["expected"] = _expected(attacker, case.test, mechanism, contender)
    if study.block_s is not None:
        row["counts"] = count_blocks(states, test, study.block_s)
    for one in found.per_appliance:
        row |= {f"alpha {one.name}": one.alpha, f"visibility {one.name}": one.visibility}
    return row


def _mechanism(study: Study, case: Case, cell: Cell) -> Mechanism:
    """The mechanism of one cell."""
    unit = resolve_unit(
        study.protect, interval_s=case.test.interval_s, home=case.home, size=study.sensitivity
    )
    name, epsilon = study.mechanisms[cell.mechanism], study.epsilons[cell.epsilon]
    if study.paper_noise:
        return paper_mechanism(name, epsilon, unit, delta=study.delta)
    return calibrate(name, epsilon, unit, delta=study.delta)


FEW_VALUES = 20_000
"""Largest number of values that an attacker is asked for if it attacks few releases: it is slow."""


def _expected(
    attacker: Attacker, trace: Trace, mechanism: Mechanism, contender: Contender
) -> float:
    """Exact E[α] on all readings; NaN if there is no exact method or the attacker is too slow."""
    most = MOST_VALUES if contender.releases != 1 else FEW_VALUES
    try:
        found = exact_performance(attacker, trace, mechanism, trace.truth()[0], most)
    except InputError:
        return math.nan
    return math.nan if found is None else float(found.mean())


def release_on_grid(trace: Trace, mechanism: Mechanism, rng: int | np.random.Generator) -> Trace:
    """Round the readings to the grid, if the mechanism does not, and release them."""
    readings = trace.readings
    if mechanism.on_grid:
        readings = np.floor(readings / mechanism.grid + 0.5) * mechanism.grid
    return trace.replace_readings(mechanism.release(readings, rng=rng))


def paper_mechanism(name: str, epsilon: float, unit: Unit, *, delta: float = 1e-6) -> Mechanism:
    """The noise of the paper, whose Laplace scale is λ = Δf/ε, for readings on its grid.

    Δf is a whole number of grid steps. Two readings that differ by Δf therefore still differ by at
    most Δf when they are rounded to the grid, and no further step has to be protected. The grid is
    at most λ/20 and Δf/4.
    """
    width = exact("sensitivity", unit.l1)
    grid = width / max(4, math.ceil(20 * epsilon))
    kind = find_kind(name)
    return kind.calibrated(epsilon, unit, grid, delta=delta, on_grid=True, max_epsilon=epsilon)


def _resolve(study: Study, folder: Path) -> list[type[Attacker]]:
    """The class of every attacker of the study; a module:Class is searched in the folder too."""
    classes = [attackers.resolve(one.name, folder) for one in study.contenders]
    for one, cls in zip(study.contenders, classes, strict=True):
        if one.knows_noise and not cls.uses_noise:
            raise InputError(
                f"the attacker {one.name} cannot use the noise distribution: remove "
                f"knows_noise = true from {one.label}."
            )
    return classes


Run = Callable[[Callable[..., Any], list[tuple[Any, ...]]], Iterator[Any]]
"""Calls a function with the arguments of every task and yields the results in order."""


@contextmanager
def _workers(jobs: int, executor: Executor | None, folder: str | None) -> Iterator[Run]:
    """Where the work is done: in this process, in worker processes, or in a given executor."""
    if whole("jobs", jobs) == 1 and executor is None:
        yield lambda work, tasks: (work(*task) for task in tasks)
        return

    def run(work: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> Iterator[Any]:
        starts = range(0, len(tasks), TASKS_AT_A_TIME)
        parts = [_Sent((work, tasks[i : i + TASKS_AT_A_TIME]), folder) for i in starts]
        for done in pool.map(_work, parts):
            yield from done.value

    if executor is not None:
        pool = executor
        yield run
        return
    # A fork of this process would copy locks that its threads hold, so workers start afresh.
    pool = ProcessPoolExecutor(
        jobs, get_context("spawn"), initializer=_share_cores, initargs=(jobs,)
    )
    try:
        yield run
    except BrokenProcessPool:
        raise DataError(
            "a worker process ended early, perhaps for lack of memory: use fewer workers. A script "
            'that starts workers must do so below `if __name__ == "__main__":`.'
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _share_cores(jobs: int) -> None:
    """Give a worker its share of the cores for linear algebra and networks."""
    from threadpoolctl import threadpool_limits

    share = max(1, (os.cpu_count() or 1) // jobs)
    # The variable is for libraries that are loaded later.
    os.environ["OMP_NUM_THREADS"] = str(share)
    threadpool_limits(share)


@dataclass(frozen=True)
class _Sent:
    """Tasks for a worker or their results, and the folder of the user's own modules.

    A worker does not know the folder. It therefore gets the folder first, and unpickles the value
    only then. Classes of a notebook are sent by value.
    """

    value: Any
    folder: str | None

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        return _receive, (self.folder, cloudpickle.dumps(self.value))


def _receive(folder: str | None, pickled: bytes) -> _Sent:
    """The inverse of `_Sent.__reduce__`."""
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)
    return _Sent(pickle.loads(pickled), folder)


def _work(sent: _Sent) -> _Sent:
    """Do the tasks of a worker."""
    work, tasks = sent.value
    return _Sent([work(*task) for task in tasks], sent.folder)


def _fit(study: Study, case: int, contender: int, cls: type[Attacker]) -> Attacker | str:
    """A trained attacker, or the message of its failed training."""
    chosen, one = study.cases[case], study.contenders[contender]
    try:
        return cls(chosen.home, **one.parameters).fit(chosen.train)
    except Exception as error:  # Every cell of this attacker reports the message.
        return f"{one.label} cannot be trained: {_tell(error)}"


def _tell(error: Exception) -> str:
    """The sentence of an error of this project; the name of the error too for all others."""
    return str(error) if isinstance(error, HushmeterError) else f"{type(error).__name__}: {error}"


def _cells(study: Study) -> Iterator[Cell]:
    """All cells of a study, in order."""
    shape = (
        len(study.cases),
        len(study.contenders),
        len(study.mechanisms),
        len(study.epsilons),
        study.seeds,
    )
    for place in np.ndindex(shape):
        cell = Cell(*map(int, place))
        releases = study.contenders[cell.contender].releases
        if releases is None or cell.seed < releases:
            yield cell


def _manifest(study: Study) -> dict[str, Any]:
    """Everything that must be equal for two runs to give the same rows."""
    return {
        "study": study.name,
        "seed": study.seed,
        "seeds": study.seeds,
        "protect": study.protect,
        "sensitivity": study.sensitivity,
        "delta": study.delta,
        "knows_first_state": study.knows_first_state,
        "mechanisms": list(study.mechanisms),
        "epsilons": list(study.epsilons),
        "attackers": [asdict(one) for one in study.contenders],
        "cases": [
            {
                "name": c.name,
                "home": c.home.to_toml(),
                "train": digest(c.train),
                "test": digest(c.test),
            }
            for c in study.cases
        ],
        "versions": {
            "hushmeter": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _finished(
    log: Path, kept: Path, manifest: dict[str, Any]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a stopped run of the same study, without an incomplete last line."""
    if not log.exists():
        return {}
    written = json.loads(json.dumps(manifest))
    if not kept.exists() or json.loads(kept.read_text(encoding="utf-8")) != written:
        raise DataError(f"{log.parent} contains cells of another study; name another folder.")
    rows = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows[tuple(row[key] for key in KEYS)] = row
    return rows
