"""Figures, drawn with matplotlib's object interface: no window and no global state.

Each module draws the figures of one subject. What all of them share is here: colours, an empty
figure, ticks, and the files a figure is saved as.

The colours are those of Okabe and Ito [1]_, which colour-blind readers can tell apart.

References
----------
.. [1] M. Okabe and K. Ito, "Color universal design: how to make figures and presentations that
   are friendly to colorblind people", 2008.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import InputError
from hushmeter.files import atomic, write_table
from hushmeter.parts import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#8A8A8A"
PURPLE = "#7A3E9D"
WIDE_AXIS = 300.0
"""Ratio of the ends of a logarithmic axis above which only powers of ten are labelled."""
WIDTH_PIXELS = 2000
"""Width of a saved picture."""
OTHER_KINDS = (".csv", ".jpeg", ".jpg", ".pdf", ".svg")
"""Endings that name a single file, so that the path cannot be a folder of figures."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure that belongs to no window."""
    return _figure_class()(figsize=(width, height), layout="constrained")


@cache
def _figure_class() -> type[Figure]:
    """Return the figure class; matplotlib is imported only when a figure is drawn."""
    matplotlib = need("matplotlib", "a picture", "plot")
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    if Path(matplotlib.matplotlib_fname()).resolve().parent == Path.cwd():
        # The settings of the current folder may be a stranger's, and they can start programs.
        matplotlib.rcdefaults()

    class PlainFigure(Figure):
        """A figure that draws names as they are: a “$” in a name does not start a formula."""

        def _repr_png_(self) -> bytes:
            """The figure for a notebook; matplotlib itself shows figures of pyplot only."""
            stream = BytesIO()
            self.savefig(stream, format="png", dpi=110)
            return stream.getvalue()

        def draw(self, renderer: Any) -> None:
            for text in self.findobj(Text):
                text.set_parse_math(False)
            # Tick labels such as 10² are formulas that matplotlib itself wrote.
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


def panel_grid(
    figure: Figure, count: int, columns: int, *, share_x: bool = False, share_y: bool = False
) -> list[Axes]:
    """Return `count` panels in rows of at most `columns`; the rest of the last row stays empty."""
    across = min(columns, count)
    down = -(-count // across)
    grid = figure.subplots(down, across, sharex=share_x, sharey=share_y, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return list(grid[:count])


def finish_figure(figure: Figure, panels: Iterable[Axes], title: str) -> Figure:
    """Remove the upper and right frame of every panel and write the title above them."""
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def save_figure(
    figure: Figure, folder: Path, name: str, data: dict[str, Any], *, force: bool = False
) -> dict[str, Path]:
    """Write name.png, name.svg and the data behind the figure as name.csv."""
    import matplotlib as mpl

    paths = {kind: folder / f"{name}.{kind}" for kind in ("png", "svg", "csv")}
    for kind in ("png", "svg"):
        # With a fixed salt and without a date, the same figure gives the same bytes.
        with (
            atomic(paths[kind], force=force) as temporary,
            mpl.rc_context({"svg.hashsalt": "hushmeter"}),
        ):
            metadata = {"Date": None} if kind == "svg" else None
            dpi = WIDTH_PIXELS / float(figure.get_figwidth())
            figure.savefig(temporary, format=kind, dpi=dpi, metadata=metadata)
    write_table(paths["csv"], data, force=force)
    return paths


def save_figures(
    pictures: Mapping[str, tuple[Figure, dict[str, Any]]], folder: Path, *, force: bool = False
) -> list[str]:
    """Write several figures, each with the data behind it, by their names; return all paths."""
    files: list[str] = []
    for name, (figure, data) in pictures.items():
        files += map(str, save_figure(figure, folder, name, data, force=force).values())
    return files


def figure_place(output: Path, name: str) -> tuple[Path, str]:
    """Return the folder and the file name of a figure from a user's output path."""
    if output.suffix.lower() == ".png":
        return output.parent, output.stem
    if output.suffix.lower() in OTHER_KINDS:
        raise InputError(
            f"{output} must be a folder or end in .png; the SVG and the CSV file are written "
            "beside the PNG file."
        )
    return output, name


def plain_log_ticks(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers (1, 2, 5, 10), or powers of ten if it is wide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    wide = high / max(low, 1e-300) > WIDE_AXIS
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
