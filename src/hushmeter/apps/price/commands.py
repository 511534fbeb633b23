"""`hushmeter price`: what each ε is worth to a household and to a buyer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    EPSILONS,
    FIGURE,
    FORCE,
    HIDE,
    JSON,
    NO_HOME,
    PURPOSE,
    parse_epsilon_range,
    parse_numbers,
    takes_reader_options,
    takes_request,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_sentences,
    print_table,
    short_out_of_100,
    with_bar,
)
from hushmeter.errors import DataError, InputError, UnknownNameError

if TYPE_CHECKING:
    from hushmeter.apps.price import Buyer, Menu
    from hushmeter.read import ReadOptions
    from hushmeter.releases.request import Request
    from hushmeter.releases.restore import Estimate
    from hushmeter.trace import Trace


PRICE = "hushmeter-price-1"
"""Schema by which a report recognises an answer that was saved as JSON."""


@takes_reader_options()
@takes_request("mechanism", "span", "every", "delta", rare=("span", "every"), epsilon=1)
def price(
    *,
    trace: Annotated[
        Path,
        typer.Option(
            "--trace", help="Any file of readings, a calendar release or a restored file."
        ),
    ],
    hide: Annotated[str | None, HIDE] = None,
    odds: Annotated[
        str | None, typer.Option("--odds", help="Odds of the menu out of 100: 55,60,70,80.")
    ] = None,
    purpose: Annotated[str | None, PURPOSE] = None,
    epsilon: Annotated[str | None, EPSILONS] = None,
    request: Request,
    harm: Annotated[
        list[str] | None,
        typer.Option(help="appliance=MONEY asked for a year without protection; may be repeated."),
    ] = None,
    buyer: Annotated[
        str,
        typer.Option(help="value=60,shape=0.5,handling=0,use=forecast|clusters|appliances|hour|…"),
    ] = "",
    profiles: Annotated[
        Path | None, typer.Option(help="File of the days of many homes, for the buyer's clusters.")
    ] = None,
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Print the price of data at several odds, with what the buyer learns and the home reveals.

    The menu is for the appliances of --hide; by default for those with a --harm. With -e it is for
    values of ε instead. Without --harm the household asks for 10 a year for each appliance. All
    money is in one currency of your choice. If the readings are a calendar release or a restored
    file, every number that depends on the load has a standard error.

    Example: hushmeter price --home evening --trace meter.csv --hide kettle,television
    --buyer value=60,use=forecast -o prices/
    """
    from hushmeter.apps.behaviour.profiles import read_profiles
    from hushmeter.apps.plot import figure_place
    from hushmeter.apps.price import HARM, price_menu, vary_menu
    from hushmeter.files import refuse_overwrite

    if output is not None:
        folder, name = figure_place(output, "prices")
        refuse_overwrite(folder / f"{name}.png", force)
    weights = _read_harm(harm) if harm else HARM
    steps = None if odds is None else parse_numbers("odds", odds)
    if epsilon is None:
        request = _wish(request, hide, purpose, weights)
    elif (hide or odds or purpose) is not None:
        raise InputError("give either -e or a wish with --hide, --odds and --for, not both.")
    else:
        steps = parse_epsilon_range(epsilon).tolist()
    menu = price_menu(
        request,
        _read_load(trace, options),
        harm=weights,
        buyer=_read_buyer(buyer, purpose),
        profiles=None if profiles is None else read_profiles(profiles).values,
        steps=steps,
        watch=partial(with_bar, text="computing prices", quiet=json),
    )
    variations = vary_menu(menu)
    answer = _describe_menu(menu, variations)
    files = [] if output is None else _write(menu, variations, answer, output, force)
    if json:
        print_json({**answer, "files": files})
    else:
        _print_menu(menu, variations, files)


def _wish(
    request: Request, hide: str | None, purpose: str | None, harm: dict[str, float] | float
) -> Request:
    """The request with what is to be hidden: by default the appliances that have a harm."""
    hidden: Any = hide
    if hide is None:
        if request.home is None:
            raise InputError(f"{NO_HOME} Or name what to hide with --hide.")
        named = [name for name, money in harm.items() if money] if isinstance(harm, dict) else []
        hidden = [",".join(named)] if named else request.home.appliances
    return request.with_changes(hide=hidden, purpose=purpose, epsilon=None)


def _read_load(path: Path, options: ReadOptions) -> Trace | Estimate:
    """The readings of a file, or the released hours of one home with their errors."""
    from hushmeter.read import read_home_recording
    from hushmeter.releases.restore import holds_estimates, read_estimates

    if not holds_estimates(path):
        return read_home_recording(path, options, need_circuits=False).trace
    found = read_estimates(path)
    if len(found) > 1:
        raise DataError(f"{path} has {len(found)} homes; a menu is for one of them.")
    return found[0]


def _read_harm(given: Sequence[str]) -> dict[str, float]:
    from hushmeter.checks import once

    pairs = [entry.rpartition("=")[::2] for entry in given]
    return {
        name: _number("--harm", f"{name}={value}", value)
        for name, value in once("--harm", pairs).items()
    }


