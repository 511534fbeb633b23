"""Precision and recall of every statement about a lone meter, at every resolution.

`python -m experiments lone-meter` prints the table; `--save` writes it into docs/findings.md. Real
homes are read from the folder HUSHMETER_DATA (or ../shared/data) and left out where it is absent.
Simulated homes have seeds that no rule was adjusted on.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.learn.real_homes import FILES, RealHome, away_days, first_uses, read_real_home

import hushmeter as hm
from hushmeter.checks import BoolArray, FloatArray
from hushmeter.learn.habits import clean
from hushmeter.learn.rhythm import cut_days
from hushmeter.learn.statements import Finding, Findings
from hushmeter.synth import Habits, Household
from hushmeter.synth.households import USUAL_APPLIANCES
from hushmeter.trace import Trace

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
BEGIN = "<!-- accuracy: written by `python -m experiments lone-meter --save` -->\n"
END = "<!-- end of accuracy -->\n"
INTERVALS = {6: "6 s", 60: "1 min", 900: "15 min", 1800: "30 min", 3600: "1 h"}
SEEDS = range(1000, 1024)
DAYS = 42
STATEMENTS = {
    "base-load": "base load (within 5 W; “at most” above 15 min)",
    "away": "days away",
    "away homes": "days away (recall: homes in which at least one is found)",
    "first-use": "first use (within 45 min; 1 h for hourly readings)",
    "last-use": "last use (within 1 h; 90 min for hourly readings)",
    "workday-empty": "empty on working days (hours within 1 h)",
    "active-hours": "hours in use (nine of ten hours)",
    "night": "power at night (within 15 %, or 20 W)",
    "returns": "load that returns (days within 5 of 100)",
    "weekend": "weekends against working days (the same in the weeks after)",
    "change": "change of habit (date within a week)",
    "season": "seasons (homes with a year)",
    "kettle": "kettle",
    "shower": "electric shower",
    "fridge": "fridge or freezer",
    "fridge period": "period of the fridge (within 4 %)",
    "hvac": "air conditioner, heat pump or heater",
    "short-heat": "microwave, toaster or hair dryer",
    "thermostat": "heat on and off: oven, dryer, hob",
    "strong-run": "machine that heats water, or an oven",
    "car-charger": "car charger (homes)",
    "weekly": "weekly event (the same in the weeks after)",
}
SIMULATED_CIRCUITS = {
    "kettle": ("kettle",),
    "shower": ("shower",),
    "fridge": ("fridge",),
    "hvac": ("heat pump",),
    "short-heat": ("microwave",),
    "thermostat": ("oven",),
    "strong-run": ("washing machine", "dishwasher", "oven"),
}
REAL_CIRCUITS = {
    "REDD 1": {
        "fridge": ("fridge",),
        "short-heat": ("microwave", "bathroom_gfi", "kitchen_outlets_3", "kitchen_outlets_4"),
        "thermostat": ("oven", "stove", "washer_dryer_1", "washer_dryer_2"),
    },
    "REDD 3": {
        "fridge": ("refrigerator",),
        "short-heat": ("microwave", "bathroom", "kitchen1", "kitchen2"),
        "thermostat": ("washer_dryer",),
    },
    "REDD 6": {"fridge": ("refrigerator",), "hvac": ("ac1", "ac2", "electric_heat")},
    "REFIT 2": {
        "kettle": ("Kettle",),
        "strong-run": ("Dishwasher", "WashingMachine"),
    },
    "UK-DALE 2": {
        "kettle": ("Kettle",),
        "short-heat": ("Microwave",),
        "strong-run": ("Dishwasher", "WashingMachine"),
    },
}
RECALL_KNOWN = {"kettle"}
"""Kinds whose sub-meters in real homes cover all true events of the class."""


@dataclass
class Tally:
    """Counts of one statement at one resolution; recall has its own numbers."""

    right: int = 0
    stated: int = 0
    found: int = 0
    true: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, right: int, stated: int, found: int = 0, true: int = 0) -> None:
        """Add counts: correct statements and all of them; true events that were found and all."""
        self.right += int(right)
        self.stated += int(stated)
        self.found += int(found)
        self.true += int(true)

    def __str__(self) -> str:
        if not self.stated and not self.true:
            return "–"
        precision = "not stated"
        if self.stated:
            precision = f"{self.right / self.stated:.2f} ({self.right}/{self.stated})"
        return precision + (f"; {self.found / self.true:.2f}" if self.true else "")


Table = dict[tuple[str, int], Tally]


def overlaps(marks: FloatArray, runs: FloatArray) -> BoolArray:
    """Return for every mark whether a true run covers half of the shorter of the two."""
    hit = np.zeros(len(marks), np.bool_)
    starts = runs[:, 0]
    longest = float((runs[:, 1] - runs[:, 0]).max(initial=0.0))
    for k, (start, end) in enumerate(marks):
        near = slice(*np.searchsorted(starts, [start - longest, end]))
        common = np.minimum(runs[near, 1], end) - np.maximum(runs[near, 0], start)
        shorter = np.minimum(runs[near, 1] - runs[near, 0], end - start)
        hit[k] = bool((common >= 0.5 * shorter - 60).any())
    return hit


def one(found: Findings, kind: str) -> Finding | None:
    """Return the finding of a kind, or None."""
    return next(iter(found.of_kind(kind)), None)


def simulated_homes() -> Iterator[tuple[Household, int]]:
    """Simulate fresh homes of six weeks at 6 s."""
    for seed in SEEDS:
        yield hm.synth.household(days=DAYS, interval_s=6, seed=seed), seed


def measure_simulated(table: Table) -> None:
    """Compare the statements about simulated homes with their diaries."""
    for home, _ in simulated_homes():
        for interval in INTERVALS:
            trace = home.at(interval)
            found = hm.findings(trace, tz=home.zone)
            base = one(found, "base-load")
            if base is not None:
                error = base.evidence["watts"] - home.diary.base_w
                right = error >= -5 if interval > 900 else abs(error) <= 5
                table["base-load", interval].add(right, 1)
            for kind, circuits in SIMULATED_CIRCUITS.items():
                runs = [home.diary.runs[c] for c in circuits if c in home.diary.runs]
                stated = one(found, kind)
                if runs:
                    known = kind != "strong-run"
                    _events(table[kind, interval], stated, np.vstack(runs), recall=known)
                elif stated is not None:
                    table[kind, interval].add(0, stated.evidence["count"])
            _simulated_period(table[("fridge period", interval)], found, home)
            car, owned = one(found, "car-charger"), "car charger" in home.diary.runs
            table["car-charger", interval].add(owned and car is not None, car is not None,
                                               owned and car is not None, owned)  # fmt: skip


HABIT_SEEDS = range(2000, 2260)
HABIT_INTERVALS = {300: "5 min", 900: "15 min", 1800: "30 min", 3600: "1 h"}
YEAR_SEEDS = range(4000, 4208)
RARE_SEEDS, RARE_DAYS = range(6000, 6240), 84
RARE_INTERVALS = (900, 1800, 3600)
STARTS = ("2024-01-15", "2024-04-15", "2024-07-10", "2024-10-01")
HEATING = ("electric heating", "storage heater")
LIVES: tuple[tuple[Habits, tuple[str, ...], float], ...] = (
    (Habits(), (), 0.0),
    *(
        (Habits(), (*USUAL_APPLIANCES, load), 0.0)
        for load in ("air conditioner", *HEATING, "pool pump")
    ),
    (Habits(), USUAL_APPLIANCES[1:], 0.0),
    (Habits(), (), 4000.0),
    (Habits(works_away=False, outings=(0.3, 1.0), trips_per_month=0.3), (), 0.0),
    (Habits(works_away=True, outings=(0.9, 6.0)), (), 0.0),
    (Habits(works_away=True, shifted_h=9.0), (), 0.0),
    (Habits(works_away=True, shifted_h=(0.0, 7.0, 14.0)), (), 0.0),
    (Habits(later=(20, 1.5)), (), 0.0),
    (Habits(weekly=(2, 14)), (), 0.0),
)
"""Habits, appliances (none: drawn) and solar panels [W] of the simulated homes: usual ones, with
cooling, heating or a pool pump, without a fridge, with solar panels, nearly always at home, nearly
always out, in night shifts, in changing shifts, with a change of habit, with a weekly event."""


def habit_home(seed: int, days: int, interval_s: int) -> Household:
    """Simulate a home; its kind of life and its season follow from the seed."""
    habits, appliances, solar_w = LIVES[seed % len(LIVES)]
    return hm.synth.household(
        days=days,
        interval_s=interval_s,
        start=STARTS[seed // len(LIVES) % len(STARTS)],
        appliances=appliances or None,
        habits=habits,
        solar_w=solar_w,
        seed=seed,
    )


def measure_habits(table: Table, seeds: range = HABIT_SEEDS, years: range = YEAR_SEEDS) -> None:
    """Compare the statements about habits with the diaries of simulated homes.

    The statements are made from the first half of the days. The second half tells whether weekends
    go on to differ from working days.
    """
    for seed in seeds:
        home = habit_home(seed, 2 * DAYS, 300)
        truth = Truth(home, LIVES[seed % len(LIVES)][0])
        for interval in HABIT_INTERVALS:
            trace = home.at(interval)
            truth.compare(table, interval, trace[: DAYS * 86_400 // interval])
    for seed in years:
        home = habit_home(seed, 365, 3600)
        found = one(hm.findings(home.trace, tz=home.zone), "season")
        cold = any(name in home.diary.runs for name in HEATING)
        hot = "air conditioner" in home.diary.runs
        high = 0 if found is None else found.evidence["high_month"]
        right = (cold and high in (11, 12, 1)) or (hot and high in (5, 6, 7))
        table["season", 3600].add(right, found is not None, right, cold or hot)


def measure_rare(table: Table, seeds: range = RARE_SEEDS) -> None:
    """Compare statements that few homes of six weeks give reason for, in homes of twelve weeks.

    Two thirds of the homes change a habit and have a weekly event; the others have neither. In half
    of them only people and a fridge use power, so that weekends differ clearly.
    """
    for seed in seeds:
        habits = Habits(works_away=seed % 4 < 3, trips_per_month=0.3)
        if seed % 3:
            habits = replace(habits, later=(40, 1.0 + seed % 5 / 2), weekly=(seed % 7, 14))
        home = hm.synth.household(
            days=RARE_DAYS + DAYS,
            interval_s=900,
            start=STARTS[seed % len(STARTS)],
            appliances=USUAL_APPLIANCES[:5] if seed % 2 else None,
            habits=habits,
            seed=seed,
        )
        truth = Truth(home, habits, RARE_DAYS)
        for interval in RARE_INTERVALS:
            trace = home.at(interval)[: RARE_DAYS * 86_400 // interval]
            found = hm.findings(trace, tz=home.zone)
            truth.judge(table, interval, found, ("weekend", "change", "weekly"))


class Truth:
    """The diary of a simulated home, against which statements about its first days are compared."""

    def __init__(self, home: Household, habits: Habits, days: int = DAYS) -> None:
        self.home, self.habits, self.count = home, habits, days
        self.dates = [str(day.date) for day in home.diary.days]
        lived = [day for day in home.diary.days[: self.count] if not day.away]
        self.of_kind = {
            working: [day for day in lived if (day.date.weekday() < 5) == working]
            for working in (True, False)
        }
        numbers = np.array([day.date.toordinal() - 719_163 for day in home.diary.days])
        hours = numbers[:, None] * 24 + np.arange(59) / 2
        edges = clean(home.trace, home.zone).to_utc(hours * 3600.0)
        runs = {**home.diary.runs, "people": np.insert(home.diary.present, 2, 1.0, axis=1)}
        # Mean powers of half hours from midnight of every day to 5:00 of the next [W]
        self.power = {name: np.diff(energy(rows, edges)) / 1800 for name, rows in runs.items()}
        loads = [power for name, power in self.power.items() if name != "people"]
        self.total: FloatArray = home.diary.base_w + np.sum(loads, axis=0)
        self.by_hour = self.total[:, :48].reshape(-1, 24, 2).mean(axis=2)

    def within(self, first: float, stop: float) -> slice:
        """Return the half hours of a day that begins at 4:00 between two hours."""
        first, stop = ((h - 4) % 24 + 4 for h in (first, stop))
        return slice(round(2 * first), round(2 * (stop if stop > first else stop + 24)))

    def compare(self, table: Table, interval: int, trace: Trace) -> None:
        """Add the statements about readings of the first half of the days."""
        found = hm.findings(trace, tz=self.home.zone)
        self.judge(table, interval, found, ("night", "returns", "active-hours"))
        complete = cut_days(clean(trace, self.home.zone)).dates.astype("datetime64[D]")
        # On a day away nobody is active from 4:00 to 4:00.
        nobody = np.array(self.dates)[self.power["people"][:, 8:56].sum(axis=1) == 0]
        truth = set(nobody.tolist()) & {str(date) for date in complete}
        away = one(found, "away")
        stated = set() if away is None else set(away.evidence["dates"])
        hits = len(stated & truth)
        table["away", interval].add(hits, len(stated), hits, len(truth))
        table["away homes", interval].add(0, 0, hits > 0, bool(truth))
        for kind, field_of in (("first-use", "wake"), ("last-use", "bed")):
            finding = one(found, kind)
            for name, working in (("hour", True), ("weekend_hour", False)):
                hours = [getattr(day, field_of) for day in self.of_kind[working]]
                said = None if finding is None else finding.evidence[name]
                tolerance = 1.0 if finding is None else finding.evidence["tolerance_h"]
                # The share of homes in which it is found counts working days.
                _hour(table[kind, interval], said, hours, tolerance, recall=working)
        self.empty(table["workday-empty", interval], one(found, "workday-empty"))

    def judge(self, table: Table, interval: int, found: Findings, kinds: tuple[str, ...]) -> None:
        """Add the statements of some kinds."""
        for kind in kinds:
            right = [getattr(self, kind.replace("-", "_"))(f) for f in found.of_kind(kind)]
            true = {"change": self.habits.later, "weekly": self.habits.weekly}.get(kind, False)
            table[kind, interval].add(sum(right), len(right), any(right) and bool(true), bool(true))

    def night(self, found: Finding) -> bool:
        """The mean power of a usual night."""
        said = found.evidence
        hours = slice(round(2 * said["first_hour"]), round(2 * said["end_hour"]))
        truth = float(np.median(self.total[: self.count, hours].mean(axis=1)))
        return bool(abs(said["watts"] - truth) <= said["tolerance_w"])

    def share(self, said: dict[str, Any], rows: slice) -> float:
        """Return the share of days on which the home draws a power within hours."""
        window = self.total[rows, self.within(said["first_hour"], said["end_hour"])]
        if said.get("mean_s", 0) > 1800:
            window = window.reshape(len(window), -1, 2).mean(axis=2)
        return float((window.max(axis=1) >= said["watts"]).mean())

    def returns(self, found: Finding) -> bool:
        """On as many days, give or take one out of twenty; or on more, if it says so."""
        said = found.evidence
        more = self.share(said, slice(0, self.count)) - said["count"] / said["days"]
        return bool(more >= -0.05 and (more <= 0.05 or found.certainty == "at least"))

    def weekend(self, found: Finding) -> bool:
        """The same in the weeks that follow."""
        later = self.total[self.count :, 8:56].mean(axis=1)
        weekend = np.array([day.date.weekday() >= 5 for day in self.home.diary.days[self.count :]])
        more = bool(later[weekend].mean() > later[~weekend].mean())
        return more == bool(found.evidence["ratio"] > 1)

    def change(self, found: Finding) -> bool:
        """A change that the household made, within a week; or shares of days that are true."""
        said = found.evidence
        if said["use"] == "returns":
            place = self.dates.index(said["date"])
            shares = self.share(said, slice(0, place)), self.share(said, slice(place, self.count))
            stated = said["before_share"], said["after_share"]
            return float(np.abs(np.subtract(shares, stated)).max()) <= 0.15
        if self.habits.later is None:
            return False
        apart = np.datetime64(said["date"]) - np.datetime64(self.dates[self.habits.later[0]])
        return bool(abs(apart) <= np.timedelta64(7, "D"))

    def weekly(self, found: Finding) -> bool:
        """More than on other days of its kind in the weeks that follow too."""
        said = found.evidence["weekday"]
        days = np.array([day.date.weekday() for day in self.home.diary.days])
        kind = ((days < 5) == (said < 5)) & (np.arange(days.size) >= self.count)
        hours = np.concatenate([self.by_hour[:, a:b] for a, b in found.evidence["hours"]], axis=1)
        own, others = kind & (days == said), kind & (days != said)
        return float(hours[own].mean()) > float(hours[others].mean())

    def active_hours(self, found: Finding) -> bool:
        """In nine of ten hours somebody is active, or a machine runs by weather or timer."""
        cycles = [p for n, p in self.power.items() if n not in ("fridge", "lights")]
        busy = np.any([p[: self.count] > 0.2 * max(1.0, p.max()) for p in cycles], axis=0)
        hours = busy[:, 8:56].reshape(self.count, 24, 2).any(axis=2).mean(axis=0)
        said = np.roll(found.evidence["share_by_hour"], -4) >= 0.5
        return float((hours[said] >= 0.4).mean()) >= 0.9

    def empty(self, tally: Tally, found: Finding | None) -> None:
        """The hours of working days in which somebody is active in less than a quarter."""
        days = [
            day.date.weekday() < 5 and not day.away for day in self.home.diary.days[: self.count]
        ]
        active = (self.power["people"][: self.count][days] > 0).mean(axis=0)
        right = False
        if found is not None:
            # Within half an hour, because the hours are stated as whole ones.
            said = self.within(found.evidence["first_hour"], found.evidence["end_hour"])
            right = float(active[said][1:-1].mean()) <= 0.25
        works = float(active[18:32].max()) <= 0.25  # From 9 to 16 h
        tally.add(right, found is not None, right and works, works)


def energy(runs: FloatArray, times: FloatArray) -> FloatArray:
    """Return the energy of rectangles of power up to each time [J]."""
    total = np.zeros(times.shape)
    for column, sign in ((0, 1.0), (1, -1.0)):
        order = np.argsort(runs[:, column])
        start, watts = runs[order, column] - times.min(), runs[order, 2]
        place = np.searchsorted(start, times - times.min())
        power, moment = (np.append(0.0, np.cumsum(v))[place] for v in (watts, watts * start))
        total += sign * (power * (times - times.min()) - moment)
    return total


def _hour(
    tally: Tally, said: float | None, hours: list[float | None], slack: float, *, recall: bool
) -> None:
    right = False
    if said is not None:
        truth = float(np.median([h for h in hours if h is not None]))
        right = abs((said - truth + 12) % 24 - 12) <= slack
    tally.add(right, said is not None, right and recall, recall)


def _events(tally: Tally, finding: Finding | None, runs: FloatArray, *, recall: bool) -> None:
    runs = runs[np.argsort(runs[:, 0])][:, :2]
    marks = np.zeros((0, 2)) if finding is None else finding.marks
    right = int(overlaps(marks, runs).sum()) if len(marks) else 0
    if recall:
        tally.add(right, len(marks), min(right, len(runs)), len(runs))
    else:
        tally.add(right, len(marks))


def _simulated_period(tally: Tally, found: Findings, home: Household) -> None:
    fridge = one(found, "fridge")
    if fridge is not None and fridge.evidence["period_s"] is not None:
        truth = float(np.median(np.diff(home.diary.runs["fridge"][:, 0])))
        right = abs(fridge.evidence["period_s"] / truth - 1) <= 0.04
        tally.add(right, 1, right, 1)


def hourly_homes(folder: Path) -> Iterator[tuple[str, Trace]]:
    """Read homes without sub-meters that are known to have no car."""
    table = pd.read_parquet(folder / "homes/citylearn2022_fontana_17homes_1h_1year.parquet")
    for column in table.columns[3:]:
        yield column, Trace(1000 * table[column].to_numpy(np.float64), 3600)
    watts = pd.read_parquet(folder / "ampds/ampds_r1_1h_wh.parquet")["aggregate"]
    yield "AMPds", Trace(watts.to_numpy(np.float64), 3600)


def data_folder() -> Path | None:
    """Return the folder of real data, or None."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HUSHMETER_DATA", default))
    return folder if folder.is_dir() else None


