"""What every figure shares: canvas, colours, ticks, and the files a figure becomes.

Colours are those of Okabe and Ito, safe for colour-blind readers.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import InputError
from hushmeter.files import atomic, write_table

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#8A8A8A"
WIDE_AXIS = 300.0
OTHER_KINDS = (".csv", ".jpeg", ".jpg", ".pdf", ".svg")
"""Names that ask for a file, not for a folder of figures."""


def new_figure(width: float, height: float) -> Figure:
    """A figure of the given size [inch] that belongs to no window."""
    return _figure_class()(figsize=(width, height), layout="constrained")


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    class PlainFigure(Figure):
        """Names are drawn as they are: a “$” in one starts no formula; powers of ten stay."""

        def draw(self, renderer: Any) -> None:
            for text in self.findobj(Text):
                text.set_parse_math(False)
            for axis in (axis for axes in self.axes for axis in (axes.xaxis, axes.yaxis)):
                powers = []
                if isinstance(axis.get_major_formatter(), LogFormatter):
                    powers += axis.get_majorticklabels()
                if isinstance(axis.get_minor_formatter(), LogFormatter):
                    powers += axis.get_minorticklabels()
                for label in powers:
                    label.set_parse_math(True)
            super().draw(renderer)

    return PlainFigure


def save_figure(
    figure: Figure, folder: Path, name: str, data: dict[str, Any], *, force: bool = False
) -> dict[str, Path]:
    """Write name.png, name.svg and the data behind the picture as name.csv into a folder."""
    import matplotlib as mpl

    paths = {kind: folder / f"{name}.{kind}" for kind in ("png", "svg", "csv")}
    for kind in ("png", "svg"):
        # A fixed salt and no date: the same picture gives the same bytes.
        with (
            atomic(paths[kind], force=force) as temporary,
            mpl.rc_context({"svg.hashsalt": "hushmeter"}),
        ):
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(temporary, format=kind, dpi=160, metadata=metadata)
    write_table(paths["csv"], data, force=force)
    return paths


def figure_place(output: Path, name: str) -> tuple[Path, str]:
    """Folder and name of a figure: `output` is a folder, or the PNG file itself."""
    if output.suffix.lower() == ".png":
        return output.parent, output.stem
    if output.suffix.lower() in OTHER_KINDS:
        raise InputError(f"{output} must be a folder or end in .png; SVG and CSV come with it.")
    return output, name


def plain_log_ticks(axis: Axis) -> None:
    """1, 2, 5, 10, 20 … written as plain numbers; only 1, 10, 100 … where the axis is wide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    wide = high / max(low, 1e-300) > WIDE_AXIS
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
