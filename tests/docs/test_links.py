"""Every link of the README and of docs/ has a target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.docs.blocks import ROOT, load_extension, pages

OTHERS = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")
PAGES = [*pages(), *(ROOT / name for name in OTHERS)]
GENERATED = {"cli.md": "command_reference", "architecture.md": "module_list"}
MAKERS = {"command_reference": "describe_commands", "module_list": "describe_modules"}


def links(text: str) -> Iterator[str]:
    """Targets of links and pictures, also of MyST's image directive."""
    for token in flatten(MarkdownIt("commonmark").enable("table").parse(text)):
        if token.type == "link_open":
            yield str(token.attrs["href"])
        elif token.type == "image":
            yield str(token.attrs["src"])
        elif token.type == "fence" and token.info.startswith("{image}"):
            yield token.info.removeprefix("{image}").strip()


def flatten(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flatten(token.children or [])


@cache
def anchors(path: Path) -> frozenset[str]:
    """Slugs of the headings, as GitHub and MyST make them."""
    text = path.read_text(encoding="utf-8")
    if path.name in GENERATED:
        name = GENERATED[path.name]
        text += getattr(load_extension(name), MAKERS[name])()
    tokens = MarkdownIt("commonmark").parse(text)
    heads = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    return frozenset(slug(head) for head in heads)


def slug(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def broken(path: Path) -> list[str]:
    """Links of a page whose file or heading does not exist."""
    found = []
    for link in links(path.read_text(encoding="utf-8")):
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = path if not parts.path else path.parent / parts.path
        if not target.exists() or not has_anchor(target, unquote(parts.fragment)):
            found.append(link)
    return found


def has_anchor(path: Path, fragment: str) -> bool:
    return not fragment or slug(fragment) in anchors(path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_within_the_project_resolve(path):
    assert broken(path) == []


def test_addresses_outside_are_well_formed():
    outside = {
        link
        for path in PAGES
        for link in links(path.read_text(encoding="utf-8"))
        if urlsplit(link).scheme
    }
    odd = [link for link in outside if not re.fullmatch(r"https://[\w.-]+\.\w+(/\S*)?", link)]
    assert odd == []


def test_a_broken_link_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Top *level*\n\n[a](none.md) [b](#top-level) [c](#nowhere) [d](page.md#top-level)\n\n"
        "![e](none.png)\n\n```{image} none.svg\n```\n"
    )
    assert broken(page) == ["none.md", "#nowhere", "none.png", "none.svg"]
