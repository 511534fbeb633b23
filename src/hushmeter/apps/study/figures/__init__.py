"""The figures and tables of Section V and of the appendices, by their numbers.

The item "appliances" is not in the paper: it is the analysis of each appliance that the paper names
as future work. A figure uses the paper's own data segment if the folder of real data has it, else
another data set of the same kind, else a synthetic stand-in; its caption says which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.apps.plot import save_figure
from hushmeter.apps.study.comparison import Comparison, Details
from hushmeter.apps.study.sweep import Case, Contender, Study, paper_mechanism, split_trace, sweep
from hushmeter.assumptions import estimate_tolerance
from hushmeter.checks import one_of, whole
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.files import frame_columns, write_table, write_text
from hushmeter.formatting import duration_in_words, odds_out_of_100, short_duration
from hushmeter.home import Home
from hushmeter.learn.homes import (
    LearntHome,
    learn_home,
    on_states,
    readings_at_least,
    select_period,
)
from hushmeter.learn.segments import SEGMENTS, cut_segment
from hushmeter.read import ReadOptions, read_home_recording
from hushmeter.theory.universal import universal_limit
from hushmeter.trace import SECONDS_PER_DAY, Runs, Trace, iso

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["EPSILONS", "ITEMS", "Setting", "reproduce"]

EPSILONS = tuple(float(f"{e:.4g}") for e in np.geomspace(10, 0.003, 10))
CALM = max(EPSILONS)
STAND_IN_READINGS = 3000


@dataclass(frozen=True)
class Setting:
    """Settings of a reproduction.

    Attributes
    ----------
    seed : int
        Seed of the stand-ins and of the noise.
    seeds : int
        Number of releases of each kind, at least two; bands are drawn from three.
    readings : int or None
        Number of attacked readings; by default 3000 of a stand-in and all of a real set.
    jobs : int
        Number of workers.
    data : Path or None
        Folder of the real data sets; without it every item uses its stand-in.
    report : callable, optional
        Function that is called with every cell of a sweep and the number of cells still to come.

    Raises
    ------
    InputError
        If a number is too small or the data folder does not exist.
    """

    seed: int = 0
    seeds: int = 5
    readings: int | None = None
    jobs: int = 1
    data: Path | None = None
    report: Callable[[dict[str, Any], int], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole("seeds", self.seeds, least=2)
        if self.readings is not None:
            whole("readings", self.readings, least=100)
        if self.data is not None and not self.data.is_dir():
            raise InputError(f"{self.data} is not a folder; name the folder of the data sets.")

    @property
    def stand_in_readings(self) -> int:
        """Number of attacked readings of a stand-in."""
        return STAND_IN_READINGS if self.readings is None else self.readings


VERDICTS = ("agrees", "in part", "differs", "undecided")
CAPTION = re.compile(
    r"(?P<item>\w+) on (?P<source>.+)\.\nThe paper: (?P<claim>.+)\nHere: (?P<finding>.+)\n"
    rf"Verdict: (?P<verdict>{'|'.join(VERDICTS)}): (?P<reason>.+)\n"
    r"(?P<details>(?:\w.*\n)*)"
)
MOST_WORDS = 120
"""Largest number of words of a caption; everything else is a detail."""


@dataclass(frozen=True)
class Caption:
    """The caption of a reproduced item."""

    item: str  # "fig2", …, "table1"
    source: str  # The data: a data set, or a synthetic stand-in
    claim: str  # What the paper states
    finding: str  # What was found here
    verdict: str  # Whether the finding agrees with the claim
    reason: str  # The reason for the verdict
    details: Details = ()  # Settings and further results, as the rows of a table

    def __post_init__(self) -> None:
        one_of("verdict", self.verdict, VERDICTS)

    @property
    def text(self) -> str:
        """The caption without its details."""
        return (
            f"{self.item} on {self.source}.\nThe paper: {self.claim}\nHere: {self.finding}\n"
            f"Verdict: {self.verdict}: {self.reason}\n"
        )

    def __str__(self) -> str:
        return self.text + "".join(f"{name}: {value}\n" for name, value in self.details)


@dataclass(frozen=True)
class ReproducedItem:
    """One reproduced figure or table."""

    words: Caption  # Its caption
    table: pd.DataFrame  # The data behind the picture
    figure: Figure | None = None  # The picture; a table has none
    # Slopes and break points of its attackers, one row for each attacker and measure
    robustness: pd.DataFrame | None = None

    @property
    def item(self) -> str:
        """Name of the item: "fig2", …, "table1"."""
        return self.words.item

    @property
    def caption(self) -> str:
        """The caption as one text."""
        return str(self.words)

    def save(self, folder: Path, *, force: bool = False) -> list[Path]:
        """Write the picture, the data and the caption into a folder; return their paths.

        The files are item.png, item.svg, item.csv and item.txt, and item-robustness.csv if the item
        has slopes.
        """
        columns = frame_columns(self.table)
        if self.figure is None:
            write_table(folder / f"{self.item}.csv", columns, force=force)
            paths = [folder / f"{self.item}.csv"]
        else:
            saved = save_figure(self.figure, folder, self.item, columns, force=force)
            paths = list(saved.values())
        if self.robustness is not None:
            paths.append(folder / f"{self.item}-robustness.csv")
            write_table(paths[-1], frame_columns(self.robustness), force=force)
        write_text(folder / f"{self.item}.txt", self.caption, force=force)
        return [*paths, folder / f"{self.item}.txt"]


def item_title(item: str) -> str:
    """Return the name of an item in the paper: "fig2" is Fig. 2, "table1" is Table I."""
    others = {"table1": "Table I", "appliances": "Each appliance"}
    return others.get(item) or f"Fig. {item.removeprefix('fig')}"


def sentence(words: str) -> str:
    """Return the words with a capital first letter."""
    return words[:1].upper() + words[1:]


def read_caption(path: Path) -> Caption:
    """Read a caption that `ReproducedItem.save` wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        text = ""
    match = CAPTION.fullmatch(text)
    if match is None:
        raise DataError(f"{path} is not a caption of `hushmeter reproduce`; run the command again.")
    found: dict[str, Any] = match.groupdict()
    rows = (line.split(": ", 1) for line in found.pop("details").splitlines())
    return Caption(**found, details=tuple((name, value) for name, value in rows))


