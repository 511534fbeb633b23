"""The figure of advice: privacy against error for every form of a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hushmeter.apps.plot import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    finish_figure,
    new_figure,
    plain_log_ticks,
)
from hushmeter.formatting import out_of_100, short_duration
from hushmeter.releases.purposes import PURPOSES
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.advice import FrontLine, Goal


def draw_front(
    front: Sequence[FrontLine], goal: Goal, own_mean_w: float | None, title: str
) -> Figure:
    """Draw privacy against error for every purpose, one panel each."""
    figure = new_figure(12, 6.6)
    *panels, legend = figure.subplots(2, 3).ravel()
    for axes, purpose in zip(panels, PURPOSES.values(), strict=True):
        for line in front:
            drawn = [
                (100 * odds, error)
                for odds, errors in zip(line.odds, line.errors, strict=True)
                if (error := errors.of(purpose.name))
            ]
            if drawn:
                marker, color = _line_style(line)
                axes.plot(*zip(*drawn, strict=True), marker=marker, markersize=4, color=color)
        if own_mean_w:
            own = purpose.of_mean_power(own_mean_w)
            axes.axhline(own, color=RED, linestyle="--", linewidth=1)
        axes.axvline(100 * goal.max_odds, color=GREY, linestyle=":")
        if axes.lines[:-1]:
            axes.set_yscale("log")
            plain_log_ticks(axes.yaxis)
        chosen = purpose.name == goal.purpose
        axes.set_title(
            f"{TITLES[purpose.name]} [{purpose.unit}]", weight="bold" if chosen else "normal"
        )
        axes.set_xlim(50, 91.5)
    for axes in panels[2:]:
        axes.set_xlabel("best attacker right, times out of 100")
    for axes in (panels[0], panels[3]):
        axes.set_ylabel("standard error")
    _front_legend(legend, front, goal, own_mean_w)
    return finish_figure(figure, panels, title)


TITLES = {
    "hour": "single hours",
    "day": "days",
    "month": "months",
    "profile": "typical day",
    "register": "register values",
}


def _line_style(line: FrontLine) -> tuple[str, str]:
    """Marker and colour of a kind of release."""
    if line.form == "calendar":
        return "D", GREEN
    if line.every_s > SECONDS_PER_HOUR * (1 + 1e-9):
        return "s", ORANGE
    return ("o", BLUE) if line.every_s > SECONDS_PER_HOUR * 0.9 else ("v", GREY)


def _front_legend(
    axes: Axes, front: Sequence[FrontLine], goal: Goal, own_mean_w: float | None
) -> None:
    """Fill the sixth place with the legend."""
    from matplotlib.lines import Line2D

    axes.set_axis_off()
    entries = []
    for line in front:
        marker, color = _line_style(line)
        name = f"readings of {short_duration(line.every_s)}"
        if line.form == "calendar":
            name = "calendar release (--views)"
        entries.append(Line2D([], [], color=color, marker=marker, markersize=4, label=name))
    odds = out_of_100(goal.max_odds)
    entries.append(Line2D([], [], color=GREY, linestyle=":", label=f"goal: {odds} out of 100"))
    if own_mean_w:
        label = "your own mean use (private figure)"
        entries.append(Line2D([], [], color=RED, linestyle="--", label=label))
    axes.legend(handles=entries, loc="center", frameon=False)
