"""Files in layouts that nobody designed, and a person who follows the reader's advice.

Every choice is random: the language, the words, the separator, the form of the times, which columns
stand beside the meter, where the unit is stated. The words are those of portal_words.toml, which
were taken from public documents of portals. They are not foreign to the reader: 76 out of 100 words
of the generated headers stand in its words.toml too, 94 of the English and 57 of the Swedish ones.
So the generator tests new layouts of mostly known words, and not a language that the reader does
not know.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from hushmeter.errors import HushmeterError
from hushmeter.read import ReadOptions, read_bytes
from hushmeter.read.headers import has_word, load_words, split_words

WORDS = tomllib.loads(Path(__file__).with_name("portal_words.toml").read_text(encoding="utf-8"))
ROUNDS = 3
HEADERS = (
    "stamp", "end", "date", "clock", "drawn", "fed", "made", "tariffs", "price", "other", "meter",
    "quality", "direction", "directions", "unit", "counter",
)  # fmt: skip


@dataclass
class RandomFile:
    """A file, what is true of it, and what a person knows who owns it."""

    text: str
    energy_kwh: float
    interval_s: int
    readings: int
    start: datetime
    facts: dict[str, str] = field(default_factory=dict)
    recipe: dict[str, object] = field(default_factory=dict)


class Maker:
    """Makes one random file."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.language = self.pick(sorted(WORDS))
        self.words = WORDS[self.language]
        self.interval = int(self.pick([900, 1800, 3600, 3600, 86400]))
        days = int(
            self.rng.integers(60, 90) if self.interval == 86400 else self.rng.integers(4, 12)
        )
        self.zone = ZoneInfo(self.words["zone"])
        first = datetime(2023, 1, 1, tzinfo=self.zone) + timedelta(
            days=int(self.rng.integers(0, 60))
        )
        if self.chance(0.25) and self.interval < 86400:
            # Some files run through a change of the clock.
            first = self.pick(
                [datetime(2023, 3, 24, tzinfo=self.zone), datetime(2023, 10, 27, tzinfo=self.zone)]
            )
        last = (first.replace(tzinfo=None) + timedelta(days=days)).replace(tzinfo=self.zone)
        if self.interval == 86400:
            self.starts = [
                (first.replace(tzinfo=None) + timedelta(days=i)).replace(tzinfo=self.zone)
                for i in range(days)
            ]
            self.ends = [*self.starts[1:], last]
        else:
            count = int((last.timestamp() - first.timestamp()) // self.interval)
            moments = [
                first.astimezone(UTC) + timedelta(seconds=self.interval * i)
                for i in range(count + 1)
            ]
            local = [moment.astimezone(self.zone) for moment in moments]
            self.starts, self.ends = local[:-1], local[1:]
        self.unit = self.pick(["kWh", "kWh", "kWh", "Wh", "kW", "W"])
        hours = self.interval / 3600
        self.kwh = np.round(self.rng.gamma(1.2, 0.4, len(self.starts)) * hours + 0.02 * hours, 3)
        self.kwh[self.rng.random(self.kwh.size) < 0.02] = 0.0
        scale = {"kWh": 1.0, "Wh": 1e3, "kW": 1 / hours, "W": 1e3 / hours}[self.unit]
        self.digits = {"kWh": 3, "Wh": 0, "kW": 4, "W": 1}[self.unit]
        self.values = np.round(self.kwh * scale, self.digits)
        self.energy = float(self.values.sum() / scale)
        self.recipe = {"language": self.language, "unit": self.unit, "interval": self.interval}

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def number(self, value: float, digits: int | None = None) -> str:
        text = f"{value:.{self.digits if digits is None else digits}f}"
        return text.replace(".", self.mark)

    def headed(self, word: str) -> str:
        """A header with the unit, where the file states it there."""
        if self.place != "header":
            return word
        form = self.pick(["{} ({})", "{} [{}]", "{} {}", "{}_{}", "{} in {}"])
        return form.format(word, self.unit)

    def times(self) -> dict[str, list[str]]:
        """The columns of the times."""
        dates = self.pick(self.words["dates"])
        form = self.pick(
            ["local", "local", "offset", "columns", "both", "unix", "weekday", "end", "range"]
        )
        if self.interval == 86400:
            form = self.pick(["date", "date", "weekday-date"])
        elif "columns" in self.layout:
            form = "columns"
        self.recipe["times"] = form
        clock = self.pick(["%H:%M", "%H:%M:%S"])
        if self.language == "English" and self.chance(0.3):
            clock = "%I:%M %p"
        name = self.pick(self.words["stamp"])
        self.aware = form in ("offset", "unix")
        if form == "local":
            return {name: [t.strftime(f"{dates} {clock}") for t in self.starts]}
        if form == "offset":
            return {name: [t.isoformat() for t in self.starts]}
        if form == "unix":
            name = self.pick(["unix", "timestamp", "epoch"])
            scale = self.pick([1, 1000])
            return {name: [str(int(t.timestamp()) * scale) for t in self.starts]}
        if form == "both":
            return {
                name: [t.strftime(f"{dates} {clock}") for t in self.starts],
                self.pick(self.words["end"]): [t.strftime(f"{dates} {clock}") for t in self.ends],
            }
        if form == "end":
            return {
                self.pick(self.words["end"]): [t.strftime(f"{dates} {clock}") for t in self.ends]
            }
        if form == "range":
            span = [f"{a:%H:%M} - {b:%H:%M}" for a, b in zip(self.starts, self.ends, strict=True)]
            return {
                self.pick(self.words["date"]): [t.strftime(dates) for t in self.starts],
                self.pick(self.words["clock"]): span,
            }
        day = [self.words["weekdays"][t.weekday()] for t in self.starts]
        if form == "weekday":
            return {
                name: [
                    f"{d} {t.strftime(f'{dates} {clock}')}"
                    for d, t in zip(day, self.starts, strict=True)
                ]
            }
        if form == "weekday-date":
            return {
                name: [f"{d} {t.strftime(dates)}" for d, t in zip(day, self.starts, strict=True)]
            }
        if form == "date":
            return {self.pick(self.words["date"]): [t.strftime(dates) for t in self.starts]}
        date, hour = self.pick(self.words["date"]), self.pick(self.words["clock"])
        return {
            date: [t.strftime(dates) for t in self.starts],
            hour: [t.strftime(clock) for t in self.starts],
        }

    def beside(self) -> dict[str, list[str]]:
        """Columns that are not the meter."""
        n, columns = len(self.starts), {}
        hours = self.interval / 3600
        if self.chance(0.35):
            columns[self.headed(self.pick(self.words["fed"]))] = [
                self.number(v) for v in self.rng.gamma(1, 0.2, n) * hours
            ]
        if self.chance(0.15) and "fed" not in self.recipe:
            columns[self.headed(self.pick(self.words["made"]))] = [
                self.number(v) for v in self.rng.gamma(1, 0.3, n) * hours
            ]
        if self.chance(0.2):
            columns[self.pick(self.words["price"])] = [
                self.number(v, 4) for v in self.rng.random(n)
            ]
        if self.chance(0.2):
            columns[self.pick(self.words["other"])] = [
                self.number(v, 1) for v in 20 * self.rng.random(n)
            ]
        if self.chance(0.25):
            columns[self.pick(self.words["meter"])] = [str(self.rng.integers(10**7, 10**8))] * n
        if self.chance(0.25):
            columns[self.pick(self.words["quality"])] = [
                self.pick(self.words["qualities"]) for _ in range(n)
            ]
        return columns

    def make(self) -> RandomFile:
        self.layout = self.pick(
            ["plain", "plain", "plain", "tariffs", "rows", "counter", "days", "json"]
        )
        if self.interval == 86400 and self.layout == "days":
            self.layout = "plain"
        if self.unit in ("kW", "W") and self.layout in ("tariffs", "counter"):
            self.layout = "plain"
        self.recipe["layout"] = self.layout
        self.mark = self.words["decimal"] if self.layout != "json" else "."
        self.place = self.pick(["header", "header", "column", "nowhere"])
        if self.layout in ("days", "json"):
            self.place = "nowhere"
        self.recipe["place"] = self.place
        self.facts = {"unit": self.unit} if self.place == "nowhere" else {}
        if self.layout == "days":
            return self.days()
        columns, count = self.times(), len(self.starts)
        if not self.aware:
            self.facts["tz"] = self.words["zone"]
        columns.update(self.meter())
        others = self.beside()
        columns.update({name: cells for name, cells in others.items() if name not in columns})
        if self.place == "column":
            columns[self.pick(self.words["unit"])] = [self.unit] * count
        missing = sorted(
            self.rng.choice(count, int(self.rng.integers(0, 3)), replace=False).tolist()
        )
        if self.layout == "counter":
            missing = []
        rows = [list(cells) for cells in zip(*columns.values(), strict=True)]
        kept = [row for i, row in enumerate(rows) if i not in missing]
        energy, readings = self.energy, count - len(missing)
        if self.layout == "counter":
            late = self.recipe["times"] == "end"
            energy, readings = float((self.kwh[1:] if late else self.kwh[:-1]).sum()), count - 1
            self.starts = self.starts[1:] if late else self.starts
        elif missing:
            energy -= (
                float(self.values[missing].sum())
                * self.energy
                / max(float(self.values.sum()), 1e-9)
            )
        start = (
            self.starts[0]
            if 0 not in missing
            else self.starts[next(i for i in range(count) if i not in missing)]
        )
        if self.layout == "rows":
            return self.rows(list(columns), kept, energy, readings, start)
        if self.layout == "json":
            return self.json(list(columns), kept, energy, readings, start)
        return self.table(list(columns), kept, energy, readings, start)

    def meter(self) -> dict[str, list[str]]:
        if self.layout == "tariffs":
            names = self.pick(self.words["tariffs"])
            first = (
                np.array([7 <= t.hour < 23 for t in self.starts])
                if self.interval < 86400
                else self.rng.random(len(self.starts)) < 0.5
            )
            zero = self.number(0.0) if self.chance(0.5) else ""
            parts = (first, ~first)
            names = [self.headed(name) for name in names] if self.chance(1.0) else names
            self.facts["value_column"] = "+".join(names)
            return {
                name: [
                    self.number(v) if on else zero for v, on in zip(self.values, part, strict=True)
                ]
                for name, part in zip(names, parts, strict=True)
            }
        if self.layout == "counter":
            name = self.headed(self.pick(self.words["counter"]))
            level = np.round(
                1234.5 * (1000 if self.unit == "Wh" else 1)
                + np.cumsum(np.append(0, self.values[:-1])),
                self.digits,
            )
            if self.recipe["times"] == "end":
                # A register that is read at the end of an interval includes it.
                level = np.round(level + self.values, self.digits)
            self.facts.update(value_column=name, counter="yes")
            return {name: [self.number(v) for v in level]}
        name = self.headed(self.pick(self.words["drawn"]))
        self.facts["value_column"] = name
        return {name: [self.number(v) for v in self.values]}

    def table(self, names, rows, energy, readings, start) -> RandomFile:
        delimiter = self.pick([";", "\t", "|"] + ([","] if self.mark == "." else [";"]))
        lines = [delimiter.join(names)] + [delimiter.join(row) for row in rows]
        if self.chance(0.3):
            above = [self.pick(self.words["preamble"]) for _ in range(int(self.rng.integers(1, 4)))]
            lines = [
                *([""] if self.chance(0.3) else []),
                *above,
                *([""] if self.chance(0.5) else []),
                *lines,
            ]
        if self.chance(0.2):
            lines.append(delimiter.join([self.words["total"], *[""] * (len(names) - 1)]))
        end = self.pick(["\n", "\r\n"])
        return RandomFile(
            end.join(lines) + end, energy, self.interval, readings, start, self.facts, self.recipe
        )

    def rows(self, names, rows, energy, readings, start) -> RandomFile:
        """One row for what was drawn and one for what was fed in, told apart by a column."""
        column, words = self.pick(self.words["direction"]), self.words["directions"]
        place = names.index(self.facts["value_column"])
        both = []
        for row in rows:
            fed = list(row)
            fed[place] = self.number(float(self.rng.gamma(1, 0.1)))
            both += [[*row, words[0]], [*fed, words[1]]]
        self.facts["register"] = words[0]
        return self.table([*names, column], both, energy, readings, start)

    def json(self, names, rows, energy, readings, start) -> RandomFile:
        def plain(text):
            return float(text) if re.fullmatch(r"-?\d+\.?\d*", text) else text

        records = [{n: plain(c) for n, c in zip(names, row, strict=True)} for row in rows]
        whole = records if self.chance(0.5) else {"data": {"readings": records}}
        return RandomFile(
            json.dumps(whole), energy, self.interval, readings, start, self.facts, self.recipe
        )

    def days(self) -> RandomFile:
        """One row for each day; the days on which the clock is changed are left out."""
        per_day = 86400 // self.interval
        days: dict[str, list[int]] = {}
        for i, moment in enumerate(self.starts):
            days.setdefault(moment.strftime("%Y-%m-%d"), []).append(i)
        whole = {day: places for day, places in days.items() if len(places) == per_day}
        dates, form = self.pick(self.words["dates"]), self.pick(["%H:%M", "range", "number"])
        clocks = [
            datetime(2023, 1, 1) + timedelta(seconds=self.interval * i) for i in range(per_day)
        ]
        heads = {
            "%H:%M": [f"{c:%H:%M}" for c in clocks],
            "range": [f"{c:%H:%M} - {c + timedelta(seconds=self.interval):%H:%M}" for c in clocks],
            "number": [f"{self.pick(['H', ''])}{i + 1}" for i in range(per_day)],
        }[form]
        if form == "number":
            heads = [f"H{i + 1}" for i in range(per_day)]
        names = [self.pick(self.words["date"]), *heads]
        rows = [
            [self.starts[p[0]].strftime(dates), *(self.number(self.values[i]) for i in p)]
            for p in whole.values()
        ]
        used = [i for places in whole.values() for i in places]
        self.facts.update(tz=self.words["zone"], unit=self.unit)
        self.recipe["heads"] = form
        energy = float(self.values[used].sum() * self.energy / self.values.sum())
        start = self.starts[used[0]]
        return self.table(names, rows, energy, len(used), start)


def follow(made: RandomFile) -> tuple[str, str]:
    """What comes of a file whose owner states what it leaves open, and then follows the advice."""
    flags = {name: made.facts[name] for name in ("tz", "unit") if name in made.facts}
    sentence = ""
    name = "file.json" if made.text.startswith(("{", "[")) else "file.csv"
    for _ in range(ROUNDS + 1):
        try:
            found = read_bytes(made.text.encode(), name, ReadOptions(**flags))
        except HushmeterError as error:
            sentence = str(error)
            asked = re.findall(r"`(\w+)=", sentence)
            answers = {
                a: made.facts[a] for a in asked if a in made.facts and made.facts[a] != flags.get(a)
            }
            if not answers:
                return "refused", sentence
            flags.update([next(iter(answers.items()))])
            continue
        return judge(made, found), "; ".join(found.notes)
    return "refused", sentence


def judge(made: RandomFile, found) -> str:
    """Return "right", or what is wrong."""
    trace, wrong = found.trace, []
    if trace.interval_s != made.interval_s:
        wrong.append(f"interval {trace.interval_s}")
    if abs(len(trace) - made.readings) > max(1, 0.01 * made.readings):
        wrong.append(f"{len(trace)} readings, not {made.readings}")
    if abs(trace.energy_kwh - made.energy_kwh) > 0.005 * made.energy_kwh + 0.01:
        wrong.append(f"{trace.energy_kwh:.3f} kWh, not {made.energy_kwh:.3f}")
    off = float(
        (trace.start - np.datetime64(made.start.astimezone(UTC).replace(tzinfo=None), "ns"))
        / np.timedelta64(1, "s")
    )
    if abs(off) > 0.01 * made.interval_s:
        wrong.append(f"start {off / 3600:+.2f} h off")
    return "wrong: " + ", ".join(wrong) if wrong else "right"


def known_words(languages) -> float:
    """Share of the words of the headers of some languages that stand in the reader's own lists."""
    words = {
        word
        for language in languages
        for part in HEADERS
        for text in np.ravel(WORDS[language][part])
        for word in split_words(str(text))
        if word[0].isalpha()
    }
    return float(np.mean([has_word(word, *load_words()["words"]) for word in words]))


def random_file(seed: int) -> RandomFile:
    """The file of a seed."""
    return Maker(seed).make()


__all__ = ["RandomFile", "follow", "io", "random_file"]
