"""A strict reader of the pages: unclosed or crossed tags are refused, tables come out as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

from hushmeter.apps.study.report.page import collect_results, write_report

VOID = {"meta", "img", "br", "hr", "link", "input"}
KNOWN = {
    "html", "head", "title", "style", "body", "header", "nav", "main", "section", "footer", "div",
    "h1", "h2", "h3", "p", "a", "ol", "ul", "li", "figure", "figcaption", "table", "caption",
    "thead", "tbody", "tr", "th", "td", "span", "small", "details", "summary", "dl", "dt", "dd",
    "code",
}  # fmt: skip


@dataclass
class Page(HTMLParser):
    """What a page holds, found while it is read."""

    text: str
    open_tags: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    images: list[dict[str, str]] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def __post_init__(self):
        super().__init__(convert_charrefs=True)
        self.caption, self.rows = "", []
        assert self.text.startswith("<!doctype html>")
        self.feed(self.text)
        self.close()
        assert self.open_tags == [], self.open_tags

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert len(given) == len(attrs), f"an attribute of <{tag}> is given twice"
        assert tag in KNOWN | VOID, f"<{tag}> does not belong on the page"
        assert not any(name.startswith("on") for name in given)
        if tag not in VOID:
            self.open_tags.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a":
            self.links.append(given["href"])
        if tag == "img":
            self.images.append(given)
        if tag in ("h1", "h2", "h3"):
            self.headings.append((int(tag[1]), ""))
        if tag == "table":
            self.caption, self.rows = "", []
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            assert tag == "td" or given["scope"] in ("col", "row")
            self.rows[-1].append("")
        if tag == "small":
            self.rows[-1][-1] += "|"

    def handle_endtag(self, tag):
        assert self.open_tags, f"</{tag}> closes nothing"
        assert self.open_tags.pop() == tag, f"</{tag}> closes another tag"
        if tag == "table":
            assert self.caption, "a table has no caption"
            assert len({len(row) for row in self.rows}) == 1, self.caption
            self.tables[self.caption] = self.rows

    def handle_data(self, data):
        if "style" in self.open_tags:
            return
        self.words.append(data)
        if self.open_tags[-1:] and self.open_tags[-1] in ("h1", "h2", "h3"):
            level, before = self.headings[-1]
            self.headings[-1] = (level, before + data)
        if "caption" in self.open_tags:
            self.caption += data
        elif self.open_tags[-1:] and self.open_tags[-1] in ("th", "td", "small"):
            self.rows[-1][-1] += data.strip()

    def table(self, start: str) -> list[list[str]]:
        """The one table whose caption starts so."""
        found = [rows for caption, rows in self.tables.items() if caption.startswith(start)]
        assert len(found) == 1, list(self.tables)
        return found[0]

    @property
    def prose(self) -> str:
        return " ".join(" ".join(self.words).split())


def check_page(text: str) -> Page:
    """A page that stands alone, is well formed and can be read by everybody."""
    page = Page(text)
    assert "http:" not in text
    assert "https:" not in text
    assert "<script" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    for image in page.images:
        assert image["src"].startswith(("data:image/png;base64,", "data:image/svg+xml;base64,"))
        assert len(image["alt"]) > 10
    levels = [level for level, _ in page.headings]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(text) < 3_000_000
    return page


def make_page(paths, tmp_path) -> Page:
    """The checked page of some results."""
    target = tmp_path / "page.html"
    write_report(collect_results(paths), target, force=True)
    return check_page(target.read_text(encoding="utf-8"))
