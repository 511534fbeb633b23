"""`hushmeter release`: a protected file and its receipt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    APPLIANCE,
    CLAMP,
    EPSILON,
    EVERY,
    FILE,
    FORCE,
    GRID,
    HOME,
    JSON,
    MAX_EPSILON,
    MECHANISM,
    SPAN,
    SUM_DELTA,
    check_seed,
    parse_home,
    parse_watts,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.read import ReadOptions
    from hushmeter.releases.series import Release


@takes_reader_options()
def release(
    *,
    file: Annotated[Path, FILE],
    home: Annotated[str | None, HOME] = None,
    epsilon: Annotated[str, EPSILON],
    mechanism: Annotated[str, MECHANISM] = "laplace",
    protect: Annotated[
        str | None,
        typer.Option(help="appliance (default), fluctuation (the paper), range or change."),
    ] = None,
    appliance: Annotated[str | None, APPLIANCE] = None,
    span: Annotated[str, SPAN] = "reading",
    every: Annotated[str | None, EVERY] = None,
    sensitivity: Annotated[
        str | None, typer.Option(help="Protect any change of so many watts; needs no home.")
    ] = None,
    clamp: Annotated[str | None, CLAMP] = None,
    grid: Annotated[str, GRID] = "1",
    delta: Annotated[float, SUM_DELTA] = 1e-6,
    max_epsilon: Annotated[float, MAX_EPSILON] = 20.0,
    engine: Annotated[str, typer.Option(help="table, or opendp for Laplace.")] = "table",
    seed: Annotated[
        int | None, typer.Option(help="Simulate with this seed; never publish the result.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Released .csv or .parquet.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Add exact private noise to a file of readings; write it and OUTPUT.receipt.json.

    The noise is calibrated so that ε holds for the unit of protection: by default, whether any
    one appliance of the home is on in one reading.

    Example: hushmeter release meter.csv --home home.toml -e 1 --span run --every 30min -o out.csv
    """
    from hushmeter.files import refuse_overwrite, table_format, write_table, write_text
    from hushmeter.noise.parameters import parse_clamp
    from hushmeter.privacy.units import calibrate, resolve_unit
    from hushmeter.read import read_recording
    from hushmeter.releases.series import release as release_trace

    check_seed(seed)
    table_format(output)
    receipt = output.with_name(output.name + ".receipt.json")
    for path in (output, receipt):
        refuse_overwrite(path, force)
    chosen = protect or ("appliance" if sensitivity is None else "change")
    if home is None and chosen in ("appliance", "fluctuation"):
        raise InputError(
            f"protect {chosen!r} needs a home: add --home, with a file or a ready one such as "
            "evening, or protect any change of so many watts with --sensitivity."
        )
    known = None if home is None else parse_home(home)
    bounds = None if clamp is None else parse_clamp(clamp)
    watts = None if sensitivity is None else parse_watts("sensitivity", sensitivity)
    trace = read_recording(file, options).trace
    unit = resolve_unit(
        chosen,
        span,
        interval_s=trace.interval_s,
        home=known,
        appliance=appliance,
        clamp=bounds,
        watts=watts,
        every=every,
    )
    noise = calibrate(
        mechanism,
        epsilon,
        unit,
        delta=delta,
        grid=grid,
        clamp=bounds,
        max_epsilon=max_epsilon,
        engine=engine,
    )
    done = release_trace(trace, noise, unit, home=known, delta=delta, rng=seed)
    # The receipt first: a receipt without data promises nothing, data without one everything.
    write_text(receipt, done.receipt.to_json(), force=force)
    write_table(output, {"timestamp": done.trace.times, "watts": done.trace.readings}, force=force)
    _report(done, output, receipt, json)


def _report(done: Release, output: Path, receipt: Path, json: bool) -> None:
    if json:
        print_json({**done.receipt.to_dict(), "files": [str(output), str(receipt)]})
        return
    typer.echo(str(done.receipt))
    print_files([output, receipt])
    if done.receipt.kind == "simulation":
        typer.echo("This is a simulation: its noise can be replayed. Do not publish it.")
