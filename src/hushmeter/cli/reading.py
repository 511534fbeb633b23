"""Options of the tolerant reader, shared by the commands that read a file of readings."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer


def _told(name: str, words: str) -> Any:
    return typer.Option(name, help=words, rich_help_panel="What the file does not say")


OPTIONS: dict[str, Any] = {
    "time_column": _told("--time-column", "Column of the times."),
    "value_column": _told("--value-column", "Column (or entity) of the meter."),
    "unit": _told("--unit", "W, kW, Wh, kWh … of the values."),
    "stamp": _told("--stamp", "Times name the start or end of a reading."),
    "tz": _told("--tz", "Zone of times without one: Europe/London."),
    "building": _told("--building", "Which home, where there are several."),
}


def reads(
    *names: str, repeats: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the reader's options; it gets them in one argument, `options`.

    Parameters
    ----------
    *names
        Which of `OPTIONS`; all of them if none is named.
    repeats
        Passed on to `ReadOptions`.
    """
    chosen = names or tuple(OPTIONS)
    kinds = {name: Annotated[str | None, OPTIONS[name]] for name in chosen}

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            from hushmeter.read import ReadOptions

            told = {name: values.pop(name) for name in chosen}
            command(**values, options=ReadOptions(**told, repeats=repeats))

        # Typer reads the signature, so the wrapper wears the command's with the reader's options.
        hints = get_type_hints(command, localns={"ReadOptions": object}, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in signature(command).parameters.items()
            if name != "options"
        ]
        given = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in kinds.items()
        ]
        run.__signature__ = Signature(own + given)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in own + given}
        return run

    return give
