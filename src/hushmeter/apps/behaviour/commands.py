"""`hushmeter cluster`: daily profiles, and which of them survive the noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    FORCE,
    JSON,
    check_seed,
    parse_numbers,
    rare_option,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_table,
    with_bar,
)
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.apps.behaviour.profiles import Profiles
    from hushmeter.apps.behaviour.stability import ReleasedClusters, ReleasedDays, Stability


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
    from hushmeter.apps.behaviour.plot import draw_clusters
    from hushmeter.apps.behaviour.profiles import read_profiles
    from hushmeter.apps.behaviour.stability import measure_stability, noise_levels, staying_columns
    from hushmeter.apps.plot import save_figures
    from hushmeter.files import write_table
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
    from hushmeter.apps.behaviour.plot import centres_columns, draw_centres
    from hushmeter.apps.behaviour.stability import (
        cluster_released,
        read_released_days,
        released_columns,
    )
    from hushmeter.apps.plot import save_figure
    from hushmeter.files import write_table

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
    from hushmeter.apps.behaviour.plot import stability_columns

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
    from hushmeter.apps.behaviour.plot import stability_columns

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