def compare(
    case: Case,
    setting: Setting,
    contenders: tuple[Contender, ...],
    *,
    mechanisms: tuple[str, ...] = ("laplace",),
    epsilons: tuple[float, ...] = EPSILONS,
    seeds: int | None = None,
    theory: bool = False,
) -> Comparison:
    """Sweep one case with the paper's noise; attackers that fail are left out and named."""
    block_s, words = choose_blocks(case.test)
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
        paper_noise=True,
        block_s=block_s,
        theory=theory,
    )
    table = sweep(study, jobs=setting.jobs, report=setting.report).drop(columns="seconds")
    if "error" not in table:
        return _with_counts(table, (), words)
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
    return _with_counts(kept.reset_index(drop=True), reasons, words)


def _with_counts(table: pd.DataFrame, failed: tuple[str, ...], words: str) -> Comparison:
    counts = list(table["counts"])
    return Comparison(table.drop(columns="counts"), failed=failed, counts=counts, blocks=words)


def choose_blocks(trace: Trace) -> tuple[float, str]:
    """Return the length of the blocks [s] that are resampled, and what they are, in words.

    They are days if there are at least `FEWEST_DAYS`. A shorter trace is cut into `PARTS`; its
    intervals are about other parts of the same day, not about other days.
    """
    days = np.unique(trace.times.astype("datetime64[D]")).size
    if days >= FEWEST_DAYS:
        return SECONDS_PER_DAY, f"{days} days"
    span = float((trace.times[-1] - trace.times[0]) / np.timedelta64(1, "s")) + trace.interval_s
    part = float(np.ceil(span / PARTS / trace.interval_s) * trace.interval_s)
    return part, f"parts of {duration_in_words(part)} of one recording"


