"""Figures of daily profiles: their centres, and which days stay in their cluster (Fig. 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.apps.behaviour.stability import (
    STABLE,
    LevelStability,
    ReleasedClusters,
    Stability,
    band,
)
from hushmeter.apps.plot import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    finish_figure,
    new_figure,
    panel_grid,
)
from hushmeter.checks import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = "cividis"


ARROWS = 25


def draw_clusters(result: Stability, name: str) -> dict[str, tuple[Figure, dict[str, Any]]]:
    """Draw every figure of the clusters of some days, with the data behind it."""
    k, size = result.counts.size, int(result.counts.sum())
    moves = interchanges_columns(result)
    return {
        "centres": (
            draw_centres(result, f"{k} clusters of {size} days ({name})"),
            centres_columns(result),
        ),
        "interchanges": (draw_interchanges(result, f"Where days go under noise ({name})"), moves),
        "stability": (
            draw_stability(result, f"What noise leaves of {k} clusters ({name})"),
            stability_columns(result),
        ),
    }


def draw_centres(result: Stability | ReleasedClusters, title: str) -> Figure:
    """Draw the centre of every cluster, from the least energy to the most (Fig. 7).

    The centres of released days get a band of two standard errors.
    """
    centres, counts = result.centres, result.counts
    columns = min(6, len(centres))
    rows = -(-len(centres) // columns)
    figure = new_figure(1.75 * columns + 0.6, 1.15 * rows + 0.9)
    panels = panel_grid(figure, len(centres), columns, share_x=True, share_y=True)
    hours = np.arange(centres.shape[1] + 1)
    for i, axes in enumerate(panels):
        axes.stairs(centres[i], hours, color=BLUE, fill=True, alpha=0.25)
        axes.stairs(centres[i], hours, color=BLUE, linewidth=1.3)
        number = f"{counts[i]}"
        if isinstance(result, ReleasedClusters):
            spread = 2 * result.centre_errors[i]
            low, high = centres[i] - spread, centres[i] + spread
            axes.stairs(high, hours, baseline=low, color=ORANGE, fill=True, alpha=0.5)
            number = f"{counts[i]} ± {result.count_errors[i]:.0f}"
        axes.set_title(f"{i + 1}: {number} days", fontsize=7.5, loc="left", pad=2)
        axes.set_xticks(np.linspace(0, centres.shape[1], 5).round())
        axes.tick_params(labelsize=7)
    figure.supxlabel("hour of the day", fontsize=9)
    figure.supylabel("kWh in the hour", fontsize=9)
    return finish_figure(figure, panels, title)


def centres_columns(result: Stability | ReleasedClusters) -> dict[str, Any]:
    """Return the data of `draw_centres`: one row for each cluster and hour."""
    k, hours = result.centres.shape
    columns: dict[str, Any] = {
        "cluster": np.repeat(np.arange(1, k + 1), hours),
        "hour": np.tile(np.arange(hours), k),
        "kwh": result.centres.ravel(),
        "profiles": np.repeat(result.counts, hours),
    }
    if result.costs is not None:
        columns["cost_per_kwh"] = np.repeat(result.costs, hours)
    if isinstance(result, ReleasedClusters):
        columns["kwh_standard_error"] = result.centre_errors.ravel()
        columns["profiles_standard_error"] = np.repeat(result.count_errors, hours)
        if result.cost_errors is not None:
            columns["cost_standard_error"] = np.repeat(result.cost_errors, hours)
    return columns


def draw_interchanges(result: Stability, title: str, note: str = "") -> Figure:
    """Draw the clusters by stability and the moves between them (Fig. 8).

    There is one panel for each noise scale λ. The colour of a cluster is the share of its days
    that stay; arrows show the largest moves. `note` is about ε.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    levels = result.levels
    columns = min(2, len(levels))
    rows = -(-len(levels) // columns)
    figure = new_figure(5.2 * columns + 0.8, 4.3 * rows + 0.4)
    panels = panel_grid(figure, len(levels), columns)
    places = place_centres(result.centres)
    paint = ScalarMappable(Normalize(0.0, 1.0), COLOURS)
    for axes, level in zip(panels, levels, strict=True):
        _draw_moves(axes, result, level, places, paint)
    bar = figure.colorbar(paint, ax=panels, shrink=0.75, pad=0.01)
    bar.set_label("share of the cluster's days that stay")
    _explain_moves(figure, result, note)
    return finish_figure(figure, panels, title)


def _explain_moves(figure: Figure, result: Stability, note: str) -> None:
    from matplotlib.lines import Line2D

    most = int(result.counts.max())
    entries = [
        Line2D([], [], marker="o", linestyle="none", color="black", fillstyle="none",
               markersize=_area(days, most) ** 0.5, label=f"a cluster of {days} days")
        for days in (most, max(1, most // 10))
    ] + [
        Line2D([], [], color=RED, linewidth=_width(share), marker=">", markersize=5,
               label=f"{share:.0%} of a cluster’s days move along the arrow")
        for share in (0.02, 0.2)
    ]  # fmt: skip
    figure.legend(
        handles=entries, loc="outside lower center", ncols=4, frameon=False, fontsize=8,
        handleheight=3.4, title=note or None, title_fontsize=8,
    )  # fmt: skip


def _area(days: Any, most: int) -> Any:
    """Area of the circle of a cluster [points²]."""
    return 30 + 420 * days / most


def _width(share: float) -> float:
    """Width of the arrow of a share of the days of a cluster [points]."""
    return 0.5 + 6 * min(share, 0.4)


def upper_bound_words(level: LevelStability) -> str:
    """Return the upper bound of the share that stays, with the 95 % interval of its estimate.

    The bound is computed for a sample of the days and compared with few draws of the noise, so that
    its estimate can lie below the measured share; the interval shows by how much.
    """
    above = level.staying.upper - level.frequency[level.rows]
    half = 1.96 * float(above.std()) / max(above.size, 1) ** 0.5
    upper = level.mean_bounds[1]
    low, high = max(upper - half, 0.0), min(upper + half, 1.0)
    return f"{100 * upper:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def place_centres(centres: FloatArray) -> FloatArray:
    """Return the place of every centre in the plane: energy of the day [kWh], mean hour [h]."""
    energy = centres.sum(axis=1)
    hours = np.arange(centres.shape[1]) + 0.5
    weight = np.maximum(centres, 0.0)
    total = weight.sum(axis=1)
    middle = np.full(len(centres), centres.shape[1] / 2)
    np.divide(weight @ hours, total, out=middle, where=total > 0)
    return np.column_stack([energy, middle])


def _draw_moves(
    axes: Axes, result: Stability, level: LevelStability, places: FloatArray, paint: Any
) -> None:
    """Draw the clusters and the largest moves between them at one noise scale."""
    stay = level.cluster_stay.mean(axis=0)
    size = _area(result.counts, result.counts.max())
    colours = paint.to_rgba(stay)
    axes.scatter(
        places[:, 0], places[:, 1], s=size, c=colours, edgecolors="black", linewidths=0.6, zorder=3
    )
    for i, (x, y) in enumerate(places):
        tone = "white" if stay[i] < 0.55 else "black"
        axes.text(x, y, str(i + 1), ha="center", va="center", fontsize=6, color=tone, zorder=4)
    for source, target, flow in largest_moves(level, ARROWS):
        share = flow / max(result.counts[source], 1)
        axes.annotate(
            "",
            places[target],
            places[source],
            arrowprops={
                "arrowstyle": "-|>",
                "color": RED,
                "alpha": 0.25 + 0.6 * min(4 * share, 1.0),
                "linewidth": _width(share),
                "shrinkA": 5,
                "shrinkB": 6,
                "connectionstyle": "arc3,rad=0.15",
            },
            zorder=2,
        )
    mean, low, high = band(level.stay)
    epsilon = f"ε = {level.level.epsilon:.3g} per {level.level.sensitivity:g} kWh a day"
    axes.set_title(
        f"λ = {level.level.scale:.3g} kWh ({epsilon}): {100 * mean:.1f} % stay "
        f"[{100 * low:.1f}, {100 * high:.1f}]\n"
        f"estimated upper bound of this share: {upper_bound_words(level)}",
        fontsize=8.5,
        loc="left",
    )
    axes.set_xlabel("energy of the day [kWh]", fontsize=8)
    axes.set_ylabel("mean hour of use", fontsize=8)
    axes.margins(0.08)
    axes.tick_params(labelsize=7)


def largest_moves(level: LevelStability, most: int) -> list[tuple[int, int, float]]:
    """Return the largest moves between clusters at one noise scale."""
    moves = level.migration.copy()
    np.fill_diagonal(moves, 0.0)
    order = np.argsort(moves, axis=None)[::-1][:most]
    pairs = [divmod(int(cell), moves.shape[1]) for cell in order]
    return [(a, b, float(moves[a, b])) for a, b in pairs if moves[a, b] > 0]


def interchanges_columns(result: Stability) -> dict[str, Any]:
    """Return the data of `draw_interchanges`: one row per pair of clusters."""
    k = result.counts.size
    cells = np.arange(k * k)
    levels = result.levels
    stay = [level.cluster_stay.mean(axis=0) for level in levels]
    return {
        "scale_kwh": np.repeat([level.level.scale for level in levels], k * k),
        "epsilon": np.repeat([level.level.epsilon for level in levels], k * k),
        "source": np.tile(cells // k + 1, len(levels)),
        "target": np.tile(cells % k + 1, len(levels)),
        "profiles": np.concatenate([level.migration.ravel() for level in levels]),
        "source_stability": np.concatenate([np.repeat(share, k) for share in stay]),
    }


def draw_stability(result: Stability, title: str) -> Figure:
    """Draw against λ how many days stay in their cluster and how good the clusters are."""
    figure = new_figure(10.5, 4.9)
    left, right = figure.subplots(1, 2)
    data = stability_columns(result)
    scale = data["scale_kwh"]
    _draw_band(left, data, "stay", BLUE, "o", "days that stay (mean, 95 % band)")
    left.fill_between(scale, data["bound_lower"], data["bound_upper"], color=GREY, alpha=0.25,
                      linewidth=0, label="between the proved bounds")  # fmt: skip
    left.plot(scale, data["bound_upper"], color=GREY, linestyle="--", linewidth=1)
    left.plot(scale, data["stable_clusters"] / result.counts.size, color=ORANGE, marker="s",
              linestyle=":", label=f"stable clusters (≥ {STABLE:.0%} stay)")  # fmt: skip
    _draw_band(right, data, "rand_index", GREEN, "D", "adjusted Rand index")
    if result.costs is not None:
        _draw_band(right, data, "rank_correlation", ORANGE, "^", "cost ranking, Kendall's τ")
    error = right.twinx()
    _draw_band(error, data, "centre_error_kwh", RED, "v", "error of the centres [kWh a day]")
    error.set_ylabel("error of the centres [kWh a day]", color=RED)
    error.set_ylim(bottom=0)
    for axes in (left, right):
        _scale_axis(axes, data)
    left.set_ylabel("share")
    right.set_ylabel("agreement of noisy with clean clusters")
    handles = [h for axes in (left, right, error) for h in axes.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    finish_figure(figure, (left, right), title)
    error.spines["top"].set_visible(False)
    return figure


def _draw_band(
    axes: Axes, data: dict[str, Any], name: str, colour: str, marker: str, label: str
) -> None:
    """Draw a mean with its 95 % band."""
    x = data["scale_kwh"]
    axes.plot(x, data[name], color=colour, marker=marker, markersize=5, label=label)
    axes.fill_between(
        x, data[f"{name}_low"], data[f"{name}_high"], color=colour, alpha=0.25, linewidth=0
    )


def _scale_axis(axes: Axes, data: dict[str, Any]) -> None:
    """Label the x axis with λ and, below it, with ε."""
    axes.set_xscale("log")
    ticks = [f"{s:.3g}\n{e:.3g}" for s, e in zip(data["scale_kwh"], data["epsilon"], strict=True)]
    axes.set_xticks(data["scale_kwh"], ticks)
    axes.minorticks_off()
    axes.set_xlabel("λ [kWh] and, below it, ε   (more private →)")
    axes.set_ylim(-0.02, 1.04)


def stability_columns(result: Stability) -> dict[str, Any]:
    """Return the data of `draw_stability`: one row for each noise scale."""
    levels = result.levels
    columns: dict[str, Any] = {
        "scale_kwh": np.array([level.level.scale for level in levels]),
        "epsilon": np.array([level.level.epsilon for level in levels]),
        "sensitivity_kwh": np.array([level.level.sensitivity for level in levels]),
    }
    measures = {
        "stay": [level.stay for level in levels],
        "rand_index": [level.rand_index for level in levels],
        "centre_error_kwh": [level.centre_error for level in levels],
    }
    if result.costs is not None:
        measures["rank_correlation"] = [level.rank_correlation for level in levels]
    for name, values in measures.items():
        mean, low, high = band(np.column_stack(values))
        columns |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    bounds = np.array([level.mean_bounds for level in levels])
    columns |= {"bound_lower": bounds[:, 0], "bound_upper": bounds[:, 1]}
    columns["stable_clusters"] = np.array([level.stable.size for level in levels])
    return columns
