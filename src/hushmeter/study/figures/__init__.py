"""The figures and tables of Section V and of the appendices, by their numbers.

The item "appliances" is not in the paper: it is the analysis of each appliance that the paper names
as future work. Without real data an item uses a named synthetic stand-in, and its caption says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import one_of, whole
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.files import frame_columns, write_table, write_text
from hushmeter.formatting import duration_in_words
from hushmeter.plot.figure import save_figure
from hushmeter.study.comparison import Comparison, Details
from hushmeter.study.definition import Case, Contender, Study
from hushmeter.study.sweep import sweep
from hushmeter.trace import SECONDS_PER_DAY, Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["EPSILONS", "ITEMS", "Setting", "reproduce"]

EPSILONS = tuple(float(f"{e:.4g}") for e in np.geomspace(10, 0.003, 10))
CALM = max(EPSILONS)
STAND_IN_READINGS = 3000


@dataclass(frozen=True)
class Setting:
    """Settings of a reproduction.

    Attributes
    ----------
    seed : int
        Seed of the stand-ins and of the noise.
    seeds : int
        Number of releases of each kind, at least two; bands are drawn from three.
    readings : int or None
        Number of attacked readings; by default 3000 of a stand-in and all of a real set.
    jobs : int
        Number of workers.
    data : Path or None
        Folder of the real data sets; without it every item uses its stand-in.
    report : callable, optional
        Function that is called with every cell of a sweep and the number of cells still to come.

    Raises
    ------
    InputError
        If a number is too small or the data folder does not exist.
    """

    seed: int = 0
    seeds: int = 5
    readings: int | None = None
    jobs: int = 1
    data: Path | None = None
    report: Callable[[dict[str, Any], int], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole("seeds", self.seeds, least=2)
        if self.readings is not None:
            whole("readings", self.readings, least=100)
        if self.data is not None and not self.data.is_dir():
            raise InputError(f"{self.data} is not a folder; name the folder of the data sets.")

    @property
    def stand_in_readings(self) -> int:
        """Number of attacked readings of a stand-in."""
        return STAND_IN_READINGS if self.readings is None else self.readings


VERDICTS = ("agrees", "in part", "differs", "undecided")
CAPTION = re.compile(
    r"(?P<item>\w+) on (?P<source>.+)\.\nThe paper: (?P<claim>.+)\nHere: (?P<finding>.+)\n"
    rf"Verdict: (?P<verdict>{'|'.join(VERDICTS)}): (?P<reason>.+)\n"
    r"(?P<details>(?:\w.*\n)*)"
)
MOST_WORDS = 120
"""Largest number of words of a caption; everything else is a detail."""


@dataclass(frozen=True)
class Caption:
    """The caption of a reproduced item."""

    item: str  # "fig2", …, "table1"
    source: str  # The data: a data set, or a synthetic stand-in
    claim: str  # What the paper states
    finding: str  # What was found here
    verdict: str  # Whether the finding agrees with the claim
    reason: str  # The reason for the verdict
    details: Details = ()  # Settings and further results, as the rows of a table

    def __post_init__(self) -> None:
        one_of("verdict", self.verdict, VERDICTS)

    @property
    def text(self) -> str:
        """The caption without its details."""
        return (
            f"{self.item} on {self.source}.\nThe paper: {self.claim}\nHere: {self.finding}\n"
            f"Verdict: {self.verdict}: {self.reason}\n"
        )

    def __str__(self) -> str:
        return self.text + "".join(f"{name}: {value}\n" for name, value in self.details)


@dataclass(frozen=True)
class ReproducedItem:
    """One reproduced figure or table."""

    words: Caption  # Its caption
    table: pd.DataFrame  # The data behind the picture
    figure: Figure | None = None  # The picture; a table has none
    # Slopes and break points of its attackers, one row for each attacker and measure
    robustness: pd.DataFrame | None = None

    @property
    def item(self) -> str:
        """Name of the item: "fig2", …, "table1"."""
        return self.words.item

    @property
    def caption(self) -> str:
        """The caption as one text."""
        return str(self.words)

    def save(self, folder: Path, *, force: bool = False) -> list[Path]:
        """Write the picture, the data and the caption into a folder; return their paths.

        The files are item.png, item.svg, item.csv and item.txt, and item-robustness.csv if the item
        has slopes.
        """
        columns = frame_columns(self.table)
        if self.figure is None:
            write_table(folder / f"{self.item}.csv", columns, force=force)
            paths = [folder / f"{self.item}.csv"]
        else:
            saved = save_figure(self.figure, folder, self.item, columns, force=force)
            paths = list(saved.values())
        if self.robustness is not None:
            paths.append(folder / f"{self.item}-robustness.csv")
            write_table(paths[-1], frame_columns(self.robustness), force=force)
        write_text(folder / f"{self.item}.txt", self.caption, force=force)
        return [*paths, folder / f"{self.item}.txt"]


def item_title(item: str) -> str:
    """Return the name of an item in the paper: "fig2" is Fig. 2, "table1" is Table I."""
    others = {"table1": "Table I", "appliances": "Each appliance"}
    return others.get(item) or f"Fig. {item.removeprefix('fig')}"


def sentence(words: str) -> str:
    """Return the words with a capital first letter."""
    return words[:1].upper() + words[1:]


def read_caption(path: Path) -> Caption:
    """Read a caption that `ReproducedItem.save` wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        text = ""
    match = CAPTION.fullmatch(text)
    if match is None:
        raise DataError(f"{path} is not a caption of `hushmeter reproduce`; run the command again.")
    found: dict[str, Any] = match.groupdict()
    rows = (line.split(": ", 1) for line in found.pop("details").splitlines())
    return Caption(**found, details=tuple((name, value) for name, value in rows))


