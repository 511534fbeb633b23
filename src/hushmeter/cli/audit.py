"""`hushmeter audit`: does the noise keep its promise?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import DELTA, EPSILON, JSON, MECHANISM, check_seed
from hushmeter.cli.output import print_json, print_sentences, print_table, show_activity

if TYPE_CHECKING:
    from hushmeter.noise.audit import AuditResult, Finding


def audit(
    epsilon: Annotated[str, EPSILON] = "1",
    mechanism: Annotated[str, MECHANISM] = "laplace",
    sensitivity: Annotated[str, typer.Option(help="The protected change in watts.")] = "10",
    delta: Annotated[float, DELTA] = 1e-6,
    samples: Annotated[int, typer.Option(help="Releases of each of two inputs.")] = 8_000_000,
    confidence: Annotated[float, typer.Option(help="Of each bound.")] = 0.999,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit exactly.")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Release two inputs many times and bound the real ε from below.

    A bound above the claim refutes it. Two broken mechanisms, noise of half the width and
    Laplace noise in floating point, must be caught, or the audit itself is worthless. Exit code 1
    if the claim is refuted or a control slips through.

    Example: hushmeter audit --mechanism staircase -e 0.5
    """
    from hushmeter.checks import one_of
    from hushmeter.noise import Gaussian, Laplace, Mechanism, Staircase
    from hushmeter.noise.audit import audit as run_audit
    from hushmeter.noise.mechanism import MECHANISMS

    one_of("mechanism", mechanism, MECHANISMS)
    check_seed(seed)
    if mechanism == "gaussian":
        noise: Mechanism = Gaussian(epsilon, delta, sensitivity)
    else:
        law = Laplace if mechanism == "laplace" else Staircase
        noise = law(epsilon, sensitivity)
    with show_activity(f"releasing two inputs {samples} times", quiet=json):
        result = run_audit(noise, samples, seed, confidence)
    if json:
        print_json(result.describe())
    else:
        _report(result)
    if not result.passed:
        raise typer.Exit(1)


def _report(result: AuditResult) -> None:
    claim = f"ε = {result.epsilon:g}" + (f", δ = {result.delta:g}" if result.delta else "")
    print_table(
        f"Audit of {result.mechanism}, {claim}, at {result.confidence:.1%} confidence",
        ("noise", "ε is at least", "because of the event", "verdict"),
        [
            _row("as released", result.finding, result.epsilon, broken=False),
            _row("half the width", result.halved_scale, result.epsilon, broken=True),
            _row("floating point", result.float_laplace, result.epsilon, broken=True),
        ],
    )
    print_sentences("The claim stands." if result.passed else "The audit failed.")


def _row(name: str, finding: Finding, epsilon: float, *, broken: bool) -> tuple[str, ...]:
    refuted = finding.epsilon_lower > epsilon
    words = {
        (False, False): "within the claim",
        (False, True): "CLAIM REFUTED",
        (True, True): "broken, and caught",
        (True, False): "BROKEN, NOT CAUGHT",
    }
    return name, f"{finding.epsilon_lower:.4f}", finding.event, words[broken, refuted]
