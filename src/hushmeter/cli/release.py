"""`hushmeter release`: a protected file and its receipt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.output import print_files, print_json
from hushmeter.cli.reading import reads

if TYPE_CHECKING:
    from hushmeter.protect.publish import Release
    from hushmeter.read import ReadOptions


@reads()
def release(
    file: Annotated[Path, typer.Argument(help="Any file of readings.")],
    epsilon: Annotated[str, typer.Option("-e", "--epsilon", help="ε of the unit of protection.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Released .csv or .parquet.")],
    options: ReadOptions,
    mechanism: Annotated[str, typer.Option(help="laplace, staircase or gaussian.")] = "laplace",
    protect: Annotated[
        str | None,
        typer.Option(help="appliance (default), fluctuation (the paper), range or change."),
    ] = None,
    appliance: Annotated[str | None, typer.Option(help="Protect this appliance only.")] = None,
    home: Annotated[
        str | None, typer.Option("--home", help="A home as TOML, or a ready one.")
    ] = None,
    span: Annotated[str, typer.Option(help="reading (the paper), run or day.")] = "reading",
    every: Annotated[str | None, typer.Option(help="Release means over 1min, 30min, 1h.")] = None,
    sensitivity: Annotated[
        str | None, typer.Option(help="Protect a change of so many watts (protect = change).")
    ] = None,
    clamp: Annotated[str | None, typer.Option(help="Bounds of a reading, LO,HI in watts.")] = None,
    grid: Annotated[str, typer.Option(help="Step of the released readings in watts.")] = "1",
    delta: Annotated[float, typer.Option(help="δ of the Gaussian and of the receipt.")] = 1e-6,
    max_epsilon: Annotated[float, typer.Option(help="Refuse a larger ε.")] = 20.0,
    engine: Annotated[str, typer.Option(help="table, or opendp for Laplace.")] = "table",
    seed: Annotated[
        int | None, typer.Option(help="Simulate with this seed; never publish the result.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the receipt as JSON.")] = False,
) -> None:
    """Add exact private noise to a file of readings; write it and OUTPUT.receipt.json.

    The noise is calibrated so that ε holds for the unit of protection: by default, whether any
    one appliance of the home is on in one reading.

    Example: hushmeter release meter.csv --home home.toml -e 1 --span run --every 30min -o out.csv
    """
    from hushmeter.cli.parsing import parse_home, parse_watts
    from hushmeter.files import refuse_overwrite, table_format, write_table, write_text
    from hushmeter.noise.parameters import parse_clamp
    from hushmeter.protect.publish import release_unit
    from hushmeter.protect.sensitivity import calibrate, resolve_unit
    from hushmeter.read import read_recording

    receipt = output.with_name(output.name + ".receipt.json")
    table_format(output)
    for path in (output, receipt):
        refuse_overwrite(path, force)
    known = None if home is None else parse_home(home)
    bounds = None if clamp is None else parse_clamp(clamp)
    chosen = protect or ("appliance" if sensitivity is None else "change")
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
    done = release_unit(trace, noise, unit, home=known, delta=delta, rng=seed)
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
