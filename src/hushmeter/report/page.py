"""The page: sections for its readers, a table of contents, and where the numbers come from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushmeter import __version__
from hushmeter.report import write_page
from hushmeter.report.adopters import tell_battery, tell_price
from hushmeter.report.analyst import tell_analyst
from hushmeter.report.blocks import Block, Heading, Points, Section, make_table, text
from hushmeter.report.collect import Results, SweepResult, reading
from hushmeter.report.household import tell_household
from hushmeter.report.paper import tell_paper

TITLE = "What the meter tells"
SHORT_DIGEST = 16


def write_report(results: Results, path: Path, *, force: bool = False) -> list[Section]:
    """Write the page of all results; returns its sections."""
    told = [tell_household, tell_analyst, tell_paper, tell_battery, tell_price]
    sections = [section for tell in told if (section := tell(results)) is not None]
    sections = [_number(section) for section in [*sections, _provenance(results)]]
    context = {
        "title": TITLE,
        "lead": _lead(results),
        "sections": sections,
        "missing": missing_results(results),
        "version": __version__,
    }
    write_page("report.html", path, context, force=force)
    return sections


def missing_results(results: Results) -> list[tuple[str, str]]:
    """What is not on the page, with the command that makes it."""
    commands: list[tuple[list[Any], str, str]] = [
        (results.sweeps, "attackers against ε", "hushmeter sweep STUDY.toml -o DIR"),
        (results.receipts, "a release and its receipt", "hushmeter release FILE -e 1 -o OUT.csv"),
        (results.items, "the paper’s figures", "hushmeter reproduce all -o DIR"),
        (results.batteries, "a battery", "hushmeter battery FILE --home HOME -e 1 … -o DIR"),
        (results.prices, "a price for every ε", "hushmeter price --home HOME --trace FILE -o DIR"),
    ]
    return [(what, command) for found, what, command in commands if not found]


def _lead(results: Results) -> str:
    """What the page rests on, in one sentence."""
    parts = []
    for sweep in results.sweeps:
        table = sweep.table
        homes = ", ".join(f"“{home}”" for home in table["home"].unique())
        parts.append(
            f"{table['attacker'].nunique()} attackers on {homes} at {table['epsilon'].nunique()} "
            "values of ε"
        )
    counts = (
        (results.items, "reproduced item"),
        (results.receipts, "release"),
        (results.batteries, "battery"),
        (results.prices, "menu of prices"),
    )
    for found, word in counts:
        if found:
            parts.append(f"{len(found)} {_plural(word, len(found))}")
    return "; ".join(parts) + "."


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    irregular = {"battery": "batteries", "menu of prices": "menus of prices"}
    return irregular.get(word, word + "s")


def _number(section: Section) -> Section:
    """The section with anchors for its headings."""
    blocks: list[Block] = []
    count: Counter[str] = Counter()
    for block in section.blocks:
        if isinstance(block, Heading):
            count["heading"] += 1
            block = replace(block, anchor=f"{section.anchor}-{count['heading']}")
        blocks.append(block)
    return replace(section, blocks=tuple(blocks))


def _provenance(results: Results) -> Section:
    """Studies, seeds, versions and digests."""
    blocks: list[Block] = []
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            blocks += _manifest(sweep)
    for saved in results.receipts:
        with reading(saved.path):
            digest = saved.content["output"]["sha256"]
            blocks.append(text(f"{saved.path.name}: readings with SHA-256 {digest}.", role="small"))
    names = [saved.path.name for saved in (*results.batteries, *results.prices)]
    names += [item.path.name for item in results.items]
    if names:
        blocks.append(text(f"Also read: {', '.join(names)}.", role="small"))
    lead = "The same inputs, seeds and versions give the same numbers."
    return Section("provenance", "Where the numbers come from", lead, tuple(blocks))


def _manifest(sweep: SweepResult) -> list[Block]:
    told = sweep.manifest
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    known = "read again and equal" if sweep.study is not None else "not at hand"
    lines = (
        f"Study “{told['study']}”: seed {told['seed']}, {told['seeds']} releases of each kind, "
        f"{', '.join(told['mechanisms'])} noise, {len(sweep.table)} cells with scores.",
        f"Versions: {versions}.",
        f"Its plan and readings: {known}.",
    )
    rows = [
        (case["name"], case["train"][:SHORT_DIGEST], case["test"][:SHORT_DIGEST])
        for case in told["cases"]
    ]
    attackers = [
        (one["label"], one["name"], _parameters(one["parameters"])) for one in told["attackers"]
    ]
    return [
        Heading(f"The study “{told['study']}”"),
        Points(lines),
        make_table(
            "Readings, by the first digits of their SHA-256",
            ("case", "learnt from", "attacked"),
            rows,
            prose=True,
        ),
        make_table(
            "Attackers", ("in the tables", "registered as", "parameters"), attackers, prose=True
        ),
    ]


def _parameters(given: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in given.items()) or "defaults"
