"""`hushmeter audit`: tests of the noise, and of the promise for a file of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    JSON,
    NO_HOME,
    check_seed,
    takes_reader_options,
    takes_request,
)
from hushmeter.cli.output import print_json, print_sentences, print_table, show_activity
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.noise.audit import AuditResult, Finding
    from hushmeter.read import ReadOptions
    from hushmeter.releases.neighbours import FileAudit
    from hushmeter.releases.request import Request


REQUEST = (
    "epsilon", "mechanism", "appliance", "span", "every", "views", "table", "sensitivity", "delta",
)  # fmt: skip
WATTS = 10.0
"""The protected change if neither --sensitivity nor --file is given."""


@takes_reader_options()
@takes_request(*REQUEST, epsilon="1")
def audit(
    *,
    file: Annotated[
        Path | None,
        typer.Option(help="Check the promise for this file of readings instead of the noise."),
    ] = None,
    request: Request,
    samples: Annotated[
        int, typer.Option(help="Number of releases of each of two inputs.")
    ] = 8_000_000,
    confidence: Annotated[float, typer.Option(help="Confidence of each bound.")] = 0.999,
    pairs: Annotated[
        int, typer.Option(help="With --file: neighbouring files for each appliance.")
    ] = 20,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit exactly.")] = None,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Release two inputs many times and compute a lower bound of the real ε.

    A bound above the claimed ε refutes the claim. Two broken mechanisms, noise of half the width
    and Laplace noise in floating point, must be caught; otherwise the audit has no power. The exit
    code is 1 if the claim is refuted or a broken mechanism is not caught. The protected change is
    one of 10 W unless --sensitivity states another.

    With --file and --home, it writes the file as the meter, its registers, the plugs and the
    portal would have written it with one more run (or reading, or day) of an appliance. It reads
    all versions and checks that times, interval, gaps and notes are equal and that the readings
    differ by no more than a release would declare; with --views and --table also the sums of every
    table. It names the columns that it did not change.

    Example: hushmeter audit --file meter.csv --home home.toml --span run --every 30min
    """
    check_seed(seed)
    if file is not None:
        _audit_file(file, request, pairs, seed, json, options)
    else:
        _audit_noise(request, samples, confidence, seed, json)


def _audit_file(
    file: Path, request: Request, pairs: int, seed: int | None, json: bool, options: ReadOptions
) -> None:
    """Check the promise for neighbouring versions of a file and print what was tried."""
    from hushmeter.releases.neighbours import audit_file

    if request.home is None:
        raise InputError(NO_HOME)
    # The noise does not matter; Gaussian noise allows for the coarsest registers.
    request = request.with_changes(span=request.span or "run", mechanism="gaussian")
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
    request: Request, samples: int, confidence: float, seed: int | None, json: bool
) -> None:
    """Audit the noise of a request for one value and print the bounds."""
    from hushmeter.noise.audit import audit as run_audit
    from hushmeter.privacy.meters import Metered

    change = {"watts": request.watts or WATTS, "home": None, "appliance": None, "tables": ()}
    noise = request.with_changes(**change, span="reading", every=None).resolve(Metered(1.0)).noise
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
