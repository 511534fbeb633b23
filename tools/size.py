"""`make size`: how large the source is, and whether it grew past the numbers of size.toml.

- tokens of all code, of the core and of each app: what `tokenize` finds in the files of Python in
  `src`, without comments, line ends, indents and docstrings. Packed lines have as many as others.
- wide_functions: functions with more than eight parameters that are no commands. A constructor that
  `dataclass` writes does not count.
- duplicates: pairs of passages in `src` and `tests` with six or more lines of code that are equal
  apart from spaces, numbers and strings. Imports, lines without a name (rows of data) and lines of
  one or two words or signs (a closing bracket) are passed over.
- commands, command_parameters: commands that `hushmeter --help` lists, and the most parameters
  that one of them has.
- loaded_by_release, loaded_by_inspect: modules of hushmeter that `release --hide kettle` and
  `inspect` import.

`--check` fails if a number is larger than in size.toml, and `--write` writes today's numbers there.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "size.toml"
MOST_PARAMETERS = 8
SHORTEST_PASSAGE = 6
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
VALUE = re.compile(r"""[rbf]*"[^"]*"|[rbf]*'[^']*'|\b\d[\w.]*""")
WORD = re.compile(r"\w+|[^\w\s]")
COMMANDS = {
    "loaded_by_release": "release meter.csv --hide kettle -o out.csv",
    "loaded_by_inspect": "inspect meter.csv",
}
COUNT_LOADED = """
import json, sys
from hushmeter.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sum(name.split(".")[0] == "hushmeter" for name in sys.modules)))
"""
COUNT_COMMANDS = """
import json, typer
from hushmeter.cli import app

def widths(command):
    inside = getattr(command, "commands", {}).values()
    return [len(command.params), *(width for one in inside for width in widths(one))]

shown = [one for one in typer.main.get_command(app).commands.values() if not one.hidden]
print(json.dumps([len(shown), max(width for one in shown for width in widths(one))]))
"""


@dataclass
class Size:
    """Sizes of some modules."""

    modules: int = 0
    tokens: int = 0
    wide: list[str] = field(default_factory=list)  # functions with more than eight parameters


def measure(paths: list[Path]) -> Size:
    """Measure some modules."""
    size = Size(modules=len(paths))
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        size.tokens += count_tokens(text, docstring_lines(tree))
        wide = [(name, count) for name, count in functions(tree) if count > MOST_PARAMETERS]
        size.wide += [f"{path.parent.name}/{path.stem}.{name} ({count})" for name, count in wide]
    return size


def count_tokens(text: str, docstrings: set[int]) -> int:
    """Number of tokens of code; `docstrings` are the lines of docstrings."""
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        token.type not in NO_CODE
        and not (token.type == tokenize.STRING and token.start[0] in docstrings)
        for token in found
    )


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


