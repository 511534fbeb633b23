"""A figure or table of the paper, reproduced: picture, data behind it, and what it shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import one_of, whole
from hushmeter.errors import DataError, InputError
from hushmeter.files import write_table, write_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EPSILONS = tuple(float(f"{e:.4g}") for e in np.geomspace(10, 0.003, 10))
STAND_IN_READINGS = 3000


@dataclass(frozen=True)
class Setting:
    """Attributes of a run.

    Attributes
    ----------
    seed : int
        Of stand-ins and noise.
    seeds : int
        Releases of each kind, at least two: the bands need them.
    readings : int or None
        Readings that are attacked; if None, 3000 of a stand-in and all of a real set.
    jobs : int
        Workers.
    data : Path or None
        Folder of the real data sets; without it every item runs on its stand-in.
    report : callable, optional
        Called with every cell of a sweep and the number of cells still to come.
    """

    seed: int = 0
    seeds: int = 5
    readings: int | None = None
    jobs: int = 1
    data: Path | None = None
    report: Callable[[dict[str, Any], int], None] | None = None

    def __post_init__(self) -> None:
        whole("seeds", self.seeds, least=2)
        if self.readings is not None:
            whole("readings", self.readings, least=100)
        if self.data is not None and not self.data.is_dir():
            raise InputError(f"{self.data} is not a folder; name the one that holds the data sets.")

    @property
    def stand_in_readings(self) -> int:
        """Readings of a stand-in that are attacked."""
        return STAND_IN_READINGS if self.readings is None else self.readings


VERDICTS = ("agrees", "in part", "differs")
CAPTION = re.compile(
    r"(?P<item>\w+) on (?P<source>.+)\.\nThe paper: (?P<claim>.+)\nHere: (?P<finding>.+)\n"
    r"Verdict: (?P<verdict>agrees|in part|differs): (?P<reason>.+)\n"
)


@dataclass(frozen=True)
class Caption:
    """What a reproduced item says, in words.

    Attributes
    ----------
    item : str
        "fig2" … "table1".
    source : str
        The data: a data set, or the synthetic stand-in.
    claim : str
        What the paper says.
    finding : str
        What was found here.
    verdict : {"agrees", "in part", "differs"}
    reason : str
        Why.
    """

    item: str
    source: str
    claim: str
    finding: str
    verdict: str
    reason: str

    def __post_init__(self) -> None:
        one_of("verdict", self.verdict, VERDICTS)

    def __str__(self) -> str:
        return (
            f"{self.item} on {self.source}.\nThe paper: {self.claim}\nHere: {self.finding}\n"
            f"Verdict: {self.verdict}: {self.reason}\n"
        )


@dataclass(frozen=True)
class ReproducedItem:
    """One reproduced item: its words, the data behind the picture, and the picture if any."""

    words: Caption
    table: pd.DataFrame
    figure: Figure | None = None

    @property
    def item(self) -> str:
        """Its name: "fig2" … "table1"."""
        return self.words.item

    @property
    def caption(self) -> str:
        """Source, claim, finding and verdict as one text."""
        return str(self.words)

    def save(self, folder: Path, *, force: bool = False) -> list[Path]:
        """Write item.png, item.svg, item.csv and item.txt into a folder."""
        from hushmeter.plot.figure import save_figure

        columns: dict[str, Any] = {str(name): self.table[name].tolist() for name in self.table}
        if self.figure is None:
            write_table(folder / f"{self.item}.csv", columns, force=force)
            paths = [folder / f"{self.item}.csv"]
        else:
            saved = save_figure(self.figure, folder, self.item, columns, force=force)
            paths = list(saved.values())
        write_text(folder / f"{self.item}.txt", self.caption, force=force)
        return [*paths, folder / f"{self.item}.txt"]


def read_caption(path: Path) -> Caption:
    """The words that `ReproducedItem.save` wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        text = ""
    told = CAPTION.fullmatch(text)
    if told is None:
        raise DataError(f"{path} is no caption of `hushmeter reproduce`; make it again.")
    return Caption(**told.groupdict())
