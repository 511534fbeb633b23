"""`hushmeter audit`: bound the real ε of a mechanism from below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    JSON,
    check_seed,
    takes_request,
)
from hushmeter.cli.output import (
    print_json,
    print_sentences,
    print_table,
    show_activity,
)

if TYPE_CHECKING:
    from hushmeter.noise import AuditResult, Finding
    from hushmeter.releases.request import Request


AUDITED_W = 10.0
"""The change that an audit protects if --sensitivity is not given [W]."""


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