def measure_real(table: Table, folder: Path) -> None:
    """Compare the statements about real homes with their sub-meters."""
    for name in FILES:
        home = read_real_home(folder, name)
        finest = min(i for i in INTERVALS if i >= home.trace.interval_s)
        base = None
        for interval in INTERVALS:
            if interval < finest:
                continue
            trace = home.trace
            if interval != trace.interval_s:
                trace = trace.coarsen(interval)
            found = hm.findings(trace, tz=home.zone)
            watts = found.of_kind("base-load")[0].evidence["watts"]
            base = watts if base is None else base
            error = watts - base
            table["base-load", interval].add(error >= -5 if interval > 900 else abs(error) <= 5, 1)
            for kind, circuits in REAL_CIRCUITS[name].items():
                runs = np.vstack([circuit_runs(home, c, CIRCUIT_W[kind]) for c in circuits])
                known = kind in RECALL_KNOWN
                _events(table[kind, interval], one(found, kind), runs, recall=known)
            if name in ("REFIT 2", "UK-DALE 2"):
                truth = {str(day) for day in away_days(home, trace)}
                away = one(found, "away")
                stated = set(away.evidence["dates"]) if away is not None else set()
                right = len(stated & truth)
                table["away", interval].add(right, len(stated), right, len(truth))
                first = one(found, "first-use")
                if first is not None and first.evidence["hour"] is not None:
                    # People get up up to an hour before they use the kettle.
                    early = float(np.median(first_uses(home))) - first.evidence["hour"]
                    table["first-use", interval].add(-0.5 <= early <= 1.1, 1)
            car = one(found, "car-charger")
            table["car-charger", interval].add(0, car is not None)
            table["car-charger", interval].notes.append(name)

    for name, trace in hourly_homes(folder):
        car = one(hm.findings(trace), "car-charger")
        table["car-charger", 3600].add(0, car is not None)
        table["car-charger", 3600].notes.append(name)