def comparable_lines(text: str) -> list[tuple[int, str]]:
    """Number and form of the lines of code in which a passage is looked for."""
    tree = ast.parse(text)
    left_out = docstring_lines(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = WORD.findall(VALUE.sub("0", line))
        has_name = any(word[0].isalpha() or word[0] == "_" for word in words)
        if number not in left_out and has_name and len(words) > 2 and words[0] != "#":
            found.append((number, " ".join(words)))
    return found


def duplicates(texts: dict[str, str]) -> list[str]:
    """Pairs of places, by file and line, at which equal passages begin."""
    lines = {name: comparable_lines(text) for name, text in texts.items()}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, found in lines.items():
        forms = [form for _, form in found]
        for i in range(len(forms) - SHORTEST_PASSAGE + 1):
            places[tuple(forms[i : i + SHORTEST_PASSAGE])].append((name, i))
    equal = {pair for same in places.values() for pair in combinations(same, 2)}
    # A passage of seven lines is two equal runs of six: only the first of them counts.
    return [
        f"{a}:{lines[a][i][0]} ~ {b}:{lines[b][j][0]}"
        for (a, i), (b, j) in sorted(equal)
        if ((a, i - 1), (b, j - 1)) not in equal
    ]


def count_in_process(source: Path, code: str, arguments: str = "") -> Any:
    """What a short program prints as JSON, in a folder with a small file of readings."""
    with tempfile.TemporaryDirectory() as folder:
        rows = "\n".join(f"2024-01-01T{h:02d}:00:00Z,{100 + 10 * h}" for h in range(24))
        Path(folder, "meter.csv").write_text(f"timestamp,watts\n{rows}\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments.split()],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def count_all(root: Path) -> tuple[dict[str, int], Size, list[str]]:
    """The numbers of size.toml for a project, its size and its duplicates."""
    source = root / "src"
    package = source / "hushmeter"
    with ThreadPoolExecutor() as pool:
        loaded = {
            name: pool.submit(count_in_process, source, COUNT_LOADED, words)
            for name, words in COMMANDS.items()
        }
        commands = pool.submit(count_in_process, source, COUNT_COMMANDS)
        size = measure(sorted(package.rglob("*.py")))
        modules = sorted([*package.rglob("*.py"), *(root / "tests").rglob("*.py")])
        texts = {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in modules}
        repeated = duplicates(texts)
        number, parameters = commands.result()
        outside = [
            name for name in size.wide if not name.startswith("cli/") and "/commands." not in name
        ]
        areas = by_area(source)
        numbers = {
            "tokens": size.tokens,
            **{f"tokens of {area}": one.tokens for area, one in areas.items()},
            "wide_functions": len(outside),
            "duplicates": len(repeated),
            "commands": number,
            "command_parameters": parameters,
            **{name: future.result() for name, future in loaded.items()},
        }
    return numbers, Size(size.modules, size.tokens, outside), repeated


def by_area(source: Path) -> dict[str, Size]:
    """Size of the core and of every app."""
    package = source / "hushmeter"
    return _sizes(sorted(package.rglob("*.py")), lambda path: area_of(path.relative_to(package)))


def by_package(source: Path) -> dict[str, Size]:
    """Size of every package of the core, and of every app."""
    package = source / "hushmeter"

    def name(path: Path) -> str:
        place = path.relative_to(package)
        area = area_of(place)
        if area != "core":
            return area
        return place.parts[0] if len(place.parts) > 1 else "(modules)"

    return _sizes(sorted(package.rglob("*.py")), name)


def _sizes(paths: list[Path], name: Callable[[Path], str]) -> dict[str, Size]:
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        groups[name(path)].append(path)
    return {group: measure(members) for group, members in sorted(groups.items())}


def area_of(place: Path) -> str:
    """The part of the house to which a module belongs: the core, or an app such as apps/live."""
    is_app = place.parts[0] == "apps" and len(place.parts) > 2
    return "/".join(place.parts[:2]) if is_app else "core"


def unpack(revision: str, folder: str) -> Path:
    """Write a revision into a folder."""
    archive = subprocess.run(
        ["git", "archive", revision, "src", "tests"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder)


def print_packages(now: dict[str, Size], before: dict[str, Size]) -> None:
    """Print the size of every package, and what it was before."""
    print(f"{'':16}{'modules':>14}{'tokens':>20}{'> 8 parameters':>18}")
    for name in sorted({*now, *before}):
        cells = []
        for column in ("modules", "tokens", "wide"):
            pair = [getattr(sizes.get(name, Size()), column) for sizes in (before, now)]
            numbers = [len(value) if column == "wide" else value for value in pair]
            cells.append(f"{numbers[0]} → {numbers[1]}" if before else str(numbers[1]))
        widths = (14, 20, 18)
        row = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        print(f"{name:16}{row}")


def grown(numbers: dict[str, int], limits: dict[str, int]) -> list[str]:
    """One sentence for every number that is larger than its limit, or has none."""
    return [
        f"{name} is {number}, and size.toml allows {limits.get(name, 'nothing of this name')}: "
        "make it smaller, or raise the number in the same commit and say why."
        for name, number in numbers.items()
        if name not in limits or number > limits[name]
    ]


def main() -> int:
    """Print the sizes; with --check the exit code is 1 if a number grew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="fail if a number grew")
    parser.add_argument("--write", action="store_true", help="write the numbers into size.toml")
    parser.add_argument("--packages", action="store_true", help="show every package")
    parser.add_argument("--before", help="an earlier revision to compare with")
    parser.add_argument("--list", action="store_true", help="list duplicates and wide functions")
    given = parser.parse_args()
    numbers, size, repeated = count_all(ROOT)
    limits: dict[str, int] = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    earlier: dict[str, int] = {}
    packages: dict[str, Size] = {}
    if given.before:
        with tempfile.TemporaryDirectory() as folder:
            root = unpack(given.before, folder)
            earlier, packages = count_all(root)[0], by_package(root / "src")
    for name, number in numbers.items():
        old = f"{earlier[name]} → " if name in earlier else ""
        print(f"{name:24}{old + str(number):>18}   (at most {limits.get(name, '?')})")
    if given.packages or given.before:
        print_packages(by_package(ROOT / "src"), packages)
    if given.list:
        print(*repeated, *size.wide, sep="\n")
    if given.write:
        head = "".join(f"{line}\n" for line in LIMITS.read_text().splitlines() if line[:1] == "#")
        rows = "".join(f"{json.dumps(name)} = {number}\n" for name, number in numbers.items())
        LIMITS.write_text(head + rows, encoding="utf-8")
    too_large = grown(numbers, limits) if given.check else []
    print(*too_large, sep="\n", end="\n" if too_large else "")
    return int(bool(too_large))


if __name__ == "__main__":
    sys.exit(main())
