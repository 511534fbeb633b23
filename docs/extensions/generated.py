"""Parts of the documentation that are made from the code during the build, so they are never stale.

A page marks the place with a comment: `<!-- commands -->`, `<!-- layouts -->`, `<!-- sources -->`,
`<!-- modules -->`, `<!-- public names -->` or `<!-- other public names -->`. The build also fails
if the picture of the packages is out of date.
"""

from __future__ import annotations

from command_reference import describe_commands
from layout_list import describe_layouts, describe_sources
from module_list import describe_modules
from package_graph import PICTURE, draw, group_graph, read_graph
from public_names import describe_rest, list_names
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PARTS = {
    "<!-- commands -->": describe_commands,
    "<!-- layouts -->": describe_layouts,
    "<!-- sources -->": describe_sources,
    "<!-- modules -->": describe_modules,
    "<!-- public names -->": list_names,
    "<!-- other public names -->": describe_rest,
}


def fill_page(app: Sphinx, page: str, source: list[str]) -> None:  # noqa: ARG001
    """Put the generated text in the place of its comment."""
    for comment, describe in PARTS.items():
        if comment in source[0]:
            source[0] = source[0].replace(comment, describe(source[0]))


def check_picture(app: Sphinx) -> None:  # noqa: ARG001
    """Stop the build if docs/packages.svg does not show the imports of the source."""
    if PICTURE.read_text(encoding="utf-8") != draw(group_graph(read_graph())):
        raise ExtensionError(
            f"{PICTURE} is out of date: run python docs/extensions/package_graph.py"
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", check_picture)
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
