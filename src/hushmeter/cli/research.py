"""`hushmeter bounds`, `sweep`, `reproduce`, `report` and `cluster`."""

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
    JOBS,
    JSON,
    NO_HOME,
    check_seed,
    choose_home,
    parse_epsilon_range,
    parse_numbers,
    rare_option,
    takes_reader_options,
)
from hushmeter.cli.output import (
    cell_progress,
    print_files,
    print_json,
    print_sentences,
    print_table,
    short_out_of_100,
    with_bar,
)
from hushmeter.errors import InputError
from hushmeter.formatting import spread_out

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.behaviour.profiles import Profiles
    from hushmeter.behaviour.stability import ReleasedClusters, ReleasedDays, Stability
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions
    from hushmeter.theory.bounds import BoundCurves, SeriesBounds

INFORMATION = ("information_lower_bits", "information_upper_bits")
WIDTH, CELL = 76, 13
"""Columns of a terminal beside the frame, and of one “0.123/0.45”."""
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
    from hushmeter.plot import figure_place, save_figure
    from hushmeter.plot.accuracy import draw_bounds

    title = f"One-shot accuracy on {Path(home).stem}, {_at_most(curves)} a reading"
    folder, name = figure_place(output, "bounds")
    figure = draw_bounds(curves, title)
    paths = save_figure(figure, folder, name, curves.columns(), force=force)
    return [str(path) for path in paths.values()]


def sweep(
    *,
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study, as TOML.")],
    jobs: Annotated[int, JOBS] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a sweep that was stopped.")
    ] = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")],
    json: Annotated[bool, JSON] = False,
) -> None:
    """Run every attacker at every ε, mechanism, home and seed, and write one row for each.

    The results do not depend on the number of workers. The exit code is 1 if a row failed; the
    other rows are written nevertheless.

    Example: hushmeter sweep study.toml -j 2 -o results
    """
    from hushmeter.files import write_text
    from hushmeter.study.sweep import move_study, run_study

    with cell_progress("attacking", quiet=json) as report:
        table = run_study(study, output, jobs=jobs, resume=resume, report=report)
    write_text(output / "study.toml", move_study(study, output), force=True)
    _print_results(table, output, json)


def _print_results(table: pd.DataFrame, output: Path, json: bool) -> None:
    files = [output / name for name in ("results.parquet", "manifest.json", "study.toml")]
    failed = [] if "error" not in table else sorted(set(table["error"].dropna()))
    if json:
        print_json({"rows": len(table), "failed": failed, "files": files})
    else:
        _print_scores(table)
        print_files(files)
    for message in failed:
        typer.echo(f"hushmeter: a cell failed: {message}", err=True)
    if failed:
        raise typer.Exit(1)


