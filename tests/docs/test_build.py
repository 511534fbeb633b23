"""The documentation builds without a warning and loads nothing from other hosts."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, load_extension

CHECK = load_extension("offline_check")


@pytest.mark.parametrize(
    ("html", "count"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', 1),
        ('<link rel="canonical" href="https://example.org/">', 0),
        ('<img src="picture.png"><a href="https://example.org">a link is no load</a>', 0),
        ("<style>@import 'https://fonts.example/f.css';</style>", 1),
        ('<p style="background: url(http://x.example/a.png)">', 1),
        ("<p>url(https://example.org/words)</p>", 0),
    ],
)
def test_remote_loads_are_found(tmp_path, html, count):
    (tmp_path / "page.html").write_text(f"<html><body>{html}</body></html>")
    assert len(list(CHECK.remote_loads(tmp_path))) == count


def test_remote_fonts_in_style_sheets_are_found(tmp_path):
    (tmp_path / "a.css").write_text("@font-face { src: url('https://fonts.example/a.woff2'); }")
    (tmp_path / "b.css").write_text("p { background: url(data:image/png;base64,AA==); }")
    (found,) = CHECK.remote_loads(tmp_path)
    assert found.startswith("a.css: ")


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path):
    if importlib.util.find_spec("sphinx") is None or importlib.util.find_spec("furo") is None:
        pytest.skip("the extra docs is not installed")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(tmp_path / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(CHECK.remote_loads(tmp_path / "html")) == []
    formula = (tmp_path / "html" / "mechanisms.html").read_text(encoding="utf-8")
    assert "_static/tex-svg.js" in formula
    assert (tmp_path / "html" / "_static" / "tex-svg.js").stat().st_size > 1_000_000