FEWEST_DAYS, PARTS = 5, 12
"""Smallest number of days that are resampled, and the number of parts of a shorter trace."""


ITEMS = {
    "fig2": "compressive:one_shot_figure",
    "fig3": "compressive:multi_shot_figure",
    "fig4": "compressive:hierarchical_figure",
    "fig5": "compressive:noise_figure",
    "fig6": "attackers:attackers_figure",
    "fig7": "appendices:centres_figure",
    "fig8": "appendices:interchanges_figure",
    "fig9": "appendices:sparsity_figure",
    "table1": "appendices:sparsity_table",
    "appliances": "attackers:appliances_figure",
}


def reproduce(item: str, setting: Setting | None = None) -> ReproducedItem:
    """Reproduce one figure or table of the paper.

    Parameters
    ----------
    item : str
        "fig2", "fig3", …, "fig9", "table1" or "appliances".
    setting : Setting, optional
        Seeds, sizes and the folder of real data.

    Returns
    -------
    ReproducedItem
        The picture, its data and its caption.

    Raises
    ------
    UnknownNameError
        If there is no such item.
    """
    if item not in ITEMS:
        raise UnknownNameError("figure or table", item, ITEMS)
    module, name = ITEMS[item].split(":")
    make: Callable[[Setting], ReproducedItem] = getattr(import_module(f"{__name__}.{module}"), name)
    return make(setting or Setting())


STAND_IN = "the synthetic stand-in"


@dataclass(frozen=True)
class RealSet:
    """A data set, or one home of it, in a folder of real data."""

    name: str  # Name for captions
    patterns: tuple[str, ...]  # Patterns of its file; the first match is used
    building: int | None = None  # Number of the building
    tz: str | None = None  # Zone of times without a zone
    window: tuple[str, str] | None = None  # First time, and the end of the period

    def find(self, folder: Path) -> Path | None:
        """Return its file in the folder, or None."""
        return next((f for p in self.patterns for f in sorted(folder.glob(p))), None)

    def read(self, folder: Path) -> Trace | None:
        """Return its readings with the power of every circuit, or None if it is not there."""
        file = self.find(folder)
        if file is None:
            return None
        options = ReadOptions(tz=self.tz, building=self.building)
        trace = read_home_recording(file, options).trace
        return trace if self.window is None else select_period(trace, *self.window)


REFIT_DAY = ("2015-01-08", "2015-01-09")
REFIT = tuple(
    RealSet(
        f"REFIT house {n}",
        (f"refit/refit*_{n}_*.parquet", f"refit/*House{n}.csv", f"refit/*House_{n}.csv"),
        n,
        window=REFIT_DAY,
    )
    for n in (2, 4, 7, 19)
)
UKDALE = (
    RealSet("UK-DALE house 1", ("ukdale/ukdale_house1*.parquet",)),
    RealSet("UK-DALE house 2", ("ukdale/ukdale_house2*.parquet",)),
)
TRACEBASE = RealSet("Tracebase, 13 devices", ("tracebase/tracebase*.parquet",), tz="UTC")


@dataclass(frozen=True)
class Source:
    """A home whose readings are attacked, and its origin."""

    case: Case  # The home and its readings
    name: str  # Name for titles
    words: str  # Description for captions
    real: bool  # False for a synthetic stand-in
    details: Details = ()  # Readings, appliances and tolerance, and the verdict on Assumptions 1–3

    @property
    def failing(self) -> str:
        """The assumptions of the paper that fail here, as words; empty if all hold."""
        return self.case.home.check(self.case.test).failing


MEANT = (1.0, 0.1, 0.01, 0.003)
"""Values of ε whose meaning is written under a figure."""


