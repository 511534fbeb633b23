"""`hushmeter release`: readings with exact private noise, and their receipts."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    FILE,
    FORCE,
    JSON,
    check_seed,
    clamp_in_ledger,
    rare_option,
    takes_reader_options,
    takes_request,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_list,
    print_sentences,
    progress_bar,
)
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import format_two_digits
from hushmeter.parts import load

if TYPE_CHECKING:
    from hushmeter.read import ReadOptions, Recording
    from hushmeter.releases.promise import Promise
    from hushmeter.releases.release import Release
    from hushmeter.releases.request import Request
    from hushmeter.trace import Trace


PURPOSE_OF_VIEW = {
    "hours": "hour",
    "days": "day",
    "months": "month",
    "typical-day": "profile",
    "register": "register",
}
"""The purpose whose standard error `advise` states for a view."""


LARGER = 1.1
"""Largest standard error in a file, as a multiple of the stated one, from which it is printed."""


@takes_reader_options()
@takes_request()
def release(
    *,
    file: Annotated[Path, FILE],
    request: Request,
    sign: Annotated[
        Path | None, rare_option(help="Sign the receipt with this Ed25519 private key.")
    ] = None,
    ledger: Annotated[
        str | None, rare_option(help="Pay in this ledger: sqlite:///file.db or postgresql://…")
    ] = None,
    ledger_meter: Annotated[
        str | None, rare_option(help="Name of the meter in the ledger; needed with --ledger.")
    ] = None,
    stream: Annotated[str, rare_option(help="Name of the series of the meters.")] = "load",
    seed: Annotated[
        int | None, rare_option(help="Simulate with this seed; never publish the result.")
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Released .csv, .parquet, .xml (Green Button) or .h5 (NILMTK), or a folder for "
            "all views.",
        ),
    ],
    new: Annotated[
        bool, rare_option("--new", help="Release only times that are not released yet.")
    ] = False,
    despite: Annotated[
        bool, rare_option("--despite", help="Release despite earlier releases of the same time.")
    ] = False,
    again: Annotated[
        bool, rare_option("--again", help="Release a file that is itself a release.")
    ] = False,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Add exact private noise to a file of readings and write the result with its receipts.

    With --hide you state what nobody should be able to tell: an appliance, "when we get up",
    evenings, "which days we are away" or "that we are away". The noise and its ε follow from the
    odds and from what the data is for. If OUTPUT is a folder, it gets hours, days, the typical day
    and months with their standard errors, or those of them that hide the wish; OUTPUT.csv is one
    series. The receipt is for the recipient; OUTPUT.private.json names appliances and compares the
    noise with your own use, and is for you alone. With -e you state ε yourself: it holds for the
    unit of protection, by default whether any one appliance of the home is on in one reading, and
    with --views or --table over one run.

    Example: hushmeter release meter.csv --hide kettle -o shared

    Example: hushmeter release meter.csv --hide "when we get up" -o shared

    Example: hushmeter release meter.csv --home home.toml -e 1 --span run --every 30min -o out.csv
    """
    from hushmeter.advice.sentences import compare_promise
    from hushmeter.privacy.units import metered
    from hushmeter.read import read_recording
    from hushmeter.releases.files import (
        check_place,
        is_file_form,
        paid_folder,
        refuse_existing,
    )
    from hushmeter.releases.history import recorded, unreleased

    check_seed(seed)
    _refuse_own_input(file, output, again)
    unfinished = ledger is not None and paid_folder(output).exists()
    if not unfinished:
        refuse_existing(output, force)
    request.refuse_without_home()
    if (ledger is None) != (ledger_meter is None):
        raise InputError("--ledger and --ledger-meter belong together: give both, or neither.")
    request = request.with_changes(clamp=clamp_in_ledger(ledger, request.clamp))
    recording = read_recording(file, options)
    trace = recording.trace
    if new:
        trace = unreleased(trace, stream, output if unfinished else None)
    facts = metered(trace, recording.public.zone or "UTC")
    if not is_file_form(output):
        request = request.as_calendar(facts)
    promise = request.resolve(facts)
    check_place(promise, output)
    account: dict[str, Any] = {"meter": ledger_meter, "stream": stream, "force": force}
    if unfinished:
        _finish_interrupted(str(ledger), promise, trace, output, json, account)
        return
    done = promise.release(trace, rng=seed)
    assert done.private is not None
    own_use = compare_promise(request, promise, facts, trace)
    private = replace(done.private, own_use=own_use)
    done = replace(done, private=private, despite=despite)
    with recorded(private.to_dict(done.receipt), output, stream=stream, despite=despite) as earlier:
        warnings = [*_warnings(done), *earlier]
        if ledger is None or ledger_meter is None:
            files = done.save(output, force=force, signing_key=sign)
        else:
            pay = load("ledger.payment", "--ledger")
            files, payment = pay.save_paid(ledger, done, output, signing_key=sign, **account)
            warnings.append(payment.sentence)
    if json:
        _print_json(done, recording, warnings, files)
    else:
        _print(done, request, recording, warnings, files)
        _print_left(trace, promise)


