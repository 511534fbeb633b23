"""The whole page: sections for its readers, and a section about where the numbers come from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushmeter import __version__
from hushmeter.files import write_text
from hushmeter.formatting import count_of
from hushmeter.report.analyst import tell_analyst
from hushmeter.report.battery_price import tell_battery, tell_price
from hushmeter.report.blocks import Block, Heading, Points, Section, make_table, text
from hushmeter.report.collect import Results, SweepResult, reading
from hushmeter.report.household import tell_household
from hushmeter.report.paper import tell_paper

TITLE = "What the meter reveals"
SHORT_DIGEST = 16


def write_report(results: Results, path: Path, *, force: bool = False) -> list[Section]:
    """Write the page of all results."""
    writers = [tell_household, tell_analyst, tell_paper, tell_battery, tell_price]
    sections = [section for tell in writers if (section := tell(results)) is not None]
    sections = [_number(section) for section in [*sections, _provenance(results)]]
    context = {
        "title": TITLE,
        "lead": _lead(results),
        "sections": sections,
        "missing": missing_results(results),
        "version": __version__,
    }
    write_text(path, _fill_template("report.html", context), force=force)
    return sections


def _fill_template(name: str, context: dict[str, Any]) -> str:
    """Fill a template of this package; every value is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hushmeter.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**context)


def missing_results(results: Results) -> list[tuple[str, str]]:
    """Name what is not on the page, and the command that makes it."""
    commands: list[tuple[list[Any], str, str]] = [
        (results.sweeps, "attackers against ε", "hushmeter sweep STUDY.toml -o DIR"),
        (results.receipts, "a release and its receipt", "hushmeter release FILE -e 1 -o OUT.csv"),
        (results.items, "the paper’s figures", "hushmeter reproduce all -o DIR"),
        (results.batteries, "a battery", "hushmeter battery FILE --home HOME -e 1 … -o DIR"),
        (results.prices, "a price for every ε", "hushmeter price --home HOME --trace FILE -o DIR"),
    ]
    return [(what, command) for found, what, command in commands if not found]


def _lead(results: Results) -> str:
    """Return one sentence about the results on the page."""
    parts = []
    for sweep in results.sweeps:
        table = sweep.table
        homes = ", ".join(f"“{home}”" for home in table["home"].unique())
        parts.append(
            f"{count_of(table['attacker'].nunique(), 'attacker')} on {homes} at "
            f"{count_of(table['epsilon'].nunique(), 'value')} of ε"
        )
    counts = (
        (results.items, "reproduced item", None),
        (results.receipts, "release", None),
        (results.batteries, "battery", "batteries"),
        (results.prices, "menu of prices", "menus of prices"),
    )
    for found, one, many in counts:
        if found:
            parts.append(count_of(len(found), one, many))
    return "This page shows " + "; ".join(parts) + "."


def _number(section: Section) -> Section:
    """Return the section with an anchor for each of its headings."""
    blocks: list[Block] = []
    count: Counter[str] = Counter()
    for block in section.blocks:
        if isinstance(block, Heading):
            count["heading"] += 1
            block = replace(block, anchor=f"{section.anchor}-{count['heading']}")
        blocks.append(block)
    return replace(section, blocks=tuple(blocks))


def _provenance(results: Results) -> Section:
    """Write the section about studies, seeds, versions and digests."""
    blocks: list[Block] = []
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            blocks += _manifest(sweep)
    for saved in results.receipts:
        with reading(saved.path):
            digest = saved.content["output"]["sha256"]
            blocks.append(
                text(
                    f"{saved.path.name} belongs to readings with the SHA-256 {digest}.",
                    role="small",
                )
            )
    names = [saved.path.name for saved in (*results.batteries, *results.prices)]
    names += [item.path.name for item in results.items]
    if names:
        blocks.append(text(f"The page also uses {', '.join(names)}.", role="small"))
    lead = "The same inputs, seeds and versions give the same numbers again."
    return Section("provenance", "Where the numbers come from", lead, tuple(blocks))


def _manifest(sweep: SweepResult) -> list[Block]:
    """Describe the study of a sweep."""
    told = sweep.manifest
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    known = (
        "Its plan and readings were read again, and they are the same."
        if sweep.study is not None
        else "Its plan and readings were not among the results."
    )
    lines = (
        f"The study “{told['study']}” has the seed {told['seed']}, "
        f"{count_of(told['seeds'], 'release')} of each kind, {', '.join(told['mechanisms'])} "
        f"noise, and {count_of(len(sweep.table), 'cell')} with scores.",
        # Studies before this key existed gave the first state to all attackers.
        f"The attackers {'knew' if told.get('knows_first_state', True) else 'did not know'} which "
        "appliances were on at the first reading.",
        f"The versions were {versions}.",
        known,
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
            "The readings, by the first digits of their SHA-256",
            ("case", "learnt from", "attacked"),
            rows,
            prose=True,
        ),
        make_table(
            "Attackers", ("in the tables", "registered as", "parameters"), attackers, prose=True
        ),
    ]


def _parameters(given: dict[str, Any]) -> str:
    """Return the parameters of an attacker as text."""
    return ", ".join(f"{name} = {value}" for name, value in given.items()) or "defaults"
