"""A figure or table of the paper, reproduced: picture, data behind it, and what it shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.checks import one_of
from hushmeter.errors import DataError
from hushmeter.files import write_table, write_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

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
class Artefact:
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
    """The words that `Artefact.save` wrote."""
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