def _print_scores(table: pd.DataFrame) -> None:
    if "alpha" not in table:
        return
    means = table.groupby(["home", "mechanism", "attacker", "epsilon"], sort=False)[
        ["alpha", "alpha_floor", "f1"]
    ].mean()
    for (home, mechanism), part in means.groupby(level=[0, 1], sort=False):
        attackers = part.index.unique(level="attacker")
        room = (WIDTH - max(map(len, attackers))) // CELL
        values = sorted(part.index.unique(level="epsilon"), reverse=True)
        epsilons = spread_out(values, max(2, room))
        rows = []
        for attacker in attackers:
            found = part.xs((home, mechanism, attacker))
            rows.append(
                (
                    str(attacker),
                    *(f"{found.at[e, 'alpha']:.3f}/{found.at[e, 'f1']:.2f}" for e in epsilons),
                )
            )
        floor = float(part["alpha_floor"].mean())
        title = f"{home}, {mechanism}: α/F1 against ε (everything off: α {floor:.3f})"
        print_table(title, ("attacker", *(f"{e:g}" for e in epsilons)), rows)
    # A study in which the attackers do not know the first state has no floor that needs it.
    if table["hold_floor"].notna().any():
        print_sentences("The attackers know the true state at the first reading.")


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS", help="Folders with results, and the TOML files of studies."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Describe the results of sweeps, figures, releases, batteries and prices on one page.

    The page is one HTML file that needs no network. It has parts for the household, for the
    analyst and for the reader of the paper. The end of the page names what is missing.

    Example: hushmeter report results figures study.toml -o report.html
    """
    from hushmeter.files import refuse_overwrite
    from hushmeter.report.page import collect_results, missing_results, write_report

    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{output} must end in .html.")
    refuse_overwrite(output, force)
    found = collect_results(results)
    sections = write_report(found, output, force=force)
    missing = missing_results(found)
    if json:
        counts = {name: len(entries) for name, entries in vars(found).items()}
        titles = [section.title for section in sections]
        answer = {"sections": titles, "found": counts, "missing": missing, "files": [output]}
        print_json(answer)
        return
    for section in sections:
        typer.echo(f"  {section.title}")
    for what, command in missing:
        print_sentences(f"The results do not include {what} ({command}).")
    typer.echo(f"The page: {output.resolve()}")


def reproduce(
    *,
    item: Annotated[
        str, typer.Argument(metavar="ITEM", help="fig2 … fig9, table1, appliances or all.")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder of real data sets, instead of synthetic stand-ins."),
    ] = None,
    readings: Annotated[
        int | None,
        typer.Option(
            help="Number of attacked readings; default: 3000 of a stand-in, all of a set."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of releases of each kind, at least 2.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of data and noise.")] = 0,
    jobs: Annotated[int, JOBS] = 1,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Reproduce a figure or table of the paper: the picture, the data behind it and a caption.

    Without --data each item uses a synthetic stand-in. With --data it uses the real data sets in
    the folders redd, ukdale, rae, refit, tracebase and homes, and the stand-in for a missing set.
    Each caption states the data, the paper's claim, the finding, and whether they agree. The item
    appliances, which the paper names as future work, shows each appliance on its own.

    Example: hushmeter reproduce fig2 -o figures
    """
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.figures import ITEMS, Setting
    from hushmeter.study.figures import reproduce as make

    check_seed(seed)
    wanted = list(ITEMS) if item == "all" else [item]
    for name in wanted:
        refuse_overwrite(output / f"{name}.txt", force)
    made = []
    for name in wanted:
        with cell_progress(name, quiet=json) as report:
            setting = Setting(seed, seeds, readings, jobs, data, report)
            artefact = make(name, setting)
        files = artefact.save(output, force=force)
        made.append({"item": name, "caption": artefact.caption, "files": list(map(str, files))})
        if not json:
            typer.echo(artefact.caption)
            print_files(files)
    if json:
        print_json(made)


CENTRES = tuple(f"centres.{kind}" for kind in ("png", "svg", "csv"))
FILES = (
    *(
        f"{name}.{kind}"
        for name in ("centres", "interchanges", "stability")
        for kind in ("png", "svg", "csv")
    ),
    "staying.csv",
)


