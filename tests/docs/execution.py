"""Run the blocks of a page as a reader would, in one folder and one Python session."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import types
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.docs.blocks import RUN, SHOWN, Block

WIDTH = "100"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
RULE = re.compile(r"^[─━│╭╮╰╯┏┓┗┛|+=-]{3,}$")
SHELL = set("|&;<>$`*?~")


class PageError(AssertionError):
    """A block does not do what its page shows."""


@dataclass(frozen=True)
class Command:
    """One command of a console block and what the page shows below it."""

    line: str
    shown: str


@dataclass(frozen=True)
class Outcome:
    """Output and exit code of a command."""

    output: str
    code: int


def real_data() -> Path:
    """Folder of the real data sets, which may not exist."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("HUSHMETER_DATA", default))


def is_missing(need: str) -> bool:
    """Return True if the machine lacks `data`, or a program or module of this name."""
    if need == "data":
        return not real_data().is_dir()
    return shutil.which(need) is None and importlib.util.find_spec(need) is None


def missing_needs(block: Block) -> list[str]:
    """Return what the block needs and the machine lacks."""
    needs = [need.strip() for need in block.notes.get("needs", "").split(",")]
    return [need for need in needs if need and is_missing(need)]


def split_commands(text: str) -> list[Command]:
    """Return the lines that start with `$ `, each with its output; a backslash joins lines."""
    commands: list[Command] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            whole = line[2:]
            while whole.endswith("\\"):
                whole = whole[:-1] + next(lines)
            commands.append(Command(whole, ""))
        elif commands:
            commands[-1] = Command(commands[-1].line, f"{commands[-1].shown}{line}\n")
        elif line.strip():
            raise PageError(f"a console block starts with '$ ', not with {line!r}.")
    return commands


def split_script(text: str) -> list[Command]:
    """Return the lines of a shell block without comments."""
    joined = text.replace("\\\n", " ")
    return [
        Command(line.strip(), "")
        for line in joined.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


def matches(shown: str, printed: str) -> bool:
    """Compare word by word; `...` matches any words, the last place of a number may differ by 1."""
    want, got = shown.split(), printed.split()
    i = j = 0
    star, mark = -1, 0
    while j < len(got):
        if i < len(want) and want[i] == "...":
            star, mark = i, j
            i += 1
        elif i < len(want) and same_word(want[i], got[j]):
            i, j = i + 1, j + 1
        elif star >= 0:
            mark += 1
            i, j = star + 1, mark
        else:
            return False
    return all(word == "..." for word in want[i:])


def same_word(want: str, got: str) -> bool:
    """Return True if two words are equal up to the last place of numbers and up to `...`."""
    if want == got or (RULE.match(want) and RULE.match(got)):
        return True
    if "..." in want:
        pattern = ".*".join(map(re.escape, want.split("...")))
        return re.fullmatch(pattern, got) is not None
    numbers = list(zip(NUMBER.findall(want), NUMBER.findall(got), strict=False))
    return NUMBER.split(want) == NUMBER.split(got) and all(near(a, b) for a, b in numbers)


def near(want: str, got: str) -> bool:
    """Return True within one unit of the last place; whole numbers must be equal."""
    if "." not in want and "e" not in want:
        return want == got
    mantissa, _, exponent = want.partition("e")
    places = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - places)
    return abs(float(want) - float(got)) <= 1.001 * unit


