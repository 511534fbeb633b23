"""Experiments whose tables and figures only the documentation needs; not part of the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hushmeter.files import frame_columns, write_table, write_text

if TYPE_CHECKING:
    import pandas as pd


def write_results(
    folder: Path, name: str, frame: pd.DataFrame, text: str, *, force: bool = False
) -> list[Path]:
    """Write a table of results and its text as name.csv and name.md; return both paths."""
    data, page = folder / f"{name}.csv", folder / f"{name}.md"
    write_table(data, frame_columns(frame), force=force)
    write_text(page, text, force=force)
    return [data, page]
