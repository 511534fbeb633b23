"""Simulated households: people who get up, leave, cook and travel, and a diary of what they did.

The habits of a household are drawn once (when people get up, how long they work away, how often
they travel), and then every day is simulated. Loads are rectangles of power with exact times, so
that readings of any length are exact means of the same loads. Statements about a meter can be
compared with the diary, which is the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

import numpy as np

from hushmeter.checks import FloatArray, RngLike, non_negative, one_of, positive, whole
from hushmeter.clock import check_zone, in_zone, utc_offsets
from hushmeter.errors import InputError
from hushmeter.synth.traces import solar_power
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

USUAL_APPLIANCES = (
    "fridge",
    "kettle",
    "microwave",
    "oven",
    "television",
    "washing machine",
    "dishwasher",
)
"""Appliances of every household, if none are named."""
RARE_APPLIANCES = {"shower": 0.3, "heat pump": 0.25, "car charger": 0.25}
"""Further appliances and the share of households that have them."""
CYCLES_S = {"fridge": ((600, 1100), (1500, 2900)), "heat pump": ((500, 1500), (900, 3000))}
"""Ranges of the usual lengths of a run and a pause [s] of appliances that switch by themselves."""
THERMOSTAT_S = (1500.0, 3000.0)
"""Shortest and longest time from one start of a thermostat to the next [s]."""
METER_NOISE_W = 1.0
"""Standard deviation of one reading around the true mean [W]."""


@dataclass(frozen=True)
class DiaryDay:
    """What the people of a household did on one day.

    Attributes
    ----------
    date : datetime.date
    away : bool
        True if nobody was at home on the whole day.
    wake, bed : float or None
        When the first person got up and the last one went to bed; `bed` exceeds 24 after
        midnight. None on days away. [local h]
    leave, back : float or None
        When the home became empty, and when somebody came back; None if somebody stayed.
        [local h]
    """

    date: date
    away: bool
    wake: float | None = None
    leave: float | None = None
    back: float | None = None
    bed: float | None = None


@dataclass(frozen=True, eq=False)
class Diary:
    """The truth about a simulated household.

    Attributes
    ----------
    days : tuple of DiaryDay
    base_w : float
        Power of everything that is always on [W].
    runs : dict of str to FloatArray, shape (R, 3)
        Start, end (UTC, s since 1970) and power [W] of every run of an appliance. A machine that
        heats in pulses has one row for every pulse.
    present : FloatArray, shape (P, 2)
        Start and end (UTC, s since 1970) of each time in which somebody was awake and at home.
    """

    days: tuple[DiaryDay, ...]
    base_w: float
    runs: dict[str, FloatArray]
    present: FloatArray


@dataclass(frozen=True, eq=False)
class Household:
    """Readings of a simulated household with their truth.

    Attributes
    ----------
    trace : Trace
        The readings of its meter.
    diary : Diary
        What happened.
    zone : str
        Its time zone.
    """

    trace: Trace
    diary: Diary
    zone: str

    def at(self, interval_s: float) -> Trace:
        """Return the readings as means over longer intervals [s]."""
        return self.trace if interval_s == self.trace.interval_s else self.trace.coarsen(interval_s)


@dataclass(frozen=True)
class Habits:
    """The habits of a household that can be chosen; all others are drawn.

    Parameters
    ----------
    works_away : bool, optional
        Whether the home is empty on most working days; drawn if not given.
    trips_per_month : float
        Mean number of trips in 30 days; a trip takes 1 to 6 days.
    weekly : tuple of int, optional
        Weekday (0 is Monday) and hour at which a tumble dryer runs for two hours every week.
    later : tuple of int and float, optional
        Number of the day from which on people get up later, and by how many hours.
    shifted_h : float or tuple of float
        Hours by which people get up and go to bed later than others; several numbers follow each
        other from week to week, as for shift workers.
    outings : tuple of float, optional
        Chance of an absence on a day without work away from home, and its mean length [h]. By
        default the home is empty for one to three hours around noon on every second day.
    """

    works_away: bool | None = None
    trips_per_month: float = 1.0
    weekly: tuple[int, int] | None = None
    later: tuple[int, float] | None = None
    shifted_h: float | tuple[float, ...] = 0.0
    outings: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        non_negative("trips_per_month", self.trips_per_month)


@dataclass
class _Life:
    """A household while it is simulated: its habits, and the rectangles of power so far."""

    rng: np.random.Generator
    zone: str
    works_away: bool
    wake: float
    bed: float
    powers: dict[str, float]
    outings: tuple[float, float] | None
    shift: float = 0.0
    runs: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    present: list[tuple[float, float]] = field(default_factory=list)

    def utc(self, day: date, hour: float) -> float:
        """Return the UTC seconds of a local hour, which may exceed 24."""
        moment = datetime.combine(day, datetime.min.time()) + timedelta(hours=hour)
        return in_zone(moment, self.zone).timestamp()

    def add(self, name: str, start: float, length: float, watts: float) -> None:
        """Add one rectangle: start [UTC s], length [s], power [W]."""
        self.runs.setdefault(name, []).append((start, start + length, watts))

    def between(self, low: float, high: float) -> float:
        """Draw a number uniformly."""
        return float(self.rng.uniform(low, high))

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < share)


def household(
    days: int = 28,
    *,
    interval_s: float = 60.0,
    start: str = "2024-01-15",
    zone: str = "Europe/London",
    appliances: Iterable[str] | None = None,
    habits: Habits = Habits(),  # noqa: B008
    solar_w: float = 0.0,
    seed: RngLike = 0,
) -> Household:
    """Simulate the meter of a household, with a diary of its habits.

    Parameters
    ----------
    days : int
        Number of local days.
    interval_s : float
        Length of a reading [s]; a day must contain a whole number of them.
    start : str
        First day, such as 2024-01-15.
    zone : str
        Time zone of the home.
    appliances : iterable of str, optional
        Names of `APPLIANCES`. By default the usual ones and, by chance, some of the rare ones.
    habits : Habits
        How often nobody is at home, and what happens every week.
    solar_w : float
        Peak power of solar panels [W]; readings are the load minus their power.
    seed : int, Generator or None
        The same seed gives the same household.

    Returns
    -------
    Household

    Raises
    ------
    InputError
        If a parameter is out of range or an appliance is unknown.

    Examples
    --------
    >>> home = hm.synth.household(days=14, interval_s=900, seed=1)
    >>> len(home.trace), len(home.diary.days)
    (1344, 14)
    """
    count, interval = whole("days", days), positive("interval_s", interval_s)
    if SECONDS_PER_DAY % interval:
        raise InputError(f"interval_s must divide a day, got {interval:g} s.")
    rng = np.random.default_rng(seed)
    first = _first_day(start)
    life = _draw_habits(rng, check_zone(zone), appliances, habits)
    away = _draw_trips(life, count, habits.trips_per_month)
    base = life.between(30, 160)
    written = []
    wake, bed = life.wake, life.bed
    shifts = np.atleast_1d(habits.shifted_h).tolist()
    for number in range(count):
        if habits.later is not None and number == habits.later[0]:
            wake += habits.later[1]
        life.shift = shifts[number // 7 % len(shifts)]
        life.wake, life.bed = wake + life.shift, bed + life.shift
        written.append(_live(life, first + timedelta(days=number), away[number]))
    if habits.weekly is not None:
        _run_weekly(life, [d for d in written if not d.away], habits.weekly)
    span = life.utc(first, 0), life.utc(first + timedelta(days=count), 0)
    _run_cycles(life, span)
    _run_by_weather(life, first, count)
    _run_timer(life, first, count)
    runs = {name: np.array(sorted(rows)) for name, rows in life.runs.items()}
    watts = base + _means(runs.values(), span, interval)
    if solar_w:
        watts -= _solar(life, span, interval, positive("solar_w", solar_w))
    watts += life.rng.normal(0, METER_NOISE_W, watts.size)
    trace = Trace(np.round(watts, 1), interval, np.datetime64(round(span[0]), "s"))
    present = np.array(life.present).reshape(-1, 2)
    return Household(trace, Diary(tuple(written), base, runs, present), zone)


def _first_day(start: str) -> date:
    """Return the day that a text names; raise `InputError` for other text."""
    try:
        return date.fromisoformat(start)
    except ValueError:
        raise InputError(f"start must be a day such as 2024-01-15, got {start!r}.") from None


def _draw_habits(
    rng: np.random.Generator,
    zone: str,
    appliances: Iterable[str] | None,
    habits: Habits,
) -> _Life:
    """Draw what stays the same from day to day."""
    names = tuple(APPLIANCES)
    if appliances is None:
        rare = [name for name, share in RARE_APPLIANCES.items() if rng.random() < share]
        chosen = [*USUAL_APPLIANCES, *rare]
    else:
        chosen = [one_of("appliance", name, names) for name in appliances]
    powers = {name: float(rng.uniform(*APPLIANCES[name])) for name in chosen}
    away = bool(rng.random() < 0.6) if habits.works_away is None else habits.works_away
    wake, bed = float(rng.uniform(5.75, 7.5)), float(rng.uniform(21.75, 23.75))
    return _Life(rng, zone, away, wake, bed, powers, habits.outings)


def _draw_trips(life: _Life, days: int, per_month: float) -> list[bool]:
    """Return for every day whether the home is empty."""
    away = np.zeros(days, np.bool_)
    for _ in range(int(life.rng.poisson(per_month * days / 30))):
        first = int(life.rng.integers(0, max(1, days)))
        away[first : first + int(life.rng.integers(1, 7))] = True
    return [bool(day) for day in away]


def _live(life: _Life, day: date, away: bool) -> DiaryDay:
    """Simulate one day: when people get up, leave, come back and go to bed, and what they use."""
    if away:
        return DiaryDay(day, True)
    weekend = day.weekday() >= 5
    wake = life.wake + life.rng.normal(1.5 if weekend else 0.0, 0.6 if weekend else 0.2)
    bed = life.bed + life.rng.normal(0.5 if weekend else 0.0, 0.35)
    leave = back = None
    if life.works_away and not weekend and life.chance(0.92):
        leave, back = wake + life.between(1.0, 1.6), life.between(16.8, 18.3)
        # People who get up late work in shifts.
        back = back if leave < back - 4 else wake + 11
    elif life.outings is not None:
        if life.chance(life.outings[0]):
            leave = life.between(wake + 0.5, max(wake + 0.5, bed - 5))
            length = 0.5 + float(life.rng.exponential(life.outings[1]))
            back = min(leave + length, bed - 0.5)
    elif life.chance(0.5):
        leave = life.between(10.0, 15.0) + life.shift
        back = leave + life.between(0.8, 3.0)
    written = DiaryDay(day, False, wake, leave, back, bed)
    stretches = [(wake, bed)] if leave is None or back is None else [(wake, leave), (back, bed)]
    for begin, end in stretches:
        life.present.append((life.utc(day, begin), life.utc(day, end)))
        _use_lights(life, day, begin, end)
    for name, use in USES.items():
        if name in life.powers:
            use(life, written, stretches)
    return written


def _use_lights(life: _Life, day: date, begin: float, end: float) -> None:
    """Switch lamps and small devices while somebody is awake and at home."""
    hour = begin
    while hour < end:
        length = min(life.between(0.3, 1.2), end - hour)
        dark = hour < 8 or hour > 16.5
        watts = life.between(60, 220) if dark else life.between(20, 140)
        life.add("lights", life.utc(day, hour), length * SECONDS_PER_HOUR, watts)
        hour += length


Stretches = list[tuple[float, float]]


def _use_kettle(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    watts = life.powers["kettle"]
    for begin, end in stretches:
        hour = begin + life.between(0.1, 0.5)
        while hour < end:
            length = life.between(80, 240)
            life.add("kettle", life.utc(day.date, hour), length, watts * life.between(0.98, 1.02))
            hour += life.between(0.8, 4.0)


def _use_microwave(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    watts = life.powers["microwave"]
    for meal, share in ((stretches[0][0] + 0.5, 0.7), (12.5, 0.5), (18.8, 0.5)):
        hour = meal + life.between(-0.2, 0.4)
        if life.chance(share) and any(begin <= hour < end for begin, end in stretches):
            length = life.between(60, 280)
            life.add("microwave", life.utc(day.date, hour), length, watts)


def _use_oven(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    """Heat up, then hold the temperature in pulses."""
    hour = life.between(17.6, 19.2)
    if not life.chance(0.55) or not any(begin <= hour < end - 1 for begin, end in stretches):
        return
    start, watts = life.utc(day.date, hour), life.powers["oven"]
    end = start + life.between(1500, 3000)
    length = life.between(300, 600)
    while start < end:
        life.add("oven", start, length, watts)
        start += length + life.between(60, 150)
        length = life.between(45, 110)


def _use_television(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    begin, end = stretches[-1]
    first = max(begin, life.between(18.5, 20.5))
    if first < end - 0.3:
        length = (end - first - life.between(0.0, 0.3)) * SECONDS_PER_HOUR
        life.add("television", life.utc(day.date, first), length, life.powers["television"])


def _use_washing_machine(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    if not life.chance(0.35):
        return
    begin, end = stretches[-1]
    start = life.utc(day.date, life.between(begin, max(begin, min(end - 2, 20.5))))
    heat = life.between(700, 1200)
    life.add("washing machine", start, heat, life.powers["washing machine"])
    for _ in range(8):
        start += heat + life.between(60, 200)
        heat = life.between(120, 300)
        life.add("washing machine", start, heat, life.between(120, 380))


def _use_dishwasher(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    if not life.chance(0.5):
        return
    begin, end = stretches[-1]
    start = life.utc(day.date, max(begin, min(life.between(19.5, 21), end - 1)))
    for pause in (life.between(1200, 2000), 0.0):
        length = life.between(600, 1000)
        life.add("dishwasher", start, length, life.powers["dishwasher"])
        start += length + pause


def _use_shower(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    hour = stretches[0][0] + life.between(0.1, 0.5)
    for _ in range(int(life.rng.integers(1, 3))):
        if hour < stretches[0][1]:
            length = life.between(240, 540)
            life.add("shower", life.utc(day.date, hour), length, life.powers["shower"])
            hour += length / SECONDS_PER_HOUR + life.between(0.1, 0.5)


def _use_car(life: _Life, day: DiaryDay, stretches: Stretches) -> None:
    if life.chance(0.45):
        begin, end = stretches[-1]
        hour = max(begin + life.between(0.05, 0.5), life.between(17, 20))
        if hour < end:
            length = life.between(1.0, 5.0) * SECONDS_PER_HOUR
            life.add("car charger", life.utc(day.date, hour), length, life.powers["car charger"])


def _run_weekly(life: _Life, days: Iterable[DiaryDay], weekly: tuple[int, int]) -> None:
    weekday, hour = weekly
    for day in days:
        if day.date.weekday() == weekday:
            start = life.utc(day.date, hour + life.between(0.0, 0.5))
            life.add("tumble dryer", start, 2 * SECONDS_PER_HOUR, life.between(2200, 2500))


def _run_cycles(life: _Life, span: tuple[float, float]) -> None:
    """Run the appliances that switch by themselves, day and night, also while people are away."""
    for name, (on, off) in CYCLES_S.items():
        if name not in life.powers:
            continue
        usual_on, usual_off = life.between(*on), life.between(*off)
        start = span[0] + life.between(0, usual_off)
        while start < span[1]:
            length = usual_on * life.between(0.9, 1.1)
            life.add(name, start, length, life.powers[name] * life.between(0.97, 1.03))
            start += length + usual_off * life.between(0.9, 1.1)


def _run_timer(life: _Life, first: date, days: int) -> None:
    """Run a pump of a swimming pool for the same hours of every day."""
    if "pool pump" in life.powers:
        hour, length = life.between(7, 14), life.between(3, 8) * SECONDS_PER_HOUR
        for day in (first + timedelta(days=k) for k in range(days)):
            life.add("pool pump", life.utc(day, hour), length, life.powers["pool pump"])


def _run_by_weather(life: _Life, first: date, days: int) -> None:
    """Heat and cool by the temperature outside, also while people are asleep or away.

    The year has its coldest days in January, the day its coldest hour at 4:00. An air conditioner
    stands in a hot country. A storage heater is filled at night, the longer the colder it is.
    """
    for name in ("air conditioner", "electric heating", "storage heater"):
        if name not in life.powers:
            continue
        weather, period = 0.0, life.between(*THERMOSTAT_S)
        for day in (first + timedelta(days=k) for k in range(days)):
            weather = 0.7 * weather + float(life.rng.normal(0, 2))
            season = 11 - 8 * np.cos(2 * np.pi * (day.timetuple().tm_yday - 15) / 365)
            if name == "storage heater":
                length = 7 * SECONDS_PER_HOUR * min(1.0, max(0.0, (16 - season - weather) / 14))
                if length > 600:
                    life.add(name, life.utc(day, 0.5), length, life.powers[name])
                continue
            start, end = life.utc(day, 0), life.utc(day + timedelta(days=1), 0)
            while start < end:
                hour = (start - life.utc(day, 0)) / SECONDS_PER_HOUR
                outside = season + weather - 4 * np.cos(2 * np.pi * (hour - 4) / 24)
                wanted = (outside - 10) / 16 if name == "air conditioner" else (17 - outside) / 22
                length = period * min(1.0, max(0.0, wanted)) * life.between(0.9, 1.1)
                if length > 60:
                    life.add(name, start, min(length, period), life.powers[name])
                start += period * life.between(1.0, 1.1)


def _means(runs: Iterable[FloatArray], span: tuple[float, float], interval_s: float) -> FloatArray:
    """Return the mean power of all rectangles in every interval [W].

    The energy up to every switch is exact, and between two switches it grows linearly.
    """
    edges = np.arange(span[0], span[1] + interval_s / 2, interval_s)
    rows = np.vstack([np.zeros((1, 3)), *runs])
    times = np.concatenate([rows[:, 0], rows[:, 1]])
    order = np.argsort(times, kind="stable")
    times = times[order]
    power = np.cumsum(np.concatenate([rows[:, 2], -rows[:, 2]])[order])
    energy = np.append(0.0, np.cumsum(power[:-1] * np.diff(times)))
    means: FloatArray = np.diff(np.interp(edges, times, energy)) / interval_s
    return means


def _solar(life: _Life, span: tuple[float, float], interval_s: float, peak_w: float) -> FloatArray:
    """Return the power of solar panels [W]: a bell-shaped curve and other weather on every day."""
    edges = np.arange(span[0], span[1] - interval_s / 2, interval_s)
    offset = utc_offsets(np.array(round(span[0]), "datetime64[s]"), life.zone)
    hours = (edges + offset) / SECONDS_PER_HOUR % 24
    day = ((edges - span[0]) // SECONDS_PER_DAY).astype(np.int64)
    return solar_power(hours, day, peak_w, life.rng)


APPLIANCES = {
    "fridge": (60.0, 150.0),
    "kettle": (2000.0, 3000.0),
    "microwave": (800.0, 1500.0),
    "oven": (2000.0, 3200.0),
    "television": (60.0, 160.0),
    "washing machine": (1850.0, 2300.0),
    "dishwasher": (1800.0, 2300.0),
    "shower": (7000.0, 10_000.0),
    "heat pump": (1000.0, 2500.0),
    "car charger": (6900.0, 7500.0),
    "air conditioner": (900.0, 2500.0),
    "electric heating": (1500.0, 5000.0),
    "storage heater": (2000.0, 5000.0),
    "pool pump": (700.0, 1500.0),
}
"""Smallest and largest power of the appliances that a household can have [W]."""
USES: dict[str, Callable[[_Life, DiaryDay, Stretches], None]] = {
    "kettle": _use_kettle,
    "microwave": _use_microwave,
    "oven": _use_oven,
    "television": _use_television,
    "washing machine": _use_washing_machine,
    "dishwasher": _use_dishwasher,
    "shower": _use_shower,
    "car charger": _use_car,
}
"""How people use each appliance on a day that they spend at home."""
