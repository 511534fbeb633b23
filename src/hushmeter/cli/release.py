"""`hushmeter demo`, `release`, `verify`, `restore`, `audit`: make, check and use a release."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    FILE,
    FORCE,
    JSON,
    OPEN,
    check_seed,
    clamp_in_ledger,
    rare_option,
    takes_home,
    takes_reader_options,
    takes_request,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_list,
    print_sentences,
    print_table,
    progress_bar,
    show_activity,
)
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import format_two_digits

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise import AuditResult, Finding
    from hushmeter.read import ReadOptions, Recording
    from hushmeter.releases.promise import Promise
    from hushmeter.releases.release import Release
    from hushmeter.releases.request import Request
    from hushmeter.report.demo import Demo
    from hushmeter.trace import Trace

AUDITED_W = 10.0
"""The change that an audit protects if --sensitivity is not given [W]."""

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
            from hushmeter.releases.payment import save_paid

            files, payment = save_paid(ledger, done, output, signing_key=sign, **account)
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
    from hushmeter.releases.payment import finish_paid

    files, payment = finish_paid(ledger, promise, trace, output, **account)
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


def verify(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE|FOLDER", help="A release, or the folder of a fleet or of its sums."
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key (.pub) that must have signed the receipt.")
    ] = None,
    new_key: Annotated[
        str | None, typer.Option(help="Make a key pair NAME.key and NAME.pub to sign receipts.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Check a release against its receipt, or the folder of a fleet against its manifest.

    For a release: the SHA-256 of its files, the rows, every number and sentence of the receipt, the
    estimates of its tables and the signature. For a fleet: the SHA-256 and rows of every file, the
    promise and the charge, files that the manifest does not list, and the signature. The exit code
    is 1 if anything differs.

    Example: hushmeter verify out.csv --key publisher.pub
    """
    if (path is None) == (new_key is None):
        raise InputError("give a file or folder to check, or --new-key NAME to make a key pair.")
    if new_key is not None:
        from hushmeter.releases.verify import make_signing_key

        files = make_signing_key(new_key)
        if json:
            print_json({"files": [str(file) for file in files]})
        else:
            print_files(files)
        return
    from hushmeter.releases.verify import verify as verify_release

    assert path is not None
    found = verify_release(path, key=key)
    if json:
        facts = {"passed": found.passed, "checks": found.checks, "problems": found.problems}
        print_json({"path": str(path), **facts})
        if not found.passed:
            raise typer.Exit(1)
        return
    if not found.passed:
        print_sentences(*found.checks, *found.problems[:-1])
        raise DataError(found.problems[-1])
    print_sentences(*found.checks)


