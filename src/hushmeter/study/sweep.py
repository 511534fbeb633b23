"""Run a study: every attacker on every release.

The rows are computed in parallel. They do not depend on the number of workers, and a run that was
stopped can be continued.
"""

from __future__ import annotations

import json
import pickle
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import frame_columns, write_table, write_text
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.releases.purposes import DAYS_PER_MONTH, PRICE_PER_KWH
from hushmeter.scoring import score
from hushmeter.study.definition import Case, Study, read_study
from hushmeter.trace import SECONDS_PER_DAY, Trace, digest

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.noise.mechanism import Mechanism


@dataclass(frozen=True)
class Utility:
    """Measured errors of released readings: their cost to the recipient."""

    reading_error_w: float  # Mean absolute error of a reading. [W]
    hourly_error_w: float  # Mean absolute error of the hourly means, see `Trace.hourly`. [W]
    peak_error_w: float  # Absolute error of the largest hourly mean. [W]
    daily_error_kwh: float  # Absolute error of the energy, scaled to a day. [kWh]
    # The daily error times √30, because independent errors add up by their squares, times the
    # price. [money].
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


CELLS_PER_WORKER = 16
"""Number of cells that each worker gets at a time."""

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
) -> pd.DataFrame:
    """Run a study and return one row for each home, attacker, mechanism, ε and seed.

    The noise of a release depends on the seed of the study and on the position of the release in
    the study, so all attackers get the same release. A cell that fails has its message in the
    column `error` and no scores.

    Parameters
    ----------
    study : Study or path
        The study, or the path of its TOML.
    jobs : int
        Number of workers of the active joblib backend.
    done : dict, optional
        Rows of an earlier run by their key; these cells are not computed again.
    report : callable, optional
        Function that is called with every new row and the number of rows still to come.
    folder : Path, optional
        Folder in which the modules of own attackers are searched; by default that of the TOML, or
        the current one.

    Returns
    -------
    DataFrame
        The rows, in the order of the study.
    """
    import joblib
    import pandas as pd

    plan = study if isinstance(study, Study) else read_study(study)
    if folder is None:
        folder = Path.cwd() if isinstance(study, Study) else Path(study).resolve().parent
    rows = dict(done or {})
    cells = [cell for cell in _cells(plan) if cell.key(plan) not in rows]
    classes = _resolve(plan, folder)
    trained = _train(plan, classes, {(c.case, c.contender) for c in cells}, jobs, folder)
    # The workers do not need the training data, which are large.
    lean = replace(plan, cases=tuple(replace(case, train=case.test) for case in plan.cases))
    # Batches show progress with every joblib backend; not all return results one by one.
    size = CELLS_PER_WORKER * joblib.effective_n_jobs(jobs)
    left = len(cells)
    for start in range(0, len(cells), size):
        with _quiet_workers():
            batch = joblib.Parallel(n_jobs=jobs)(
                joblib.delayed(_run_sent)(lean, cell, trained[cell.case, cell.contender])
                for cell in cells[start : start + size]
            )
        for row in batch:
            left -= 1
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
    case = study.cases[cell.case]
    mechanism = _mechanism(study, case, cell)
    place = (study.seed, cell.case, cell.mechanism, cell.epsilon, cell.seed)
    noise = np.random.default_rng(np.random.SeedSequence(place))
    released = case.test.replace_readings(mechanism.release(case.test.readings, rng=noise))
    if study.contenders[cell.contender].knows_noise is not False:
        attacker = attacker.knows(mechanism)
    rounding = np.random.default_rng(np.random.SeedSequence((*place, cell.contender)))
    truth = case.test.truth()
    first = truth[0] if study.knows_first_state else None
    states = attacker.predict(released, initial_state=first, rng=rounding)
    found = score(states, case.test)
    row: dict[str, Any] = {
        field: getattr(found, field)
        for field in ("alpha", "alpha_floor", "hold_floor", "f1", "balanced_accuracy", "mcc")
    }
    if first is None:
        row["hold_floor"] = None
    row |= asdict(measure_utility(case.test, released))
    for one in found.per_appliance:
        row |= {f"alpha {one.name}": one.alpha, f"visibility {one.name}": one.visibility}
    return row


def _mechanism(study: Study, case: Case, cell: Cell) -> Mechanism:
    """The mechanism of one cell."""
    unit = resolve_unit(
        study.protect, interval_s=case.test.interval_s, home=case.home, size=study.sensitivity
    )
    return calibrate(
        study.mechanisms[cell.mechanism], study.epsilons[cell.epsilon], unit, delta=study.delta
    )


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


@dataclass(frozen=True)
class _Sent:
    """A class or an attacker for a worker, and the folder of its module if it is the user's own.

    A worker that was started for an earlier sweep does not know the folder. It therefore gets the
    folder first, and unpickles the value only then.
    """

    value: Any
    folder: str | None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.folder is None:
            return _Sent, (self.value, None)
        return _receive, (self.folder, pickle.dumps(self.value))


def _receive(folder: str, pickled: bytes) -> _Sent:
    """The inverse of `_Sent.__reduce__` for modules of the user."""
    if folder not in sys.path:
        sys.path.append(folder)
    return _Sent(pickle.loads(pickled), folder)


def _train(
    study: Study,
    classes: list[type[Attacker]],
    pairs: set[tuple[int, int]],
    jobs: int,
    folder: Path,
) -> dict[tuple[int, int], _Sent]:
    """Every attacker trained once for each case, on readings without noise."""
    import joblib

    order = sorted(pairs)
    folders = [str(folder) if ":" in one.name else None for one in study.contenders]
    with _quiet_workers():
        fitted = joblib.Parallel(n_jobs=jobs)(
            joblib.delayed(_fit)(study, case, one, _Sent(classes[one], folders[one]))
            for case, one in order
        )
    return {
        (case, one): _Sent(attacker, folders[one])
        for (case, one), attacker in zip(order, fitted, strict=True)
    }


def _run_sent(study: Study, cell: Cell, attacker: _Sent) -> dict[str, Any]:
    """`run_cell` in a worker."""
    return run_cell(study, cell, attacker.value)


@contextmanager
def _quiet_workers() -> Iterator[None]:
    """Hide joblib's warning about a replaced worker, which does not concern a user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        yield


def _fit(study: Study, case: int, contender: int, cls: _Sent) -> Attacker | str:
    """A trained attacker, or the message of its failed training."""
    chosen, one = study.cases[case], study.contenders[contender]
    try:
        attacker: Attacker = cls.value(chosen.home, **one.parameters)
        return attacker.fit(chosen.train)
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
    return (Cell(*map(int, place)) for place in np.ndindex(shape))


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
    if not kept.exists() or json.loads(kept.read_text(encoding="utf-8")) != manifest:
        raise DataError(f"{log.parent} contains cells of another study; name another folder.")
    rows = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows[tuple(row[key] for key in KEYS)] = row
    return rows
