"""The section for the reader of the paper: its claims, the findings here, and the reasons."""

from __future__ import annotations

import re

from hushmeter.errors import DataError
from hushmeter.report.blocks import (
    Block,
    Heading,
    Picture,
    Section,
    Verdict,
    embed_file,
    is_narrow,
    make_table,
)
from hushmeter.report.collect import ItemResult, Results
from hushmeter.study.figures import Caption, item_title, sentence

LEAD = (
    "This part reproduces the figures and tables of “Privacy Preserving in Non-Intrusive Load "
    "Monitoring: A Differential Privacy Perspective” (arXiv 2011.06205). The page “Errata” of "
    "hushmeter’s documentation lists the errors in its lemmas and theorems, each with a "
    "counterexample."
)
MOST_ROWS = 12


def tell_paper(results: Results) -> Section | None:
    """Write the section."""
    items = sorted(results.items, key=_order)
    if not items:
        return None
    blocks: list[Block] = [
        make_table(
            "All items",
            ("item", "verdict", "why", "data"),
            [_row(item.words) for item in items],
            prose=True,
        )
    ]
    for item in items:
        blocks += _tell_item(item)
    return Section("paper", "For the reader of the paper", LEAD, tuple(blocks))


def _order(item: ItemResult) -> tuple[str, int]:
    """Sort figures before tables, each by its number."""
    name = item.words.item
    digits = re.sub(r"\D", "", name)
    return name.removesuffix(digits), int(digits or 0)


def _row(words: Caption) -> tuple[str, ...]:
    """Return one row of the table of all items."""
    return item_title(words.item), sentence(words.verdict), sentence(words.reason), words.source


def _tell_item(item: ItemResult) -> list[Block]:
    """Describe one item with its picture or its data."""
    words, name = item.words, item_title(item.words.item)
    blocks: list[Block] = [
        Heading(name),
        Verdict(
            sentence(words.verdict),
            words.verdict.replace(" ", "-"),
            sentence(words.reason),
            words.source,
            sentence(words.claim),
            sentence(words.finding),
        ),
    ]
    stem = item.path.with_suffix("")
    picture = embed_file(stem)
    if picture is None:
        return [*blocks, *_data(item)]
    alt = f"{name} on {words.source}: {words.finding}"
    return [*blocks, Picture(picture, alt, f"{name} on {words.source}.", is_narrow(stem))]


def _data(item: ItemResult) -> list[Block]:
    """Return the first rows of the data of an item that is a table."""
    import pandas as pd

    file = item.path.with_suffix(".csv")
    if not file.is_file():
        return []
    try:
        table = pd.read_csv(file)
    except ValueError as error:
        raise DataError(f"{file} cannot be read: {error}.") from None
    rows = [
        [_word(value) for value in row] for row in table.head(MOST_ROWS).itertuples(index=False)
    ]
    columns = tuple(map(str, table.columns))
    return [make_table(f"The data of {item_title(item.words.item)}", columns, rows, prose=True)]


def _word(value: object) -> str:
    """Format a number or a word."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
