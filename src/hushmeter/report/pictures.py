"""Pictures inside the page: files and figures as data URIs, and the curve of hourly means."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import DataError
from hushmeter.plot.figure import BLUE, GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_SVG = 200_000
"""Beyond this [bytes] a picture of many points is smaller, and sharp enough, as PNG."""
NARROW = 9 * 160
"""Pixels across a figure of one panel, as `save_figure` writes it."""
KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
STARTS = {".svg": b"<?xml", ".png": b"\x89PNG"}


def embed_file(stem: Path) -> str | None:
    """The picture `stem`.svg, or `stem`.png where that is large or missing; None without both."""
    files = {kind: stem.with_name(stem.name + kind) for kind in KINDS}
    vector = files[".svg"]
    small = vector.is_file() and vector.stat().st_size <= LARGEST_SVG
    for kind in (".svg", ".png") if small else (".png", ".svg"):
        if files[kind].is_file():
            return _embed_bytes(files[kind].read_bytes(), kind, files[kind].name)
    return None


def is_narrow(stem: Path) -> bool:
    """Whether a saved figure has one panel only and need not fill the page."""
    file = stem.with_name(stem.name + ".png")
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        head = stream.read(24)
    return int.from_bytes(head[16:20], "big") <= NARROW


def embed_figure(figure: Figure) -> str:
    """A figure as a data URI; the same figure gives the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "hushmeter"}):
        drawn = {kind: io.BytesIO() for kind in KINDS}
        figure.savefig(drawn[".svg"], format="svg", metadata={"Date": None})
        if len(drawn[".svg"].getvalue()) <= LARGEST_SVG:
            return _embed_bytes(drawn[".svg"].getvalue(), ".svg", "figure")
        figure.savefig(drawn[".png"], format="png", dpi=160)
    return _embed_bytes(drawn[".png"].getvalue(), ".png", "figure")


def draw_hours(hourly: FloatArray, released: Mapping[float, FloatArray]) -> Figure:
    """Hourly means of one day [W], true (bars) and released (line); each ε on its own scale."""
    from matplotlib.ticker import MaxNLocator

    columns = min(2, len(released))
    rows = -(-len(released) // columns)
    figure = new_figure(10, 0.6 + 2.1 * rows)
    panels = np.atleast_1d(figure.subplots(rows, columns, sharex=True)).ravel()
    hours = np.arange(hourly.size)
    for axes, (epsilon, curve) in zip(panels, released.items(), strict=False):
        axes.bar(hours + 0.5, hourly / 1000, 0.96, color=GREY, alpha=0.45, label="true")
        edges = np.append(curve, curve[-1]) / 1000
        axes.step(np.append(hours, hours.size), edges, where="post", color=BLUE, label="released")
        axes.axhline(0, color="#444444", linewidth=0.6)
        axes.set_title(f"ε = {epsilon:.3g}", loc="left", fontsize=10)
        axes.set_xlim(0, hours.size)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 3, 4, 6, 10]))
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(released) :]:
        axes.set_visible(False)
    figure.supxlabel("hour", fontsize=10)
    figure.supylabel("mean of an hour [kW]", fontsize=10)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False
    )
    return figure


def _embed_bytes(content: bytes, kind: str, name: str) -> str:
    if not content.startswith(STARTS[kind]):
        raise DataError(f"{name} is not a picture; make it again.")
    return f"data:{KINDS[kind]};base64," + base64.b64encode(content).decode("ascii")
