"""Configuration of Sphinx for `make docs`."""

import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "hushmeter"
author = "The hushmeter developers"
copyright = "2026, the hushmeter developers"
release = installed_version("hushmeter")
extensions = [
    "generated",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "hushmeter"
numpydoc_show_class_members = False
autodoc_typehints = "none"
nitpicky = True

# This script of an installed package draws formulas as SVG, so pages need no remote fonts.
mathjax = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
html_static_path = ["book.css", str(mathjax / "tex-svg.js")]
html_css_files = ["book.css"]
mathjax_path = "tex-svg.js"


def escape_bars(app, what, name, obj, options, lines):
    """Docstrings write |x| for absolute values; reStructuredText would read a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
