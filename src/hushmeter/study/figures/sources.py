"""Where the figures' homes come from: real sets found under a folder, or named stand-ins.

The paper's three segments are taken where they are; another set of the same kind stands in for a
segment that is not there, and a synthetic home where there is none. The words of a source say
which it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hushmeter import synth
from hushmeter.errors import DataError
from hushmeter.home import Appliance, Home
from hushmeter.learn.homes import LearntHome, between, learn_home
from hushmeter.learn.segments import SEGMENTS, cut_segment
from hushmeter.read import ReadOptions, read_home_recording
from hushmeter.study.figures.setting import Setting
from hushmeter.study.plan import Case, split_trace
from hushmeter.trace import Trace, iso

STAND_IN = "the synthetic stand-in"


@dataclass(frozen=True)
class RealSet:
    """A data set, or one home of it, that can be found under a folder.

    Attributes
    ----------
    name : str
    patterns : tuple of str
        Where its file may lie; the first match is taken.
    building : int, optional
    tz : str, optional
        Zone of times that carry none.
    window : (str, str), optional
        First time, and the time after the last.
    """

    name: str
    patterns: tuple[str, ...]
    building: int | None = None
    tz: str | None = None
    window: tuple[str, str] | None = None

    def find(self, folder: Path) -> Path | None:
        """Its file under the folder."""
        return next((f for p in self.patterns for f in sorted(folder.glob(p))), None)

    def read(self, folder: Path) -> Trace | None:
        """Its readings with the power of every circuit, if it is there."""
        file = self.find(folder)
        if file is None:
            return None
        options = ReadOptions(tz=self.tz, building=self.building, repeats="last")
        trace = read_home_recording(file, options).trace
        return trace if self.window is None else between(trace, *self.window)


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
    """A home whose readings are attacked, and where it comes from.

    Attributes
    ----------
    case : Case
    name : str
        For titles.
    words : str
        For captions.
    real : bool
    """

    case: Case
    name: str
    words: str
    real: bool


def find_eight(setting: Setting) -> Source:
    """Fig. 2, 3, 5 and 9: eight appliances; UK-DALE's building 4, a home of REFIT, or similar8."""
    sets = (REFIT[0], UKDALE[0])
    return _real_home(setting, "ukdale4", sets) or _stand_in(setting, "similar8", 0.99)


def find_thirteen(setting: Setting) -> Source:
    """Fig. 4: thirteen appliances at 1 Hz; RAE's (TEALD) day, Tracebase's, or rae13."""
    return _real_home(setting, "teald", (TRACEBASE,)) or _stand_in(setting, "rae13", 0.995)


def read_segment(name: str, data: Path | None) -> Trace | None:
    """The paper's own segment, as far as the folder holds it."""
    if data is None:
        return None
    try:
        return cut_segment(name, data).trace
    except DataError as error:
        if str(error).startswith(f"{data} holds no "):
            return None
        raise


def all_sets(data: Path) -> Iterator[tuple[str, Trace]]:
    """Every set that is there: its name and its readings with all circuits."""
    for name, segment in SEGMENTS.items():
        trace = read_segment(name, data)
        if trace is not None:
            yield f"{segment.dataset} building {segment.building}", trace
    for one in (*UKDALE, *REFIT, TRACEBASE):
        trace = one.read(data)
        if trace is not None:
            yield one.name, trace


def one_power_each(home: Home) -> Home:
    """The paper's model of a home: one mean power per appliance, no levels."""
    plain = [Appliance(a.name, a.power, (), a.run_s, a.runs_per_day) for a in home.appliances]
    return Home(plain, home.tolerance, home.base_load, home.name)


def _real_home(setting: Setting, segment: str, sets: tuple[RealSet, ...]) -> Source | None:
    """The segment of the paper, else the first set that is there, attacked whole."""
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
            return _learnt(setting, one.name, trace, f", for want of {wanted}")
    return None


def _learnt(setting: Setting, name: str, trace: Trace, note: str) -> Source:
    """One power per appliance and the tolerance are learnt from the sub-meters: P is given."""
    learnt: LearntHome = learn_home(trace, denoised=True, name=name)
    home = one_power_each(learnt.home)
    part = learnt.trace if setting.readings is None else learnt.trace[: setting.readings]
    words = (
        f"{name}{note} ({span_words(part)}, {len(home)} appliances that switch, the sum of the "
        f"sub-meters as the meter, tolerance {home.tolerance:g} W)"
    )
    return Source(Case(name, home, learnt.trace, part), name, words, real=True)


def _stand_in(setting: Setting, name: str, sparsity: float | None) -> Source:
    home = synth.ready_home(name)
    trace = synth.trace(home, 2 * setting.stand_in_readings, sparsity, seed=setting.seed)
    train, test = split_trace(trace, 0.5)
    words = f"{STAND_IN} “{name}” ({span_words(test)}, {len(home)} appliances)"
    return Source(Case(name, home, train, test), name, words + missing(setting), real=False)


def missing(setting: Setting) -> str:
    """What a stand-in's caption adds where real data were asked for."""
    return "" if setting.data is None else ": no real set of this kind is in the data folder"


def span_words(trace: Trace) -> str:
    """Readings, interval and span of a trace in words."""
    first, last = (iso(trace.times[i].astype("datetime64[s]")) for i in (0, -1))
    gaps = len(trace.runs) - 1
    broken = f" with {gaps} gap{'s' if gaps > 1 else ''}" if gaps else ""
    return f"{len(trace)} readings of {trace.interval_s:g} s, {first} to {last}{broken}"
