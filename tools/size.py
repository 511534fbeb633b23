"""`python -m tools.size`: how large the packages are, now and at an earlier revision.

For every package the table has its modules, its lines of code (without blanks, comments and
docstrings), its lines of docstrings, the parameters of its functions and the functions with more
than eight of them; constructors of dataclasses have none of their own. Below it stand the modules
of hushmeter that two commands load.

    python -m tools.size --before fdbcfbc
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_PARAMETERS = 8
PACKAGES = ("releases", "privacy", "advice", "ledger", "live", "fleet", "web", "noise", "cli")
COMMANDS = {
    "release --hide": ["release", "meter.csv", "--hide", "kettle", "-o", "out.csv", "--force"],
    "inspect": ["inspect", "meter.csv"],
}
COUNT = """
import sys
from hushmeter.cli import main
sys.argv = ["hushmeter", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(*sorted(name for name in sys.modules if name.startswith("hushmeter")), file=sys.stderr)
"""


@dataclass
class Size:
    """Sizes of one package.

    Attributes
    ----------
    modules, code, docstrings : int
        Modules, lines of code and lines of docstrings.
    wide : list of str
        Functions with more than eight parameters.
    parameters : int
        Parameters of all functions.
    """

    modules: int = 0
    code: int = 0
    docstrings: int = 0
    parameters: int = 0
    wide: list[str] | None = None


def measure(folder: Path) -> Size:
    """Measure all modules of a folder."""
    size = Size(wide=[])
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        inside = docstring_lines(tree)
        size.modules += 1
        size.docstrings += len(inside)
        size.code += sum(
            bool(line.strip()) and not line.strip().startswith("#")
            for number, line in enumerate(text.splitlines(), 1)
            if number not in inside
        )
        for name, count in functions(tree):
            size.parameters += count
            if count > MOST_PARAMETERS and size.wide is not None:
                size.wide.append(f"{path.stem}.{name} ({count})")
    return size


def docstring_lines(tree: ast.Module) -> set[int]:
    """Numbers of the lines of all docstrings."""
    lines: set[int] = set()
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and number of parameters of every function, without self and cls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield node.name, sum(name.arg not in ("self", "cls") for name in names)


def loaded_modules(source: Path, arguments: list[str]) -> list[str]:
    """Names of the modules of hushmeter that a command loads, on a small file of readings."""
    with tempfile.TemporaryDirectory() as folder:
        rows = "\n".join(f"2024-01-01T{h:02d}:00:00Z,{100 + 10 * h}" for h in range(24))
        Path(folder, "meter.csv").write_text(f"timestamp,watts\n{rows}\n")
        done = subprocess.run(
            [sys.executable, "-c", COUNT, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stderr.split("\n")[-2].split()


def report(source: Path) -> dict[str, list[object]]:
    """All rows of the table for one source tree."""
    rows: dict[str, list[object]] = {}
    for package in (*PACKAGES, ""):
        folder = source / "hushmeter" / package
        # The ledger was a part of the fleet once.
        if not folder.exists():
            rows[package] = ["–"] * 5
            continue
        size = measure(folder)
        wide = len(size.wide or [])
        rows[package or "all"] = [
            size.modules, size.code, size.docstrings, size.parameters, wide,
        ]  # fmt: skip
    for name, arguments in COMMANDS.items():
        rows[f"modules loaded by {name}"] = [len(loaded_modules(source, arguments))]
    return rows


def unpack(revision: str, folder: str) -> Path:
    """Write the source of a revision into a folder."""
    archive = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder, "src")


def main() -> None:
    """Print the sizes now and, with --before, those of an earlier revision."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--before", help="an earlier revision to compare with")
    parser.add_argument("--wide", action="store_true", help="list functions with many parameters")
    given = parser.parse_args()
    now = report(ROOT / "src")
    before: dict[str, list[object]] = {}
    if given.before:
        with tempfile.TemporaryDirectory() as folder:
            before = report(unpack(given.before, folder))
    print(f"{'':32}{'modules':>14}{'code':>16}{'docstrings':>16}{'parameters':>16}{'> 8':>10}")
    for name, values in now.items():
        old = before.get(name, [])
        cells = [
            f"{old[i]} → {value}" if i < len(old) else str(value) for i, value in enumerate(values)
        ]
        widths = (14, 16, 16, 16, 10)
        print(f"{name:32}" + "".join(c.rjust(w) for c, w in zip(cells, widths, strict=False)))
    if given.wide:
        for package in PACKAGES:
            size = measure(ROOT / "src" / "hushmeter" / package)
            for function in size.wide or []:
                print(f"{package}/{function}")


if __name__ == "__main__":
    main()
