"""`hushmeter price`: the value of each ε to a buyer and its price to the household."""

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
    JSON,
    NO_HOME,
    parse_epsilon_range,
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
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.price import Buyer, Menu
    from hushmeter.read import ReadOptions
    from hushmeter.releases.request import Request
    from hushmeter.releases.restore import Estimate
    from hushmeter.trace import Trace


@takes_reader_options()
@takes_request("mechanism", "span", "every", "delta", epsilon=1, mechanism="laplace")
def price(
    *,
    trace: Annotated[
        Path,
        typer.Option(
            "--trace", help="Any file of readings, a calendar release or a restored file."
        ),
    ],
    epsilon: Annotated[str | None, EPSILONS] = None,
    request: Request,
    harm: Annotated[
        list[str] | None,
        typer.Option(help="appliance=MONEY asked for a year without protection; may be repeated."),
    ] = None,
    buyer: Annotated[
        str,
        typer.Option(help="value=60,use=hourly|forecast|clusters|appliances,shape=0.5,handling=0"),
    ] = "",
    profiles: Annotated[
        Path | None, typer.Option(help="File of the days of many homes, for the buyer's clusters.")
    ] = None,
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Print for each ε what the buyer learns, what the household reveals, and the price.

    Without --harm the household asks for 10 a year for each appliance. All money is in one
    currency of your choice. If the readings are a calendar release or a restored file, every number
    that depends on the load has a standard error.

    Example: hushmeter price --home evening --trace meter.csv --harm kettle=30 --harm television=5
    --buyer value=60,use=forecast -o prices/
    """
    from hushmeter.behaviour.profiles import read_profiles
    from hushmeter.files import refuse_overwrite
    from hushmeter.plot.figure import figure_place
    from hushmeter.price import EPSILONS, HARM, price_menu, vary_menu

    if output is not None:
        folder, name = figure_place(output, "prices")
        refuse_overwrite(folder / f"{name}.png", force)
    if request.home is None:
        raise InputError(NO_HOME)
    menu = price_menu(
        request,
        _read_load(trace, options),
        harm=_read_harm(harm) if harm else HARM,
        buyer=_read_buyer(buyer),
        profiles=None if profiles is None else read_profiles(profiles).values,
        epsilons=EPSILONS if epsilon is None else parse_epsilon_range(epsilon).tolist(),
        watch=partial(with_bar, text="computing prices", quiet=json),
    )
    variations = vary_menu(menu)
    answer = _answer(menu, variations)
    files = [] if output is None else _write(menu, variations, answer, output, force)
    if json:
        print_json({**answer, "files": files})
    else:
        _print(menu, variations, files)


def _read_load(path: Path, options: ReadOptions) -> Trace | Estimate:
    """The readings of a file, or the released hours of one home with their errors."""
    from hushmeter.errors import DataError
    from hushmeter.read import read_home_recording
    from hushmeter.releases.restore import holds_estimates, read_estimates

    if not holds_estimates(path):
        return read_home_recording(path, options, need_circuits=False).trace
    found = read_estimates(path)
    if len(found) > 1:
        raise DataError(f"{path} has {len(found)} homes; a menu is for one of them.")
    return found[0]


def _read_harm(given: Sequence[str]) -> dict[str, float]:
    weights = {}
    for entry in given:
        name, _, value = entry.rpartition("=")
        weights[name] = _number("--harm", entry, value)
    return weights


def _read_buyer(text: str) -> Buyer:
    from hushmeter.errors import UnknownNameError
    from hushmeter.price import Buyer

    values: dict[str, Any] = {}
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        if name not in Buyer.__dataclass_fields__:
            raise UnknownNameError("term of a buyer", name, Buyer.__dataclass_fields__)
        values[name] = value if name == "use" else _number("--buyer", entry, value)
    return Buyer(**values)


def _number(option: str, entry: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{option} takes name=number, got {entry!r}.") from None


def _print(menu: Menu, variations: dict[str, Menu], files: list[str]) -> None:
    from hushmeter.price import tell_menu

    released = menu.load.hourly_sd_se_w > 0
    step = max(1, len(menu.entries) // 10)
    shown = sorted({*menu.entries[::step], menu.best}, key=lambda entry: entry.epsilon)
    rows = [
        (
            f"{e.epsilon:.3g}" + ("*" if e is menu.best else ""),
            f"{e.forecast_w:.0f}",
            f"{100 * e.fidelity:.1f}",
            "–" if e.clusters is None else f"{100 * e.clusters:.1f}",
            _proved(max(e.accuracy)),
            _proved((1 + max(e.visibility)) / 2),
            f"{e.compensation:.2f}",
            f"{e.willingness:.2f}",
            f"{e.surplus:.2f}",
            *([f"{e.surplus_se:.2f}"] if released else []),
        )
        for e in shown
    ]
    head = ["ε", "± W", "hours", "days", "reading", "run", "asked", "paid", "surplus"]
    head += ["±"] if released else []
    title = (
        "The menu; money is per year, * marks the best ε. “± W” is the error of the hourly "
        "forecast; “hours” is the share of the variance of the hourly curve that is true and "
        "“days” the share of days that stay in their cluster, in percent; “reading” and “run” "
        "tell how often out of 100 the best possible guess about the most exposed appliance is "
        "right"
    ) + ("; the last column is the standard error of what is paid and of the surplus" * released)
    print_table(title, head, rows)
    print_table(
        "The same with other assumptions",
        ("", "best ε", "surplus", "from ε", "to ε"),
        [_variation(name, other) for name, other in variations.items()],
    )
    print_sentences(*tell_menu(menu))
    print_files(files)


def _proved(odds: float) -> str:
    """Odds out of 100, never rounded up to certainty."""
    return short_out_of_100(min(odds, 1 - 1e-12))


def _variation(name: str, menu: Menu) -> tuple[str, ...]:
    low, high = ("–", "–") if menu.worthwhile is None else (f"{e:.3g}" for e in menu.worthwhile)
    return name, f"{menu.best.epsilon:.3g}", f"{menu.best.surplus:.2f}", low, high


def _answer(menu: Menu, variations: dict[str, Menu]) -> dict[str, Any]:
    """The complete result, for machines and for the report."""
    from hushmeter.price import tell_menu
    from hushmeter.report import PRICE

    moved = {
        name: {
            "best_epsilon": other.best.epsilon,
            "surplus": other.best.surplus,
            "worthwhile": other.worthwhile,
        }
        for name, other in variations.items()
    }
    return {
        "schema": PRICE,
        "names": menu.names,
        "harm": menu.harm,
        "buyer": menu.buyer,
        "load": menu.load,
        "unit": menu.unit.sentence,
        "mechanism": menu.mechanism,
        "menu": menu.entries,
        "best": menu.best,
        "worthwhile": menu.worthwhile,
        "sensitivity": moved,
        "sentences": tell_menu(menu),
        "assumptions": menu.assumptions,
    }


def _write(
    menu: Menu, variations: dict[str, Menu], answer: dict[str, Any], output: Path, force: bool
) -> list[str]:
    """Write the figure with its data, and the result as JSON beside it."""
    from hushmeter.files import json_text, write_text
    from hushmeter.plot.adopters import draw_menu
    from hushmeter.plot.figure import figure_place, save_figure

    folder, name = figure_place(output, "prices")
    columns = [
        "epsilon",
        "scale_w",
        "hourly_noise_w",
        "forecast_w",
        "fidelity",
        "clusters",
        "quality",
    ]
    columns += ["compensation", "willingness", "surplus"]
    if menu.load.hourly_sd_se_w > 0:
        columns += ["forecast_se_w", "fidelity_se", "clusters_se", "quality_se"]
        columns += ["willingness_se", "surplus_se"]
    data = {column: [getattr(e, column) for e in menu.entries] for column in columns}
    for i, appliance in enumerate(menu.names):
        data[f"visibility {appliance}"] = [e.visibility[i] for e in menu.entries]
        data[f"accuracy {appliance}"] = [e.accuracy[i] for e in menu.entries]
    figure = draw_menu(menu, variations, "The value of each ε for a household and a year")
    files = [*save_figure(figure, folder, name, data, force=force).values()]
    write_text(folder / f"{name}.json", json_text(answer), force=force)
    return [str(path) for path in (*files, folder / f"{name}.json")]
