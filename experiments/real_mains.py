"""A benchmark of attackers on the real mains of homes: attackers × homes × noise × interval.

Most of the load of real mains is unmetered. The benchmark learns each home, and the rule that
decides when a circuit is on, from the first part of its readings, and attacks the rest. Nothing is
chosen on the part that is attacked, and no attacker knows the state at the first reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.apps.nilm.strongest import Strongest
from hushmeter.apps.plot import BLUE, GREEN, GREY, ORANGE, RED, new_figure, save_figure
from hushmeter.apps.study.figures import busiest_circuits, label_circuits
from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.checks import one_of, whole
from hushmeter.errors import DataError, HushmeterError
from hushmeter.files import write_table, write_text
from hushmeter.formatting import short_duration
from hushmeter.home import Home
from hushmeter.learn.homes import learn_home
from hushmeter.noise import Laplace
from hushmeter.read import read_home_recording
from hushmeter.scoring import bootstrap_intervals, score
from hushmeter.trace import SECONDS_PER_DAY, Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ATTACKERS = (
    "all-off", "one-shot", "multi-shot", "hierarchical", "co", "ip", "alip", "fhmm", "sparse-hmm",
    "bayes", "trees", "rnn", "strongest",
)  # fmt: skip
"""Attackers of the benchmark by default: all that learn a home within two minutes."""

PARAMETERS: Mapping[str, Mapping[str, Any]] = {"rnn": {"settings": {"most_readings": 20_000}}}
"""Parameters of attackers that are not the default ones: on all readings of a year, the recurrent
network would learn for half an hour."""

NOISE = ("none", "100 W", "P/10", "P/3", "P/1")
"""Scales of the Laplace noise; P is the power of the largest appliance of the home."""

TRAINING = 0.7
"""Share of the readings of a home that attackers learn from."""

MOST_CIRCUITS = 8
"""Largest number of circuits of a home: those that switch and use most energy."""

LEAST_DAYS = 10
"""Shortest recording that is used. [days]"""

LONGEST_INTERVAL_S = 60.0
"""Longest interval of a recording that is used. [s]"""


STYLES = {
    "all-off": (GREY, "--"),
    "fhmm": (GREEN, ":"),
    "sparse-hmm": (RED, ":"),
    "bayes": (ORANGE, "-"),
    "trees": (BLUE, "-"),
    "strongest": (RED, "-"),
}
"""Colour and line of the attackers that the figure names; the others are thin grey lines."""


LOWEST_GAIN = -0.15
"""Lower end of the axis of α minus its floor."""


@dataclass(frozen=True)
class MainsHome:
    """A home of the benchmark: training part, attacked part and largest power of an appliance."""

    name: str
    home: Home
    train: Trace
    test: Trace
    largest: float


def prepare_homes(folder: Path, every_s: float, readings: int | None = None) -> Iterator[MainsHome]:
    """Find the homes with real mains in a folder."""
    for name, trace in find_recordings(folder):
        yield _prepare(name, trace, every_s, readings)


def find_recordings(folder: Path) -> Iterator[tuple[str, Trace]]:
    """Find the recordings of a folder that the benchmark uses."""
    for path in sorted([*folder.glob("*.parquet"), *folder.glob("*/*.parquet")]):
        try:
            recording = read_home_recording(path)
        except HushmeterError:
            continue
        trace = recording.trace
        days = len(trace) * trace.interval_s / SECONDS_PER_DAY
        metered = recording.mains == "metered" and trace.power is not None
        if metered and trace.interval_s <= LONGEST_INTERVAL_S and days >= LEAST_DAYS:
            yield path.stem, drop_silent_days(trace)


def drop_silent_days(trace: Trace) -> Trace:
    """Return the readings without the days (UTC) on which the meter reports a single value."""
    days = trace.times.astype("datetime64[D]").astype(np.int64)
    _, place = np.unique(days, return_inverse=True)
    lowest, highest = np.full((2, place.max() + 1), np.inf) * np.array([[1], [-1]])
    np.minimum.at(lowest, place, trace.readings)
    np.maximum.at(highest, place, trace.readings)
    rows = np.flatnonzero((highest > lowest)[place])
    if rows.size == 0:
        raise DataError("the meter reports a single value on every day.")
    return trace if rows.size == len(trace) else trace.select(rows)


def _prepare(name: str, moving: Trace, every_s: float, readings: int | None) -> MainsHome:
    """Learn the home from the first part, and label the rest with the same thresholds."""
    fine = min(every_s, LONGEST_INTERVAL_S)
    minutes = moving if moving.interval_s >= fine else moving.coarsen(fine)
    cut = int(TRAINING * len(minutes))
    train, rest = minutes[:cut], minutes[cut:]
    circuits = busiest_circuits(train, learn_home(train), MOST_CIRCUITS)
    learnt = learn_home(train, appliances=circuits, name=name)
    test = label_circuits(rest, learnt)
    labelled = learnt.trace
    if every_s > LONGEST_INTERVAL_S:
        labelled, test = (part.coarsen(every_s, on="any") for part in (labelled, test))
    test = test if readings is None else test[:readings]
    return MainsHome(name, learnt.home, labelled, test, float(learnt.home.powers.max()))


def run_benchmark(
    folder: Path,
    *,
    names: Sequence[str] = ATTACKERS,
    intervals: Sequence[float] = (60.0,),
    noise: Sequence[str] = NOISE,
    seeds: int = 3,
    training_seeds: int = 2,
    readings: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """Run attackers on the real mains of every home in a folder (`intervals` [s])."""
    import pandas as pd

    whole("seeds", seeds)
    for level in noise:
        one_of("noise", level, NOISE)
    rows = []
    for every_s in intervals:
        for case in prepare_homes(folder, every_s, readings):
            rows += attack_home(case, names, noise, seeds, training_seeds, note)
    if not rows:
        raise DataError(
            f"{folder} has no recording with metered mains and circuits, of at least {LEAST_DAYS} "
            "days and an interval of at most 1 min."
        )
    return pd.DataFrame(rows)


def _has_seed(name: str) -> bool:
    return "seed" in signature(attackers[name]).parameters


@dataclass(frozen=True)
class Fitted:
    """An attacker that has learnt a home, and the processor time [s] that this took."""

    attacker: Attacker
    training_s: float


def attack_home(
    case: MainsHome,
    names: Sequence[str],
    noise: Sequence[str] = NOISE,
    seeds: int = 3,
    training_seeds: int = 2,
    note: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Let attackers learn one home, and attack it with every noise."""
    rows: list[dict[str, Any]] = []
    for name in names:
        for seed in range(training_seeds if _has_seed(name) else 1):
            note(f"{case.name}: {name}")
            rows += _attack(case, name, seed, _fit(case, name, seed), noise, seeds)
    return rows