def cluster(
    *,
    profiles: Annotated[
        Path,
        typer.Argument(
            metavar="DAYS",
            help="CSV or Parquet: rows of 24 values, or id, time and kWh, or hourly rows; or a "
            "calendar release, a restored file or a folder of them.",
        ),
    ],
    k: Annotated[int, typer.Option("-k", "--clusters", help="Number of clusters.")] = 30,
    scale: Annotated[
        str | None,
        typer.Option("--lambda", help="λ in kWh, separated by commas; default 0.01,0.05,0.1,0.5."),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option("-e", "--epsilon", help="ε instead of λ, separated by commas.")
    ] = None,
    sensitivity: Annotated[
        float, typer.Option(help="Δ in kWh: the change within one day that ε protects.")
    ] = 1.0,
    tariff: Annotated[
        str | None, typer.Option(help="24 prices per kWh separated by commas, or a file of them.")
    ] = None,
    repeats: Annotated[int, rare_option(help="Number of draws of the noise, for the bands.")] = 10,
    first: Annotated[
        str | None, typer.Option("--from", help="First day, such as 2015-05-01.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, such as 2015-08-08.")] = None,
    users: Annotated[
        str | None,
        typer.Option(help="Number of homes, drawn at random, or their names with commas."),
    ] = None,
    seed: Annotated[int, rare_option(help="Seed of the clustering and the noise.")] = 0,
    batch_size: Annotated[
        int | None, rare_option(help="Cluster in mini-batches of this many profiles.")
    ] = None,
    missing: Annotated[str, rare_option(help="refuse, or drop days with missing values.")] = (
        "refuse"
    ),
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the figures.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    tz: Annotated[
        str | None, rare_option(help="Time zone of the days, such as Europe/Berlin.")
    ] = None,
) -> None:
    """Cluster daily load profiles, add noise, and measure which profiles stay in their cluster.

    The command draws the centres (Fig. 7), the interchanges (Fig. 8) and the stability
    for each λ, each as PNG, SVG and CSV, and lists the bounds of staying for each profile. The
    noise is simulated: the files are not a private release.

    If DAYS is a calendar release, a restored file or a folder of them, no noise is added. Every
    centre and every number of days gets a standard error, and every day the probability that its
    cluster is that of the true day.

    Example: hushmeter cluster days.parquet -k 30 --lambda 0.01,0.1 -o clusters
    """
    from hushmeter.behaviour.profiles import read_profiles
    from hushmeter.behaviour.stability import measure_stability, noise_levels, staying_columns
    from hushmeter.files import write_table
    from hushmeter.plot import save_figures
    from hushmeter.plot.adopters import draw_clusters
    from hushmeter.releases.restore import holds_estimates

    if holds_estimates(profiles):
        if scale is not None or epsilon is not None:
            raise InputError("a release has its own noise; leave out --lambda and --epsilon.")
        if first or last or users:
            raise InputError("--from, --to and --users are for readings, not for a release.")
        prices = None if tariff is None else _tariff(tariff)
        _cluster_released(profiles, k, repeats, seed, prices, output, force, json)
        return
    levels = noise_levels(
        scales=None if scale is None else parse_numbers("lambda", scale),
        epsilons=None if epsilon is None else parse_numbers("epsilon", epsilon),
        sensitivity=sensitivity,
    )
    check_seed(seed)
    _check_free(output, FILES, force)
    prices = None if tariff is None else _tariff(tariff)
    days = read_profiles(profiles, missing=missing, zone=tz)
    days = days.select(first, last, users=_users(users), seed=seed)
    result = measure_stability(
        days.values,
        with_bar(levels, "adding noise", quiet=json),
        k=k,
        repeats=repeats,
        seed=seed,
        tariff=prices,
        batch_size=batch_size,
    )
    files = save_figures(draw_clusters(result, profiles.stem), output, force=force)
    write_table(output / "staying.csv", staying_columns(result, days.ids, days.days), force=force)
    files.append(str(output / "staying.csv"))
    if json:
        print_json({**_describe_clusters(result, days), "files": files})
    else:
        _print_clusters(result, days, files)


def _users(text: str | None) -> int | list[str] | None:
    """The number of homes or their names."""
    if text is None:
        return None
    return int(text) if text.isdigit() else [name.strip() for name in text.split(",")]


def _cluster_released(
    place: Path,
    k: int,
    repeats: int,
    seed: int,
    prices: list[float] | None,
    output: Path,
    force: bool,
    json: bool,
) -> None:
    """Cluster released days, write the centres and the days, and print the clusters."""
    from hushmeter.behaviour.stability import (
        cluster_released,
        read_released_days,
        released_columns,
    )
    from hushmeter.files import write_table
    from hushmeter.plot import save_figure
    from hushmeter.plot.adopters import centres_columns, draw_centres

    check_seed(seed)
    _check_free(output, (*CENTRES, "days.csv"), force)
    days = read_released_days(place)
    result = cluster_released(days, k=k, repeats=repeats, seed=seed, tariff=prices)
    title = f"{k} clusters of {len(days.values)} released days, ± 2 standard errors ({place.name})"
    figure = draw_centres(result, title)
    paths = save_figure(figure, output, "centres", centres_columns(result), force=force)
    write_table(output / "days.csv", released_columns(result, days), force=force)
    files = [*map(str, paths.values()), str(output / "days.csv")]
    if json:
        print_json({**_released_describe_clusters(result, days), "files": files})
        return
    rows = [
        (
            str(i + 1),
            f"{result.counts[i]}",
            f"{result.count_errors[i]:.1f}",
            f"{result.centres[i].sum():.2f}",
            f"{(result.centre_errors[i] ** 2).sum() ** 0.5:.2f}",
            f"{100 * result.certainty[result.model.labels_ == i].mean():.0f}",
        )
        for i in range(k)
    ]
    head = ("cluster", "days", "±", "kWh/day", "±", "sure %")
    homes = len(set(days.ids.tolist()))
    text = (
        f"{k} clusters of {len(days.values)} released days of {homes} home{'s' * (homes > 1)}; "
        "± is one standard error; sure: mean probability that the true day is in this cluster"
    )
    print_table(text, head, rows)
    print_files(files)


