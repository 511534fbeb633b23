"""`hushmeter bounds`: what theory says about the accuracy of attackers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    takes_reader_options,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_sentences,
    print_table,
    short_out_of_100,
)
from hushmeter.errors import InputError
from hushmeter.formatting import spread_out
from hushmeter.parts import load

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions
    from hushmeter.theory.bounds import BoundCurves, SeriesBounds


INFORMATION = ("information_lower_bits", "information_upper_bits")


MOST_ROWS = 12
"""Largest number of values of ε in a table."""


@takes_reader_options()
def bounds(
    *,
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
    readings: Annotated[
        str | None,
        typer.Option(
            "--readings",
            metavar="FILE|NUMBER",
            help="Accuracy of Algorithm 1 over sub-metered readings, or over a number of readings.",
        ),
    ] = None,
    hierarchical: Annotated[
        bool,
        typer.Option("--hierarchical", help="With --readings: add Theorem 6 for Algorithm 2."),
    ] = False,
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Compute the exact accuracy of the paper's attacker, its bounds and the limit of any attacker.

    Without readings the bounds are those of Theorems 3 and 4 for one jump of the meter. With a file
    or a number of readings they are those of Theorem 5 for a series; a file also gives the exact
    accuracy before error correction. Every bound has the form that the paper prints and a corrected
    form that is proved.

    Example: hushmeter bounds similar8 -e 0.001:10 -o bounds.png

    Example: hushmeter bounds rae13 --readings 600 --hierarchical

    Example: hushmeter bounds home.toml --readings sub.csv -e 0.1,1 --hierarchical
    """
    from hushmeter.checks import one_of
    from hushmeter.theory.bounds import FORMS, bound_curves
    from hushmeter.theory.universal import state_curve

    one_of("form", form, FORMS)
    known = choose_home(home, have)
    if known is None:
        raise InputError(NO_HOME)
    label = home or ", ".join(known.names)
    levelled = [one for one in known.appliances if one.levels]
    known = known.one_power_each()
    if levelled and not json:
        print_sentences(
            "The theorems are about one power for each appliance: the mean power is used for "
            f"{', '.join(one.name for one in levelled)}."
        )
    if readings is not None:
        if output is not None:
            raise InputError("a figure is drawn for one jump only; leave out --readings or -o.")
        asked = {"sensitivity": sensitivity, "hierarchical": hierarchical}
        series = _series(known, readings, options, epsilon, max_switches, asked)
        _print_series(series, label, Path(readings).name, form, json=json)
        return
    if hierarchical:
        raise InputError("--hierarchical needs --readings: Theorem 6 is about a series.")
    curves = bound_curves(
        known,
        parse_epsilon_range(epsilon),
        sensitivity=sensitivity,
        max_switches=max_switches,
    )
    files = [] if output is None else _draw(curves, label, output, force)
    states = {one.name: state_curve((0.0, *one.levels), curves.scale).tolist() for one in levelled}
    if json:
        columns = {name: values.tolist() for name, values in curves.columns().items()}
        facts = {"home": label, "max_switches": max_switches, "states": states}
        print_json({**facts, **columns, "files": files})
        return
    _print_bounds(curves, label, form)
    if levelled:
        _print_states(curves, states, [len(one.levels) + 1 for one in levelled])
    print_files(files)


def _series(
    home: Home,
    readings: str,
    options: ReadOptions,
    epsilon: str,
    max_switches: int,
    asked: dict[str, Any],
) -> SeriesBounds:
    """The curves of a file of sub-metered readings, or of a number of readings."""
    from hushmeter.read import read_home_recording
    from hushmeter.theory.bounds import series_bounds, series_curves

    values = parse_epsilon_range(epsilon)
    if readings.isdecimal() and not Path(readings).exists():
        return series_bounds(home, int(readings), values, max_switches=max_switches, **asked)
    recording = read_home_recording(Path(readings), options, need_circuits=False)
    trace = home.label(recording.trace)
    return series_curves(home, trace, values, **asked)