def _finish_interrupted(
    ledger: str,
    promise: Promise,
    trace: Trace,
    output: Path,
    json: bool,
    account: dict[str, Any],
) -> None:
    """Publish a release that an earlier run of the same command has paid for, or was about to."""
    from hushmeter.files import receipt_path
    from hushmeter.releases.files import read_receipt

    files, payment = load("ledger.payment", "--ledger").finish_paid(
        ledger, promise, trace, output, **account
    )
    receipt = read_receipt(receipt_path(output))
    sentences = ["This finishes an earlier release; no day was charged twice.", payment.sentence]
    if json:
        shown = [str(file) for file in files]
        print_json({**receipt.to_dict(), "warnings": sentences, "files": shown})
    else:
        typer.echo(str(receipt))
        print_sentences(*sentences)
        print_files(files)


def _refuse_own_input(file: Path, output: Path, again: bool) -> None:
    """Refuse to replace the readings by their release, and to release a release unasked."""
    from hushmeter.releases.files import is_release

    source, target = file.resolve(), output.resolve()
    if source == target or source.is_relative_to(target):
        raise InputError(
            f"{output} holds the readings that are to be released; your only copy of them would be "
            "lost. Choose another output."
        )
    if not again and (is_release(file) or is_release(file.parent)):
        raise DataError(
            f"{file} is a release already: it has noise, and more noise makes it worse without "
            "hiding what it shows. Release the metered readings, or add --again."
        )


def _print_json(
    done: Release, recording: Recording, warnings: list[str], files: list[Path]
) -> None:
    """Print both receipts, the mean standard errors of the views and the notes as JSON."""
    assert done.private is not None
    fields = {
        **done.receipt.to_dict(),
        "sentences": done.promise.sentences,
        "private": asdict(done.private),
        "notes": list(recording.notes),
        "warnings": warnings,
        "files": [str(file) for file in files],
    }
    if done.promise.joint:
        fields["largest_standard_errors"] = {v.name: float(v.errors.max()) for v in done.views}
    print_json(fields)


def _print(
    done: Release, request: Request, recording: Recording, warnings: list[str], files: list[Path]
) -> None:
    """Print what was released, the notes of the reader and what to keep in mind."""
    from hushmeter.releases.receipt import receipt_lines

    assert done.private is not None
    if request.hide is None:
        typer.echo(str(done))
        print_sentences(*done.private.own_use)
    else:
        print_sentences(*done.promise.sentences, *done.private.own_use)
        typer.echo("\n".join(receipt_lines(done.receipt, brief=True)))
    if done.promise.joint:
        print_sentences(*_sizes(done))
    print_sentences(*(f"Note: {note}" for note in recording.notes), *warnings)
    print_files(files)


def _print_left(trace: Trace, promise: Promise) -> None:
    """Print which statements about the home the release leaves; for the household alone."""
    from hushmeter.threat import what_is_left

    with progress_bar("simulating releases") as advance:
        left = what_is_left(trace, promise, progress=advance)
    if left:
        print_list(
            "What is left of each statement about your home (measured on this computer, in no "
            "receipt):",
            [f"{one.before} {one.after}" for one in left],
        )


def _sizes(done: Release) -> list[str]:
    """The standard errors as `advise` states them, larger ones of the file, and one value."""
    from hushmeter.releases.purposes import PURPOSES

    if done.promise.exact:
        sentences = ["All sums are exact."]
    else:
        text = {"W": PURPOSES["hour"].text, "kWh": PURPOSES["day"].text}
        stated, larger = [], []
        for view in done.views:
            title, write, most = view.name.replace("-", " "), text[view.unit], view.errors.max()
            purpose = PURPOSE_OF_VIEW.get(view.name)
            usual = done.promise.errors.of(purpose) if purpose else None
            if usual is not None:
                stated.append(f"{title} {write(usual)}")
            if usual is None or most > LARGER * usual:
                larger.append(f"{title} {write(float(most))}")
        sentences = [
            f"{what}: {', '.join(sizes)}."
            for what, sizes in (
                ("Standard errors in a month of 30 days", stated),
                ("Largest standard errors in this file", larger),
            )
            if sizes
        ]
    for name in ("months", "days"):
        if name in done.view_names:
            view = done.view(name)
            # The first complete one.
            row = int(view.labels["cells"].argmax())
            error = "" if done.promise.exact else f" ± {format_two_digits(view.errors[row])}"
            when = view.labels[name.removesuffix("s")][row]
            return [*sentences, f"For example, {when}: {view.values[row]:.1f}{error} kWh."]
    return sentences


def _warnings(done: Release) -> list[str]:
    """Sentences about the origin of numbers and simulations."""
    sentences = []
    sources = [source for source in done.receipt.sources if source != "typed"]
    if sources:
        named = ", ".join(source.replace("catalogue", "the catalogue") for source in sources)
        sentences.append(f"The sizes that decide the noise are from: {named}.")
    if done.kind == "simulation":
        sentences.append("This is a simulation: its noise can be repeated. Do not publish it.")
    return sentences
