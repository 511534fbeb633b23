"""The demo: one simulated household, released in two ways, and what is left of each statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import synth
from hushmeter.apps.study.report.page import Cell, embed_figure, make_environment
from hushmeter.clock import local_times
from hushmeter.files import write_text
from hushmeter.formatting import format_two_digits
from hushmeter.privacy.units import metered
from hushmeter.releases.request import Request
from hushmeter.write import write_meter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hushmeter.releases.release import Release
    from hushmeter.threat import Remaining
    from hushmeter.trace import Trace

ZONE = "Europe/London"
INTERVAL_S = 1800.0
WISHES = {"days": "when we get up", "hours": "kettle"}
"""What is hidden in the folder of each release."""
METER, PAGE, PICTURE = "meter.csv", "index.html", "before-after"
SHOWN = slice(7 * 24, 14 * 24)
"""The hours of the picture: the second week."""


@dataclass(frozen=True)
class Shared:
    """One way to share the readings."""

    wish: str  # What is hidden
    folder: Path
    release: Release
    left: tuple[Remaining, ...]

    @property
    def month(self) -> str:
        """The first complete month, with its standard error."""
        months = self.release.view("months")
        row = int(months.labels["cells"].argmax())
        error = f" ± {format_two_digits(months.errors[row])}" if months.errors[row] else ""
        return f"{months.labels['month'][row]}: {months.values[row]:.1f}{error} kWh"

    @property
    def command(self) -> str:
        """The command that releases the readings in this way."""
        meter = self.folder.with_name(METER)
        return f'hushmeter release {meter} --hide "{self.wish}" --tz {ZONE} -o {self.folder}'


@dataclass(frozen=True)
class Demo:
    """What the demo made."""

    page: Path
    days: int
    shared: tuple[Shared, ...]
    files: tuple[Path, ...]

    @property
    def rows(self) -> list[tuple[str, tuple[Remaining, ...]]]:
        """Every statement about the home, with what is left of it in each release."""
        # Each list begins with what its own release hides.
        first, *others = [{one.before: one for one in shared.left} for shared in self.shared]
        return [(said, (one, *(left[said] for left in others))) for said, one in first.items()]


def make_demo(
    output: Path,
    *,
    days: int,
    seed: int,
    force: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Demo:
    """Simulate a household, release its readings in two ways, and write the page."""
    from hushmeter.apps.plot import save_figure
    from hushmeter.threat import what_is_left

    note("simulating a household")
    trace = synth.household(days, interval_s=INTERVAL_S, zone=ZONE, seed=seed).trace
    write_meter(output / METER, trace, force=force)
    shared, files = [], [output / METER]
    facts = metered(trace, ZONE)
    for name, wish in WISHES.items():
        note(f"hiding “{wish}”")
        promise = Request(hide=wish).as_calendar(facts).resolve(facts)
        done = promise.release(trace, rng=seed)
        files += done.save(output / name, force=force)
        left = what_is_left(trace, promise, rng=seed)
        shared.append(Shared(wish, output / name, done, left))
    note("writing the page")
    figure, data = draw_before_after(trace, shared)
    files += save_figure(figure, output, PICTURE, data, force=force).values()
    demo = Demo(output / PAGE, days, tuple(shared), (output / PAGE, *files))
    _write_page(demo, embed_figure(figure), force=force)
    return demo


def draw_before_after(trace: Trace, shared: list[Shared]) -> tuple[Figure, dict[str, Any]]:
    """Draw a week as metered, and each release of it; return the figure and its data."""
    from hushmeter.apps.plot import BLUE, GREY, finish_figure, new_figure, panel_grid

    hours = trace.coarsen(3600.0)
    times = local_times(hours.times, ZONE)[SHOWN]
    true = hours.readings[SHOWN]
    data = {"local_time": times.astype("datetime64[m]").astype(str), "metered_w": true}
    figure = new_figure(10, 6)
    panels = panel_grid(figure, 1 + len(shared), 1, share_x=True, share_y=True)
    titles = ["Before: what the meter measured"]
    titles += [f"After, if “{one.wish}” is hidden: {one.folder.name}" for one in shared]
    curves = [None, *(one.release.trace.readings[SHOWN] for one in shared)]
    for axes, title, curve in zip(panels, titles, curves, strict=True):
        axes.step(times, true / 1000, where="post", linewidth=0.8 if curve is not None else 1.2,
                  color=BLUE if curve is None else GREY)  # fmt: skip
        if curve is not None:
            axes.step(times, curve / 1000, where="post", color=BLUE, linewidth=1.4)
            data[f"{title.rsplit(' ', 1)[1]}_w"] = curve
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_ylabel("kW")
    noons = times[np.flatnonzero(times == times.astype("datetime64[D]"))]
    names = [str(noon.astype("datetime64[D]").item().strftime("%A")) for noon in noons]
    panels[-1].set_xticks(noons, names, ha="left")
    return finish_figure(figure, panels, ""), data


def _write_page(demo: Demo, picture: str, *, force: bool) -> None:
    shades = {"gone": 0, "uncertain": 1, "still there": 3}
    rows = [
        [before, *(Cell(one.verdict, shades[one.verdict]) for one in found)]
        for before, found in demo.rows
    ]
    page = make_environment().get_template("demo.html")
    write_text(demo.page, page.render(demo=demo, rows=rows, picture=picture), force=force)