def tell_meaning(source: Source) -> str:
    """Say what values of ε mean for one run of the appliance of middle power."""
    home, test = source.case.home, source.case.test
    ran = np.flatnonzero(test.truth().any(axis=0))
    column = int(ran[np.argsort(home.powers[ran])[ran.size // 2]])
    one = home.appliances[column]
    lengths = Runs.of_true(test.truth()[:, column], test.run_starts).length
    usual = max(1, int(np.median(lengths)))
    unit = source.case.unit()
    alone = Home([Appliance(one.name, one.power)], home.tolerance)
    odds = (
        universal_limit(alone, paper_mechanism("laplace", epsilon, unit), readings=usual)[0]
        for epsilon in MEANT
    )
    listed = " / ".join(odds_out_of_100(float(value)) for value in odds)
    return (
        f"{source.name}: at ε = {' / '.join(f'{e:g}' for e in MEANT)} a reading, the best "
        f"possible attacker is right about one run of {one.name} ({one.power:.0f} W, "
        f"{short_duration(usual * test.interval_s)}) {listed} times out of 100"
    )


def find_eight(setting: Setting) -> Source:
    """Return the source of Figures 2, 3, 5 and 9, with eight appliances.

    It is building 4 of UK-DALE, else a home of REFIT or UK-DALE, else the stand-in similar8.
    """
    sets = (REFIT[0], UKDALE[0])
    return _real_home(setting, "ukdale4", sets) or _stand_in(setting, "similar8", 0.99)


HEATERS = ("microwave", "bathroom_gfi", "kitchen_outlets_3", "kitchen_outlets_4")
HEATERS_DAY = ("2011-04-18T18:00Z", "2011-04-19T18:00Z")
HEATERS_ON_W = 700.0


def find_concentrated(setting: Setting) -> Source | None:
    """Return part of a real home in which Assumptions 1–3 hold, or None without the data.

    It is 24 hours of four circuits of REDD building 1 that heat: they are on above 700 W, their
    powers are the means of these hours, and the tolerance is the largest jump without a switch, as
    the paper defines it. A stand-in needs no such part, because the assumptions hold for it.
    """
    trace = read_segment("redd1", setting.data)
    if trace is None or not set(HEATERS) <= set(trace.names or ()):
        return None
    assert trace.power is not None
    assert trace.names is not None
    day = select_period(trace, *HEATERS_DAY)
    day = day if setting.readings is None else day[: setting.readings]
    assert day.power is not None
    power = day.power[:, [trace.names.index(name) for name in HEATERS]]
    on = power > HEATERS_ON_W
    test = day.derive(readings=power.sum(axis=1), power=power, states=on, names=list(HEATERS))
    appliances = [
        Appliance(name, float(watts[runs].mean()) if runs.any() else HEATERS_ON_W)
        for name, watts, runs in zip(HEATERS, power.T, on.T, strict=True)
    ]
    name = "REDD building 1, 4 heaters"
    home = Home(appliances, estimate_tolerance(test, 1.0), name=name)
    return Source(
        Case(name, home, test, test), name, name, True, _describe(home, test, prefix="part")
    )


def other_homes(setting: Setting) -> list[Source]:
    """Return the further homes of the data set of `find_eight`, of the same day."""
    if setting.data is None or find_eight(setting).name != REFIT[0].name:
        return []
    read = ((one, one.read(setting.data)) for one in REFIT[1:])
    return [_learnt(setting, one.name, trace, "") for one, trace in read if trace is not None]


def find_thirteen(setting: Setting) -> Source:
    """Return the source of Figure 4, with thirteen appliances at 1 Hz.

    It is the day of RAE (TEALD), else a day of Tracebase, else the stand-in rae13.
    """
    return _real_home(setting, "teald", (TRACEBASE,)) or _stand_in(setting, "rae13", 0.995)


def read_segment(name: str, data: Path | None) -> Trace | None:
    """Return the readings of the paper's own segment, or None if the folder does not have it."""
    if data is None:
        return None
    try:
        return cut_segment(name, data).trace
    except DataError as error:
        if str(error).startswith(f"{data} holds no "):
            return None
        raise


def all_sets(data: Path) -> Iterator[tuple[str, Trace]]:
    """Yield the name and the readings, with all circuits, of every data set in the folder."""
    for name, segment in SEGMENTS.items():
        trace = read_segment(name, data)
        if trace is not None:
            yield f"{segment.dataset} building {segment.building}", trace
    for one in (*UKDALE, *REFIT, TRACEBASE):
        trace = one.read(data)
        if trace is not None:
            yield one.name, trace


def _real_home(setting: Setting, segment: str, sets: tuple[RealSet, ...]) -> Source | None:
    """The source of the paper's segment, else of the first data set in the folder, else None."""
    if setting.data is None:
        return None
    about = SEGMENTS[segment]
    wanted = f"{about.dataset} building {about.building}"
    trace = read_segment(segment, setting.data)
    if trace is not None:
        return _learnt(setting, wanted, trace, "")
    for one in sets:
        trace = one.read(setting.data)
        if trace is not None:
            return _learnt(setting, one.name, trace, f", in place of {wanted}")
    return None


def _learnt(setting: Setting, name: str, trace: Trace, note: str) -> Source:
    """A source whose powers and tolerance are learnt from the sub-meters of the same trace."""
    learnt: LearntHome = learn_home(trace, denoised=True, name=name)
    home = learnt.home.one_power_each()
    part = learnt.trace if setting.readings is None else learnt.trace[: setting.readings]
    case = Case(name, home, learnt.trace, part)
    return Source(case, name, name + note, True, _describe(home, part))


def _describe(home: Home, trace: Trace, prefix: str = "") -> Details:
    """Details of a home and its readings, for the table below a caption."""
    rows = (
        ("readings", span_words(trace)),
        ("appliances", ", ".join(f"{a.name} {a.power:.0f} W" for a in home.appliances)),
        ("meter", f"sum of the sub-meters; tolerance δ = {home.tolerance:g} W"),
        ("assumptions", " ".join(home.check(trace).sentences)),
    )
    return tuple((f"{prefix} {name}".strip(), value) for name, value in rows)


def _stand_in(setting: Setting, name: str, sparsity: float | None) -> Source:
    home = synth.ready_home(name)
    trace = synth.trace(home, 2 * setting.stand_in_readings, sparsity, seed=setting.seed)
    train, test = split_trace(trace, 0.5)
    words = f"{STAND_IN} “{name}”" + missing(setting)
    return Source(Case(name, home, train, test), name, words, False, _describe(home, test))


def missing(setting: Setting) -> str:
    """Return the note of a stand-in's caption if real data were requested."""
    return "" if setting.data is None else ": no real set of this kind is in the data folder"


def span_words(trace: Trace) -> str:
    """Return number, interval and period of the readings of a trace, in words."""
    first, last = (iso(trace.times[i].astype("datetime64[s]")) for i in (0, -1))
    gaps = len(trace.runs) - 1
    broken = f" with {gaps} gap{'s' if gaps > 1 else ''}" if gaps else ""
    return f"{len(trace)} readings of {trace.interval_s:g} s, {first} to {last}{broken}"


MINUTE_S, PAPER_S = 60.0, 3.0
CUT = "2011-04-30"
LOADS = 7
PAPER_TOLERANCE_W = 20.0
TRAIN_DAYS = 7
STAND_IN_DAYS = {60.0: 7, 3.0: 2}


def find_building(setting: Setting, every_s: float = MINUTE_S) -> Source:
    """Return the source of Figure 6: building 1 of REDD, or the stand-in “redd-like”.

    The readings are means over 1 min, or the readings of 3 s as in the paper, of the seven
    circuits that use most energy. Attackers learn from the days before 2011-04-30, and the days
    after are attacked.
    """
    trace = read_segment("redd1", setting.data)
    if trace is None:
        return _short_stand_in(setting, every_s)
    return _real(setting, trace, every_s)


def with_real_mains(source: Source, setting: Setting) -> Case:
    """Return the same minutes and appliances with the real mains as the meter."""
    trace = read_segment("redd1", setting.data)
    assert trace is not None
    before, after = _halves(trace, setting, source.case.test.interval_s)
    learnt = learn_home(before, appliances=source.case.home.names, name=source.case.home.name)
    test = label_circuits(after, learnt)
    home = _as_in_the_paper(learnt.home)
    return Case(f"{source.name}, real mains", home, learnt.trace, test)


def _real(setting: Setting, trace: Trace, every_s: float) -> Source:
    before, after = _halves(trace, setting, every_s)
    # The loads are chosen by their energy over minutes, so that both intervals have the same ones.
    minutes = before.coarsen(MINUTE_S)
    loads = busiest_circuits(minutes, learn_home(minutes, denoised=True), LOADS)
    learnt = learn_home(before, denoised=True, appliances=loads, name="REDD building 1")
    labelled = label_circuits(after, learnt)
    assert labelled.power is not None
    test = labelled.replace_readings(labelled.power.sum(axis=1))
    home = _as_in_the_paper(learnt.home)
    details = (
        ("trained on", f"{span_words(learnt.trace)}; powers, levels and thresholds from this part"),
        ("attacked", span_words(test)),
        ("loads", f"the {LOADS} that used most energy before {CUT}: {', '.join(home.names)}"),
        ("meter", "the sum of these loads"),
    )
    return Source(Case(home.name, home, learnt.trace, test), home.name, home.name, True, details)


def _halves(trace: Trace, setting: Setting, every_s: float) -> tuple[Trace, Trace]:
    """The readings before and after the cut, at the interval of the figure."""
    means = trace if every_s == trace.interval_s else trace.coarsen(every_s)
    before, after = select_period(means, None, CUT), select_period(means, CUT, None)
    return before, after if setting.readings is None else after[: setting.readings]


def _as_in_the_paper(home: Home) -> Home:
    """The home with the paper's tolerance δ = 20 W, which gives noise of scale 10/ε W."""
    return Home(home.appliances, PAPER_TOLERANCE_W, home.base_load, home.name)


def _short_stand_in(setting: Setting, every_s: float) -> Source:
    home = synth.ready_home("redd-like")
    training = round(TRAIN_DAYS * 86_400 / every_s)
    attacked = setting.readings or round(STAND_IN_DAYS[every_s] * 86_400 / every_s)
    trace = synth.trace(home, training + attacked, interval_s=every_s, seed=setting.seed)
    train, test = trace[:training], trace[training:]
    words = f"{STAND_IN} “redd-like”" + missing(setting)
    details = (("trained on", span_words(train)), ("attacked", span_words(test)))
    return Source(Case(home.name, home, train, test), home.name, words, False, details)


def busiest_circuits(trace: Trace, learnt: LearntHome, count: int) -> list[str]:
    """Return the circuits that switch and use most energy, in the order of the data."""
    assert trace.power is not None
    assert trace.names is not None
    switching = {circuit.name for circuit in learnt.circuits if circuit.role == "appliance"}
    energy = dict(zip(trace.names, trace.power.mean(axis=0), strict=True))
    chosen = sorted(switching, key=lambda name: (-energy[name], name))[:count]
    return [name for name in trace.names if name in chosen]


def label_circuits(trace: Trace, learnt: LearntHome) -> Trace:
    """Return a later trace with the states of the learnt appliances, by their thresholds."""
    assert trace.power is not None
    assert trace.names is not None
    names, rule = learnt.home.names, learnt.rule
    power = trace.power[:, [trace.names.index(name) for name in names]]
    thresholds = {circuit.name: circuit.threshold for circuit in learnt.circuits}
    states = [
        on_states(
            np.ascontiguousarray(column),
            thresholds[name],
            trace.run_starts,
            min_on=readings_at_least(rule.min_on_s, trace.interval_s),
            min_off=readings_at_least(rule.min_off_s, trace.interval_s),
        )
        for name, column in zip(names, power.T, strict=True)
    ]
    return trace.derive(states=np.stack(states, axis=1), power=power, names=names)
