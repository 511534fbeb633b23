"""`hushmeter ledger`: the privacy ledger, made, looked at, verified, capped and exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import FORCE, JSON
from hushmeter.cli.output import print_files, print_json, print_table

if TYPE_CHECKING:
    from hushmeter.fleet.ledger import Balance, Cap, Ledger, Spend

app = typer.Typer(
    help="The privacy ledger: what every meter has spent, and what it has left.",
    no_args_is_help=True,
)

Url = Annotated[str, typer.Option("--ledger", help="sqlite:///file.db or postgresql://…")]
Json = Annotated[bool, JSON]


@app.command("init")
def init(ledger: Url, json: Json = False) -> None:
    """Make an empty ledger; one that exists is left alone.

    Example: hushmeter ledger init --ledger sqlite:///ledger.db
    """
    from hushmeter.errors import DataError
    from hushmeter.fleet.ledger import open_ledger

    with open_ledger(ledger, create=True) as opened:
        head = opened.head()
        if head.count > 1:
            raise DataError(f"{opened.name} holds a ledger of {head.count} entries already.")
        if json:
            print_json({"ledger": opened.name, "head": str(head)})
            return
        typer.echo(f"An empty ledger at {opened.name}. High-water mark: {head}")


@app.command("show")
def show(
    ledger: Url,
    meter: Annotated[str | None, typer.Option("--meter", help="Every spend of this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many meters to list.")] = 20,
    json: Json = False,
) -> None:
    """Show what is spent and what is left, the meters that spent most first.

    Keep the high-water mark elsewhere: `verify --head` then sees if the ledger's end was cut.

    Example: hushmeter ledger show --ledger sqlite:///ledger.db --meter 1001
    """
    from hushmeter.fleet.ledger import open_ledger

    with open_ledger(ledger) as opened:
        told = _describe(opened)
        if meter is None:
            balances = opened.balances(limit)
            spends: list[Spend] = []
        else:
            balances = [opened.balance(meter)]
            spends = opened.history(meter)
    if json:
        told["meters_shown"] = [_plain(balance) for balance in balances]
        print_json(told | ({"spends": spends} if meter is not None else {}))
        return
    typer.echo(
        f"{told['ledger']}: {told['meters']} meters, {told['spends']} spends, "
        f"{told['entries']} entries."
    )
    typer.echo(f"High-water mark: {told['head']}")
    typer.echo(f"Cap for all meters: {_cap_words(told['cap'])}.")
    _print_balances(balances)
    if meter is not None:
        _print_spends(spends)


@app.command("verify")
def verify(
    ledger: Url,
    head: Annotated[
        str | None, typer.Option("--head", help="A high-water mark kept from earlier.")
    ] = None,
    json: Json = False,
) -> None:
    """Replay the whole ledger and say what was changed, removed, inserted or reordered.

    Exit code 1 if anything was. A cut end shows only against a high-water mark.

    Example: hushmeter ledger verify --ledger sqlite:///ledger.db --head 12:9f…
    """
    from hushmeter.fleet.ledger import open_ledger

    with open_ledger(ledger) as opened:
        problems = opened.verify(head)
        now = opened.head()
        name = opened.name
    if json:
        print_json({"ledger": name, "sound": not problems, "problems": problems, "head": str(now)})
    elif problems:
        for problem in problems:
            typer.echo(f"{name}: {problem}")
        typer.echo(f"{len(problems)} problems: do not release with this ledger.")
    else:
        typer.echo(f"{name} is sound, {now.count} entries. High-water mark: {now}")
    if problems:
        raise typer.Exit(1)


@app.command("cap")
def cap(
    ledger: Url,
    total: Annotated[
        str | None, typer.Option("--total", help="ε over all periods; none lifts it.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="W,ε: ε over any W periods in a row; none lifts it."),
    ] = None,
    meter: Annotated[
        str | None, typer.Option("--meter", help="Of this meter, in place of the cap for all.")
    ] = None,
    json: Json = False,
) -> None:
    """Cap what meters may spend from now on.

    What is not named stays as it was. A cap below what is spent leaves no room, but undoes
    nothing. Lifting a meter's own cap puts it under the cap for all again.

    Example: hushmeter ledger cap --ledger sqlite:///ledger.db --total 20 --window 30,5
    """
    from hushmeter.fleet.ledger import open_ledger

    frame = _frame(window)
    with open_ledger(ledger) as opened:
        now = opened.set_cap(total=total, window=frame, meter=meter)
        head = opened.head()
    who = "all meters" if meter is None else f"meter {meter}"
    if json:
        print_json({"meter": meter, **_cap_plain(now), "head": str(head)})
        return
    typer.echo(f"Cap for {who}: {_cap_words(_cap_plain(now))}. High-water mark: {head}")


@app.command("export")
def export(
    ledger: Url,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv or .parquet file.")],
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> None:
    """Write every spend with its release, source and time.

    Example: hushmeter ledger export --ledger sqlite:///ledger.db -o spends.parquet
    """
    from hushmeter.fleet.ledger import open_ledger
    from hushmeter.fleet.ledger.export import export_rows

    with open_ledger(ledger) as opened:
        head = opened.head()
        count = export_rows(opened, output, force=force)
    if json:
        print_json({"spends": count, "files": [output], "head": str(head)})
        return
    typer.echo(f"{count} spends; high-water mark: {head}")
    print_files([output])


def _frame(text: str | None) -> tuple[int, str] | str | None:
    """W,ε as a pair."""
    from hushmeter.errors import InputError

    if text is None or text == "none":
        return text
    width, comma, epsilon = text.partition(",")
    if not comma or not width.strip().isdecimal():
        raise InputError(f"window must be W,ε such as 30,5 or none, got {text!r}.")
    return int(width), epsilon.strip()


def _describe(opened: Ledger) -> dict[str, Any]:
    everybody, single = opened.caps()
    meters, spends = opened.counts()
    head = opened.head()
    return {
        "ledger": opened.name,
        "meters": meters,
        "spends": spends,
        "entries": head.count,
        "head": str(head),
        "cap": _cap_plain(everybody),
        "own_caps": len(single),
    }


def _plain(balance: Balance) -> dict[str, Any]:
    told: dict[str, Any] = {"meter": balance.meter, "spent": _epsilon(balance.spent)}
    told |= _cap_plain(balance.cap) | {"remaining": _epsilon(balance.remaining)}
    if balance.cap.window is not None:
        told |= {
            "window_spent": _epsilon(balance.window),
            "window_remaining": _epsilon(balance.window_remaining),
        }
    return told


def _cap_plain(cap: Cap) -> dict[str, Any]:
    width, most = cap.window or (None, None)
    return {
        "total_cap": _epsilon(cap.total),
        "window_periods": width,
        "window_cap": _epsilon(most),
    }


def _cap_words(cap: dict[str, Any]) -> str:
    parts = []
    if cap["total_cap"] is not None:
        parts.append(f"ε = {cap['total_cap']:g} in total")
    if cap["window_cap"] is not None:
        parts.append(f"ε = {cap['window_cap']:g} in any {cap['window_periods']} periods in a row")
    return ", ".join(parts) or "none"


def _epsilon(micro: int | None) -> float | None:
    return None if micro is None else micro / 1e6


def _print_balances(balances: list[Balance]) -> None:
    rows = []
    for balance in balances:
        told = _plain(balance)
        keys = ("spent", "total_cap", "remaining", "window_spent", "window_remaining")
        numbers = (told.get(key) for key in keys)
        rows.append(
            (balance.meter, *("–" if number is None else f"{number:.6g}" for number in numbers))
        )
    header = ("meter", "ε spent", "cap", "left", "fullest window", "left in it")
    print_table("Meters", header, rows)


def _print_spends(spends: list[Spend]) -> None:
    rows = [
        (s["period"], s["stream"], f"{s['micro_epsilon'] / 1e6:.6g}", s["release"], s["source"])
        for s in spends
    ]
    print_table("Spends", ("period", "stream", "ε", "release", "source"), rows)
