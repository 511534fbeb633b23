"""The files of the page: all texts in one place, nothing inline, nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import hushmeter

STATIC = Path(hushmeter.__file__).parent / "apps" / "page" / "static"
PAGES = {name: (STATIC / name).read_text(encoding="utf-8") for name in ("index.html", "live.html")}
SCRIPTS = sorted(path for path in STATIC.rglob("*.js") if path.parent == STATIC)
# A name, a symbol and a unit need no translation.
UNTRANSLATED = {"hushmeter", "ε =", "W"}


class Reader(HTMLParser):
    """Collects words, attributes and tags."""

    def __init__(self):
        super().__init__()
        self.words, self.attributes, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        if data.strip():
            self.words.append(data.strip())


@pytest.fixture(scope="module", params=PAGES)
def html(request):
    return read_page(request.param)


def read_page(name):
    reader = Reader()
    reader.feed(PAGES[name])
    return reader


def texts_of_pages():
    """Keys of all pages."""
    attributes = [entry for name in PAGES for entry in read_page(name).attributes]
    return {value for _, name, value in attributes if name == "data-text"}


@pytest.fixture(scope="module")
def texts():
    """The English texts, flat: dotted key → text."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here, which reads the file of texts")
    # Read as data: a file without package.json would be taken for CommonJS.
    source = (STATIC / "texts" / "en.js").read_text(encoding="utf-8")
    script = source.replace("export default", "const texts =") + (
        "\nconst flat = (branch, path) => Object.entries(branch).flatMap(([key, value]) =>"
        " typeof value === 'string' ? [[[...path, key].join('.'), value]]"
        " : flat(value, [...path, key]));"
        "\nconsole.log(JSON.stringify(Object.fromEntries(flat(texts, []))));"
    )
    done = subprocess.run([node, "-e", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def keys_of_scripts():
    """Keys that the scripts name, and the openings of those they put together."""
    whole, openings = set(), set()
    for path in SCRIPTS:
        source = path.read_text(encoding="utf-8")
        whole |= set(re.findall(r'\bsay(?:Or)?\("([\w.]+)"', source))
        whole |= set(re.findall(r'"((?:[a-z_]+\.)+[a-z_]+)"', source)) - {"plotly.js"}
        openings |= set(re.findall(r"\bsay(?:Or)?\(\s*`([\w.]+)\$", source))
    return whole, openings


def test_every_text_that_is_asked_for_is_there(texts):
    asked = texts_of_pages()
    whole, openings = keys_of_scripts()
    assert len(asked) > 40
    assert len(whole) > 40
    assert (asked | whole) - set(texts) == set()
    assert [o for o in openings if not any(key.startswith(o) for key in texts)] == []


def test_every_text_is_asked_for(texts):
    asked = texts_of_pages()
    whole, openings = keys_of_scripts()
    # Columns of tables are asked for by panel and name.
    openings |= {
        f"{panel}.columns."
        for panel in ("trace", "strips", "visibility", "cost", "bounds", "calendar")
    }
    unused = [
        key
        for key in texts
        if key not in asked | whole and not any(key.startswith(o) for o in openings)
    ]
    assert unused == ["language", "locale", "title"]


def test_the_page_itself_has_no_words(html):
    assert set(html.words) - UNTRANSLATED == set()
    told = {"alt", "aria-label", "title", "placeholder"}
    assert [value for _, name, value in html.attributes if name in told and value] == []


def test_nothing_is_inline_and_nothing_is_from_elsewhere(html):
    assert "style" not in html.tags
    assert html.tags.count("script") == 1
    assert [
        name for _, name, _ in html.attributes if name == "style" or name.startswith("on")
    ] == []
    for path in [*STATIC.rglob("*.js"), *STATIC.rglob("*.css"), *STATIC.rglob("*.html")]:
        outside = re.findall(r"https?://[^\s\"')]+", path.read_text(encoding="utf-8"))
        assert set(outside) <= {"http://www.w3.org/2000/svg"}, path.name


def test_every_label_has_its_field(html):
    ids = [value for _, name, value in html.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in html.attributes:
        if name in ("for", "aria-labelledby", "aria-describedby", "aria-controls"):
            assert set(value.split()) <= set(ids), value
