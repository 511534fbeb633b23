"""How often each threat is right about a household, by release and data set.

`python -m experiments threats` prints the table; `--save` writes it into docs/threats.md. ECO and
CityLearn are read from the folder HUSHMETER_DATA (or ../shared/data) and the folder `occupancy`
beside it, and left out where they are absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import hushmeter as hm
from experiments.lone_meter import data_folder
from hushmeter.checks import FloatArray, IntArray
from hushmeter.learn.habits import clean
from hushmeter.learn.rhythm import Days, best_hours, cut_days, find_rhythm
from hushmeter.synth import Household
from hushmeter.threat import Identity, Membership, Presence, Rating, rate, rate_order
from hushmeter.trace import Trace

PAGE = Path(__file__).parents[1] / "docs" / "threats.md"
BEGIN = "<!-- threats: written by `python -m experiments threats --save` -->\n"
END = "<!-- end of threats -->\n"
NOISES_W = (220.0, 469.0, 940.0)
"""Noise of hours: half of, as much as, and twice that which hides a kettle at 60:40 [W]."""
MONTHS = "months"
"""Sums of months: they have no hours and no days, so that only the identity is scored."""
Release = tuple[str, Callable[[Trace, int], tuple[Trace, float]]]


def with_noise(noise_w: float) -> Callable[[Trace, int], tuple[Trace, float]]:
    """Return a release of hours with Gaussian noise."""

    def release(trace: Trace, seed: int) -> tuple[Trace, float]:
        noise = np.random.default_rng(seed).normal(0, noise_w, len(trace))
        return trace.replace_readings(trace.readings + noise), noise_w

    return release


def as_days(trace: Trace, _: int) -> tuple[Trace, float]:
    """Exact means of days, which are all that an attacker sees of an hour."""
    dates = trace.times.astype("datetime64[D]").astype(np.int64)
    place = np.unique(dates, return_inverse=True)[1]
    means = np.bincount(place, trace.readings) / np.bincount(place)
    return trace.replace_readings(means[place]), 0.0


def as_calendar(trace: Trace, seed: int) -> tuple[Trace, float]:
    """Hours, days, months and the typical day that hide a kettle at 60:40."""
    request = hm.Request(hide="kettle", tables=("views",))
    done = request.resolve(hm.metered(trace, "UTC")).release(trace, rng=seed)
    return done.trace, float(np.sqrt((done.view("hours").errors ** 2).mean()))


def as_restored(trace: Trace, seed: int) -> tuple[Trace, float]:
    """Hours that hide a kettle at 60:40, restored."""
    request = hm.Request(hide="kettle")
    done = hm.restore(request.resolve(hm.metered(trace, "UTC")).release(trace, rng=seed))
    return done.trace, 0.0


RELEASES: tuple[Release, ...] = (
    ("raw", lambda trace, _: (trace, 0.0)),
    *((f"hours ± {noise:.0f} W", with_noise(noise)) for noise in NOISES_W),
    ("calendar (kettle)", as_calendar),
    ("restored (kettle)", as_restored),
    ("days", as_days),
)


def occupancy(folder: Path) -> tuple[Trace, IntArray]:
    """Hourly mains of ECO house 2 on its local clock, and presence by hour of the day."""
    table = pd.read_csv(folder / "eco_mains_15min.csv")
    local = pd.to_datetime(table.timestamp, utc=True).dt.tz_convert("Europe/Zurich")
    hours = local.dt.tz_localize(None).dt.floor("h")
    found = table.groupby(hours).agg(watts=("watts", "mean"), present=("occupied", "mean"))
    times = found.index.to_numpy().astype("datetime64[h]")
    steps = (times - times[0]).astype(np.int64)
    trace = Trace(found.watts.to_numpy(), 3600, times[0], steps=steps)
    return trace, (found.present.to_numpy() >= 0.5).astype(np.int64)


def to_days(trace: Trace, noise_w: float, answers: IntArray) -> tuple[Days, IntArray]:
    """Days from 04:00 of hours on the local clock, and their answers; −1 where unknown."""
    hours = trace.times.astype("datetime64[h]").astype(np.int64) - 4
    dates, place = np.unique(hours // 24, return_inverse=True)
    watts = np.full((dates.size, 24), np.nan)
    known = np.full((dates.size, 24), -1, np.int64)
    watts[place, hours % 24], known[place, hours % 24] = trace.readings, answers
    noise = np.full(watts.shape, noise_w)
    return Days(3600, dates, watts, np.zeros(watts.shape), noise), known


def measure_presence(folder: Path, seeds: int) -> Iterator[tuple[str, str, str, Rating]]:
    """Score presence on ECO, with labels of all other days and without labels."""
    trace, answers = occupancy(folder)
    for name, release in RELEASES:
        labelled, blind, truth = [], [], []
        for seed in range(seeds if name not in ("raw", "days") else 1):
            seen, noise = release(trace, seed)
            days, known = to_days(seen, noise, answers)
            blind.append(Presence().predict(days))
            labelled.append(leave_one_day_out(days, known))
            truth.append(known)
        rows = np.tile(np.arange(len(truth[0])), len(truth))
        guess = _hourly_guess(truth[0])
        for kind, found in (("with labels", labelled), ("without labels", blind)):
            rating = rate(np.concatenate(found), np.concatenate(truth), floor=guess, blocks=rows)
            yield f"presence per hour, {kind}", "ECO house 2", name, rating


def leave_one_day_out(days: Days, known: IntArray) -> FloatArray:
    """Probabilities of every day from an attacker who knows the labels of all others."""
    rows = np.arange(len(days))
    parts = [
        Presence().fit(days.take(rows != d), known[rows != d]).predict(days.take(rows == d))
        for d in rows
    ]
    return np.concatenate(parts)


def _hourly_guess(known: IntArray) -> float:
    """Share of right answers of the more frequent answer by hour, from all other days."""
    right = total = 0
    for day in range(len(known)):
        others = np.delete(known, day, axis=0)
        present = (others == 1).sum(axis=0) >= (others == 0).sum(axis=0)
        counted = known[day] >= 0
        right += int((present == (known[day] == 1))[counted].sum())
        total += int(counted.sum())
    return right / total


def measure_habits(homes: int, seeds: int) -> Iterator[tuple[str, str, str, Rating]]:
    """Score days away and the first use of working days on simulated households."""
    lives = [hm.synth.household(days=56, interval_s=3600, seed=5000 + s) for s in range(homes)]
    for name, release in RELEASES:
        if name == "days":
            # Equal hours are those of a silent meter; `what_is_left` judges sums of days.
            continue
        away, truth, place, right = [], [], [], []
        for number, home in enumerate(lives):
            for seed in range(seeds if name not in ("raw", "days") else 1):
                seen, noise = release(home.trace, 100 * number + seed)
                days = cut_days(clean(seen, home.zone, noise))
                found = find_rhythm(days)
                is_away = {d.date.toordinal() - 719_163 for d in home.diary.days if d.away}
                away.append(found.away)
                truth.append(np.isin(days.dates, list(is_away)).astype(np.int64))
                place.append(np.full(len(days), number))
                hour = best_hours(found).get(("first", True))
                right.append((number, hour is not None and abs(hour.hour - _wake(home)) <= 1))
        blocks = np.concatenate(place)
        yield (
            "days away (area under the curve)", f"{homes} simulated homes", name,
            rate_order(np.concatenate(away), np.concatenate(truth), blocks=blocks),
        )  # fmt: skip
        numbers, hits = np.array(right).T
        chances = np.stack([1 - hits, hits], axis=1).astype(float)
        rating = rate(
            chances, np.ones(hits.size, np.int64), floor=_wake_floor(lives), blocks=numbers
        )
        yield "first use within 1 h", f"{homes} simulated homes", name, rating


def _wake(home: Household) -> float:
    """Median time at which people get up on working days [h]."""
    lived = [d.wake for d in home.diary.days if d.wake is not None and d.date.weekday() < 5]
    return float(np.median(lived))


def _wake_floor(homes: list[Household]) -> float:
    """Share of homes within 1 h of the median of the other homes."""
    hours = np.array([_wake(home) for home in homes])
    others = np.array([np.median(np.delete(hours, k)) for k in range(hours.size)])
    return float((np.abs(hours - others) <= 1).mean())


def measure_identity(folder: Path, seeds: int) -> Iterator[tuple[str, str, str, Rating]]:
    """Score which of 15 homes a week belongs to, with eight earlier weeks known."""
    table = pd.read_parquet(folder / "homes/citylearn2022_fontana_17homes_1h_1year.parquet")
    names = [c for c in table.columns[3:] if c not in ("home_12", "home_15")]
    weeks = 1000 * table[names].to_numpy(np.float64).T[:, : 52 * 168].reshape(-1, 52, 7, 24)
    homes = np.arange(len(names))
    for name, release in RELEASES:
        found, truth = [], []
        for week in range(8, 52, 3):
            for seed in range(seeds if name not in ("raw", "days") else 1):
                traces = [Trace(w.ravel(), 3600, "2022-08-01T00:00Z") for w in weeks[:, week]]
                seen = [release(trace, 1000 * seed + h) for h, trace in enumerate(traces)]
                known = weeks[:, week - 8 : week].reshape(-1, 7, 24)
                if name == "days":
                    known = np.broadcast_to(known.mean(axis=2, keepdims=True), known.shape)
                attacker = Identity().knows(seen[0][1]).fit(known, np.repeat(homes, 8))
                values = np.stack([trace.readings.reshape(7, 24) for trace, _ in seen])
                found.append(attacker.predict(values))
                truth.append(homes)
        yield "identity of a week", "15 homes of CityLearn", name, _rate_homes(found, truth)
    months = weeks.reshape(-1, 13, 4 * 168).mean(axis=2)
    found, truth = [], []
    for month in range(2, 13):
        known, values = (
            np.broadcast_to(means.reshape(-1, 1, 1), (means.size, 7, 24))
            for means in (months[:, month - 2 : month], months[:, month])
        )
        found.append(Identity().fit(known, np.repeat(homes, 2)).predict(values))
        truth.append(homes)
    yield "identity of a week", "15 homes of CityLearn", MONTHS, _rate_homes(found, truth)


def _rate_homes(found: list[FloatArray], truth: list[IntArray]) -> Rating:
    """Score the homes named by an attacker, with an interval over homes."""
    blocks = np.concatenate(truth)
    return rate(np.concatenate(found), blocks, floor=1 / found[0].shape[1], blocks=blocks)


def measure_membership(folder: Path) -> Iterator[tuple[str, str, str, Rating]]:
    """Score whether a home is in the hourly sum of five, by one day."""
    table = pd.read_parquet(folder / "homes/citylearn2022_fontana_17homes_1h_1year.parquet")
    names = [c for c in table.columns[3:] if c not in ("home_12", "home_15")]
    days = 1000 * table[names].to_numpy(np.float64).T[:, : 364 * 24].reshape(-1, 364, 24)
    for name, noise in (("raw", 0.0), *((f"hours ± {n:.0f} W", n) for n in NOISES_W)):
        found, truth, place = [], [], []
        rng = np.random.default_rng(1)
        for target in range(len(names)):
            others = [h for h in range(len(names)) if h != target]
            # The attacker knows seven homes; the sums are of the other seven.
            known, summed = others[::2], others[1::2]
            attacker = (
                Membership(5).knows(noise).fit(days[known].reshape(-1, 24), np.repeat(known, 364))
            )
            chosen = np.arange(3, 364, 7)
            total = sum(days[h][chosen] for h in summed[:4])
            for inside, fifth in ((1, target), (0, summed[4])):
                noisy = total + days[fifth][chosen] + rng.normal(0, noise, (chosen.size, 24))
                values = np.stack([noisy, days[target][chosen]], axis=1)[:, :, None]
                found.append(attacker.predict(values)[:, 1])
                truth.append(np.full(chosen.size, inside))
                place.append(np.full(chosen.size, target))
        blocks = np.concatenate(place)
        rating = rate_order(np.concatenate(found), np.concatenate(truth), blocks=blocks)
        yield "membership of a day in a sum of five", "15 homes of CityLearn", name, rating


def make_table(*, homes: int = 16, seeds: int = 3) -> pd.DataFrame:
    """Return one row for every threat, data set and release."""
    rows: list[tuple[str, str, str, Rating]] = []
    folder = data_folder()
    if folder is not None:
        rows += measure_presence(folder.parent / "occupancy", seeds)
        rows += measure_identity(folder, 1)
        rows += measure_membership(folder)
    rows += measure_habits(homes, 1)
    return pd.DataFrame(rows, columns=["threat", "data", "release", "rating"])


def markdown(table: pd.DataFrame) -> str:
    """Return the table with one column for every release."""
    names = [*(name for name, _ in RELEASES), MONTHS]
    lines = [
        "| threat, data | " + " | ".join(names) + " | guess |",
        "|---" * (len(names) + 2) + "|",
    ]
    for (threat, data), part in table.groupby(["threat", "data"], sort=False):
        cells = dict(zip(part.release, part.rating, strict=True))
        texts = [
            f"{r.share:.2f} ({r.low:.2f}–{r.high:.2f})" if (r := cells.get(n)) else "–"
            for n in names
        ]
        floor = part.rating.iloc[0].floor
        lines.append(f"| {threat}, {data} | " + " | ".join(texts) + f" | {floor:.2f} |")
    return "\n".join(lines) + "\n"


def write_page(text: str) -> None:
    """Write the table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