def _released_describe_clusters(result: ReleasedClusters, days: ReleasedDays) -> dict[str, Any]:
    """The clusters of released days for machines."""
    costs, errors = result.costs, result.cost_errors
    return {
        "profiles": len(days.values),
        "clusters": result.counts.size,
        "counts": result.counts.tolist(),
        "counts_standard_error": result.count_errors.tolist(),
        "centres_kwh": result.centres.tolist(),
        "centres_standard_error_kwh": result.centre_errors.tolist(),
        "certainty": float(result.certainty.mean()),
        "costs_per_kwh": None if costs is None else costs.tolist(),
        "costs_standard_error": None if errors is None else errors.tolist(),
    }


def _tariff(text: str) -> list[float]:
    """The prices in the text, or in a text file, separated by commas, spaces or lines."""
    path = Path(text)
    if path.suffix and path.is_file():
        text = ",".join(path.read_text(encoding="utf-8").replace(",", " ").split())
    return parse_numbers("tariff", text)


def _check_free(output: Path, names: tuple[str, ...], force: bool) -> None:
    """Refuse existing files before the long work, not after it."""
    from hushmeter.files import refuse_overwrite

    for name in names:
        refuse_overwrite(output / name, force)


def _describe_clusters(result: Stability, days: Profiles) -> dict[str, Any]:
    from hushmeter.plot.adopters import stability_columns

    columns = {name: values.tolist() for name, values in stability_columns(result).items()}
    return {
        "profiles": days.values.shape[0],
        "clusters": result.counts.size,
        "loss_kwh": result.model.inertia_,
        "notes": list(days.notes),
        "counts": result.counts.tolist(),
        "costs_per_kwh": None if result.costs is None else result.costs.tolist(),
        "cluster_stability": [level.cluster_stay.mean(axis=0).tolist() for level in result.levels],
        **columns,
    }


def _print_clusters(result: Stability, days: Profiles, files: list[str]) -> None:
    from hushmeter.plot.adopters import stability_columns

    data = stability_columns(result)
    rows = [
        (
            f"{data['scale_kwh'][i]:.3g}",
            f"{data['epsilon'][i]:.3g}",
            f"{100 * data['stay'][i]:.1f}",
            f"{100 * data['bound_lower'][i]:.1f}",
            f"{100 * data['bound_upper'][i]:.1f}",
            str(data["stable_clusters"][i]),
            f"{data['rand_index'][i]:.3f}",
            f"{data['centre_error_kwh'][i]:.3g}",
            *([f"{data['rank_correlation'][i]:.3f}"] if result.costs is not None else []),
        )
        for i in range(len(result.levels))
    ]
    header = ["λ kWh", "ε", "stay %", "≥ %", "≤ %", "stable", "Rand", "centres ± kWh"]
    if result.costs is not None:
        header.append("cost τ")
    for note in days.notes:
        typer.echo(note)
    change = result.levels[0].level.sensitivity
    title = (
        f"{result.counts.size} clusters of {days.values.shape[0]} days; "
        f"ε protects a change of {change:g} kWh within one day\n"
        "stay: days that stay in their cluster, with proved bounds; stable: clusters of which at "
        "least 90 % stay;\nRand: adjusted Rand index of the clusters of the noisy days; centres: "
        "mean error of their centres"
    )
    print_table(title, header, rows)
    print_files(files)