CIRCUIT_W = {
    "kettle": 1000.0,
    "short-heat": 400.0,
    "fridge": 40.0,
    "thermostat": 800.0,
    "hvac": 500.0,
    "strong-run": 1000.0,
}
"""Power above which a circuit counts as on, by the kind of statement [W]."""


def circuit_runs(home: RealHome, circuit: str, least_w: float) -> FloatArray:
    """Return starts and ends of the times at which a circuit draws at least `least_w`."""
    on = np.concatenate([[False], home.circuits[circuit] >= least_w, [False]])
    first, stop = np.flatnonzero(on[1:] & ~on[:-1]), np.flatnonzero(~on[1:] & on[:-1])
    ends = home.utc[stop - 1] + home.trace.interval_s
    return np.column_stack([home.utc[first], ends])


def rows(real: Table, simulated: Table) -> Iterator[tuple[str, ...]]:
    """Return the lines of the table."""
    for kind, words in STATEMENTS.items():
        for interval, length in sorted({**INTERVALS, **HABIT_INTERVALS}.items()):
            cells = [table.get((kind, interval), Tally()) for table in (real, simulated)]
            if not any(cell.stated for cell in cells) and kind != "away homes":
                continue
            texts = [str(cell) for cell in cells]
            if str(cells[0]) == str(cells[1]) == "–":
                continue
            if cells[0].notes and not cells[0].stated:
                texts[0] = f"no false alarm in {len(cells[0].notes)} homes"
            yield words, length, *texts


