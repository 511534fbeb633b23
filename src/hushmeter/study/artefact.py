"""A figure or table of the paper, reproduced: picture, data behind it, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.files import write_table, write_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Artefact:
    """One reproduced item.

    Attributes
    ----------
    item : str
        "fig2" … "table1".
    table : DataFrame
        The data behind the picture.
    figure : Figure or None
    claim : str
        What the paper says.
    finding : str
        What was found here.
    agrees : str
        "agrees", "differs" or "in part", and why.
    source : str
        The data: a data set, or the synthetic stand-in.
    """

    item: str
    table: pd.DataFrame
    figure: Figure | None
    claim: str
    finding: str
    agrees: str
    source: str

    @property
    def caption(self) -> str:
        """Source, claim, finding and verdict as one text."""
        return (
            f"{self.item} on {self.source}.\n"
            f"The paper: {self.claim}\nHere: {self.finding}\nVerdict: {self.agrees}\n"
        )

    def save(self, folder: Path, *, force: bool = False) -> list[Path]:
        """Write item.png, item.svg, item.csv and item.txt into a folder."""
        from hushmeter.plot import save_figure

        columns: dict[str, Any] = {str(name): self.table[name].tolist() for name in self.table}
        if self.figure is None:
            write_table(folder / f"{self.item}.csv", columns, force=force)
            paths = [folder / f"{self.item}.csv"]
        else:
            saved = save_figure(self.figure, folder, self.item, columns, force=force)
            paths = list(saved.values())
        write_text(folder / f"{self.item}.txt", self.caption, force=force)
        return [*paths, folder / f"{self.item}.txt"]
