"""Sphinx configuration."""

from importlib.metadata import version as installed_version

project = "hushmeter"
author = "The hushmeter developers"
copyright = "2026, the hushmeter developers"
release = installed_version("hushmeter")
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "hushmeter"
numpydoc_show_class_members = False
autodoc_typehints = "none"
nitpicky = False


def escape_bars(app, what, name, obj, options, lines):
    """Docstrings write |x| for absolute values; reStructuredText would read a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