def _read_buyer(text: str, purpose: str | None) -> Buyer:
    """The buyer of --buyer; without a use of its own, the data are for the purpose of the wish."""
    from hushmeter.apps.price import Buyer
    from hushmeter.checks import once

    values: dict[str, Any] = {} if purpose is None else {"use": purpose}
    pairs = [entry.partition("=")[::2] for entry in filter(None, text.split(","))]
    for name, value in once("--buyer", pairs).items():
        if name not in Buyer.__dataclass_fields__:
            raise UnknownNameError("term of a buyer", name, Buyer.__dataclass_fields__)
        values[name] = value if name == "use" else _number("--buyer", f"{name}={value}", value)
    return Buyer(**values)


def _number(option: str, entry: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{option} takes name=number, got {entry!r}.") from None


def _print_menu(menu: Menu, variations: dict[str, Menu], files: list[str]) -> None:
    from hushmeter.apps.price import tell_menu

    released = menu.load.hourly_sd_se_w > 0
    step = max(1, len(menu.entries) // 10)
    shown = sorted({*menu.entries[::step], menu.best}, key=lambda one: getattr(one, menu.by))
    rows = [
        (
            _proved(e.odds) + ("*" if e is menu.best else ""),
            f"{e.epsilon:.3g}",
            "–" if e.hourly_noise_w is None else f"{e.hourly_noise_w:.0f}",
            f"{e.forecast_w:.0f}",
            f"{100 * e.quality:.1f}",
            _proved((1 + max(e.visibility)) / 2),
            f"{e.compensation:.2f}",
            f"{e.willingness:.2f}",
            f"{e.surplus:.2f}",
            *([f"{e.surplus_se:.2f}"] if released else []),
        )
        for e in shown
    ]
    head = ["odds", "ε", "hour", "forecast", "quality", "run", "asked", "paid", "surplus"]
    head += ["±"] if released else []
    title = (
        "The menu; money is per year, * marks the best entry. “odds”: how often out of 100 the "
        f"best attacker is right about {menu.unit.sentence}, which ε protects. “hour” and "
        "“forecast”: errors of an hour and of its forecast [W]. “quality”: percent of perfect "
        f"data, for the use “{menu.buyer.use}”. “run”: the odds about one run of the most exposed "
        "appliance"
    ) + ("; the last column is the standard error of what is paid and of the surplus" * released)
    print_table(title, head, rows)
    print_table(
        "The same with other assumptions",
        ("", "best odds", "ε", "surplus", f"from {SHORT[menu.by]}", f"to {SHORT[menu.by]}"),
        [_variation(name, other) for name, other in variations.items()],
    )
    print_sentences(*tell_menu(menu))
    print_files(files)


def _proved(odds: float) -> str:
    """Odds out of 100, never rounded up to certainty."""
    return short_out_of_100(min(odds, 1 - 1e-12))


SHORT = {"odds": "odds", "epsilon": "ε"}
"""What the entries of a menu differ in, as a word of a table."""


def _variation(name: str, menu: Menu) -> tuple[str, ...]:
    best, ends = menu.best, ("–", "–")
    if menu.worthwhile is not None:
        low, high = menu.worthwhile
        by_odds = menu.by == "odds"
        ends = (_proved(low), _proved(high)) if by_odds else (f"{low:.3g}", f"{high:.3g}")
    return name, _proved(best.odds), f"{best.epsilon:.3g}", f"{best.surplus:.2f}", *ends


def _describe_menu(menu: Menu, variations: dict[str, Menu]) -> dict[str, Any]:
    """The complete result, for machines and for the report."""
    from hushmeter.apps.price import tell_menu

    moved = {
        name: {
            "best_odds": other.best.odds,
            "best_epsilon": other.best.epsilon,
            "surplus": other.best.surplus,
            "worthwhile": other.worthwhile,
        }
        for name, other in variations.items()
    }
    same = ("names", "harm", "buyer", "load", "by", "best", "worthwhile", "assumptions")
    return {
        "schema": PRICE,
        **{name: getattr(menu, name) for name in same},
        "unit": menu.unit.sentence,
        "menu": menu.entries,
        "sensitivity": moved,
        "sentences": tell_menu(menu),
    }


def _write(
    menu: Menu, variations: dict[str, Menu], answer: dict[str, Any], output: Path, force: bool
) -> list[str]:
    """Write the figure with its data, and the result as JSON beside it."""
    from hushmeter.apps.plot import figure_place, save_figure
    from hushmeter.apps.price.plot import draw_menu
    from hushmeter.files import json_text, write_text

    folder, name = figure_place(output, "prices")
    columns = ["odds", "epsilon", "mechanism", "every_s", "hourly_noise_w", "forecast_w"]
    columns += ["clusters", "quality", "compensation", "willingness", "surplus"]
    if menu.load.hourly_sd_se_w > 0:
        columns += ["forecast_se_w", "clusters_se", "quality_se", "willingness_se", "surplus_se"]
    data = {column: [getattr(e, column) for e in menu.entries] for column in columns}
    for i, appliance in enumerate(menu.names):
        data[f"visibility {appliance}"] = [e.visibility[i] for e in menu.entries]
    figure = draw_menu(menu, variations, f"One year of data; ε protects {menu.unit.sentence}")
    files = [*save_figure(figure, folder, name, data, force=force).values()]
    write_text(folder / f"{name}.json", json_text(answer), force=force)
    return [str(path) for path in (*files, folder / f"{name}.json")]