class Page:
    """One session: a namespace, the current folder, and programs in the background."""

    def __init__(self) -> None:
        # A separate module, so that classes of the page can be pickled.
        self.module = types.ModuleType("page")
        self.names: dict[str, Any] = self.module.__dict__
        self.printed = ""
        self.outcomes: list[tuple[Command, Outcome]] = []
        self.left_out: list[str] = []  # blocks that need what this machine lacks
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, blocks: Sequence[Block]) -> None:
        """Run all blocks except those that are left out; stop at the first failure."""
        sys.modules[self.module.__name__] = self.module
        try:
            for block in blocks:
                missing = missing_needs(block)
                if missing:
                    self.left_out.append(f"{block.place} needs {', '.join(missing)}")
                elif "skip" not in block.notes:
                    self._run(block)
        finally:
            del sys.modules[self.module.__name__]
            for process in self._running:
                process.terminate()
                process.wait(timeout=30)

    def _run(self, block: Block) -> None:
        try:
            self._choose(block)
        except PageError as error:
            raise PageError(f"{block.place}: {error}") from None
        except Exception as error:
            raise PageError(f"{block.place}: {type(error).__name__}: {error}") from error

    def _choose(self, block: Block) -> None:
        if "file" in block.notes:
            Path(block.notes["file"]).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self._python(block)
        elif block.language == "pycon":
            self._doctest(block)
        elif block.language == "output":
            compare("the block above", block.text, self.printed)
        elif block.language in RUN:
            split = split_commands if block.language == "console" else split_script
            for command in split(block.text):
                self._command(command, block.notes.get("background"))
        elif block.language not in SHOWN:
            known = ", ".join(sorted(RUN | SHOWN))
            raise PageError(f"the block names no language that is known here ({known}).")

    def _python(self, block: Block) -> None:
        out = io.StringIO()
        # Empty lines keep the line numbers of the page in a traceback.
        code = compile("\n" * block.line + block.text, block.page, "exec")
        with contextlib.redirect_stdout(out):
            exec(code, self.names)
        self.printed = out.getvalue()

    def _doctest(self, block: Block) -> None:
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        parsed = doctest.DocTestParser().get_doctest(
            block.text, self.names, block.page, block.page, block.line
        )
        report: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=options)
        result = runner.run(parsed, out=report.append, clear_globs=False)
        self.names.update(parsed.globs)
        if result.failed or not result.attempted:
            raise PageError("".join(report) or "a pycon block without >>>.")

    def _command(self, command: Command, background: str | None) -> None:
        if background is not None:
            self._start(command, background)
            return
        done = run_command(command.line)
        self.printed = done.output
        self.outcomes.append((command, done))
        # A page that shows an error message expects it, and no other page does.
        wanted = any(line.startswith("hushmeter: ") for line in command.shown.splitlines())
        if (done.code != 0) != wanted:
            raise PageError(f"$ {command.line}\nended with {done.code}:\n{done.output}")
        if command.shown.strip():
            compare(f"$ {command.line}", command.shown, done.output)

    def _start(self, command: Command, address: str) -> None:
        process = subprocess.Popen(
            shlex.split(command.line), env=environment(), stdout=subprocess.DEVNULL
        )
        self._running.append(process)
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
                return
            if process.poll() is not None:
                break
            time.sleep(0.1)
        raise PageError(f"$ {command.line}\nnever answered at {address}.")


def compare(what: str, shown: str, printed: str) -> None:
    """Fail with both texts if they differ."""
    if not matches(shown, printed):
        raise PageError(f"{what}\nthe page shows:\n{shown}\nit prints:\n{printed}")


def environment() -> dict[str, str]:
    """Environment of a plain terminal of known width that finds the programs of this Python."""
    scripts = str(Path(sys.executable).parent)
    path = os.pathsep.join([scripts, os.environ.get("PATH", "")])
    plain = {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb", "HUSHMETER_DATA": str(real_data())}
    return {**os.environ, **plain, "PATH": path}


def run_command(line: str) -> Outcome:
    """Run a plain hushmeter command in this process, and anything else in a shell."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["cd"]:
        os.chdir(words[1])
        return Outcome("", 0)
    if words[:1] == ["hushmeter"] and not SHELL & set(line):
        return run_here(words)
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, check=False)
    return Outcome((done.stdout + done.stderr).decode(), done.returncode)


def run_here(words: Sequence[str]) -> Outcome:
    """Call `main()` as the installed program does, without the cost of a new process."""
    from hushmeter.cli import main

    out, before = io.StringIO(), sys.argv
    sys.argv = list(words)
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv = before
    return Outcome(out.getvalue(), code)