def _print_series(curves: SeriesBounds, home: str, name: str, form: str, *, json: bool) -> None:
    """Print the curves of a series as a table or as JSON."""
    from hushmeter.theory.bounds import SeriesCurves

    if json:
        columns = {name: values.tolist() for name, values in curves.columns().items()}
        facts = {"home": home, "readings": curves.readings, "assumptions": curves.assumptions}
        print_json({**facts, **columns})
        return
    table = curves.columns()
    measured, exact = "", []
    if isinstance(curves, SeriesCurves):
        measured = f" of {name}; “nothing ever switches” scores {curves.floor:.3f}"
        exact = ["exact"]
    names = [f"{form}_lower", *exact, f"{form}_upper"]
    heads = ["ε", "λ [W]", "lower", *exact, "upper"]
    if f"hierarchical_{form}_lower" in table:
        names += [f"hierarchical_{form}_lower", f"hierarchical_{form}_upper"]
        heads += ["Alg. 2 lower", "Alg. 2 upper"]
    if exact:
        measured += "; bits of all readings about one appliance, at least and at most"
        heads += ["bits ≥", "bits ≤"]
    rows = [
        (
            f"{table['epsilon'][i]:.3g}",
            f"{table['scale_w'][i]:.3g}",
            *(_value(table[name][i]) for name in names),
            *(f"{table[name][i]:.3g}" for name in INFORMATION if name in table),
        )
        for i in spread_out(range(table["epsilon"].size), MOST_ROWS)
    ]
    title = (
        f"Accuracy α_m of Algorithm 1 before error correction on {curves.readings} readings"
        f"{measured}; {form} bounds"
    )
    print_table(title, heads, rows)
    print_sentences(*curves.assumptions)


def _print_bounds(curves: BoundCurves, home: str, form: str) -> None:
    import numpy as np

    answer = getattr(curves, form)
    lower, upper = np.atleast_1d(answer.lower.raw), np.atleast_1d(answer.upper.raw)
    rows = [
        (
            f"{curves.epsilon[i]:.3g}",
            f"{curves.scale[i]:.3g}",
            _value(lower[i]),
            f"{curves.exact[i]:.3f}",
            _value(upper[i]),
            f"{curves.limit[i]:.3f}",
            f"{curves.information[i]:.3f}",
        )
        for i in spread_out(range(curves.epsilon.size), MOST_ROWS)
    ]
    title = (
        f"One-shot accuracy α on {home}, {_at_most(curves)} a reading; "
        f"“nothing switched” scores {curves.floor:.3f}; {form} bounds; bits of one reading about "
        "whether an appliance is on, of at most 1"
    )
    print_table(title, ("ε", "λ [W]", "lower", "exact", "upper", "any attacker", "bits"), rows)


def _print_states(curves: BoundCurves, states: dict[str, Any], counts: list[int]) -> None:
    """Print how often the best attacker names the state of appliances with several levels."""
    rows = [
        (
            f"{curves.epsilon[i]:.3g}",
            *(short_out_of_100(min(curve[i], 1 - 1e-12)) for curve in states.values()),
        )
        for i in spread_out(range(curves.epsilon.size), MOST_ROWS)
    ]
    heads = [f"{name} ({k})" for name, k in zip(states, counts, strict=True)]
    title = (
        "How often out of 100 the best attacker names the state from one reading, if all are "
        "equally likely; number of states in brackets"
    )
    print_table(title, ("ε", *heads), rows)


def _at_most(curves: BoundCurves) -> str:
    most = curves.max_switches
    return "at most one switch" if most == 1 else f"at most {most} switches"


def _value(raw: float) -> str:
    """A bound, in brackets if it is vacuous."""
    return f"{raw:.3f}" if 0 < raw < 1 else f"({raw:.3g})"


def _draw(curves: BoundCurves, home: str, output: Path, force: bool) -> list[str]:
    plot = load("plot", "a picture")
    title = f"One-shot accuracy on {Path(home).stem}, {_at_most(curves)} a reading"
    folder, name = plot.figure_place(output, "bounds")
    figure = load("plot.accuracy", "a picture").draw_bounds(curves, title)
    paths = plot.save_figure(figure, folder, name, curves.columns(), force=force)
    return [str(path) for path in paths.values()]