def compare(
    case: Case,
    setting: Setting,
    contenders: tuple[Contender, ...],
    *,
    mechanisms: tuple[str, ...] = ("laplace",),
    epsilons: tuple[float, ...] = EPSILONS,
    seeds: int | None = None,
    theory: bool = False,
) -> Comparison:
    """Sweep one case with the paper's noise; attackers that fail are left out and named."""
    block_s, words = choose_blocks(case.test)
    study = Study(
        case.name,
        (case,),
        contenders,
        mechanisms=mechanisms,
        epsilons=epsilons,
        seeds=setting.seeds if seeds is None else seeds,
        seed=setting.seed,
        # Algorithm 1 of the paper starts from the true state.
        knows_first_state=True,
        paper_noise=True,
        block_s=block_s,
        theory=theory,
    )
    table = sweep(study, jobs=setting.jobs, report=setting.report).drop(columns="seconds")
    if "error" not in table:
        return _with_counts(table, (), words)
    errors = table[table.error.notna()]
    reasons = tuple(
        part.error.iloc[0]
        if part.error.iloc[0].startswith(name)
        else f"{name}: {part.error.iloc[0]}"
        for name, part in errors.groupby("attacker", sort=False)
    )
    kept = table[~table.attacker.isin(errors.attacker)].drop(columns="error")
    if kept.empty:
        raise DataError(f"every attacker failed: {reasons[0]}")
    return _with_counts(kept.reset_index(drop=True), reasons, words)


def _with_counts(table: pd.DataFrame, failed: tuple[str, ...], words: str) -> Comparison:
    counts = list(table["counts"])
    return Comparison(table.drop(columns="counts"), failed=failed, counts=counts, blocks=words)


def choose_blocks(trace: Trace) -> tuple[float, str]:
    """Return the length of the blocks [s] that are resampled, and what they are, in words.

    They are days if there are at least `FEWEST_DAYS`. A shorter trace is cut into `PARTS`; its
    intervals are about other parts of the same day, not about other days.
    """
    days = np.unique(trace.times.astype("datetime64[D]")).size
    if days >= FEWEST_DAYS:
        return SECONDS_PER_DAY, f"{days} days"
    span = float((trace.times[-1] - trace.times[0]) / np.timedelta64(1, "s")) + trace.interval_s
    part = float(np.ceil(span / PARTS / trace.interval_s) * trace.interval_s)
    return part, f"parts of {duration_in_words(part)} of one recording"


FEWEST_DAYS, PARTS = 5, 12
"""Smallest number of days that are resampled, and the number of parts of a shorter trace."""


ITEMS = {
    "fig2": "compressive:one_shot_figure",
    "fig3": "compressive:multi_shot_figure",
    "fig4": "compressive:hierarchical_figure",
    "fig5": "compressive:noise_figure",
    "fig6": "attackers:attackers_figure",
    "fig7": "appendices:centres_figure",
    "fig8": "appendices:interchanges_figure",
    "fig9": "appendices:sparsity_figure",
    "table1": "appendices:sparsity_table",
    "appliances": "attackers:appliances_figure",
}


def reproduce(item: str, setting: Setting | None = None) -> ReproducedItem:
    """Reproduce one figure or table of the paper.

    Parameters
    ----------
    item : str
        "fig2", "fig3", …, "fig9", "table1" or "appliances".
    setting : Setting, optional
        Seeds, sizes and the folder of real data.

    Returns
    -------
    ReproducedItem
        The picture, its data and its caption.

    Raises
    ------
    UnknownNameError
        If there is no such item.
    """
    if item not in ITEMS:
        raise UnknownNameError("figure or table", item, ITEMS)
    module, name = ITEMS[item].split(":")
    make: Callable[[Setting], ReproducedItem] = getattr(import_module(f"{__name__}.{module}"), name)
    return make(setting or Setting())
