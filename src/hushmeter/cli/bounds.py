"""`hushmeter bounds`: bounds on the accuracy of the paper's attacker at each ε."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    EPSILONS,
    FIGURE,
    FORCE,
    HAVE,
    HOME,
    JSON,
    NO_HOME,
    choose_home,
    parse_epsilon_range,
)
from hushmeter.cli.output import print_files, print_json, print_table
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.theory.bounds import BoundCurves


def bounds(
    home: Annotated[str | None, typer.Argument(metavar="HOME", help=HOME.help)] = None,
    have: Annotated[list[str] | None, HAVE] = None,
    epsilon: Annotated[str, EPSILONS] = "0.001:10",
    sensitivity: Annotated[
        float | None,
        typer.Option(help="Sensitivity Δf in watts; half the home's tolerance by default."),
    ] = None,
    max_switches: Annotated[
        int, typer.Option(help="Largest number U of switches at one reading.")
    ] = 1,
    form: Annotated[
        str, typer.Option(help="Form of the bounds in the table: corrected, printed or integral.")
    ] = ("corrected"),
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Compute the exact accuracy of the paper's attacker, its bounds and the limit of any attacker.

    The bounds are those of Theorems 3 and 4 as printed and in a corrected form that is proved.

    Example: hushmeter bounds similar8 -e 0.001:10 -o bounds.png
    """
    from hushmeter.checks import one_of
    from hushmeter.theory.bounds import FORMS, bound_curves

    one_of("form", form, FORMS)
    known = choose_home(home, have)
    if known is None:
        raise InputError(NO_HOME)
    label = home or ", ".join(known.names)
    curves = bound_curves(
        known,
        parse_epsilon_range(epsilon),
        sensitivity=sensitivity,
        max_switches=max_switches,
    )
    files = [] if output is None else _draw(curves, label, output, force)
    if json:
        columns = {name: values.tolist() for name, values in curves.columns().items()}
        print_json({"home": label, "max_switches": max_switches, **columns, "files": files})
        return
    _print(curves, label, form)
    print_files(files)


def _print(curves: BoundCurves, home: str, form: str) -> None:
    import numpy as np

    answer = getattr(curves, form)
    chosen = np.unique(np.linspace(0, curves.epsilon.size - 1, 12).round().astype(int))
    lower, upper = np.atleast_1d(answer.lower.raw), np.atleast_1d(answer.upper.raw)
    rows = [
        (
            f"{curves.epsilon[i]:.3g}",
            f"{curves.scale[i]:.3g}",
            _value(lower[i]),
            f"{curves.exact[i]:.3f}",
            _value(upper[i]),
            f"{curves.limit[i]:.3f}",
        )
        for i in chosen
    ]
    title = (
        f"One-shot accuracy α on {home}, {_at_most(curves)} a reading; "
        f"“nothing switched” scores {curves.floor:.3f}; {form} bounds"
    )
    print_table(title, ("ε", "λ [W]", "lower", "exact", "upper", "any attacker"), rows)


def _at_most(curves: BoundCurves) -> str:
    most = curves.max_switches
    return "at most one switch" if most == 1 else f"at most {most} switches"


def _value(raw: float) -> str:
    """A bound, in brackets if it is vacuous."""
    return f"{raw:.3f}" if 0 < raw < 1 else f"({raw:.3g})"


def _draw(curves: BoundCurves, home: str, output: Path, force: bool) -> list[str]:
    from hushmeter.plot.accuracy import draw_bounds
    from hushmeter.plot.figure import figure_place, save_figure

    title = f"One-shot accuracy on {Path(home).stem}, {_at_most(curves)} a reading"
    folder, name = figure_place(output, "bounds")
    figure = draw_bounds(curves, title)
    paths = save_figure(figure, folder, name, curves.columns(), force=force)
    return [str(path) for path in paths.values()]
