"""`hushmeter release`: released readings with a public and a private receipt."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    APPLIANCE,
    CLAMP,
    EPSILON,
    EVERY,
    FILE,
    FORCE,
    GRID,
    HIDE,
    HOURLY_COST,
    JSON,
    MAX_EPSILON,
    MECHANISM,
    ODDS,
    PURPOSE,
    SPAN,
    SUM_DELTA,
    USE,
    VIEWS,
    check_seed,
    choose_protection,
    clamp_in_ledger,
    parse_watts,
    refuse_contradictions,
    refuse_without_views,
    takes_home,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json, print_sentences
from hushmeter.errors import InputError
from hushmeter.formatting import count_of

if TYPE_CHECKING:
    from hushmeter.advice.hiding import Plan
    from hushmeter.home import Home
    from hushmeter.privacy.units import Unit
    from hushmeter.read import ReadOptions, Recording
    from hushmeter.releases.calendar_release import CalendarRelease
    from hushmeter.releases.series import Release
    from hushmeter.releases.storage import EarlierRelease
    from hushmeter.trace import Trace


@takes_reader_options()
@takes_home(required=False)
def release(
    context: typer.Context,
    *,
    file: Annotated[Path, FILE],
    home: Home | None,
    hide: Annotated[str | None, HIDE] = None,
    odds: Annotated[float, ODDS] = 0.6,
    purpose: Annotated[str | None, PURPOSE] = None,
    epsilon: Annotated[str | None, EPSILON] = None,
    mechanism: Annotated[str, MECHANISM] = "laplace",
    protect: Annotated[
        str | None,
        typer.Option(help="appliance (default), fluctuation (the paper), range or change."),
    ] = None,
    appliance: Annotated[str | None, APPLIANCE] = None,
    span: Annotated[str | None, SPAN] = None,
    use: Annotated[str | None, USE] = None,
    every: Annotated[str | None, EVERY] = None,
    views: Annotated[bool, VIEWS] = False,
    hourly_cost: Annotated[float, HOURLY_COST] = 1.1,
    sensitivity: Annotated[
        str | None,
        typer.Option(help="Protect any change of this number of watts; needs no home."),
    ] = None,
    clamp: Annotated[str | None, CLAMP] = None,
    grid: Annotated[str, GRID] = "1",
    delta: Annotated[float, SUM_DELTA] = 1e-6,
    max_epsilon: Annotated[float, MAX_EPSILON] = 20.0,
    engine: Annotated[str, typer.Option(help="table, or opendp for Laplace.")] = "table",
    accept_learnt: Annotated[
        bool,
        typer.Option(
            "--accept-learnt",
            help="Accept numbers of the home that were learnt from these readings.",
        ),
    ] = False,
    sign: Annotated[
        Path | None, typer.Option(help="Sign the receipt with this Ed25519 private key.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Pay in this ledger: sqlite:///file.db or postgresql://…")
    ] = None,
    ledger_meter: Annotated[
        str | None, typer.Option(help="Name of the meter in the ledger; needed with --ledger.")
    ] = None,
    stream: Annotated[str, typer.Option(help="Name of the series of the meters.")] = "load",
    seed: Annotated[
        int | None, typer.Option(help="Simulate with this seed; never publish the result.")
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="Released .csv, .parquet, .xml (Green Button) or .h5 (NILMTK)."
        ),
    ],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Add exact private noise to a file of readings and write the result with its receipts.

    With --hide you state what nobody should be able to tell. The noise, its ε and the length of the
    released values follow from the odds and from what the data is for. With -e you state ε
    yourself: it holds for the unit of protection, by default whether any one appliance of the home
    is on in one reading. OUTPUT.receipt.json is for the recipient; OUTPUT.private.json names
    appliances and compares the noise with your own use, and is for you alone. With --views OUTPUT
    is a folder with hours, days, the typical day, months and register values, each with its
    standard error; the unit is then one run unless --span names another. --views goes with --hide
    and with -e.

    Example: hushmeter release meter.csv --hide kettle --odds 60 --for hour -o shared.csv

    Example: hushmeter release meter.csv --hide kettle --views -o shared

    Example: hushmeter release meter.csv --home home.toml -e 1 --span run --every 30min -o out.csv
    """
    from hushmeter.advice.hiding import plan_to_hide
    from hushmeter.noise import clamped
    from hushmeter.noise.parameters import parse_clamp
    from hushmeter.privacy.units import calibrate, resolve_unit
    from hushmeter.read import read_recording
    from hushmeter.releases.series import release as release_trace
    from hushmeter.releases.storage import refuse_existing
    from hushmeter.releases.view_files import refuse_existing_views
    from hushmeter.releases.views import release_views
    from hushmeter.write import meter_format

    check_seed(seed)
    if views:
        refuse_existing_views(output, force)
    else:
        meter_format(output)
        refuse_existing(output, force)
    if (ledger is None) != (ledger_meter is None):
        raise InputError("--ledger and --ledger-meter belong together: give both, or neither.")
    refuse_contradictions(context, hide, epsilon)
    refuse_without_views(context, views)
    chosen = choose_protection(protect, sensitivity, home) if hide is None else ""
    bounds = clamp_in_ledger(ledger, None if clamp is None else parse_clamp(clamp))
    watts = None if sensitivity is None else parse_watts("sensitivity", sensitivity)
    recording = read_recording(file, options)
    trace = recording.trace
    metered: dict[str, Any] = {
        "interval_s": trace.interval_s,
        "every": every or ("1h" if views else None),
        "metering": trace.metering,
        "readings": len(trace),
        "zone": recording.public.zone or "UTC",
        "use": use,
    }
    plan = None
    promised: str | float = epsilon or ""
    form = _calendar_form(recording, metered["every"], hourly_cost) if views else {}
    if hide is not None:
        plan = plan_to_hide(
            hide,
            odds,
            purpose,
            home=home,
            span=span,
            delta=delta,
            only_best=True,
            **metered,
            **form,
        )
        _refuse_infeasible(plan)
        home, unit, promised = plan.home, plan.unit, plan.option.epsilon
    else:
        unit = resolve_unit(
            chosen,
            span or ("run" if views else "reading"),
            home=home,
            appliance=appliance,
            clamp=bounds,
            watts=watts,
            **metered,
        )
    done: Release | CalendarRelease
    if views:
        done = release_views(
            trace,
            epsilon=promised,
            delta=delta,
            unit=unit,
            home=home,
            zone=unit.zone,
            hourly_cost=hourly_cost,
            grid=grid,
            clamp=bounds,
            max_epsilon=max_epsilon,
            rng=seed,
            accept_learnt=accept_learnt,
        )
    else:
        noise = None if plan is None or plan.noise is None else clamped(plan.noise, bounds)
        noise = noise or calibrate(
            mechanism,
            promised,
            unit,
            delta=delta,
            grid=grid,
            clamp=bounds,
            max_epsilon=max_epsilon,
            engine=engine,
        )
        done = release_trace(
            trace, noise, unit, home=home, delta=delta, rng=seed, accept_learnt=accept_learnt
        )
    done = _with_own_use(done, plan, recording)
    account = None if ledger is None or ledger_meter is None else (ledger, ledger_meter, stream)
    files, warnings = _write(done, recording.trace, unit, output, force, sign, account)
    _report(done, plan, recording, warnings, files, json)


