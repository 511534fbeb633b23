"""`make mutants`: change the privacy core in small ways and print the changes that no test notices.

A mutant is the source of one module with one expression changed, for example `<` to `<=` or
`ceil` to `floor`. All tests of the packages run once without a change, which shows the lines that
each of them executes. Each mutant of the sample then meets the tests that execute its line, and
after them all tests of its package. A mutant that no test notices is a survivor. It points to a
missing test, or to a change that makes no difference; survivors.toml says why of the second kind.

The results are saved after every mutant, so an interrupted run continues where it stopped. A
result is valid as long as the source of its module stays the same.

mutmut is not used here. It leaves out decorated functions, which all numba kernels are, and it has
no way to take a sample.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hushmeter"
REASONS = Path(__file__).with_name("survivors.toml")
PYTEST = [sys.executable, "-m", "pytest", "-q", "-m", "not slow"]
STORE = ROOT / ".mutants"
PACKAGES = ("noise", "privacy", "releases", "apps/ledger", "apps/live")
# The tests that must notice a change in a package, besides those of the package itself.
MORE_TESTS = {
    "noise": (
        "tests/paper/test_theorem_2.py",
        "tests/paper/test_algorithm_3.py",
        "tests/theory/test_universal.py",
    ),
    "privacy": ("tests/releases",),
    "releases": ("tests/privacy",),
    "apps/ledger": ("tests/apps/fleet/test_release.py", "tests/apps/fleet/test_refusals.py"),
}

SWAPPED_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
SWAPPED_NAMES = {
    "ceil": "floor",
    "floor": "ceil",
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "argmin": "argmax",
    "argmax": "argmin",
    "log1p": "log",
    "expm1": "exp",
}


@dataclass(frozen=True)
class Mutant:
    """One changed expression of one module.

    Attributes
    ----------
    module : str
        Path of the module below `src/hushmeter`.
    line, last_line : int
        First and last line of the changed expression, from 1.
    before, after : str
        The expression in the source and in the mutant.
    text : str
        The line of the source.
    place : int
        Number of the change among all changes of the module, from 0.
    digest : str
        Digest of the module's source, without which a result is worthless.
    """

    module: str
    line: int
    last_line: int
    before: str
    after: str
    text: str
    place: int
    digest: str

    @property
    def change(self) -> tuple[str, str, str, str]:
        """The change wherever the line moves to."""
        return self.module, self.before, self.after, self.text

    @property
    def key(self) -> str:
        """Identity of the mutant in the file of results."""
        return f"{self.module}:{self.place}:{self.digest}"

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before}  →  {self.after}   in   {self.text}"


def list_mutants(source: str, module: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its source.

    Parameters
    ----------
    source : str
        Python source of the module.
    module : str
        Path of the module below `src/hushmeter`.

    Returns
    -------
    list of Mutant
    """
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    lines = source.splitlines()
    found = []
    for place, (node, changed) in enumerate(_changes(ast.parse(source))):
        before, after = ast.unparse(node), ast.unparse(changed)
        text = lines[node.lineno - 1].strip()
        last = node.end_lineno or node.lineno
        found.append(Mutant(module, node.lineno, last, before, after, text, place, digest))
    return found


def apply_mutant(source: str, place: int) -> str:
    """Return the source of a module with its change number `place` made."""
    tree = ast.parse(source)
    for number, (node, changed) in enumerate(_changes(tree)):
        if number == place:
            return ast.unparse(_Replacement(node, changed).visit(tree))
    raise IndexError(f"the module has no change number {place}.")


class _Replacement(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield every expression that can be changed, with its changed copy."""
    for node in _walk_code(tree):
        yield from ((node, changed) for changed in _change(node))


def _walk_code(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that run: no annotations, decorators or messages of errors."""
    skipped: list[ast.AST] = []
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        skipped += node.decorator_list
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        skipped.append(node.returns)
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        skipped.append(node.annotation)
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.expr):
        yield node
    for child in ast.iter_child_nodes(node):
        if not any(child is other for other in skipped):
            yield from _walk_code(child)


