"""For the reader of the paper: item by item, what it claims, what was found, and why."""

from __future__ import annotations

import re

from hushmeter.report.blocks import Block, Heading, Picture, Section, Verdict, make_table
from hushmeter.report.collect import ItemResult, Results
from hushmeter.report.pictures import embed_file, is_narrow
from hushmeter.study.figures.item import Caption

LEAD = (
    "The figures and tables of “Privacy Preserving in Non-Intrusive Load Monitoring: A "
    "Differential Privacy Perspective” (arXiv 2011.06205), reproduced. What is wrong in its "
    "lemmas and theorems, each with a counterexample, is on the page “Errata” of hushmeter’s "
    "documentation."
)
WORDS = {"fig": "Fig.", "table": "Table"}
ROMAN = {"1": "I", "2": "II", "3": "III"}
MOST_ROWS = 12


def tell_paper(results: Results) -> Section | None:
    """The section, or None where no item was reproduced."""
    items = sorted(results.items, key=_order)
    if not items:
        return None
    blocks: list[Block] = [
        make_table(
            "Item by item",
            ("item", "verdict", "why", "data"),
            [_row(item.words) for item in items],
            prose=True,
        )
    ]
    for item in items:
        blocks += _tell_item(item)
    return Section("paper", "For the reader of the paper", LEAD, tuple(blocks))


def title(item: str) -> str:
    """An item as the paper calls it: “Fig. 2”, “Table I”."""
    told = re.fullmatch(r"([a-z]+)(\d+)", item)
    if told is None or told[1] not in WORDS:
        return item
    number = ROMAN.get(told[2], told[2]) if told[1] == "table" else told[2]
    return f"{WORDS[told[1]]} {number}"


def _order(item: ItemResult) -> tuple[str, int]:
    name = item.words.item
    digits = re.sub(r"\D", "", name)
    return name.removesuffix(digits), int(digits or 0)


def _row(words: Caption) -> tuple[str, ...]:
    return title(words.item), sentence(words.verdict), sentence(words.reason), words.source


def _tell_item(item: ItemResult) -> list[Block]:
    words, name = item.words, title(item.words.item)
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


def sentence(words: str) -> str:
    """With a capital letter."""
    return words[:1].upper() + words[1:]


def _data(item: ItemResult) -> list[Block]:
    """The first rows of the data, for an item that is a table."""
    import pandas as pd

    from hushmeter.errors import DataError

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
    return [make_table(f"{title(item.words.item)}, the data", columns, rows, prose=True)]


def _word(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