def _calendar_form(recording: Recording, every: str, hourly_cost: float) -> dict[str, Any]:
    """The part of a plan that asks for a calendar release; it uses the times of the readings."""
    from hushmeter.advice.planner import calendar_of
    from hushmeter.checks import seconds

    trace = recording.trace
    calendar = calendar_of(trace, trace.interval_s, recording.public.zone or "UTC", every)
    if calendar is None or calendar.cells.interval_s != seconds("every", every):
        raise InputError(
            f"a calendar release needs cells that divide a day, but {every} does not fit readings "
            f"of {trace.interval_s:g} s; choose another --every, or leave out --views."
        )
    return {"forms": ("calendar",), "calendar": calendar, "hourly_costs": (hourly_cost,)}


def _with_own_use(
    done: Release | CalendarRelease, plan: Plan | None, recording: Recording
) -> Release | CalendarRelease:
    """The release with sentences about the own use in its private receipt."""
    from hushmeter.advice.hiding import compare_plan, compare_with_use
    from hushmeter.advice.purposes import calendar_errors, series_errors
    from hushmeter.noise import parse_mechanism
    from hushmeter.releases.series import Release

    if plan is not None:
        local = compare_plan(plan, recording.trace)
    else:
        if isinstance(done, Release):
            described = done.receipt.mechanism
            noise = parse_mechanism({described["mechanism"]: dict(described["parameters"])})
            scale = done.receipt.unit.get("day_scale")
            errors = series_errors(noise, done.trace.interval_s, day_scale=scale)
        else:
            errors = calendar_errors(done.calendar, done.plan)
        own = compare_with_use(errors, recording.trace)
        local = (*own.sentences, *((HELP,) if own.loud else ()))
    assert done.private is not None
    private = replace(done.private, own_use=local)
    if isinstance(done, Release):
        return replace(done, private=private)
    return replace(done, private=private)


