"""How fast the command line answers, against importing numpy.

More than half of the time belongs to the imports of typer and rich, which print the help.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness import Row, together


def rows() -> Iterator[Row]:
    """`hushmeter --help` is the first thing a person runs."""
    shown, limit = together(
        lambda: _run("-m", "hushmeter", "--help"), lambda: _run("-c", "import numpy"), repeat=9
    )
    yield Row("hushmeter --help: time", shown / limit, 'python -c "import numpy"', 3.5, "", True)


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
