"""A study, read from TOML, and its run: every attacker on every release.

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
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__, synth
from hushmeter.apps.study.performance import MOST_VALUES, exact_performance
from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.checks import FloatArray, one_of, positive, refuse_unknown, seconds, whole
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import frame_columns, write_table, write_text
from hushmeter.home import Home, read_home
from hushmeter.noise import find_kind
from hushmeter.noise.mechanism import exact
from hushmeter.privacy.units import PROTECT, Unit, calibrate, resolve_unit
from hushmeter.processes import worker_pool
from hushmeter.read import read_home_recording
from hushmeter.releases.purposes import DAYS_PER_MONTH, PRICE_PER_KWH
from hushmeter.scoring import count_blocks, score
from hushmeter.trace import SECONDS_PER_DAY, Trace, digest

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.noise.mechanism import Mechanism


@dataclass(frozen=True)
class Case:
    """A home with readings to attack and other readings to learn from.

    Attributes
    ----------
    name : str
        Name of the case in the results.
    home : Home
        The home.
    train, test : Trace
        Readings from which attackers learn, and readings that are released and attacked.
    """

    name: str
    home: Home
    train: Trace
    test: Trace

    def unit(self, protect: str = "fluctuation", size: float | None = None) -> Unit:
        """Return what one ε protects in a reading; see `resolve_unit` for the parameters."""
        interval_s = self.test.interval_s
        return resolve_unit(protect, interval_s=interval_s, home=self.home, size=size)


@dataclass(frozen=True)
class Contender:
    """An attacker of the study.

    Attributes
    ----------
    label : str
        Name in the results.
    name : str
        Name of a registered attacker.
    parameters : dict
        Parameters of the attacker.
    knows_noise : bool, optional
        Whether the attacker knows the noise distribution of each release. If it is not given,
        every attacker that can use the distribution knows it (`Attacker.uses_noise`).
    thinned : (int, int)
        (p, q): of every q pieces of p readings only the first one is attacked, so that a slow
        attacker sees all days of a long series; (1, 1) for all readings.
    releases : int, optional
        Number of releases that it attacks, if fewer than the seeds of the study.
    """

    label: str
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    knows_noise: bool | None = None
    thinned: tuple[int, int] = (1, 1)
    releases: int | None = None

    def check(self, cls: type[Attacker]) -> type[Attacker]:
        """Return the class of the attacker; raise `InputError` if it cannot know the noise."""
        if self.knows_noise and not cls.uses_noise:
            raise InputError(
                f"the attacker {self.name} cannot use the noise distribution: remove "
                f"knows_noise = true from {self.label}."
            )
        return cls

    def thin(self, trace: Trace) -> Trace:
        """Return the readings that this attacker attacks; the others become gaps."""
        piece, every = self.thinned
        if every == 1:
            return trace
        return trace.select(np.flatnonzero(np.arange(len(trace)) // piece % every == 0))


@dataclass(frozen=True)
class Study:
    r"""Everything that determines the result of a sweep.

    Attributes
    ----------
    name : str
        Name of the study.
    cases : tuple of Case
        The homes and their readings.
    contenders : tuple of Contender
        The attackers.
    mechanisms : tuple of str
        Names of the mechanisms.
    epsilons : tuple of float
        Values of ε.
    seeds : int
        Number of releases of each kind.
    seed : int
        Seed of the whole study.
    protect : str
        What ε protects in one reading; see `resolve_unit`.
    sensitivity : float or None
        Protected change for `protect` = "change". [W]
    delta : float
        δ of the Gaussian mechanism.
    knows_first_state : bool
        Whether every attacker knows which appliances are on at the first reading, X_0 of the
        paper. Without it, the baseline that this state lasts has no score.
    paper_noise : bool
        Whether readings are released on a grid of which Δf is a multiple, fine against the noise,
        so that Laplace noise has the paper's scale λ = Δf/ε. A release on the usual grid of 1 W
        has up to one step more.
    block_s : float or None
        Length of the blocks [s] whose hits and errors are counted in the column `counts` of each
        row, for intervals over blocks; by default they are not counted.
    theory : bool
        Whether the rows of the first seed have the column `expected`: the exact E[α] on all
        readings, of the attackers for which it can be computed.

    Raises
    ------
    InputError
        If a part is missing, a name occurs twice, or a value is out of its range.

    Examples
    --------
    >>> case = '[[case]]\nhome = "similar8"\nreadings = 60\n[[attacker]]\nname = "hold"\n'
    >>> _ = Path("study.toml").write_text('name = "small"\n' + case)
    >>> hm.read_study("study.toml").mechanisms
    ('laplace',)
    """

    name: str
    cases: tuple[Case, ...]
    contenders: tuple[Contender, ...]
    mechanisms: tuple[str, ...] = ("laplace",)
    epsilons: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
    seeds: int = 5
    seed: int = 0
    protect: str = "fluctuation"
    sensitivity: float | None = None
    delta: float = 1e-6
    knows_first_state: bool = False
    paper_noise: bool = False
    block_s: float | None = None
    theory: bool = False

    def __post_init__(self) -> None:
        if not (self.cases and self.contenders and self.mechanisms and self.epsilons):
            raise InputError("a study needs a case, an attacker, a mechanism and an epsilon.")
        for kind, names in (
            ("case", [case.name for case in self.cases]),
            ("attacker", [one.label for one in self.contenders]),
        ):
            if len(set(names)) < len(names):
                raise InputError(f"two {kind}s of the study have the same name.")
        for mechanism in self.mechanisms:
            find_kind(mechanism)
        for epsilon in self.epsilons:
            positive("epsilon", epsilon)
        for one in self.contenders:
            # A module of the user is imported by the sweep, not by everyone who reads the study.
            if ":" not in one.name:
                one.check(attackers[one.name])
        whole("seeds", self.seeds)
        whole("seed", self.seed, least=0)
        one_of("protect", self.protect, PROTECT)
        if not isinstance(self.knows_first_state, bool):
            raise InputError(
                f"knows_first_state must be true or false, got {self.knows_first_state!r}."
            )

    def unit(self, case: Case) -> Unit:
        """Return what every ε of the study protects in a case."""
        return case.unit(self.protect, self.sensitivity)

    def noise(self, case: Case, mechanism: str, epsilon: float) -> Mechanism:
        """Return the noise of a mechanism at one epsilon, for the readings of a case."""
        make = paper_mechanism if self.paper_noise else calibrate
        return make(mechanism, epsilon, self.unit(case), delta=self.delta)


def read_study(path: str | Path) -> Study:
    r"""Read a study from TOML; the paths in it are relative to its folder.

    Parameters
    ----------
    path : str or Path
        The TOML file.

    Returns
    -------
    Study
        The study with its data.

    Raises
    ------
    DataError
        If the file or a file that it names cannot be read, or the study is not valid.

    Examples
    --------
    >>> case = '[[case]]\nhome = "similar8"\nreadings = 60\n[[attacker]]\nname = "hold"\n'
    >>> _ = Path("study.toml").write_text('name = "small"\n' + case)
    >>> hm.read_study("study.toml").seeds
    5
    """
    source = Path(path)
    try:
        table = tomllib.loads(source.read_text(encoding="utf-8"))
        return study_from(table, source.parent, source.stem)
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{source} is not a TOML file: {error}.") from None
    except InputError as error:
        raise DataError(f"{source} is not a valid study: {error}") from None


def move_study(source: Path, folder: Path) -> str:
    """Return the TOML of a study with its paths rewritten for another folder."""
    import tomli_w

    table = tomllib.loads(source.read_text(encoding="utf-8"))
    table.setdefault("name", source.stem)
    for entry in _tables(table, "case"):
        for key in ("home", "data"):
            if key in entry and entry[key] not in synth.READY_HOMES:
                named = (source.parent / str(entry[key])).resolve()
                entry[key] = Path(os.path.relpath(named, folder.resolve())).as_posix()
    return tomli_w.dumps(table)


def study_from(table: dict[str, Any], folder: Path, name: str = "study") -> Study:
    """Return the study of parsed TOML tables; paths are relative to `folder`."""
    simple = ("seeds", "protect", "sensitivity", "delta", "knows_first_state")
    known = ("name", "case", "attacker", "mechanism", "epsilon", "seed", *simple)
    refuse_unknown("study entry", table, known)
    seed = whole("seed", table.get("seed", 0), least=0)
    cases = [_case(entry, folder, seed + i) for i, entry in enumerate(_tables(table, "case"))]
    options: dict[str, Any] = {key: table[key] for key in simple if key in table}
    if "mechanism" in table:
        options["mechanisms"] = tuple(np.atleast_1d(table["mechanism"]).tolist())
    if "epsilon" in table:
        options["epsilons"] = tuple(parse_epsilons(table["epsilon"]))
    contenders = [_contender(entry) for entry in _tables(table, "attacker")]
    return Study(
        str(table.get("name", name)), tuple(cases), tuple(contenders), seed=seed, **options
    )


def parse_epsilons(value: Any) -> list[float]:
    """Return ε from a number, a list, or text LO:HI:COUNT, evenly spaced in ln ε."""
    if isinstance(value, str):
        parts = value.split(":")
        try:
            low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
            values: FloatArray = np.geomspace(low, high, count)
        except (ValueError, IndexError):
            raise InputError(f"epsilon must be LO:HI:COUNT or a list, got {value!r}.") from None
        return [float(f"{epsilon:.6g}") for epsilon in values]
    return [positive("epsilon", epsilon) for epsilon in np.atleast_1d(value)]


def split_trace(trace: Trace, share: float) -> tuple[Trace, Trace]:
    """Split a trace into its first `share`, to learn from, and the rest, to attack."""
    if not 0 < positive("train", share) < 1:
        raise InputError(f"train must be a share between 0 and 1, got {share}.")
    cut = round(share * len(trace))
    return trace[:cut], trace[cut:]


def _case(entry: dict[str, Any], folder: Path, seed: int) -> Case:
    """The case of one [[case]] table, with readings from a file or synthetic ones."""
    known = ("name", "home", "data", "readings", "sparsity", "interval", "train")
    refuse_unknown("case entry", entry, known)
    if "home" not in entry:
        raise InputError("a case has no home; add home = NAME or a path of a home.toml.")
    home = _home(str(entry["home"]), folder)
    if "data" in entry:
        trace = _read_case(entry, home, folder)
    else:
        trace = synth.trace(
            home,
            2 * whole("readings", entry.get("readings", 2400)),
            entry.get("sparsity"),
            interval_s=seconds("interval", entry.get("interval", 6.0)),
            seed=seed,
        )
    train, test = split_trace(trace, entry.get("train", 0.5))
    return Case(str(entry.get("name", home.name)), home, train, test)


def _read_case(entry: dict[str, Any], home: Home, folder: Path) -> Trace:
    """The readings of a file: means over `interval`, and the first 2 · `readings` of them."""
    if "sparsity" in entry:
        raise InputError("sparsity is for synthetic readings; remove it, or remove data.")
    trace = home.label(read_home_recording(folder / str(entry["data"])).trace)
    if "interval" in entry:
        length = seconds("interval", entry["interval"])
        trace = trace if length == trace.interval_s else trace.coarsen(length)
    if "readings" in entry:
        wanted = 2 * whole("readings", entry["readings"])
        if wanted > len(trace):
            raise InputError(
                f"{entry['data']} has {len(trace)} readings of {trace.interval_s:g} s, but "
                f"readings = {entry['readings']} needs {wanted}, half of them to learn from."
            )
        trace = trace[:wanted]
    return trace


def _home(text: str, folder: Path) -> Home:
    """A ready home by its name, or the home of a file."""
    return synth.ready_home(text) if text in synth.READY_HOMES else read_home(folder / text)


def _contender(entry: dict[str, Any]) -> Contender:
    refuse_unknown("attacker entry", entry, ("name", "label", "parameters", "knows_noise"))
    name = str(entry.get("name", ""))
    parameters = dict(entry.get("parameters", {}))
    knows = entry.get("knows_noise")
    if not (knows is None or isinstance(knows, bool)):
        raise InputError(
            f"knows_noise of the attacker {name} must be true or false, got {knows!r}."
        )
    return Contender(str(entry.get("label", name)), name, parameters, knows)


def _tables(table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = table.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{key} must be written as [[{key}]].")
    return entries


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


def measure_utility(trace: Trace, released: Trace) -> Utility:
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
        monthly_bill_error=daily * float(np.sqrt(DAYS_PER_MONTH)) * PRICE_PER_KWH,
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
    # A class that is named module:Class is searched in the folder too.
    classes = [one.check(attackers.resolve(one.name, folder)) for one in plan.contenders]
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
    case, contender = study.cases[cell.case], study.contenders[cell.contender]
    mechanism = study.noise(case, study.mechanisms[cell.mechanism], study.epsilons[cell.epsilon])
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
    try:
        with worker_pool(jobs, (), _share_cores, jobs) as pool:
            yield run
    except BrokenProcessPool:
        raise DataError(
            "a worker process ended early, perhaps for lack of memory: use fewer workers. A script "
            'that starts workers must do so below `if __name__ == "__main__":`.'
        ) from None


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
