"""Make the reference of the command line from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from hushmeter.cli import app


def describe_commands(page: str = "") -> str:  # noqa: ARG001
    """Return Markdown with a section per command: its description, example and parameters."""
    return "\n".join(line for name, command in walk_commands() for line in section(name, command))


def walk_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name, such as `ledger show`."""
    yield from _walk("", typer.main.get_command(app))


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    members = getattr(command, "commands", None)
    if members is None:
        yield name, command
        return
    for member, inner in members.items():
        yield from _walk(f"{name} {member}".strip(), inner)


def section(name: str, command: Any) -> Iterator[str]:
    """Yield the lines of the section of one command."""
    text, examples = split_help(command.help or "")
    yield from (f"## {name}", "", *text, "")
    if examples:
        yield from ("```console", *(f"$ {example}" for example in examples), "```", "")
    rows = [_row(parameter) for parameter in command.params if not _hidden(parameter)]
    yield from ("| parameter | meaning | default |", "|---|---|---|", *rows, "")


def split_help(text: str) -> tuple[list[str], list[str]]:
    """Split a help text into its description and its examples, one line per paragraph."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\f", text.strip())]
    words: list[str] = []
    examples: list[str] = []
    for paragraph in paragraphs:
        head, *commands = re.split(r"(?:^|\s)Example: ", paragraph)
        if head:
            words += [_escape(head), ""]
        examples += commands
    return words, examples


def _row(parameter: Any) -> str:
    names = " ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    many = " (may be repeated)" if parameter.multiple and "repeated" not in parameter.help else ""
    return f"| {names} | {_escape(parameter.help or '')}{many} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "needed"
    if value is None or value == "" or value is False or callable(value):
        return ""
    return f"`{value}`"


def _hidden(parameter: Any) -> bool:
    return bool(getattr(parameter, "hidden", False)) or "--help" in parameter.opts


def _escape(text: str) -> str:
    return re.sub(r"([|<*_])", r"\\\1", text)