@takes_home(required=False)
def restore(
    *,
    released: Annotated[
        Path,
        typer.Argument(metavar="RELEASED", help="A released file, or a folder of --views."),
    ],
    home: Home | None,
    receipt: Annotated[
        Path | None, typer.Option(help="Its public receipt, if it is not beside the file.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key (.pub) that must have signed the receipt.")
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Restored .csv or .parquet.")
    ] = Path("restored.csv"),
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Estimate the loads behind a released file from the file and its public receipt alone.

    The distribution of the loads is estimated from all released values and the noise that the
    receipt states; each value becomes the mean of the load given what was released, with its
    standard deviation. This costs no privacy. The values are biased, so take sums and bills from
    the release; OUTPUT.restored.json marks the file. The receipt must verify. If you know the
    appliances (--home), they are used for values of up to one minute, which is more exact.

    Example: hushmeter restore out.csv -o restored.csv
    """
    from hushmeter.files import refuse_overwrite, table_format
    from hushmeter.releases.restore import NOTE, mark_path, restore_file

    table_format(output)
    for path in (output, mark_path(output)):
        refuse_overwrite(path, force)
    done = restore_file(released, home=home, receipt=receipt, key=key)
    files = done.save(output, force=force)
    mean = float(done.std.mean())
    if json:
        print_json(
            {
                "readings": len(done.trace),
                "mean_standard_deviation_w": mean,
                "source": done.source,
                "note": NOTE,
                "files": [str(file) for file in files],
            }
        )
        return
    print_sentences(
        f"{len(done.trace)} values were restored; their mean standard deviation is {mean:.3g} W.",
        NOTE,
    )
    print_files(files)


@takes_request("epsilon", "mechanism", "sensitivity", "delta", homes=False, epsilon="1")
def audit(
    *,
    request: Request,
    samples: Annotated[
        int, typer.Option(help="Number of releases of each of two inputs.")
    ] = 8_000_000,
    confidence: Annotated[float, typer.Option(help="Confidence of each bound.")] = 0.999,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit exactly.")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Release two inputs many times and compute a lower bound of the real ε.

    A bound above the claimed ε refutes the claim. Three broken mechanisms, noise of half the width,
    Laplace noise in floating point and noise that neighbouring readings share, must be caught;
    otherwise the audit has no power. The exit code is 1 if the claim is refuted or a broken
    mechanism is not caught. The protected change is one of 10 W unless --sensitivity states
    another.

    Example: hushmeter audit --mechanism staircase -e 0.5 --samples 400000
    """
    from hushmeter.noise import audit as run_audit
    from hushmeter.privacy.units import Metered

    check_seed(seed)
    noise = request.with_changes(watts=request.watts or AUDITED_W).resolve(Metered(1.0)).noise
    with show_activity(f"releasing two inputs {samples} times", quiet=json):
        result = run_audit(noise, samples, seed, confidence)
    if json:
        print_json(result.describe())
    else:
        _report_noise(result)
    if not result.passed:
        raise typer.Exit(1)


def _report_noise(result: AuditResult) -> None:
    """Print the bounds of the mechanism and of the broken ones."""
    claim = f"ε = {result.epsilon:g}" + (f", δ = {result.delta:g}" if result.delta else "")
    print_table(
        f"Audit of {result.mechanism}, {claim}, at {result.confidence:.1%} confidence",
        ("noise", "ε is at least", "because of the event", "result"),
        [
            _row("as released", result.finding, result.epsilon, broken=False),
            _row("in pairs", result.pairs, result.epsilon, broken=False),
            _row("half the width", result.halved_scale, result.epsilon, broken=True),
            _row("floating point", result.float_laplace, result.epsilon, broken=True),
            _row("shared by pairs", result.shared_noise, result.epsilon, broken=True),
        ],
    )
    print_sentences("The claim was not refuted." if result.passed else "The audit failed.")


def _row(name: str, finding: Finding, epsilon: float, *, broken: bool) -> tuple[str, ...]:
    """One row of the table of bounds."""
    refuted = finding.epsilon_lower > epsilon
    words = {
        (False, False): "within the claim",
        (False, True): "CLAIM REFUTED",
        (True, True): "broken, and caught",
        (True, False): "BROKEN, NOT CAUGHT",
    }
    return name, f"{finding.epsilon_lower:.4f}", finding.event, words[broken, refuted]


FEWEST_DAYS = 21
"""Days that the picture and the habits of a household need."""


def demo(
    days: Annotated[int, typer.Option(help="Number of days of the household.")] = 56,
    seed: Annotated[int, typer.Option(help="Seed of the household and of the noise.")] = 2,
    show: Annotated[bool, OPEN] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the page and its data.")
    ] = Path("demo-report"),
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show what eight weeks of a simulated household reveal, and what is left after a release.

    The readings are released in two ways: as exact days, which hide when people get up, and as
    hours with noise, which hide a kettle. The folder contains the page, the readings, both
    releases with their receipts, and the picture with its data.

    Example: hushmeter demo -o demo-report --open
    """
    import webbrowser

    from hushmeter.checks import whole
    from hushmeter.files import refuse_overwrite
    from hushmeter.report.demo import METER, PAGE, WISHES, make_demo

    whole("days", days, least=FEWEST_DAYS)
    check_seed(seed)
    for name in (PAGE, METER, *WISHES):
        refuse_overwrite(output / name, force)
    with show_activity("starting", quiet=json) as note:
        made = make_demo(output, days=days, seed=seed, force=force, note=note)
    if json:
        _print_demo_json(made)
    else:
        _print_demo(made)
    if show:
        webbrowser.open(made.page.resolve().as_uri())


def _print_demo_json(made: Demo) -> None:
    """Print what is left of every statement in each release, and the files, as JSON."""
    shared = [
        {
            "hide": one.wish,
            "sentences": one.release.promise.sentences,
            "month": one.month,
            "left": [asdict(statement) for statement in one.left],
        }
        for one in made.shared
    ]
    print_json({"days": made.days, "shared": shared, "files": made.files})


def _print_demo(made: Demo) -> None:
    """Print what the readings show, what is left of it, and what it costs."""
    names = [one.folder.name for one in made.shared]
    print_list(
        f"What {made.days} days of half hours of a simulated household reveal, and what is left of "
        f"it in {' and in '.join(names)}:",
        [
            f"{before} "
            f"({'; '.join(f'{n}: {one.verdict}' for n, one in zip(names, found, strict=True))})"
            for before, found in made.rows
        ],
    )
    for one in made.shared:
        typer.echo(f"\n{one.folder.name}: {one.command}")
        print_sentences(*one.release.promise.sentences, f"A month: {one.month}.")
    typer.echo(_next_steps(made.page))


def _next_steps(page: Path) -> str:
    """Return the path of the page and the commands to try with the files of the demo."""
    from importlib.util import find_spec
    from shutil import which

    from hushmeter.report.demo import METER, ZONE

    lines = ["", f"The page: {page.resolve()}", "Open it in a browser. What to try next:"]
    if which("hushmeter") is None:
        lines.append(f"  . {Path(sys.executable).parent / 'activate'}")
    meter = page.parent / METER
    lines += [
        f"  hushmeter inspect {meter} --tz {ZONE}",
        f"  hushmeter advise {meter} --tz {ZONE} --hide kettle",
    ]
    if find_spec("fastapi") is None:
        lines.append('  pip install ".[web]"')
    return "\n".join([*lines, "  hushmeter serve --open"])
