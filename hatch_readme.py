"""The README as a package index shows it: its relative links become absolute ones.

In the repository the links are relative, so that they work in a clone and on any host. A package
index shows the README without the repository, so the build replaces them with addresses below the
project's `Source`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A file of the repository has a suffix. Python code such as `attackers["co"](home)` does not match.
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([\w/.-]+\.\w+(?:#[\w-]+)?)\)")


def make_absolute(text: str, source: str) -> str:
    """Return Markdown text whose relative links and pictures point to the repository.

    Parameters
    ----------
    text : str
        The README.
    source : str
        Address of the repository, such as https://github.com/owner/name.

    Returns
    -------
    str
        The same text. Links lead to the page that shows a file, pictures to the file itself.
    """

    def replace(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        kind = "raw" if mark else "blob"
        return f"{mark}[{words}]({source}/{kind}/main/{target})"

    return LINK.sub(replace, text)


class ReadmeHook(MetadataHookInterface):
    """Fills in the dynamic field `readme` of pyproject.toml when a distribution is built."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata of the project."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": make_absolute(text, metadata["urls"]["Source"]),
        }