def _write(
    done: Release | CalendarRelease,
    metered: Trace,
    unit: Unit,
    output: Path,
    force: bool,
    sign: Path | None,
    account: tuple[str, str, str] | None,
) -> tuple[list[Path], list[str]]:
    """Pay for a release in an account (ledger, meter, stream), and write it.

    Return its files and the warnings.
    """
    from hushmeter.files import sha256_of
    from hushmeter.releases.storage import find_earlier_releases

    earlier = find_earlier_releases(output.parent, metered)
    warnings = _warnings(_public_receipt(done), earlier)
    if account is None:
        return done.save(output, force=force, signing_key=sign), warnings
    from hushmeter.releases.payment import pay_for_release

    ledger, meter, stream = account
    with pay_for_release(ledger, done, unit, meter=meter, stream=stream) as payment:
        files = done.save(output, force=force, signing_key=sign)
        # The receipt of a calendar release has the SHA-256 of all its files.
        stated = next((file for file in files if file.name == "receipt.json"), files[0])
        payment.written(sha256_of(stated))
    return files, [*warnings, payment.sentence]


def _public_receipt(done: Release | CalendarRelease) -> dict[str, Any]:
    """The public receipt as plain values."""
    return done.receipt if isinstance(done.receipt, dict) else done.receipt.to_dict()


HELP = (
    "What helps: longer means (such as --every 1d), a larger ε, or a smaller use (--hide kettle "
    "instead of -e)."
)
"""What to do if the noise of a chosen ε exceeds the own use."""


def _refuse_infeasible(plan: Plan) -> None:
    """Raise `InputError` if no release keeps the odds."""
    from hushmeter.advice.sentences import explain

    if not plan.advice.feasible:
        raise InputError(f"nothing was released: {explain(plan.advice)[0]}")


def _report(
    done: Release | CalendarRelease,
    plan: Plan | None,
    recording: Recording,
    warnings: list[str],
    files: list[Path],
    json: bool,
) -> None:
    """Print what was released, the notes of the reader and what to keep in mind."""
    from hushmeter.releases.series import Release

    assert done.private is not None
    errors = [] if isinstance(done, Release) else _mean_errors(done)
    if json:
        private = asdict(done.private)
        fields = {**_public_receipt(done), "private": private}
        if errors:
            fields["mean_standard_errors"] = {name: error for name, error, _ in errors}
        fields |= {
            "notes": list(recording.notes),
            "warnings": warnings,
            "files": [str(file) for file in files],
        }
        print_json(fields)
        return
    if plan is None:
        typer.echo(str(done))
        print_sentences(*done.private.own_use)
    else:
        print_sentences(*plan.promise, *done.private.own_use)
        public = done.receipt if isinstance(done, Release) else replace(done, private=None)
        typer.echo(str(public))
    if errors:
        sizes = ", ".join(
            f"{name.replace('-', ' ')} {error:.3g} {unit}" for name, error, unit in errors
        )
        print_sentences(f"Mean standard errors: {sizes}.")
    print_sentences(*(f"Note: {note}" for note in recording.notes), *warnings)
    print_files(files)


def _mean_errors(done: CalendarRelease) -> list[tuple[str, float, str]]:
    """Name, mean standard error and unit of every view."""
    return [(view.name, float(view.errors.mean()), view.unit) for view in done.views]


def _warnings(receipt: dict[str, Any], earlier: list[EarlierRelease]) -> list[str]:
    """Sentences about the origin of numbers, earlier releases and simulations."""
    sentences = []
    sources = [source for source in receipt["sources"] if source != "typed"]
    if sources:
        sentences.append(f"Numbers that calibrated the noise: {', '.join(sources)}.")
    if receipt["kind"] == "simulation":
        sentences.append("This is a simulation: its noise can be repeated. Do not publish it.")
    elif earlier:
        total = receipt["epsilon"] + sum(e.epsilon for e in earlier)
        names = ", ".join(
            f"{count_of(e.days, 'day')} in {e.path.name.removesuffix('.private.json')}"
            for e in earlier
        )
        sentences.append(
            f"These readings were released before ({names}): each further release of these "
            f"readings adds its ε. Together they have at most ε = {total:.4g} for a change that "
            "each of them protects."
        )
    return sentences
