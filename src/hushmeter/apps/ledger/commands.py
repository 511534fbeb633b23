"""`hushmeter ledger`: make, show, verify, cap and export the privacy ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import CLAMP, FORCE, JSON
from hushmeter.cli.output import print_files, print_json, print_table

if TYPE_CHECKING:
    from hushmeter.apps.ledger import Balance, Cap, DayChange, Ledger, Spend

app = typer.Typer(
    help="The privacy ledger: what every meter has spent and may still spend.", no_args_is_help=True
)

Url = Annotated[str, typer.Option("--ledger", help="sqlite:///file.db or postgresql://…")]
Json = Annotated[bool, JSON]


@app.command("init")
def init(
    ledger: Url,
    clamp: Annotated[str | None, typer.Option(help=CLAMP.help)] = None,
    change: Annotated[
        str | None,
        typer.Option("--change", help="Protect a change of a day of this size, such as 3kW,8kWh."),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Charge the composed ε at this δ, not the sum over all readings.")
    ] = 0.0,
    json: Json = False,
    tz: Annotated[
        str, typer.Option(help="Time zone of the days and months that are charged.")
    ] = "UTC",
) -> None:
    """Make an empty ledger; an existing one is left unchanged.

    A ledger declares once which change of a customer's day it protects, and charges every release
    the ε (and δ) of that change: any readings within --clamp, to which every release must then
    clamp its readings, or a --change of the power and the energy of a day. With --delta it uses the
    composed ε of Laplace and staircase noise wherever that is less. Days are those of --tz: name
    the time zone of your nightly extracts, so that the readings of each extract are one period.

    Example: hushmeter ledger init --ledger sqlite:///ledger.db --clamp 0,15000 --tz Europe/London
    """
    from hushmeter.apps.ledger import open_ledger
    from hushmeter.errors import DataError

    protects = _declared(clamp, change, tz)
    with open_ledger(ledger, create=protects, composition_delta=delta) as opened:
        head = opened.head()
        if head.count > 1:
            raise DataError(f"{opened.name} already holds a ledger of {head.count} entries.")
        if json:
            facts = {"ledger": opened.name, "protects": protects.describe()}
            delta_of = {"composition_delta": opened.composition_delta}
            print_json(facts | delta_of | {"head": str(head)})
            return
        typer.echo(f"An empty ledger at {opened.name}. High-water mark: {head}")
        typer.echo(f"Every charge is the cost of {protects.sentence()}.")


@app.command("show")
def show(
    ledger: Url,
    meter: Annotated[
        str | None, typer.Option("--meter", help="Show every spend of this meter.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of meters to list.")] = 20,
    json: Json = False,
) -> None:
    """Show what is spent and what is left, the meters that spent most first.

    Keep the high-water mark elsewhere; `verify --head` then detects a missing end of the ledger.

    Example: hushmeter ledger show --ledger sqlite:///ledger.db --meter 1001
    """
    from hushmeter.apps.ledger import open_ledger

    with open_ledger(ledger) as opened:
        facts = _describe(opened)
        if meter is None:
            balances = opened.balances(limit)
            spends: list[Spend] = []
        else:
            balances = [opened.balance(meter)]
            spends = opened.history(meter)
    if json:
        facts["meters_shown"] = [_balance_facts(balance) for balance in balances]
        print_json(facts | ({"spends": spends} if meter is not None else {}))
        return
    typer.echo(
        f"{facts['ledger']}: {facts['meters']} meters, {facts['spends']} spends, "
        f"{facts['entries']} entries."
    )
    typer.echo(f"High-water mark: {facts['head']}")
    typer.echo(f"Every charge is the cost of {facts['unit']}.")
    typer.echo(f"Cap for all meters: {_cap_words(facts['cap'])}.")
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
    """Replay the whole ledger and report what was changed, removed, inserted or reordered.

    The exit code is then 1. A missing end is detected only with a high-water mark.

    Example: hushmeter ledger verify --ledger sqlite:///ledger.db --head 12:9f…
    """
    from hushmeter.apps.ledger import open_ledger

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
        str | None, typer.Option("--total", help="ε for all days of a customer; or none.")
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", help="W,ε: ε for any W periods in a row; or none.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", help="δ for all days of a customer; or none.")
    ] = None,
    meter: Annotated[
        str | None,
        typer.Option("--meter", help="Cap this meter only, in place of the cap for all."),
    ] = None,
    json: Json = False,
) -> None:
    """Cap what the days of a customer may cost from now on.

    Caps are in the unit of the ledger: the ε (and δ) of the change that it declares, on all days of
    the customer together, or in any W periods in a row; --window 1,ε caps one day. A cap that is
    not given stays as it was, and the word none removes it. A cap below what is already spent
    allows no further spend.

    Example: hushmeter ledger cap --ledger sqlite:///ledger.db --total 2000 --window 1,100
    """
    from hushmeter.apps.ledger import open_ledger

    frame = _frame(window)
    with open_ledger(ledger) as opened:
        now = opened.set_cap(total=total, window=frame, delta=delta, meter=meter)
        head = opened.head()
    who = "all meters" if meter is None else f"meter {meter}"
    if json:
        print_json({"meter": meter, **_cap_facts(now), "head": str(head)})
        return
    typer.echo(f"Cap for {who}: {_cap_words(_cap_facts(now))}. High-water mark: {head}")


@app.command("export")
def export(
    ledger: Url,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv or .parquet file.")],
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> None:
    """Write every spend with its release, source and time to a file.

    Example: hushmeter ledger export --ledger sqlite:///ledger.db -o spends.parquet
    """
    from hushmeter.apps.ledger import open_ledger
    from hushmeter.apps.ledger.ledger import export_spends

    with open_ledger(ledger) as opened:
        head = opened.head()
        count = export_spends(opened, output, force=force)
    if json:
        print_json({"spends": count, "files": [output], "head": str(head)})
        return
    typer.echo(f"{count} spends; high-water mark: {head}")
    print_files([output])


def _declared(clamp: str | None, change: str | None, zone: str) -> DayChange:
    """Return the change that a new ledger declares."""
    from hushmeter.apps.ledger import DayChange
    from hushmeter.errors import InputError
    from hushmeter.noise.mechanism import parse_clamp

    if (clamp is None) == (change is None):
        raise InputError(
            "a new ledger declares once which change of a customer's day it protects: give either "
            "--clamp, such as 0,15000, or --change, such as 3kW,8kWh."
        )
    if clamp is not None:
        return DayChange.within(*parse_clamp(clamp), zone)
    return DayChange.parse(str(change), zone)


def _frame(text: str | None) -> tuple[int, str] | str | None:
    """Read W,ε as a pair."""
    from hushmeter.errors import InputError

    if text is None or text == "none":
        return text
    width, comma, epsilon = text.partition(",")
    if not comma or not width.strip().isdecimal():
        raise InputError(f"window must be W,ε such as 30,5 or none, got {text!r}.")
    return int(width), epsilon.strip()


def _describe(opened: Ledger) -> dict[str, Any]:
    """Return the facts about a whole ledger."""
    everybody, single = opened.caps()
    meters, spends = opened.counts()
    head = opened.head()
    return {
        "ledger": opened.name,
        "meters": meters,
        "spends": spends,
        "entries": head.count,
        "head": str(head),
        "protects": opened.protects.describe(),
        "unit": opened.protects.sentence(),
        "composition_delta": opened.composition_delta,
        "cap": _cap_facts(everybody),
        "own_caps": len(single),
    }


def _balance_facts(balance: Balance) -> dict[str, Any]:
    """Return the facts about one meter."""
    facts: dict[str, Any] = {
        "meter": balance.meter,
        "spent": _epsilon(balance.spent),
        "delta_spent": _delta(balance.delta_spent),
    }
    facts |= _cap_facts(balance.cap) | {"remaining": _epsilon(balance.remaining)}
    if balance.cap.window is not None:
        facts |= {
            "window_spent": _epsilon(balance.window),
            "window_remaining": _epsilon(balance.window_remaining),
        }
    return facts


def _cap_facts(cap: Cap) -> dict[str, Any]:
    """Return a cap as plain values."""
    width, most = cap.window or (None, None)
    return {
        "total_cap": _epsilon(cap.total),
        "window_periods": width,
        "window_cap": _epsilon(most),
        "delta_cap": _delta(cap.delta),
    }


def _cap_words(cap: dict[str, Any]) -> str:
    """Return a cap in words."""
    parts = []
    if cap["total_cap"] is not None:
        parts.append(f"ε = {cap['total_cap']:g} for all days of a customer")
    if cap["window_cap"] is not None:
        width = cap["window_periods"]
        row = "any one period" if width == 1 else f"any {width} periods in a row"
        parts.append(f"ε = {cap['window_cap']:g} for {row}")
    if cap["delta_cap"] is not None:
        parts.append(f"δ = {cap['delta_cap']:g} for all days")
    return ", ".join(parts) or "none"


def _epsilon(micro: int | None) -> float | None:
    return None if micro is None else micro / 1e6


def _delta(femto: int | None) -> float | None:
    return None if femto is None else femto / 1e15


def _print_balances(balances: list[Balance]) -> None:
    """Print what the readings of each customer have cost."""
    rows = []
    for balance in balances:
        facts = _balance_facts(balance)
        keys = ("spent", "total_cap", "remaining", "window_spent", "window_remaining")
        numbers = [facts.get(key) for key in keys] + [facts["delta_spent"] or None]
        rows.append(
            (balance.meter, *("–" if number is None else f"{number:.6g}" for number in numbers))
        )
    header = ("meter", "ε spent", "cap", "left", "fullest window", "left in it", "δ spent")
    print_table("Cost of all days of each customer", header, rows)


def _print_spends(spends: list[Spend]) -> None:
    """Print the charges of one meter."""
    rows = [
        (s["period"], s["stream"], f"{s['micro_epsilon'] / 1e6:.6g}", s["release"], s["source"])
        for s in spends
    ]
    title = "Charges, each for one period"
    print_table(title, ("period", "stream", "ε", "release", "source"), rows)