def _fit(case: MainsHome, name: str, seed: int) -> Fitted:
    """Let one attacker learn."""
    given = {"seed": seed} if _has_seed(name) else {}
    made = attackers[name](case.home, **given, **PARAMETERS.get(name, {}))
    before = time.process_time()
    made.fit(case.train)
    return Fitted(made, time.process_time() - before)


def _attack(
    case: MainsHome,
    name: str,
    seed: int,
    fitted: Fitted,
    noise: Sequence[str],
    seeds: int,
) -> list[dict[str, Any]]:
    """Attack the home with every noise."""
    attacker = fitted.attacker
    rows = []
    for level in noise:
        scale = noise_scale(level, case.largest)
        for draw in range(seeds if scale else 1):
            mechanism = Laplace(1.0, scale, grid=1.0) if scale else None
            noisy = case.test
            if mechanism is not None:
                added = mechanism.sample(len(noisy), rng=1000 + draw) * mechanism.grid
                noisy = noisy.replace_readings(noisy.readings + added)
            informed = attacker.knows(mechanism)
            states = informed.predict(noisy, rng=draw)
            found, spread = score(states, case.test), bootstrap_intervals(states, case.test)
            rows.append(
                {
                    "home": case.name,
                    "interval_s": case.test.interval_s,
                    "attacker": name,
                    "training_seed": seed,
                    "noise": level,
                    "scale_w": scale,
                    "noise_seed": draw,
                    "alpha": found.alpha,
                    "alpha_floor": found.alpha_floor,
                    "alpha_low": spread["alpha"][0],
                    "alpha_high": spread["alpha"][1],
                    "f1": found.f1,
                    "f1_low": spread["f1"][0],
                    "f1_high": spread["f1"][1],
                    "training_s": fitted.training_s,
                    "chosen": informed.choose().name if isinstance(informed, Strongest) else "",
                }
            )
    return rows