def _change(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            if type(operator) in SWAPPED_OPERATORS:
                changed = copy.deepcopy(node)
                changed.ops[i] = SWAPPED_OPERATORS[type(operator)]()  # type: ignore[call-overload]
                yield changed
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPPED_OPERATORS:
        if not _is_union_of_types(node):
            other = copy.deepcopy(node)
            other.op = SWAPPED_OPERATORS[type(node.op)]()  # type: ignore[assignment]
            yield other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield copy.deepcopy(node.operand)
    elif isinstance(node, ast.Constant):
        yield from _change_constant(node)
    elif isinstance(node, ast.Call):
        yield from _change_call(node)


def _change_constant(node: ast.Constant) -> Iterator[ast.Constant]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield ast.Constant(2 * node.value if node.value else 1.0)


def _change_call(node: ast.Call) -> Iterator[ast.Call]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in SWAPPED_NAMES:
        changed = copy.deepcopy(node)
        if isinstance(changed.func, ast.Attribute):
            changed.func.attr = SWAPPED_NAMES[name]
        else:
            changed.func = ast.Name(SWAPPED_NAMES[name])
        yield changed


def _is_union_of_types(node: ast.expr) -> bool:
    """`float | None` is a type, and so is the second argument of `isinstance`."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
        return False
    return any(
        (isinstance(side, ast.Constant) and side.value is None)
        or (isinstance(side, ast.Name) and hasattr(builtins, side.id))
        for side in (node.left, node.right)
    )


class Workshop:
    """A copy of the source in which one mutant at a time lives while the tests run.

    Parameters
    ----------
    folder : pathlib.Path
        Where the copy is made.
    limit_s : float
        Time after which a run of tests counts as failed [s], for mutants that never end.
    """

    def __init__(self, folder: Path, limit_s: float, executed: CoverageData) -> None:
        self._source = folder / "src"
        self._limit_s = limit_s
        self._executed = executed
        shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", self._source, ignore=ignored)

    def is_noticed(self, mutant: Mutant) -> bool:
        """Return True if a test fails on the mutant."""
        path = self._source / "hushmeter" / mutant.module
        original = path.read_text(encoding="utf-8")
        path.write_text(apply_mutant(original, mutant.place), encoding="utf-8")
        try:
            return any(not self.passes(tests) for tests in runs_for(mutant, self._executed))
        finally:
            path.write_text(original, encoding="utf-8")

    def passes(self, tests: list[str]) -> bool:
        """Return True if all of the given tests pass with this copy of the source."""
        command = [*PYTEST, "-x", "--assert=plain", "-p", "no:cacheprovider", *tests]
        path = os.pathsep.join([str(self._source), str(ROOT)])
        # Compiled kernels must not be taken from, or left in, a cache of the true source.
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        environment["NUMBA_CACHE_DIR"] = str(self._source.parent / "numba")
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                timeout=self._limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def runs_for(mutant: Mutant, executed: CoverageData) -> list[list[str]]:
    """Return the runs of tests for a mutant, the nearest first."""
    lines = executed.contexts_by_lineno(str(SOURCE / mutant.module))
    found = chain(*(lines.get(n, []) for n in range(mutant.line, mutant.last_line + 1)))
    # What a shared fixture executes is looked at by every test of its file.
    names = {
        name if phase == "run" else name.split("::")[0]
        for name, _, phase in (context.rpartition("|") for context in found if context)
    }
    # A value that an earlier test left in a cache hides that a test needs the line.
    nearest = nearest_tests(mutant.module)
    own = f"test_{Path(mutant.module).stem}"
    first = sorted(names, key=lambda name: (own not in name, "::" not in name, name))
    return [tests for tests in (first, *nearest) if tests]


def nearest_tests(module: str) -> list[list[str]]:
    """Return the runs of tests for a module: first its own test file, then those of its package."""
    package, name = str(Path(module).parent), Path(module).stem
    folder, name = ROOT / "tests" / package, Path(package).name if name == "__init__" else name
    own = [str(path.relative_to(ROOT)) for path in sorted(folder.rglob(f"test_{name}*.py"))]
    others = [str(path.relative_to(ROOT)) for path in sorted(folder.rglob("test_*.py"))]
    rest = [path for path in others if path not in own]
    more = [path for path in MORE_TESTS.get(package, ()) if (ROOT / path).exists()]
    return [tests for tests in (own, [*rest, *more]) if tests]


def collect(packages: tuple[str, ...] = PACKAGES) -> list[Mutant]:
    """Return all mutants of the packages."""
    found = []
    for package in packages:
        for path in sorted((SOURCE / package).rglob("*.py")):
            module = path.relative_to(SOURCE).as_posix()
            found += list_mutants(path.read_text(encoding="utf-8"), module)
    return found


def run_unchanged(mutants: list[Mutant]) -> CoverageData | None:
    """Return which tests execute which line, or None if a test fails without any change."""
    modules = {mutant.module.split("/")[0]: mutant.module for mutant in mutants}
    tests = sorted({*chain(*chain(*map(nearest_tests, modules.values())))})
    place = STORE / "coverage"
    command = [*PYTEST, "-n", "auto", "--dist", "loadgroup", "--cov=hushmeter"]
    command += ["--cov-context=test", "--cov-report=", "--cov-fail-under=0", *tests]
    environment = {**os.environ, "COVERAGE_FILE": str(place)}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        return None
    executed = CoverageData(str(place))
    executed.read()
    return executed


def read_results(path: Path) -> dict[str, bool]:
    """Return whether each mutant that was tried before was noticed."""
    if not path.exists():
        return {}
    saved: dict[str, bool] = json.loads(path.read_text(encoding="utf-8"))
    return saved


def read_reasons(path: Path = REASONS) -> dict[tuple[str, str, str, str], str]:
    """Return why a change makes no difference, for the changes of which this is known."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["survivor"]
    return {(e["module"], e["before"], e["after"], e["text"]): e["reason"] for e in entries}


def run(left: list[Mutant], results: dict[str, bool], workshops: list[Workshop]) -> None:
    """Try the mutants that have no result yet, and save each result at once."""
    free: SimpleQueue[Workshop] = SimpleQueue()
    for workshop in workshops:
        free.put(workshop)

    def attempt(mutant: Mutant) -> None:
        workshop = free.get()
        start = time.monotonic()
        noticed = workshop.is_noticed(mutant)
        free.put(workshop)
        results[mutant.key] = noticed
        text = json.dumps(results, indent=0, sort_keys=True)
        (STORE / "results.json").write_text(text, encoding="utf-8")
        verdict = "noticed " if noticed else "SURVIVED"
        print(f"{verdict} {time.monotonic() - start:5.0f} s  {mutant}", flush=True)

    with ThreadPoolExecutor(len(workshops)) as pool:
        list(pool.map(attempt, left))


def main() -> int:
    """Run the command; the exit code is 1 if a mutant survived for no known reason."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--sample", type=int, default=60, help="number of mutants; 0 means all")
    parser.add_argument("--seed", type=int, default=1, help="which sample is taken")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants are tried at once")
    parser.add_argument("--limit", type=float, default=600.0, help="longest run of tests [s]")
    parser.add_argument("--only", default="", help="part of a module's path, such as noise/laplace")
    parser.add_argument("--again", action="store_true", help="try earlier survivors again")
    given = parser.parse_args()

    everything = [mutant for mutant in collect() if given.only in mutant.module]
    order = random.Random(given.seed).sample(everything, len(everything))
    chosen = order[: given.sample] if given.sample else order
    STORE.mkdir(exist_ok=True)
    results = read_results(STORE / "results.json")
    if given.again:
        results = {key: noticed for key, noticed in results.items() if noticed}
    left = [mutant for mutant in chosen if mutant.key not in results]
    print(f"{len(chosen)} of {len(everything)} mutants; {len(left)} have no result yet", flush=True)
    if left:
        executed = run_unchanged(left)
        if executed is None:
            print("These tests fail without any change: correct that first.")
            return 2
        copies = [STORE / f"copy-{job}" for job in range(given.jobs)]
        run(left, results, [Workshop(copy, given.limit, executed) for copy in copies])

    survivors = [mutant for mutant in chosen if not results[mutant.key]]
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} mutants were noticed.")
    reasons = read_reasons()
    for mutant in sorted(survivors, key=lambda mutant: (mutant.module, mutant.line)):
        reason = reasons.get(mutant.change)
        print(f"survived: {mutant}" if reason is None else f"equivalent: {mutant}: {reason}")
    return int(any(mutant.change not in reasons for mutant in survivors))


if __name__ == "__main__":
    sys.exit(main())