def make_table() -> str:
    """Return the table with the words above it."""
    real: Table = defaultdict(Tally)
    simulated: Table = defaultdict(Tally)
    folder = data_folder()
    if folder is not None:
        measure_real(real, folder)
    measure_simulated(simulated)
    measure_habits(simulated)
    measure_rare(simulated)
    lines = [
        f"Real homes: {', '.join(FILES)}; for cars also AMPds and 17 homes of CityLearn. Simulated",
        f"homes: {len(SEEDS)} of {DAYS} days for appliances, {len(HABIT_SEEDS)} of {DAYS} days for "
        f"habits, {len(RARE_SEEDS)} of {RARE_DAYS} days for weekends, weekly events and changes, "
        f"and {len(YEAR_SEEDS)} of a year for seasons, of {len(LIVES)} kinds of",
        "life: usual homes, heating, cooling, storage heaters, a pool pump, no fridge, solar, "
        "nearly always at home,",
        "nearly always out, night shifts, changing shifts, a change of habit, a weekly event. Each "
        "cell is the",
        "precision (correct/stated), then the recall where all true cases are known.",
        "The rules were adjusted on these five real homes and on other simulated ones, so only the "
        "simulated homes are new to them; they are tidier",
        "than real ones. A first use of a real home counts as correct up to 1.1 h before the "
        "first use of kettle or microwave.",
        "",
        "| statement | readings | real homes | simulated homes |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows(real, simulated)),
        "",
    ]
    return "\n".join(lines)


def save_table(text: str) -> None:
    """Write the table into docs/findings.md."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
