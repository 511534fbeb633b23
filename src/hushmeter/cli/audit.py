"""`hushmeter audit`: tests of the noise, and of the promise for a file of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    APPLIANCE,
    DELTA,
    EPSILON,
    EVERY,
    JSON,
    MECHANISM,
    NO_HOME,
    SPAN,
    check_seed,
    takes_home,
    takes_reader_options,
)
from hushmeter.cli.output import print_json, print_sentences, print_table, show_activity
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.audit import AuditResult, Finding
    from hushmeter.read import ReadOptions
    from hushmeter.releases.neighbours import FileAudit


@takes_reader_options()
@takes_home(required=False)
def audit(
    *,
    file: Annotated[
        Path | None,
        typer.Option(help="Check the promise for this file of readings instead of the noise."),
    ] = None,
    home: Home | None,
    epsilon: Annotated[str, EPSILON] = "1",
    mechanism: Annotated[str, MECHANISM] = "laplace",
    appliance: Annotated[str | None, APPLIANCE] = None,
    span: Annotated[str, SPAN] = "run",
    every: Annotated[str | None, EVERY] = None,
    sensitivity: Annotated[str, typer.Option(help="The protected change in watts.")] = "10",
    delta: Annotated[float, DELTA] = 1e-6,
    samples: Annotated[
        int, typer.Option(help="Number of releases of each of two inputs.")
    ] = 8_000_000,
    confidence: Annotated[float, typer.Option(help="Confidence of each bound.")] = 0.999,
    pairs: Annotated[
        int, typer.Option(help="With --file: neighbouring files for each appliance.")
    ] = 20,
    views: Annotated[
        bool, typer.Option("--views", help="With --file: also the tables of a calendar release.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit exactly.")] = None,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Release two inputs many times and compute a lower bound of the real ε.

    A bound above the claimed ε refutes the claim. Two broken mechanisms, noise of half the width
    and Laplace noise in floating point, must be caught; otherwise the audit has no power. The exit
    code is 1 if the claim is refuted or a broken mechanism is not caught.

    With --file and --home, it writes the file as the meter, its registers, the plugs and the
    portal would have written it with one more run (or reading, or day) of an appliance. It reads
    all versions and checks that times, interval, gaps and notes are equal and that the readings
    differ by no more than a release would declare; with --views also the hours, days, hours of the
    day and totals of a calendar release. It names the columns that it did not change.

    Example: hushmeter audit --file meter.csv --home home.toml --span run --every 30min
    """
    check_seed(seed)
    if file is not None:
        if home is None:
            raise InputError(NO_HOME)
        _audit_file(file, home, appliance, span, every, pairs, views, seed, json, options)
        return
    _audit_noise(epsilon, mechanism, sensitivity, delta, samples, confidence, seed, json)


def _audit_file(
    file: Path,
    home: Home,
    appliance: str | None,
    span: str,
    every: str | None,
    pairs: int,
    views: bool,
    seed: int | None,
    json: bool,
    options: ReadOptions,
) -> None:
    """Check the promise for neighbouring versions of a file and print what was tried."""
    from hushmeter.releases.neighbours import audit_file
    from hushmeter.releases.request import Request

    tables = ("views",) if views else ()
    # The noise does not matter; Gaussian noise allows for the coarsest registers.
    request = Request(
        epsilon=1,
        home=home,
        span=span,
        appliance=appliance,
        every=every,
        tables=tables,
        mechanism="gaussian",
    )
    with show_activity("comparing neighbouring files", quiet=json):
        found = audit_file(file, request, pairs=pairs, options=options, rng=seed)
    if json:
        print_json({**vars(found), "passed": found.passed})
    else:
        _report_file(file, found)
    if not found.passed:
        raise typer.Exit(1)


def _report_file(file: Path, found: FileAudit) -> None:
    """Print what was tried and every violation."""
    print_sentences(
        f"{file}: {found.format}; the unit is {found.unit}.",
        *(f"Tried: {entry}." for entry in found.tried),
        *found.problems[:10],
    )
    if found.refused:
        print_sentences(
            f"In {found.refused} pairs one version was refused, so that nothing of it would be "
            "published."
        )
    if found.not_changed:
        print_sentences(
            f"Not changed: columns {', '.join(found.not_changed[:12])}; if a run changes them, the "
            "audit does not cover it."
        )
    if found.passed:
        print_sentences(
            f"In all {found.pairs} pairs times, interval, gaps and notes were equal, and the "
            f"readings differed by at most {found.largest_share:.0%} of the declared Δ1."
        )
    else:
        print_sentences(f"The promise does not hold for this file: {len(found.problems)} findings.")


def _audit_noise(
    epsilon: str,
    mechanism: str,
    sensitivity: str,
    delta: float,
    samples: int,
    confidence: float,
    seed: int | None,
    json: bool,
) -> None:
    """Audit a mechanism and print the bounds."""
    from hushmeter.noise import Size, find_kind
    from hushmeter.noise.audit import audit as run_audit

    one_value = Size(sensitivity, sensitivity, sensitivity)
    noise = find_kind(mechanism).calibrated(epsilon, one_value, delta=delta)
    with show_activity(f"releasing two inputs {samples} times", quiet=json):
        result = run_audit(noise, samples, seed, confidence)
    if json:
        print_json(result.describe())
    else:
        _report_noise(result)
    if not result.passed:
        raise typer.Exit(1)


def _report_noise(result: AuditResult) -> None:
    """Print the bounds of the mechanism and of both broken ones."""
    claim = f"ε = {result.epsilon:g}" + (f", δ = {result.delta:g}" if result.delta else "")
    print_table(
        f"Audit of {result.mechanism}, {claim}, at {result.confidence:.1%} confidence",
        ("noise", "ε is at least", "because of the event", "result"),
        [
            _row("as released", result.finding, result.epsilon, broken=False),
            _row("half the width", result.halved_scale, result.epsilon, broken=True),
            _row("floating point", result.float_laplace, result.epsilon, broken=True),
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
