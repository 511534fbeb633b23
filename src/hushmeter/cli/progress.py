"""Bars for long work: on standard error, on a terminal only, gone when the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

Item = TypeVar("Item")


@contextmanager
def working(words: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Say what is being done where no end is known; call it with what comes next."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with console.status(words) as status:
        yield status.update


def watch(items: Iterable[Item], words: str, *, quiet: bool = False) -> Iterable[Item]:
    """The items, one by one, with a bar."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    disable = quiet or not console.is_terminal
    return track(list(items), words, console=console, transient=True, disable=disable)


@contextmanager
def cell_progress(
    item: str, *, quiet: bool = False
) -> Iterator[Callable[[dict[str, Any], int], None]]:
    """A bar over the cells of a sweep; call it with every finished cell and how many are left."""
    from rich.progress import MofNCompleteColumn

    with _bar(MofNCompleteColumn(), quiet=quiet) as bar:
        task, done = bar.add_task(item, total=None), 0

        def advance(_: dict[str, Any], left: int) -> None:
            nonlocal done
            done += 1
            bar.update(task, completed=done, total=done + left)

        yield advance


@contextmanager
def row_progress(verb: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with rows, rows per second and the time left; call it with rows done and all rows."""
    from rich.progress import TextColumn

    with _bar(TextColumn("{task.fields[rows]}")) as bar:
        task = bar.add_task(verb, total=None, rows="")

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            pace = f", {speed / 1e6:.3g} M/s" if speed else ""
            bar.update(task, rows=f"{done / 1e6:.4g} of {total / 1e6:.4g} M rows{pace}")

        yield advance


def _bar(count: ProgressColumn, *, quiet: bool = False) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    return Progress(
        "[progress.description]{task.description}",
        BarColumn(),
        count,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