def noise_scale(level: str, largest: float) -> float:
    """Return the scale of Laplace noise [W] of an entry of `NOISE`; zero for none."""
    if level == "none":
        return 0.0
    return 100.0 if level == "100 W" else largest / float(level.partition("/")[2])


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds per home, interval, attacker and noise.

    The limits of F1 are means too: those of one release and one training. `f1_spread` is the
    difference between the largest and the smallest F1 of all seeds.
    """
    keys = ["home", "interval_s", "attacker", "noise"]
    values = ["alpha", "alpha_floor", "f1", "f1_low", "f1_high", "training_s"]
    groups = table.groupby(keys, sort=False)
    means = groups[values].mean()
    means["f1_spread"] = groups.f1.max() - groups.f1.min()
    return means.reset_index()


def draw_benchmark(table: pd.DataFrame) -> Figure:
    """Draw F1 and α minus its floor against the noise, as means over the homes with their range.

    Every interval is one row of panels. Where α is more than `LOWEST_GAIN` below its floor, the
    line leaves the panel, which says so.
    """
    means = summarise(table)
    means["gain"] = means.alpha - means.alpha_floor
    intervals = list(dict.fromkeys(means.interval_s))
    figure = new_figure(10, 1.2 + 3.4 * len(intervals))
    panels = figure.subplots(len(intervals), 2, squeeze=False)
    for row, interval in zip(panels, intervals, strict=True):
        part = means[means.interval_s == interval]
        homes = part.home.nunique()
        row[0].set_title(
            f"{short_duration(float(interval))}: mean and range over {homes} "
            f"home{'s' * (homes > 1)}",
            loc="left",
        )
        for axis, column in zip(row, ("f1", "gain"), strict=True):
            _draw_panel(axis, part, column)
        row[0].set_ylabel("macro F1")
        row[1].set_ylabel("α above “everything off”")
        row[1].axhline(0.0, color="0.3", linewidth=0.8)
        if row[1].get_ylim()[0] < LOWEST_GAIN:
            row[1].set_ylim(bottom=LOWEST_GAIN)
            row[1].set_title(f"lines below {LOWEST_GAIN:g} are cut off", loc="right", fontsize=8)
    for axis in panels[-1]:
        axis.set_xlabel("scale of the Laplace noise (P: largest appliance)")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_panel(axis: Axes, means: pd.DataFrame, column: str) -> None:
    """Draw one column of all attackers at one interval."""
    levels = list(dict.fromkeys(means.noise))
    for name in dict.fromkeys(means.attacker):
        part = means[means.attacker == name].groupby("noise", sort=False)[column]
        found = part.agg(["mean", "min", "max"]).loc[levels]
        if name not in STYLES:
            axis.plot(levels, found["mean"], color="0.7", linewidth=0.8, zorder=1)
            continue
        colour, style = STYLES[name]
        axis.plot(levels, found["mean"], style, marker="o", color=colour, label=name)
        axis.fill_between(levels, found["min"], found["max"], color=colour, alpha=0.08)
    if not set(means.attacker) <= set(STYLES):
        axis.plot([], [], color="0.7", linewidth=0.8, label="other attackers")
    axis.grid(alpha=0.3)


def save_benchmark(table: pd.DataFrame, folder: Path, *, force: bool = False) -> list[Path]:
    """Write real-mains.parquet, .csv (means), .png, .svg and .md into a folder."""
    means = summarise(table)
    columns = {str(name): means[name].to_numpy() for name in means}
    drawn = save_figure(draw_benchmark(table), folder, "real-mains", columns, force=force)
    every, text = folder / "real-mains.parquet", folder / "real-mains.md"
    write_table(every, {str(name): table[name].to_numpy() for name in table}, force=force)
    write_text(text, markdown(table), force=force)
    return [*drawn.values(), every, text]


def markdown(table: pd.DataFrame) -> str:
    """Return the means over the homes and the results of every home as two Markdown tables."""
    means = summarise(table)
    return f"{mean_table(means)}\n{home_table(means)}"


def mean_table(means: pd.DataFrame) -> str:
    """Return a Markdown table of the means over the homes."""
    levels = list(dict.fromkeys(means.noise))
    lines = _table_head(["interval", "attacker", "training", *levels])
    for (interval, attacker), part in means.groupby(["interval_s", "attacker"], sort=False):
        by_noise = part.assign(gain=part.alpha - part.alpha_floor).groupby("noise", sort=False)
        f1, gain = by_noise.f1.mean()[levels], by_noise.gain.min()[levels]
        # Adding zero turns a rounded −0 into 0.
        cells = [f"{one:.3f} ({round(two, 3) + 0:+.3f})" for one, two in zip(f1, gain, strict=True)]
        taken = f"{part.training_s.mean():.0f} s"
        first = [short_duration(float(str(interval))), f"`{attacker}`", taken]
        lines.append(f"| {' | '.join([*first, *cells])} |")
    return "\n".join(lines) + "\n"


def home_table(means: pd.DataFrame) -> str:
    """Return a Markdown table of every home."""
    levels = list(dict.fromkeys(means.noise))
    lines = _table_head(["home", "interval", "attacker", *levels])
    for (home, interval, attacker), part in means.groupby(
        ["home", "interval_s", "attacker"], sort=False
    ):
        cells = [
            f"{row.alpha:.3f} ({row.alpha_floor:.3f}) / {row.f1:.3f}"
            for row in part.set_index("noise").loc[levels].itertuples()
        ]
        first = [str(home), short_duration(float(str(interval))), f"`{attacker}`"]
        lines.append(f"| {' | '.join([*first, *cells])} |")
    return "\n".join(lines) + "\n"


def _table_head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
